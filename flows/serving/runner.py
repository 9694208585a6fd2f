"""The runner of `factmill serve`: makes deployments on a standing Prefect server and executes their runs.

Prefect's own runner stops polling after three failed requests in a row, and stops listening for cancellations after a
restart of the server. This one polls by itself for as long as it serves. It names runs before they start, prints a line
when a run starts and when it ends, and starts a run for a slot for which the server created none.

Runs are printed on standard output, notes on standard error. As JSON, both are objects on standard output, one a line,
with the keys `at` (UTC), `event` (note, started or ended) and `text`; for runs also `deployment`, `run`, `run_id` and
`slot` (null if the run was not scheduled), and at the end `state`, `seconds` and `message`.
"""

import asyncio
import json
import logging
import os
import re
import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

import typer
from prefect import Flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.runner import Runner
from prefect.runner._flow_run_executor import ProcessStarter
from prefect.runner._starter_engine import EngineCommandStarter
from prefect.schedules import Cron, Interval, RRule, Schedule
from prefect.states import Cancelled, Failed

from factmill.flows.deployment_flows import SERVING_PID_VARIABLE, format_error_with_class_name, make_deployed_flow
from factmill.flows.prefect_server import SERVER_POLL_INTERVAL_S, find_server_problem
from factmill.flows.rebuild import rebuild
from factmill.flows.serve_options import ServeOptions, validate_flow_parameters
from factmill.flows.serving.schedule_slots import (
    SERVER_SCHEDULE_ADAPTER,
    STOPPED_STATE_NAME,
    find_deployment,
    find_newest_slot,
    keep_interval_anchors,
    list_slot_runs,
    resume_runs_and_tell_if_scheduled,
    start_catch_up_run,
    start_one_run_and_cancel_missed_runs,
)
from factmill.flows.watching.flow_runs import (
    CATCH_UP_TAG,
    log_failure_and_annotate_stage_progress,
    make_flow_run_name,
    make_run_tags,
    mark_crashed_runs,
)
from factmill.tasks.engine.benchmark import Benchmark, load_named_object
from factmill.tasks.engine.naming.manifests import get_factmill_version
from factmill.tasks.errors import PrefectServerLost, UsageError
from factmill.tasks.options import BenchmarkParams
from factmill.tasks.text.durations import parse_validated_duration
from factmill.tasks.text.sanitize import escape_control_characters

_PERIOD_SAMPLE_TIMES = 5
"""Number of a schedule's next times from which its period is computed."""
FORM_TITLES = {"params": "What to make", "run": "How to make it"}
"""Argument of a flow → title of its section in the form."""


def make_deployments(options: ServeOptions, settings: dict[str, BenchmarkParams]) -> list[RunnerDeployment]:
    """Return one deployment for each chosen benchmark, and one for their rebuild, which has the schedule.

    `settings`: benchmark → its parameters, for those that differ from the defaults.
    """
    schedule = make_schedule(options)
    params, run = (
        options.make_rebuild_params(settings),
        options.make_run_options(find_shortest_schedule_period(schedule)),
    )
    world, chosen = PurePath(run.world).stem, params.list_chosen_benchmarks()
    summary = f"{', '.join(each.name for each in chosen)}, one after another; if one fails, the others continue."
    flows: list[tuple[Flow[..., Any], str, str, BenchmarkParams]] = [
        (
            make_deployed_flow(each),
            f"factmill.flows.deployment_flows.{each.name}",
            format_deployment_description(each),
            getattr(params, each.name),
        )
        for each in chosen
    ]
    deployments = []
    for flow, place, description, given in (*flows, (rebuild, "factmill.flows.rebuild.rebuild", summary, params)):
        made = flow.to_deployment(
            f"{place.rpartition('.')[2]}-{world}",
            description=description,
            parameters={"params": given.model_dump(mode="json"), "run": run.model_dump(mode="json")},
            schedule=schedule if flow is rebuild else None,
            tags=make_run_tags(flow.name, run),
            version=get_factmill_version(),
            enforce_parameter_schema=True,
        )
        deployment = cast(RunnerDeployment, made)
        for argument, title in FORM_TITLES.items():
            deployment._parameter_openapi_schema.properties[argument]["title"] = title
        deployment.entrypoint = place
        deployments.append(deployment)
    return deployments


def format_deployment_description(benchmark: Benchmark) -> str:
    """Return what the UI shows of a benchmark's deployment, as Markdown: its title, and what each stage does."""
    steps = load_named_object(benchmark.release).card.steps if benchmark.release else {}
    stages = "".join(f"\n{number}. `{name}`: {does}" for number, (name, does) in enumerate(steps.items(), start=1))
    return f"{benchmark.title}." + (f"\n\nIts stages:\n{stages}" if stages else "")


