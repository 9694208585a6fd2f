"""Remove old builds and unused records of a warehouse, folders of abandoned runs, and orphan files of dead processes: server
logs, verification folders, Prefect's results of batches.

Everything needed to verify a build stays as long as the build does. While a process uses the warehouse, builds and
records stay: that process may be using records that no build refers to yet. This check runs with the warehouse open; a
process must open the warehouse to read a record, so none can interfere.
"""

import json
import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from factmill.tasks.core.digests import digest_json
from factmill.tasks.errors import WarehouseError
from factmill.tasks.processes import is_file_locked
from factmill.tasks.storage.housekeeping.reclaimed_space import (
    ReclaimedSpaceOfKind,
    find_servers_by_crashed_run_marker,
    get_prefect_server_address,
    is_process_alive,
    remove_paths,
    split_old_and_young_paths,
)
from factmill.tasks.storage.recording.work_folders import work_folder
from factmill.tasks.storage.warehouse import open_warehouse

_UNFINISHED_SUFFIX = "-unfinished"
"""Suffix of a run's name, under which its stages are stored until the build is published."""
_END_OF_TIME = datetime.max.replace(tzinfo=UTC)
VERIFY_FOLDER_PREFIX = "factmill-verify-"
_SHARED_FOLDERS = ("journal", "claims", "jobs", "jobs-refresh")
"""Folders next to those of runs that all processes of a warehouse share."""


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """Which builds, run folders and records housekeeping keeps."""

    newest_builds: int
    """Number of newest builds to keep of each benchmark and author."""
    builds_since: datetime | None
    """Earlier builds are removed, except the newest of each benchmark and author; None: age does not matter."""
    records_since: datetime
    """Keep folders of stopped runs changed since then, and records that came since then even if no build uses them."""
    keep_evaluated: bool = True
    """Keep builds that a kept evaluation measured, and builds with audit verdicts, whatever their age."""


def clean_warehouse(path: Path, policy: RetentionPolicy, *, remove: bool) -> list[ReclaimedSpaceOfKind]:
    """Remove what is not kept (only find it unless `remove`) and return the reclaimed space.

    If the warehouse cannot be opened or written, the result reports it as trouble of builds and records; run folders are
    removed all the same, which helps when the disk is full.
    """
    runs = work_folder(path)
    stopped = [each for each in _list_run_folders(runs) if not is_file_locked(each / "held")]
    old, young = split_old_and_young_paths(stopped, policy.records_since)
    freed = [remove_paths("run folders", old, remove=remove, young=young)]
    if not path.exists():
        return freed
    try:
        return [*freed, *_clean_builds_and_records(path, policy, old, remove=remove)]
    except WarehouseError as error:
        return [*freed, *(ReclaimedSpaceOfKind(kind, trouble=str(error)) for kind in ("builds", "records"))]


def _clean_builds_and_records(
    path: Path, policy: RetentionPolicy, removed_folders: Sequence[Path], *, remove: bool
) -> list[ReclaimedSpaceOfKind]:
    """Remove builds and records; `removed_folders`: run folders that are, or would be, removed."""
    runs = work_folder(path)
    with open_warehouse(path) as db:
        if holder := find_process_using_warehouse(path):
            why = f"{holder} is using the warehouse; run this command again when it has ended"
            return [ReclaimedSpaceOfKind(kind, left=why) for kind in ("builds", "records")]
        names = {each.name for each in _list_run_folders(runs)} - {each.name for each in removed_folders}
        doomed = _choose_builds_to_remove(db, policy)
        # builds that would be removed if their age did not keep them
        aged = (
            _choose_builds_to_remove(db, replace(policy, builds_since=_END_OF_TIME)) if policy.builds_since else doomed
        )
        young = sorted({*aged} - {*doomed})
        query = "SELECT max(published_at) FROM builds WHERE list_contains(?, build_id)"
        (newest,) = db.execute(query, [young]).fetchone() or (None,)
        builds = ReclaimedSpaceOfKind(
            "builds",
            len(doomed),
            _measure_build_rows_as_text_bytes(db, doomed),
            tuple(doomed),
            young=len(young),
            young_bytes=_measure_build_rows_as_text_bytes(db, young),
            young_newest=newest.isoformat() if newest else "",
        )
        # unpublished runs whose folders no longer exist, by the names of their stages
        found = db.execute(
            "SELECT DISTINCT build_id FROM build_stages WHERE suffix(build_id, ?) AND build_id NOT IN "
            "(SELECT build_id FROM builds)",
            [_UNFINISHED_SUFFIX],
        ).fetchall()
        unwanted = [*doomed, *(run for (run,) in found if run.removesuffix(_UNFINISHED_SUFFIX) not in names)]
        db.execute(
            "CREATE TEMP TABLE kept_uses AS SELECT DISTINCT record_id FROM build_calls "
            "WHERE NOT list_contains(?, build_id)",
            [unwanted],
        )
        for uses in (each for name in names for each in (runs / name).glob("*/*.uses.parquet")):
            db.execute("INSERT INTO kept_uses SELECT record_id FROM read_parquet(?)", [str(uses)])
        records = _fill_unused_records_table_and_measure(db, [runs / name for name in names], policy.records_since)
        if remove:
            for table in _list_tables_with_build_rows(db) if unwanted else ():
                db.execute(f'DELETE FROM "{table}" WHERE list_contains(?, build_id)', [unwanted])
            db.execute("DELETE FROM calls WHERE record_id IN (SELECT record_id FROM unused)")
        db.execute("DROP TABLE kept_uses")
        db.execute("DROP TABLE unused")
    return [builds, records]


