"""Files that stopped processes left: logs of servers, folders of verifications, results that Prefect keeps of batches."""

import tempfile
import time
from datetime import datetime
from pathlib import Path

from tasks.processes import is_held
from tasks.storage.housekeeping.freed import Freed, is_alive, last_change, remove_paths
from tasks.storage.housekeeping.gone_runs import find_gone_runs, name_server
from tasks.storage.housekeeping.warehouse import VERIFYING
from tasks.storage.recording.folders import work_folder

_JUST_MADE_S = 60.0
_SPILLED = "factmill-"
"""With a process's number: where its DuckDB puts what does not fit into memory; with more behind a hyphen, what else it
needs for a while."""


def clean_strays(home: Path, warehouse: Path, since: datetime, *, remove: bool) -> list[Freed]:
    """Remove stray files (only find them unless `remove`); of those that name no process, the ones older than a moment."""
    last, temporary, runs = since.timestamp(), Path(tempfile.gettempdir()), work_folder(warehouse)
    logs = [each for each in (home / "prefect").glob("server-*.log") if not is_alive(each.stem.removeprefix("server-"))]
    logs += [each for each in (home / "world-cache").glob("*.log") if last_change(each) < last]
    left = [
        each
        for each in temporary.glob(f"{_SPILLED}*")
        if not is_alive(each.name.removeprefix(_SPILLED).partition("-")[0])
    ]
    left += [
        each for each in temporary.glob(f"{VERIFYING}*") if not is_held(each / "held") and last_change(each) < last
    ]
    left += [each for each in (home / "world-cache").glob("building-*") if last_change(each) < last]
    copy = f"{warehouse.name}.compact-"
    left += [
        each
        for each in warehouse.parent.glob(f"{copy}*")
        if not is_alive(each.name.removeprefix(copy).removesuffix(".wal"))
    ]
    left += [each for each in (runs / "journal").glob("*.journal") if _is_left_behind(each)]
    # of runs on servers that may be gone for good; those of the one that is named now are ended (flows/commands/gc.py)
    gone = {each: server for each, server in find_gone_runs(home).items() if server != name_server()}
    left += [each for each in gone if last_change(each) < last]
    names = {each.name for each in runs.glob("*")}
    results = [
        each
        for each in (home / "prefect" / "storage").glob("*")
        if last_change(each) < last and not any(each.name.startswith(name) for name in names)
    ]
    found = {"logs": logs, "temporary files": left, "Prefect results": results}
    return [remove_paths(kind, paths, remove=remove) for kind, paths in found.items()]


def _is_left_behind(journal: Path) -> bool:
    """True for an empty journal that no process writes; one that is just being made is not locked yet."""
    try:
        told = journal.stat()
    except FileNotFoundError:
        return False
    return told.st_size == 0 and told.st_mtime < time.time() - _JUST_MADE_S and not is_held(journal)
