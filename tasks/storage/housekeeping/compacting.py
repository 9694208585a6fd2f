"""A warehouse written anew, without the room that removed rows have left.

DuckDB uses free blocks again but never gives them back, and rows that were written bit by bit lie less dense than those
written at once. The copy takes the place of the file only when both hold the same.
"""

import os
import stat
import time
from contextlib import suppress
from pathlib import Path

import duckdb

from tasks.errors import WarehouseBusy, WarehouseError
from tasks.storage.housekeeping.warehouse import find_holder
from tasks.storage.warehouse import ROW_GROUPS, creating_privately, open_warehouse, require_writable

_COPY = "compacted"
_LINGER_S = 0.5


def compact_warehouse(path: Path) -> tuple[int, int]:
    """Write a warehouse anew; return its bytes before and after. WarehouseError when the copy is not the same, or cannot
    be written; the file is then as it was. WarehouseBusy where a process works with it: it might wait too long."""
    require_writable(path)
    path = path.resolve()  # where a link names it, the file behind is replaced, and no other disk filled
    draft = path.with_name(f"{path.name}.compact-{os.getpid()}")
    before = path.stat().st_size
    _remove(draft)  # of a killed process that had our number
    try:
        with open_warehouse(path) as db:
            if holder := find_holder(path):
                raise WarehouseBusy(f"{holder} works with the warehouse {path}; compact it when that is done")
            with creating_privately():
                _copy(db, path, draft)
            _take_over_rights(path, draft)
            draft.replace(path)
            # who opened the old file just now, and has not locked it yet, must not get its lock and write into a file
            # that is gone: while it is held here, such a one gives up at once, tries again and opens the new file
            time.sleep(_LINGER_S)
    finally:
        _remove(draft)
    return before, path.stat().st_size


def _remove(draft: Path) -> None:
    for left in (draft, draft.with_name(f"{draft.name}.wal")):
        left.unlink(missing_ok=True)


def _take_over_rights(path: Path, draft: Path) -> None:
    """Give the copy the owner, group and mode of the file, so that whoever shared it still does."""
    known = path.stat()
    with suppress(PermissionError):  # of somebody else, who lets us write it: the mode is all that can be kept
        os.chown(draft, known.st_uid, known.st_gid)
    draft.chmod(stat.S_IMODE(known.st_mode))


def _copy(db: duckdb.DuckDBPyConnection, path: Path, draft: Path) -> None:
    """Write all that an open warehouse holds into another file, and compare."""
    (name,) = db.execute("SELECT current_database()").fetchone() or ("",)
    quoted = str(draft).replace("'", "''")
    db.execute(f"ATTACH '{quoted}' AS {_COPY} ({ROW_GROUPS})")
    try:
        db.execute(f"COPY FROM DATABASE {name} TO {_COPY}")
        here, there = _digest_tables(db, name), _digest_tables(db, _COPY)
        if here != there:
            differing = sorted(table for table in {*here, *there} if here.get(table) != there.get(table))
            raise WarehouseError(f"{path} is left as it was, since the copy differs in {', '.join(differing)}")
        db.execute("COMMIT")
        db.execute(f"CHECKPOINT {_COPY}")
    except BaseException:  # also a stop by the user: a file is detached only outside a transaction
        with suppress(duckdb.Error):
            db.execute("ROLLBACK")
        raise
    finally:
        db.execute(f"DETACH DATABASE IF EXISTS {_COPY}")  # a roll-back has detached it
        db.execute("BEGIN")


def _digest_tables(db: duckdb.DuckDBPyConnection, database: str) -> dict[str, tuple[object, ...]]:
    """Return table → number of rows and two digests over them, whatever their order."""
    found = db.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = ?", [database]).fetchall()
    return {
        name: db.execute(f'SELECT count(*), bit_xor(hash(t)), sum(hash(t)) FROM {database}."{name}" t').fetchone() or ()
        for (name,) in found
    }
