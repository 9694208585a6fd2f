"""Test the analysts' queries of docs/rebuild/warehouse.md on a warehouse with three builds of a benchmark."""

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.commands.command import ROOT, Factmill

from factmill.flows.benchmarks import BENCHMARKS
from factmill.flows.evaluate.evaluations import list_evaluations_and_analyses
from factmill.tasks.core.rows import column_docs
from factmill.tasks.storage.builds import list_builds, resolve_build
from factmill.tasks.storage.warehouse import open_warehouse

SECTION = (
    (ROOT / "docs/rebuild/warehouse.md")
    .read_text("utf-8")
    .partition("## Queries over several builds")[2]
    .partition("\n## ")[0]
)
QUERIES = re.findall(r"```sql\n(.*?)```", SECTION, re.DOTALL)


@pytest.fixture(scope="module")
def warehouse(factmill: Factmill, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("three") / "w.duckdb"
    for limit in ("10", "20", "30"):
        assert factmill("build", "granola", "--limit", limit, "--warehouse", path).code == 0
    return path


def ask(warehouse: Path, query: str) -> list[dict[str, Any]]:
    with duckdb.connect(str(warehouse), read_only=True) as db:
        return list(db.sql(query).to_arrow_table().to_pylist())


def test_documented_queries_distinguish_builds(warehouse: Path) -> None:
    by_relation, by_reason, costs, statements = (ask(warehouse, query) for query in QUERIES)
    builds = {build.build_id: build.report for build in list_builds(warehouse)}
    latest = resolve_build(warehouse, "latest:granola").report
    assert len(builds) == 3
    assert sum(row["rows"] for row in by_relation) == sum(report["rows"] for report in builds.values())
    assert sum(row["latest"] for row in by_relation) == latest["rows"]
    assert any(report["rejects"] for report in builds.values())
    for build, report in builds.items():
        assert sum(row.get(build, 0) for row in by_reason) == report["rejects"]
    assert len(costs) == sum(len(report["stages"]) for report in builds.values())
    assert sum(row["calls_sent"] for row in costs) == sum(report["calls_sent"] for report in builds.values())
    assert all(row["replies"] for row in costs if row["calls_sent"])
    assert 0 < len(statements) <= latest["rows"]
    assert all(row["replied_at"] and row["subject"][0] == "Q" and row["property"][0] == "P" for row in statements)
    assert {(row["rank"], row["statement"]) for row in statements} == {("best", None)}


@pytest.mark.parametrize(
    ("flow", "is_whole"),
    [
        ({"limit": None, "source": []}, True),
        ({"limit": 3, "source": []}, False),
        ({"source": ["a"]}, False),
        ({"limit": 2, "build": "x"}, True),
        ({}, True),
    ],
    ids=["complete", "limited", "other source", "evaluation", "no build"],
)
def test_sql_and_commands_agree_on_complete_builds(
    warehouse: Path, tmp_path: Path, flow: dict[str, Any], is_whole: bool
) -> None:
    copy = tmp_path / "w.duckdb"
    copy.write_bytes(warehouse.read_bytes())
    with open_warehouse(copy) as db:
        db.execute("DELETE FROM builds WHERE build_id <> (SELECT max(build_id) FROM builds)")
        db.execute("UPDATE builds SET origin = ?", [json.dumps({"flow": flow})])
        assert db.execute("SELECT is_whole FROM latest_builds").fetchall() == [(is_whole,)]
    assert [not build.narrowing_options for build in list_builds(copy)] == [is_whole]


def test_every_table_and_column_has_description(warehouse: Path) -> None:
    models = {
        name: model
        for each in (*BENCHMARKS.values(), *list_evaluations_and_analyses().values())
        for name, model in each.tables.items()
    }
    assert [
        (name, column) for name, model in models.items() for column, text in column_docs(model).items() if not text
    ] == []
    assert (
        ask(warehouse, "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal AND comment IS NULL")
        == []
    )
    assert ask(warehouse, "SELECT view_name FROM duckdb_views() WHERE NOT internal AND comment IS NULL") == []
    result = ask(warehouse, "SELECT table_name, comment FROM duckdb_tables() WHERE NOT internal")
    assert all(each["comment"] for each in result)
    comments = {each["table_name"]: each["comment"] for each in result}
    assert all(f"latest_{name}" in comments[name] for name in BENCHMARKS["granola"].tables)
