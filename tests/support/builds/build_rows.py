"""Read the rows that a build left in the warehouse, and check that its report adds up."""

from pathlib import Path
from typing import Any

from factmill.tasks.storage.warehouse import open_warehouse

Rows = list[dict[str, Any]]


def query_build(report: Any, statement: str) -> Rows:
    """Return the rows of a query in the build's warehouse, with the build's id as its parameter."""
    with open_warehouse(Path(report["warehouse"])) as db:
        found: Rows = db.sql(statement, params=[report["build_id"]]).to_arrow_table().to_pylist()
    return found


def read_table(report: Any, table: str) -> Rows:
    """Return the rows of a build in a table, by id."""
    return query_build(report, f"SELECT * EXCLUDE (build_id) FROM {table} WHERE build_id = $1 ORDER BY id")


def check_balance(report: Any) -> None:
    """Check that every input row is published, rejected with a reason, or merged, in each stage and in total."""
    assert report["inputs"] + report["opened"] == report["rows"] + report["rejects"] + report["merged"]
    for stage in report["stages"]:
        assert stage["rows_in"] == stage["rows_out"] + stage["rejects"] + stage["merged"], stage
        assert sum(report["reasons"].get(stage["stage"], {}).values()) == stage["rejects"]
