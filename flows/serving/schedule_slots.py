"""Slots of schedules, the times at which rebuilds are due: each runs once, however often `factmill serve` is restarted.

An interval keeps the anchor from its first serving, which the Prefect server stores with the deployment. Cron lines and
iCalendar rules have fixed anchors (a rule without DTSTART: 2020-01-01T00:00). The server also stores when serve last
polled for runs; slots after that time were missed.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import IntervalSchedule
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.server.schemas.schedules import SCHEDULE_TYPES
from prefect.states import Cancelled, Failed, Scheduled
from pydantic import TypeAdapter

from factmill.flows.watching.flow_runs import CATCH_UP_TAG
from factmill.tasks.text.durations import format_duration_in_one_unit

STOPPED_STATE_NAME = "Stopped"
"""State name of a run that was stopped together with serve."""
_CONTINUED_STATE_NAME = "Continued"
"""State name of a run that ended with serve and is continued by another."""
_SKIPPED_STATE_NAME = "Skipped"
"""State name of a run whose slot was missed, if a later run makes up for it or none has to."""
_RESUMED_TAG = "goes-on"
"""Tag of a run that continues one that ended with serve."""
SERVER_SCHEDULE_ADAPTER = TypeAdapter[SCHEDULE_TYPES](SCHEDULE_TYPES)
"""Parses a schedule into the server's class, the only one that can list its times."""
_FIRST_SEARCH_WINDOW = timedelta(minutes=1)
_SEARCH_WINDOW_GROWTH = 4
"""Factor by which each search for a slot reaches farther back than the previous one."""
_MAX_KILLS = 3
"""Number of kills after which a run is not resumed, since it probably takes the machine down."""
_KILLS_LABEL = "factmill.kills"
"""Label of a run: how often the runs that it continues were killed together with serve."""


def find_deployment(client: SyncPrefectClient, full_name: str) -> DeploymentResponse | None:
    """Return a deployment from the server; None before it is first served."""
    try:
        return client.read_deployment_by_name(full_name)
    except ObjectNotFound:
        return None


def keep_interval_anchors(
    deployment: RunnerDeployment, earlier: DeploymentResponse | None, report: Callable[[str], None]
) -> None:
    """Copy the anchors of a deployment's intervals from the server; report an interval that changed."""
    known = [each.schedule for each in earlier.schedules] if earlier else []
    intervals = {each.interval: each for each in known if isinstance(each, IntervalSchedule)}
    for each in deployment.schedules or []:
        if not isinstance(each.schedule, IntervalSchedule) or not intervals:
            continue
        if same := intervals.get(each.schedule.interval):
            each.schedule.anchor_date = same.anchor_date
        else:
            was, now = (
                format_duration_in_one_unit(age.total_seconds()) for age in ([*intervals][-1], each.schedule.interval)
            )
            report(f"{deployment.full_name}: the interval changed from {was} to {now}; its slots count from now")


def find_newest_slot(schedules: Iterable[Any], since: datetime, until: datetime) -> datetime | None:
    """Return the last time of active schedules after `since` and up to `until`; None if there is none."""
    slots: list[datetime] = []
    for each in schedules:
        served, back, start = (
            SERVER_SCHEDULE_ADAPTER.validate_python(each.schedule.model_dump()),
            _FIRST_SEARCH_WINDOW,
            until,
        )
        dates: list[datetime] = []
        while each.active and not dates and start > since:
            start = max(since, until - back)
            dates = [date for date in served._get_dates_generator(start=start, end=until) if since < date <= until]
            back *= _SEARCH_WINDOW_GROWTH
        slots += dates
    return max(slots, default=None)


def list_slot_runs(client: SyncPrefectClient, deployment: DeploymentResponse, slot: datetime) -> list[FlowRun]:
    """Return the runs of a slot, in any state."""
    second = timedelta(seconds=1)
    return _list_deployment_runs(
        client, deployment, expected_start_time={"after_": slot - second, "before_": slot + second}
    )


def start_catch_up_run(client: SyncPrefectClient, deployment: DeploymentResponse, slot: datetime) -> FlowRun | None:
    """Start one run for a missed slot and return it; None if a run of the slot has started already.

    A run of the slot that still waits on the server is used as that run.
    """
    there = list_slot_runs(client, deployment, slot)
    if any(each.state_type != StateType.SCHEDULED for each in there):
        return None
    if there:
        client.update_flow_run(there[0].id, tags=[*there[0].tags, CATCH_UP_TAG])
        return there[0]
    return client.create_flow_run_from_deployment(
        deployment.id,
        state=Scheduled(scheduled_time=slot, message="Its slot was missed while factmill serve was not running"),
        tags=[CATCH_UP_TAG],
        idempotency_key=f"{CATCH_UP_TAG} {deployment.id} {slot.isoformat()}",
    )


