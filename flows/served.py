"""The benchmarks' flows as deployments run them: `factmill.flows.served.granola`, or whichever benchmark there is.

Such a flow is the recipe's, with what the command does beside: a build that is there already, or that another run is
making, is left alone, and an error that has a name is the run's last message, in one line. The process of such a run
does nothing else, so it may be ended.
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
"""A runner that stops a run looks after three seconds whether its process is gone."""
SERVING_PID = "FACTMILL_SERVING_PID"
"""Environment variable by which `factmill serve` tells its runs who it is."""
LEFT_ALONE = "LeftAlone"
"""Name of the state of a run that found another at its work."""
BOUND_REACHED = "BoundReached"
"""Name of the state of a run that stopped before it crossed a bound; the next one goes on."""


def make_served(benchmark: Benchmark) -> Flow[..., State[Any]]:
    """Return a benchmark's flow as deployments run it; it takes what the recipe takes."""
    recipe = load_flow(benchmark)

    @wraps(recipe.fn)
    def served(params: Params, run: RunOptions) -> State[Any]:
        def make() -> str:
            report = make_build(benchmark, params, run, recipe=recipe.fn)
            told = tell_build(report)
            if report.up_to_date:  # a run that had nothing to make has told nothing of it yet
                progress.log(told)
            else:
                leave_page(report)
            return told

        return end_in_state(make)

    flow: Flow[..., State[Any]] = recipe.with_options()
    flow.fn = served
    return flow


def __getattr__(name: str) -> Flow[..., State[Any]]:
    """Give a benchmark's flow by its name, which is how Prefect asks for it; none of the others is imported."""
    if name not in BENCHMARKS:
        raise AttributeError(name)
    return make_served(BENCHMARKS[name])


def end_in_state(make: Callable[[], str]) -> State[Any]:
    """Return the state that a run ends in: completed, with what `make` returns as message, or failed with the error's.

    Where the Prefect server has gone away, the run waits for it and makes what is left; what is made is told when there
    is a server to tell.
    """
    own_run()
    try:
        state = _end_in_state(make)
        while state is None:
            await_server()
            state = _end_in_state(make)
        await_server()
    except BaseException:  # a stop, which Prefect reports; to a server that is away it would try to for minutes
        if (url := find_standing()) and find_trouble(url):
            end_soon()
        raise
    return state


def _end_in_state(make: Callable[[], str]) -> State[Any] | None:
    """Return the state; None where the Prefect server has gone away."""
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
    """Return an error with its name."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def tell_build(report: BuildReport) -> str:
    """Return what a build came to, in a line."""
    if report.up_to_date:
        return f"{report.build_id} is there already, made of exactly these inputs: {report.rows} rows"
    return (
        f"{report.build_id}: {report.rows} rows, {report.rejects} rejects; calls: {report.calls_sent} sent, "
        f"{report.calls_replayed} replayed; "
        f"{report.format_cost()}"
    )


def carry_out() -> None:
    """Carry out the run that Prefect's environment names, in a process that from its beginning ends with the one that serves."""
    own_run()
    runpy.run_module("prefect.engine", run_name="__main__")


def own_run() -> None:
    """Let the process of a deployment's run be ended: by the one that started it, with that one, and soon when told so."""
    if not os.environ.get("PREFECT__FLOW_RUN_ID"):
        return
    settle_memory()
    # Ctrl-C, and a terminal's end, reach all processes of a terminal; the one that serves then stops its runs
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # what Prefect has running beside a flow prints tracebacks there when its server goes away; runs print nothing there
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    for name in ("asyncio", "APILogWorker", "EventsWorker"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    parent = os.environ.get(SERVING_PID)
    die_with_parent(int(parent) if parent else None)
    own_process(_end, STOP_GRACE_S)
    atexit.register(_leave_quickly)


def _leave_quickly() -> None:
    """Let the interpreter be taken down without looking through all objects, which takes it up to five seconds, and
    without what DuckDB's bindings then say of leaks."""
    gc.freeze()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _end(short: str) -> NoReturn:
    if short:
        sys.stderr.write(f"factmill: {short}\n")
        sys.stderr.flush()
    os._exit(1 if short else 128 + signal.SIGTERM)
