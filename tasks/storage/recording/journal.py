"""The journal: every reply is on disk the moment it arrives, so that a killed run asks nothing twice.

One file a process, locked while it lives; one line a reply, `<crc32> <json>`, appended in one write. A line that is
torn by a crash fails its checksum and is left out. A file only grows: a journal that is cleared goes on in another one,
so that other processes can read along. Journals are merged into the warehouse at the end of a stage, and those of dead
processes by whoever runs next, who keeps those aside that are damaged otherwise.

What one process is asking just now, no other process of the same warehouse asks: it claims the calls, in one file a batch,
locked while it is asked, with their keys of 32 bytes each. Claims are made one process at a time. The system drops the lock
of a process that dies, so its claims are free at once. Who finds a key claimed holds none of its own while it waits, so
nobody waits in a circle.
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

from factmill.tasks.core.calls.call import Call, Reply
from factmill.tasks.core.fingerprints import canonical_json
from factmill.tasks.errors import ShardError
from factmill.tasks.processes import one_at_a_time
from factmill.tasks.progress import say
from factmill.tasks.storage.recording.folders import make_work_folder
from factmill.tasks.storage.warehouse import read_json

_SYNC_EVERY_S = 1.0
_DRAFT = ".opening"
_numbering, _last = threading.Lock(), [0]
_KEY = re.compile(rb'"key":"([0-9a-f]+)"')
"""A line's key; in what a reply says, quotes are escaped."""


@dataclass(frozen=True, slots=True)
class Record:
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

    def read(self, column: Literal["parts", "body"]) -> Any:
        """Return what a JSON column says; WarehouseError for a damaged one."""
        return read_json(getattr(self, column), f"calls.{column} of {self.record_id}")

    def reply(self) -> Reply:
        """Return the reply as it came."""
        return Reply(
            body=self.read("body"),
            status="ok" if self.status == "ok" else "failed",
            error=self.error,
            transient=self.transient,
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
            cost_usd=self.cost_usd,
            latency_s=self.latency_s,
        )


