"""Flow runs as people watch them in Prefect: their names, what is told of them as they go, and how killed ones end."""

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import PurePath
from typing import Any

from prefect import Flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.context import FlowRunContext
from prefect.flows import FlowStateHook
from prefect.states import Cancelled, Crashed

from flows.prefect_server import find_standing
from flows.watching.artifacts import leave_lost
from flows.watching.breaking_off import describe_end, tell_broken_off
from flows.watching.gone import crash_gone_runs, end_below, hold_run, let_go
from flows.watching.telling import RunWatcher
from tasks import progress
from tasks.errors import NothingPublished
from tasks.options import Params, RunOptions

OF_A_REBUILD = "rebuild › "
"""How the names of a rebuild's parts begin: data/automations leaves their failures to the rebuild's own, which names them."""
CATCH_UP = "catch-up"
"""Tag of a run that makes up for a slot that fell while nothing was served; its name says which."""
_MOST_NAMED = 4
"""Relations, files or categories that a name lists."""
_MOST_CHARACTERS = 120


def watched(flow: Flow[..., Any]) -> Flow[..., Any]:
    """Return a flow whose runs have names, tell their log what a terminal is told, and are ended where they were killed."""
    ends: list[FlowStateHook[..., Any]] = [_end_run]
    told = flow.with_options(
        flow_run_name=_name_run,
        on_running=[_begin_run],
        on_completion=ends,
        on_failure=ends,
        on_crashed=ends,
        on_cancellation=ends,
    )
    told.fn = _leaving_lost(flow.fn)
    return told


def _leaving_lost(make: Callable[..., Any]) -> Callable[..., Any]:
    """Let a build that publishes nothing leave what its stages did, as one that publishes does."""

    @wraps(make)
    def made(*given: Any, **named: Any) -> Any:
        try:
            return make(*given, **named)
        except NothingPublished as error:
            if error.report is not None:
                leave_lost(error.report)
            raise

    return made


def name_run(flow: str, params: Params, run: RunOptions) -> str:
    """Return what tells a run from others: benchmark, world, what of the source, parameters that are no defaults, limit,
    pilot.

    `flow`: the flow's name.
    """
    told = params.model_dump(exclude_defaults=True)
    limit = told.pop("limit", None)
    if "model" in type(params).model_fields:
        told = {"model": params.model, **told}  # type: ignore[attr-defined]
    parts = [flow.replace("_", " "), PurePath(run.world).stem]
    parts += [f"graph {run.graph}"] if run.graph else []
    parts += [part for name, value in told.items() if (part := _tell(name, value))]
    parts += [str(limit)] if limit else []
    parts += [f"pilot of {run.pilot}"] if run.pilot else []
    parts += [f"verify {run.pinned_build}"] if run.pinned_build else [run.mode] if run.mode != "record" else []
    name = " · ".join(parts)
    return name if len(name) <= _MOST_CHARACTERS else f"{name[: _MOST_CHARACTERS - 1]}…"


def _tell(name: str, value: Any) -> str:
    if isinstance(value, tuple | list):
        shown = [PurePath(each).stem if name == "source" else str(each) for each in value[:_MOST_NAMED]]
        return ",".join(shown) + (f" +{len(value) - _MOST_NAMED}" if len(value) > _MOST_NAMED else "")
    if isinstance(value, Mapping):
        return ""
    said = name.replace("_", " ")
    return str(value) if name in ("model", "build") else said if value is True else f"{said} {value}"


def name_flow_run(flow: str, params: Params, run: RunOptions, flow_run: FlowRun) -> str:
    """Return the name of a run as the server has it: of a rebuild's part, or of a run that makes up for a slot, too."""
    name = name_run(flow, params, run)
    if CATCH_UP in flow_run.tags:
        name += f" · catch-up of {flow_run.expected_start_time:%Y-%m-%d %H:%M}"
    return f"{OF_A_REBUILD}{name}" if flow_run.parent_task_run_id is not None else name


def _name_run() -> str:
    context = FlowRunContext.get()
    assert context is not None and context.parameters is not None and context.flow_run is not None
    return name_flow_run(
        context.flow.name,  # type: ignore[union-attr]
        context.parameters["params"],
        context.parameters["run"],
        context.flow_run,
    )


def _begin_run(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:  # noqa: ARG001 - a hook of Prefect's
    progress.add_watcher(RunWatcher(flow, flow_run))
    hold_run(flow_run.id)
    crash_gone_runs()


def _end_run(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:  # noqa: ARG001 - likewise
    """Take note of a run's end: in its process, or, where that was stopped or is gone, in the one that had started it."""
    if state.is_cancelling() or state.is_cancelled():
        end_below(flow_run.id, Cancelled(message=state.message))
    elif state.is_crashed():
        end_below(flow_run.id, Crashed(message=state.message))
    if find_standing() and not state.is_completed():
        with get_client(sync_client=True) as client:
            tell_broken_off(client, flow_run.id, state)
    elif not state.is_completed():
        progress.log(describe_end(state), "error")
    progress.remove_watcher(flow_run.id)
    let_go(flow_run.id)
