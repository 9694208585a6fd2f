"""A warehouse written anew, without the room that removed rows have left.

DuckDB uses free blocks again but never gives them back, and rows that were written bit by bit lie less dense than those
written at once. The copy takes the place of the file only when both hold the same.
So is a warehouse of an earlier factmill, with its builds and recorded calls, carried over into today's tables, when every row
arrives as it was.
"""

import os
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
from pydantic import BaseModel

from factmill.tasks.errors import WarehouseBusy, WarehouseError
from factmill.tasks.storage.housekeeping.warehouse import find_holder
from factmill.tasks.storage.schema import OWN_TABLES, VERSION, list_columns, make_published_table, make_statement_views
from factmill.tasks.storage.warehouse import (
    ROW_GROUPS,
    Connection,
    creating_privately,
    find_version,
    make_tables,
    open_warehouse,
    require_writable,
    too_new,
)

COPY = "rewritten"
"""Name of the database that is filled."""
_LINGER_S = 0.5


def compact_warehouse(path: Path) -> tuple[int, int]:
    """Write a warehouse anew; return its bytes before and after. WarehouseError when the copy is not the same, or cannot
    be written; the file is then as it was. WarehouseBusy where a process works with it: it might wait too long."""
    before = path.stat().st_size if path.exists() else 0
    rewrite_warehouse(path, _copy)
    return before, path.stat().st_size


def rewrite_warehouse(path: Path, copy: Callable[[Connection, Path], None], *, of_any_version: bool = False) -> None:
    """Put a copy in the place of a warehouse; `copy` fills the empty database COPY, and WarehouseError from it leaves all as
    it was. WarehouseBusy where a process works with the warehouse."""
    require_writable(path)
    path = path.resolve()  # where a link names it, the file behind is replaced, and no other disk filled
    draft = path.with_name(f"{path.name}.compact-{os.getpid()}")
    _remove(draft)  # of a killed process that had our number
    known = path.stat()
    try:
        with open_warehouse(path, of_any_version=of_any_version) as db:
            if holder := find_holder(path):
                raise WarehouseBusy(f"{holder} works with the warehouse {path}; run this again when that is done")
            with creating_privately():
                _fill(db, path, draft, copy)
            with suppress(PermissionError):  # of somebody else, who lets us write it: the mode is all that can be kept
                os.chown(draft, known.st_uid, known.st_gid)
            draft.chmod(stat.S_IMODE(known.st_mode))
            draft.replace(path)
            # who opened the old file just now, and has not locked it yet, must not get its lock and write into a file
            # that is gone: while it is held here, such a one gives up at once, tries again and opens the new file
            time.sleep(_LINGER_S)
    finally:
        _remove(draft)


def _remove(draft: Path) -> None:
    for left in (draft, draft.with_name(f"{draft.name}.wal")):
        left.unlink(missing_ok=True)


def _fill(db: Connection, path: Path, draft: Path, copy: Callable[[Connection, Path], None]) -> None:
    quoted = str(draft).replace("'", "''")
    db.execute(f"ATTACH '{quoted}' AS {COPY} ({ROW_GROUPS})")
    try:
        copy(db, path)
        db.execute("COMMIT")
        db.execute(f"CHECKPOINT {COPY}")
    except BaseException:  # also a stop by the user: a file is detached only outside a transaction
        with suppress(duckdb.Error):
            db.execute("ROLLBACK")
        raise
    finally:
        db.execute(f"DETACH DATABASE IF EXISTS {COPY}")  # a roll-back has detached it
        db.execute("BEGIN")


def _copy(db: Connection, path: Path) -> None:
    """Write all that an open warehouse holds into the copy, and compare."""
    (name,) = db.execute("SELECT current_database()").fetchone() or ("",)
    db.execute(f"COPY FROM DATABASE {name} TO {COPY}")
    here, there = _digest_tables(db, name), _digest_tables(db, COPY)
    if here != there:
        differing = sorted(table for table in {*here, *there} if here.get(table) != there.get(table))
        raise WarehouseError(f"{path} is left as it was, since the copy differs in {', '.join(differing)}")


def _digest_tables(db: Connection, database: str) -> dict[str, tuple[object, ...]]:
    """Return table → number of rows and two digests over them, whatever their order."""
    found = db.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = ?", [database]).fetchall()
    return {
        name: db.execute(f'SELECT count(*), bit_xor(hash(t)), sum(hash(t)) FROM {database}."{name}" t').fetchone() or ()
        for (name,) in found
    }


