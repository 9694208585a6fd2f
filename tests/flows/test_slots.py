"""Test slots of schedules on a real Prefect server: anchors, catch-up, and runs that continue after a restart."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import PrefectHTTPStatusError
from prefect.runner._starter_engine import EngineCommandStarter
from prefect.runner._state_proposer import StateProposer
from prefect.schedules import Cron, Interval, RRule, Schedule
from prefect.settings import PREFECT_API_URL, temporary_settings
from support.processes.standing import Standing, standing_server
from support.webs.loopback import Loopback

from factmill.flows.serving.runner import ServeLogPrinter, ServingRunner
from factmill.flows.serving.schedule_slots import (
    find_deployment,
    find_newest_slot,
    keep_interval_anchors,
    resume_runs_and_tell_if_scheduled,
    start_one_run_and_cancel_missed_runs,
)

_HOUR = timedelta(hours=1)


@flow
def toy(letter: str) -> str:
    return letter


@pytest.fixture(scope="module")
def standing(session_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    with standing_server(tmp_path_factory.mktemp("slots"), session_home / "prefect" / "prefect.db") as server:
        yield server


@pytest.fixture
def client(standing: Standing) -> Iterator[SyncPrefectClient]:
    with temporary_settings({PREFECT_API_URL: standing.api}), get_client(sync_client=True) as client:
        yield client


def make_deployment(name: str, schedule: Schedule | None) -> RunnerDeployment:
    made = cast(RunnerDeployment, toy.to_deployment(name, schedule=schedule, parameters={"letter": "a"}))
    made.entrypoint = "nowhere.toy"
    return made


def make_runner(standing: Standing) -> ServingRunner:
    return ServingRunner(standing.api, runs=1, catch_up=True, log=ServeLogPrinter(as_json=False))


def deploy(client: SyncPrefectClient, name: str, schedule: Schedule | None, said: list[str]) -> DeploymentResponse:
    """Register a deployment as serve does at each start, and return the server's version of it."""
    made = make_deployment(name, schedule)
    keep_interval_anchors(made, find_deployment(client, f"toy/{name}"), said.append)
    client.read_deployment(cast(Any, made.apply()))
    return cast(DeploymentResponse, find_deployment(client, f"toy/{name}"))


def runs_of(standing: Standing, deployment: DeploymentResponse) -> list[Any]:
    return standing.runs(deployment_id={"any_": [str(deployment.id)]})


@pytest.mark.parametrize(
    ("schedule", "since", "until", "slot"),
    [
        (Cron("0 3 1 * *", timezone="Europe/Vienna"), "2026-01-15", "2026-07-15", "2026-07-01T01:00"),
        (Cron("0 3 1 * *"), "2026-07-01T03:00", "2026-07-31", None),
        (RRule("FREQ=DAILY;INTERVAL=2"), "2026-01-01", "2026-01-04", "2026-01-03T00:00"),
        (RRule("DTSTART:20260101T120000\nFREQ=DAILY;INTERVAL=2"), "2026-01-01", "2026-01-04", "2026-01-03T12:00"),
        (Interval(30, anchor_date=datetime(2020, 1, 1, tzinfo=UTC)), "2021-01-01", "2026-01-01T00:00:29", "2026-01-01"),
    ],
)
def test_newest_slot_of_schedule_is_found(schedule: Schedule, since: str, until: str, slot: str | None) -> None:
    made = cast(RunnerDeployment, toy.to_deployment("times", schedule=schedule))
    first, last = (datetime.fromisoformat(each).replace(tzinfo=UTC) for each in (since, until))
    found = find_newest_slot(made.schedules or [], first, last)
    assert found == (datetime.fromisoformat(slot).replace(tzinfo=UTC) if slot else None)


def test_interval_schedule_keeps_anchor_until_interval_changes(client: SyncPrefectClient) -> None:
    said: list[str] = []
    begun = datetime.now(UTC)
    first, later, other = (
        deploy(client, "anchored", Interval(interval, anchor_date=begun + number * timedelta(minutes=1)), said)
        for number, interval in enumerate((_HOUR, _HOUR, 2 * _HOUR))
    )
    anchors = [cast(Any, each.schedules[0].schedule).anchor_date for each in (first, later, other)]
    assert anchors == [begun, begun, begun + timedelta(minutes=2)]
    assert said == ["toy/anchored: the interval changed from 1h to 2h; its slots count from now"]


