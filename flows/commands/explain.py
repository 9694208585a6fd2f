"""`factmill explain`: where a published row comes from, step by step."""

import json
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ValidationError

from tasks.engine.benchmark import Benchmark
from tasks.errors import OldBuild, UnknownBuild
from tasks.storage.bodies import unpack_body
from tasks.storage.warehouse import Connection, read_records
from tasks.text.ages import tell_age


def trace_row(db: Connection, benchmark: Benchmark, build_id: str, row_id: str) -> dict[str, Any]:
    """Return everything that is known of a row: the row or its reject, what belongs to it, the calls it rests on.

    `build_id`: of a build, or of a run that published nothing, which has rejects alone.

    `row_id` may be the beginning of an id when only one fits; UnknownBuild when none or several do. A row that was made
    of another (a translation of a path, a path of a question) rests on the calls of those too.
    """
    locks = read_records(db, "SELECT lock FROM builds WHERE build_id = ?", build_id)
    row_id = _find_row(db, benchmark, benchmark.main_table if locks else "rejects", build_id, row_id)

    def read(table: str, column: str) -> list[dict[str, Any]]:
        """Return the row's records in a published table."""
        query = f"SELECT * EXCLUDE (build_id) FROM {table} WHERE build_id = ? AND {column} = ? ORDER BY id"
        return read_records(db, query, build_id, row_id) if locks else []

    row = next(iter(read(benchmark.main_table, "id")), None)
    ids = list(dict.fromkeys(row[name] for name in benchmark.trace)) if row else [row_id]
    rejected = read_records(
        db, "SELECT stage, reason, detail, row FROM rejects WHERE build_id = ? AND id = ?", build_id, row_id
    )
    return {
        "build": build_id,
        "benchmark": benchmark.name,
        "id": row_id,
        "row": row,
        "reject": rejected[0] if rejected else None,
        "beside": {side.table: read(side.table, side.column) for side in benchmark.beside},
        "services": json.loads(locks[0]["lock"])["services"] if locks else {},
        "calls": [call for each in reversed(ids) for call in _find_calls(db, build_id, each)],
    }


def _find_calls(db: Connection, build_id: str, row_id: str) -> list[dict[str, Any]]:
    calls = read_records(
        db,
        "SELECT b.stage, c.operation, c.service, c.parts, c.status, c.error, c.body, c.asked_at, c.latency_s, c.tokens_in, "
        "c.tokens_out, c.cost_usd, c.key, b.taken_off, k.why AS unchanged, k.checks "
        "FROM build_calls b JOIN calls c USING (record_id) "
        "LEFT JOIN kept_calls k ON k.build_id = b.build_id AND k.record_id = b.record_id "
        "JOIN build_stages s ON s.build_id = b.build_id AND s.stage = b.stage "
        "WHERE b.build_id = ? AND b.id = ? ORDER BY s.position, c.record_id",
        build_id,
        row_id,
    )
    shown = sorted({check for call in calls for check in call["checks"] or ()})
    query = "SELECT record_id, key, asked_at FROM calls WHERE list_contains(?, record_id)"
    told = read_records(db, query, shown) if shown else []
    checks = {each["record_id"]: f"{each['key'][:12]} at {each['asked_at'].isoformat()}" for each in told}
    for call in calls:
        call["checks"] = [checks[each] for each in call["checks"] or () if each in checks]
        call["parts"], call["body"] = json.loads(call["parts"]), json.loads(unpack_body(call["body"]))
        call["age_s"] = int((datetime.now(UTC) - call["asked_at"]).total_seconds())
        call["asked_at"] = call["asked_at"].isoformat()
    return calls


def format_trace(benchmark: Benchmark, trace: dict[str, Any]) -> list[str]:
    """Return a trace as lines to read."""
    lines = [f"{trace['id']} in {trace['build']}"]
    if trace["row"]:
        lines += benchmark.explain(_read_row(benchmark.row, trace["row"], trace["build"]))
    if reject := trace["reject"]:
        lines += [
            f"  rejected at {reject['stage']}: {reject['reason']}",
            f"              {reject['detail']}",
            f"  row then    {reject['row']}",
        ]
    for side in benchmark.beside:
        if found := [
            _read_row(benchmark.tables[side.table], each, trace["build"]) for each in trace["beside"][side.table]
        ]:
            lines += side.explain(found, trace["services"])
    lines.append("  calls:" if trace["calls"] else "  calls: none")
    for call in trace["calls"]:
        lines += _format_call(call)
    return lines


def _read_row(model: type[BaseModel], row: dict[str, Any], build_id: str) -> Any:
    try:
        return model.model_validate(row)
    except ValidationError as error:
        columns = ", ".join(dict.fromkeys(str(each["loc"][0]) for each in error.errors()))
        raise OldBuild(
            f"{build_id} was made by an earlier factmill: its rows are without, or have otherwise, {columns}; make it again "
            "with the same command (recorded replies are not asked for again), or see the row as it is with --json"
        ) from error


def _format_call(call: dict[str, Any]) -> list[str]:
    parts = call["parts"]
    what = {k: v for k, v in parts.items() if k not in ("variables", "prompt_digest", "rejected", "language")}
    asked = parts.get("variables", {})
    answer = call["error"] if call["status"] != "ok" else json.dumps(call["body"], ensure_ascii=False)
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
