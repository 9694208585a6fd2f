"""Flow runs as people watch them in Prefect: their names, what is told of them as they go, and how killed ones end."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from prefect import Flow
from prefect.client.schemas.objects import FlowRun, State
from prefect.context import FlowRunContext
from prefect.flows import FlowStateHook
from prefect.states import Cancelled, Crashed

from flows.watching.gone import crash_gone_runs, end_below, hold_run, let_go
from flows.watching.telling import RunWatcher
from tasks import progress
from tasks.options import Params, RunOptions

_MOST_NAMED = 4
"""Relations, files or categories that a name lists."""
_MOST_CHARACTERS = 120


def watched(flow: Flow[..., Any]) -> Flow[..., Any]:
    """Return a flow whose runs have names, tell their log what a terminal is told, and are ended where they were killed."""
    ends: list[FlowStateHook[..., Any]] = [_end_run]
    return flow.with_options(
        flow_run_name=_name_run,
        on_running=[_begin_run],
        on_completion=ends,
        on_failure=ends,
        on_crashed=ends,
        on_cancellation=ends,
    )


def name_run(flow: str, params: Params, run: RunOptions) -> str:
    """Return what tells a run from others: benchmark, world, what of the source, parameters that are no defaults, limit.

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
    parts += [f"verify {run.pinned_build}"] if run.pinned_build else [run.mode] if run.mode != "record" else []
    name = " · ".join(parts)
    return name if len(name) <= _MOST_CHARACTERS else f"{name[: _MOST_CHARACTERS - 1]}…"


def _tell(name: str, value: Any) -> str:
    if isinstance(value, tuple | list):
        shown = [PurePath(each).stem if name == "source" else str(each) for each in value[:_MOST_NAMED]]
        return ",".join(shown) + (f" +{len(value) - _MOST_NAMED}" if len(value) > _MOST_NAMED else "")
    if isinstance(value, Mapping):
        return ""
    return str(value) if name in ("model", "build") else f"{name} {value}"


def _name_run() -> str:
    context = FlowRunContext.get()
    assert context is not None and context.parameters is not None
    return name_run(context.flow.name, context.parameters["params"], context.parameters["run"])  # type: ignore[union-attr]


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
    if state.type != "COMPLETED":
        told = (state.message or "no reason is given").removeprefix("Flow run encountered an exception: ")
        progress.log(f"{state.name}: {told}", "error")
    progress.remove_watcher(flow_run.id)
    let_go(flow_run.id)
