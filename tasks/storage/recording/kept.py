"""What a rebuild since an earlier build found out before it began: which replies of that build are as good as new.

It is settled once a run and written into the run's folder, so that a run that goes on after a crash keeps to it.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from tasks.storage.recording.journal import Record
from tasks.storage.recording.records import read_all

FILE = "since.json"
STAGE = "since"
"""Under which the calls that look for change are filed; no step has that name."""


@dataclass(frozen=True, slots=True)
class KeptCall:
    """A recorded call that serves, though it is too old."""

    record_id: str
    asked_at: str
    """ISO 8601."""
    why: str
    checks: tuple[str, ...]
    """Ids of the records that show it."""


@dataclass(slots=True)
class Kept:
    """What was settled."""

    build: str
    """The earlier build."""
    begun: str
    """When the run began that settled it (ISO 8601)."""
    calls: dict[str, KeptCall] = field(default_factory=dict)
    """Key → the call, of those that are kept; its key is that of the earlier build, where the service was called otherwise."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Service → what it was called then, of those that are named by their content."""
    checks: dict[str, str] = field(default_factory=dict)
    """Key → id of the record, of the calls that looked for change."""
    counts: dict[str, Any] = field(default_factory=dict)
    """For the report (tasks/options.py)."""

    def moment(self, key: str) -> datetime | None:
        """Return when the reply came that is kept for a call; None: none is."""
        found = self.calls.get(key)
        return None if found is None else datetime.fromisoformat(found.asked_at)

    def write(self, folder: Path) -> None:
        """Write down what was settled, whole or not at all."""
        draft = folder / f"{FILE}.draft"
        draft.write_text(json.dumps(asdict(self), ensure_ascii=False), "utf-8")
        draft.replace(folder / FILE)


def read_kept(folder: Path, build: str, begun: str) -> Kept | None:
    """Return what a run that began at that moment settled; None where it has not yet."""
    try:
        told = json.loads((folder / FILE).read_bytes())
        calls = {key: KeptCall(**{**each, "checks": tuple(each["checks"])}) for key, each in told.pop("calls").items()}
        kept = Kept(**told, calls=calls)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None  # there is none, or it is torn
    return kept if (kept.build, kept.begun) == (build, begun) else None


def list_used(
    db: duckdb.DuckDBPyConnection, build_id: str, services: Sequence[str]
) -> list[tuple[str, str, str, str, datetime]]:
    """Return (record id, service, operation, parts, when it came) of the replies of services that a build rests on."""
    return db.execute(
        "SELECT DISTINCT c.record_id, c.service, c.operation, c.parts, c.asked_at FROM build_calls u "
        "JOIN calls c USING (record_id) WHERE u.build_id = ? AND u.stage <> ? AND list_contains(?, c.service) ORDER BY 1",
        [build_id, STAGE, list(services)],
    ).fetchall()


def take_over(record: Record, key: str, service: str) -> Record:
    """Return a reply as that of another call: of the same service in another state, where it would come again."""
    return replace(record, record_id=f"{record.record_id.partition('.')[0]}.{key[:8]}", key=key, service=service)


def find_reply(db: duckdb.DuckDBPyConnection, key: str) -> Record | None:
    """Return the newest reply to a call that is no failure; None where there is none."""
    found = db.execute("SELECT max(record_id) FROM calls WHERE key = ? AND status = 'ok'", [key]).fetchone()
    return read_all(db, [found[0]])[0] if found and found[0] else None


def read_used(db: duckdb.DuckDBPyConnection, record_ids: Sequence[str]) -> list[Record]:
    """Return records by their ids, in their order."""
    found = {record.record_id: record for record in read_all(db, record_ids)}
    return [found[each] for each in record_ids]


def write_kept(db: duckdb.DuckDBPyConnection, run_id: str, kept: Kept) -> None:
    """File under a run which of the replies that it rests on were kept, and the calls that showed it."""
    db.execute("DELETE FROM kept_calls WHERE build_id = ?", [run_id])
    db.execute("DELETE FROM build_calls WHERE build_id = ? AND stage = ?", [run_id, STAGE])
    checks = pa.table({"key": list(kept.checks), "record_id": list(kept.checks.values())})
    calls = pa.Table.from_pylist(
        [{"record_id": each.record_id, "why": each.why, "checks": list(each.checks)} for each in kept.calls.values()],
        pa.schema([("record_id", pa.string()), ("why", pa.string()), ("checks", pa.list_(pa.string()))]),
    )
    if kept.checks:
        db.register("made_checks", checks)
        db.execute(
            "INSERT INTO build_calls (build_id, stage, id, key, record_id) SELECT ?, ?, '', key, record_id FROM made_checks",
            [run_id, STAGE],
        )
        db.unregister("made_checks")
    db.register("found_kept", calls)
    # a reply that was taken over has the id of the one that came, and more behind a full stop
    db.execute(
        "INSERT INTO kept_calls SELECT DISTINCT ?, u.record_id, f.why, f.checks FROM build_calls u JOIN found_kept f "
        "ON split_part(f.record_id, '.', 1) = split_part(u.record_id, '.', 1) WHERE u.build_id = ?",
        [run_id, run_id],
    )
    db.unregister("found_kept")
