"""Reclaimed space of housekeeping, and detection of dead processes and crashed Prefect runs.

While its process lives, a Prefect run keeps a lock on a file of its own in factmill's home, named by the run's id; the kernel
releases the lock however the process ends. The file holds the server that knows the run. An unlocked file belongs to a
run that has ended or whose process was killed.
"""

import os
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from factmill.tasks.processes import is_file_locked
from factmill.tasks.settings import get_environment_variable


@dataclass(frozen=True, slots=True)
class ReclaimedSpaceOfKind:
    """Space that removing one kind of data reclaims, or would reclaim."""

    kind: str
    count: int = 0
    size_bytes: int = 0
    """Of files, their size; of rows, the size of their text, which is more than they take in the file."""
    names: tuple[str, ...] = ()
    left: str = ""
    """Why some are left in place; empty if none are."""
    trouble: str = ""
    """Why the removal failed; empty if it did not."""
    young: int = 0
    """How many stay only because they have not reached the age of removal."""
    young_bytes: int = 0
    young_newest: str = ""
    """When the newest of those was created or last changed (ISO 8601, UTC); empty if there are none."""


def is_process_alive(pid: str) -> bool:
    """True if a process with this pid runs, or if the text is no number."""
    if not pid.isdigit():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def is_file_with_pid_left_by_dead_process(pid: str) -> bool:
    """True if a file named with this pid was left by a dead process.

    A file with our own pid, found before we create it, was left by an earlier process with the same pid: the first process
    of a container always has the same one.
    """
    return pid == str(os.getpid()) or not is_process_alive(pid)


def measure_bytes(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder; files that vanish meanwhile count as 0."""
    return sum(state.st_size for state in _iterate_stats(path) if not stat.S_ISDIR(state.st_mode))


def latest_mtime(path: Path) -> float:
    """Return the latest modification time of a file, or below a folder (seconds since the epoch)."""
    return max((state.st_mtime for state in _iterate_stats(path)), default=0.0)


def split_old_and_young_paths(paths: Iterable[Path], since: datetime) -> tuple[list[Path], list[Path]]:
    """Return (paths last changed before a moment, other paths)."""
    old: list[Path] = []
    young: list[Path] = []
    for path in paths:
        (old if latest_mtime(path) < since.timestamp() else young).append(path)
    return old, young


def remove_paths(
    kind: str, paths: Iterable[Path], *, remove: bool, young: Collection[Path] = ()
) -> ReclaimedSpaceOfKind:
    """Remove files and folders (only measure them unless `remove`); return the space, and those that cannot be removed.

    `young`: others of the kind, which stay only because of their age.
    """
    found = {path: measure_bytes(path) for path in sorted(paths)}
    for path in found if remove else ():
        with suppress(OSError):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    stay = [path for path in found if remove and os.path.lexists(path)]
    for path in stay:
        del found[path]
    left = f"{len(stay):,} cannot be removed, the first is {stay[0]}: check its owner and permissions" if stay else ""
    newest = max(map(latest_mtime, young), default=None)
    moment = "" if newest is None else datetime.fromtimestamp(newest, UTC).isoformat()
    gone = (len(found), sum(found.values()), tuple(map(str, found)))
    return ReclaimedSpaceOfKind(
        kind, *gone, left, young=len(young), young_bytes=sum(map(measure_bytes, young)), young_newest=moment
    )


def _iterate_stats(path: Path) -> Iterator[os.stat_result]:
    """Yield the `stat` of a file, or of a folder and everything below it; skip what vanishes meanwhile."""
    below = (Path(folder, name) for folder, folders, files in os.walk(path) for name in (*folders, *files))
    for each in (path, *below):
        with suppress(OSError):
            yield each.lstat()


OWN_SERVER = "our own"
"""Stands for the Prefect servers that builds start themselves; they share one history."""


def get_prefect_run_marker_folder(home: Path) -> Path:
    """Return the folder in a home with one file for each Prefect run."""
    return home / "prefect" / "runs"


def get_prefect_server_address() -> str:
    """Return the Prefect server that this environment uses: an address, or OWN_SERVER."""
    return get_environment_variable("PREFECT_API_URL") or OWN_SERVER


def find_servers_by_crashed_run_marker(home: Path) -> dict[Path, str]:
    """Return the unlocked run files, each with its server: an address, or OWN_SERVER."""
    gone = {}
    for path in sorted(get_prefect_run_marker_folder(home).glob("*-*")):
        if is_file_locked(path):
            continue
        try:
            server = path.read_text("utf-8")
        except FileNotFoundError:
            continue
        if server:  # an empty file is just being created
            gone[path] = server
    return gone
