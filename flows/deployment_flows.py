"""The benchmarks' flows for deployments: `factmill.flows.deployment_flows.granola`, and likewise for every other benchmark.

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
from factmill.flows.build_runner import load_tracked_flow, make_or_reuse_build
from factmill.flows.prefect_server import (
    find_server_problem,
    find_standing_server_url,
    raising_prefect_lost,
    wait_for_standing_server,
)
from factmill.tasks import progress
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.errors import BudgetExhausted, BuildAlreadyRunning, FactmillError, PrefectServerLost
from factmill.tasks.memory import configure_allocators_and_gc
from factmill.tasks.options import BenchmarkParams, BuildReport, RunOptions
from factmill.tasks.processes import request_process_exit, start_exit_request_thread, terminate_with_parent

STOP_GRACE_S = 2.0
"""Seconds within which a stopped run's process ends; the runner checks after three."""
SERVING_PID_VARIABLE = "FACTMILL_SERVING_PID"
"""Environment variable in which `factmill serve` passes its process id to its runs."""
LEFT_ALONE_STATE = "LeftAlone"
"""State name of a run that found another run making the same build."""
BUDGET_REACHED_STATE = "BoundReached"
"""State name of a run that stopped before it exceeded its budget; the next run continues."""


def make_deployed_flow(benchmark: Benchmark) -> Flow[..., State[Any]]:
    """Return a benchmark's flow for deployments, with the recipe's parameters."""
    recipe = load_tracked_flow(benchmark)

    @wraps(recipe.fn)
    def served(params: BenchmarkParams, run: RunOptions) -> State[Any]:
        def make() -> str:
            report = make_or_reuse_build(benchmark, params, run, recipe=recipe.fn)
            text = format_build_outcome(report)
            if report.up_to_date:  # a run with nothing to make has logged nothing yet
                progress.log_to_current_run(text)
            return text

        return run_and_return_final_state(make)

    flow: Flow[..., State[Any]] = recipe.with_options()
    flow.fn = served
    return flow


def __getattr__(name: str) -> Flow[..., State[Any]]:
    """Return a benchmark's flow by name, as Prefect looks it up; the others are not imported."""
    if name not in BENCHMARKS:
        raise AttributeError(name)
    return make_deployed_flow(BENCHMARKS[name])


def run_and_return_final_state(make: Callable[[], str]) -> State[Any]:
    """Run `make` and return the final state: completed with its result as message, or failed with the error's message.

    If the Prefect server goes away, the run waits for it and makes the rest; the state is returned once one answers.
    """
    configure_deployed_run_process_exit()
    try:
        while (state := _try_run_to_final_state(make)) is None:
            wait_for_standing_server()
        wait_for_standing_server()
    except BaseException:  # a stop, which Prefect reports; with the server away, it would retry for minutes
        if (url := find_standing_server_url()) and find_server_problem(url):
            request_process_exit()
        raise
    return state


def _try_run_to_final_state(make: Callable[[], str]) -> State[Any] | None:
    """Return the final state; None if the Prefect server has gone away."""
    try:
        with raising_prefect_lost():
            return Completed(message=make())
    except BuildAlreadyRunning as held:
        progress.log_to_current_run(str(held))
        return Completed(name=LEFT_ALONE_STATE, message=str(held))
    except PrefectServerLost:
        sys.stderr.write("factmill: the Prefect server does not answer; the run waits for it, and then goes on\n")
        return None
    except BudgetExhausted as reached:
        return Failed(name=BUDGET_REACHED_STATE, message=str(reached))
    except FactmillError as error:
        return Failed(message=format_error_with_class_name(error))


def format_error_with_class_name(error: Exception) -> str:
    """Return an error's class name and message."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def format_build_outcome(report: BuildReport) -> str:
    """Return a build's result in one line."""
    if report.up_to_date:
        return f"{report.build_id} is there already, made of exactly these inputs: {report.rows} rows"
    return (
        f"{report.build_id}: {report.rows} rows, {report.rejects} rejects; calls: {report.calls_sent} sent, "
        f"{report.calls_replayed} replayed; "
        f"{report.format_cost()}"
    )


def execute_deployed_run() -> None:
    """Execute the run that Prefect's environment names, in a process that ends with the serving process."""
    configure_deployed_run_process_exit()
    runpy.run_module("prefect.engine", run_name="__main__")


def configure_deployed_run_process_exit() -> None:
    """Configure the process of a deployment's run: it ends soon after a stop, and together with the serving process."""
    if not os.environ.get("PREFECT__FLOW_RUN_ID"):
        return
    configure_allocators_and_gc()
    # Ctrl-C and the closing of a terminal reach all its processes; the serving process then stops its runs
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Prefect's background threads print tracebacks to stdout when its server goes away; runs print nothing there
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    for name in ("asyncio", "APILogWorker", "EventsWorker"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    parent = os.environ.get(SERVING_PID_VARIABLE)
    terminate_with_parent(int(parent) if parent else None)
    start_exit_request_thread(_exit_run_process, STOP_GRACE_S)
    atexit.register(_skip_final_gc_and_silence_stderr)


def _skip_final_gc_and_silence_stderr() -> None:
    """Skip the garbage collection at interpreter shutdown, which takes up to five seconds, and silence the leak
    warnings of DuckDB's bindings."""
    gc.freeze()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _exit_run_process(shortage: str) -> NoReturn:
    if shortage:
        sys.stderr.write(f"factmill: {shortage}\n")
        sys.stderr.flush()
    os._exit(1 if shortage else 128 + signal.SIGTERM)
