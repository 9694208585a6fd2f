"""Claims: what one process is asking just now, no other process of the same warehouse asks.

One file a batch, locked while it is asked; in it the keys of its calls, 32 bytes each. Claims are made one process at a
time. The system drops the lock of a process that dies, so its claims are free at once. Who finds a key claimed holds
none of its own while it waits, so nobody waits in a circle.
"""

import fcntl
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks.errors import ShardError
from tasks.processes import one_at_a_time
from tasks.progress import say

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
