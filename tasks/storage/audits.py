"""Verdicts of audits in the warehouse: they belong to a build, and go with it wherever it is shown or exported."""

from collections.abc import Sequence
from datetime import UTC, datetime

import duckdb

from tasks.core.fingerprints import canonical_json
from tasks.core.measures.audits import Verdict
from tasks.storage.warehouse import read_json


def save_verdicts(db: duckdb.DuckDBPyConnection, build_id: str, verdicts: Sequence[Verdict]) -> None:
    """Keep verdicts on rows of a build; each takes the place of an earlier one on its row."""
    for verdict in verdicts:
        db.execute(
            "INSERT OR REPLACE INTO audit_verdicts VALUES (?, ?, ?, ?, ?, ?)",
            [
                build_id,
                verdict.row_id,
                canonical_json(verdict.marks),
                verdict.reviewer,
                verdict.note,
                datetime.now(UTC),
            ],
        )


def load_verdicts(db: duckdb.DuckDBPyConnection, build_id: str) -> dict[str, Verdict]:
    """Return row id → verdict of a build, by id."""
    found = db.execute(
        "SELECT row_id, marks, reviewer, note FROM audit_verdicts WHERE build_id = ? ORDER BY row_id", [build_id]
    ).fetchall()
    return {
        row_id: Verdict(
            row_id=row_id,
            marks=read_json(marks, f"audit_verdicts.marks of {build_id}, row {row_id}", dict),
            reviewer=reviewer,
            note=note,
        )
        for row_id, marks, reviewer, note in found
    }
