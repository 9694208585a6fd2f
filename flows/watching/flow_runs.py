"""Tracks flow runs in Prefect: their names, log, progress and final states, also of runs whose process was killed.

tasks/storage/housekeeping/reclaimed_space.py explains how killed runs are recognised. Log lines cost nothing, since Prefect sends
them in bundles in the background. A request to its server takes about 20 ms, so only a long stage shows its progress,
and only on a standing server. The final state is set by the run itself, by the process that serves and cancels it, or
by a later run that finds its process gone.
"""

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path, PurePath
from typing import Any
from uuid import UUID

from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterType,
    FlowRunFilter,
    TaskRunFilter,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.sorting import TaskRunSort
from prefect.context import FlowRunContext
from prefect.exceptions import ObjectNotFound
from prefect.flows import FlowStateHook
from prefect.logging.loggers import PrefectLogAdapter, flow_run_logger
from prefect.states import Cancelled, Crashed

from factmill.flows.prefect_server import find_standing_server_url
from factmill.flows.watching.artifacts import create_funnel_and_reject_artifacts, write_page_and_create_artifacts
from factmill.tasks import progress
from factmill.tasks.errors import NoRowsPublished
from factmill.tasks.options import BenchmarkParams, BuildReport, RunOptions
from factmill.tasks.processes import exclusive_file_lock
from factmill.tasks.progress import LogLevel, StageProgress, print_and_log
from factmill.tasks.settings import factmill_home
from factmill.tasks.storage.housekeeping.reclaimed_space import (
    OWN_SERVER,
    find_servers_by_crashed_run_marker,
    get_prefect_run_marker_folder,
)

UNFINISHED_STATE_TYPES = (StateType.RUNNING, StateType.CANCELLING, StateType.PENDING, StateType.PAUSED)
_CRASHED_RUN_MESSAGE = (
    "The process of this run was gone when somebody next looked: killed, out of memory, or the machine went down. What was "
    "done is kept: the same run again goes on from it."
)
_MAX_TASK_RUNS = 200
_run_lock_descriptors: dict[UUID, int] = {}


def acquire_flow_run_lock(run_id: UUID) -> None:
    """Acquire the lock of a run for this process, until `release_flow_run_lock` or the end of the process."""
    if run_id in _run_lock_descriptors:
        return
    path = get_prefect_run_marker_folder(factmill_home()) / str(run_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.write(fd, _get_server_name_for_run_locks().encode())
    _run_lock_descriptors[run_id] = fd


def release_flow_run_lock(run_id: UUID) -> None:
    """Release the lock of a finished run; no effect if this process does not hold it."""
    fd = _run_lock_descriptors.pop(run_id, None)
    if fd is not None:
        (get_prefect_run_marker_folder(factmill_home()) / str(run_id)).unlink(missing_ok=True)
        os.close(fd)


def drop_flow_run_locks_keeping_markers() -> None:
    """Abandon the locks of runs after our own server has exited, as if this process were gone: the next run ends
    those runs."""
    while _run_lock_descriptors:
        run_id, fd = _run_lock_descriptors.popitem()
        os.close(fd)
        progress.remove_run_observer(run_id)


def mark_crashed_runs() -> list[UUID]:
    """Mark runs of this home and server as crashed if their process is gone; return their ids."""
    if not _list_crashed_run_marker_files():
        return []
    # two runs that start at once would both end the same runs, and an automation would act twice
    with exclusive_file_lock(
        get_prefect_run_marker_folder(factmill_home()).with_name("ending-runs.lock"), print_and_log
    ):
        gone = _list_crashed_run_marker_files()
        with get_client(sync_client=True) as client:
            crashed = [run_id for path in gone if _mark_run_crashed_or_cancelled(client, run_id := UUID(path.name))]
        for path in gone:
            path.unlink(missing_ok=True)
    return crashed


def end_child_and_task_runs(run_id: UUID, state: State[Any]) -> None:
    """Set the unfinished tasks and child runs of a run whose process is gone to its final state."""
    with get_client(sync_client=True) as client:
        _end_task_runs(client, run_id, state)
        below = {"parent_flow_run_id": {"any_": [run_id]}, "state": {"type": {"any_": UNFINISHED_STATE_TYPES}}}
        for run in client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(below)):
            _end_flow_and_task_runs(client, run.id, state)


