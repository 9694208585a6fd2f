"""Journals of replies and claims on calls: write every reply to disk on arrival, so a killed run sends no call twice.

Each process has one journal file, locked while the process lives. Each reply is one line, `<crc32> <json>`, appended in one
write. A line torn by a crash fails its checksum and is skipped. A file only grows, so that other processes can follow it;
clearing a journal starts a new file. Journals are merged into the warehouse at the end of a stage. The next run merges those
of dead processes, and moves journals with other damage aside.

Only one process at a time sends a given call: it claims the keys (32 bytes each) of a batch's calls in one file, locked while
the calls are under way. Only one process at a time makes claims. The system drops the lock of a process that dies, which
frees its claims at once. A process that waits for a claimed key holds no claims itself, so there is no deadlock.
"""

import errno
import fcntl
import json
import os
import re
import threading
import time
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from factmill.tasks.core.calls.call import Call, CallResponse
from factmill.tasks.core.digests import canonical_json
from factmill.tasks.errors import ShardError
from factmill.tasks.processes import exclusive_file_lock
from factmill.tasks.progress import print_and_log
from factmill.tasks.storage.recording.work_folders import make_folder_inside_work_folder
from factmill.tasks.storage.warehouse import parse_json_column

_SYNC_EVERY_S = 1.0
_DRAFT = ".opening"
_record_id_lock, _last_record_number = threading.Lock(), [0]
_KEY = re.compile(rb'"key":"([0-9a-f]+)"')
"""Finds a line's key; quotes in a reply are escaped."""


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A recorded call: one row of the warehouse's table `calls`."""

    record_id: str
    key: str
    service: str
    operation: str
    parts: str
    status: str
    error: str | None
    transient: bool
    body: str
    tokens_in: int
    tokens_out: int
    cost_usd: float
    latency_s: float
    asked_at: datetime

    def read_column(self, column: Literal["parts", "body"]) -> Any:
        """Return the value of a JSON column; WarehouseError if it is damaged."""
        return parse_json_column(getattr(self, column), f"calls.{column} of {self.record_id}")

    def reply(self) -> CallResponse:
        """Return the recorded reply."""
        return CallResponse(
            body=self.read_column("body"),
            status="ok" if self.status == "ok" else "failed",
            error=self.error,
            transient=self.transient,
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
            cost_usd=self.cost_usd,
            latency_s=self.latency_s,
        )


def make_record(call: Call, reply: CallResponse, after: str = "") -> CallRecord:
    """Return the record of a reply that has just arrived.

    Its id sorts by time, after the id `after` and all ids that this process made before, even if the clock is set back.
    """
    now, before = time.time_ns(), int(after.partition("-")[0] or "0", 16)
    with _record_id_lock:
        _last_record_number[0] = number = max(now, before + 1, _last_record_number[0] + 1)
    return CallRecord(
        record_id=f"{number:016x}-{os.urandom(4).hex()}",
        key=call.key,
        service=call.service,
        operation=call.operation,
        parts=call.parts_json,
        status=reply.status,
        error=reply.error,
        transient=reply.transient,
        body=canonical_json(reply.body),
        tokens_in=reply.tokens_in,
        tokens_out=reply.tokens_out,
        cost_usd=reply.cost_usd,
        latency_s=reply.latency_s,
        asked_at=datetime.fromtimestamp(now / 1e9, UTC),
    )


