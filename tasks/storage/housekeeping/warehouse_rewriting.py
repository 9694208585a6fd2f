"""Rewrite a warehouse file: compact it, or upgrade one of an earlier factmill.

DuckDB reuses free blocks but never returns them to the file system, and rows written in small steps are packed less densely
than rows written at once. The copy replaces the file only if both hold the same rows. An upgrade copies builds and
recorded calls into the current tables, and takes effect only if every row arrives unchanged.
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
from factmill.tasks.storage.housekeeping.warehouse_cleanup import find_process_using_warehouse
from factmill.tasks.storage.schema import (
    SCHEMA_VERSION,
    WAREHOUSE_TABLES,
    create_wikidata_statement_views,
    ensure_published_table_and_latest_view,
    load_column_types,
)
from factmill.tasks.storage.warehouse import (
    ROW_GROUP_OPTION,
    Connection,
    check_warehouse_writable,
    create_tables_and_record_version,
    get_schema_version,
    make_warehouse_too_new_error,
    open_warehouse,
    private_umask,
)

COPY_DATABASE = "rewritten"
"""Name under which the copy is attached."""
_OLD_FILE_LOCK_S = 0.5


def compact_warehouse(path: Path) -> tuple[int, int]:
    """Rewrite a warehouse without unused space; return its bytes before and after.

    WarehouseError if the copy differs or cannot be written; the file is then unchanged. WarehouseBusy if a process uses it,
    since that process might wait too long.
    """
    before = path.stat().st_size if path.exists() else 0
    replace_warehouse_with_copy(path, _copy_and_verify)
    return before, path.stat().st_size


def replace_warehouse_with_copy(
    path: Path, copy: Callable[[Connection, Path], None], *, of_any_version: bool = False
) -> None:
    """Replace a warehouse with a copy; `copy` fills the empty database COPY.

    WarehouseError from `copy` leaves the warehouse unchanged. WarehouseBusy if a process uses the warehouse.
    """
    check_warehouse_writable(path)
    path = path.resolve()  # replace the target of a link, on its own disk
    draft = path.with_name(f"{path.name}.compact-{os.getpid()}")
    _remove_draft_database(draft)  # left by a killed process with the same pid
    known = path.stat()
    try:
        with open_warehouse(path, of_any_version=of_any_version) as db:
            if holder := find_process_using_warehouse(path):
                raise WarehouseBusy(f"{holder} is using the warehouse {path}; run this command again when it has ended")
            with private_umask():
                _fill_copy(db, path, draft, copy)
            with suppress(PermissionError):  # a file of another user that we may write: only its mode can be preserved
                os.chown(draft, known.st_uid, known.st_gid)
            draft.chmod(stat.S_IMODE(known.st_mode))
            draft.replace(path)
            # a process that has just opened the old file, but not locked it yet, must not lock and write a deleted file:
            # while the lock is held here, that process fails at once, retries and opens the new file
            time.sleep(_OLD_FILE_LOCK_S)
    finally:
        _remove_draft_database(draft)


def _remove_draft_database(draft: Path) -> None:
    for left in (draft, draft.with_name(f"{draft.name}.wal")):
        left.unlink(missing_ok=True)


def _fill_copy(db: Connection, path: Path, draft: Path, copy: Callable[[Connection, Path], None]) -> None:
    quoted = str(draft).replace("'", "''")
    db.execute(f"ATTACH '{quoted}' AS {COPY_DATABASE} ({ROW_GROUP_OPTION})")
    try:
        copy(db, path)
        db.execute("COMMIT")
        db.execute(f"CHECKPOINT {COPY_DATABASE}")
    except BaseException:  # also an interrupt by the user: a file can be detached only outside a transaction
        with suppress(duckdb.Error):
            db.execute("ROLLBACK")
        raise
    finally:
        db.execute(f"DETACH DATABASE IF EXISTS {COPY_DATABASE}")  # a rollback has already detached it
        db.execute("BEGIN")


def _copy_and_verify(db: Connection, original: Path) -> None:
    """Copy an open warehouse into the database COPY and compare the two."""
    (name,) = db.execute("SELECT current_database()").fetchone() or ("",)
    db.execute(f"COPY FROM DATABASE {name} TO {COPY_DATABASE}")
    here, there = _digest_tables(db, name), _digest_tables(db, COPY_DATABASE)
    if here != there:
        differing = sorted(table for table in {*here, *there} if here.get(table) != there.get(table))
        raise WarehouseError(f"{original} is unchanged, because the copy differs in {', '.join(differing)}")


def _digest_tables(db: Connection, database: str) -> dict[str, tuple[object, ...]]:
    """Return table → number of rows and two order-independent digests of them."""
    found = db.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = ?", [database]).fetchall()
    return {
        name: db.execute(f'SELECT count(*), bit_xor(hash(t)), sum(hash(t)) FROM {database}."{name}" t').fetchone() or ()
        for (name,) in found
    }


_OLDEST_UPGRADABLE_VERSION = 13
"""The oldest schema version that can be upgraded: that of factmill 0.1 (commit e84b2b2)."""
_MARK_TRANSIENT_SQL = """
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
class WarehouseUpgradeResult:
    """Result of an upgrade."""

    version: int
    """Schema version of the warehouse before."""
    tables: dict[str, int] = field(default_factory=dict)
    """Table → rows copied; empty if the warehouse was up to date."""


