"""Test that `import factmill` gives the command's figures."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import ROOT, Factmill

import factmill as api
from factmill.flows.evaluate.evaluations import EVALUATIONS
from factmill.tasks.errors import SourceError, UnknownBuild, UsageError

from .conftest import Played


def test_same_answers_yield_same_rows(played: Played, tmp_path: Path) -> None:
    name = played.session.evaluation.benchmark.name
    lines = [{"setting": setting, "id": each, "answer": text} for (setting, each), text in played.answers.items()]
    scored = api.score(name, lines, source=played.store, setting=played.settings, model="played")
    expected = played.metrics
    assert sorted(scored.metrics.to_pylist(), key=lambda row: row["id"]) == sorted(expected, key=lambda row: row["id"])
    assert not scored.notes
    again = api.score(name, lines, asked=scored.answers.to_pylist(), setting=played.settings, model="played")
    assert again.metrics == scored.metrics
    assert again.answers == scored.answers


def test_exported_folder_reads_like_its_build(played: Played, tmp_path: Path) -> None:
    name, table = played.session.evaluation.benchmark.name, played.session.evaluation.benchmark.main_table
    ran = played.factmill(
        "export", played.build_id, "--to", tmp_path, "--with-answers", "--warehouse", played.store.path
    )
    assert ran.code == 0, ran.err
    assert api.open(tmp_path).table(table) == played.store.table(table)
    setting = played.settings[0]
    here, there = (api.questions(name, source=source, setting=setting) for source in (tmp_path, played.store.path))
    assert {each.pop("build") for each in there} == {played.build_id}
    assert {each.pop("build") for each in here} == {""}, "a folder of tables does not state it"
    assert here == there
    with pytest.raises(SourceError, match=f"no file granola_ek.parquet; expected one. Tables: .*{table}"):
        api.open(tmp_path).table("granola_ek")
    with pytest.raises(UsageError, match="only a warehouse has builds"):
        api.open(tmp_path).builds()
    (tmp_path / "twice").mkdir()
    (tmp_path / "twice" / f"{table}.parquet").write_bytes((tmp_path / f"{table}.parquet").read_bytes())
    with pytest.raises(SourceError, match=f"2 files {table}.parquet; expected one"):
        api.questions(name, source=tmp_path)


def test_export_without_answers_is_scored_or_names_missing_table(played: Played, tmp_path: Path) -> None:
    benchmark = played.session.evaluation.benchmark
    ran = played.factmill("export", played.build_id, "--to", tmp_path, "--warehouse", played.store.path)
    assert ran.code == 0, ran.err
    if benchmark.held_out_tables:
        with pytest.raises(SourceError, match=r"no file fanoutqa_test_answers.*--with-answers"):
            api.score(benchmark.name, "oracle", source=tmp_path)
    else:
        assert (
            api.score(benchmark.name, "oracle", source=tmp_path).metrics
            == api.score(benchmark.name, "oracle", source=played.store).metrics
        )
    for path in tmp_path.glob("*.parquet"):
        path.write_bytes(b"something else")
    with pytest.raises(SourceError, match="cannot be read as Parquet"):
        api.score(benchmark.name, "oracle", source=tmp_path)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"benchmark": "granolla"}, UsageError, "did you mean granola?"),
        ({"setting": "loud"}, UsageError, "setting is"),
        ({"answers": ["Paris"]}, UsageError, "answers, row 1: found str"),
        ({"answers": [{"id": "x"}]}, UsageError, "answer is missing"),
        ({"source": "nothing"}, UnknownBuild, "nothing"),
        ({"limit": 0}, UsageError, "greater than or equal to 1"),
        ({"model_": 1}, UsageError, "unknown option model_"),
        ({"asked": [{"id": "x"}]}, SourceError, "asked: "),
    ],
)
def test_invalid_arguments_raise_named_errors(
    played: Played, given: dict[str, Any], error: type[Exception], said: str
) -> None:
    result = {"benchmark": played.session.evaluation.benchmark.name, "answers": [], "source": played.store} | given
    with pytest.raises(error, match=said):
        api.score(**result)


def test_answers_to_other_build_or_unknown_question_raise_errors(played: Played) -> None:
    name, ((setting, first), *_) = played.session.evaluation.benchmark.name, played.answers
    with pytest.raises(SourceError, match="no answer matches a question"):
        api.score(name, {"nothing": "a", "more": "b"}, source=played.store, setting=setting)
    row = {"id": first, "answer": "a", "build": "other-1"}
    with pytest.raises(UsageError, match=f"other-1.*{played.build_id}"):
        api.score(name, [row], source=played.store, setting=setting)
    with pytest.raises(UnknownBuild, match="no build 'other-1'"):
        api.score(name, [row], source=played.store.path, setting=setting)
    asked = [row | {"build": played.build_id}]
    assert api.score(name, asked, source=played.store.path, setting=setting).metrics.num_rows


def test_missing_extra_and_duplicate_answers_are_noted(played: Played) -> None:
    (setting, first), *_ = played.answers
    answers = [{"id": first, "answer": "a"}, {"id": first, "answer": "b"}, {"id": "nothing", "answer": "c"}]
    scored = api.score(played.session.evaluation.benchmark.name, answers, source=played.store, setting=setting)
    assert set(scored.notes) == {"answers missing", "answers extra", "answers doubled"}
    assert scored.metrics["n_unscored"][0].as_py() > 0


def test_import_loads_no_heavy_modules_and_scoring_loads_no_prefect(
    play: Callable[[str], Played], factmill: Factmill
) -> None:
    sources = {name: str(play(name).store.path) for name in EVALUATIONS}
    code = f"""
import sys, factmill
assert not {{"pyarrow", "pandas", "numpy", "duckdb", "prefect", "pydantic"}} & set(sys.modules), "heavy"
for name, source in {sources!r}.items():
    factmill.score(name, "guesser", source=source)
    assert "prefect" not in sys.modules and "inspect_ai" not in sys.modules, name
"""
    environment = {"PYTHONPATH": str(ROOT), "FACTMILL_HOME": str(factmill.home), "PATH": "/usr/bin:/bin"}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