class CallJournal:
    """The journal file of this process; safe to append to from several threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open()
        self._lock = threading.Lock()
        self._synced = time.monotonic()

    def _open(self) -> None:
        """Create a file and name it a journal once it is locked: others take an unlocked one for a dead process's."""
        path = self._folder / f"{os.getpid()}-{os.urandom(4).hex()}.journal"
        draft = path.with_suffix(_DRAFT)
        try:
            make_folder_inside_work_folder(self._folder)
            fd = os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
            fcntl.flock(fd, fcntl.LOCK_EX)
            draft.rename(path)
        except FileNotFoundError:
            self._open()  # another process took it for an orphan
        except OSError as error:
            raise ShardError(f"cannot write the journal {path}: {error.strerror}") from error
        else:
            self.path, self._fd, self._size = path, fd, 0

    def append(self, record: CallRecord) -> None:
        """Write one record; ShardError if the disk is full."""
        line = encode_line(record)
        with self._lock:
            try:
                written = os.write(self._fd, line)
                if written < len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError as error:
                os.ftruncate(self._fd, self._size)
                raise ShardError(
                    f"cannot write the journal {self.path}: {error}; free some space and run the same command again"
                ) from error
            self._size += written
            if time.monotonic() - self._synced > _SYNC_EVERY_S:
                os.fsync(self._fd)
                self._synced = time.monotonic()

    def clear(self) -> None:
        """Start an empty journal, once the records are in the warehouse."""
        with self._lock:
            path, fd = self.path, self._fd
            self._open()
            path.unlink(missing_ok=True)
            os.close(fd)

    def close(self) -> None:
        """Close the file, and remove it if it is empty."""
        with self._lock:
            if os.fstat(self._fd).st_size == 0:
                self.path.unlink(missing_ok=True)
            os.close(self._fd)


def encode_line(record: CallRecord) -> bytes:
    """Return a record's line: checksum, space, JSON, newline."""
    fields = {name: getattr(record, name) for name in CallRecord.__slots__}
    payload = canonical_json({**fields, "asked_at": record.asked_at.isoformat()}).encode("utf-8", "surrogatepass")
    return b"%08x %s\n" % (zlib.crc32(payload), payload)


def read_journal(path: Path) -> Iterator[CallRecord]:
    """Yield the intact records of a journal; skip torn and damaged lines."""
    with path.open("rb") as lines:
        yield from (record for line in lines if (record := _parse_journal_line(line)))


def find_damaged_lines(path: Path) -> list[int]:
    """Return the numbers, from 1, of a journal's damaged lines, except a last line torn by a crash."""
    with path.open("rb") as lines:
        return [
            number for number, line in enumerate(lines, 1) if line.endswith(b"\n") and not _parse_journal_line(line)
        ]


def _parse_journal_line(line: bytes) -> CallRecord | None:
    checksum, _, payload = line.rstrip(b"\n").partition(b" ")
    if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(payload):
        return None
    try:
        fields = json.loads(payload.decode("utf-8", "surrogatepass"))
        return CallRecord(**{**fields, "asked_at": datetime.fromisoformat(fields["asked_at"])})
    except (ValueError, TypeError, KeyError, RecursionError):
        return None  # a line of another program or another factmill


