"""`factmill serve`: the benchmarks and rebuilds as deployments of a standing Prefect server, and a process that runs them."""

import asyncio
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import PurePath
from typing import Any, cast

from prefect import Flow
from prefect.client.orchestration import get_client
from prefect.deployments.runner import RunnerDeployment
from prefect.schedules import Cron, Interval, RRule, Schedule

from flows.benchmarks import BENCHMARKS
from flows.commands.serving.runner import ServingRunner
from flows.commands.serving.serve_log import ServeLog
from flows.commands.serving.slots import (
    SERVER_SCHEDULE,
    find_deployment,
    handle_missed_slots,
    keep_anchors,
    resume_runs,
)
from flows.rebuild import rebuild
from flows.served import SERVING_PID, make_served
from flows.serving import ServeOptions
from flows.watching.gone import crash_gone_runs
from tasks.engine.naming.locks import package_version
from tasks.errors import UsageError
from tasks.options import Params, RunOptions
from tasks.text.ages import read_age

_TIMES = 5
"""Times of a schedule that are looked at for how far it lies apart."""
FORM_TITLES = {"params": "What to make", "run": "How to make it"}
"""Argument of a flow → what its part of the form is called."""


def make_deployments(options: ServeOptions, settings: dict[str, Params]) -> list[RunnerDeployment]:
    """Return the deployment of each chosen benchmark and that of their rebuild, which has the schedule.

    `settings`: benchmark → its parameters, where they are not its defaults.
    """
    schedule = make_schedule(options)
    params, run = options.rebuild_params(settings), options.run_options(find_period(schedule))
    world = PurePath(run.world).stem
    made = [
        _deploy(make_served(each), f"{each.name}-{world}", f"{each.title}.", getattr(params, each.name), run, each.name)
        for each in params.chosen()
    ]
    told = (
        f"{', '.join(each.name for each in params.chosen())}, one after another; one that fails leaves the others be."
    )
    return [*made, _deploy(rebuild, f"rebuild-{world}", told, params, run, "rebuild", schedule)]


def make_schedule(options: ServeOptions) -> Schedule | None:
    """Return when rebuilds are due; None: when somebody starts one. UsageError for what is no cron line or rule."""
    try:
        if options.cron:
            return Cron(options.cron, timezone=options.timezone)
        if options.rrule:
            return RRule(options.rrule, timezone=options.timezone)
        now = datetime.now(UTC).replace(microsecond=0)
        return Interval(timedelta(seconds=read_age(options.interval)), anchor_date=now) if options.interval else None
    except ValueError as error:
        raise UsageError(f"--{'cron' if options.cron else 'rrule'}: {error}") from error


def find_period(schedule: Schedule | None) -> float | None:
    """Return the least number of seconds between the next times of a schedule; None where there are not two."""
    if schedule is None:
        return None
    given = {"cron": schedule.cron, "rrule": schedule.rrule, "interval": schedule.interval}
    dated = SERVER_SCHEDULE.validate_python(
        {name: value for name, value in given.items() if value}
        | ({"timezone": schedule.timezone} if schedule.timezone else {})
    )
    dates = asyncio.run(dated.get_dates(_TIMES))
    return min(((later - sooner).total_seconds() for sooner, later in pairwise(dates)), default=None)


def _deploy(
    flow: Flow[..., Any],
    name: str,
    description: str,
    params: Params,
    run: RunOptions,
    attribute: str,
    schedule: Schedule | None = None,
) -> RunnerDeployment:
    made = flow.to_deployment(
        name,
        description=description,
        parameters={"params": params.model_dump(mode="json"), "run": run.model_dump(mode="json")},
        schedule=schedule,
        tags=["factmill"],
        version=package_version(),
        enforce_parameter_schema=True,
    )
    module = "flows.served" if attribute in BENCHMARKS else "flows.rebuild"
    deployment = cast(RunnerDeployment, made)
    for argument, title in FORM_TITLES.items():
        deployment._parameter_openapi_schema.properties[argument]["title"] = title
    deployment.entrypoint = f"{module}.{attribute}"
    return deployment


def serve_deployments(deployments: Sequence[RunnerDeployment], runs: int, catch_up: bool, as_json: bool) -> int:
    """Register deployments, report each, and carry out their runs until a signal comes; return the exit code that says which.

    What ended with serve when it served last goes on, and what schedules missed since then is made up for by one run
    (`catch_up`). At the end runs under way are stopped, and their schedules are paused until they are served again. A
    server that goes away is waited for; PrefectLost when it comes back without the deployments.
    """
    os.environ[SERVING_PID] = str(os.getpid())
    log = ServeLog(as_json)
    runner = ServingRunner(os.environ["PREFECT_API_URL"], runs, catch_up, log)
    with get_client(sync_client=True) as client:
        earlier = {each.full_name: find_deployment(client, each.full_name) for each in deployments}
        now = datetime.now(UTC)
        for deployment in deployments:
            keep_anchors(deployment, earlier[deployment.full_name], log.note)
            runner.register(deployment, now)
            log.note(f"{deployment.full_name}: {deployment.description}")
        if crashed := crash_gone_runs():
            log.note(f"ended as crashed, since their process is gone: {len(crashed)}; what they had done is kept")
        for deployment in deployments:
            if known := earlier[deployment.full_name]:
                resumed = resume_runs(client, known, crashed, log.note)
                handle_missed_slots(client, known, now, resumed, catch_up and bool(deployment.schedules), log.note)
    log.note(f"served at {runner.address}; end with Ctrl-C")
    return asyncio.run(runner.serve())
