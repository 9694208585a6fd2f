"""Read and write the warehouse's table of recorded calls, compute the ages of a build's replies, and store which replies an
incremental rebuild revalidated.

Bodies are stored as JSON, long ones compressed: DuckDB reads about two thousand texts of a column at a time, and wiki pages
of hundreds of kilobytes each would need too much memory. Compressed they take a sixth of it, also in the file.
"""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from factmill.tasks.core.calls.freshness import get_oldest_usable_response_time
from factmill.tasks.core.rows import arrow_schema
from factmill.tasks.core.service_settings import SCRIPTED_MODEL_NAME
from factmill.tasks.storage.recording.journal import CallRecord
from factmill.tasks.storage.schema import CallRow
from factmill.tasks.storage.shards import make_table
from factmill.tasks.storage.warehouse import open_warehouse, parse_json_column, warehouse_exists

_COLUMNS = ", ".join(CallRecord.__slots__)
_RECORD_VALUES = attrgetter(*CallRecord.__slots__)
_READ_CHUNK_SIZE = 1000
"""Records read at a time, to limit memory."""


def insert_new_call_records(db: duckdb.DuckDBPyConnection, records: Sequence[CallRecord]) -> None:
    """Insert the records that are not in the warehouse yet."""
    rows = [_RECORD_VALUES(replace(record, body=compress_long_body(record.body))) for record in records]
    db.register("new_records", make_table(arrow_schema(CallRow), rows))
    # ids sort by time: records older than all new ones need no comparison
    db.execute(
        f"INSERT INTO calls ({_COLUMNS}) SELECT {_COLUMNS} FROM new_records "
        "ANTI JOIN (SELECT record_id FROM calls WHERE record_id >= ?) USING (record_id)",
        [min(record.record_id for record in records)],
    )
    db.unregister("new_records")


def load_scripted_records(db: duckdb.DuckDBPyConnection, build_id: str) -> list[CallRecord]:
    """Return the records of the scripted replies that a build asked for, found or missing, each once."""
    found = db.execute(
        "SELECT DISTINCT record_id FROM build_calls JOIN calls USING (record_id) WHERE build_id = ? AND service = ? ORDER BY 1",
        [build_id, SCRIPTED_MODEL_NAME],
    ).fetchall()
    return load_records(db, [record_id for (record_id,) in found])


def count_scripted_and_faulty_by_prompt(db: duckdb.DuckDBPyConnection, build_id: str) -> dict[str, dict[str, int]]:
    """Return prompt → number of a build's scripted `replies`, and how many of them are planted `faults`."""
    counts: dict[str, dict[str, int]] = {}
    for record in load_scripted_records(db, build_id):
        parts = record.read_column("parts")
        # an unreadable reply leads to a second prompt with a correction, which is not counted
        if record.status == "ok" and not parts["correction"]:
            of_prompt = counts.setdefault(parts["prompt"], {"replies": 0, "faults": 0})
            of_prompt["replies"] += 1
            of_prompt["faults"] += "fault" in record.read_column("body")
    return dict(sorted(counts.items()))


def load_records(db: duckdb.DuckDBPyConnection, ids: Sequence[str]) -> list[CallRecord]:
    """Return the records of these ids."""
    records = []
    query = f"SELECT {_COLUMNS} FROM calls WHERE record_id IN (SELECT unnest(?))"
    for start in range(0, len(ids), _READ_CHUNK_SIZE):
        for row in db.execute(query, [list(ids[start : start + _READ_CHUNK_SIZE])]).fetchall():
            record = CallRecord(*row)
            records.append(replace(record, body=decompress_body(record.body)))
    return records


def load_newest_record_id(warehouse: Path) -> str:
    """Return the id of the newest record in a warehouse; empty if there is none."""
    if not warehouse_exists(warehouse):
        return ""
    with open_warehouse(warehouse) as db:
        row = db.execute("SELECT max(record_id) FROM calls").fetchone()
    return (row[0] if row else None) or ""