def make_record(call: Call, reply: Reply, after: str = "") -> Record:
    """Return the record of a reply that came just now.

    Its id sorts by time, and behind all that this process made before and the id `after`, also when the clock is set back.
    """
    now, before = time.time_ns(), int(after.partition("-")[0] or "0", 16)
    with _numbering:
        _last[0] = number = max(now, before + 1, _last[0] + 1)
    return Record(
        record_id=f"{number:016x}-{os.urandom(4).hex()}",
        key=call.key,
        service=call.service,
        operation=call.operation,
        parts=call.written_parts,
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


class Journal:
    """The journal file of this process; safe to append to from several threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open()
        self._lock = threading.Lock()
        self._synced = time.monotonic()

    def _open(self) -> None:
        """Begin a file, called a journal once it is locked: who finds one that is not takes it for a dead process's."""
        path = self._folder / f"{os.getpid()}-{os.urandom(4).hex()}.journal"
        draft = path.with_suffix(_DRAFT)
        try:
            make_work_folder(self._folder)
            fd = os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
            fcntl.flock(fd, fcntl.LOCK_EX)
            draft.rename(path)
        except FileNotFoundError:
            self._open()  # it was taken for what a dead process left
        except OSError as error:
            raise ShardError(f"cannot write the journal {path}: {error.strerror}") from error
        else:
            self.path, self._fd, self._size = path, fd, 0

    def append(self, record: Record) -> None:
        """Write one record; ShardError when the disk is full."""
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
        """Empty the journal, once its records are in the warehouse."""
        with self._lock:
            path, fd = self.path, self._fd
            self._open()
            path.unlink(missing_ok=True)
            os.close(fd)

    def close(self) -> None:
        """Close and remove the file when it is empty."""
        with self._lock:
            if os.fstat(self._fd).st_size == 0:
                self.path.unlink(missing_ok=True)
            os.close(self._fd)


def encode_line(record: Record) -> bytes:
    """Return a record's line: checksum, space, JSON, newline."""
    fields = {name: getattr(record, name) for name in Record.__slots__}
    payload = canonical_json({**fields, "asked_at": record.asked_at.isoformat()}).encode("utf-8", "surrogatepass")
    return b"%08x %s\n" % (zlib.crc32(payload), payload)


def read_journal(path: Path) -> Iterator[Record]:
    """Yield the whole records of a journal; torn and damaged lines are left out."""
    with path.open("rb") as lines:
        yield from (record for line in lines if (record := _read_line(line)))


def find_damage(path: Path) -> list[int]:
    """Return the numbers, from 1, of a journal's damaged lines; one at its end that a crash has torn is none."""
    with path.open("rb") as lines:
        return [number for number, line in enumerate(lines, 1) if line.endswith(b"\n") and not _read_line(line)]


def _read_line(line: bytes) -> Record | None:
    checksum, _, payload = line.rstrip(b"\n").partition(b" ")
    if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(payload):
        return None
    try:
        fields = json.loads(payload.decode("utf-8", "surrogatepass"))
        return Record(**{**fields, "asked_at": datetime.fromisoformat(fields["asked_at"])})
    except (ValueError, TypeError, KeyError, RecursionError):
        return None  # another program's line, or one of another factmill


class OtherJournals:
    """What stands in the journals of a folder, read on as they grow: the records of processes that are still at work."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        """Journal → bytes of it that were read."""
        self._places: dict[bytes, list[tuple[Path, int]]] = {}
        """Call key → journals and places of its records."""
        self._lock = threading.Lock()

    def find(self, keys: Collection[str], own: Path) -> dict[str, Record]:
        """Return the newest record of each key that stands in another journal than `own`."""
        with self._lock:
            there = [path for path in self._folder.glob("*.journal") if path != own]
            if self._read.keys() - there:
                self._read = {path: self._read.get(path, 0) for path in there}
                kept = {key: [place for place in places if place[0] in there] for key, places in self._places.items()}
                self._places = {key: places for key, places in kept.items() if places}
            for path in there:
                self._read_on(path)
            places = {key: list(self._places.get(key.encode(), ())) for key in keys}
        found = {key: [record for place in each if (record := _read_at(*place))] for key, each in places.items()}
        return {key: max(records, key=lambda record: record.record_id) for key, records in found.items() if records}

    def _read_on(self, path: Path) -> None:
        at = self._read.get(path, 0)
        try:
            with path.open("rb") as lines:
                lines.seek(at)
                for line in lines:
                    if not line.endswith(b"\n"):
                        break  # is being written
                    if found := _KEY.search(line):
                        self._places.setdefault(found[1], []).append((path, at))
                    at += len(line)
        except FileNotFoundError:
            return  # merged meanwhile
        self._read[path] = at


def _read_at(path: Path, place: int) -> Record | None:
    try:
        with path.open("rb") as lines:
            lines.seek(place)
            return _read_line(lines.readline())
    except FileNotFoundError:
        return None  # merged meanwhile


def orphan_journals(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield the journals of dead processes, each locked (path, descriptor) until the caller closes the descriptor."""
    for path in sorted(folder.glob(f"*{_DRAFT}")):
        if (fd := _take_over(path)) is not None:
            path.unlink(missing_ok=True)
            os.close(fd)
    for path in sorted(folder.glob("*.journal")):
        if (fd := _take_over(path)) is not None:
            yield path, fd


def _take_over(path: Path) -> int | None:
    """Lock a file of a dead process; None where its process lives, or it is gone."""
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ShardError(f"cannot read the journal {path}: {error.strerror}; see to it, or move it away") from error
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


class Claims:
    """The claims on calls of one warehouse, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        """Open the folder; what dead processes have left in it is removed."""
        self._folder = folder
        self._lock = folder / "lock"
        with self._alone():
            for path in folder.glob("*.claim"):
                _read_claim(path)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let no other process claim anything meanwhile; ShardError where the folder cannot be written."""
        try:
            with one_at_a_time(self._lock, say):
                yield
        except OSError as error:
            raise ShardError(
                f"cannot write {self._folder}: {error.strerror}; free some space, see to it that it can be written, and run "
                "the same command again"
            ) from error

    @contextmanager
    def hold(self, keys: Collection[str]) -> Iterator[set[str]]:
        """Claim those of the keys (SHA-256, in hex) that are free, and give them; they are free again at the end."""
        wanted = {bytes.fromhex(key) for key in keys}
        with self._alone():
            for path in self._folder.glob("*.claim"):
                wanted -= _read_claim(path)
            own = self._write(wanted) if wanted else None
        try:
            yield {key.hex() for key in wanted}
        finally:
            if own:
                path, claim = own
                os.close(claim)  # first: an unlocked file claims nothing, also where it cannot be removed
                path.unlink(missing_ok=True)

    def find_holders(self, keys: Collection[str]) -> list[int]:
        """Return the numbers of the processes that hold any of the keys."""
        wanted = {bytes.fromhex(key) for key in keys}
        with self._alone():
            found = {path: _read_claim(path) for path in self._folder.glob("*.claim")}
        return sorted({int(path.name.partition("-")[0]) for path, held in found.items() if wanted & held})

    def _write(self, keys: set[bytes]) -> tuple[Path, int]:
        """Write a claim; return its file and the descriptor that locks it."""
        path = self._folder / f"{os.getpid()}-{os.urandom(4).hex()}.claim"
        claim = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        try:
            fcntl.flock(claim, fcntl.LOCK_EX)
            path.write_bytes(b"".join(keys))
        except BaseException:  # memory that runs out, too: this process would wait for itself
            os.close(claim)
            path.unlink(missing_ok=True)
            raise
        return path, claim


def _read_claim(path: Path) -> set[bytes]:
    """Return the keys that a process claims in a file; none, and remove it, when that process has died."""
    try:
        with path.open("rb") as claim:
            try:
                fcntl.flock(claim, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                held = claim.read()
                return {held[at : at + _KEY_BYTES] for at in range(0, len(held), _KEY_BYTES)}
            path.unlink(missing_ok=True)
    except FileNotFoundError:
        pass  # given back meanwhile
    return set()