def _list_run_folders(runs: Path) -> list[Path]:
    return sorted(each for each in runs.glob("*") if each.is_dir() and each.name not in _SHARED_FOLDERS)


def find_process_using_warehouse(path: Path) -> str:
    """Return, as text, which process uses a warehouse now; empty if none does."""
    runs = work_folder(path)
    if any(map(is_file_locked, (runs / "journal").glob("*.journal"))):
        return "a build"
    if held := [each for each in _list_run_folders(runs) if is_file_locked(each / "held")]:
        return f"the build in {held[0]}"
    verifications = Path(tempfile.gettempdir()).glob(f"{format_verification_folder_prefix(path)}*")
    return "a verification" if any(is_file_locked(each / "held") for each in verifications) else ""


def format_verification_folder_prefix(warehouse: Path) -> str:
    """Return how the names of folders begin, in the system's folder for temporary files, of verifications of a warehouse's
    builds."""
    return f"{VERIFY_FOLDER_PREFIX}{digest_json(str(warehouse.resolve()))[:12]}-"


def _choose_builds_to_remove(db: duckdb.DuckDBPyConnection, policy: RetentionPolicy) -> list[str]:
    """Return the ids of builds that are not kept."""
    found = db.execute(
        "SELECT build_id, benchmark || ' ' || coalesce(json_extract_string(report, '$.author'), ''), lock, "
        "content_digest, published_at FROM builds ORDER BY published_at DESC, build_id"
    ).fetchall()
    kept: set[str] = set()
    seen: dict[str, int] = {}
    for build_id, kind, _, _, published_at in found:
        seen[kind] = seen.get(kind, 0) + 1
        is_young = policy.builds_since is None or published_at >= policy.builds_since
        if seen[kind] == 1 or (seen[kind] <= policy.newest_builds and is_young):
            kept.add(build_id)
    if policy.keep_evaluated:
        kept |= {name for (name,) in db.execute("SELECT DISTINCT build_id FROM audit_verdicts").fetchall()}
        # an evaluation's manifest contains the digest of the build it measured, and an analysis those of its evaluations
        new = kept
        while new:
            locks = [lock for build_id, _, lock, _, _ in found if build_id in new]
            new = {build_id for build_id, _, _, content, _ in found if any(content in lock for lock in locks)} - kept
            kept |= new
    return [build_id for build_id, *_ in found if build_id not in kept]


