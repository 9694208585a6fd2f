"""Limit the size of Prefect's run history, an SQLite database in factmill's home.

Ended runs are deleted with their tasks, states, logs and artifacts, and events by their time; scheduled, paused and running
runs stay. A server can keep working meanwhile. SQLite reuses freed pages; `vacuum` returns them to the file system.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from factmill.tasks.processes import exclusive_file_lock
from factmill.tasks.storage.housekeeping.reclaimed_space import ReclaimedSpaceOfKind

MAX_HISTORY_RUNS = 200
"""Flow runs that stay in the history after a build with a server of its own has ended."""
_WAIT_S = 5.0
_ENDED = "state_type IN ('COMPLETED', 'FAILED', 'CRASHED', 'CANCELLED')"

_REVISION_TABLE = "alembic_version"
_MIGRATIONS = "server/database/_migrations/versions/sqlite"
"""Folder below Prefect's package; each file name contains its revision."""
_PRIMARY_CODE_MASK = 0xFF
"""Mask for the primary code in SQLite's extended error codes."""
_TRANSIENT_CODES = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOMEM,
)
"""Primary error codes that say nothing about the database itself."""


def prefect_database_path(home: Path) -> Path:
    """Return the path of Prefect's database in a home."""
    return home / "prefect" / "prefect.db"


def find_prefect_database_problem(path: Path) -> str:
    """Return why no server can use a Prefect database; empty if one can, or if there is no database yet.

    Reads every page: about 20 ms for each 10 MB; the 200 runs that stay take about 10 MB.
    """
    if not path.is_file():
        return "it is not a file" if path.exists() else ""
    if not os.access(path, os.R_OK | os.W_OK):
        return "it is not readable and writable"
    try:
        with closing(sqlite3.connect(path, timeout=_WAIT_S)) as db:
            (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            revisions = (
                db.execute("SELECT version_num FROM alembic_version").fetchall() if _REVISION_TABLE in tables else []
            )
    except sqlite3.Error as error:
        return "" if error.sqlite_errorcode & _PRIMARY_CODE_MASK in _TRANSIENT_CODES else str(error)
    if found != "ok" or (tables and not revisions):
        return "its tables are not Prefect's" if found == "ok" else found.partition("\n")[0]
    return next(
        (
            f"a newer Prefect wrote it (revision {each})"
            for (each,) in revisions
            if not _is_revision_of_installed_prefect(each)
        ),
        "",
    )


def _is_revision_of_installed_prefect(revision: str) -> bool:
    """True if the installed Prefect knows a revision of the database, or does not list the revisions it knows."""
    spec = find_spec("prefect")
    folder = Path(spec.origin).parent / _MIGRATIONS if spec and spec.origin else Path(_MIGRATIONS)
    return not folder.is_dir() or any(folder.glob(f"*_{revision}_*.py"))


@contextmanager
def guarded_prefect_database_until_created(home: Path, tell: Callable[[str], object]) -> Iterator[Callable[[], None]]:
    """Yield a function to call once a starting server has created its database, if there is none yet.

    Until that call, no other process starts a server. A half-created database of a killed server is deleted, since no
    server can start on it. A damaged database is first moved aside and reported through `tell`.
    """
    path, begun = prefect_database_path(home), prefect_database_path(home).with_name("making")
    is_damaged = bool(find_prefect_database_problem(path))
    with ExitStack() as stack:
        if is_damaged or begun.exists() or not path.exists():
            stack.enter_context(exclusive_file_lock(begun.with_name("making.lock"), tell))
        if begun.exists():
            for left in path.parent.glob(f"{path.name}*"):
                left.unlink()
        # another process may have moved it aside meanwhile
        elif is_damaged and (damage := find_prefect_database_problem(path)):
            aside = path.with_name(f"{path.stem}-damaged-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}{path.suffix}")
            for suffix in ("", "-wal", "-shm", "-journal"):
                part = path.with_name(path.name + suffix)
                if os.path.lexists(part):
                    part.rename(aside.with_name(aside.name + suffix))
            tell(
                f"note: Prefect's history {path} cannot be used: {damage}; it is renamed to {aside.name} and a new one is "
                "created. Builds and recorded calls are stored elsewhere"
            )
        if not path.exists():
            begun.touch()

        def made() -> None:
            begun.unlink(missing_ok=True)
            stack.close()

        yield made


def trim_history(home: Path, most_runs: int = MAX_HISTORY_RUNS) -> int:
    """Delete runs older than the newest `most_runs`, so that repeated builds do not grow the history; return their number.

    A database that is busy, or belongs to another version of Prefect, is left to the next build.
    """
    path = prefect_database_path(home)
    if not path.is_file():
        return 0
    try:
        with _history_transaction(path) as db:
            found = db.execute("SELECT created FROM flow_run ORDER BY created DESC LIMIT 1 OFFSET ?", [most_runs - 1])
            oldest = found.fetchone()
            return _delete_history_and_count_runs(db, oldest[0]) if oldest else 0
    except sqlite3.Error:
        return 0


def clean_history(home: Path, since: datetime, *, remove: bool) -> ReclaimedSpaceOfKind:
    """Delete runs and events older than a moment (only count them unless `remove`)."""
    path, kind = prefect_database_path(home), "Prefect runs"
    if not path.is_file():
        return ReclaimedSpaceOfKind(kind)
    before = since.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    try:
        with _history_transaction(path) as db:
            (count,) = db.execute(f"SELECT count(*) FROM flow_run WHERE {_ENDED} AND created < ?", [before]).fetchone()
            query = f"SELECT count(*), max(created) FROM flow_run WHERE {_ENDED} AND created >= ?"
            young, newest = db.execute(query, [before]).fetchone()
            pages = _count_free_bytes(db)
            _delete_history_and_count_runs(db, before)
            size_bytes = _count_free_bytes(db) - pages
            if not remove:
                db.rollback()
    except sqlite3.Error as error:
        return ReclaimedSpaceOfKind(kind, left=f"{path}: {error}")
    moment = datetime.fromisoformat(newest).replace(tzinfo=UTC).isoformat() if newest else ""
    return ReclaimedSpaceOfKind(kind, count, size_bytes, young=young, young_newest=moment)


def vacuum_history_or_find_problem(home: Path) -> str:
    """Rewrite the database without free pages; return why not if another process uses it, else an empty text."""
    path = prefect_database_path(home)
    if not path.is_file():
        return ""
    try:
        with closing(sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)) as db:
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        return f"{path}: {error}"
    return ""