_FIRST = 13
"""The earliest version that can be carried over: that of factmill 0.1 (commit e84b2b2)."""
_ASK_AGAIN = """
-- Failures of chat that versions before 14 recorded for good, though they said nothing of the prompt (no credit, a provider's
-- own error), and texts that came with a provider's failure and were taken for the model's answer: the next run asks them
-- again. Builds that rest on them are replayed as they were. Packed bodies stay as they are.
UPDATE calls SET transient = true
WHERE NOT transient AND status = 'failed'
  AND ((operation = 'chat' AND starts_with(error, 'http_4')) OR starts_with(error, 'http_402'));
UPDATE calls SET transient = true
WHERE NOT transient AND status = 'ok' AND operation = 'chat'
  AND regexp_matches(body, '"finish": ?\\[[^\\]]*"(error|insufficient_system_resource|network_error|abort|aborted|timeout|[^"]*malformed[^"]*)"', 'i');
"""


@dataclass(slots=True)
class Upgrade:
    """What was carried over."""

    version: int
    """Of the warehouse before."""
    tables: dict[str, int] = field(default_factory=dict)
    """Table → rows; empty where the warehouse was up to date."""


def upgrade_warehouse(path: Path, models: Mapping[str, type[BaseModel]], statements: Mapping[str, str]) -> Upgrade:
    """Carry a warehouse over into today's tables; `models`: published table → the model that says what its columns mean;
    `statements`: benchmark → SELECT of the statements that its rows rest on.

    WarehouseTooNew, WarehouseError for one that is too old or whose rows do not arrive as they were, WarehouseBusy where a
    process works with it; the file is then as it was.
    """
    with open_warehouse(path, of_any_version=True) as db:
        upgrade = Upgrade(find_version(db))
    if upgrade.version > VERSION:
        raise too_new(path, upgrade.version)
    if upgrade.version < _FIRST:
        raise WarehouseError(
            f"{path} has schema version {upgrade.version}; factmill upgrade carries over version {_FIRST} and later. Build anew "
            "into another file (--warehouse)"
        )
    if upgrade.version < VERSION:
        rewrite_warehouse(path, lambda db, _: _carry_over(db, path, upgrade, models, statements), of_any_version=True)
    return upgrade


def _carry_over(
    db: Connection, path: Path, upgrade: Upgrade, models: Mapping[str, type[BaseModel]], statements: Mapping[str, str]
) -> None:
    (old,) = db.execute("SELECT current_database()").fetchone() or ("",)
    published = [name for (name,) in db.execute("SELECT DISTINCT table_name FROM build_tables ORDER BY 1").fetchall()]
    columns = {name: list_columns(db, name) for name in (*(model.table for model in OWN_TABLES), *published)}
    db.execute(f"USE {COPY}")
    make_tables(db)
    for name in published:
        kinds = {column: kind for column, kind in columns[name].items() if column != "build_id"}
        make_published_table(db, name, kinds, models.get(name))
    for name, kinds in columns.items():
        rows = f"{old}.{name}"
        if name == "build_tables":
            rows = (
                f"(SELECT * FROM {rows} JOIN (SELECT table_name, list({{'name': column_name, 'kind': data_type}} ORDER BY "
                f"column_index) AS columns FROM duckdb_columns() WHERE database_name = '{old}' AND column_name <> 'build_id' "
                "GROUP BY 1) USING (table_name))"
            )
        db.execute(f"INSERT INTO {name} BY NAME FROM {rows}")
        cells = ", ".join(f'CAST("{column}" AS {kind})' for column, kind in kinds.items())
        digest = f"SELECT count(*), bit_xor(hash({cells})), sum(hash({cells})) FROM"
        before, now = (db.execute(f"{digest} {where}").fetchone() for where in (f"{old}.{name}", name))
        if before is None or before != now:
            raise WarehouseError(f"{path} is left as it was, since rows of {name} do not arrive as they were")
        upgrade.tables[name] = before[0]
    for (benchmark,) in db.execute("SELECT DISTINCT benchmark FROM builds ORDER BY 1").fetchall():
        if statements.get(benchmark):
            make_statement_views(db, benchmark, statements[benchmark])
    if upgrade.version < 14:
        db.execute(_ASK_AGAIN)
    db.execute(f"USE {old}")