def poll(standing: Standing, client: SyncPrefectClient, deployment: DeploymentResponse) -> DeploymentResponse:
    """Poll for due runs as serve does; the server stores the time."""
    standing.ask("/deployments/get_scheduled_flow_runs", deployment_ids=[str(deployment.id)])
    return cast(
        DeploymentResponse, standing.wait(lambda: (read := client.read_deployment(deployment.id)).last_polled and read)
    )


@pytest.mark.parametrize("with_runs_of_the_server", [True, False])
def test_one_catch_up_run_replaces_every_missed_slot(
    standing: Standing, client: SyncPrefectClient, with_runs_of_the_server: bool
) -> None:
    said: list[str] = []
    anchor = datetime.now(UTC).replace(microsecond=0)
    name = f"missed-{with_runs_of_the_server}"
    known = poll(standing, client, deploy(client, name, Interval(_HOUR, anchor_date=anchor), said))
    if with_runs_of_the_server:
        standing.wait(lambda: len(runs_of(standing, known)) >= 3)
    else:
        client.pause_deployment(known.id)
        standing.wait(lambda: not runs_of(standing, known))
    now = anchor + 3.5 * _HOUR
    for _ in range(2):  # a second start checks again before the first poll
        start_one_run_and_cancel_missed_runs(client, known, now, resumed=False, catch_up=True, report=said.append)
    due = [each for each in runs_of(standing, known) if datetime.fromisoformat(each["expected_start_time"]) < now]
    left = [each for each in due if each["state_type"] == "SCHEDULED"]
    assert [datetime.fromisoformat(each["expected_start_time"]) for each in left] == [anchor + 3 * _HOUR]
    assert "catch-up" in left[0]["tags"]
    assert {each["state_name"] for each in due if each not in left} <= {"Skipped"}
    assert said[0].startswith(f"{name}: the slot {anchor + 3 * _HOUR:%Y-%m-%d %H:%M:%S} was missed")
    assert said[0].endswith("; starting one run for it now")


@pytest.mark.parametrize(
    ("resumed", "catch_up", "end"),
    [(True, True, "the resumed run replaces it"), (False, False, "it is skipped (--no-catch-up)")],
)
def test_skipped_missed_slots_are_reported(
    standing: Standing, client: SyncPrefectClient, resumed: bool, catch_up: bool, end: str
) -> None:
    said: list[str] = []
    known = poll(standing, client, deploy(client, f"left-{resumed}", Interval(_HOUR), said))
    standing.wait(lambda: len(runs_of(standing, known)) >= 3)
    start_one_run_and_cancel_missed_runs(client, known, datetime.now(UTC) + 2.5 * _HOUR, resumed, catch_up, said.append)
    assert said[0].endswith(end)
    states = sorted(each["state_name"] for each in runs_of(standing, known))
    assert states.count("Skipped") == 2


def test_first_serve_starts_no_catch_up_run(standing: Standing, client: SyncPrefectClient) -> None:
    said: list[str] = []
    known = deploy(client, "first", Cron("* * * * *"), said)
    start_one_run_and_cancel_missed_runs(
        client, known, datetime.now(UTC), resumed=False, catch_up=True, report=said.append
    )
    assert find_deployment(client, "toy/never") is None
    assert [each for each in runs_of(standing, known) if "catch-up" in each["tags"]] == []


