"""The warehouse's table of recorded calls: writing and reading its rows, and how old those are that a build rests on."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from tasks.core.calls.freshness.lasting import find_oldest
from tasks.core.service_settings import SCRIPTED
from tasks.storage.bodies import LONG, pack_body, unpack_body
from tasks.storage.recording.journal import Record
from tasks.storage.shards import make_table
from tasks.storage.warehouse import is_there, open_warehouse, read_json

_COLUMNS = ", ".join(f"c.{name}" for name in Record.__slots__)
MOMENT = pa.timestamp("us", tz="UTC")
_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("record_id", "key", "service", "operation", "parts", "status", "error")),
        ("transient", pa.bool_()),
        ("body", pa.string()),
        ("tokens_in", pa.int64()),
        ("tokens_out", pa.int64()),
        ("cost_usd", pa.float64()),
        ("latency_s", pa.float64()),
        ("asked_at", MOMENT),
    ]
)
_READ = attrgetter(*Record.__slots__)
_AT_ONCE = 1000
"""Records that are read at once, for the sake of memory."""


def insert_records(db: duckdb.DuckDBPyConnection, records: Sequence[Record]) -> None:
    """Insert records that are not in the warehouse yet."""
    rows = [
        _READ(record if len(record.body) < LONG else replace(record, body=pack_body(record.body))) for record in records
    ]
    db.register("new_records", make_table(_SCHEMA, rows))
    names = ", ".join(Record.__slots__)
    # ids sort by time: what is older than all new ones is not looked through
    db.execute(
        f"INSERT INTO calls ({names}) SELECT {names} FROM new_records "
        "ANTI JOIN (SELECT record_id FROM calls WHERE record_id >= ?) USING (record_id)",
        [min(record.record_id for record in records)],
    )
    db.unregister("new_records")


def read_scripted(db: duckdb.DuckDBPyConnection, build_id: str) -> list[Record]:
    """Return the records of the scripted replies that a build asked for, there or missing, each once."""
    found = db.execute(
        "SELECT DISTINCT record_id FROM build_calls JOIN calls USING (record_id) WHERE build_id = ? AND service = ? ORDER BY 1",
        [build_id, SCRIPTED],
    ).fetchall()
    return read_all(db, [record_id for (record_id,) in found])


def count_scripted(db: duckdb.DuckDBPyConnection, build_id: str) -> dict[str, dict[str, int]]:
    """Return prompt → `replies` of a build that are scripted, and how many of them are planted `faults`."""
    counts: dict[str, dict[str, int]] = {}
    for record in read_scripted(db, build_id):
        parts = record.read("parts")
        # a reply that cannot be read is asked for once more, with a correction
        if record.status == "ok" and not parts["correction"]:
            of_prompt = counts.setdefault(parts["prompt"], {"replies": 0, "faults": 0})
            of_prompt["replies"] += 1
            of_prompt["faults"] += "fault" in record.read("body")
    return dict(sorted(counts.items()))


def read_all(db: duckdb.DuckDBPyConnection, ids: Sequence[str]) -> list[Record]:
    """Return the records of these ids."""
    return [record for start in range(0, len(ids), _AT_ONCE) for record in _read_records(db, ids, start)]


def _read_records(db: duckdb.DuckDBPyConnection, ids: Sequence[str], start: int) -> list[Record]:
    """Return some of the records, from a place in their ids on."""
    query = f"SELECT {_COLUMNS} FROM calls c WHERE c.record_id IN (SELECT unnest(?))"
    found = db.execute(query, [list(ids[start : start + _AT_ONCE])]).fetchall()
    records = (Record(*row) for row in found)
    return [
        record if (body := unpack_body(record.body)) is record.body else replace(record, body=body)
        for record in records
    ]


def newest_record(warehouse: Path) -> str:
    """Return the id of the newest record in a warehouse; empty when there is none."""
    if not is_there(warehouse):
        return ""
    with open_warehouse(warehouse) as db:
        row = db.execute("SELECT max(record_id) FROM calls").fetchone()
    return (row[0] if row else None) or ""


def rests_on_older(warehouse: Path, build_id: str, oldest: Mapping[str, datetime]) -> bool:
    """True when a build rests on a reply that is too old to serve now (`oldest`: as of Recorder)."""
    with open_warehouse(warehouse) as db:
        return any(
            asked_at < find_oldest(operation, read_json(parts, f"calls.parts of {record_id}", dict), moment)
            for service, moment in oldest.items()
            for record_id, operation, parts, asked_at in db.execute(
                "SELECT DISTINCT c.record_id, c.operation, c.parts, c.asked_at FROM build_calls JOIN calls c USING (record_id) "
                "WHERE build_id = ? AND c.service = ? AND c.asked_at < ?",
                [build_id, service, moment],
            ).fetchall()
        )


def sum_up_ages(
    db: duckdb.DuckDBPyConnection, run_id: str, begun: datetime, oldest: Mapping[str, datetime]
) -> dict[str, dict[str, Any]]:
    """Return live service → calls that a run rests on, when the replies came, how many came since the run began, and how
    many are older than `oldest` allows (as of Recorder) and were not found unchanged."""
    found = db.execute(
        "SELECT record_id, service, operation, parts, asked_at, record_id IN (SELECT record_id FROM kept_calls WHERE build_id = $1) "
        "FROM calls WHERE starts_with(service, 'http') AND record_id IN "
        "(SELECT record_id FROM build_calls WHERE build_id = $1) ORDER BY service, asked_at",
        [run_id],
    ).fetchall()
    summed: dict[str, dict[str, Any]] = {}
    for record_id, service, operation, parts, asked_at, is_kept in found:
        each = summed.setdefault(service, {"calls": 0, "asked": 0, "too_old": 0, "oldest": asked_at.isoformat()})
        each["newest"] = asked_at.isoformat()
        each["calls"] += 1
        each["asked"] += asked_at >= begun
        if service in oldest and asked_at < oldest[service] and not is_kept:
            asked = read_json(parts, f"calls.parts of {record_id}", dict)
            each["too_old"] += asked_at < find_oldest(operation, asked, oldest[service])
    return summed
