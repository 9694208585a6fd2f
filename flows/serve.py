"""Scheduled rebuilds: serves the flows as Prefect deployments, `python -m flows.serve --cron "0 3 1 * *"`.

Needs a standing Prefect server (PREFECT_API_URL); runs are started by its schedule or from its UI, with the flow's
parameters, and are carried out by this process until it is stopped.
"""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from flows.benchmarks import BENCHMARKS
from flows.prefect_server import prefect_settings
from flows.running import load_flow
from tasks.engine.benchmark import Benchmark
from tasks.options import Params, RunOptions
from tasks.settings import environment, home

if TYPE_CHECKING:
    from prefect.deployments.runner import RunnerDeployment


def main() -> int:
    """Serve every flow that can be built."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.serve", description="Serve scheduled rebuilds of the benchmarks."
    )
    parser.add_argument(
        "--cron",
        help='schedule, e.g. "0 3 1 * *" for the first of each month at three; without it only runs from the UI',
    )
    parser.add_argument("--world", default="embedded", help="embedded, live or the path of a world's TOML file")
    parser.add_argument(
        "--benchmark",
        action="append",
        choices=list(BENCHMARKS),
        help="only this benchmark (repeatable); without it all of them",
    )
    options = parser.parse_args()
    if not environment("PREFECT_API_URL"):
        sys.stderr.write(
            "set PREFECT_API_URL to a standing Prefect server, e.g. http://127.0.0.1:4200/api "
            "(start one with `docker compose up -d` or `prefect server start`)\n"
        )
        return 2
    os.environ.update(prefect_settings(home()))
    from prefect import serve

    chosen = [BENCHMARKS[name] for name in options.benchmark or BENCHMARKS]
    serve(*(make_deployment(each, each.params(), RunOptions(world=options.world), options.cron) for each in chosen))
    return 0


def make_deployment(benchmark: Benchmark, params: Params, run: RunOptions, cron: str | None) -> "RunnerDeployment":
    """Return a benchmark's deployment; its parameters, also those that a run is started with, are held to their model."""
    parameters = {"params": params.model_dump(mode="json"), "run": run.model_dump(mode="json")}
    deployment: RunnerDeployment = load_flow(benchmark).to_deployment(
        name="rebuild", cron=cron, parameters=parameters, enforce_parameter_schema=True
    )
    return deployment


if __name__ == "__main__":
    sys.exit(main())
