"""Call cache: send every external call once, record its reply in the warehouse, and serve the recording from then on.

Modes: `record` (serve recorded replies, send calls that are missing or expired; the next run retries transient failures),
`replay` (send nothing; a miss is an error that names the differences from the nearest recorded call), `refresh` (send
every call again, once per run). If two batches, of this process or of several, need the same call at once, only one sends
it.
"""

import math
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from factmill.tasks import progress
from factmill.tasks.core.calls.call import Call, CallCacheMode, CallResponse, CallService
from factmill.tasks.core.calls.freshness import get_oldest_usable_response_time
from factmill.tasks.core.digests import canonical_json
from factmill.tasks.errors import ReplayMiss
from factmill.tasks.storage.recording.call_records import (
    BuildRevalidation,
    insert_new_call_records,
    load_newest_record_id,
    load_records,
    rekey_record,
)
from factmill.tasks.storage.recording.journal import (
    CallJournal,
    CallRecord,
    CallRecordsOfOtherProcesses,
    CallReservationFolder,
    find_damaged_lines,
    lock_orphan_journals,
    make_record,
    read_journal,
)
from factmill.tasks.storage.recording.work_folders import work_folder
from factmill.tasks.storage.warehouse import Connection, open_warehouse, parse_json_column, warehouse_exists


@dataclass(slots=True)
class LookupOfRecordsValidForRun:
    """Look-up of the recorded replies that are valid for one run."""

    warehouse: Path
    mode: CallCacheMode
    newer_than: str
    """Records must be newer than this record id; empty except in mode `refresh`."""
    newest_at_open: str
    """Record id; newer records came since the run was opened. Empty in mode `replay`: all records, even failures, are valid."""
    pinned_build: str | None = None
    """If set, only the replies that this build used are valid."""
    oldest_allowed: Mapping[str, datetime] = field(default_factory=dict)
    """Service → earliest time of a valid reply, except for immutable ones."""
    revalidation: BuildRevalidation | None = None
    """Expired replies that were revalidated."""

    def admits(self, call: Call, record_id: str, transient: bool, asked_at: datetime) -> bool:
        """True if a recorded reply to a call is valid for this run."""
        if record_id > self.newest_at_open:  # which is no earlier than the floor
            return True
        oldest = self.oldest_allowed.get(call.service)
        if oldest is not None:
            kept = self.revalidation.find_reply_time(call.key) if self.revalidation else None
            oldest = min(get_oldest_usable_response_time(call.operation, call.parts, oldest), kept or oldest)
        return record_id > self.newer_than and not transient and (oldest is None or asked_at >= oldest)

    def find_records(self, calls: Sequence[Call]) -> dict[str, CallRecord]:
        """Return call key → newest valid record in the warehouse; bodies are read only of these."""
        if not calls or (self.mode == "replay" and not warehouse_exists(self.warehouse)):
            return {}
        of_build = (
            "AND c.record_id IN (SELECT record_id FROM build_calls WHERE build_id = $1)" if self.pinned_build else ""
        )
        by_key = {call.key: call for call in calls}
        with open_warehouse(self.warehouse) as db:
            db.register("wanted", pa.table({"key": pa.array(list(by_key), pa.string())}))
            found = db.execute(
                f"SELECT c.key, c.record_id, c.transient, c.asked_at FROM calls c JOIN wanted USING (key) WHERE true {of_build} "
                "ORDER BY c.record_id",
                [self.pinned_build] if self.pinned_build else [],
            ).fetchall()
            chosen = {key: fields[0] for key, *fields in found if self.admits(by_key[key], *fields)}
            return {record.key: record for record in load_records(db, sorted(chosen.values()))}

    def find_from_renamed_services(self, calls: Sequence[Call]) -> dict[str, CallRecord]:
        """Return call key → revalidated reply of a service that had another identity then, rekeyed to the call."""
        kept = self.revalidation
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
            records = {record.record_id: record for record in load_records(db, sorted({*ids.values()}))}
        services = {call.key: call.service for call in calls}
        return {key: rekey_record(records[each], key, services[key]) for key, each in ids.items() if each in records}

    def find_stale_replies(
        self, wanted: Mapping[str, Call], records: Mapping[str, CallRecord]
    ) -> dict[str, CallRecord]:
        """Return call key → newest reply, even if expired, of calls that now fail transiently at a service whose replies expire."""
        failed = [key for key, call in wanted.items() if call.service in self.oldest_allowed and records[key].transient]
        if not failed:
            return {}
        with open_warehouse(self.warehouse) as db:
            found = db.execute(
                "SELECT max(record_id) FROM calls WHERE status = 'ok' AND key IN (SELECT unnest(?)) GROUP BY key",
                [failed],
            ).fetchall()
            return {record.key: record for record in load_records(db, sorted(each for (each,) in found))}


