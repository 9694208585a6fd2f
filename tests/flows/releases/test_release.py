"""Test the five embedded builds as releases: loaded by other libraries, evaluated, and run by lm-evaluation-harness."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.builds.loading import check_loads
from support.commands.command import Factmill

import factmill as python
from factmill.tasks.granola.evaluation.definition import GRANOLA_EVALUATION
from factmill.tasks.options import RunOptions
from factmill.tasks.storage.table_store import TableStore

polars = pytest.importorskip("polars", reason="polars is not installed (extra dev)")
SPLITS = {"granola": 2, "multihal": 7, "biokalma": 4, "slaq": 2, "fanoutqa": 4}


@pytest.fixture(scope="module")
def released(factmill: Factmill, embedded_builds: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Release every benchmark with the command, and return the folder of releases."""
    folder = tmp_path_factory.mktemp("released")
    for name in SPLITS:
        ran = factmill("release", embedded_builds[name]["build_id"], "--to", folder / name, "--json")
        assert ran.code == 0, ran.err
        result = json.loads(ran.out)
        assert (result["build_id"], result["rows"]) == (
            embedded_builds[name]["build_id"],
            embedded_builds[name]["rows"],
        )
        assert result["notice"].startswith("No language model wrote these rows: scripted replies")
    return folder


def read_tables(folder: Path) -> Any:
    """Return the release's tables, with digest and number of rows of each."""
    return json.loads((folder / "release.json").read_text("utf-8"))["tables"]


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep `datasets` off the network and away from the user's cache."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.mark.parametrize("name", SPLITS)
def test_every_config_and_split_loads_in_every_library(released: Path, name: str) -> None:
    assert check_loads(released / name) == SPLITS[name]


@pytest.fixture(scope="module")
def stores(session_home: Path, embedded_builds: dict[str, Any]) -> dict[str, TableStore]:
    """Map each benchmark to its released build; other tests publish newer ones in the warehouse."""
    path = session_home / "factmill.duckdb"
    return {name: TableStore(path, embedded_builds[name]["build_id"]) for name in SPLITS}


def test_figures_from_release_equal_figures_from_warehouse(released: Path, stores: dict[str, TableStore]) -> None:
    for name, setting in (("granola", "greedy"), ("multihal", "qa"), ("slaq", "short")):
        found = [
            python.score(name, "guesser", source=source, setting=setting, limit=5).metrics
            for source in (released / name, stores[name])
        ]
        assert found[0].equals(found[1])


