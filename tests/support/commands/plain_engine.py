"""Run recipes by plain calls and threads in place of Prefect: all of factmill's code runs, but no server records it.

Prefect and its server take a third of the computing time of a small build. Commands in the test process therefore run
this way, unless the test concerns Prefect's runs, logs, artifacts or stops. Separate processes always use Prefect.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, TypeVar

import pytest
from prefect import Flow, Task
from prefect.utilities.callables import get_call_parameters

from factmill.flows.watching import artifacts
from factmill.flows.watching.flow_runs import make_run_name
from factmill.tasks.core.batch_receipts import BatchReceipt
from factmill.tasks.core.measures.report_figures import ReportFigure
from factmill.tasks.engine import building
from factmill.tasks.engine.batches import find_batch_receipt

R = TypeVar("R")
_show_figure = artifacts.format_figure_markdown
_shown: dict[tuple[Any, ...], str] = {}
"""Shape of a figure → its drawing."""


class PlainRunner:
    """Imitates the parts of Prefect's ThreadPoolTaskRunner that `building` uses: threads, and finished batches."""

    def __class_getitem__(cls, _result: object) -> type["PlainRunner"]:
        return cls

    def __init__(self, max_workers: int) -> None:
        self._threads = ThreadPoolExecutor(max_workers)

    def __enter__(self) -> "PlainRunner":
        return self

    def __exit__(self, *_error: object) -> None:
        self._threads.shutdown(cancel_futures=True)

    def submit(self, step: Task[..., BatchReceipt], parameters: Mapping[str, Any]) -> Future[BatchReceipt]:
        """Run a step in a thread, or return its receipt where Prefect would find its result."""
        assert callable(step.task_run_name)
        assert step.task_run_name(parameters=parameters)  # type: ignore[call-arg] # Prefect passes the parameters
        return self._threads.submit(copy_context().run, _work, step, parameters)


@contextmanager
def without_prefect() -> Iterator[None]:
    """Run flows of this process and their steps without Prefect inside the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "ThreadPoolTaskRunner", PlainRunner)
        patch.setattr(artifacts, "create_table_artifact", _check_table)
        patch.setattr(artifacts, "create_markdown_artifact", _check_markdown)
        patch.setattr(artifacts, "format_figure_markdown", _show_once)
        patch.setattr(Flow, "__call__", _call)
        patch.setattr(os, "fsync", _leave_to_system)
        yield


def _call(flow: Flow[..., R], *given: Any, **named: Any) -> R:
    """Check a flow's parameters and name its run, as Prefect does, then run it."""
    params, run = flow.validate_parameters(get_call_parameters(flow.fn, given, named)).values()
    assert make_run_name(flow.name, params, run)
    make: Callable[..., R] = flow.fn
    return make(params, run)


def _work(step: Task[..., BatchReceipt], parameters: Mapping[str, Any]) -> BatchReceipt:
    found = None if step.refresh_cache else find_batch_receipt(parameters["batch"])
    return found or step.fn(**parameters)


def _show_once(figure: ReportFigure) -> str:
    """Draw a figure, unless a figure of the same shape was drawn: the same points, with the same ones missing."""
    shape = (
        *(figure.name, figure.kind, figure.y_range),
        *((each.label, each.x, *map(_find_missing, (each.y, each.low, each.high))) for each in figure.series),
    )
    if shape not in _shown:
        _shown[shape] = _show_figure(figure)
    return _shown[shape]


def _find_missing(values: Sequence[float | None]) -> tuple[bool, ...]:
    return tuple(value is None for value in values)


def _leave_to_system(_file: int) -> None:
    """Skip the wait for the disk: files here need to survive their process, never the machine."""


def _check_table(table: Sequence[Mapping[str, Any]], key: str, description: str) -> None:
    assert key == key.lower()
    assert description
    json.dumps(table)


def _check_markdown(markdown: str, key: str, description: str) -> None:
    assert key == key.lower()
    assert isinstance(markdown, str)  # empty if there is nothing to draw
    assert description
