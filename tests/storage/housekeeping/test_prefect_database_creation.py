"""Test creation of Prefect's database: one server at a time, redone after a kill, and put aside when damaged."""

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest

from factmill.tasks.storage.housekeeping.prefect_history import (
    find_prefect_database_problem,
    guarded_prefect_database_until_created,
    prefect_database_path,
)

ROWS = 2_000


def make(home: Path) -> Path:
    path = prefect_database_path(home)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def write(path: Path) -> None:
    """Write a database of some hundred pages at the newest revision that the installed Prefect knows."""
    spec = find_spec("prefect")
    assert spec and spec.origin
    migrations = Path(spec.origin).parent / "server/database/_migrations/versions/sqlite"
    revision = max(migrations.glob("2*.py")).name.split("_")[4]
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        db.execute("INSERT INTO alembic_version VALUES (?)", [revision])
        db.execute("CREATE TABLE flow_run (id INTEGER PRIMARY KEY, name TEXT)")
        db.executemany("INSERT INTO flow_run (name) VALUES (?)", [["x" * 200]] * ROWS)


def count_runs(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        (count,) = db.execute("SELECT count(*) FROM flow_run").fetchone()
    return int(count)


def test_half_created_database_of_killed_server_is_removed(tmp_path: Path) -> None:
    path = make(tmp_path)
    with guarded_prefect_database_until_created(tmp_path, print):  # ends without any output of the server
        path.write_bytes(b"half")
        path.with_name("prefect.db-wal").write_bytes(b"a migration")
    with guarded_prefect_database_until_created(tmp_path, print) as made:
        assert [each.name for each in path.parent.glob("prefect*")] == []
        write(path)
        made()
    with guarded_prefect_database_until_created(tmp_path, print) as made:
        made()
    assert count_runs(path) == ROWS


def test_other_processes_wait_until_database_is_created(tmp_path: Path) -> None:
    path, seen = make(tmp_path), list[int]()

    def start() -> None:
        with guarded_prefect_database_until_created(tmp_path, print) as made:
            seen.append(count_runs(path))
            made()

    with guarded_prefect_database_until_created(tmp_path, print) as made:
        path.write_bytes(b"half")
        other = threading.Thread(target=start)
        other.start()
        other.join(0.2)
        assert other.is_alive()
        path.unlink()
        write(path)
        made()
    other.join(10)
    assert seen == [ROWS]


def overwrite(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)


def put_in_place(path: Path, make_other: Callable[[Path], object]) -> None:
    path.unlink()
    make_other(path)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (lambda path: os.truncate(path, 300_000), "malformed"),
    "truncated in its header": (lambda path: os.truncate(path, 50), "malformed"),
    "random beginning": (lambda path: overwrite(path, 0, bytes(range(1, 101))), "not a database"),
    "random bytes in the middle": (lambda path: overwrite(path, 200_000, os.urandom(20_000)), ""),
    "zeros in the middle": (lambda path: overwrite(path, 200_704, bytes(8_192)), ""),
    "text": (lambda path: path.write_text("nothing of a database\n" * 100), "not a database"),
    "a folder": (lambda path: put_in_place(path, Path.mkdir), "not a file"),
    "a pipe": (lambda path: put_in_place(path, os.mkfifo), "not a file"),
    "a folder in place of its journal": (lambda path: path.with_name("prefect.db-wal").mkdir(), "unable to open"),
    "newer": (lambda path: execute(path, "UPDATE alembic_version SET version_num = 'fffffffffff0'"), "a newer Prefect"),
    "another program's": (lambda path: execute(path, "DROP TABLE alembic_version"), "not Prefect's"),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_damaged_database_is_moved_aside_with_note(tmp_path: Path, kind: str) -> None:
    damage, said = DAMAGES[kind]
    path, result = make(tmp_path), list[str]()
    write(path)
    damage(path)
    content = path.read_bytes() if path.is_file() else b""
    assert said in find_prefect_database_problem(path)
    with guarded_prefect_database_until_created(tmp_path, result.append) as made:
        assert not path.exists()
        made()
    (note,) = result
    (aside,) = path.parent.glob("prefect-damaged-*.db")
    assert note.startswith(f"note: Prefect's history {path} cannot be used: ") and aside.name in note
    assert not content or aside.read_bytes() == content


HEALTHY: dict[str, Callable[[Path], object]] = {
    "as it was left": lambda _path: None,
    "empty": lambda path: os.truncate(path, 0),
    "without its journal": lambda path: path.with_name("prefect.db-wal").unlink(missing_ok=True),
    "with a journal of something else": lambda path: path.with_name("prefect.db-wal").write_bytes(os.urandom(9_000)),
    "not there": Path.unlink,
}


@pytest.mark.parametrize("kind", HEALTHY)
def test_usable_database_is_kept(tmp_path: Path, kind: str) -> None:
    path, result = make(tmp_path), list[str]()
    write(path)
    HEALTHY[kind](path)
    content = path.read_bytes() if path.exists() else None
    with guarded_prefect_database_until_created(tmp_path, result.append) as made:
        made()
    assert (result, path.read_bytes() if path.exists() else None) == ([], content)


def test_locked_database_is_not_mistaken_for_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factmill.tasks.storage.housekeeping.prefect_history._WAIT_S", 0.1)
    path = make(tmp_path)
    write(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("BEGIN EXCLUSIVE")
        assert find_prefect_database_problem(path) == ""
