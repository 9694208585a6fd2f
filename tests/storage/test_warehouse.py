"""Test the warehouse: its tables, access by one process at a time, and errors with a remedy."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from factmill.tasks.errors import WarehouseBusy, WarehouseError, WarehouseTooNew
from factmill.tasks.storage import warehouse
from factmill.tasks.storage.housekeeping.warehouse_rewriting import compact_warehouse
from factmill.tasks.storage.recording.work_folders import make_folder_inside_work_folder, work_folder
from factmill.tasks.storage.schema import SCHEMA_VERSION, WAREHOUSE_TABLES, ensure_published_table_and_latest_view
from factmill.tasks.storage.warehouse import close_engine_if_warehouse_is_large, find_lock_holder, open_warehouse

HOLD = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"


def test_new_warehouse_creates_its_tables_once_with_descriptions(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.duckdb"
    for _ in range(2):
        with open_warehouse(path) as db:
            versions = db.execute("SELECT version FROM schema_migrations").fetchall()
            comments = db.execute("SELECT table_name, comment FROM duckdb_tables() ORDER BY 1").fetchall()
            undescribed = db.execute(
                "SELECT table_name, column_name FROM duckdb_columns() WHERE comment IS NULL AND list_contains(?, table_name)",
                [[model.table for model in WAREHOUSE_TABLES if model.table != "label_items"]],
            ).fetchall()
    assert versions == [(SCHEMA_VERSION,)]
    assert [name for name, text in comments if not text] == []
    assert {name for name, _ in comments} - {"schema_migrations"} == {model.table for model in WAREHOUSE_TABLES}
    assert undescribed == []


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def check_refused(
    path: Path, message: str, error: type[Exception] = WarehouseError, wait_s: float | None = None
) -> None:
    with pytest.raises(error, match=message), open_warehouse(path, wait_s):
        pass


def rights(path: Path) -> str:
    return oct(path.stat().st_mode)[-3:]


@pytest.mark.usefixtures("no_umask")
def test_new_warehouse_and_its_log_are_private_to_user(tmp_path: Path) -> None:
    path = tmp_path / "w.duckdb"
    log = tmp_path / "w.duckdb.wal"
    for rows in range(2):
        with open_warehouse(path) as db:
            db.execute("CREATE TABLE IF NOT EXISTS t (n INTEGER)")
            db.execute("INSERT INTO t VALUES (1)")
            db.execute("COMMIT")
            assert (rights(path), rights(log), log.stat().st_size > 0) == ("600", "600", True), rows
            db.execute("BEGIN")
    make_folder_inside_work_folder(tmp_path / "w.duckdb.runs" / "journal")
    assert rights(tmp_path / "w.duckdb.runs") == "700"
    (tmp_path / "user.txt").write_text("")
    assert (rights(tmp_path / "user.txt"), log.exists()) == ("666", False), "files that the user names follow the umask"


@pytest.mark.usefixtures("no_umask")
def test_warehouse_opened_to_others_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "w.duckdb"
    with open_warehouse(path):
        pass
    path.chmod(0o644)
    with open_warehouse(path) as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS n")
        db.execute("COMMIT")
        assert rights(tmp_path / "w.duckdb.wal") == "644"
        db.execute("BEGIN")
    compact_warehouse(path)
    assert rights(path) == "644"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look into any folder")
def test_user_without_access_to_work_folder_gets_separate_one(tmp_path: Path) -> None:
    path, theirs = tmp_path / "w.duckdb", tmp_path / "w.duckdb.runs"
    theirs.mkdir(0o000)
    assert work_folder(path) == tmp_path / f"w.duckdb.runs-{os.getuid()}"
    theirs.chmod(0o755)
    assert work_folder(path) == theirs


def test_empty_log_of_killed_process_does_not_prevent_opening(tmp_path: Path) -> None:
    path, log = tmp_path / "w.duckdb", tmp_path / "w.duckdb.wal"
    with open_warehouse(path) as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS n")
    log.touch()
    with open_warehouse(path) as db:
        assert db.execute("SELECT n FROM t").fetchall() == [(1,)]
    assert not log.exists()
    (tmp_path / "other.duckdb.wal").mkdir()  # any failure to create the log is a readable error
    check_refused(tmp_path / "other.duckdb", r"other\.duckdb")


def test_new_rows_use_small_row_groups_even_after_old_large_ones(tmp_path: Path) -> None:
    path, rows = tmp_path / "a.duckdb", "SELECT i, repeat('x', 90) || i AS text FROM range({}, {}) r(i)"
    with duckdb.connect(path) as old:
        old.execute(f"CREATE TABLE facts AS {rows.format(0, 40_000)}")
    for start in (40_000, 75_000, 110_000):
        with open_warehouse(path) as db:
            db.execute(f"INSERT INTO facts {rows.format(start, start + 35_000)}")
            db.execute("DELETE FROM facts WHERE i = ?", [start - 1])
    with open_warehouse(path) as db:
        found = db.execute("SELECT count(*), count(DISTINCT i), sum(i), min(text = repeat('x', 90) || i) FROM facts")
        kept = [i for i in range(145_000) if i not in (39_999, 74_999, 109_999)]
        assert found.fetchall() == [(144_997, 144_997, sum(kept), True)]
        groups = "SELECT row_group_id, sum(count) FROM pragma_storage_info('facts') WHERE column_name = 'i'"
        counts = db.execute(f"{groups} AND segment_type <> 'VALIDITY' GROUP BY ALL ORDER BY 1").fetchall()
    assert max(count for _, count in counts[1:]) == 32_768


def test_engine_of_large_warehouse_is_closed_and_next_opening_starts_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "w.duckdb"
    with open_warehouse(path) as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS n")
    engine = warehouse._engines[os.getpid()]
    close_engine_if_warehouse_is_large(path)
    assert warehouse._engines[os.getpid()] is engine  # starting another costs more than it saves
    monkeypatch.setattr(warehouse, "_CLOSE_ENGINE_MIN_BYTES", 0)
    close_engine_if_warehouse_is_large(path)
    close_engine_if_warehouse_is_large(path)
    assert os.getpid() not in warehouse._engines
    with open_warehouse(path) as db:
        assert db.execute("SELECT n FROM t").fetchall() == [(1,)]


def test_column_changes_type_only_if_older_builds_lose_no_value(tmp_path: Path) -> None:
    texts, numbers = {"id": "VARCHAR", "n": "VARCHAR"}, {"id": "VARCHAR", "n": "BIGINT"}
    with open_warehouse(tmp_path / "w.duckdb") as db:
        ensure_published_table_and_latest_view(db, "toys", texts, None)
        db.execute("INSERT INTO toys VALUES ('build', 'a', '1')")
        ensure_published_table_and_latest_view(db, "toys", numbers, None)
        assert db.execute("SELECT n FROM toys").fetchall() == [(1,)]
        ensure_published_table_and_latest_view(db, "toys", texts, None)
        db.execute("INSERT INTO toys VALUES ('build', 'b', 'one')")
        with pytest.raises(WarehouseError, match=r"the table toys .* column n .*VARCHAR; .*BIGINT"):
            ensure_published_table_and_latest_view(db, "toys", numbers, None)


def test_error_inside_transaction_rolls_it_back(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    with pytest.raises(ZeroDivisionError), open_warehouse(path) as db:
        db.execute("INSERT INTO merged_rows VALUES ('b', 's', 'i', 'j')")
        raise ZeroDivisionError
    with open_warehouse(path) as db:
        assert db.execute("SELECT count(*) FROM merged_rows").fetchone() == (0,)


def test_locked_warehouse_names_process_that_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        check_refused(path, rf"process {holder.pid} .*--warehouse", WarehouseBusy, wait_s=0.2)
    finally:
        holder.communicate(b"")
    with open_warehouse(path, wait_s=5) as db:
        assert db.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize(
    ("message", "holder"),
    [
        ("Conflicting lock is held in /usr/bin/python3.11 (PID 31). See also", "process 31 (/usr/bin/python3.11)"),
        ("Conflicting lock is held in PID 31. See also", "process 31"),
        ("Conflicting lock is held in PID 0. See also", "another process"),
        ("No space left on device", None),
    ],
)
def test_lock_holder_is_found_in_each_form_of_the_message(message: str, holder: str | None) -> None:
    assert find_lock_holder(message) == holder


def test_warehouse_of_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    with open_warehouse(path) as db:
        db.execute("INSERT INTO schema_migrations VALUES (9999, 'from_the_future', now())")
    check_refused(path, r"schema version 9999.*update factmill", WarehouseTooNew)


def test_failed_commit_is_reported_with_warehouse_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [duckdb.TransactionException("Failed to commit: No space left on device")]

    def fill(_: object) -> bool:
        if errors:
            raise errors.pop()
        return True

    # called first between the commit and the checkpoint, then after the warehouse is closed
    monkeypatch.setattr("factmill.tasks.storage.warehouse._has_non_empty_write_ahead_log", fill)
    check_refused(tmp_path / "a.duckdb", r"cannot write the warehouse .*No space left.*run the same command again")


@pytest.mark.parametrize("start", [b"", b"SQLite format 3\0", b"these are notes\n"])
def test_file_of_another_format_is_recognised_by_its_first_bytes(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "a.duckdb"
    path.write_bytes(start * 100)
    check_refused(path, r"a\.duckdb is (empty|not a DuckDB file); name another")


def test_file_that_cannot_grow_is_not_reported_as_damage_and_keeps_its_content(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    with open_warehouse(path) as db:
        db.execute("CREATE TABLE kept AS SELECT range AS n, hash(range) AS h FROM range(200000)")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, limits[1]))
    try:
        with (
            pytest.raises(
                WarehouseError, match=r"^cannot write the warehouse .*; free some space and run the same command"
            ),
            open_warehouse(path) as db,
        ):
            # the rows reach the log next to the file, and go no further
            db.execute("INSERT INTO kept SELECT range, hash(range) FROM range(40000)")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    with open_warehouse(path) as db:
        assert db.execute("SELECT count(*) >= 200000 FROM kept").fetchone() == (True,)


def test_damaged_page_is_reported_as_damage_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    with open_warehouse(path) as db:
        db.execute("INSERT INTO merged_rows SELECT 'b', 's', md5(i::VARCHAR), 'j' FROM range(50000) t(i)")
    content = bytearray(path.read_bytes())
    for at in range(12288 + 5000, len(content), 262144):
        content[at] ^= 255
    path.write_bytes(content)
    with (
        pytest.raises(WarehouseError, match=r"^the warehouse .*a\.duckdb is damaged: .*--warehouse.*$"),
        open_warehouse(path) as db,
    ):
        db.execute("SELECT max(id) FROM merged_rows").fetchone()


class Stopped(BaseException):
    """Raised by a SIGTERM handler, as Prefect's is."""