def start_one_run_and_cancel_missed_runs(
    client: SyncPrefectClient,
    deployment: DeploymentResponse,
    now: datetime,
    resumed: bool,
    catch_up: bool,
    report: Callable[[str], None],
) -> None:
    """Start one run for all missed slots, and cancel every other run that waits for one of them.

    deployment: the server's state before it is served again. resumed: a run of this schedule continues, and makes up
    for the missed slots.
    """
    since = deployment.last_polled or deployment.created or now
    states = {"type": {"any_": [StateType.SCHEDULED]}}
    due = _list_deployment_runs(client, deployment, state=states, expected_start_time={"before_": now})
    waiting = [each for each in due if each.auto_scheduled]
    slots = [find_newest_slot(deployment.schedules, since, now), *(each.expected_start_time for each in waiting)]
    slot = max(filter(None, slots), default=None)
    if slot is None:
        return
    fell = f"{deployment.name}: the slot {slot:%Y-%m-%d %H:%M:%S} was missed while factmill serve was not running"
    made = None
    if resumed:
        report(f"{fell}; the resumed run replaces it")
    elif not catch_up:
        report(f"{fell}; it is skipped (--no-catch-up)")
    elif made := start_catch_up_run(client, deployment, slot):
        report(f"{fell}; starting one run for it now")
    why = "Its slot was missed while factmill serve was not running" + (
        "; a later run replaces it" if resumed or made else ""
    )
    for each in waiting:
        if made is None or each.id != made.id:
            client.set_flow_run_state(each.id, Cancelled(name=_SKIPPED_STATE_NAME, message=why), force=True)


def resume_runs_and_tell_if_scheduled(
    client: SyncPrefectClient, deployment: DeploymentResponse, crashed: Iterable[UUID], report: Callable[[str], None]
) -> bool:
    """Restart, with the same parameters, each run that was stopped or killed together with serve.

    deployment: the server's state before it is served again. crashed: runs just found without a process. Return True if
    one of them has the deployment's own parameters, like a scheduled run.
    """
    states = {"name": {"any_": [STOPPED_STATE_NAME, "Crashed", "Pending", "Submitting"]}}
    resumed = False
    for run in _list_deployment_runs(client, deployment, state=states):
        state = run.state
        assert state is not None
        killed = state.is_crashed() and (
            run.id in crashed or (deployment.last_polled is not None and state.timestamp > deployment.last_polled)
        )
        if not (killed or state.is_pending() or state.name == STOPPED_STATE_NAME):
            continue
        kills = int(run.labels.get(_KILLS_LABEL, 0)) + killed
        if killed and kills >= _MAX_KILLS:
            report(
                f"{run.name}: was killed together with factmill serve {kills} times, so it is not resumed; start it by hand"
            )
            continue
        try:
            again = client.create_flow_run_from_deployment(
                deployment.id,
                parameters=run.parameters,
                state=Scheduled(scheduled_time=run.expected_start_time, message=f"Continues {run.name} ({run.id})"),
                name=run.name,
                tags=[*run.tags, _RESUMED_TAG],
                labels={_KILLS_LABEL: kills},
                idempotency_key=f"{_RESUMED_TAG} {run.id}",
            )
        except PrefectHTTPStatusError as error:
            if error.response.is_server_error:
                raise
            # this version of factmill rejects the parameters
            why = f"was interrupted with factmill serve and cannot be resumed: {error.response.text}"
            client.set_flow_run_state(run.id, Failed(message=why), force=True)
            report(f"{run.name}: {why}")
            continue
        over: State[Any] = Cancelled(
            name=_CONTINUED_STATE_NAME, message=f"Interrupted with factmill serve; continues as {again.id}"
        )
        client.set_flow_run_state(run.id, over, force=True)
        report(f"{run.name}: was interrupted with factmill serve; resuming it now")
        resumed |= run.parameters == deployment.parameters
    return resumed


def _list_deployment_runs(client: SyncPrefectClient, deployment: DeploymentResponse, **chosen: Any) -> list[FlowRun]:
    """Return up to 200 runs of a deployment that match a filter."""
    chosen |= {"deployment_id": {"any_": [deployment.id]}}
    return client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(chosen), limit=200)
