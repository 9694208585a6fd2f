"""`factmill forecast NAME`: a command for each benchmark and each evaluation, with the options of its build."""

from dataclasses import make_dataclass
from typing import Annotated, Any

import typer

from flows.benchmarks import BENCHMARKS
from flows.cli.options import CONTEXT, AsJson, check_warehouse, list_options, print_json, read_options
from flows.evaluate.evaluations import EVALUATIONS
from tasks import progress
from tasks.engine.benchmark import Benchmark
from tasks.errors import UsageError
from tasks.options import BY_FILES, HIDDEN, RunOptions

Pilot = Annotated[
    int | None,
    typer.Option(
        "--pilot",
        min=1,
        metavar="N",
        help="Really ask for so many rows, drawn so that they stand for all, and go by what they asked. The build replays it.",
    ),
]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="BUILD", help="Go by what this build asked. Default: the newest of the benchmark."),
]
Rows = Annotated[
    int | None,
    typer.Option("--rows", min=1, help="Source rows that are to be read. Default: as many as that build read."),
]


def forecast(given: Any) -> None:
    """Say what a build will ask, cost and take, by the options that the build would be given."""
    from flows.commands.spending.forecast import format_forecast, make_forecast
    from flows.prefect_server import shared_server

    progress.show()
    if given.pilot is not None and (given.earlier or given.rows):
        raise UsageError(
            "--pilot asks rows of the build itself; --from and --rows are for a forecast by an earlier build"
        )
    run = read_options(RunOptions, given)
    if given.pilot is None:
        check_warehouse(run.warehouse)
    with shared_server():
        told = make_forecast(
            given.benchmark, read_options(given.benchmark.params, given), run, given.earlier, given.rows
        )
    print_json(told) if given.as_json else typer.echo("\n".join(format_forecast(told)))


forecast_app = typer.Typer(
    help="Forecast requests, tokens, money and hours of a build or an evaluation. Try: factmill forecast granola --pilot 20",
    no_args_is_help=True,
    result_callback=forecast,
)


def _add_command(benchmark: Benchmark) -> None:
    """Add a command whose callback is the record of its options, which `forecast` then gets."""
    own = list_options(benchmark.params)
    shared = [*list_options(RunOptions, [*HIDDEN, *BY_FILES]), ("as_json", AsJson, False)]
    shared += [("pilot", Pilot, None), ("earlier", From, None), ("rows", Rows, None)]
    options = make_dataclass(benchmark.name, [CONTEXT, *own, *shared], namespace={"benchmark": benchmark}, kw_only=True)
    model = " --model mine" if benchmark.name not in BENCHMARKS else ""
    examples = (
        f"factmill forecast {benchmark.name} --world my-world.toml{model} --pilot 50",
        f"factmill forecast {benchmark.name} --world my-world.toml{model} --from {benchmark.name}-3f2a --rows 5000",
        f"factmill forecast {benchmark.name} --world my-world.toml{model} --pilot 50 --max-cost 0.50 --json",
    )
    told = "\n".join([f"Forecast: {benchmark.title}.", "", "\b", "Examples:", *(f"  {each}" for each in examples)])
    forecast_app.command(benchmark.name, help=told)(options)


for _each in (*BENCHMARKS.values(), *EVALUATIONS.values()):
    _add_command(_each)
