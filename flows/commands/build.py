"""`factmill build`: one subcommand for each benchmark, generated from its record, and `build all`."""

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from factmill.flows.benchmarks import BENCHMARKS
from factmill.flows.build_runner import make_or_reuse_build
from factmill.flows.cli.options import (
    add_dataclass_command,
    make_model_from_options,
    make_option_dataclass_fields,
    print_result,
)
from factmill.flows.commands.forecast import FORECAST_FIELDS, check_forecast_options, make_and_print_forecast
from factmill.flows.prefect_server import shared_server
from factmill.tasks import progress
from factmill.tasks.core.prompts import format_prompt_digests
from factmill.tasks.core.service_settings import SCRIPTED_MODEL_NAME
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.engine.incremental import format_revalidation
from factmill.tasks.engine.spending.budgets import MultiBuildBudget
from factmill.tasks.errors import BudgetExhausted, NoRowsPublished, UsageError
from factmill.tasks.options import INTERNAL_OPTIONS, MODEL_ONLY_OPTIONS, BuildReport, RunOptions
from factmill.tasks.reports.formatting import shorten_line
from factmill.tasks.storage.builds import format_planted_faults

BuildForceOption = Annotated[
    bool, typer.Option("--force", help="Build again even if a build with the same inputs exists.")
]


def build(given: Any) -> None:
    """Build the benchmarks of a command with its options and print their reports.

    Raises NoRowsPublished, after printing the report, if a build has no rows.
    """
    progress.set_progress_style()
    run = make_model_from_options(RunOptions, given)
    check_forecast_options(given, f"build {given.benchmarks[0].name}", len(given.benchmarks))
    if given.forecast:
        return make_and_print_forecast(
            given, given.benchmarks[0], make_model_from_options(given.benchmarks[0].params, given), run
        )
    if (run.requests or run.replies) and len(given.benchmarks) > 1:
        raise UsageError(
            "--requests and --replies work with one benchmark at a time; for example: factmill build granola --requests FILE"
        )
    purse, done = MultiBuildBudget(run), list[str]()
    with shared_server():
        for benchmark in given.benchmarks:
            params = make_model_from_options(benchmark.params, given)
            # an existing build may have open review items
            force = given.force or getattr(given, "review", None) == "ask"
            try:
                report = make_or_reuse_build(benchmark, params, purse.remaining_options, force)
            except NoRowsPublished as lost:
                report = lost.report
            except BudgetExhausted as reached:
                raise purse.make_exceeded_error(reached, done) if len(given.benchmarks) > 1 else reached from None
            print_result(given.as_json, report.model_dump(mode="json"), _format_build_report(report))
            if report.nothing_published:
                raise NoRowsPublished(report.nothing_published, report)
            done.append(report.build_id)
    return None


build_app = typer.Typer(
    help="Build a benchmark into the warehouse. Try: factmill build granola, factmill build all",
    no_args_is_help=True,
    result_callback=build,
)


def _add_build_command(
    name: str, title: str, examples: Sequence[str], benchmarks: Sequence[Benchmark], own: Any
) -> None:
    left_out = () if any(each.model_roles(each.params()) for each in benchmarks) else MODEL_ONLY_OPTIONS
    shown = [*examples, f"factmill build {name} --world my-world.toml --since last"]
    if not left_out:
        shown.append(f"factmill build {name} --world my-world.toml --max-cost 5 --max-hours 12")
    if len(benchmarks) == 1:
        shown.append(f"factmill build {name} --world my-world.toml --forecast --pilot 50")
    fields = [
        *own,
        *make_option_dataclass_fields(RunOptions, (*INTERNAL_OPTIONS, *left_out)),
        ("force", BuildForceOption, False),
        *FORECAST_FIELDS,
    ]
    add_dataclass_command(build_app, name, title, {"Examples": shown}, fields, benchmarks=benchmarks)


for _each in BENCHMARKS.values():
    _add_build_command(_each.name, _each.title, _each.examples, [_each], make_option_dataclass_fields(_each.params))
_add_build_command(
    "all", "Build every benchmark with its defaults", ["factmill build all"], list(BENCHMARKS.values()), []
)


def _format_build_report(report: BuildReport) -> list[str]:
    """Return a build's report as lines of text."""
    how = "built again with the same bytes: confirmed" if report.confirmed else "published"
    how = "already built from the same inputs" if report.up_to_date else how
    lines = [f"{report.build_id}: {'no row is published' if report.nothing_published else how} in {report.warehouse}"]
    opened = f" + {report.opened} expanded from them" if report.opened else ""
    lines.append(
        f"  {report.inputs} source rows{opened} = {report.rows} published + {report.rejects} rejected + {report.merged} merged"
        f"   (world {report.world}{f', author {report.author}' if report.author else ''})"
    )
    for stage in report.stages:
        lines.append(
            f"  {stage['stage']:32} {stage['rows_in']:>7} in {stage['rows_out']:>7} out {stage['rejects']:>7} rejected"
        )
        lines += [f"      {count:>7} {reason}" for reason, count in report.reasons.get(stage["stage"], {}).items()]
    for name, value in report.facts.items():
        if name != "shape":
            lines.append(f"  {name}: {json.dumps(value)}")
            continue
        for of, figure in value.items():  # the build's shape compared with the paper's
            here = "no data" if figure["here"] is None else figure["here"]
            lines.append(f"  {of}: {here} (n = {figure['n']}; paper {figure['paper']})")
    # a build without a model has neither tokens nor cost
    spent = f"tokens {report.tokens_in} in, {report.tokens_out} out; {report.format_cost()}; " if report.author else ""
    lines.append(f"  calls: {report.calls_sent} sent, {report.calls_replayed} replayed; {spent}{report.seconds:.1f} s")
    if "actual" in (forecast := report.forecast):
        total, low, high, actual = (forecast[name] for name in ("total", "low", "high", "actual"))
        lines.append(
            f"  forecast of {forecast['made_at'][:10]}: {total['calls']:,.0f} calls, US$ {total['usd']:.4f} ({low['usd']:.4f} to "
            f"{high['usd']:.4f}); actual: {actual['calls']:,.0f} calls, US$ {actual['usd']:.4f}"
        )
    lines += [f"  since {format_revalidation(report.since)}"] if report.since else []
    lines += [f"  own prompts: {format_prompt_digests(report.own_prompts)}"] if report.own_prompts else []
    for service, replies in report.replies.items():
        came = f"{replies['oldest'][:16]} to {replies['newest'][:16]} UTC, {replies['asked']} requested by this build"
        kept = f"; {replies['too_old']} are expired, used because the service fails" if replies["too_old"] else ""
        lines.append(f"  replies of {shorten_line(service)}: {replies['calls']}, from {came}{kept}")
    lines += [f"  note: {note}" for note in report.notes]
    if report.caution:
        lines.append(f"  note: {report.caution}")
    elif report.author.startswith(SCRIPTED_MODEL_NAME):
        lines.append(
            f"  note: answers and scores are {report.author}, prepared replies from files; no model was called"
        )
    if report.scripted:
        lines.append(f"  note: {format_planted_faults(report.scripted)}")
    if report.unsettled:
        lines.append(
            f"  note: {report.unsettled} rows were lost to temporary failures of services; run the same command again to retry them"
        )
    if report.rows:
        shown = f"factmill show {report.benchmark} --build {report.build_id}, factmill verify {report.build_id}"
        lines.append(f"  next: {shown}, factmill export {report.build_id} --to DIR")
    return lines
