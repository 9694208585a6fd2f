"""Loads the provenance of rows from the warehouse: the row or its reject, its companion rows and its calls."""

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.errors import BuildFormatTooOld
from factmill.tasks.storage.recording.call_records import decompress_body
from factmill.tasks.storage.warehouse import Connection, parse_json_column, query_rows

TraceRecord = dict[str, Any]


def load_row_traces(db: Connection, benchmark: Benchmark, build_id: str, row_ids: Sequence[str]) -> list[TraceRecord]:
    """Return the traces of rows, in the order of `row_ids`, with `row`, `reject`, `beside`, `calls` and more.

    `build_id`: a build, or a run that published nothing, which has only rejects. A row made from another (a translation
    of a path, a path of a question) also rests on the calls of that row.
    """
    locks = query_rows(db, "SELECT lock FROM builds WHERE build_id = ?", build_id)

    def read(table: str, column: str) -> dict[str, list[TraceRecord]]:
        """Return row id → its records in a published table."""
        query = f"SELECT * EXCLUDE (build_id) FROM {table} WHERE build_id = ? AND {column} IN (SELECT unnest(?)) ORDER BY id"
        return _group_records(query_rows(db, query, build_id, row_ids) if locks else [], lambda each: str(each[column]))

    rows = read(benchmark.main_table, "id")
    companion_rows = {side.table: read(side.table, side.row_id_column) for side in benchmark.companion_tables}
    trails = {
        row_id: list(dict.fromkeys(rows[row_id][0][name] for name in benchmark.trace_id_columns))
        if row_id in rows
        else [row_id]
        for row_id in row_ids
    }
    calls = _load_calls_by_row_id(
        db, build_id, list(dict.fromkeys(each for trail in trails.values() for each in trail))
    )
    rejects = _load_rejects_by_id(db, build_id, row_ids)
    lock = parse_json_column(locks[0]["lock"], f"builds.lock of {build_id}", dict) if locks else {}
    return [
        {
            "build": build_id,
            "benchmark": benchmark.name,
            "id": row_id,
            "row": rows[row_id][0] if row_id in rows else None,
            "reject": rejects.get(row_id),
            "beside": {table: found.get(row_id, []) for table, found in companion_rows.items()},
            "services": lock.get("services", {}),
            "calls": [dict(call) for each in reversed(trails[row_id]) for call in calls.get(each, ())],
        }
        for row_id in row_ids
    ]


def format_traced_row_and_companions(benchmark: Benchmark, trace: TraceRecord) -> list[str]:
    """Return a row or reject with its companion rows as lines of text; BuildFormatTooOld if an earlier factmill's row does not
    validate."""
    lines: list[str] = []
    if trace["row"]:
        lines += benchmark.explain(validate_traced_row(benchmark.main_row_model, trace["row"], trace["build"]))
    if reject := trace["reject"]:
        lines += [
            f"  rejected at {reject['stage']}: {reject['reason']}",
            f"              {reject['detail']}",
            f"  input row   {reject['row']}",
        ]
    for side in benchmark.companion_tables:
        model = benchmark.tables[side.table]
        if found := [validate_traced_row(model, each, trace["build"]) for each in trace["beside"][side.table]]:
            lines += side.explain(found, trace["services"])
    return lines


def get_call_settings_variables_reply(call: TraceRecord) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Return a call's settings, the variables of its prompt, and its reply as JSON, or the error."""
    parts = call["parts"]
    what = {k: v for k, v in parts.items() if k not in ("variables", "prompt_digest", "rejected", "language")}
    answer = call["error"] if call["status"] != "ok" else json.dumps(call["body"], ensure_ascii=False)
    return what, parts.get("variables", {}), answer or ""


def validate_traced_row(model: type[BaseModel], row: TraceRecord, build_id: str) -> Any:
    """Return a row of the warehouse as its model; BuildFormatTooOld if an earlier factmill's row does not validate."""
    # the table has the columns of all builds, null in rows of builds without them: a field's default stands for it
    own = {
        column: value
        for column, value in row.items()
        if value is not None or (column in model.model_fields and model.model_fields[column].is_required())
    }
    try:
        return model.model_validate(own)
    except ValidationError as error:
        columns = ", ".join(dict.fromkeys(str(each["loc"][0]) for each in error.errors()))
        raise BuildFormatTooOld(
            f"{build_id} was made by an earlier version of factmill: its rows lack, or store in another form, {columns}; rebuild it "
            "with the same command (recorded replies are reused), or show the stored row with --json"
        ) from error


def _load_rejects_by_id(db: Connection, build_id: str, row_ids: Sequence[str]) -> dict[str, TraceRecord]:
    """Return row id → its reject."""
    found = query_rows(
        db,
        "SELECT id, stage, reason, detail, row FROM rejects WHERE build_id = ? AND id IN (SELECT unnest(?)) ORDER BY ALL",
        build_id,
        row_ids,
    )
    return {
        row_id: {k: v for k, v in each[0].items() if k != "id"}
        for row_id, each in _group_records(found, lambda each: str(each["id"])).items()
    }


def _load_calls_by_row_id(db: Connection, build_id: str, row_ids: Sequence[str]) -> dict[str, list[TraceRecord]]:
    """Return row id → its calls, in the order of the stages."""
    calls = query_rows(
        db,
        "SELECT b.id, b.stage, c.record_id, c.operation, c.service, c.parts, c.status, c.error, c.body, c.asked_at, c.latency_s, c.tokens_in, "
        "c.tokens_out, c.cost_usd, c.key, b.taken_off, k.why AS unchanged, k.checks "
        "FROM build_calls b JOIN calls c USING (record_id) "
        "LEFT JOIN kept_calls k ON k.build_id = b.build_id AND k.record_id = b.record_id "
        "JOIN build_stages s ON s.build_id = b.build_id AND s.stage = b.stage "
        "WHERE b.build_id = ? AND b.id IN (SELECT unnest(?)) ORDER BY s.position, c.record_id",
        build_id,
        row_ids,
    )
    checks = _load_call_keys_and_times_by_record_id(db, {check for call in calls for check in call["checks"] or ()})
    for call in calls:
        call["checks"] = [checks[each] for each in call["checks"] or () if each in checks]
        where = f"of {call.pop('record_id')}"
        call["parts"] = parse_json_column(call["parts"], f"calls.parts {where}", dict)
        call["body"] = parse_json_column(decompress_body(call["body"]), f"calls.body {where}")
    grouped = _group_records(calls, lambda each: str(each["id"]))
    for call in calls:
        del call["id"]
    return grouped


def _load_call_keys_and_times_by_record_id(db: Connection, record_ids: Collection[str]) -> dict[str, str]:
    """Return record id → key and time, for the calls that confirmed other calls as unchanged."""
    query = "SELECT record_id, key, asked_at FROM calls WHERE list_contains(?, record_id)"
    calls = query_rows(db, query, sorted(record_ids)) if record_ids else []
    return {each["record_id"]: f"{each['key'][:12]} at {each['asked_at'].isoformat()}" for each in calls}


def _group_records(records: Iterable[TraceRecord], key: Callable[[TraceRecord], str]) -> dict[str, list[TraceRecord]]:
    grouped: dict[str, list[TraceRecord]] = {}
    for each in records:
        grouped.setdefault(key(each), []).append(each)
    return grouped
