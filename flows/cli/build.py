"""`factmill build BENCHMARK`: a command for each benchmark, made of its record, and `build all`."""

from collections.abc import Sequence
from dataclasses import make_dataclass
from typing import Annotated, Any

import typer

from flows.benchmarks import BENCHMARKS
from flows.cli.options import CONTEXT, AsJson, list_options, print_json, print_lines, read_options
from tasks import progress
from tasks.engine.benchmark import Benchmark
from tasks.errors import BudgetReached, NothingPublished, UsageError
from tasks.options import HIDDEN, RunOptions

Force = Annotated[bool, typer.Option("--force", help="Build even when a build with the same inputs is there.")]


def build(given: Any) -> None:
    """Build the benchmarks of a command by the options it was given, and print their reports.

    NothingPublished, after the report, when one has no row.
    """
    from flows.commands.show import format_report
    from flows.prefect_server import shared_server
    from flows.running import make_build
    from tasks.engine.spending.bounds import Purse

    progress.show()
    run = read_options(RunOptions, given)
    if (run.requests or run.replies) and len(given.benchmarks) > 1:
        raise UsageError("--requests and --replies are of one build; name it: factmill build granola --requests FILE")
    purse, done = Purse(run), list[str]()
    with shared_server():
        for benchmark in given.benchmarks:
            params = read_options(benchmark.params, given)
            # a build that is there already may have open items to ask about
            force = given.force or getattr(given, "review", None) == "ask"
            try:
                report = make_build(benchmark, params, purse.left, force)
            except NothingPublished as lost:
                report = lost.report
            except BudgetReached as reached:
                raise purse.tell(reached, done) if len(given.benchmarks) > 1 else reached from None
            print_json(report.model_dump(mode="json")) if given.as_json else print_lines(format_report(report))
            if report.nothing_published:
                raise NothingPublished(report.nothing_published, report)
            done.append(report.build_id)


build_app = typer.Typer(
    help="Build a benchmark into the warehouse. Try: factmill build granola, factmill build all",
    no_args_is_help=True,
    result_callback=build,
)


def _add_command(name: str, title: str, examples: Sequence[str], benchmarks: Sequence[Benchmark], own: Any) -> None:
    """Add a command whose callback is the record of its options, which `build` then gets."""
    shared = [*list_options(RunOptions, HIDDEN), ("force", Force, False), ("as_json", AsJson, False)]
    options = make_dataclass(name, [CONTEXT, *own, *shared], namespace={"benchmarks": benchmarks}, kw_only=True)
    told = "\n".join([f"{title}.", "", "\b", "Examples:", *(f"  {example}" for example in examples)])
    build_app.command(name, help=told)(options)


_SINCE = "factmill build {} --world my-world.toml --since last"
_BOUND = "factmill build {} --world my-world.toml --max-cost 5 --max-hours 12"
_ALL = ("factmill build all", _SINCE.format("all"), _BOUND.format("all"))
for _each in BENCHMARKS.values():
    _examples = (*_each.examples, _SINCE.format(_each.name), _BOUND.format(_each.name))
    _add_command(_each.name, _each.title, _examples, [_each], list_options(_each.params))
_add_command("all", "Every benchmark, with its defaults", _ALL, list(BENCHMARKS.values()), [])