def make_schedule(options: ServeOptions) -> Schedule | None:
    """Return the schedule of rebuilds; None: only manual starts. UsageError for an invalid cron line or rule."""
    try:
        if options.cron:
            return Cron(options.cron, timezone=options.timezone)
        if options.rrule:
            return RRule(options.rrule, timezone=options.timezone)
        now = datetime.now(UTC).replace(microsecond=0)
        return (
            Interval(timedelta(seconds=parse_validated_duration(options.interval)), anchor_date=now)
            if options.interval
            else None
        )
    except ValueError as error:
        expected = '--cron "0 3 1 * *"' if options.cron else '--rrule "FREQ=MONTHLY;BYDAY=1MO"'
        raise UsageError(
            f"--{'cron' if options.cron else 'rrule'}: {error}; expected a line such as {expected}"
        ) from error


def find_shortest_schedule_period(schedule: Schedule | None) -> float | None:
    """Return the shortest time between a schedule's next times, in seconds; None if there are fewer than two."""
    if schedule is None:
        return None
    given = {"cron": schedule.cron, "rrule": schedule.rrule, "interval": schedule.interval}
    dated = SERVER_SCHEDULE_ADAPTER.validate_python(
        {name: value for name, value in given.items() if value}
        | ({"timezone": schedule.timezone} if schedule.timezone else {})
    )
    dates = asyncio.run(dated.get_dates(_PERIOD_SAMPLE_TIMES))
    return min(((later - sooner).total_seconds() for sooner, later in pairwise(dates)), default=None)


def serve_deployments_until_signal(
    deployments: Sequence[RunnerDeployment], runs: int, catch_up: bool, as_json: bool
) -> int:
    """Register deployments, report each, and execute their runs until a signal arrives; return the signal's exit code.

    Runs that ended with the previous serving process continue, and one run makes up for all missed slots (`catch_up`).
    At the end, active runs are stopped and schedules paused until they are served again. If the server goes away,
    serving waits for it; PrefectServerLost if it comes back without the deployments.
    """
    os.environ[SERVING_PID_VARIABLE] = str(os.getpid())
    log = ServeLogPrinter(as_json)
    runner = ServingRunner(os.environ["PREFECT_API_URL"], runs, catch_up, log)
    with get_client(sync_client=True) as client:
        earlier = {each.full_name: find_deployment(client, each.full_name) for each in deployments}
        now = datetime.now(UTC)
        for deployment in deployments:
            keep_interval_anchors(deployment, earlier[deployment.full_name], log.note)
            runner.register(deployment, now)
            log.note(f"{deployment.full_name}: {deployment.description}")
        if crashed := mark_crashed_runs():
            log.note(
                f"{len(crashed)} runs whose processes are gone are now marked as crashed; their finished work is saved"
            )
        for deployment in deployments:
            if known := earlier[deployment.full_name]:
                resumed = resume_runs_and_tell_if_scheduled(client, known, crashed, log.note)
                start_one_run_and_cancel_missed_runs(
                    client, known, now, resumed, catch_up and bool(deployment.schedules), log.note
                )
    log.note(f"serving at {runner.address}; stop with Ctrl-C")
    return asyncio.run(runner.serve())


_SCHEDULER_TAG = "auto-scheduled"
"""Prefect's tag on scheduled runs."""


class ServeLogPrinter:
    """Prints the log lines of one serving process."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def note(self, text: str) -> None:
        """Print a note about serving itself."""
        self._print("note", text)

    def report_start(self, deployment: str, run: FlowRun) -> None:
        """Print that the process of a run starts."""
        slot = _find_scheduled_run_time(run)
        due = f" (slot {slot:%Y-%m-%d %H:%M:%S})" if slot else ""
        self._print("started", f"{deployment} {run.name} started{due}", run, deployment=deployment)

    def report_end(self, deployment: str, run: FlowRun) -> None:
        """Print a run's final state and message; state `unknown` if the server does not have it yet."""
        state = run.state if run.state is not None and run.state.is_final() else None
        name = state.name if state and state.name else "unknown"
        message = " ".join(((state and state.message) or "").split())
        seconds = round(run.total_run_time.total_seconds(), 1)
        words = re.sub("(?<=[a-z])(?=[A-Z])", " ", name).lower()
        text = f"{deployment} {run.name} {words} after {seconds:.0f} s" + (message and f": {message}")
        self._print("ended", text, run, deployment=deployment, state=name, seconds=seconds, message=message)

    def _print(self, event: str, text: str, run: FlowRun | None = None, **more: Any) -> None:
        at = datetime.now(UTC)
        line = escape_control_characters(f"{at:%Y-%m-%d %H:%M:%SZ} {text}") if run else text
        if self._as_json:
            if run:
                slot = _find_scheduled_run_time(run)
                due = slot.isoformat(timespec="seconds") if slot else None
                more = {
                    "deployment": more.pop("deployment"),
                    "run": run.name,
                    "run_id": str(run.id),
                    "slot": due,
                } | more
            shown = {"at": at.isoformat(timespec="seconds"), "event": event, "text": text, **more}
            line = json.dumps(shown, ensure_ascii=False)
        with suppress(OSError):  # the reader of the output has ended, or the disk is full: runs go on
            typer.echo(line, err=run is None and not self._as_json)


