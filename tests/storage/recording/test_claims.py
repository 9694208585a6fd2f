"""Test claims and journals of other processes: no call is sent by two processes."""

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import PIPE, Popen
from sys import executable

import pytest

from factmill.tasks import progress
from factmill.tasks.core.calls.call import Call, CallResponse, ResponseHandler
from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.errors import ShardError
from factmill.tasks.storage.recording import call_cache
from factmill.tasks.storage.recording.call_cache import CallCache, LookupOfRecordsValidForRun
from factmill.tasks.storage.recording.journal import (
    CallJournal,
    CallRecordsOfOtherProcesses,
    CallReservationFolder,
    make_record,
)
from factmill.tasks.storage.warehouse import open_warehouse

A, B, C = (digest_bytes(name) for name in (b"a", b"b", b"c"))
_HOLD = """
import sys
from pathlib import Path
from factmill.tasks.storage.recording.journal import CallReservationFolder
with CallReservationFolder(Path(sys.argv[1])).claim(sys.argv[2:]) as held:
    print(len(held), flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator["Popen[str]"]:
    """A process that claims A and B."""
    process = Popen([executable, "-c", _HOLD, str(tmp_path), A, B], stdin=PIPE, stdout=PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "2\n"
    yield process
    process.kill()
    process.communicate()


def test_claim_of_another_process_is_available_after_release(holder: "Popen[str]", tmp_path: Path) -> None:
    claims = CallReservationFolder(tmp_path)
    with claims.claim([B, C]) as held:
        assert held == {C}
    with claims.claim([A, B]) as held:
        assert held == set()
    holder.communicate()
    with claims.claim([A, B]) as held, CallReservationFolder(tmp_path).claim([B, C]) as rest:
        assert (held, rest) == ({A, B}, {C})
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_claim_of_dead_process_is_available_at_once(holder: "Popen[str]", tmp_path: Path) -> None:
    claims = CallReservationFolder(tmp_path)
    holder.kill()
    holder.wait()
    assert list(tmp_path.glob("*.claim"))
    with claims.claim([A, B]) as held:
        assert held == {A, B}
        assert len(list(tmp_path.glob("*.claim"))) == 1


def test_files_of_dead_process_are_removed_by_next_one(holder: "Popen[str]", tmp_path: Path) -> None:
    holder.kill()
    holder.wait()
    CallReservationFolder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_full_disk_raises_named_error_and_leaves_no_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    claims = CallReservationFolder(tmp_path / "claims")
    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(ShardError, match=r"claims: No space left on device; free some space"), claims.claim([A]):
        pass
    monkeypatch.undo()
    with claims.claim([A]) as held:
        assert held == {A}


class Slow:
    """A service whose replies wait for `free`; `asked` counts its calls, and `begun` is set by the first."""

    identity, is_outside = "slow", True

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.begun, self.free = threading.Event(), threading.Event()
        self.error: Exception | None = None

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        self.asked += [str(call.parts["name"]) for call in calls]
        self.begun.set()
        self.free.wait()
        if self.error:
            raise self.error
        for call in calls:
            deliver(call, CallResponse({"name": call.parts["name"]}))


def calls(*names: str) -> list[Call]:
    return [Call("slow", "say", {"name": name}) for name in names]


def test_two_caches_on_one_warehouse_send_call_once_and_both_record_it(tmp_path: Path) -> None:
    warehouse, service, sent = tmp_path / "w.duckdb", Slow(), []
    first, second = CallCache(warehouse, "record"), CallCache(warehouse, "record")
    thread = threading.Thread(target=lambda: sent.append(first.get_or_send(calls("a", "b"), service).sent))
    other = threading.Thread(target=lambda: sent.append(second.get_or_send(calls("b", "c"), service).sent))
    thread.start()
    service.begun.wait()
    other.start()
    while "c" not in service.asked:
        time.sleep(0.01)
    service.free.set()
    thread.join()
    other.join()
    assert sorted(service.asked) == ["a", "b", "c"]
    assert sorted(sent) == [1, 2]
    # each process has the record in its own journal, so the other may be killed
    second.close()
    with open_warehouse(warehouse) as db:
        assert db.execute("SELECT count(*) FROM calls").fetchone() == (2,)
    first.close()
    with open_warehouse(warehouse) as db:
        assert db.execute("SELECT count(*), count(DISTINCT key) FROM calls").fetchone() == (3, 3)


def test_call_that_failed_in_one_cache_is_sent_by_waiting_one(tmp_path: Path) -> None:
    warehouse, service, result = tmp_path / "w.duckdb", Slow(), Slow()
    service.error = ConnectionError("cut")
    result.free.set()
    first, second = CallCache(warehouse, "record"), CallCache(warehouse, "record")

    def fail() -> None:
        with pytest.raises(ConnectionError):
            first.get_or_send(calls("a"), service)

    thread = threading.Thread(target=fail)
    thread.start()
    service.begun.wait()
    other = threading.Thread(target=lambda: second.get_or_send(calls("a"), result))
    other.start()
    service.free.set()
    thread.join()
    other.join()
    assert result.asked == ["a"]
    for each in (first, second):
        each.close()


def test_call_merged_by_another_cache_between_two_lookups_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse, service = tmp_path / "w.duckdb", Slow()
    service.free.set()
    with closing(CallCache(warehouse, "record")) as second:
        look = second._serving.find_records

        def look_too_early(_: LookupOfRecordsValidForRun, wanted: Sequence[Call]) -> object:
            monkeypatch.undo()
            found = look(wanted)
            with closing(CallCache(warehouse, "record")) as first:
                first.get_or_send(calls("a"), service)
            return found

        monkeypatch.setattr(LookupOfRecordsValidForRun, "find_records", look_too_early)
        assert second.get_or_send(calls("a"), service).sent == 0
    assert service.asked == ["a"]


def test_transient_failure_in_foreign_journal_is_retried_by_later_cache(tmp_path: Path) -> None:
    class Failing(Slow):
        def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
            for call in calls:
                deliver(call, CallResponse(None, "failed", "http_503: down", transient=True))

    service = Slow()
    service.free.set()
    with closing(CallCache(tmp_path / "w.duckdb", "record")) as first:
        first.get_or_send(calls("a"), Failing())
        with closing(CallCache(tmp_path / "w.duckdb", "record")) as second:
            assert second.get_or_send(calls("a"), service).sent == 1


def test_journals_of_other_processes_are_followed_as_they_grow_and_are_cleared(tmp_path: Path) -> None:
    ours, theirs = CallJournal(tmp_path), CallJournal(tmp_path)
    others = CallRecordsOfOtherProcesses(tmp_path)
    asked = calls("a", 'say "key":"0123"', "c")
    keys = [call.key for call in asked]

    def find() -> list[str]:
        return [record.parts for record in others.find(keys, ours.path).values()]

    records = [make_record(call, CallResponse({'"key":"99"': 1})) for call in asked]
    ours.append(records[2])
    assert find() == []
    theirs.append(records[0])
    assert find() == [records[0].parts]
    os.write(theirs._fd, b'00000000 {"key":"')
    assert find() == [records[0].parts]
    theirs.clear()
    assert find() == []
    theirs.append(records[1])
    assert find() == [records[1].parts]


def test_each_of_two_caches_applies_its_own_maximum_age(tmp_path: Path) -> None:
    warehouse, service = tmp_path / "w.duckdb", Slow()
    service.free.set()
    oldest = {"slow": datetime.now(UTC) - timedelta(days=1)}
    with closing(CallCache(warehouse, "record")) as before:
        before.get_or_send(calls("a", "b"), service)
    with open_warehouse(warehouse) as db:
        db.execute("UPDATE calls SET asked_at = asked_at - INTERVAL 2 DAY")
    with (
        closing(CallCache(warehouse, "record")) as lenient,
        closing(CallCache(warehouse, "record", oldest_allowed=oldest)) as strict,
        closing(CallCache(warehouse, "record", oldest_allowed=oldest)) as other,
    ):
        assert [each.get_or_send(calls("a"), service).sent for each in (lenient, strict, other)] == [0, 1, 0]
        # the age limit applies to records in journals too
        old = replace(make_record(calls("b")[0], CallResponse(None)), asked_at=datetime.now(UTC) - timedelta(days=2))
        for each in (lenient, other):  # the journals before and after the newest have no fixed order
            assert each._journal
            each._journal.append(replace(old, record_id=f"{0:016x}-{0:08x}"))
        with closing(CallCache(warehouse, "record", oldest_allowed=oldest)) as third:
            assert [each.get_or_send(calls("b"), service).sent for each in (strict, other, third, lenient)] == [
                1,
                0,
                0,
                0,
            ]
    assert service.asked == ["a", "b", "a", "b"]


def test_waiting_process_prints_note_and_sends_call_when_other_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, said = Slow(), threading.Event()
    lines: list[str] = []
    service.free.set()
    monkeypatch.setattr(call_cache, "_REPORT_WAIT_AFTER_S", 0.0)
    monkeypatch.setattr(progress, "print_and_log", lambda text: (lines.append(text), said.set()))
    asked = calls("a")
    with closing(CallCache(tmp_path / "w.duckdb", "record")) as run:
        claims = tmp_path / "w.duckdb.runs" / "claims"
        with Popen([executable, "-c", _HOLD, str(claims), asked[0].key], stdin=PIPE, stdout=PIPE, text=True) as process:
            assert process.stdout
            process.stdout.readline()
            process.send_signal(signal.SIGSTOP)
            thread = threading.Thread(target=lambda: run.get_or_send(asked, service))
            thread.start()
            said.wait()
            assert service.asked == []
            process.kill()
        thread.join()
    assert service.asked == ["a"]
    assert len(lines) == 1 and lines[0].startswith(f"note: process {process.pid} is requesting 1 of the replies")


@pytest.mark.parametrize("newest", [0, 1])
def test_newest_record_among_several_journals_is_used(tmp_path: Path, newest: int) -> None:
    ours, *theirs = (CallJournal(tmp_path) for _ in range(3))
    asked = calls("a")[0]
    for journal in (theirs[1 - newest], theirs[newest]):
        journal.append(make_record(asked, CallResponse({"from": theirs.index(journal)})))
    found = CallRecordsOfOtherProcesses(tmp_path).find([asked.key], ours.path)
    assert found[asked.key].reply().body == {"from": newest}