class CallRecordsOfOtherProcesses:
    """Records in the journals of other live processes in a folder, indexed as the files grow."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        """Journal → bytes read so far."""
        self._places: dict[bytes, list[tuple[Path, int]]] = {}
        """Call key → (journal, byte offset) of its records."""
        self._lock = threading.Lock()

    def find(self, keys: Collection[str], own: Path) -> dict[str, CallRecord]:
        """Return the newest record of each key found in a journal other than `own`."""
        with self._lock:
            there = [path for path in self._folder.glob("*.journal") if path != own]
            if self._read.keys() - there:
                self._read = {path: self._read.get(path, 0) for path in there}
                kept = {key: [place for place in places if place[0] in there] for key, places in self._places.items()}
                self._places = {key: places for key, places in kept.items() if places}
            for path in there:
                self._index_new_lines(path)
            places = {key: list(self._places.get(key.encode(), ())) for key in keys}
        found = {
            key: [record for place in each if (record := _read_journal_record_at(*place))]
            for key, each in places.items()
        }
        return {key: max(records, key=lambda record: record.record_id) for key, records in found.items() if records}

    def _index_new_lines(self, path: Path) -> None:
        at = self._read.get(path, 0)
        try:
            with path.open("rb") as lines:
                lines.seek(at)
                for line in lines:
                    if not line.endswith(b"\n"):
                        break  # still being written
                    if found := _KEY.search(line):
                        self._places.setdefault(found[1], []).append((path, at))
                    at += len(line)
        except FileNotFoundError:
            return  # merged meanwhile
        self._read[path] = at


def _read_journal_record_at(path: Path, place: int) -> CallRecord | None:
    try:
        with path.open("rb") as lines:
            lines.seek(place)
            return _parse_journal_line(lines.readline())
    except FileNotFoundError:
        return None  # merged meanwhile


def lock_orphan_journals(folder: Path) -> Iterator[Path]:
    """Yield the journals of dead processes, each locked until the next is taken; remove those that were just being created."""
    for path in (*sorted(folder.glob(f"*{_DRAFT}")), *sorted(folder.glob("*.journal"))):
        if (fd := _lock_file_of_dead_process(path)) is not None:
            try:
                if path.suffix == _DRAFT:
                    path.unlink(missing_ok=True)
                else:
                    yield path
            finally:
                os.close(fd)


def _lock_file_of_dead_process(path: Path) -> int | None:
    """Lock a file of a dead process; None if its process is alive or the file no longer exists."""
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ShardError(
            f"cannot read the journal {path}: {error.strerror}; fix that, or move the file away"
        ) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    if os.fstat(fd).st_nlink == 0:
        os.close(fd)
        return None  # another process was first
    return fd


_KEY_BYTES = 32


class CallReservationFolder:
    """The claims on calls of one warehouse, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        """Open the folder and remove files of dead processes."""
        self._folder = folder
        self._lock = folder / "lock"
        with self._exclusive():
            for path in folder.glob("*.claim"):
                _read_reservations_or_remove_dead_file(path)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Keep other processes from making claims meanwhile; ShardError if the folder cannot be written."""
        try:
            with exclusive_file_lock(self._lock, print_and_log):
                yield
        except OSError as error:
            raise ShardError(
                f"cannot write {self._folder}: {error.strerror}; free some space, make the folder writable, and run "
                "the same command again"
            ) from error

    @contextmanager
    def claim(self, keys: Collection[str]) -> Iterator[set[str]]:
        """Claim the keys (SHA-256, in hex) that are free, yield them, and release them at the end."""
        wanted = {bytes.fromhex(key) for key in keys}
        with self._exclusive():
            for path in self._folder.glob("*.claim"):
                wanted -= _read_reservations_or_remove_dead_file(path)
            own = self._write(wanted) if wanted else None
        try:
            yield {key.hex() for key in wanted}
        finally:
            if own:
                path, claim = own
                os.close(claim)  # first: an unlocked file claims nothing, even if it cannot be removed
                path.unlink(missing_ok=True)

    def find_claiming_processes(self, keys: Collection[str]) -> list[int]:
        """Return the pids of the processes that claim any of the keys."""
        wanted = {bytes.fromhex(key) for key in keys}
        with self._exclusive():
            found = {path: _read_reservations_or_remove_dead_file(path) for path in self._folder.glob("*.claim")}
        return sorted({int(path.name.partition("-")[0]) for path, held in found.items() if wanted & held})

    def _write(self, keys: set[bytes]) -> tuple[Path, int]:
        """Write a claim; return its file and the descriptor that locks it."""
        path = self._folder / f"{os.getpid()}-{os.urandom(4).hex()}.claim"
        claim = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        try:
            fcntl.flock(claim, fcntl.LOCK_EX)
            path.write_bytes(b"".join(keys))
        except BaseException:  # including MemoryError: this process would wait for itself
            os.close(claim)
            path.unlink(missing_ok=True)
            raise
        return path, claim


def _read_reservations_or_remove_dead_file(path: Path) -> set[bytes]:
    """Return the keys claimed in a file; if its process has died, remove the file and return none."""
    try:
        with path.open("rb") as claim:
            try:
                fcntl.flock(claim, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                held = claim.read()
                return {held[at : at + _KEY_BYTES] for at in range(0, len(held), _KEY_BYTES)}
            path.unlink(missing_ok=True)
    except FileNotFoundError:
        pass  # released meanwhile
    return set()
