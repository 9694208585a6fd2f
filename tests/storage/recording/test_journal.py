"""Test the journal: a line is whole or absent, whenever a process dies."""

import fcntl
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmill.tasks.core.calls.call import Call, CallResponse
from factmill.tasks.errors import ShardError
from factmill.tasks.storage.recording.journal import (
    CallJournal,
    encode_line,
    find_damaged_lines,
    lock_orphan_journals,
    make_record,
    read_journal,
)


def record(text: str = "x", **reply: object):
    return make_record(Call("here", "find_items", {"name": text}), CallResponse(body={"text": text}, **reply))  # type: ignore[arg-type]


def test_appended_records_are_read_back(tmp_path: Path) -> None:
    journal = CallJournal(tmp_path)
    written = [record("a"), record('quote " and \\ and \n newline'), record("日本語")]
    for one in written:
        journal.append(one)
    assert list(read_journal(journal.path)) == written


def test_closed_journal_with_records_is_kept_and_empty_one_removed(tmp_path: Path) -> None:
    kept, emptied = CallJournal(tmp_path), CallJournal(tmp_path)
    written = record()
    kept.append(written)
    emptied.append(written)
    emptied.clear()
    kept.close()
    emptied.close()
    assert list(tmp_path.iterdir()) == [kept.path]
    assert list(read_journal(kept.path)) == [written]


def test_record_ids_sort_by_time() -> None:
    ids = [record().record_id for _ in range(50)]
    assert ids == sorted(ids)


@given(st.data())
def test_truncated_journal_returns_exactly_its_complete_lines(data: st.DataObject) -> None:
    records = [record(str(number)) for number in range(4)]
    lines = [encode_line(one) for one in records]
    whole = b"".join(lines)
    cut = data.draw(st.integers(0, len(whole)))
    path = Path(os.environ["FACTMILL_HOME"]).parent / "torn.journal"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(whole[:cut])
    complete = sum(cut >= len(b"".join(lines[: n + 1])) for n in range(4))
    assert list(read_journal(path)) == records[:complete]


def test_damaged_line_is_skipped_and_next_one_is_read(tmp_path: Path) -> None:
    records = [record("a"), record("b")]
    path = tmp_path / "x.journal"
    path.write_bytes(encode_line(records[0]).replace(b"find_items", b"find_itemz", 1) + encode_line(records[1]))
    assert list(read_journal(path)) == records[1:]


def test_damaged_lines_are_counted_and_truncated_end_is_not(tmp_path: Path) -> None:
    lines = [encode_line(record(name)) for name in "abc"]
    payload = b'{"of": "another factmill"}'
    foreign = b"%08x %s\n" % (zlib.crc32(payload), payload)
    path = tmp_path / "x.journal"
    path.write_bytes(lines[0] + foreign + b"\xff" + lines[1] + lines[2][:-9])
    assert [one.parts for one in read_journal(path)] == ['{"name":"a"}']
    assert find_damaged_lines(path) == [2, 3]


def test_unreadable_journal_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.journal").mkdir()
    with pytest.raises(ShardError, match=r"cannot read the journal .*x\.journal: Is a directory"):
        list(lock_orphan_journals(tmp_path))


def test_full_disk_raises_error_and_leaves_journal_intact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = CallJournal(tmp_path)
    journal.append(record("kept"))
    real_write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real_write(fd, data[:10]))
    with pytest.raises(ShardError, match=r"No space left.*run the same command again"):
        journal.append(record("lost"))
    monkeypatch.undo()
    journal.append(record("after"))
    assert [one.parts for one in read_journal(journal.path)] == ['{"name":"kept"}', '{"name":"after"}']


def test_journal_gets_its_name_only_once_locked_and_stale_drafts_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[list[str]] = []
    rename = Path.rename

    def look(draft: Path, name: Path) -> Path:
        if not found:  # as a cleaning process does before the lock
            draft.unlink()
        found.append([path.name for path in lock_orphan_journals(tmp_path)])
        return rename(draft, name)

    monkeypatch.setattr(Path, "rename", look)
    (tmp_path / "1-x.opening").touch()
    journal = CallJournal(tmp_path)
    assert (found, list(tmp_path.iterdir())) == ([[], []], [journal.path])


def test_journal_just_adopted_by_another_process_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, lock = tmp_path / "a.journal", fcntl.flock
    path.touch()
    monkeypatch.setattr(fcntl, "flock", lambda fd, how: (path.unlink(), lock(fd, how)))
    assert list(lock_orphan_journals(tmp_path)) == []


def test_only_journals_of_dead_processes_are_orphans(tmp_path: Path) -> None:
    mine = CallJournal(tmp_path)
    mine.append(record("mine"))
    code = (
        "import sys, os; from pathlib import Path; from factmill.tasks.storage.recording.journal import *; from factmill.tasks.core.calls.call import *\n"
        "j = CallJournal(Path(sys.argv[1])); j.append(make_record(Call('s', 'o', {'n': 'dead'}), CallResponse(body=1))); os.kill(os.getpid(), 9)"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], check=False, env={**os.environ, "PYTHONPATH": str(Path.cwd())}
    )
    assert [[one.parts for one in read_journal(path)] for path in lock_orphan_journals(tmp_path)] == [['{"n":"dead"}']]
    mine.clear()
    mine.close()
    assert not mine.path.exists()