@contextmanager
def _history_transaction(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the database for one transaction, committed at the end."""
    with closing(sqlite3.connect(path, timeout=_WAIT_S)) as db:
        db.execute("PRAGMA foreign_keys = ON")
        with db:
            yield db
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _delete_history_and_count_runs(db: sqlite3.Connection, before: str) -> int:
    """Delete ended runs created before a moment, and earlier events, in the open transaction; return the runs deleted."""
    ended = f"SELECT id FROM flow_run WHERE {_ENDED} AND created < ?"
    for table in ("log", "artifact"):  # these tables do not cascade when a run is deleted
        db.execute(f"DELETE FROM {table} WHERE flow_run_id IN ({ended})", [before])
    removed = db.execute(f"DELETE FROM flow_run WHERE {_ENDED} AND created < ?", [before]).rowcount
    for table in ("event_resources", "events"):
        db.execute(f"DELETE FROM {table} WHERE occurred < ?", [before])
    db.execute("DELETE FROM artifact_collection WHERE latest_id NOT IN (SELECT id FROM artifact)")
    return removed


def _count_free_bytes(db: sqlite3.Connection) -> int:
    """Return the bytes in free pages."""
    (free,), (size,) = db.execute("PRAGMA freelist_count").fetchone(), db.execute("PRAGMA page_size").fetchone()
    return int(free * size)