def format_replay_miss(warehouse: Path, missing: Sequence[Call]) -> str:
    """Return which call is missing and how it differs from the nearest recorded call, as text."""
    call = missing[0]
    text = f"replay: {len(missing)} calls are not recorded, the first: {format_call_for_messages(call)}"
    near: list[tuple[str, str, str]] = []
    if warehouse_exists(warehouse):
        with open_warehouse(warehouse) as db:
            near = db.execute(
                "SELECT record_id, service, parts FROM calls WHERE operation = ? ORDER BY record_id DESC LIMIT 5000",
                [call.operation],
            ).fetchall()
    differences = [
        _format_call_differences(call, service, parse_json_column(parts, f"calls.parts of {record_id}", dict))
        for record_id, service, parts in near
    ]
    if not differences:
        return f"{text}; no call of this operation is recorded. Build once with --mode record, then replay"
    nearest = min(differences, key=len)
    if not nearest:
        return f"{text}; the nearest recorded call differs only in the rendered messages or in its age"
    return f"{text}; the nearest recorded call differs in {'; '.join(nearest)}"


def _format_call_differences(call: Call, service: str, parts: Mapping[str, object]) -> list[str]:
    pairs: list[tuple[str, object, object]] = [("service", call.service, service)]
    pairs += [(name, call.parts.get(name), parts.get(name)) for name in sorted({*call.parts, *parts})]
    return [
        f"{name}: {_format_short_value(ours)} here, {_format_short_value(theirs)} recorded"
        for name, ours, theirs in pairs
        if ours != theirs
    ]


def format_call_for_messages(call: Call) -> str:
    """Return operation, service and parts of a call as text."""
    return f"{call.operation} of {call.service} with {_format_short_value(dict(call.parts))}"


def _format_short_value(value: object) -> str:
    text = value if isinstance(value, str) else canonical_json(value)
    return repr(text if len(text) <= 80 else text[:77] + "…")


_MAX_UNMERGED_CHARS = 8 * 2**20
"""Characters of records that a run holds before it moves them into the warehouse, even within a stage."""
_RECORD_OVERHEAD_CHARS = 500
"""Characters assumed for a record's key, ids and counts."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.5
"""Seconds between checks whether another process has the replies that it is waiting for."""
_REPORT_WAIT_AFTER_S = 15.0
"""Seconds after which a batch reports that it waits for another process."""


@dataclass(slots=True)
class CallResults:
    """Records of one batch's calls, with counts."""

    records: dict[str, CallRecord] = field(default_factory=dict)
    """Call key → its record."""
    sent: int = 0
    replayed: int = 0


