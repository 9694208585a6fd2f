"""Test labels, audits and reviews exchanged as Label Studio and Argilla files, from the command to the warehouse."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.builds.small_builds import SmallBuilds
from support.commands.command import Factmill, Ran

from factmill.tasks.storage.warehouse import open_warehouse


@pytest.fixture(scope="module")
def evaluated(factmill: Factmill, small_builds: SmallBuilds, tmp_path_factory: pytest.TempPathFactory) -> Path:
    warehouse = tmp_path_factory.mktemp("tools") / "w.duckdb"
    small_builds.copy("slaq", warehouse)
    assert factmill("evaluate", "slaq", "--model", "oracle", "--warehouse", warehouse).code == 0
    return warehouse


def answer_tasks(path: Path, form: str, people: Mapping[Any, Sequence[Mapping[str, str]]]) -> Path:
    """Write the tool's export of a file, with a byte order mark.

    `people` maps a person to the question and the choice of each task, in order.
    """
    tasks = json.loads(path.read_text("utf-8"))
    for who, answers in people.items():
        for task, given in zip(tasks, answers, strict=True):
            if form == "argilla":
                for question, answer in given.items():
                    task["responses"].setdefault(question, []).append({"value": answer, "user_id": who})
            else:
                result = [
                    {"from_name": name, "type": "choices", "value": {"choices": [answer]}}
                    for name, answer in given.items()
                ]
                task.setdefault("annotations", []).append({"completed_by": who, "result": result})
    back = path.with_name(f"back-{path.name}")
    back.write_text("\ufeff" + json.dumps(tasks, indent=1), "utf-8", newline="\r\n")
    return back


def run(factmill: Factmill, warehouse: Path, *arguments: str | Path, code: int = 0) -> Ran:
    ran = factmill(*arguments, "--warehouse", warehouse)
    assert ran.code == code, ran.err or ran.out
    return ran


@pytest.mark.parametrize("form", ["label-studio", "argilla"])
def test_labels_of_two_people_yield_agreement(factmill: Factmill, evaluated: Path, tmp_path: Path, form: str) -> None:
    to = tmp_path / "tasks.json"
    label = (factmill, evaluated, "label")
    out = run(*label, "latest:slaq_evaluation", "--to", to, "--form", form, "--n", "8", "--seed", str(len(form))).out
    assert f"set the project or dataset up with {tmp_path}" in out
    text = "".join(path.read_text("utf-8").lower() for path in tmp_path.iterdir())
    assert not [name for name in ("oracle", "exact", "verdict", "short |") if name in text]
    again = run(*label, "latest:slaq_evaluation", "--to", to, "--form", form, code=1)
    assert "the file exists and may hold labels" in again.err
    ones = [{"label": "1"}] * 8
    back = answer_tasks(to, form, {7: ones, 8: [*ones[:6], {"label": "0"}, {"label": "2"}]})
    ran = run(*label, "--from", back, code=1)
    who = ("user 7", "user 8") if form == "label-studio" else ("7", "8")
    assert f"{back}: 15 labels by {who[0]}, {who[1]} imported" in ran.out
    assert f"the label by {who[1]} is '2'" in ran.out or "the label is '2'; expected one of 1, 0" in ran.out
    assert "slaq: 2 people; they agree on 6 of 7 items with several labels" in ran.out
    card = run(
        factmill, evaluated, "judge-card", "--judge", "exact", "--labels", answer_tasks(to, form, {7: ones}), "--json"
    )
    assert card.json["cards"][0]["overall"]["n"] == 8
    text = to.read_text("utf-8")
    to.write_text(text.replace('"answer": "', '"answer": "other '), "utf-8")
    changed = run(*label, "--from", answer_tasks(to, form, {7: ones}), code=2)
    assert "no usable label" in changed.err and "what was shown is not what factmill wrote" in changed.err


@pytest.mark.parametrize("form", ["label-studio", "argilla"])
def test_audits_and_reviews_import_from_both_labelling_tools(
    factmill: Factmill, small_builds: SmallBuilds, tmp_path: Path, form: str
) -> None:
    warehouse = tmp_path / "w.duckdb"
    build = small_builds.copy("slaq", warehouse)
    to = tmp_path / "audit.json"
    audit = (factmill, warehouse, "audit", "slaq", "--build", build)
    run(*audit, "--rows", "2", "--to", to, "--form", form)
    marks = {"faulty_pairs": "3", "restating": "0"}
    back = answer_tasks(to, form, {"ada": [marks, {"faulty_pairs": "9", "restating": "0"}]})
    ran = run(*audit, "--from", back, code=1)
    assert f"{back}: 1 verdicts imported" in ran.out and "faulty_pairs: 50.0%" in ran.out
    assert "unreadable: back-audit.json, " in ran.out and "expected one of 0, 1, 2, 3, 4, 5, 6; correct it" in ran.out
    nameless = answer_tasks(to, form, {"" if form == "argilla" else None: [marks, marks]})
    assert (
        "the answer names no person; say who it was with --reviewer NAME" in run(*audit, "--from", nameless, code=1).out
    )
    assert "2 verdicts imported" in run(*audit, "--from", nameless, "--reviewer", "cyd").out


@pytest.mark.parametrize("form", ["label-studio", "argilla"])
def test_decisions_on_flagged_rows_import_from_both_labelling_tools(
    factmill: Factmill, tmp_path: Path, form: str
) -> None:
    warehouse, to = tmp_path / "w.duckdb", tmp_path / "queue.json"
    run(factmill, warehouse, "build", "slaq", "--categories", "Software engineering", "--review", "manual")
    run(factmill, warehouse, "review", "latest:slaq", "--to", to, "--form", form)
    items = json.loads(to.read_text("utf-8"))
    assert items
    back = answer_tasks(to, form, {"ada": [{"decision": "keep"}] * len(items)})
    out = run(factmill, warehouse, "review", "--from", back).out
    assert f"{len(items)} decisions imported, 0 items are still open" in out
    with open_warehouse(warehouse) as db:
        stored = [json.loads(item) for (item,) in db.execute("SELECT item FROM review_decisions").fetchall()]
    assert {(each["decision"], each["reviewer"]) for each in stored} == {("keep", "ada")}


def test_invalid_option_combinations_name_expected_usage(factmill: Factmill, evaluated: Path, tmp_path: Path) -> None:
    for command in ("label", "review"):
        both = run(factmill, evaluated, command, "latest:slaq", "--serve", "--to", tmp_path / "x.csv", code=2)
        assert f"expected factmill {command}" in both.err and "--serve to decide on a page" in both.err
        assert "expected factmill" in run(factmill, evaluated, command, "--serve", code=2).err
    assert (
        "expected one of --to FILE"
        in run(factmill, evaluated, "audit", "slaq", "--serve", "--to", tmp_path / "x.csv", code=2).err
    )
    assert "--serve needs --reviewer NAME" in run(factmill, evaluated, "audit", "slaq", "--serve", code=2).err
    form = run(factmill, evaluated, "audit", "slaq", "--to", tmp_path / "x.csv", "--form", "excel", code=2)
    assert "--form excel: expected one of csv, label-studio, argilla" in form.err
    assert not (tmp_path / "x.csv").exists()