class Interrupted:
    """A connection whose statement a signal interrupts: DuckDB loses the exception that the handler raises."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, statement: str) -> None:
        self._connection, self._statement = connection, statement

    def cursor(self) -> "Interrupted":
        return Interrupted(self._connection.cursor(), self._statement)

    def execute(self, query: str, *more: object) -> object:
        if query.startswith(self._statement):
            raise RuntimeError("Query interrupted")
        return self._connection.execute(query, *more)

    def close(self) -> None:
        self._connection.close()


@pytest.mark.parametrize("statement", ["ATTACH", "SELECT", "COMMIT", "CHECKPOINT", "USE memory", "DETACH"])
def test_signal_during_duckdb_call_runs_its_handler(
    tmp_path: Path, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise Stopped

    engine = warehouse._get_engine()
    before = signal.signal(signal.SIGTERM, stop)
    monkeypatch.setattr(warehouse, "_get_engine", lambda: Interrupted(engine, statement))
    try:
        with pytest.raises(Stopped), open_warehouse(tmp_path / "w.duckdb"):
            pass
    finally:
        signal.signal(signal.SIGTERM, before)
    monkeypatch.undo()
    with open_warehouse(tmp_path / "w.duckdb") as db:
        assert db.execute("SELECT count(*) FROM calls").fetchone() == (0,)


def test_interrupted_statement_raises_keyboard_interrupt_without_signal_handler(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with pytest.raises(KeyboardInterrupt), open_warehouse(tmp_path / "w.duckdb"):
            raise RuntimeError("Query interrupted")
    finally:
        signal.signal(signal.SIGTERM, before)


_DAY = """
import sys
from pathlib import Path
from factmill.tasks.storage.warehouse import open_warehouse
with open_warehouse(Path(sys.argv[1])) as db:
    print(*db.execute("SELECT CAST(moment AS DATE), moment FROM (SELECT TIMESTAMPTZ '2026-05-01 20:00:00+00' AS moment)").fetchone())
"""


def test_timestamps_convert_to_utc_dates_in_any_machine_timezone(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TZ": "Asia/Tokyo"}
    ran = subprocess.run(
        [sys.executable, "-c", _DAY, str(tmp_path / "w.duckdb")], env=env, check=True, capture_output=True
    )
    assert ran.stdout.decode().strip() == "2026-05-01 2026-05-01 20:00:00+00:00"