class CallCache:
    """Cache of one warehouse's recorded calls, as one run uses it."""

    def __init__(
        self,
        warehouse: Path,
        mode: CallCacheMode,
        newer_than: str = "",
        pinned_build: str | None = None,
        oldest_allowed: Mapping[str, datetime] | None = None,
        stale_if_error: bool = False,
    ) -> None:
        """Open the cache for a run and merge journals of dead processes.

        `newer_than`: in mode `refresh`, records must be newer than this record id. `pinned_build`: serve only the replies that
        this build used (for `verify`). `oldest_allowed`: service → earliest time of a valid reply in mode `record`, except for
        immutable replies (core/calls/freshness.py). `stale_if_error`: serve expired replies if the service now fails.
        """
        self.mode: CallCacheMode = mode
        self._warehouse = warehouse
        self._stale_if_error = stale_if_error
        self._journal_folder = work_folder(warehouse) / "journal"
        self._journal = CallJournal(self._journal_folder) if mode != "replay" else None
        self._claims = CallReservationFolder(self._journal_folder.with_name("claims")) if mode != "replay" else None
        self._others = CallRecordsOfOtherProcesses(self._journal_folder)
        self._fresh: dict[str, CallRecord] = {}
        self._fresh_length = 0
        """Approximate number of characters in them."""
        self._moves = 0
        """How often fresh records were moved into the warehouse."""
        self._moving = threading.Lock()
        """Held while fresh records are moved into the warehouse: two threads at once would move the same ones."""
        self._claimed: dict[str, Future[None]] = {}
        self._lock = threading.Lock()
        if mode != "replay":
            self._merge_orphan_journals()
        self._serving = LookupOfRecordsValidForRun(
            warehouse,
            mode,
            newer_than if mode == "refresh" else "",
            # journals of other processes may contain older failures
            "" if mode == "replay" else max(load_newest_record_id(warehouse), f"{time.time_ns():016x}"),
            pinned_build,
            dict(oldest_allowed or {}) if mode == "record" else {},
        )
        self._newest = max(newer_than, self._serving.newest_at_open)
        """Records of this run are newer than this record id."""

    def use_revalidation(self, kept: BuildRevalidation) -> None:
        """Serve expired replies that were revalidated, since their underlying data has not changed."""
        self._serving.revalidation = kept

    def get_or_send(self, calls: Sequence[Call], service: CallService) -> CallResults:
        """Return a reply for every call: from this run, from the warehouse, or from the service."""
        answers = self._get_or_send({call.key: call for call in calls}, service)
        if self._fresh_length > _MAX_UNMERGED_CHARS and self._moving.acquire(blocking=False):
            # if another batch is moving records, this one continues
            try:
                with self._move_to_warehouse():
                    pass
            finally:
                self._moving.release()
        return answers

    def _get_or_send(self, wanted: Mapping[str, Call], service: CallService) -> CallResults:
        answers = CallResults()
        with self._lock:
            answers.records.update({key: self._fresh[key] for key in wanted if key in self._fresh})
        state = self._get_warehouse_state()
        answers.records.update(
            self._serving.find_records([call for key, call in wanted.items() if key not in answers.records])
        )
        renamed = self._serving.find_from_renamed_services(
            [call for key, call in wanted.items() if key not in answers.records]
        )
        for record in renamed.values():
            self._append_record(record)
        answers.records.update(renamed)
        answers.replayed = len(answers.records)
        missing = [call for key, call in wanted.items() if key not in answers.records]
        if missing and self.mode == "replay":
            raise ReplayMiss(format_replay_miss(self._warehouse, missing))
        if missing:
            self._send_missing(missing, service, answers, state)
        if self._stale_if_error:
            answers.records.update(self._serving.find_stale_replies(wanted, answers.records))
        return answers

    def _get_warehouse_state(self) -> object:
        """Return what differs once records have come into the warehouse: from this process, even in no time, or another."""
        return self._moves, _get_warehouse_file_state(self._warehouse)

    def _send_missing(self, missing: Sequence[Call], service: CallService, answers: CallResults, state: object) -> None:
        """Send the calls that no other batch is sending, then wait for the others' replies.

        `state`: the warehouse's when it was read.
        """
        with self._lock:
            unclaimed = [call for call in missing if call.key not in self._claimed and call.key not in self._fresh]
            theirs = dict.fromkeys(self._claimed[call.key] for call in missing if call.key in self._claimed)
            done = Future[None]()
            self._claimed.update({call.key: done for call in unclaimed})
        sent = 0
        try:
            sent = self._send_unclaimed(unclaimed, service, state)
        except BaseException as error:  # pass any error on to the batches that wait for these replies
            done.set_exception(error)
            raise
        else:
            done.set_result(None)
        finally:
            with self._lock:
                for call in unclaimed:
                    del self._claimed[call.key]
        answers.sent += sent
        failed = [found for each in theirs if (found := each.exception())]
        with self._lock:
            answers.records.update({call.key: self._fresh[call.key] for call in missing if call.key in self._fresh})
        answers.replayed += len(missing) - sent
        # replies that others received may have been moved into the warehouse by now
        answers.records.update(
            self._serving.find_records([call for call in missing if call.key not in answers.records])
        )
        left = [call for call in missing if call.key not in answers.records]
        if left and failed:
            raise failed[0]
        if left:
            raise ReplayMiss(
                f"{service.identity} returned no reply to {len(left)} calls, the first: {format_call_for_messages(left[0])}"
            )

    def _send_unclaimed(self, calls: Sequence[Call], service: CallService, state: object) -> int:
        """Send calls that no other process is sending or has sent, and wait for the others; return how many were sent.

        Replies found only in another process's journal are copied into this one's: the builds that use them are then
        complete, whichever of the two processes is killed.
        """
        left, sent, pause_s = {call.key: call for call in calls}, 0, _FIRST_PAUSE_S
        say_at = time.monotonic() + _REPORT_WAIT_AFTER_S
        while left:
            assert self._claims is not None
            with self._claims.claim(left) as free:
                found = self._adopt_journalled_records(list(left.values()))
                if state != (state := self._get_warehouse_state()):
                    found |= self._serving.find_records([call for key, call in left.items() if key not in found]).keys()
                claimed = [call for key, call in left.items() if key in free and key not in found]
                if claimed:
                    progress.add_expected_replies(len(claimed))
                    service.send(claimed, self._record_reply)
            sent += len(claimed)
            left = {key: call for key, call in left.items() if key not in free and key not in found}
            if not left:
                break
            if time.monotonic() >= say_at:
                say_at = math.inf
                if holders := self._claims.find_claiming_processes(left):
                    progress.print_and_log(
                        f"note: process {', '.join(map(str, holders))} is requesting {len(left)} of the replies that this run needs; "
                        "this run waits for them. If that process hangs, stop it: this run then sends the requests itself"
                    )
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
        return sent

    def _adopt_journalled_records(self, calls: Sequence[Call]) -> set[str]:
        """Copy valid records of these calls from other processes' journals into this one's; return their keys."""
        assert self._journal is not None
        adopted = set()
        by_key = {call.key: call for call in calls}
        for key, record in self._others.find(by_key, self._journal.path).items():
            if self._serving.admits(by_key[key], record.record_id, record.transient, record.asked_at):
                self._append_record(record)
                adopted.add(key)
        return adopted

    def _record_reply(self, call: Call, reply: CallResponse) -> None:
        self._append_record(make_record(call, reply, self._newest))
        progress.count_stage_reply()

    def _append_record(self, record: CallRecord) -> None:
        assert self._journal is not None
        self._journal.append(record)
        with self._lock:
            self._fresh_length += _estimate_record_characters(record)
            self._fresh[record.key] = record

    def merge_journal(self) -> None:
        """Move this run's journalled records into the warehouse, in one transaction."""
        if self._journal is not None and self._fresh:
            with self.merge_transaction():
                pass

    @contextmanager
    def merge_transaction(self) -> Iterator[Connection]:
        """Open a warehouse transaction that begins by moving in this run's journalled records."""
        with self._moving, self._move_to_warehouse() as db:
            yield db

    @contextmanager
    def _move_to_warehouse(self) -> Iterator[Connection]:
        """Do the same; the caller holds `_moving`."""
        with self._lock:
            records = list(self._fresh.values()) if self._journal is not None else []
        with open_warehouse(self._warehouse) as db:
            if records:
                insert_new_call_records(db, records)
            yield db
        with self._lock:
            for record in records:
                if self._fresh[record.key] is record:
                    del self._fresh[record.key]
            self._fresh_length = sum(map(_estimate_record_characters, self._fresh.values()))
            self._moves += 1
            if records and self._journal is not None and not self._fresh:
                self._journal.clear()

    def mark_for_retry(self, record_ids: Collection[str]) -> None:
        """Make the next run send these records' calls again; this run, and builds that use the records, keep them."""
        if record_ids and self.mode != "replay":
            self.merge_journal()
            with open_warehouse(self._warehouse) as db:
                db.execute(
                    "UPDATE calls SET transient = true WHERE record_id IN (SELECT unnest(?))", [sorted(record_ids)]
                )

    def close(self) -> None:
        """Merge the remaining records and remove the journal."""
        if self._journal is not None:
            self.merge_journal()
            self._journal.close()

    def _merge_orphan_journals(self) -> None:
        for path in lock_orphan_journals(self._journal_folder):
            records = list(read_journal(path))
            if records:
                with open_warehouse(self._warehouse) as db:
                    insert_new_call_records(db, records)
            if damaged := find_damaged_lines(path):
                aside = path.replace(path.with_suffix(".damaged"))
                progress.print_and_log(
                    f"note: {len(damaged)} {'line of a journal is' if len(damaged) == 1 else 'lines of a journal are'} damaged, "
                    f"the first is line {damaged[0]}; its {len(records)} complete "
                    f"{'reply is' if len(records) == 1 else 'replies are'} kept, lost ones are requested again, "
                    f"and the journal is renamed to {aside}"
                )
            path.unlink(missing_ok=True)


def _estimate_record_characters(record: CallRecord) -> int:
    return len(record.body) + len(record.parts) + _RECORD_OVERHEAD_CHARS


def _get_warehouse_file_state(warehouse: Path) -> object:
    """Return modification time and size of a warehouse file, which change when a process writes to it; None if missing."""
    try:
        found = warehouse.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size
