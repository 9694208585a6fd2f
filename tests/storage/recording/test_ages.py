"""Replies that are too old are asked again; a clock that is set back loses none."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.steps.echo import Echo, bodies, calls, recorder

from tasks.core.calls.call import Call, Mode
from tasks.storage.recording.records import newest_record
from tasks.storage.warehouse import open_warehouse


def test_what_is_too_old_is_asked_again_unless_it_lasts_or_another_mode_serves_it(tmp_path: Path) -> None:
    service = Echo()
    text = Call("echo", "page_text", {"name": "t", "revid": 7})
    asked = [*calls("young", "old"), text]
    first = recorder(tmp_path)
    first.answer(asked, service)
    first.close()
    with open_warehouse(tmp_path / "w.duckdb") as db:
        for name, days in (("young", 3), ("old", 5), ("t", 50)):
            db.execute("UPDATE calls SET asked_at = now() - to_days(?) WHERE parts LIKE ?", [days, f'%"{name}"%'])
    limit = {"echo": datetime.now(UTC) - timedelta(days=4)}
    assert recorder(tmp_path, "replay", oldest=limit).answer(asked, service).sent == 0
    assert recorder(tmp_path, oldest={"another": limit["echo"]}).answer(asked, service).sent == 0
    second = recorder(tmp_path, oldest=limit)
    assert (second.answer(asked, service).sent, second.answer(asked, service).sent) == (1, 0)
    second.close()
    assert service.asked == ["young", "old", "t", "old"]
    assert recorder(tmp_path, oldest=limit).answer(asked, service).sent == 0


@pytest.mark.parametrize("kept", [False, True])
def test_a_reply_that_is_too_old_stands_in_for_a_failure_where_that_is_wanted(tmp_path: Path, kept: bool) -> None:
    service = Echo()
    service.recovered = True
    first = recorder(tmp_path)
    first.answer(calls("bad"), service)
    first.close()
    service.recovered = False
    again = recorder(tmp_path, oldest={"echo": datetime.now(UTC)}, stale_if_error=kept)
    told = [again.answer(calls("bad"), service) for _ in range(2)]
    again.close()
    assert [bodies(each) for each in told] == [[{"echo": "bad"} if kept else None]] * 2
    assert service.asked == ["bad", "bad"], "asked again once, the failure too"


@pytest.mark.parametrize("mode", ["record", "refresh"])
def test_a_clock_that_is_set_back_costs_no_reply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode) -> None:
    service = Echo()
    first = recorder(tmp_path)
    first.answer(calls("a"), service)
    first.close()
    floor, begun = newest_record(tmp_path / "w.duckdb"), datetime.now(UTC)
    hour_ago = time.time_ns() - 3600 * 10**9
    run = recorder(tmp_path, mode, floor=floor, oldest={"echo": begun})
    monkeypatch.setattr(time, "time_ns", lambda: hour_ago)
    for sent in (3, 0):
        assert run.answer(calls("a", "b", "bad"), service).sent == sent
        run.merge()
    run.close()
