"""`factmill explain`: where a published row comes from, step by step."""

import json
from datetime import UTC, datetime
from typing import Any

from tasks.engine.benchmark import Benchmark
from tasks.errors import UnknownBuild
from tasks.reports.builds.tracing import explain_trace, tell_call, trace_rows
from tasks.storage.warehouse import Connection, read_records
from tasks.text.ages import tell_age


def trace_row(db: Connection, benchmark: Benchmark, build_id: str, row_id: str) -> dict[str, Any]:
    """Return everything that is known of a row: the row or its reject, what belongs to it, the calls it rests on.

    `build_id`: of a build, or of a run that published nothing, which has rejects alone.

    `row_id` may be the beginning of an id when only one fits; UnknownBuild when none or several do.
    """
    is_build = bool(read_records(db, "SELECT 1 FROM builds WHERE build_id = ?", build_id))
    row_id = _find_row(db, benchmark, benchmark.main_table if is_build else "rejects", build_id, row_id)
    (trace,) = trace_rows(db, benchmark, build_id, [row_id])
    for call in trace["calls"]:
        call["age_s"] = int((datetime.now(UTC) - call["asked_at"]).total_seconds())
        call["asked_at"] = call["asked_at"].isoformat()
    return trace


def format_trace(benchmark: Benchmark, trace: dict[str, Any]) -> list[str]:
    """Return a trace as lines to read."""
    lines = [f"{trace['id']} in {trace['build']}", *explain_trace(benchmark, trace)]
    lines.append("  calls:" if trace["calls"] else "  calls: none")
    for call in trace["calls"]:
        lines += _format_call(call)
    return lines


def _format_call(call: dict[str, Any]) -> list[str]:
    what, asked, answer = tell_call(call)
    return [
        f"    {call['stage']}: {call['operation']} of {call['service']} at {call['asked_at']}, {tell_age(call['age_s'])} ago (call {call['key'][:12]})",
        f"      asked   {json.dumps(what, ensure_ascii=False)}",
        *(f"              {name}: {value}" for name, value in asked.items()),
        f"      replied {answer[:400]}",
        *(
            [f"      kept    as unchanged: {call['unchanged']} (checked by call {', '.join(call['checks']) or 'none'})"]
            if call["unchanged"]
            else []
        ),
        *([f"              read without {call['taken_off']}"] if call["taken_off"] else []),
    ]


def _find_row(db: Connection, benchmark: Benchmark, table: str, build_id: str, row_id: str) -> str:
    found = db.execute(
        f"SELECT DISTINCT id FROM (SELECT id FROM {table} WHERE build_id = $1 UNION ALL SELECT id FROM rejects WHERE build_id = $1) "
        "WHERE id = $2 OR starts_with(id, $2) ORDER BY id = $2 DESC, id LIMIT 3",
        [build_id, row_id],
    ).fetchall()
    if len(found) == 1 or (found and found[0][0] == row_id):
        return str(found[0][0])
    several = (
        f"several rows begin with {row_id!r}: {', '.join(row[0] for row in found)} …" if found else f"no row {row_id!r}"
    )
    raise UnknownBuild(f"{several} in {build_id}; ids stand in the first column of `factmill show {benchmark.name}`")
