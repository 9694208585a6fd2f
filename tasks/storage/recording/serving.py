"""Which of the recorded replies serve a run: by its mode, their age, whether they failed, and what was kept since a build."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import duckdb
import pyarrow as pa

from tasks.core.calls.call import Call, Mode
from tasks.core.calls.freshness.lasting import find_oldest
from tasks.storage.recording.journal import Record
from tasks.storage.recording.kept import Kept, take_over
from tasks.storage.recording.records import MOMENT, read_all
from tasks.storage.warehouse import is_there, open_warehouse


@dataclass(slots=True)
class Serving:
    """What serves one run."""

    warehouse: Path
    mode: Mode
    floor: str
    """Record id that records must be newer than; empty but in mode `refresh`."""
    opened: str
    """Record id; newer ones came since the run was opened."""
    pinned_build: str | None = None
    """Only the very replies that this build rests on serve."""
    oldest: Mapping[str, datetime] = field(default_factory=dict)
    """Service → when its replies must have come, but for those that last."""
    kept: Kept | None = None
    """Replies that serve though they are too old."""

    def admits(self, record: Record, call: Call) -> bool:
        """True when a record that another process has counts for this run (`_choose` is the same in SQL)."""
        oldest = self._find_oldest(call)
        return (
            record.record_id > self.floor
            and (not record.transient or record.record_id > self.opened)
            and (oldest is None or record.asked_at >= oldest or record.record_id > self.opened)
        )

    def find(self, calls: Sequence[Call]) -> dict[str, Record]:
        """Return the newest usable record of each call that the warehouse holds, by the call's key."""
        if not calls or (self.mode == "replay" and not is_there(self.warehouse)):
            return {}
        oldest = [self._find_oldest(call) for call in calls]
        wanted = {"key": pa.array([call.key for call in calls], pa.string()), "oldest": pa.array(oldest, MOMENT)}
        with open_warehouse(self.warehouse) as db:
            db.register("wanted", pa.table(wanted))
            return {record.key: record for record in read_all(db, self._choose(db))}

    def find_renamed(self, calls: Sequence[Call]) -> dict[str, Record]:
        """Return the replies that are kept of what services said that were called otherwise then, as replies to these calls."""
        kept = self.kept
        if kept is None or not kept.renamed:
            return {}
        then = {
            call.key: replace(call, service=kept.renamed[call.service]).key
            for call in calls
            if call.service in kept.renamed
        }
        ids = {key: kept.calls[old].record_id for key, old in then.items() if old in kept.calls}
        if not ids:
            return {}
        with open_warehouse(self.warehouse) as db:
            records = {record.record_id: record for record in read_all(db, sorted({*ids.values()}))}
        services = {call.key: call.service for call in calls}
        return {key: take_over(records[each], key, services[key]) for key, each in ids.items() if each in records}

    def find_older(self, wanted: Mapping[str, Call], records: Mapping[str, Record]) -> dict[str, Record]:
        """Return the newest replies, though too old, of calls that a service of which replies age has failed to answer."""
        failed = [key for key, call in wanted.items() if call.service in self.oldest and records[key].transient]
        if not failed:
            return {}
        with open_warehouse(self.warehouse) as db:
            found = db.execute(
                "SELECT max(record_id) FROM calls WHERE status = 'ok' AND key IN (SELECT unnest(?)) GROUP BY key",
                [failed],
            ).fetchall()
            return {record.key: record for record in read_all(db, sorted(each for (each,) in found))}

    def _find_oldest(self, call: Call) -> datetime | None:
        """Return when a reply to a call must have come to serve; None: it may be of any age."""
        oldest = self.oldest.get(call.service)
        if oldest is None:
            return None
        kept = self.kept.moment(call.key) if self.kept else None
        return min(find_oldest(call.operation, call.parts, oldest), kept or oldest)

    def _choose(self, db: duckdb.DuckDBPyConnection) -> list[str]:
        """Return the ids of the records to serve for the keys in `wanted`; bodies are not looked at yet."""
        if self.pinned_build is not None:
            query = (
                "SELECT c.record_id FROM calls c JOIN wanted USING (key) "
                "WHERE c.record_id IN (SELECT record_id FROM build_calls WHERE build_id = ?)"
            )
            given = [self.pinned_build]
        else:
            query = (
                "SELECT max(c.record_id) FROM calls c JOIN wanted USING (key) "
                "WHERE c.record_id > ? AND (NOT c.transient OR c.record_id > ?) "
                "AND (oldest IS NULL OR c.asked_at >= oldest OR c.record_id > ?) GROUP BY c.key"
            )
            failure_floor = "" if self.mode == "replay" else self.opened
            given = [self.floor, failure_floor, failure_floor]
        return sorted(record_id for (record_id,) in db.execute(query, given).fetchall())