def _fill_unused_records_table_and_measure(
    db: duckdb.DuckDBPyConnection, folders: Sequence[Path], keep_since: datetime
) -> ReclaimedSpaceOfKind:
    """Fill the table `unused` with earlier records that no build uses, except those that came since a stopped run began,
    which that run may need when it resumes."""
    begun = [
        datetime.fromisoformat(json.loads(described.read_text("utf-8"))["options"]["begun"])
        for described in (folder / "run.json" for folder in folders)
        if described.is_file()
    ]
    db.execute(
        "CREATE TEMP TABLE unused AS SELECT record_id FROM calls ANTI JOIN kept_uses USING (record_id) WHERE asked_at < ?",
        [min([keep_since, *begun])],
    )
    select = "SELECT count(*), coalesce(sum(strlen(body) + strlen(parts)), 0)::BIGINT, max(asked_at) FROM calls"
    count, size_bytes, _ = db.execute(f"{select} JOIN unused USING (record_id)").fetchone() or (0, 0, None)
    young, young_bytes, newest = db.execute(
        f"{select} ANTI JOIN kept_uses USING (record_id) WHERE asked_at >= ?", [keep_since]
    ).fetchone() or (0, 0, None)
    moment = newest.isoformat() if newest else ""
    return ReclaimedSpaceOfKind("records", count, size_bytes, young=young, young_bytes=young_bytes, young_newest=moment)


def _measure_build_rows_as_text_bytes(db: duckdb.DuckDBPyConnection, builds: Sequence[str]) -> int:
    total = 0
    for name in _list_tables_with_build_rows(db):
        query = f'SELECT coalesce(sum(strlen(t::VARCHAR)), 0)::BIGINT FROM "{name}" t WHERE list_contains(?, build_id)'
        total += (db.execute(query, [list(builds)]).fetchone() or (0,))[0]
    return total


def _list_tables_with_build_rows(db: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the tables that hold rows of builds."""
    found = db.execute(
        "SELECT DISTINCT table_name FROM duckdb_columns() SEMI JOIN duckdb_tables() USING (database_oid, table_oid) "
        "WHERE column_name = 'build_id' AND database_name = current_database() ORDER BY 1"
    ).fetchall()
    return [name for (name,) in found]


_NEW_JOURNAL_S = 60.0
_SPILL_PREFIX = "factmill-"
"""Prefix before a pid: the folder to which the process's DuckDB spills memory; with a suffix after a hyphen, its other
temporary folders."""


def clean_files_of_dead_processes(
    home: Path, warehouse: Path, since: datetime, *, remove: bool
) -> list[ReclaimedSpaceOfKind]:
    """Remove orphan files (only find them unless `remove`); those without a pid in their name only if older than a moment."""
    temporary, runs = Path(tempfile.gettempdir()), work_folder(warehouse)
    old_logs, young_logs = split_old_and_young_paths((home / "world-cache").glob("*.log"), since)
    logs = _list_files_of_dead_processes(home / "prefect", "server-", ".log")
    left = [
        *_list_files_of_dead_processes(temporary, _SPILL_PREFIX),
        *_list_files_of_dead_processes(warehouse.parent, f"{warehouse.name}.compact-"),
    ]
    left += [each for each in (runs / "journal").glob("*.journal") if _is_empty_abandoned_journal(each)]
    aged = [each for each in temporary.glob(f"{VERIFY_FOLDER_PREFIX}*") if not is_file_locked(each / "held")]
    aged += (home / "world-cache").glob("building-*")
    # of runs on servers that may no longer exist; flows/commands/housekeeping.py ends those of the current server
    aged += (
        each
        for each, server in find_servers_by_crashed_run_marker(home).items()
        if server != get_prefect_server_address()
    )
    old, young = split_old_and_young_paths(aged, since)
    names = tuple(each.name for each in runs.glob("*"))
    results = (each for each in (home / "prefect" / "storage").glob("*") if not each.name.startswith(names))
    found = {
        "logs": (logs + old_logs, young_logs),
        "temporary files": (left + old, young),
        "Prefect results": split_old_and_young_paths(results, since),
    }
    return [remove_paths(kind, paths, remove=remove, young=stay) for kind, (paths, stay) in found.items()]


def _list_files_of_dead_processes(folder: Path, start: str, end: str = "") -> list[Path]:
    """Return files named `start`, the pid of a dead process, and either `end` or a suffix after a hyphen or dot."""
    found = folder.glob(f"{start}*{end}")
    return [each for each in found if not is_process_alive(re.split("[-.]", each.name.removeprefix(start))[0])]


def _is_empty_abandoned_journal(journal: Path) -> bool:
    """True for an empty journal that no process writes; a journal being created is not locked yet."""
    try:
        state = journal.stat()
    except FileNotFoundError:
        return False
    return state.st_size == 0 and state.st_mtime < time.time() - _NEW_JOURNAL_S and not is_file_locked(journal)