def test_evaluation_on_release_equals_evaluation_on_build(
    released: Path, stores: dict[str, TableStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factmill: Factmill
) -> None:
    """Run the card's own command in the release's folder, with an empty warehouse."""
    monkeypatch.chdir(released / "granola")
    (line,) = re.findall(
        r"^factmill (evaluate .* --model guesser)$", Path("README.md").read_text("utf-8"), re.MULTILINE
    )
    here = ("--limit", "5", "--setting", "greedy", "--warehouse", tmp_path / "w.duckdb", "--reports", tmp_path)
    result = factmill.get_json(*line.split(), *here)
    asked = python.score("granola", "guesser", source=stores["granola"], setting="greedy", limit=5).metrics
    values = zip(asked["id"].to_pylist(), asked["value"].to_pylist(), strict=True)
    assert {each["id"]: each["value"] for each in result["metrics"]} == dict(values)
    assert result["build_id"] == stores["granola"].build

    build, release = (
        GRANOLA_EVALUATION.resolve_inputs(
            GRANOLA_EVALUATION.params(model="guesser", **named), RunOptions(warehouse=path)
        )
        for named, path in (
            ({"build": stores["granola"].build}, stores["granola"].path),
            ({"release": "."}, tmp_path / "w.duckdb"),
        )
    )
    assert build.inputs.dump_for_manifest() == release.inputs.dump_for_manifest()


def test_questions_of_release_equal_questions_of_build(
    released: Path, factmill: Factmill, stores: dict[str, TableStore], tmp_path: Path
) -> None:
    """FanOutQA's dev questions keep their evidence.

    Their references are withheld, because they reveal test answers.
    """
    asked = []
    for name, given in (
        ("a", ("--release", released / "fanoutqa")),
        ("b", ("--build", stores["fanoutqa"].build, "--split", "dev")),
    ):
        ran = factmill("evaluate", "fanoutqa", "--setting", "evidence_provided", "--questions", tmp_path / name, *given)
        assert ran.code == 0, ran.err
        asked.append((tmp_path / name).read_text("utf-8"))
    assert asked[0] == asked[1]
    assert "revision" in asked[0]
    ran = factmill("evaluate", "fanoutqa", "--release", released / "fanoutqa", "--split", "test", "--model", "oracle")
    assert (ran.code, "factmill release --with-answers" in ran.err) == (2, True)


def test_incomplete_release_cannot_be_evaluated(released: Path, factmill: Factmill, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(released / "slaq", tmp_path / "slaq"))
    table = copy / "data" / "slaq" / "test.parquet"
    table.write_bytes(table.read_bytes().replace(b"PAR1", b"PAR2"))
    for given, said in (
        ((copy,), "files differ from the released ones: 'data/slaq/test.parquet'"),
        ((tmp_path / "none",), "none: folder not found"),
        ((tmp_path,), "no release.json); make a release with factmill release BUILD --to DIR"),
        ((released / "granola",), "is a release of granola; expected one of slaq"),
        ((copy, "--build", "latest:slaq"), "--build and --release both"),
    ):
        ran = factmill("evaluate", "slaq", "--model", "silent", "--release", *given)
        assert (ran.code, said in ran.err) == (2, True), ran.err


def test_card_code_loads_release(released: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(released / "biokalma")
    (code,) = re.findall(r"```python\n(.*?)```", Path("README.md").read_text("utf-8"), re.DOTALL)
    found: dict[str, Any] = {}
    exec(code, found)
    assert found["rows"].num_rows == read_tables(released / "biokalma")["biokalma"]["rows"]


def test_release_without_hidden_answers_measures_other_questions(released: Path, stores: dict[str, TableStore]) -> None:
    found = python.score("fanoutqa", "oracle", source=released / "fanoutqa", setting="closed_book")
    whole = python.score("fanoutqa", "oracle", source=stores["fanoutqa"], split="dev", setting="closed_book")
    assert found.metrics.equals(whole.metrics)
    assert "fanoutqa_test_answers" in found.notes["held out"]


def test_lm_eval_loads_tasks_from_release(released: Path) -> None:
    from lm_eval.tasks import TaskManager

    for name in SPLITS:
        manager = TaskManager(include_path=str(released / name / "lm_eval"), include_defaults=False)
        tasks = sorted({*manager.all_tasks} - {f"factmill_{name}"})
        (task,) = manager.load(tasks[:1])["tasks"].values()
        assert len(task.test_docs()) > 0
        if name == "fanoutqa":  # a question with a withheld answer is no task
            assert len(task.test_docs()) == read_tables(released / name)["fanoutqa_dev"]["rows"]


def test_repeated_release_has_same_bytes(
    released: Path, factmill: Factmill, embedded_build: Any, tmp_path: Path
) -> None:
    ran = factmill("release", embedded_build["build_id"], "--to", tmp_path / "again")
    assert ran.code == 0, ran.err
    assert (tmp_path / "again/SHA256SUMS").read_bytes() == (released / "granola/SHA256SUMS").read_bytes()
    assert "note: No language model wrote these rows: scripted replies" in ran.err


def test_evaluation_cannot_be_released(factmill: Factmill, embedded_build: Any, tmp_path: Path) -> None:
    build = embedded_build["build_id"]
    made = factmill(
        "evaluate", "granola", "--model", "silent", "--build", build, "--limit", "3", "--reports", tmp_path, "--json"
    )
    ran = factmill("release", made.json["evaluation_id"], "--to", tmp_path / "out")
    assert (ran.code, (tmp_path / "out").exists()) == (2, False)
    assert (
        "is a build of granola_evaluation, which cannot be released; expected a build of biokalma, fanoutqa, granola, multihal, slaq"
        in ran.err
    )