def is_recorded_reply_expired(record_id: str, operation: str, parts: str, asked_at: datetime, oldest: datetime) -> bool:
    """True if a recorded reply is earlier than `oldest` and not immutable; `parts`: of the call, as stored."""
    if asked_at >= oldest:
        return False
    asked = parse_json_column(parts, f"calls.parts of {record_id}", dict)
    return asked_at < get_oldest_usable_response_time(operation, asked, oldest)


def uses_expired_replies(warehouse: Path, build_id: str, oldest: Mapping[str, datetime]) -> bool:
    """True if a build used a reply that has expired now (`oldest`: as for CallCache)."""
    query = (
        "SELECT DISTINCT c.record_id, c.operation, c.parts, c.asked_at FROM build_calls JOIN calls c USING (record_id) "
        "WHERE build_id = ? AND c.service = ? AND c.asked_at < ?"
    )
    with open_warehouse(warehouse) as db:
        return any(
            is_recorded_reply_expired(record_id, operation, parts, asked_at, moment)
            for service, moment in oldest.items()
            for record_id, operation, parts, asked_at in db.execute(query, [build_id, service, moment]).fetchall()
        )


def summarize_reply_ages(
    db: duckdb.DuckDBPyConnection, run_id: str, begun: datetime, oldest: Mapping[str, datetime]
) -> dict[str, dict[str, Any]]:
    """Return live service → number of the run's calls, times of the oldest and newest reply, how many came since the run
    began, and how many are expired by `oldest` (as for CallCache) and not revalidated."""
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
        if service in oldest and not is_kept:
            each["too_old"] += is_recorded_reply_expired(record_id, operation, parts, asked_at, oldest[service])
    return summed


MIN_PACKED_CHARS = 4096
"""Characters from which a body is compressed."""
_PACKED_PREFIX = "zlib:"
"""Prefix of a compressed body; no JSON begins with it."""


def compress_long_body(body: str) -> str:
    """Return a body in its stored form: compressed and base64-encoded if long."""
    if len(body) < MIN_PACKED_CHARS:
        return body
    return _PACKED_PREFIX + base64.b64encode(zlib.compress(body.encode("utf-8"))).decode("ascii")


def decompress_body(stored: str) -> str:
    """Return a stored body as JSON text; a damaged one is returned as stored, which is not JSON."""
    if not stored.startswith(_PACKED_PREFIX):
        return stored
    try:
        return zlib.decompress(base64.b64decode(stored.removeprefix(_PACKED_PREFIX))).decode("utf-8")
    except (ValueError, zlib.error):
        return stored


def parse_rejected_row(row: str) -> Any:
    """Return a rejected row's value: any JSON from its source, or the text itself where a stage stored a title or name."""
    try:
        return json.loads(row)
    except (ValueError, RecursionError):
        return row


REVALIDATION_FILE = "since.json"
REVALIDATION_STAGE = "since"
"""Stage name under which the calls that check for changes are filed; no step has that name."""


@dataclass(frozen=True, slots=True)
class RevalidatedCall:
    """An expired recorded call that was revalidated."""

    record_id: str
    asked_at: str
    """Time of the reply, ISO 8601."""
    why: str
    checks: tuple[str, ...]
    """Ids of the records that show it is unchanged."""