def _find_scheduled_run_time(run: FlowRun) -> datetime | None:
    return run.expected_start_time if {_SCHEDULER_TAG, CATCH_UP_TAG} & {*run.tags} else None


_SHUTDOWN_TIMEOUT_S = 60.0
"""Time limit for an orderly stop of runs and schedules through the server."""
_SLOT_SETTLE_TIME = timedelta(seconds=10)
"""Time after a slot from which the server creates no run for it; also the interval between checks for missed slots."""
_MAX_END_POLLS = 60
"""Maximum polls for a run's final state, which is written after its process is gone."""
_MAX_UPCOMING_RUNS = 200
"""Maximum number of upcoming runs that one poll names."""
_STOPPED_RUN_MESSAGE = "factmill serve was stopped; the run continues when serve starts again"
_STOPPED_STATE: dict[str, Any] = {"name": STOPPED_STATE_NAME, "message": _STOPPED_RUN_MESSAGE}
"""State of a run that is stopped together with serve."""
_RUN_PROGRAM = "from factmill.flows.deployment_flows import execute_deployed_run; execute_deployed_run()"
"""Python code of a run's process."""


class ServingRunner(Runner):
    """Polls for runs that are due or cancelled, executes them, and reports when the server is away."""

    _stopped: "asyncio.Future[int]"

    def __init__(self, api: str, runs: int, catch_up: bool, log: ServeLogPrinter) -> None:
        # prefetch_seconds=0: a run starts at its slot, not before; one stopped earlier would count as begun
        super().__init__(name="factmill", query_seconds=SERVER_POLL_INTERVAL_S, prefetch_seconds=0, limit=runs)
        self._api, self._catch_up, self._log = api, catch_up, log
        self._served: dict[UUID, RunnerDeployment] = {}
        self._since: dict[UUID, datetime] = {}
        self._named: set[UUID] = set()
        self._started: set[UUID] = set()
        # users can do nothing about connections that end with the server
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        self.address = api.removesuffix("/api")

    def register(self, deployment: RunnerDeployment, since: datetime) -> None:
        """Create or update a deployment and serve it: each slot after `since` gets a run."""
        deployment_id = cast(UUID, self.add_deployment(deployment))
        self._served[deployment_id], self._since[deployment_id] = deployment, since

    async def serve(self) -> int:
        """Serve until a signal arrives; return the signal's number + 128."""
        loop = asyncio.get_running_loop()
        self._stopped = loop.create_future()
        for number in (signal.SIGINT, signal.SIGHUP):  # Prefect's runner itself handles SIGTERM
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                loop.add_signal_handler(number, self.handle_sigterm, number)
        serving = asyncio.create_task(self.start())
        ends: list[asyncio.Future[Any]] = [serving, self._stopped]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            await self._stop_serving(serving)
        await asyncio.wait([serving])
        if not serving.cancelled():
            serving.result()
        return 128 + await self._stopped

    def handle_sigterm(self, *args: Any, **_: Any) -> None:
        """Stop serving; on the second signal, exit at once."""
        if self._stopped.done():
            os._exit(128 + args[0])
        self._stopped.get_loop().call_soon_threadsafe(self._stopped.set_result, args[0])

    async def _stop_serving(self, serving: "asyncio.Task[None]") -> None:
        """Stop all runs and pause their schedules; if no server answers, runs end with this process."""
        if self._stopped.exception() is not None or await self._find_server_problem():
            self.pause_on_shutdown = False
            serving.cancel()
            return
        try:
            await asyncio.wait_for(self.astop(), _SHUTDOWN_TIMEOUT_S)
        except Exception:  # noqa: BLE001 - for any error, this process ends, and its runs with it
            self.pause_on_shutdown = False
            serving.cancel()

    async def __aenter__(self) -> "ServingRunner":
        await super().__aenter__()
        observer = self._cancelling_observer
        assert observer is not None
        # the observer's polling gives up too; its events are used for as long as they arrive
        if observer._consumer_task is not None:
            observer._consumer_task.remove_done_callback(observer._start_polling_task)
        if observer._polling_task is not None:
            observer._polling_task.remove_done_callback(observer._handle_polling_task_done)
            observer._polling_task.cancel()
        poller, proposer = self._scheduled_run_poller, self._state_proposer
        poller.run = self._poll_forever  # type: ignore[method-assign]
        poller._submit_run = partial(self._submit_and_report, poller._submit_run)  # type: ignore[method-assign]
        poller._get_scheduled_flow_runs = partial(self._get_named_due_runs, poller._get_scheduled_flow_runs)  # type: ignore[method-assign]
        poller._resolve_starter = self._resolve_starter
        proposer.propose_cancelled = partial(self._propose_cancelled, proposer.propose_cancelled)  # type: ignore[method-assign]
        return self

    def _resolve_starter(self, flow_run: FlowRun) -> ProcessStarter:
        """Report the start of an accepted run and return the starter of its process."""
        name = self._name_deployment(flow_run)
        self._started.add(flow_run.id)
        self._log.report_start(name, flow_run)
        return EngineCommandStarter(
            tmp_dir=self._tmp_dir,
            command=shlex.join([sys.executable, "-c", _RUN_PROGRAM]),
            deployment_name=name.partition("/")[2],
            control_channel=self._control_channel,
        )

    def _name_deployment(self, run: FlowRun) -> str:
        return self._served[run.deployment_id].full_name if run.deployment_id in self._served else "?"

    async def _submit_and_report(self, submit: Any, run: FlowRun, *given: Any) -> None:
        await submit(run, *given)
        if run.id not in self._started:
            return
        self._started.discard(run.id)
        for _ in range(_MAX_END_POLLS):
            try:
                run = await self._client.read_flow_run(run.id)
            except Exception as error:  # noqa: BLE001 - if the server is away, the next poll may reach it
                self._logger.debug("the end of %s is not known yet: %s", run.name, error)
            if run.state and run.state.is_final():
                break
            await asyncio.sleep(SERVER_POLL_INTERVAL_S / 4)
        self._log.report_end(self._name_deployment(run), run)

    async def _get_named_due_runs(self, find_due: Any) -> list[FlowRun]:
        """Return the due runs, and name them and the upcoming ones. A run with invalid parameters fails here with the
        reason: Prefect would crash its process without one."""
        due: dict[UUID, FlowRun] = {run.id: run for run in await find_due()}
        ahead = {"deployment_id": {"any_": [*self._served]}, "state": {"type": {"any_": [StateType.SCHEDULED]}}}
        upcoming = await self._client.read_flow_runs(
            flow_run_filter=FlowRunFilter.model_validate(ahead),
            sort=FlowRunSort.EXPECTED_START_TIME_ASC,
            limit=_MAX_UPCOMING_RUNS,
        )
        for run in (*due.values(), *upcoming):
            if run.id in self._named or run.deployment_id not in self._served:
                continue
            flow = str(self._served[run.deployment_id].flow_name)
            try:
                run.name = make_flow_run_name(flow, *validate_flow_parameters(flow, run.parameters), run)
            except UsageError as error:
                if due.pop(run.id, None):
                    await asyncio.to_thread(self._fail_run, run, error)
                continue
            await self._client.update_flow_run(run.id, name=run.name)
            self._named.add(run.id)
        return list(due.values())

    def _fail_run(self, run: FlowRun, error: UsageError) -> None:
        run.state = Failed(message=format_error_with_class_name(error))
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(run.id, run.state, force=True)
            log_failure_and_annotate_stage_progress(client, run.id, run.state)
        self._log.report_end(self._name_deployment(run), run)

    async def _propose_cancelled(self, propose: Any, run: FlowRun, state_updates: dict[str, Any] | None = None) -> bool:
        """Set a run that ends with serve, without being cancelled, to the stopped state; a run that finished while its
        process was ending keeps its state."""
        state = (await self._client.read_flow_run(run.id)).state
        if state and (state.is_completed() or state.is_failed()):
            return False
        is_stopped = self.stopping and not (run.state and run.state.is_cancelling())
        return bool(await propose(run, (state_updates or {}) | (_STOPPED_STATE if is_stopped else {})))

    async def cancel_all(self) -> None:
        """Stop all runs, once no process is starting: Prefect would wait for the end of such a run."""
        while self._scheduled_run_poller._submitting_flow_run_ids - {*self._process_manager.flow_run_ids()}:
            await asyncio.sleep(0.1)
        await super().cancel_all()

    async def _pause_schedules(self) -> None:
        """Stop waiting scheduled runs, which the server would delete, then pause the schedules."""
        for run in await self._client.get_scheduled_flow_runs_for_deployments([*self._served], datetime.now(UTC)):
            if run.auto_scheduled:
                await self._client.set_flow_run_state(run.id, Cancelled(**_STOPPED_STATE), force=True)
        await super()._pause_schedules()

    async def _poll_forever(self) -> None:
        """Poll for runs for ever; report once when the server stops answering, and once when it answers again."""
        lost = False
        while True:
            trouble = await self._find_server_problem() or await self._poll_once(lost)
            if trouble and not lost:
                self._log.note(
                    f"the Prefect server at {self.address} does not answer ({trouble}); serving continues when it "
                    "answers, and running builds keep their work"
                )
            elif lost and not trouble:
                self._log.note(f"the Prefect server at {self.address} answers again")
            lost = bool(trouble)
            await asyncio.sleep(SERVER_POLL_INTERVAL_S)

    async def _find_server_problem(self) -> str:
        return await asyncio.to_thread(find_server_problem, self._api)

    async def _poll_once(self, was_lost: bool) -> str:
        """Start due runs, stop cancelled ones and end killed ones; return the problem, or an empty text."""
        observer = self._cancelling_observer
        assert observer is not None
        try:
            if was_lost:
                await self._check_deployments()
            # what becomes of runs that start, are active or end is reported by their own starters
            poller = self._scheduled_run_poller
            if not (poller.stopping or poller._submitting_flow_run_ids or self._cancelling_flow_run_ids):
                await asyncio.to_thread(mark_crashed_runs)
            if observer._consumer_task is None or observer._consumer_task.done():
                await observer._check_for_cancelled_flow_runs()
            if self._catch_up:
                await asyncio.to_thread(self._start_catch_up_runs)
            await poller._get_and_submit_flow_runs()
        except Exception as error:  # noqa: BLE001 - any error is reported, and the next poll may succeed
            if isinstance(error, PrefectHTTPStatusError):
                return f"it answers {error.response.status_code}"
            return f"{type(error).__name__}: {error}".splitlines()[0]
        return ""

    def _start_catch_up_runs(self) -> None:
        """Start a run for the last slot without one: the server was away, or had just received the schedule."""
        until = datetime.now(UTC) - _SLOT_SETTLE_TIME
        for deployment_id, served in self._served.items():
            since = self._since[deployment_id]
            if until - since < _SLOT_SETTLE_TIME:
                continue
            if find_newest_slot(served.schedules or [], since, until):
                with get_client(sync_client=True) as client:
                    deployment = client.read_deployment(deployment_id)
                    # its schedules may have been paused or changed in the UI
                    slot = None if deployment.paused else find_newest_slot(deployment.schedules, since, until)
                    if (
                        slot
                        and not list_slot_runs(client, deployment, slot)
                        and start_catch_up_run(client, deployment, slot)
                    ):
                        self._log.note(
                            f"{served.full_name}: slot {slot:%Y-%m-%d %H:%M:%S} had no run; starting one for it now"
                        )
            self._since[deployment_id] = until

    async def _check_deployments(self) -> None:
        """Stop serving if the server has come back without the deployments."""
        for deployment_id in self._deployment_registry.get_deployment_ids():
            try:
                await self._client.read_deployment(deployment_id)
            except ObjectNotFound:
                if not self._stopped.done():
                    self._stopped.set_exception(
                        PrefectServerLost(
                            f"the Prefect server at {self.address} answers again, but lacks the deployments being "
                            "served (does it use another database?); start `factmill serve` again to create them"
                        )
                    )
                return

    async def _cancel_run(self, flow_run: FlowRun | UUID, state_msg: str | None = None) -> None:
        """Cancel a run; if the server goes away meanwhile, the next poll tries again."""
        try:
            await super()._cancel_run(flow_run, state_msg)
        except Exception:  # noqa: BLE001 - a run that cannot be cancelled now does not stop the others
            observer = self._cancelling_observer
            assert observer is not None
            observer._cancelling_flow_run_ids.discard(flow_run if isinstance(flow_run, UUID) else flow_run.id)
