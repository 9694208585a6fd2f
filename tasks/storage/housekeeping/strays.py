"""Files that stopped processes left: logs of servers, folders of verifications, results that Prefect keeps of batches."""

import tempfile
import time
from datetime import datetime
from pathlib import Path

from tasks.processes import is_held
from tasks.storage.housekeeping.freed import Freed, is_alive, remove_paths, split_by_age
from tasks.storage.housekeeping.gone_runs import find_gone_runs, name_server
from tasks.storage.housekeeping.warehouse import VERIFYING
from tasks.storage.recording.folders import work_folder

_JUST_MADE_S = 60.0
_SPILLED = "factmill-"
"""With a process's number: where its DuckDB puts what does not fit into memory; with more behind a hyphen, what else it
needs for a while."""


def clean_strays(home: Path, warehouse: Path, since: datetime, *, remove: bool) -> list[Freed]:
    """Remove stray files (only find them unless `remove`); of those that name no process, the ones older than a moment."""
    temporary, runs = Path(tempfile.gettempdir()), work_folder(warehouse)
    old_logs, young_logs = split_by_age((home / "world-cache").glob("*.log"), since)
    logs = [each for each in (home / "prefect").glob("server-*.log") if not is_alive(each.stem.removeprefix("server-"))]
    left = [
        each
        for each in temporary.glob(f"{_SPILLED}*")
        if not is_alive(each.name.removeprefix(_SPILLED).partition("-")[0])
    ]
    aged = [each for each in temporary.glob(f"{VERIFYING}*") if not is_held(each / "held")]
    aged += (home / "world-cache").glob("building-*")
    copy = f"{warehouse.name}.compact-"
    left += [
        each
        for each in warehouse.parent.glob(f"{copy}*")
        if not is_alive(each.name.removeprefix(copy).removesuffix(".wal"))
    ]
    left += [each for each in (runs / "journal").glob("*.journal") if _is_left_behind(each)]
    # of runs on servers that may be gone for good; those of the one that is named now are ended (flows/commands/gc.py)
    aged += (each for each, server in find_gone_runs(home).items() if server != name_server())
    old, young = split_by_age(aged, since)
    names = {each.name for each in runs.glob("*")}
    results, young_results = split_by_age(
        (
            each
            for each in (home / "prefect" / "storage").glob("*")
            if not any(each.name.startswith(name) for name in names)
        ),
        since,
    )
    found = {
        "logs": (logs + old_logs, young_logs),
        "temporary files": (left + old, young),
        "Prefect results": (results, young_results),
    }
    return [remove_paths(kind, paths, remove=remove, young=stay) for kind, (paths, stay) in found.items()]


def _is_left_behind(journal: Path) -> bool:
    """True for an empty journal that no process writes; one that is just being made is not locked yet."""
    try:
        told = journal.stat()
    except FileNotFoundError:
        return False
    return told.st_size == 0 and told.st_mtime < time.time() - _JUST_MADE_S and not is_held(journal)