def upgrade_warehouse(
    path: Path, models: Mapping[str, type[BaseModel]], statements: Mapping[str, str]
) -> WarehouseUpgradeResult:
    """Upgrade a warehouse to the current tables.

    `models`: published table → row model that documents its columns; `statements`: benchmark → SELECT of the Wikidata
    statements behind its rows.

    WarehouseTooNew; WarehouseError if it is too old or rows do not arrive unchanged; WarehouseBusy if a process uses it.
    The file is then unchanged.
    """
    with open_warehouse(path, of_any_version=True) as db:
        upgrade = WarehouseUpgradeResult(get_schema_version(db))
    if upgrade.version > SCHEMA_VERSION:
        raise make_warehouse_too_new_error(path, upgrade.version)
    if upgrade.version < _OLDEST_UPGRADABLE_VERSION:
        raise WarehouseError(
            f"{path} has schema version {upgrade.version}; factmill upgrade supports version {_OLDEST_UPGRADABLE_VERSION} and later. Build again "
            "into another file (--warehouse)"
        )
    if upgrade.version < SCHEMA_VERSION:
        replace_warehouse_with_copy(
            path,
            lambda db, _: _copy_tables_and_record_row_counts(db, path, upgrade, models, statements),
            of_any_version=True,
        )
    return upgrade


def _copy_tables_and_record_row_counts(
    db: Connection,
    path: Path,
    upgrade: WarehouseUpgradeResult,
    models: Mapping[str, type[BaseModel]],
    statements: Mapping[str, str],
) -> None:
    (old,) = db.execute("SELECT current_database()").fetchone() or ("",)
    published = [name for (name,) in db.execute("SELECT DISTINCT table_name FROM build_tables ORDER BY 1").fetchall()]
    columns = {name: load_column_types(db, name) for name in (*(model.table for model in WAREHOUSE_TABLES), *published)}
    db.execute(f"USE {COPY_DATABASE}")
    create_tables_and_record_version(db)
    for name in published:
        kinds = {column: kind for column, kind in columns[name].items() if column != "build_id"}
        ensure_published_table_and_latest_view(db, name, kinds, models.get(name))
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
            raise WarehouseError(f"{path} is unchanged, because rows of {name} differ in the copy")
        upgrade.tables[name] = before[0]
    for (benchmark,) in db.execute("SELECT DISTINCT benchmark FROM builds ORDER BY 1").fetchall():
        if statements.get(benchmark):
            create_wikidata_statement_views(db, benchmark, statements[benchmark])
    if upgrade.version < 14:
        db.execute(_MARK_TRANSIENT_SQL)
    db.execute(f"USE {old}")