@dataclass(slots=True)
class BuildRevalidation:
    """Result of an incremental rebuild's check of an earlier build: which of its expired replies are still valid.

    It is determined once per run and written into the run's folder, so that a run resumed after a crash uses the same.
    """

    build: str
    """The earlier build."""
    begun: str
    """When the run that determined it began (ISO 8601)."""
    calls: dict[str, RevalidatedCall] = field(default_factory=dict)
    """Call key → revalidated call; keys are those of the earlier build, even if the service has another identity now."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Service → its identity then, for services whose identity is a digest of their content."""
    checks: dict[str, str] = field(default_factory=dict)
    """Call key → record id, of the calls that checked for changes."""
    counts: dict[str, Any] = field(default_factory=dict)
    """Counts for the build report (tasks/options.py)."""

    def find_reply_time(self, key: str) -> datetime | None:
        """Return when a call's revalidated reply came; None if there is none."""
        found = self.calls.get(key)
        return None if found is None else datetime.fromisoformat(found.asked_at)

    def write(self, folder: Path) -> None:
        """Write the result to the run's folder atomically."""
        draft = folder / f"{REVALIDATION_FILE}.draft"
        draft.write_text(json.dumps(asdict(self), ensure_ascii=False), "utf-8")
        draft.replace(folder / REVALIDATION_FILE)


def find_revalidation(folder: Path, build: str, begun: str) -> BuildRevalidation | None:
    """Return the stored result of the run that began at that time; None if there is none yet."""
    try:
        fields = json.loads((folder / REVALIDATION_FILE).read_bytes())
        calls = {
            key: RevalidatedCall(**{**each, "checks": tuple(each["checks"])})
            for key, each in fields.pop("calls").items()
        }
        kept = BuildRevalidation(**fields, calls=calls)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None  # missing or incomplete
    return kept if (kept.build, kept.begun) == (build, begun) else None


def list_used_calls(
    db: duckdb.DuckDBPyConnection, build_id: str, services: Sequence[str]
) -> list[tuple[str, str, str, str, datetime]]:
    """Return (record id, service, operation, parts, time) of a build's replies from these services."""
    return db.execute(
        "SELECT DISTINCT c.record_id, c.service, c.operation, c.parts, c.asked_at FROM build_calls u "
        "JOIN calls c USING (record_id) WHERE u.build_id = ? AND u.stage <> ? AND list_contains(?, c.service) ORDER BY 1",
        [build_id, REVALIDATION_STAGE, list(services)],
    ).fetchall()


def rekey_record(record: CallRecord, key: str, service: str) -> CallRecord:
    """Return a recorded reply under another call's key and service: the same service in a later state, same reply."""
    return replace(record, record_id=f"{record.record_id.partition('.')[0]}.{key[:8]}", key=key, service=service)


def find_latest_success(db: duckdb.DuckDBPyConnection, key: str) -> CallRecord | None:
    """Return the newest successful reply to a call; None if there is none."""
    found = db.execute("SELECT max(record_id) FROM calls WHERE key = ? AND status = 'ok'", [key]).fetchone()
    return load_records(db, [found[0]])[0] if found and found[0] else None


def write_revalidated_calls(db: duckdb.DuckDBPyConnection, run_id: str, revalidation: BuildRevalidation) -> None:
    """Write a run's revalidated replies, and the calls that checked them, to the warehouse."""
    db.execute("DELETE FROM kept_calls WHERE build_id = ?", [run_id])
    db.execute("DELETE FROM build_calls WHERE build_id = ? AND stage = ?", [run_id, REVALIDATION_STAGE])
    db.execute(
        "INSERT INTO build_calls (build_id, stage, id, key, record_id) SELECT ?, ?, '', unnest(?), unnest(?)",
        [run_id, REVALIDATION_STAGE, list(revalidation.checks), list(revalidation.checks.values())],
    )
    schema = pa.schema([("record_id", pa.string()), ("why", pa.string()), ("checks", pa.list_(pa.string()))])
    rows = [(each.record_id, each.why, each.checks) for each in revalidation.calls.values()]
    db.register("found_kept", make_table(schema, rows))
    # a rekeyed reply has the id of the original and a suffix after a full stop
    db.execute(
        "INSERT INTO kept_calls SELECT DISTINCT ?, u.record_id, f.why, f.checks FROM build_calls u JOIN found_kept f "
        "ON split_part(f.record_id, '.', 1) = split_part(u.record_id, '.', 1) WHERE u.build_id = ?",
        [run_id, run_id],
    )
    db.unregister("found_kept")
