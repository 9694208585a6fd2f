"""Test recorded calls: how the warehouse stores bodies, which are too old to serve, and what a revalidation keeps."""

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.steps.echo import Echo, ask, bodies, calls, recorder
from support.steps.warehouses import empty_warehouse

from factmill.tasks.core.calls.call import Call, CallCacheMode, CallResponse
from factmill.tasks.storage.recording.call_cache import CallCache
from factmill.tasks.storage.recording.call_records import (
    MIN_PACKED_CHARS,
    REVALIDATION_FILE,
    BuildRevalidation,
    RevalidatedCall,
    compress_long_body,
    decompress_body,
    find_latest_success,
    find_revalidation,
    insert_new_call_records,
    load_newest_record_id,
    rekey_record,
    write_revalidated_calls,
)
from factmill.tasks.storage.recording.journal import CallRecord, make_record
from factmill.tasks.storage.warehouse import open_warehouse


@given(st.text(max_size=200), st.integers(1, 60))
def test_response_body_round_trips(text: str, times: int) -> None:
    body = json.dumps({"text": text * times}, ensure_ascii=False)
    assert decompress_body(compress_long_body(body)) == body


def test_long_bodies_are_compressed_and_short_ones_stay_plain() -> None:
    page = json.dumps({"text": "<p>Graz lies on the Mur.</p>" * 1000})
    assert len(compress_long_body(page)) < len(page) / 6
    short = json.dumps({"text": "x" * (MIN_PACKED_CHARS // 2)})
    assert compress_long_body(short) == short


def test_expired_response_is_requested_again_unless_immutable_or_in_replay(tmp_path: Path) -> None:
    service = Echo()
    text = Call("echo", "page_text", {"name": "t", "revid": 7})
    asked = [*calls("young", "old"), text]
    ask(tmp_path, service, *asked)
    with open_warehouse(tmp_path / "w.duckdb") as db:
        for name, days in (("young", 3), ("old", 5), ("t", 50)):
            db.execute("UPDATE calls SET asked_at = now() - to_days(?) WHERE parts LIKE ?", [days, f'%"{name}"%'])
    limit = {"echo": datetime.now(UTC) - timedelta(days=4)}
    assert recorder(tmp_path, "replay", oldest_allowed=limit).get_or_send(asked, service).sent == 0
    assert recorder(tmp_path, oldest_allowed={"another": limit["echo"]}).get_or_send(asked, service).sent == 0
    second = recorder(tmp_path, oldest_allowed=limit)
    assert (second.get_or_send(asked, service).sent, second.get_or_send(asked, service).sent) == (1, 0)
    second.close()
    assert service.asked == ["young", "old", "t", "old"]
    assert recorder(tmp_path, oldest_allowed=limit).get_or_send(asked, service).sent == 0


@pytest.mark.parametrize("kept", [False, True])
def test_expired_response_replaces_failure_when_stale_if_error_is_set(tmp_path: Path, kept: bool) -> None:
    service = Echo()
    service.recovered = True
    ask(tmp_path, service, "bad")
    service.recovered = False
    again = recorder(tmp_path, oldest_allowed={"echo": datetime.now(UTC)}, stale_if_error=kept)
    lines = [again.get_or_send(calls("bad"), service) for _ in range(2)]
    again.close()
    assert [bodies(each) for each in lines] == [[{"echo": "bad"} if kept else None]] * 2
    assert service.asked == ["bad", "bad"], "sent again once, also after a failure"


@pytest.mark.parametrize("mode", ["record", "refresh"])
def test_clock_set_back_loses_no_response(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: CallCacheMode) -> None:
    service = Echo()
    ask(tmp_path, service, "a")
    floor, begun = load_newest_record_id(tmp_path / "w.duckdb"), datetime.now(UTC)
    hour_ago = time.time_ns() - 3600 * 10**9
    run = recorder(tmp_path, mode, newer_than=floor, oldest_allowed={"echo": begun})
    monkeypatch.setattr(time, "time_ns", lambda: hour_ago)
    for sent in (3, 0):
        assert run.get_or_send(calls("a", "b", "bad"), service).sent == sent
        run.merge_journal()
    run.close()


NOW = datetime(2026, 3, 1, tzinfo=UTC)
OLD = Call("echo", "say", {"name": "old"})
AWAY = Call("echo", "say", {"name": "away"})


def keep(*records: CallRecord, **renamed: str) -> BuildRevalidation:
    calls = {
        each.key: RevalidatedCall(each.record_id, each.asked_at.isoformat(), "unchanged", ("check",))
        for each in records
    }
    return BuildRevalidation("toys-1", NOW.isoformat(), calls, renamed)


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return empty_warehouse(tmp_path / "w.duckdb")


def record(warehouse: Path, call: Call) -> CallRecord:
    made = replace(make_record(call, CallResponse({"said": "then"})), asked_at=datetime.now(UTC) - timedelta(days=40))
    with open_warehouse(warehouse) as db:
        insert_new_call_records(db, [made])
    return made


def test_revalidation_is_reloaded_only_by_run_that_wrote_it(tmp_path: Path, warehouse: Path) -> None:
    kept = keep(record(warehouse, OLD), now="then")
    kept.checks["k"] = "r"
    kept.write(tmp_path)
    assert find_revalidation(tmp_path, "toys-1", NOW.isoformat()) == kept
    assert find_revalidation(tmp_path, "toys-2", NOW.isoformat()) is None
    assert find_revalidation(tmp_path, "toys-1", (NOW + timedelta(seconds=1)).isoformat()) is None
    (tmp_path / REVALIDATION_FILE).write_bytes((tmp_path / REVALIDATION_FILE).read_bytes()[:-9])
    assert find_revalidation(tmp_path, "toys-1", NOW.isoformat()) is None, "torn"
    assert find_revalidation(tmp_path / "nowhere", "toys-1", NOW.isoformat()) is None


def test_revalidated_response_is_used_despite_its_age(warehouse: Path) -> None:
    old = record(warehouse, OLD)
    record(warehouse, AWAY)
    service, recorder = Echo(), CallCache(warehouse, "record", oldest_allowed={"echo": datetime.now(UTC)})
    recorder.use_revalidation(keep(old))
    answers = recorder.get_or_send([OLD, AWAY], service)
    assert (service.asked, answers.sent, answers.replayed) == (["away"], 1, 1)
    assert answers.records[OLD.key].record_id == old.record_id
    recorder.close()


def test_response_of_renamed_service_is_adopted(warehouse: Path) -> None:
    wired = Call("echo-1", "say", {"name": "old"}, {"messages": ["not recorded"]})
    old = record(warehouse, wired)
    record(warehouse, replace(AWAY, service="echo-1"))
    service, recorder = Echo(), CallCache(warehouse, "record")
    recorder.use_revalidation(keep(old, echo="echo-1"))
    now = replace(wired, service="echo")
    answers = recorder.get_or_send([now, AWAY], service)
    assert (service.asked, answers.sent, answers.replayed) == (["away"], 1, 1)
    taken = answers.records[now.key]
    assert (taken.body, taken.asked_at, taken.service) == (old.body, old.asked_at, "echo")
    recorder.close()
    later = CallCache(warehouse, "record")
    assert later.get_or_send([now], service).records[now.key] == taken
    later.close()
    again = rekey_record(taken, "f" * 64, "echo-2")
    assert again.record_id == f"{old.record_id}.ffffffff", "names the original reply, even after several reuses"


def test_revalidated_calls_of_build_are_stored_with_their_checks(warehouse: Path) -> None:
    used, unused = record(warehouse, OLD), record(warehouse, AWAY)
    taken = rekey_record(used, "a" * 64, "echo-2")
    kept = keep(used, unused)
    kept.checks["k"] = "check"
    with open_warehouse(warehouse) as db:
        insert_new_call_records(db, [taken])
        db.execute(
            "INSERT INTO build_calls (build_id, stage, id, key, record_id) VALUES ('run', 's', 'r', 'k', ?)",
            [taken.record_id],
        )
        for _ in range(2):
            write_revalidated_calls(db, "run", kept)
        filed = db.execute("SELECT record_id, why, checks FROM kept_calls").fetchall()
        assert filed == [(taken.record_id, "unchanged", ["check"])]
        assert db.execute("SELECT record_id FROM build_calls WHERE stage = 'since'").fetchall() == [("check",)]
        found = find_latest_success(db, OLD.key)
        assert found is not None
        assert found.record_id == used.record_id
        assert find_latest_success(db, "none") is None
