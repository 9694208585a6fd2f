"""The benchmarks' flows for deployments: `factmill.flows.served.granola`, and likewise for every other benchmark.

Such a flow runs the recipe with the command's behaviour: it leaves alone a build that exists or that another run is
making, and a named error becomes the run's final message, in one line. The run's process does nothing else, so it may
be ended.
"""

import atexit
import gc
import logging
import os
import runpy
import signal
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn

from prefect import Flow
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from factmill.flows.benchmarks import BENCHMARKS
from factmill.flows.prefect_server import await_server, find_standing, find_trouble, telling_lost_server
from factmill.flows.running import load_flow, make_build
from factmill.flows.watching.artifacts import leave_page
from factmill.tasks import progress
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.errors import BudgetReached, BuildHeld, FactmillError, PrefectLost
from factmill.tasks.memory import settle_memory
from factmill.tasks.options import BuildReport, Params, RunOptions
from factmill.tasks.processes import die_with_parent, end_soon, own_process

STOP_GRACE_S = 2.0
"""Seconds within which a stopped run's process ends; the runner checks after three."""
SERVING_PID = "FACTMILL_SERVING_PID"
"""Environment variable in which `factmill serve` passes its process id to its runs."""
LEFT_ALONE = "LeftAlone"
"""State name of a run that found another run making the same build."""
BOUND_REACHED = "BoundReached"
"""State name of a run that stopped before it exceeded its budget; the next run continues."""


def make_served(benchmark: Benchmark) -> Flow[..., State[Any]]:
    """Return a benchmark's flow for deployments, with the recipe's parameters."""
    recipe = load_flow(benchmark)

    @wraps(recipe.fn)
    def served(params: Params, run: RunOptions) -> State[Any]:
        def make() -> str:
            report = make_build(benchmark, params, run, recipe=recipe.fn)
            told = tell_build(report)
            if report.up_to_date:  # a run with nothing to make has logged nothing yet
                progress.log(told)
            else:
                leave_page(report)
            return told

        return end_in_state(make)

    flow: Flow[..., State[Any]] = recipe.with_options()
    flow.fn = served
    return flow


def __getattr__(name: str) -> Flow[..., State[Any]]:
    """Return a benchmark's flow by name, as Prefect looks it up; the others are not imported."""
    if name not in BENCHMARKS:
        raise AttributeError(name)
    return make_served(BENCHMARKS[name])


def end_in_state(make: Callable[[], str]) -> State[Any]:
    """Run `make` and return the final state: completed with its result as message, or failed with the error's message.

    If the Prefect server goes away, the run waits for it and makes the rest; the state is returned once one answers.
    """
    own_run()
    try:
        state = _end_in_state(make)
        while state is None:
            await_server()
            state = _end_in_state(make)
        await_server()
    except BaseException:  # a stop, which Prefect reports; with the server away, it would retry for minutes
        if (url := find_standing()) and find_trouble(url):
            end_soon()
        raise
    return state


def _end_in_state(make: Callable[[], str]) -> State[Any] | None:
    """Return the final state; None if the Prefect server has gone away."""
    try:
        with telling_lost_server():
            return Completed(message=make())
    except BuildHeld as held:
        progress.log(str(held))
        return Completed(name=LEFT_ALONE, message=str(held))
    except PrefectLost:
        sys.stderr.write("factmill: the Prefect server does not answer; the run waits for it, and then goes on\n")
        return None
    except BudgetReached as reached:
        return Failed(name=BOUND_REACHED, message=str(reached))
    except FactmillError as error:
        return Failed(message=name_error(error))


def name_error(error: Exception) -> str:
    """Return an error's class name and message."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def tell_build(report: BuildReport) -> str:
    """Return a build's result in one line."""
    if report.up_to_date:
        return f"{report.build_id} is there already, made of exactly these inputs: {report.rows} rows"
    return (
        f"{report.build_id}: {report.rows} rows, {report.rejects} rejects; calls: {report.calls_sent} sent, "
        f"{report.calls_replayed} replayed; "
        f"{report.format_cost()}"
    )


def carry_out() -> None:
    """Execute the run that Prefect's environment names, in a process that ends with the serving process."""
    own_run()
    runpy.run_module("prefect.engine", run_name="__main__")


def own_run() -> None:
    """Configure the process of a deployment's run: it ends soon after a stop, and together with the serving process."""
    if not os.environ.get("PREFECT__FLOW_RUN_ID"):
        return
    settle_memory()
    # Ctrl-C and the closing of a terminal reach all its processes; the serving process then stops its runs
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Prefect's background threads print tracebacks to stdout when its server goes away; runs print nothing there
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    for name in ("asyncio", "APILogWorker", "EventsWorker"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    parent = os.environ.get(SERVING_PID)
    die_with_parent(int(parent) if parent else None)
    own_process(_end, STOP_GRACE_S)
    atexit.register(_leave_quickly)


def _leave_quickly() -> None:
    """Skip the garbage collection at interpreter shutdown, which takes up to five seconds, and silence the leak
    warnings of DuckDB's bindings."""
    gc.freeze()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _end(short: str) -> NoReturn:
    if short:
        sys.stderr.write(f"factmill: {short}\n")
        sys.stderr.flush()
    os._exit(1 if short else 128 + signal.SIGTERM)
