"""What a rebuild settled about an earlier build's replies: kept in its folder, served by the recorder, filed when published."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.steps.warehouses import empty_warehouse

from tasks.core.calls.call import Call, Deliver, Reply
from tasks.storage.recording.journal import Record, make_record
from tasks.storage.recording.kept import FILE, Kept, KeptCall, find_reply, read_kept, take_over, write_kept
from tasks.storage.recording.recorder import Recorder
from tasks.storage.recording.records import insert_records
from tasks.storage.warehouse import open_warehouse


class Echo:
    """A service that says what it was asked."""

    identity = "echo"
    is_outside = True

    def __init__(self) -> None:
        self.asked: list[str] = []

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        for call in calls:
            self.asked.append(str(call.parts["name"]))
            deliver(call, Reply({"said": "now"}))


NOW = datetime(2026, 3, 1, tzinfo=UTC)
OLD = Call("echo", "say", {"name": "old"})
AWAY = Call("echo", "say", {"name": "away"})


def keep(*records: Record, **renamed: str) -> Kept:
    calls = {each.key: KeptCall(each.record_id, each.asked_at.isoformat(), "unchanged", ("check",)) for each in records}
    return Kept("toys-1", NOW.isoformat(), calls, renamed)


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return empty_warehouse(tmp_path / "w.duckdb")


def record(warehouse: Path, call: Call) -> Record:
    made = replace(make_record(call, Reply({"said": "then"})), asked_at=datetime.now(UTC) - timedelta(days=40))
    with open_warehouse(warehouse) as db:
        insert_records(db, [made])
    return made


def test_what_was_settled_is_read_again_by_the_run_that_settled_it_alone(tmp_path: Path, warehouse: Path) -> None:
    kept = keep(record(warehouse, OLD), now="then")
    kept.checks["k"] = "r"
    kept.write(tmp_path)
    assert read_kept(tmp_path, "toys-1", NOW.isoformat()) == kept
    assert read_kept(tmp_path, "toys-2", NOW.isoformat()) is None
    assert read_kept(tmp_path, "toys-1", (NOW + timedelta(seconds=1)).isoformat()) is None
    (tmp_path / FILE).write_bytes((tmp_path / FILE).read_bytes()[:-9])
    assert read_kept(tmp_path, "toys-1", NOW.isoformat()) is None, "torn"
    assert read_kept(tmp_path / "nowhere", "toys-1", NOW.isoformat()) is None


def test_a_reply_that_is_kept_serves_though_it_is_too_old(warehouse: Path) -> None:
    old = record(warehouse, OLD)
    record(warehouse, AWAY)
    service, recorder = Echo(), Recorder(warehouse, "record", oldest={"echo": datetime.now(UTC)})
    recorder.keep(keep(old))
    answers = recorder.answer([OLD, AWAY], service)
    assert (service.asked, answers.sent, answers.replayed) == (["away"], 1, 1)
    assert answers.records[OLD.key].record_id == old.record_id
    recorder.close()


def test_a_reply_of_a_service_that_is_called_otherwise_now_is_taken_over(warehouse: Path) -> None:
    wired = Call("echo-1", "say", {"name": "old"}, {"messages": ["not recorded"]})
    old = record(warehouse, wired)
    record(warehouse, replace(AWAY, service="echo-1"))
    service, recorder = Echo(), Recorder(warehouse, "record")
    recorder.keep(keep(old, echo="echo-1"))
    now = replace(wired, service="echo")
    answers = recorder.answer([now, AWAY], service)
    assert (service.asked, answers.sent, answers.replayed) == (["away"], 1, 1)
    taken = answers.records[now.key]
    assert (taken.body, taken.asked_at, taken.service) == (old.body, old.asked_at, "echo")
    recorder.close()
    later = Recorder(warehouse, "record")
    assert later.answer([now], service).records[now.key] == taken
    later.close()
    again = take_over(taken, "f" * 64, "echo-2")
    assert again.record_id == f"{old.record_id}.ffffffff", "names the reply that came, however often it is taken over"


def test_what_a_run_rests_on_of_it_is_filed_with_what_shows_it(warehouse: Path) -> None:
    used, unused = record(warehouse, OLD), record(warehouse, AWAY)
    taken = take_over(used, "a" * 64, "echo-2")
    kept = keep(used, unused)
    kept.checks["k"] = "check"
    with open_warehouse(warehouse) as db:
        insert_records(db, [taken])
        db.execute(
            "INSERT INTO build_calls (build_id, stage, id, key, record_id) VALUES ('run', 's', 'r', 'k', ?)",
            [taken.record_id],
        )
        for _ in range(2):
            write_kept(db, "run", kept)
        filed = db.execute("SELECT record_id, why, checks FROM kept_calls").fetchall()
        assert filed == [(taken.record_id, "unchanged", ["check"])]
        assert db.execute("SELECT record_id FROM build_calls WHERE stage = 'since'").fetchall() == [("check",)]
        found = find_reply(db, OLD.key)
        assert found is not None
        assert found.record_id == used.record_id
        assert find_reply(db, "none") is None