def _mark_run_crashed_or_cancelled(client: SyncPrefectClient, run_id: UUID) -> bool:
    """Mark a run and its task runs as crashed, or as cancelled if it was being cancelled; return False if it is
    finished or unknown."""
    try:
        run = client.read_flow_run(run_id)
    except ObjectNotFound:
        return False
    if run.state_type not in UNFINISHED_STATE_TYPES:
        return False
    state: State[Any] = Cancelled() if run.state_type == StateType.CANCELLING else Crashed(message=_CRASHED_RUN_MESSAGE)
    _end_flow_and_task_runs(client, run_id, state)
    return True


def _end_flow_and_task_runs(client: SyncPrefectClient, run_id: UUID, state: State[Any]) -> None:
    client.set_flow_run_state(run_id, state, force=True)
    log_failure_and_annotate_stage_progress(client, run_id, state)
    _end_task_runs(client, run_id, state)


def _end_task_runs(client: SyncPrefectClient, run_id: UUID, state: State[Any]) -> None:
    for task in client.read_task_runs(
        flow_run_filter=FlowRunFilter.model_validate({"id": {"any_": [run_id]}}),
        task_run_filter=TaskRunFilter.model_validate({"state": {"type": {"any_": UNFINISHED_STATE_TYPES}}}),
        sort=TaskRunSort.ID_DESC,
        limit=_MAX_TASK_RUNS,
    ):
        client.set_task_run_state(task.id, state, force=True)


def _list_crashed_run_marker_files() -> list[Path]:
    return [
        path
        for path, server in find_servers_by_crashed_run_marker(factmill_home()).items()
        if server == _get_server_name_for_run_locks()
    ]


def _get_server_name_for_run_locks() -> str:
    """Return the server's name in run lock files, since each server knows only its own runs."""
    return find_standing_server_url() or OWN_SERVER


REBUILD_PART_PREFIX = "rebuild › "
"""Prefix of the names of a rebuild's child runs; data/automations ignores their failures: the rebuild's own lists
them."""
REBUILD_FLOW = "rebuild"
"""Name of the flow that makes several benchmarks, each as a run below it."""
CATCH_UP_TAG = "catch-up"
"""Tag of a run that makes up for a missed slot, which its name states."""
_MAX_LISTED_VALUES = 4
"""Maximum number of relations, files or categories in a run's name."""
_MAX_RUN_NAME_CHARACTERS = 120


def track_flow_runs(flow: Flow[..., Any]) -> Flow[..., Any]:
    """Return a flow whose runs are named, log what a terminal shows, and get a final state even if killed."""
    ends: list[FlowStateHook[..., Any]] = [_log_and_unlock_run_on_end]
    result = flow.with_options(
        flow_run_name=_make_current_run_name,
        on_running=[_lock_run_and_mark_crashed_on_start],
        on_completion=ends,
        on_failure=ends,
        on_crashed=ends,
        on_cancellation=ends,
    )
    result.fn = _with_tags_and_artifacts(flow.fn)
    return result