def test_run_interrupted_with_serve_resumes_once(standing: Standing, client: SyncPrefectClient) -> None:
    said: list[str] = []
    known = deploy(client, "goes-on", None, said)

    def begin(letter: str) -> str:
        run = client.create_flow_run_from_deployment(known.id, parameters={"letter": letter}, name=f"run {letter}")
        standing.ask(f"/flow_runs/{run.id}/set_state", state={"type": "RUNNING"}, force=True)
        return str(run.id)

    def end(run: str, type_: str, name: str) -> None:
        standing.ask(f"/flow_runs/{run}/set_state", state={"type": type_, "name": name}, force=True)

    names = "abcdef"
    stopped, alone, killed, pending, user, done = map(begin, names)
    end(alone, "CRASHED", "Crashed")
    known = poll(standing, client, known)
    end(stopped, "CANCELLED", "Stopped")
    end(killed, "CRASHED", "Crashed")
    end(pending, "PENDING", "Pending")
    end(user, "CANCELLED", "Cancelled")
    end(done, "COMPLETED", "Completed")
    assert resume_runs_and_tell_if_scheduled(
        client, known, [], said.append
    )  # run a has the deployment's own parameters
    assert not resume_runs_and_tell_if_scheduled(client, known, [], said.append)
    again = [each for each in runs_of(standing, known) if each["state_type"] == "SCHEDULED"]
    assert sorted(each["parameters"]["letter"] for each in again) == ["a", "c", "d"]
    assert sorted(said) == [f"run {letter}: was interrupted with factmill serve; resuming it now" for letter in "acd"]
    assert all("goes-on" in each["tags"] for each in again)
    states = {
        each["name"]: each["state_name"] for each in runs_of(standing, known) if each["state_type"] != "SCHEDULED"
    }
    assert states == dict(
        zip(
            [f"run {letter}" for letter in names],
            ("Continued", "Crashed", "Continued", "Continued", "Cancelled", "Completed"),
            strict=True,
        )
    )


def test_run_crashing_serve_repeatedly_resumes_limited_times(standing: Standing, client: SyncPrefectClient) -> None:
    said: list[str] = []
    known = poll(standing, client, deploy(client, "poison", None, said))
    client.create_flow_run_from_deployment(known.id, name="poison")
    for _ in range(4):
        for each in runs_of(standing, known):
            if each["state_type"] == "SCHEDULED":
                standing.ask(f"/flow_runs/{each['id']}/set_state", state={"type": "CRASHED"}, force=True)
        resume_runs_and_tell_if_scheduled(client, known, [], said.append)
    assert said == [
        *["poison: was interrupted with factmill serve; resuming it now"] * 2,
        *["poison: was killed together with factmill serve 3 times, so it is not resumed; start it by hand"] * 2,
    ]


def test_interrupted_run_with_outdated_parameters_fails_by_name(standing: Standing, client: SyncPrefectClient) -> None:
    said: list[str] = []
    known = deploy(client, "outdated", None, said)
    result = {"name": "old", "deployment_id": str(known.id), "parameters": {"letter": 3}}
    standing.ask("/flow_runs/", flow_id=str(known.flow_id), state={"type": "CANCELLED", "name": "Stopped"}, **result)
    assert not resume_runs_and_tell_if_scheduled(client, known, [], said.append)
    (run,) = runs_of(standing, known)
    assert run["state_name"] == "Failed"
    assert "cannot be resumed" in said[0]
    assert "3 is not of type 'string'" in run["state"]["message"]


@pytest.mark.parametrize(
    ("was", "is_then"), [("RUNNING", "Stopped"), ("COMPLETED", "Completed"), ("CRASHED", "Stopped")]
)
def test_finished_run_stays_finished_when_serve_stops(
    standing: Standing, client: SyncPrefectClient, was: str, is_then: str
) -> None:
    known = deploy(client, "done", None, [])
    run = client.create_flow_run_from_deployment(known.id)
    standing.ask(f"/flow_runs/{run.id}/set_state", state={"type": was}, force=True)

    async def stop() -> None:
        runner = make_runner(standing)
        async with get_client() as runner._client:
            runner.stopping = True
            await runner._propose_cancelled(StateProposer(client=runner._client).propose_cancelled, run)

    asyncio.run(stop())
    assert standing.ask(f"/flow_runs/{run.id}")["state"]["name"] == is_then


