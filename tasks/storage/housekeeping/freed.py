"""What housekeeping frees, counted; and who holds what it must not touch."""

import fcntl
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Freed:
    """One kind of things that are removed, or would be."""

    kind: str
    count: int = 0
    size_bytes: int = 0
    """Of files what they take; of rows what they hold as text, which is more than they take in the file."""
    names: tuple[str, ...] = ()
    left: str = ""
    """Why more is left alone; empty where nothing is."""
    trouble: str = ""
    """Why it could not be done; empty where it was."""


def is_held(path: Path) -> bool:
    """True when a process holds a lock on a file."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def is_alive(process: str) -> bool:
    """True when a process of this number runs, or when it is no number."""
    if not process.isdigit():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def measure(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder; what goes away meanwhile counts nothing."""
    if not path.is_dir():
        return _size(path)
    return sum(_size(each) for each in path.rglob("*"))


def last_change(path: Path) -> float:
    """Return when a file, or the newest thing below a folder, was last changed (seconds since the epoch)."""
    return max((each.lstat().st_mtime for each in (path, *path.rglob("*")) if each.exists()), default=0.0)


def remove_paths(kind: str, paths: Iterable[Path], *, remove: bool) -> Freed:
    """Remove files and folders, where that is wanted, and return what they took."""
    found = sorted(paths)
    size_bytes = sum(map(measure, found))
    for path in found if remove else ():
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    return Freed(kind, len(found), size_bytes, tuple(map(str, found)))


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
