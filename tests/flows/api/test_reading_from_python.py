"""Test reading tables, builds, rows and comparisons from Python, in a warehouse with one build and two evaluations."""

from pathlib import Path

import pyarrow as pa
import pytest
from support.builds.small_builds import SmallBuilds
from support.docs.read_page import ReadPage

import factmill as api
from factmill.flows.commands.report import load_evaluation_report
from factmill.tasks.errors import SourceError, UnknownBuild, UsageError
from factmill.tasks.storage.builds import resolve_build


class Warehouse:
    """A warehouse with one build and its evaluations."""

    def __init__(self, small_builds: SmallBuilds, path: Path) -> None:
        self.path, self.build = path, small_builds.copy("granola", path)
        self.evaluations = {}
        for model in ("oracle", "guesser"):
            place = ("--warehouse", path, "--reports", path.parent, "--json")
            ran = small_builds.factmill("evaluate", "granola", "--model", model, "--setting", "greedy", *place)
            assert ran.code == 0, ran.err
            self.evaluations[model] = ran.json["evaluation_id"]


@pytest.fixture(scope="module")
def warehouse(small_builds: SmallBuilds, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return Warehouse(small_builds, tmp_path_factory.mktemp("python") / "w.duckdb")


def test_load_finds_table_by_benchmark_name_or_table_name(warehouse: Warehouse) -> None:
    path, build = warehouse.path, warehouse.build
    table = api.load("granola", source=path)
    assert (table.name, table.origin, table.num_rows) == ("granola_eq", build, 12)
    for named in ("latest", "latest:granola", build, build[:-3]):
        assert api.load("granola_eq", build=named, source=path).arrow == table.arrow
    assert api.load("granola_evaluation", source=path).origin == warehouse.evaluations["guesser"]
    oracle = api.load("evaluation_metrics", build=warehouse.evaluations["oracle"], source=path)
    assert set(oracle["model"].to_pylist()) == {"oracle"}
    assert api.load("granola", source=api.open(path)).arrow == table.arrow


def test_missing_table_or_build_raises_named_error(warehouse: Warehouse) -> None:
    path = warehouse.path
    with pytest.raises(UnknownBuild, match=r"no build of slaq in .*factmill\.build\('slaq'\)"):
        api.load("slaq", source=path)
    with pytest.raises(UnknownBuild, match=r"no build of slaq_evaluation .*factmill\.evaluate"):
        api.load("slaq_evaluation", source=path)
    with pytest.raises(UnknownBuild, match=r"no table granola_ek; tables: .*did you mean granola_eq"):
        api.load("granola_ek", source=path)
    with pytest.raises(UnknownBuild, match="no build 'granola-x'"):
        api.load("granola", build="granola-x", source=path)
    with pytest.raises(UnknownBuild, match="nothing is built yet"):
        api.builds()


def test_exported_folder_is_read_as_single_build(
    warehouse: Warehouse, small_builds: SmallBuilds, tmp_path: Path
) -> None:
    ran = small_builds.factmill("export", warehouse.build, "--to", tmp_path, "--warehouse", warehouse.path)
    assert ran.code == 0, ran.err
    assert api.load("granola", source=tmp_path).arrow == api.load("granola", source=warehouse.path).arrow
    with pytest.raises(UsageError, match="holds tables of one build"):
        api.load("granola", build=warehouse.build, source=tmp_path)
    with pytest.raises(UsageError, match="expected a warehouse"):
        api.explain("P19", source=tmp_path)
    with pytest.raises(SourceError, match=r"no file slaq\.parquet"):
        api.load("slaq", source=tmp_path)


def test_lists_builds(warehouse: Warehouse) -> None:
    assert api.builds(source=warehouse.path)["build_id"].to_pylist() == [
        warehouse.build,
        *warehouse.evaluations.values(),
    ]
    assert api.builds("granola", source=warehouse.path).num_rows == 1
    assert api.builds("slaq", source=warehouse.path).num_rows == 0
    with pytest.raises(UsageError, match="did you mean granola"):
        api.builds("granolla", source=warehouse.path)


def test_explain_finds_row_by_id_alone(warehouse: Warehouse) -> None:
    row = api.load("granola", source=warehouse.path)["id"][0].as_py()
    result = api.explain(row[:9], source=warehouse.path)
    assert (result.id, result.build) == (row, warehouse.build)
    assert str(result).startswith(f"{row} in {warehouse.build}\n  source ")
    assert result.trace["calls"]
    assert ReadPage(result._repr_html_()).tags == ["pre"]
    answer = api.explain(f"greedy/{row}", source=warehouse.path)
    assert answer.build == warehouse.evaluations["guesser"]
    assert api.explain(f"greedy/{row}", build=warehouse.evaluations["oracle"], source=warehouse.path).build.startswith(
        "granola_evaluation-"
    )
    assert api.explain(row, benchmark="granola", source=warehouse.path).id == row
    for wrong, said in (
        ("", "row_id is empty"),
        ("P19-", "several row ids begin with"),
        ("zzz", "no row 'zzz' in granola-"),
    ):
        with pytest.raises(api.FactmillError, match=said):
            api.explain(wrong, source=warehouse.path)


def test_compare_returns_comparison_of_report(warehouse: Warehouse) -> None:
    path, ids = warehouse.path, warehouse.evaluations
    report = load_evaluation_report(path, [resolve_build(path, ids[name]) for name in ("oracle", "guesser")])
    expected = [one for ranking in report.rankings for one in ranking.comparisons]
    found = api.compare(ids["oracle"], ids["guesser"], source=path)
    assert list(found.comparisons) == expected
    by_model = api.compare("oracle", "guesser", benchmark="granola", source=path)
    assert list(by_model.comparisons) == expected
    assert isinstance(found.arrow, pa.Table)
    assert found.to_pandas()["difference"][0] == expected[0].difference
    assert "oracle (first) less guesser (second)" in found._repr_html_()


def test_scored_answers_are_compared_with_evaluation(warehouse: Warehouse) -> None:
    path = warehouse.path
    scored = api.score("granola", "guesser", source=path, setting="greedy")
    found = api.compare("oracle", scored, benchmark="granola", source=path)
    published = api.compare("oracle", "guesser", benchmark="granola", source=path)
    assert [each.difference for each in found.comparisons] == [each.difference for each in published.comparisons]
    assert (found.first, found.second) == ("oracle", "guesser")
    again = api.score("granola", "guesser", source=path, setting="greedy")
    same = api.compare(scored, again)
    assert (same.second, same.comparisons[0].difference) == ("guesser (second)", 0)
    with pytest.raises(UsageError, match="no setting in which both have scores"):
        api.compare(scored, api.score("granola", {}, source=path, setting="greedy"))
    page = scored._repr_html_()
    assert "guesser on granola" in page and "accuracy" in page
    head, first, *others = repr(scored).splitlines()
    metric = next(each for each in scored.metrics.to_pylist() if each["id"] == "greedy/accuracy")
    assert head == "<ScoringResult guesser on granola" and "  4 more in .metrics" in others
    assert first.split()[:2] == ["greedy", "accuracy"] and f"{metric['value']:.3f} [{metric['ci_low']:.3f}, " in first
    assert repr(api.score("granola", {}, source=path, setting="greedy")).count("answers missing: ") == 1


def test_incomparable_inputs_raise_named_error(warehouse: Warehouse) -> None:
    path = warehouse.path
    scored = api.score("granola", "silent", source=path, setting="greedy")
    other = api.score("granola", "silent", source=path, setting="idk")
    for first, second, benchmark, said in (
        (scored, scored, "", "are the same"),
        ("oracle", "oracle", "granola", "is named twice"),
        ("oracle", "guesser", "", "name the benchmark too"),
        ("oracle", "nobody", "granola", "no evaluation of this model"),
        ("oracle", "guesser", "slaq", r"factmill\.evaluate\('slaq'"),
        (warehouse.build, warehouse.evaluations["oracle"], "", "expected an evaluation"),
        (scored, other, "", "no setting in which both have scores"),
    ):
        with pytest.raises(api.FactmillError, match=said):
            api.compare(first, second, benchmark=benchmark, source=path)
