"""Who makes a build: one process at a time, told by a lock on a file of its run folder."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tasks.core.fingerprints import digest_json
from tasks.errors import BuildError, BuildHeld
from tasks.options import RunOptions, warehouse_of
from tasks.processes import lock_now
from tasks.storage.recording.folders import make_work_folder, work_folder

_FILE = "held"


def run_folder(name: str, lock: Mapping[str, Any], options: RunOptions) -> Path:
    """Return the folder in which a build with this lock is made; `name`: the benchmark's."""
    run_id = f"{name}-{digest_json(lock)[:12]}" + ("-refresh" if options.mode == "refresh" else "")
    run_id += f"-pilot{options.pilot}" if options.pilot else ""
    return work_folder(warehouse_of(options)) / run_id


def hold(folder: Path, doing: str = "making this very build") -> int:
    """Hold a folder until the descriptor that is returned is closed; BuildHeld when another process does.

    `doing`: what that one then does.
    """
    fd = os.open(folder / _FILE, os.O_CREAT | os.O_RDWR, 0o644)
    if not lock_now(fd):
        holder = os.read(fd, 32).decode("ascii", "replace") or "unknown"
        os.close(fd)
        raise BuildHeld(f"process {holder} is {doing} in {folder}; wait for it or stop it")
    os.ftruncate(fd, 0)
    os.write(fd, str(os.getpid()).encode())
    return fd


@contextmanager
def holding(folder: Path, doing: str) -> Iterator[None]:
    """Hold a folder, which is made if need be, for as long as something is done; BuildHeld when another process does it."""
    make_work_folder(folder)
    fd = hold(folder, doing)
    try:
        yield
    finally:
        os.close(fd)


def refuse_held(folder: Path) -> None:
    """BuildHeld when a process makes the build of a run folder just now."""
    if (folder / _FILE).is_file():
        os.close(hold(folder))


def forget_finished(folder: Path) -> None:
    """Remove the run folder of a build that is published, as a process that was stopped just then leaves it."""
    if folder.is_dir():
        try:
            holder = hold(folder)
        except (BuildError, OSError):
            return  # it is being made anew, or cannot be written
        shutil.rmtree(folder, ignore_errors=True)
        os.close(holder)
