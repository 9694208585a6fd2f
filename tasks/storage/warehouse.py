"""The warehouse: one DuckDB file with recorded calls, builds, rejects and published tables.

DuckDB admits one process at a time, even for reading. So the file is attached, used for one short transaction and detached;
processes take turns, wait up to a limit, and then get an error that names the process using the file. A file that cannot be
written is opened read-only. The DuckDB engine stays open: starting one takes six times as long as attaching a file.
"""

import atexit
import json
import os
import re
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import duckdb
from pydantic import BaseModel, ValidationError

from factmill.tasks.errors import WarehouseBusy, WarehouseError, WarehouseTooNew, WarehouseTooOld
from factmill.tasks.processes import reraise_swallowed_stop
from factmill.tasks.settings import warehouse_wait_seconds
from factmill.tasks.storage.schema import SCHEMA_VERSION, create_warehouse_tables_and_views, make_comment_statements
from factmill.tasks.text.sanitize import shorten_middle

M = TypeVar("M", bound=BaseModel)
Connection = duckdb.DuckDBPyConnection
"""Connection to an open warehouse, for code that does not import DuckDB."""

_LOCK_HOLDER_PATTERN = re.compile(r"lock is held in (?:(?P<program>.*?) \()?PID (?P<pid>\d+)")
_process_lock = threading.Lock()
_engines: dict[int, duckdb.DuckDBPyConnection] = {}
"""Process id → its in-memory engine; a forked process does not reuse its parent's."""
_spill_folders: dict[int, str] = {}
"""Process id → folder to which its engine spills memory."""
_ATTACHED_NAME = "warehouse"
_TWO_THREADS_MIN_BYTES = 64 * 2**20
"""Bytes of a warehouse from which two threads pay off; below, distributing the work takes longer than the work."""
_CLOSE_ENGINE_MIN_BYTES = 16 * 2**20
"""Bytes of a warehouse from which closing the engine after a write pays off: its memory costs more than a restart."""
ROW_GROUP_OPTION = "ROW_GROUP_SIZE 32768"
"""Option for writing a file: adding rows rewrites the last row group. For 100,000 rows of GRANOLA-EQ, DuckDB's default of
122,880 takes 70 MB more memory in a build and 6 % less disk; groups of 4,096 take two thirds more disk."""
_INTERRUPTED = "Query interrupted"
_DAMAGE_PATTERN = re.compile(
    r"Corrupt database|Malformed JSON|checksum|Could not read enough bytes|INTERNAL Error|Serialization Error|been invalidated"
)
_DISK_FULL_PATTERN = re.compile(r"Could not write file|No space left on device|File too large|Disk quota exceeded")
"""Also matches an unfinished checkpoint: DuckDB says it invalidates the database, but the file is intact."""
_DAMAGE_ADVICE = "restore an earlier copy, or name another file with --warehouse to send all calls and build again"


