"""Create the automations of data/automations on a standing server as in the README, and trigger each once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings
from support.processes.automations import make_automations
from support.processes.standing import Standing, standing_server
from support.webs.loopback import Loopback

from factmill.flows.prefect_server import send_prefect_event
from factmill.flows.watching.flow_runs import REBUILD_PART_PREFIX, mark_crashed_runs
from factmill.tasks import progress


@pytest.fixture
def standing(session_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Standing]:
    with standing_server(tmp_path, session_home / "prefect" / "prefect.db") as server:
        monkeypatch.setenv("PREFECT_API_URL", server.api)
        monkeypatch.setenv("FACTMILL_HOME", str(tmp_path))
        with temporary_settings({PREFECT_API_URL: server.api}):
            yield server


@pytest.fixture
def alarm() -> Iterator[Loopback]:
    web = Loopback()
    web.script({"json": {}})
    yield web
    web.close()


def test_each_automation_calls_its_webhook_once(standing: Standing, alarm: Loopback, tmp_path: Path) -> None:
    made = make_automations(tmp_path, alarm.url)
    assert len(standing.ask("/automations/filter", sort="NAME_ASC")) == made == 3
    flow = standing.ask("/flows/", name="granola")["id"]

    def begin(name: str) -> str:
        run = standing.ask("/flow_runs/", flow_id=flow, name=name, state={"type": "RUNNING"})
        return str(run["id"])

    part = begin(f"{REBUILD_PART_PREFIX}granola · fails")
    standing.ask(
        f"/flow_runs/{part}/set_state", state={"type": "FAILED", "name": "Failed", "message": "its rebuild tells"}
    )
    failing, gone = begin("granola · fails"), begin('granola · "killed"')
    why = 'UsageError: a source with "quotes" in its name'
    standing.ask(f"/flow_runs/{failing}/set_state", state={"type": "FAILED", "name": "Failed", "message": why})
    folder = tmp_path / "prefect" / "runs"
    folder.mkdir(parents=True)
    (folder / gone).write_text(standing.api, "utf-8")
    assert [str(each) for each in mark_crashed_runs()] == [gone]
    send_prefect_event("drift.found", "build", "fanoutqa-1", {"share_lost": 0.25, "epoch": "2026-01-01"})
    send_prefect_event("release.finished", "release", "granola 1.0", {"builds": ["granola-1"]})

    standing.wait(lambda: len(alarm.seen) >= 4)
    assert len(alarm.seen) == 4
    crashed, failed, drift, release = sorted(
        (seen.json() for seen in alarm.seen), key=lambda expected: ("run" not in expected, *map(str, expected.values()))
    )
    assert failed == {"run": "granola · fails", "state": "Failed", "why": why}
    assert (crashed["run"], crashed["state"]) == ('granola · "killed"', "Crashed")
    assert drift == {"build": "fanoutqa-1", "drift": {"share_lost": 0.25, "epoch": "2026-01-01"}}
    assert release == {"release": "granola 1.0", "about": {"builds": ["granola-1"]}}


def test_undelivered_event_prints_note(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    progress.set_progress_style("lines")
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    send_prefect_event("release.finished", "release", "granola 1.0", {})
    assert (
        "note: factmill.release.finished could not be sent to the Prefect server at http://127.0.0.1:9: "
        in capfd.readouterr().err
    )
