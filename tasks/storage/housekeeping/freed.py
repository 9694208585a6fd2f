"""What housekeeping frees, counted; and which runs' and files' processes are gone.

A run of Prefect's holds a file of its own in factmill's home, named by its id, for as long as its process lives; the
kernel lets go of it however that ends. In it stands the server that knows the run. A file that nobody holds is of a run
that is over, or whose process was killed.
"""

import os
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from factmill.tasks.processes import is_held
from factmill.tasks.settings import environment


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
    young: int = 0
    """How many stay only because they are younger than the age at which such things go."""
    young_bytes: int = 0
    young_newest: str = ""
    """When the newest of those was made or last changed (ISO 8601, UTC); empty where there are none."""


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


def is_left_by(process: str) -> bool:
    """True when a file with the number of a process was left by one that is gone: before it is made anew, one with our own
    number is of another that had it, as the first of a container always has."""
    return process == str(os.getpid()) or not is_alive(process)


def measure(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder; what goes away meanwhile counts nothing."""
    return sum(told.st_size for told in _look(path) if not stat.S_ISDIR(told.st_mode))


def last_change(path: Path) -> float:
    """Return when a file, or the newest thing below a folder, was last changed (seconds since the epoch)."""
    return max((told.st_mtime for told in _look(path)), default=0.0)


def split_by_age(paths: Iterable[Path], since: datetime) -> tuple[list[Path], list[Path]]:
    """Return the paths that were last changed before a moment, and the others."""
    old: list[Path] = []
    young: list[Path] = []
    for path in paths:
        (old if last_change(path) < since.timestamp() else young).append(path)
    return old, young


def remove_paths(kind: str, paths: Iterable[Path], *, remove: bool, young: Collection[Path] = ()) -> Freed:
    """Remove files and folders (only measure them unless `remove`); return what they took, and what cannot be removed as left.

    `young`: others of the kind, which stay only for their age.
    """
    found = {path: measure(path) for path in sorted(paths)}
    for path in found if remove else ():
        with suppress(OSError):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    stay = [path for path in found if remove and os.path.lexists(path)]
    for path in stay:
        del found[path]
    left = f"{len(stay):,} cannot be removed, the first {stay[0]}: see whose it is" if stay else ""
    newest = max(map(last_change, young), default=None)
    moment = "" if newest is None else datetime.fromtimestamp(newest, UTC).isoformat()
    gone = (len(found), sum(found.values()), tuple(map(str, found)))
    return Freed(kind, *gone, left, young=len(young), young_bytes=sum(map(measure, young)), young_newest=moment)


def _look(path: Path) -> Iterator[os.stat_result]:
    """Yield what is known of a file, or of a folder and all below it; what goes away meanwhile is passed over."""
    below = (Path(folder, name) for folder, folders, files in os.walk(path) for name in (*folders, *files))
    for each in (path, *below):
        with suppress(OSError):
            yield each.lstat()


OUR_OWN = "our own"
"""Stands for the servers that builds start for themselves; they share one history."""


def files_of_runs(home: Path) -> Path:
    """Return the folder of these files in a home."""
    return home / "prefect" / "runs"


def name_server() -> str:
    """Return the server that runs of this environment go to: an address, or OUR_OWN."""
    return environment("PREFECT_API_URL") or OUR_OWN


def find_gone_runs(home: Path) -> dict[Path, str]:
    """Return the files that nobody holds, each with its server: an address, or OUR_OWN."""
    gone = {}
    for path in sorted(files_of_runs(home).glob("*-*")):
        if is_held(path):
            continue
        try:
            server = path.read_text("utf-8")
        except FileNotFoundError:
            continue
        if server:  # one that is empty is just being made
            gone[path] = server
    return gone