@contextmanager
def open_warehouse(
    path: Path, wait_s: float | None = None, *, of_any_version: bool = False
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the warehouse for one transaction: committed at the end, rolled back on an error, then closed.

    `of_any_version`: skip the version check, for an upgrade.

    Raises WarehouseBusy after `wait_s` seconds (None: from the settings), WarehouseTooNew, WarehouseTooOld, or WarehouseError
    for a file that is no warehouse, is damaged, or cannot be written as needed.
    """
    with _process_lock:
        is_read_only = warehouse_exists(path) and _find_write_obstacle(path) is not None
        connection = _attach(path, warehouse_wait_seconds() if wait_s is None else wait_s, is_read_only)
        try:
            if not is_read_only:
                _create_write_ahead_log(path)
            if not of_any_version:
                _check_version_or_create_tables(connection, path, is_read_only)
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")
            if _has_non_empty_write_ahead_log(path):  # without a log, nothing was written
                # detaching would checkpoint too, but hide the error of a full disk
                connection.execute(f"CHECKPOINT {_ATTACHED_NAME}")
        except duckdb.Error as error:
            _roll_back(connection)
            if message := _format_duckdb_error(path, error):
                raise WarehouseError(message) from error
            raise
        except BaseException as error:  # after any error, roll back and re-raise it unchanged
            _roll_back(connection)
            _raise_pending_stop_if_interrupted(error)
            raise
        finally:
            if not is_read_only and not _has_non_empty_write_ahead_log(path):
                _write_ahead_log_path(path).unlink(missing_ok=True)
            _detach_or_close_failed_engine(connection)


@contextmanager
def private_umask() -> Iterator[None]:
    """Make files created meanwhile private to the user (umask 077), for files that DuckDB creates.

    Use it only briefly: it applies to all threads.
    """
    mask = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(mask)


def warehouse_exists(path: Path) -> bool:
    """True if the file exists; WarehouseError if that cannot be determined, or if it is not a regular file."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise WarehouseError(f"cannot open the warehouse {shorten_middle(str(path))}: {why}") from error
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "a pipe, a device or a socket"
        raise WarehouseError(f"the warehouse {path} is {what}, not a file; name another file with --warehouse")
    return True


def check_warehouse_writable(path: Path) -> None:
    """Raise WarehouseError if the file, or its folder, cannot be written."""
    if why := _find_write_obstacle(path):
        raise WarehouseError(f"the warehouse {path} cannot be written: {why}; name another file with --warehouse")


def _find_write_obstacle(path: Path) -> str | None:
    """Return why a warehouse cannot be written, or None; creates its folder if missing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return f"its folder cannot be created ({error.strerror})"
    if warehouse_exists(path) and not os.access(path, os.W_OK):
        return "the file is read-only"
    return None if os.access(path.parent, os.W_OK | os.X_OK) else "its folder is read-only"


def _format_duckdb_error(path: Path, error: duckdb.Error) -> str | None:
    """Return a DuckDB error about a warehouse as one line with advice; None for a bug in factmill."""
    message = str(error).partition("\n")[0]
    if isinstance(error, duckdb.OutOfMemoryException):
        return f"the warehouse {path} needs more memory: {message}"
    if "read-only mode" in message:
        return (
            f"the warehouse {path} cannot be written: {_find_write_obstacle(path)}; name another file with --warehouse"
        )
    if _DAMAGE_PATTERN.search(message) and not _DISK_FULL_PATTERN.search(message):
        return f"the warehouse {path} is damaged: {message}; {_DAMAGE_ADVICE}"
    if isinstance(error, (duckdb.BinderException, duckdb.CatalogException)):
        return (
            f"{path} has tables of another factmill version: {message}; make the build or the evaluation again, or name "
            "another file with --warehouse"
        )
    if isinstance(error, (duckdb.OperationalError, duckdb.TransactionException, duckdb.FatalException)):
        return f"cannot write the warehouse {path}: {message}; free some space and run the same command again"
    return None


def _attach(path: Path, wait_s: float, is_read_only: bool) -> duckdb.DuckDBPyConnection:
    """Return a connection with the file attached, as soon as no other process uses it."""
    creating: Any = nullcontext()
    if not warehouse_exists(path):
        check_warehouse_writable(path)
        creating = private_umask()
    else:  # DuckDB would take any other file for a database of another kind
        try:
            with path.open("rb") as file:
                start = file.read(16)
        except OSError as error:
            raise WarehouseError(f"cannot open the warehouse {path}: {error.strerror}") from error
        if start[8:12] != b"DUCK":
            what = "is not a DuckDB file" if start else "is empty"
            raise WarehouseError(
                f"the warehouse {path} {what}; name another file with --warehouse, or move this one away"
            )
    how = "TYPE duckdb, READ_ONLY" if is_read_only else f"TYPE duckdb, {ROW_GROUP_OPTION}"
    connection = _get_engine().cursor()
    connection.execute(
        f"SET threads = {2 if warehouse_exists(path) and path.stat().st_size > _TWO_THREADS_MIN_BYTES else 1}"
    )
    quoted = str(path).replace("'", "''")
    deadline = time.monotonic() + wait_s
    pause_s = 0.02
    while True:
        try:
            with creating:
                connection.execute(f"ATTACH '{quoted}' AS {_ATTACHED_NAME} ({how})")
            connection.execute(f"USE {_ATTACHED_NAME}")
            return connection
        except duckdb.IOException as error:
            holder = find_lock_holder(str(error))
            if holder is None:
                message = _format_duckdb_error(path, error) if _DAMAGE_PATTERN.search(str(error)) else None
                raise WarehouseError(message or f"cannot open the warehouse {path}: {error}") from error
            if time.monotonic() >= deadline:
                raise WarehouseBusy(
                    f"{holder} has held the warehouse {path} for more than {wait_s:.0f} s; wait until it ends, "
                    "stop it, or name another file with --warehouse"
                ) from error
        except duckdb.Error as error:
            raise WarehouseError(
                _format_duckdb_error(path, error) or f"cannot open the warehouse {path}: {error}"
            ) from error
        except RuntimeError as error:
            _detach_or_close_failed_engine(connection)
            _raise_pending_stop_if_interrupted(error)
            raise
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.5)


def find_lock_holder(message: str) -> str | None:
    """Return who holds a warehouse's lock by DuckDB's message, or None for another error.

    DuckDB states PID 0 for a process in another container, or when the lock was released while it looked for the holder.
    """
    holder = _LOCK_HOLDER_PATTERN.search(message)
    if holder is None:
        return None
    if holder["pid"] == "0":
        return "another process"
    return f"process {holder['pid']}" + (f" ({holder['program']})" if holder["program"] else "")


def _write_ahead_log_path(path: Path) -> Path:
    """Return the path of a warehouse's write-ahead log."""
    return path.with_name(f"{path.name}.wal")


def _has_non_empty_write_ahead_log(path: Path) -> bool:
    log = _write_ahead_log_path(path)
    return log.exists() and log.stat().st_size > 0


def _create_write_ahead_log(path: Path) -> None:
    """Create an empty log with the warehouse's permissions: DuckDB would create it with the default ones."""
    try:
        log = os.open(_write_ahead_log_path(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return  # left by a killed process
    except OSError as error:
        raise WarehouseError(
            f"cannot write the warehouse {path}: its log {_write_ahead_log_path(path).name} cannot be created ({error.strerror}); free some space and "
            "run the same command again"
        ) from error
    os.fchmod(log, path.stat().st_mode & 0o666)
    os.close(log)


def _get_engine() -> duckdb.DuckDBPyConnection:
    """Return this process's engine, started on first use."""
    process = os.getpid()
    if process not in _engines:
        # by default, DuckDB spills next to the file, or to the working folder for an in-memory database
        if process not in _spill_folders:
            _spill_folders[process] = tempfile.mkdtemp(prefix=f"factmill-{process}-")
        config: dict[str, Any] = {"memory_limit": "1GB", "threads": 1, "temp_directory": _spill_folders[process]}
        # timestamps and their dates must not depend on the machine's time zone
        config |= {"autoinstall_known_extensions": False, "TimeZone": "UTC"}
        # by default, five row groups are buffered before they are written
        config["write_buffer_row_group_count"] = 1
        # by default, up to 128 and 512 MB of free memory are retained
        config |= dict.fromkeys(("allocator_flush_threshold", "allocator_bulk_deallocation_flush_threshold"), "1MB")
        _engines[process] = duckdb.connect(":memory:", config=config)
    return _engines[process]


@atexit.register
def _discard_engines_and_spill_folder() -> None:
    _engines.clear()
    if spill := _spill_folders.get(os.getpid()):
        shutil.rmtree(spill, ignore_errors=True)


def close_engine_if_warehouse_is_large(path: Path) -> None:
    """Close the engine after use with a large warehouse, since it retains tens of megabytes; the next use starts one."""
    with _process_lock:
        if (
            warehouse_exists(path)
            and path.stat().st_size > _CLOSE_ENGINE_MIN_BYTES
            and (engine := _engines.pop(os.getpid(), None))
        ):
            engine.close()


def _detach_or_close_failed_engine(connection: duckdb.DuckDBPyConnection) -> None:
    """Detach the file; if the engine has failed fatally and cannot, close the engine, which releases the file too."""
    try:
        connection.execute("USE memory")
        connection.execute(f"DETACH {_ATTACHED_NAME}")
    except (duckdb.Error, RuntimeError) as error:
        _engines.pop(os.getpid()).close()
        _raise_pending_stop_if_interrupted(error)
    finally:
        connection.close()


def _raise_pending_stop_if_interrupted(error: BaseException) -> None:
    """Repeat the stop if a signal interrupted DuckDB, which replaces the handler's exception with its own."""
    if isinstance(error, RuntimeError) and str(error) == _INTERRUPTED:
        reraise_swallowed_stop()


def _roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    try:
        connection.execute("ROLLBACK")
    except (duckdb.Error, RuntimeError) as error:
        _raise_pending_stop_if_interrupted(error)
        return  # a connection that failed fatally has no transaction left


def get_schema_version(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the schema version of an open warehouse; 0 if it has no tables yet."""
    try:
        found = connection.execute("SELECT max(version) FROM schema_migrations").fetchone()
    except duckdb.CatalogException:
        return 0
    return (found or (0,))[0] or 0


def create_tables_and_record_version(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the tables of a new warehouse and record the schema version."""
    create_warehouse_tables_and_views(connection)
    connection.execute(
        "CREATE TABLE schema_migrations (version INTEGER PRIMARY KEY, name VARCHAR, applied_at TIMESTAMPTZ)"
    )
    connection.execute("INSERT INTO schema_migrations VALUES (?, 'own_tables', now())", [SCHEMA_VERSION])
    docs = {
        "version": "The version.",
        "name": "What the version applies to.",
        "applied_at": "When the tables were made.",
    }
    statements = make_comment_statements(
        "TABLE",
        "schema_migrations",
        "Versions of the warehouse's own tables; the newest row has the current one.",
        docs,
    )
    connection.execute(";\n".join(statements))


def _check_version_or_create_tables(connection: duckdb.DuckDBPyConnection, path: Path, is_read_only: bool) -> None:
    """Create the tables of a new warehouse; raise WarehouseTooNew or WarehouseTooOld, with advice, for another version."""
    version = get_schema_version(connection)
    if version > SCHEMA_VERSION:
        raise make_warehouse_too_new_error(path, version)
    if 0 < version < SCHEMA_VERSION:
        raise WarehouseTooOld(
            f"the warehouse {path} was made by an earlier factmill (schema version {version}, expected {SCHEMA_VERSION}); run "
            f"`factmill upgrade {path}`, which keeps its builds and recorded calls, or name another file with --warehouse"
        )
    if not version and not is_read_only:
        # in one transaction: each separate commit would wait for the disk
        connection.execute("BEGIN")
        create_tables_and_record_version(connection)
        connection.execute("COMMIT")


def make_warehouse_too_new_error(path: Path, version: int) -> WarehouseTooNew:
    """Return the error for a warehouse of a newer factmill."""
    return WarehouseTooNew(
        f"the warehouse {path} has schema version {version}, but this factmill supports up to {SCHEMA_VERSION}; "
        "update factmill, or name another file with --warehouse"
    )


def parse_json_column(text: str, where: str, kind: type = object) -> Any:
    """Return the value of a JSON column; WarehouseError, naming the place, if it is broken or not of this type.

    `where`: table, column and row, such as `builds.lock of granola-3f2a`.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WarehouseError(
            f"{where} is invalid JSON ({error}): the warehouse is damaged; {_DAMAGE_ADVICE}"
        ) from error
    if not isinstance(value, kind):
        raise WarehouseError(f"{where} is not a JSON {kind.__name__}: the warehouse is damaged; {_DAMAGE_ADVICE}")
    return value


def parse_model_column(model: type[M], text: str, where: str) -> M:
    """Return the model in a JSON column; WarehouseError, naming the place (see `parse_json_column`), if it is invalid."""
    try:
        return model.model_validate(parse_json_column(text, where))
    except ValidationError as error:
        raise WarehouseError(
            f"{where} is not a valid {model.__name__}: {error.errors()[0]['msg']}; {_DAMAGE_ADVICE}"
        ) from error


def query_rows(db: Connection, query: str, *values: Any) -> list[dict[str, Any]]:
    """Return the rows of a query, each as column → value."""
    return list(db.sql(query, params=list(values)).to_arrow_table().to_pylist())
