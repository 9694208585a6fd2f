"""Test labels and judge cards end to end: the sheet hides verdicts; imported labels are compared with the judge."""

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.builds.small_builds import SmallBuilds
from support.commands.command import Factmill
from support.models.scripted_chat import Message, ScriptedChat, write_chat_world
from support.rows.csv_files import read_csv, write_csv

from factmill.tasks.storage.builds import load_published_table
from factmill.tasks.storage.warehouse import open_warehouse

MODEL = "model-of-secret-name"


@dataclass(frozen=True)
class Marked:
    """An evaluation scored by `exact` whose answers are right, wrong, reworded, or written as spreadsheet formulas."""

    factmill: Factmill
    warehouse: Path
    evaluation: str
    verdicts: Mapping[tuple[str, str], str]
    """Maps (question, answer) to the judge's verdict."""

    def __call__(self, *arguments: str | Path, code: int = 0, **environment: str) -> Any:
        ran = self.factmill(*arguments, "--warehouse", self.warehouse, **environment)
        assert ran.code == code, ran.err or ran.out
        return ran

    def export(self, to: Path, *options: str) -> list[dict[str, str]]:
        self("label", self.evaluation, "--to", to, *options)
        return read_csv(to)

    def fill(self, rows: Sequence[dict[str, str]], say: Callable[[dict[str, str], str], str]) -> list[dict[str, str]]:
        """Return rows with labels; `say` maps a row and the judge's verdict to a label."""
        return [row | {"label": say(row, self.verdicts[row["question"], row["answer"]])} for row in rows]


def plain(cell: str) -> str:
    return cell[1:] if cell.startswith("'") else cell


@pytest.fixture(scope="module")
def marked(factmill: Factmill, small_builds: SmallBuilds, tmp_path_factory: pytest.TempPathFactory) -> Marked:
    folder = tmp_path_factory.mktemp("labels")
    warehouse = folder / "w.duckdb"
    build_id = small_builds.copy("slaq", warehouse)
    with open_warehouse(warehouse) as db:
        topics = load_published_table(db, build_id, "slaq").to_pylist()
    draw, lines = random.Random(0), []
    for topic in topics:
        said = [
            topic[f"ShortA{number}"] if draw.random() < 0.8 else f"=SUM({number}) of {topic['Topic']}"
            for number in range(1, 6)
        ]
        lines += [{"id": f"{topic['id']}/{number}", "answer": each} for number, each in enumerate(said, 1)]
        lines.append({"id": f"{topic['id']}/long", "answer": "\n".join(said)})
    path = folder / f"{MODEL}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    result = factmill("evaluate", "slaq", "--answers", path, "--warehouse", warehouse, "--json")
    assert result.code == 0, result.err
    assert result.json["judge_card"].startswith("judge exact: not checked against human labels")
    with open_warehouse(warehouse) as db:
        rows = load_published_table(db, result.json["evaluation_id"], "slaq_answers").to_pylist()
    verdicts = {
        (question, row["answer_read"]): str(verdict)
        for row in rows
        for question, verdict in zip(row["questions"], row["verdicts"], strict=False)
    }
    return Marked(factmill, warehouse, result.json["evaluation_id"], verdicts)