def _with_tags_and_artifacts(flow_function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a flow function so that its run has tags, and its build artifacts too if it publishes nothing; on a standing
    server, where somebody may look at it, also its page and pictures."""

    @wraps(flow_function)
    def made(*given: Any, **named: Any) -> Any:
        _add_tags_to_current_run()
        try:
            report = flow_function(*given, **named)
        except NoRowsPublished as error:
            if error.report is not None and error.report.stages:
                create_funnel_and_reject_artifacts(error.report)
            raise
        if isinstance(report, BuildReport) and find_standing_server_url():
            write_page_and_create_artifacts(report)
        return report

    return made


def make_run_tags(flow: str, run: RunOptions) -> list[str]:
    """Return a run's tags, by which runs are chosen in the UI: factmill, benchmark, world, and what else it is."""
    kinds = [kind for kind in ("evaluation", "mechanism") if flow.endswith(f"_{kind}")]
    benchmark = flow.removesuffix(f"_{kinds[0]}") if kinds else flow
    of_benchmark = [] if flow == REBUILD_FLOW else [f"benchmark:{benchmark}"]
    return ["factmill", *of_benchmark, f"world:{PurePath(run.world).stem}", *kinds]


def _add_tags_to_current_run() -> None:
    """Add the tags of the current flow run that it lacks: a deployment's run has them before it starts."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None or context.parameters is None:
        return
    there = context.flow_run.tags
    wanted = make_run_tags(context.flow.name, context.parameters["run"])  # type: ignore[union-attr]
    if missing := [tag for tag in wanted if tag not in there]:
        with get_client(sync_client=True) as client:
            client.update_flow_run(context.flow_run.id, tags=[*there, *missing])


def make_run_name(flow: str, params: BenchmarkParams, run: RunOptions) -> str:
    """Return a run's distinctive name: benchmark, world, graph, non-default parameters, limit, pilot, mode.

    `flow`: the flow's name.
    """
    result = params.model_dump(exclude_defaults=True)
    limit = result.pop("limit", None)
    if "model" in type(params).model_fields:
        result = {"model": params.model, **result}  # type: ignore[attr-defined]
    parts = [flow.replace("_", " "), PurePath(run.world).stem]
    parts += [f"graph {run.graph}"] if run.graph else []
    parts += [part for name, value in result.items() if (part := _format_run_parameter(name, value))]
    parts += [str(limit)] if limit else []
    parts += [f"pilot of {run.pilot}"] if run.pilot else []
    parts += [f"verify {run.pinned_build}"] if run.pinned_build else [run.mode] if run.mode != "record" else []
    name = " · ".join(parts)
    return name if len(name) <= _MAX_RUN_NAME_CHARACTERS else f"{name[: _MAX_RUN_NAME_CHARACTERS - 1]}…"


def _format_run_parameter(name: str, value: Any) -> str:
    if isinstance(value, tuple | list):
        shown = [PurePath(each).stem if name == "source" else str(each) for each in value[:_MAX_LISTED_VALUES]]
        return ",".join(shown) + (f" +{len(value) - _MAX_LISTED_VALUES}" if len(value) > _MAX_LISTED_VALUES else "")
    if isinstance(value, Mapping):
        return ""
    said = name.replace("_", " ")
    return str(value) if name in ("model", "build") else said if value is True else f"{said} {value}"


def make_flow_run_name(flow: str, params: BenchmarkParams, run: RunOptions, flow_run: FlowRun) -> str:
    """Return a run's name on the server, which also marks child runs of a rebuild and catch-up runs."""
    name = make_run_name(flow, params, run)
    if CATCH_UP_TAG in flow_run.tags:
        name += f" · catch-up of {flow_run.expected_start_time:%Y-%m-%d %H:%M}"
    return f"{REBUILD_PART_PREFIX}{name}" if flow_run.parent_task_run_id is not None else name


def _make_current_run_name() -> str:
    context = FlowRunContext.get()
    assert context is not None and context.parameters is not None and context.flow_run is not None
    return make_flow_run_name(
        context.flow.name,  # type: ignore[union-attr]
        context.parameters["params"],
        context.parameters["run"],
        context.flow_run,
    )


def _lock_run_and_mark_crashed_on_start(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:  # noqa: ARG001 - a hook of Prefect's
    progress.push_run_observer(PrefectLogAndProgressSender(flow, flow_run))
    acquire_flow_run_lock(flow_run.id)
    mark_crashed_runs()


def _log_and_unlock_run_on_end(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:  # noqa: ARG001 - likewise
    """Record a run's end: in its own process or, if that was stopped or is gone, in the process that started it."""
    if state.is_cancelling() or state.is_cancelled():
        end_child_and_task_runs(flow_run.id, Cancelled(message=state.message))
    elif state.is_crashed():
        end_child_and_task_runs(flow_run.id, Crashed(message=state.message))
    if find_standing_server_url() and not state.is_completed():
        with get_client(sync_client=True) as client:
            log_failure_and_annotate_stage_progress(client, flow_run.id, state)
    elif not state.is_completed():
        progress.log_to_current_run(format_unsuccessful_run_end(state), "error")
    progress.remove_run_observer(flow_run.id)
    release_flow_run_lock(flow_run.id)


PROGRESS_FIRST_AFTER_S, PROGRESS_EVERY_S = 1.0, 3.0
"""Seconds until a stage first shows progress, and between updates when there is news."""
LOG_LINE_AFTER_S, LOG_LINE_EVERY_S = 10.0, 120.0
"""The same for lines in the log, which otherwise lists finished stages."""
PROGRESS_ARTIFACT_TYPE = "progress"
"""Type of the artifacts that show a stage's progress in per cent."""
_WATCHER_JOIN_TIMEOUT_S = 5.0


class PrefectLogAndProgressSender:
    """Receives the events of a flow run and sends them to Prefect as log lines and progress."""

    def __init__(self, flow: Flow[..., Any], flow_run: FlowRun) -> None:
        self.run_id: UUID = flow_run.id
        self._flow_name = flow.name
        # Prefect's loggers are silenced and would print their lines: these go to the server only
        own = logging.getLogger("factmill")
        self._logger = PrefectLogAdapter(own, flow_run_logger(flow_run, flow).extra)
        own.setLevel(logging.INFO)
        own.propagate = False
        own.handlers = logging.getLogger("prefect.flow_runs").handlers
        # the flow reports a lost server once; bundles of log lines must not report it again
        logging.raiseExceptions = False
        # nor must events that Prefect could not send
        logging.getLogger("EventsWorker").setLevel(logging.ERROR)

    def tell(self, text: str, level: LogLevel) -> None:
        """Write a line into the run's log."""
        self._logger.log(logging.getLevelNamesMapping()[level.upper()], "%s", text)

    def close(self) -> None:
        """Flush the log, since our own server stops next."""
        for handler in self._logger.logger.handlers:
            handler.flush()

    @contextmanager
    def watch(self, bar: StageProgress) -> Iterator[None]:
        """Show a stage's progress while the context is open."""
        if not find_standing_server_url():
            yield
            return
        over = threading.Event()
        thread = threading.Thread(target=copy_context().run, args=(self._report_progress, bar, over), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
        thread.join(_WATCHER_JOIN_TIMEOUT_S)

    def _report_progress(self, bar: StageProgress, over: threading.Event) -> None:
        if over.wait(PROGRESS_FIRST_AFTER_S):
            return
        try:
            with get_client(sync_client=True) as client:
                artifact, shown, ended = None, "", False
                line_at = time.monotonic() + LOG_LINE_AFTER_S
                while True:
                    said = bar.format_status()
                    if said != shown:
                        artifact, shown = self._write_progress_artifact(client, artifact, bar, said), said
                    if ended:
                        return
                    if time.monotonic() >= line_at:
                        self.tell(f"under way: {said}", "info")
                        line_at += LOG_LINE_EVERY_S
                    ended = over.wait(PROGRESS_EVERY_S)
        except Exception:  # noqa: BLE001 - the build's own requests report a lost server
            return

    def _write_progress_artifact(
        self, client: SyncPrefectClient, artifact: UUID | None, bar: StageProgress, said: str
    ) -> UUID:
        percent = bar.percent_done()
        if artifact is None:
            key = f"{self._flow_name}-{bar.name}".replace("_", "-").lower()
            made = ArtifactCreate(
                key=key, type=PROGRESS_ARTIFACT_TYPE, data=percent, description=said, flow_run_id=self.run_id
            )
            return client.create_artifact(made).id
        client.update_artifact(artifact, ArtifactUpdate(data=percent, description=said))
        return artifact


_COMPLETE_PERCENT = 100.0
_PREFECT_ERROR_PREFIX = "Flow run encountered an exception: "


def format_unsuccessful_run_end(state: State[Any]) -> str:
    """Return the log line for a run that ended without success."""
    if state.is_cancelling() or state.is_cancelled():
        return "Cancelled: what was done is kept; the same run again goes on from it"
    return f"{state.name}: {(state.message or 'no reason is given').removeprefix(_PREFECT_ERROR_PREFIX)}"


def log_failure_and_annotate_stage_progress(client: SyncPrefectClient, run_id: UUID, state: State[Any]) -> None:
    """Write an unsuccessful end into a run's log, and a word of it behind the progress of unfinished stages."""
    line = format_unsuccessful_run_end(state)
    word = line.partition(":")[0].lower()
    level = logging.WARNING if word == "cancelled" else logging.ERROR
    result = {"name": "factmill", "level": level, "message": line, "timestamp": datetime.now(UTC).isoformat()}
    client.create_logs([{**result, "flow_run_id": str(run_id)}])
    of_run = ArtifactFilter(
        flow_run_id=ArtifactFilterFlowRunId(any_=[run_id]), type=ArtifactFilterType(any_=[PROGRESS_ARTIFACT_TYPE])
    )
    for each in client.read_artifacts(artifact_filter=of_run):
        if isinstance(each.data, int | float) and each.data < _COMPLETE_PERCENT:
            client.update_artifact(each.id, ArtifactUpdate(description=f"{each.description}; {word} here"))