def test_slot_without_server_run_is_caught_up_once_and_not_while_paused(
    standing: Standing, client: SyncPrefectClient, capsys: pytest.CaptureFixture[str]
) -> None:
    slot = datetime.now(UTC).replace(microsecond=0) - _HOUR / 2
    runner = make_runner(standing)
    runner.register(make_deployment("without", Interval(_HOUR, anchor_date=slot)), slot - timedelta(minutes=1))
    (deployment_id,) = runner._served
    known = client.read_deployment(deployment_id)

    def make_up_again() -> list[datetime]:
        runner._since[deployment_id] = slot - timedelta(minutes=1)
        runner._start_catch_up_runs()
        found = runs_of(standing, client.read_deployment(deployment_id))
        return [datetime.fromisoformat(each["expected_start_time"]) for each in found if not each["auto_scheduled"]]

    client.pause_deployment(known.id)
    assert make_up_again() == []
    client.resume_deployment(known.id)
    assert [make_up_again() for _ in range(2)] == [[slot], [slot]]
    assert capsys.readouterr().err.count("had no run; starting one for it now") == 1


def test_pending_run_resumes_after_serve_stop_despite_deletion_by_server(
    standing: Standing, client: SyncPrefectClient
) -> None:
    runner = make_runner(standing)
    runner.register(make_deployment("waits", Interval(_HOUR)), datetime.now(UTC))
    (deployment_id,) = runner._served
    known = client.read_deployment(deployment_id)
    run = standing.wait(lambda: runs_of(standing, known))[0]
    # it is due
    due = {"type": "SCHEDULED", "state_details": {"scheduled_time": run["created"]}}
    standing.ask(f"/flow_runs/{run['id']}/set_state", state=due, force=True)

    async def pause() -> None:
        async with get_client() as runner._client:
            await runner._pause_schedules()

    asyncio.run(pause())
    assert standing.ask(f"/flow_runs/{run['id']}")["state"]["name"] == "Stopped"
    said: list[str] = []
    assert resume_runs_and_tell_if_scheduled(client, known, [], said.append)
    assert said == [f"{run['name']}: was interrupted with factmill serve; resuming it now"]


def test_run_starting_while_serve_stops_is_stopped(standing: Standing, client: SyncPrefectClient) -> None:
    runner = make_runner(standing)
    runner.register(make_deployment("starting", None), datetime.now(UTC))
    run = client.create_flow_run_from_deployment(next(iter(runner._served)))

    class LateStarter:
        async def start(self, flow_run: FlowRun, task_status: Any) -> None:
            while not runner.stopping:
                await asyncio.sleep(0.01)
            starter = EngineCommandStarter(tmp_dir=runner._tmp_dir, command="sleep 600")
            await starter.start(flow_run, task_status=task_status)

    async def serve() -> None:
        async with asyncio.timeout(120), runner:
            poller = runner._scheduled_run_poller
            poller._resolve_starter = lambda _: LateStarter()
            await poller._submit_scheduled_flow_runs([run], runner._runs_task_group)
            await runner.astop()

    asyncio.run(serve())
    assert standing.ask(f"/flow_runs/{run.id}")["state"]["name"] == "Stopped"


def test_server_problem_fails_no_run_awaiting_resume(standing: Standing, client: SyncPrefectClient) -> None:
    said: list[str] = []
    known = deploy(client, "trouble", None, said)
    stopped = {"deployment_id": str(known.id), "state": {"type": "CANCELLED", "name": "Stopped"}}
    standing.ask("/flow_runs/", flow_id=str(known.flow_id), **stopped)
    answers = {"filter": {"json": runs_of(standing, known)}, "create_flow_run": {"status": 500, "json": {}}}
    with closing(Loopback()) as web, temporary_settings({PREFECT_API_URL: f"{web.url}/api"}):
        web.handle = lambda seen: answers.get(seen.path.rpartition("/")[2], {"status": 404, "json": {}})
        with get_client(sync_client=True) as troubled, pytest.raises(PrefectHTTPStatusError):
            resume_runs_and_tell_if_scheduled(troubled, known, [], said.append)
        assert web.seen[-1].path.endswith("/create_flow_run")
    assert said == []