def unguard(rows: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Return rows as a spreadsheet user sees them."""
    return [{name: plain(cell) for name, cell in row.items()} for row in rows]


def test_label_sheet_hides_model_judge_and_verdict(marked: Marked, tmp_path: Path) -> None:
    rows = marked.export(tmp_path / "a.csv", "--n", "40")
    assert list(rows[0]) == ["item", "question", "gold", "answer", "label", "note", "labels"]
    assert len(rows) == 40
    text = (tmp_path / "a.csv").read_text("utf-8").lower()
    assert not [name for name in (MODEL, "exact", "slaq", "short", "long/", "verdict") if name in text]
    assert all(row["label"] == row["note"] == "" for row in rows)
    assert len({row["labels"] for row in rows}) == 1 and "1: right" in rows[0]["labels"]
    assert all(re.fullmatch("q[0-9a-f]{12}", row["item"]) for row in rows)
    # neither the order nor the ids follow the verdict or the setting
    seen = unguard(rows)
    verdicts = [marked.verdicts[row["question"], row["answer"]] for row in seen]
    assert min(verdicts[:20].count("0"), verdicts[20:].count("0")) >= 5
    by_id = [verdict for _, verdict in sorted(zip([row["item"] for row in rows], verdicts, strict=True))]
    assert min(by_id[:20].count("0"), by_id[20:].count("0")) >= 5
    # rare verdicts are drawn until none are left or their quota is full
    assert 15 <= verdicts.count("0") <= 25
    assert not [cell for row in rows for cell in row.values() if cell[:1] in ("=", "+", "-", "@")]
    assert any(row["answer"].startswith("'=") for row in rows)


def test_label_sample_depends_on_seed_and_file_is_never_overwritten(marked: Marked, tmp_path: Path) -> None:
    rows = marked.export(tmp_path / "a.csv", "--n", "20")
    assert marked.export(tmp_path / "b.csv", "--n", "20") == rows
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    other = marked.export(tmp_path / "c.csv", "--n", "20", "--seed", "1")
    assert {row["question"] for row in other} != {row["question"] for row in rows}
    again = marked("label", marked.evaluation, "--to", tmp_path / "a.csv", code=1)
    assert "the file exists and may hold labels" in again.err
    all_of_it = marked.export(tmp_path / "d.csv", "--n", "100000")
    assert len(all_of_it) == len({(row["question"], row["answer"]) for row in all_of_it})
    wrong = marked("label", marked.evaluation, "--to", tmp_path / "e.csv", "--by", "colour", code=2)
    assert "--by colour: expected a column of slaq_answers: id, question_id" in wrong.err
    strata = marked("label", marked.evaluation, "--to", tmp_path / "f.csv", "--by", "half", "--json").json
    assert {name.split(" | ")[2] for name in strata["strata"]} == {"most", "least"}


def make_card(marked: Marked, path: Path, **environment: str) -> Any:
    (card,) = marked("judge-card", "--judge", "exact", "--labels", path, "--json").json["cards"]
    return card


def test_right_wrong_and_random_judges_get_matching_card_figures(marked: Marked, tmp_path: Path) -> None:
    rows = unguard(marked.export(tmp_path / "a.csv", "--n", "60"))
    right = make_card(marked, write_csv(tmp_path / "r.csv", marked.fill(rows, lambda _, verdict: verdict)))
    assert (right["overall"]["accuracy"], right["overall"]["kappa"], right["reweighted"]["accuracy"]) == (1, 1, 1)
    assert right["confusion"][0][1] == right["confusion"][1][0] == 0
    assert set(right["by_setting"]) == {"short", "long"}
    turn = {"0": "1", "1": "0"}
    wrong = make_card(marked, write_csv(tmp_path / "w.csv", marked.fill(rows, lambda _, verdict: turn[verdict])))
    assert (wrong["overall"]["accuracy"], wrong["reweighted"]["accuracy_low"]) == (0, 0)
    assert wrong["overall"]["kappa"] < -0.9
    draw = random.Random(1)
    chance = make_card(marked, write_csv(tmp_path / "c.csv", marked.fill(rows, lambda *_: draw.choice("01"))))
    # allow four standard errors: the drawn answers depend on the evaluation, and so on the code
    assert abs(chance["overall"]["kappa"]) < 0.5
    assert len({right["id"], wrong["id"], chance["id"]}) == 3
    one = make_card(marked, write_csv(tmp_path / "o.csv", marked.fill(rows, lambda *_: "1")))
    assert one["overall"]["kappa"] is None
    assert "people used a single label: there is no kappa" in one["notes"]
    few = make_card(marked, write_csv(tmp_path / "f.csv", marked.fill(rows[:8], lambda _, verdict: verdict)))
    assert any(note.startswith("8 labels are too few: ") for note in few["notes"])
    assert right["source"] == f"those of {marked.evaluation}"


def test_reweighted_accuracy_recovers_accuracy_of_all_answers(marked: Marked, tmp_path: Path) -> None:
    """Where people contradict only the verdict 0, the overall accuracy is the share of the verdict 1."""
    rows = unguard(marked.export(tmp_path / "a.csv", "--n", "30"))
    card = make_card(marked, write_csv(tmp_path / "b.csv", marked.fill(rows, lambda *_: "1")))
    everything = marked("label", marked.evaluation, "--to", tmp_path / "c.csv", "--json").json["strata"]
    sizes = {name: size for name, (_, size) in everything.items()}
    said = sum(size for name, size in sizes.items() if name.endswith("| 1")) / sum(sizes.values())
    assert card["reweighted"]["accuracy"] == pytest.approx(said, abs=1e-5)
    assert card["overall"]["accuracy"] == pytest.approx(0.5, abs=0.1)
    assert said > 0.6


CARELESS = [
    (3, {"label": ""}, "missing: 1 rows are not filled in: 5"),
    (4, {"label": "maybe"}, "unreadable: row 6: the label is 'maybe'; expected one of 1, 0"),
    (5, {"item": "q000000000000"}, "unknown: row 7: this warehouse has drawn no item 'q000000000000'"),
    (6, {"item": ""}, "unknown: row 8: the item is empty"),
    (7, {"gold": "another"}, "changed: row 9: the gold of {item} differs from the drawn one: 'another'"),
]


def test_label_mistakes_are_reported_by_row_and_valid_rows_are_used(marked: Marked, tmp_path: Path) -> None:
    rows = marked.fill(unguard(marked.export(tmp_path / "a.csv", "--n", "20")), lambda _, verdict: verdict)
    for at, changed, _ in CARELESS:
        rows[at] = rows[at] | changed
    rows[10]["label"] = f" {rows[10]['label']},00"
    turned = {"0": "1", "1": "0"}[rows[1]["label"]]
    rows += [dict(rows[0]), rows[1] | {"label": turned}]
    order = ["note", "label", "labels", "mood", "answer", "gold", "question", "item"]
    careless = [{name: row.get(name, "fine") for name in order} for row in rows]
    path = write_csv(tmp_path / "ada.csv", careless, ";", "utf-8-sig")
    result = marked("label", "--from", path, code=1).out
    for at, _, line in CARELESS:
        assert line.format(item=rows[at]["item"]) in result
    assert "doubled: rows 2 and 22: the same item has the same label by ada; it counts once" in result
    labels = f"{rows[1]['label']} and {turned}"
    assert f"contradicting: rows 3 and 23: the same item has different labels by ada: {labels}; none is used" in result
    assert f"{path}: 14 labels by ada imported\n" in result
    assert "6 drawn answers have no label yet" in result

    kept = [row for at, row in enumerate(rows[:20]) if at != 1 and at not in {at for at, *_ in CARELESS}]
    other = [row | {"label": "1"} for row in kept]
    second = marked("label", "--from", write_csv(tmp_path / "b.csv", other, "\t", "utf-16"), "--labeller", "Bo").out
    agreed = sum(row["label"].strip().startswith("1") for row in kept)
    assert f"slaq: 2 people; they agree on {agreed} of 14 items with several labels" in second
    assert "Bo used a single label: there is no kappa" in second
    changed = marked("label", "--from", write_csv(tmp_path / "b.csv", kept), "--labeller", "Bo").out
    assert f"14 labels by Bo imported, {14 - agreed} of them changed" in changed
    assert "agree on 14 of 14 items with several labels; Cohen's kappa 1.000" in changed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("item,label\n", "no usable label: the file has no rows below the header"),
        ("item,answer\nq1,x\n", "the column label is missing; expected the columns item and label"),
        ("question,answer,label\na,b,1\n", "the column gold is missing"),
        ("item,label,Label\nq1,1,0\n", "the column label appears twice"),
        ('item,label\nq1,"1\n', "quotation marks are unbalanced, or the file is cut off"),
        ("item,label\nq1,1,more\n", "row 2: 3 cells, expected 2"),
        ("item,label\nq1,1\n", "row 2: this warehouse has drawn no item 'q1'"),
        ("question,gold,answer,label\na,b,c,1\n", "the column item is missing"),
    ],
)
def test_file_without_labels_is_rejected_with_expected_format(
    marked: Marked, tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text, "utf-8")
    assert said in marked("label", "--from", path, code=2).err
    path.write_bytes("item,label\nq1,é".encode("latin-1"))
    assert "save it as CSV in UTF-8" in marked("label", "--from", path, code=2).err
    assert "no such file" in marked("label", "--from", tmp_path / "none.csv", code=2).err


def test_reports_and_evaluations_name_card_of_their_judge(marked: Marked, tmp_path: Path) -> None:
    rows = unguard(marked.export(tmp_path / "a.csv", "--n", "40"))
    # the largest number of labels in any test
    rows = unguard(marked.export(tmp_path / "all.csv", "--n", "500"))
    path = write_csv(tmp_path / "l.csv", marked.fill(rows, lambda _, verdict: verdict))
    card = make_card(marked, path)
    assert make_card(marked, path) == card
    marked("report", marked.evaluation, "--to", tmp_path / "r.json", "--to", tmp_path / "r.md")
    report = json.loads((tmp_path / "r.json").read_text("utf-8"))
    text = "checked judge: exact agrees with human labels on 100.0%"
    assert text in report["subjects"][0]["facts"]["Judge"]
    assert any(warning.startswith("Checked judge: exact") for warning in report["warnings"])
    assert f"n = {len(rows)}, labels SHA-256 {card['labels_digest'][:12]}" in (tmp_path / "r.md").read_text("utf-8")
    lines = marked("judge-card", "--judge", "exact", "--labels", path).out
    assert "weighted by stratum      100.0% [" in lines and "label 1" in lines and "people \\ judge" in lines


class Judge:
    """A judge that follows a rule and counts its requests."""

    def __init__(self, mark: Callable[[str], str]) -> None:
        self.asked = 0
        self._mark = mark
        self.chat = ScriptedChat(self._answer)

    def _answer(self, messages: Sequence[Message]) -> tuple[int, str]:
        self.asked += 1
        shown = next(each["content"] for each in reversed(messages) if "The mark is" in each["content"])
        return 200, self._mark(shown)


@pytest.fixture
def judge() -> Iterator[Judge]:
    found = Judge(lambda said: "Well." if "unclear" in said else f"Verdict: {int('Paris' in said.split('begins]')[1])}")
    yield found
    found.chat.close()


def test_judge_gets_each_user_question_once(marked: Marked, judge: Judge, tmp_path: Path) -> None:
    rows = [
        {"question": f"Capital of France, asked a {n}th time?", "gold": "Paris", "answer": answer, "label": label}
        for n, (answer, label) in enumerate([("It is Paris", "1"), ("Lyon", "0"), ("Lutetia", "1")] * 3)
    ]
    rows.append({"question": "unclear?", "gold": "x", "answer": "y", "label": "0"})
    path, world = (
        write_csv(tmp_path / "own.csv", rows),
        write_chat_world(tmp_path, judge.chat.url, ["judge"], "stern-1"),
    )
    asked = ("judge-card", "--judge", "judge", "--world", world, "--labels", path)
    assert "the benchmark is missing; expected one of fanoutqa, slaq, in" in marked(*asked, code=2, TEST_KEY="k").err
    ran = marked(*asked, "--benchmark", "slaq", "--json", TEST_KEY="k").json
    (card,) = ran["cards"]
    assert judge.asked == 11  # the unreadable reply is requested twice
    assert card["identity"]["judge"] == "stern-1"
    assert card["confusion"] == [[3, 3], [0, 3]]
    assert (card["n_unreadable"], card["overall"]["n"], card["reweighted"]) == (1, 9, None)
    assert (card["overall"]["accuracy"], card["overall"]["kappa"]) == (0.666667, 0.4)
    again = marked(*asked, "--benchmark", "slaq", "--mode", "replay", "--json", TEST_KEY="k").json
    assert again == ran
    assert judge.asked == 11
    exact = ("judge-card", "--judge", "exact", "--labels", path, "--benchmark", "slaq", "--json")
    assert marked(*exact).json["cards"][0]["confusion"] == [[3, 3], [0, 4]]


def test_judge_without_verdicts_on_answers_is_rejected_with_next_step(marked: Marked, tmp_path: Path) -> None:
    rows = marked.fill(unguard(marked.export(tmp_path / "a.csv", "--n", "5")), lambda _, verdict: verdict)
    path = write_csv(tmp_path / "l.csv", rows)
    # the embedded world's judge is no model: the program replaces it
    assert marked("judge-card", "--judge", "judge", "--labels", path, "--json").json["cards"][0]["overall"]["n"] == 5
    ran = marked("judge-card", "--judge", "gpt-9", "--labels", path, code=2)
    assert f"no evaluation has verdicts of gpt-9 on these answers, which were drawn from {marked.evaluation}" in ran.err
    assert "--judge gpt-9" in ran.err


def test_judge_card_corrects_biased_accuracy(factmill: Factmill, small_builds: SmallBuilds, tmp_path: Path) -> None:
    """The program knows no synonyms, so it rejects a third of the right answers; people accept them."""
    warehouse = tmp_path / "w.duckdb"
    build_id = small_builds.copy("slaq", warehouse)
    marked = Marked(factmill, warehouse, "", {})
    with open_warehouse(warehouse) as db:
        topics = load_published_table(db, build_id, "slaq").to_pylist()
    draw, lines, right = random.Random(5), [], 0
    for topic in topics:
        for number in range(1, 6):
            kind = draw.choices(["gold", "paraphrase", "nonsense", ""], [50, 25, 20, 5])[0]
            right += kind in ("gold", "paraphrase")
            said = topic[f"ShortA{number}"] if kind == "gold" else f"{kind} {draw.random()}" if kind else ""
            lines.append({"id": f"{topic['id']}/{number}", "answer": said})
    answers = tmp_path / "m.jsonl"
    answers.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    evaluate = ("evaluate", "slaq", "--answers", answers, "--setting", "short")
    before = marked(*evaluate, "--json").json
    assert before["corrected"] == []
    (raw,) = (
        each
        for each in before["metrics"]
        if (each["setting"], each["metric"], each["group"]) == ("short", "accuracy", "")
    )
    assert raw["ci_high"] < right / len(lines)

    marked("label", before["evaluation_id"], "--to", tmp_path / "l.csv", "--n", "60")
    rows = unguard(read_csv(tmp_path / "l.csv"))
    path = write_csv(tmp_path / "l.csv", [row | {"label": str(int("nonsense" not in row["answer"]))} for row in rows])
    card = make_card(marked, path)
    assert card["drawn_of"] == [before["evaluation_id"]]
    assert card["rates"]["short"]["sensitivity"] == pytest.approx(50 / 75, abs=0.2)
    assert card["rates"]["short"]["specificity"] == 1
    assert "setting short            sensitivity 0." in marked("judge-card", "--judge", "exact", "--labels", path).out

    after = marked(*evaluate, "--json").json
    (corrected,) = after["corrected"]
    assert after["metrics"] == before["metrics"]
    assert corrected["ci_low"] <= right / len(lines) <= corrected["ci_high"]
    assert corrected["value"] > raw["ci_high"]
    assert corrected["labels"] == len(rows)
    assert f"corrected for the judge's errors {corrected['value']:.3f} [" in marked(*evaluate).out
    written = [tmp_path / f"r.{form}" for form in ("html", "md", "json")]
    marked("report", before["evaluation_id"], *(each for path in written for each in ("--to", path)))
    assert json.loads(written[2].read_text("utf-8"))["corrected"] == [corrected]
    for path in written[:2]:
        text = path.read_text("utf-8")
        assert "corrected" in text and f"{corrected['value']:.3f}" in text and "specificity 1.000, on " in text
    marked("report", "all", "--to", tmp_path / "card.md")
    assert f"corrected {corrected['value']:.3f} (" in (tmp_path / "card.md").read_text("utf-8")
