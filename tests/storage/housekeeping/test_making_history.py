"""Prefect's database is made by one server at a time, and never gone on with when that was killed meanwhile."""

import threading
from pathlib import Path

from tasks.storage.housekeeping.prefect_history import history_of, making_history


def make(home: Path) -> Path:
    path = history_of(home)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def test_what_a_killed_server_left_half_made_goes(tmp_path: Path) -> None:
    path = make(tmp_path)
    with making_history(tmp_path, print):  # ends without a word of the server's
        path.write_bytes(b"half")
        path.with_name("prefect.db-wal").write_bytes(b"a migration")
    with making_history(tmp_path, print) as made:
        assert [each.name for each in path.parent.glob("prefect.db*")] == []
        path.write_bytes(b"whole")
        made()
    with making_history(tmp_path, print) as made:
        made()
    assert path.read_bytes() == b"whole"


def test_others_wait_until_it_is_made(tmp_path: Path) -> None:
    path, seen = make(tmp_path), list[bytes]()

    def start() -> None:
        with making_history(tmp_path, print) as made:
            seen.append(path.read_bytes())
            made()

    with making_history(tmp_path, print) as made:
        path.write_bytes(b"half")
        other = threading.Thread(target=start)
        other.start()
        other.join(0.2)
        assert other.is_alive()
        path.write_bytes(b"whole")
        made()
    other.join(10)
    assert seen == [b"whole"]
