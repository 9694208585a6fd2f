"""Test recording and replay: a call is sent once and then served, and misses are explained."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.steps.echo import Echo, ask, bodies, calls, recorder

from factmill.tasks.core.calls.call import Call, CallResponse, ResponseHandler
from factmill.tasks.errors import ReplayMiss, ServiceUnreachable
from factmill.tasks.storage.recording.call_cache import LookupOfRecordsValidForRun
from factmill.tasks.storage.recording.call_records import insert_new_call_records, load_newest_record_id
from factmill.tasks.storage.recording.journal import CallRecord, make_record, read_journal
from factmill.tasks.storage.warehouse import open_warehouse


def test_call_is_sent_once_within_run_and_across_runs(tmp_path: Path) -> None:
    service = Echo()
    first = recorder(tmp_path)
    assert first.get_or_send(calls("a", "b", "a"), service).sent == 2
    again = first.get_or_send(calls("b", "c"), service)
    assert (again.sent, again.replayed) == (1, 1)
    first.close()
    later = ask(tmp_path, service, "a", "b", "c")
    assert (later.sent, later.replayed, service.asked) == (0, 3, ["a", "b", "c"])


def test_journal_of_killed_run_is_adopted_by_next_run(tmp_path: Path) -> None:
    service = Echo()
    first = recorder(tmp_path)
    first.get_or_send(calls("a", "b"), service)
    assert first._journal is not None
    os.close(first._journal._fd)  # the kernel does this when the process dies
    assert ask(tmp_path, service, "a", "b").replayed == 2
    assert service.asked == ["a", "b"]


def test_adopting_journal_twice_stores_records_once(tmp_path: Path) -> None:
    service = Echo()
    first = recorder(tmp_path)
    first.get_or_send(calls("a"), service)
    first.merge_journal()
    first.get_or_send(calls("b"), service)
    first.close()
    with open_warehouse(tmp_path / "w.duckdb") as db:
        assert db.execute("SELECT count(*), count(DISTINCT record_id) FROM calls").fetchone() == (2, 2)


def test_transient_failures_are_retried_by_next_run_and_permanent_ones_are_not(tmp_path: Path) -> None:
    service = Echo()
    first = recorder(tmp_path)
    statuses = [r.reply().status for r in first.get_or_send(calls("bad", "gone"), service).records.values()]
    first.get_or_send(calls("bad", "gone"), service)
    first.merge_journal()
    first.get_or_send(calls("bad"), service)
    first.close()
    assert statuses == ["failed", "failed"]
    assert service.asked == ["bad", "gone"]
    service.recovered = True
    assert [r.status for r in ask(tmp_path, service, "bad", "gone").records.values()].count("ok") == 1
    assert service.asked == ["bad", "gone", "bad"]


def test_failure_is_retried_even_if_nothing_was_recorded_after_it(tmp_path: Path) -> None:
    service = Echo()
    for status in ("failed", "ok"):
        assert [record.status for record in ask(tmp_path, service, "bad").records.values()] == [status]
        service.recovered = True
    assert service.asked == ["bad", "bad"]


def test_calls_marked_for_retry_are_sent_by_next_run_but_not_by_current_one(tmp_path: Path) -> None:
    service = Echo()
    first = recorder(tmp_path)
    result = first.get_or_send(calls("a", "b", "gone"), service)
    first.mark_for_retry({record.record_id for record in result.records.values() if record.key != calls("b")[0].key})
    assert first.get_or_send(calls("a", "b", "gone"), service).sent == 0
    first.close()
    assert ask(tmp_path, service, "a", "b", "gone").sent == 2
    assert service.asked == ["a", "b", "gone", "a", "gone"]


def test_replay_sends_no_request_and_returns_recorded_failures(tmp_path: Path) -> None:
    service = Echo()
    ask(tmp_path, service, "a", "bad")
    result = ask(tmp_path, service, "a", "bad", mode="replay")
    statuses = {record.parts: record.reply().status for record in result.records.values()}
    assert statuses == {'{"name":"a"}': "ok", '{"name":"bad"}': "failed"}
    assert len(service.asked) == 2


@pytest.mark.parametrize("last", [0, 1])
def test_replay_miss_names_recorded_call_with_smallest_difference(tmp_path: Path, last: int) -> None:
    kept = [Call("echo", "say", {"name": "a", "mood": "glad"}), Call("other", "say", {"name": "b", "mood": "glad"})]
    for each in (kept[1 - last], kept[last]):
        ask(tmp_path, Echo(), each)
    with pytest.raises(ReplayMiss, match=r"say of echo.*call differs in mood: 'sad' here, 'glad' recorded$"):
        ask(tmp_path, Echo(), Call("echo", "say", {"name": "a", "mood": "sad"}), mode="replay")


def test_replay_miss_without_any_record_says_to_build_first(tmp_path: Path) -> None:
    with pytest.raises(ReplayMiss, match=r"no call of this operation is recorded.*--mode record"):
        ask(tmp_path, Echo(), "a", mode="replay")


def test_refresh_sends_call_once_and_later_run_gets_newest_response(tmp_path: Path) -> None:
    service = Echo()
    ask(tmp_path, service, "a")
    fresh = recorder(tmp_path, "refresh", newer_than=load_newest_record_id(tmp_path / "w.duckdb"))
    assert fresh.get_or_send(calls("a"), service).sent == 1
    fresh.merge_journal()
    assert fresh.get_or_send(calls("a"), service).sent == 0
    fresh.close()
    assert service.asked == ["a", "a"]


def test_newest_of_several_records_of_call_is_returned(tmp_path: Path) -> None:
    service = Echo()
    for result in ("first", "second"):
        service.body_key = result
        ask(tmp_path, service, "a", mode="refresh", newer_than=load_newest_record_id(tmp_path / "w.duckdb"))
    for mode in ("record", "replay"):
        assert bodies(ask(tmp_path, service, "a", mode=mode)) == [{"second": "a"}]


def test_call_sent_and_stored_by_another_batch_meanwhile_is_not_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, shared = Echo(), recorder(tmp_path)
    look_up = shared._serving.find_records

    def look_up_too_early(_: LookupOfRecordsValidForRun, keys: Sequence[str]) -> dict[str, CallRecord]:
        monkeypatch.undo()
        found = look_up(keys)
        shared.get_or_send(calls("a"), service)
        shared.merge_journal()
        return found

    monkeypatch.setattr(LookupOfRecordsValidForRun, "find_records", look_up_too_early)
    answers = shared.get_or_send(calls("a"), service)
    shared.close()
    assert (bodies(answers), answers.sent, service.asked) == ([{"echo": "a"}], 0, ["a"])


def test_responses_arriving_while_others_are_stored_stay_in_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = recorder(tmp_path)
    shared.get_or_send(calls("a"), Echo())

    def store(db: duckdb.DuckDBPyConnection, records: Sequence[CallRecord]) -> None:
        insert_new_call_records(db, records)
        shared._record_reply(calls("b")[0], CallResponse({"echo": "b"}))

    monkeypatch.setattr("factmill.tasks.storage.recording.call_cache.insert_new_call_records", store)
    shared.merge_journal()
    monkeypatch.undo()
    assert shared._journal is not None
    assert "b" in [record.reply().body["echo"] for record in read_journal(shared._journal.path)]
    shared.close()
    assert bodies(ask(tmp_path, Echo(), "b", mode="replay")) == [{"echo": "b"}]


def test_already_stored_records_are_not_stored_again(tmp_path: Path) -> None:
    made = [make_record(call, CallResponse({"echo": "x"})) for call in calls("a", "b", "c", "d")]
    with open_warehouse(tmp_path / "w.duckdb") as db:
        insert_new_call_records(db, made[1:3])
        insert_new_call_records(db, made[::-1])
        assert db.execute("SELECT record_id FROM calls ORDER BY 1").fetchall() == [(each.record_id,) for each in made]


def side_by_side(times: int, do: Callable[[], Any]) -> list[Any]:
    """Run a function in several threads at once and return their results."""
    with ThreadPoolExecutor(times) as pool:
        return [each.result(10) for each in [pool.submit(do) for _ in range(times)]]


def test_two_batches_that_need_same_call_send_it_once(tmp_path: Path) -> None:
    service = Echo(delay_s=0.05)
    shared = recorder(tmp_path)
    results = side_by_side(4, lambda: bodies(shared.get_or_send(calls("a", "b"), service)))
    shared.close()
    assert sorted(service.asked) == ["a", "b"]
    assert len(results) == 4
    assert all(sorted(body["echo"] for body in found) == ["a", "b"] for found in results)


def test_batch_waiting_for_failed_call_gets_same_error(tmp_path: Path) -> None:
    class Away(Echo):
        begun, free = threading.Event(), threading.Event()

        def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
            self.begun.set()
            self.free.wait()
            raise ServiceUnreachable("echo is away")

    service, shared = Away(), recorder(tmp_path)
    errors: list[BaseException] = []

    def ask() -> None:
        try:
            shared.get_or_send(calls("a"), service)
        except ServiceUnreachable as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    threads[0].start()
    service.begun.wait()
    threads[1].start()
    threads[1].join(0.5)  # by now it waits for the first, or sends itself, with the same end
    service.free.set()
    for thread in threads:
        thread.join(10)
    shared.close()
    assert [str(error) for error in errors] == ["echo is away"] * 2


def test_long_responses_are_merged_into_warehouse_during_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factmill.tasks.storage.recording.call_cache._MAX_UNMERGED_CHARS", 0)
    service = Echo(delay_s=0.02)
    shared = recorder(tmp_path)
    results = side_by_side(6, lambda: bodies(shared.get_or_send(calls("a", "b", "c"), service)))
    assert (shared._fresh, shared._fresh_length) == ({}, 0)
    with open_warehouse(tmp_path / "w.duckdb") as db:
        assert db.execute("SELECT count(*), count(DISTINCT key) FROM calls").fetchall() == [(3, 3)]
    assert shared.get_or_send(calls("c", "a"), service).sent == 0
    shared.close()
    assert sorted(service.asked) == ["a", "b", "c"]
    assert [sorted(body["echo"] for body in found) for found in results] == [["a", "b", "c"]] * 6


def test_batch_continues_while_another_merges_responses_into_warehouse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("factmill.tasks.storage.recording.call_cache._MAX_UNMERGED_CHARS", 0)
    shared = recorder(tmp_path)
    with shared._moving:
        assert shared.get_or_send(calls("a"), Echo()).sent == 1
        assert len(shared._fresh) == 1
    shared.get_or_send(calls("b"), Echo())
    assert shared._fresh == {}
    shared.close()
    with open_warehouse(tmp_path / "w.duckdb") as db:
        assert db.execute("SELECT count(*), count(DISTINCT key) FROM calls").fetchall() == [(2, 2)]


def test_call_merged_between_lookup_and_request_is_not_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, service = recorder(tmp_path), Echo()
    ask = shared._send_missing

    def ask_late(*given: Any) -> None:
        monkeypatch.setattr(shared, "_send_missing", ask)
        shared.get_or_send(calls("a"), service)
        shared.merge_journal()
        ask(*given)

    monkeypatch.setattr(shared, "_send_missing", ask_late)
    monkeypatch.setattr(
        "factmill.tasks.storage.recording.call_cache._get_warehouse_file_state", lambda warehouse: None
    )  # as if within one clock tick
    assert bodies(shared.get_or_send(calls("a"), service)) == [{"echo": "a"}]
    shared.close()
    assert service.asked == ["a"]


def test_lookup_of_more_records_than_one_chunk_returns_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factmill.tasks.storage.recording.call_records._READ_CHUNK_SIZE", 3)
    names = [f"n{at}" for at in range(10)]
    service = Echo()
    ask(tmp_path, service, *names)
    found = bodies(ask(tmp_path, service, *names, mode="replay"))
    assert sorted(body["echo"] for body in found) == sorted(names)


def test_failing_service_keeps_responses_delivered_before_failure(tmp_path: Path) -> None:
    class Breaking(Echo):
        def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
            super().send(calls[:1], deliver)
            raise ConnectionError("cable cut")

    shared = recorder(tmp_path)
    with pytest.raises(ConnectionError):
        shared.get_or_send(calls("a", "b"), Breaking())
    service = Echo()
    assert shared.get_or_send(calls("a", "b"), service).sent == 1
    shared.close()
    assert service.asked == ["b"]
