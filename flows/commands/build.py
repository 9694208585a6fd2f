"""`factmill build`: one subcommand for each benchmark, generated from its record, and `build all`; `--forecast`, of
`build` and `evaluate`: a forecast of requests, cost and time."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from factmill.flows.benchmarks import BENCHMARKS
from factmill.flows.build_runner import make_or_reuse_build
from factmill.flows.cli.options import (
    add_dataclass_command,
    check_warehouse_exists,
    make_model_from_options,
    make_option_dataclass_fields,
    print_result,
)
from factmill.flows.prefect_server import sharing_one_prefect_server
from factmill.tasks import progress
from factmill.tasks.assets import using_own_prompts
from factmill.tasks.core.batch_receipts import PILOT_DRAW_STAGE
from factmill.tasks.core.digests import digest_json
from factmill.tasks.core.prompts import format_prompt_digests
from factmill.tasks.core.service_settings import SCRIPTED_MODEL_NAME
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.engine.failures import WAITING_REASON
from factmill.tasks.engine.incremental import format_revalidation
from factmill.tasks.engine.naming.manifests import make_build_manifest, resolve_own_prompt_texts
from factmill.tasks.engine.spending.budgets import MultiBuildBudget
from factmill.tasks.engine.spending.forecast_basis import (
    choose_basis_build,
    count_forecast_source_rows,
    count_source_rows_of_build,
    format_basis_difference_warning,
)
from factmill.tasks.engine.spending.forecasting import ForecastBasis, forecast_build, make_forecast_report
from factmill.tasks.errors import BudgetExhausted, NoRowsPublished, UsageError
from factmill.tasks.options import (
    INTERNAL_OPTIONS,
    MODEL_ONLY_OPTIONS,
    BenchmarkParams,
    BuildReport,
    RunOptions,
    resolve_warehouse_path,
)
from factmill.tasks.own_prompts import parse_own_prompts
from factmill.tasks.reports.formatting import shorten_line
from factmill.tasks.settings import load_world
from factmill.tasks.storage.builds import (
    BuildRecord,
    delete_pilot_rows,
    format_faulty_scripted_reply_shares,
    list_builds,
    load_build_stage_and_call_rows,
    resolve_build,
    write_forecast,
)

ForecastOption = Annotated[
    bool,
    typer.Option(
        "--forecast",
        help="Instead of running, forecast requests, tokens, cost and time from an earlier run or a pilot.",
    ),
]


def make_forecast_options(what: str, counted: str, basis: str, default_rows: str) -> list[tuple[str, Any, Any]]:
    """Return the options of a forecast, as add_dataclass_command takes them.

    `what`: what is forecast, `build` or `evaluation`; `counted`: what its rows are, in the help of --rows; `basis` and
    `default_rows`: the defaults of --from and --rows.
    """
    options = {
        "pilot": typer.Option(
            "--pilot",
            min=1,
            metavar="N",
            help=f"With --forecast: send the requests of a stratified sample of N rows and extrapolate from them. A later {what} reuses these replies.",
        ),
        "earlier": typer.Option(
            "--from",
            metavar=what.upper(),
            help=f"With --forecast: extrapolate from this {what}. Default: {basis}.",
        ),
        "rows": typer.Option(
            "--rows",
            min=1,
            metavar="N",
            help=f"With --forecast: {counted}. Default: {default_rows}.",
        ),
    }
    kinds = {"pilot": int, "earlier": str, "rows": int}
    return [
        ("forecast", ForecastOption, False),
        *((name, Annotated[kinds[name] | None, option], None) for name, option in options.items()),
    ]


_FORECAST_ONLY = {"pilot": "--pilot", "earlier": "--from", "rows": "--rows"}
_NOT_WITH_FORECAST = {
    "force": "--force",
    "requests": "--requests",
    "replies": "--replies",
    "reports": "--reports",
    "questions": "--questions",
}


def check_forecast_options(options: Any, command: str, count: int) -> None:
    """Raise UsageError for options of a forecast without --forecast, or options that a forecast does not take.

    `command`: the command as in an example; `count`: number of builds that the command asks for.
    """
    if not options.forecast:
        if lost := next(
            (option for name, option in _FORECAST_ONLY.items() if getattr(options, name) is not None), None
        ):
            raise UsageError(
                f"{lost} works only with --forecast; for example: `factmill {command} --forecast --pilot 50`"
            )
        return
    if unused := next((option for name, option in _NOT_WITH_FORECAST.items() if getattr(options, name, None)), None):
        raise UsageError(f"{unused} has no effect with --forecast; remove one of the two")
    if count != 1:
        raise UsageError(
            f"--forecast works with one benchmark and one model at a time; for example: `factmill {command} --forecast --pilot 50`"
        )


def make_and_print_forecast(options: Any, benchmark: Benchmark, params: BenchmarkParams, run: RunOptions) -> None:
    """Forecast the requests, cost and time of a build with these options, and print them."""
    if options.pilot is not None and (options.earlier or options.rows):
        raise UsageError("--pilot cannot be combined with --from and --rows, which extrapolate from an earlier build")
    if options.pilot is None:
        check_warehouse_exists(run.warehouse)
    with sharing_one_prefect_server():
        forecast = _make_and_store_forecast(benchmark, params, run, options.earlier, options.rows)
    print_result(options.as_json, forecast, _format_forecast(forecast))


def _make_and_store_forecast(
    benchmark: Benchmark, params: BenchmarkParams, run: RunOptions, earlier: str | None, rows: int | None
) -> dict[str, Any]:
    """Make and store the forecast of a build, from a pilot if the options ask for one, else from an earlier build.

    `earlier`: the build to extrapolate; None: the newest with the same inputs. `rows`: source rows; None: those of
    the source.
    """
    warehouse, world = resolve_warehouse_path(run), load_world(run.world, run.graph)
    world.require_service_access(*benchmark.required_services(params))
    inputs = benchmark.resolve_inputs(params, run)
    lock = make_build_manifest(benchmark, inputs, run)
    warnings: list[str] = []
    if run.pilot:
        basis, description = _run_pilot_for_basis_and_description(benchmark, params, run)
    else:
        builds = list_builds(warehouse)
        record = _get_forecast_basis_build(benchmark, run, earlier, lock)
        requests = {stage["stage"]: stage["requests"] for stage in record.report["stages"] if "requests" in stage}
        source_rows, unread = (
            (rows, []) if rows else count_forecast_source_rows(benchmark, record, builds, inputs, lock)
        )
        asked = load_build_stage_and_call_rows(warehouse, record.build_id, record.started_at)
        basis = ForecastBasis(asked, requests, record.lock["models"], source_rows, pilot_unit=benchmark.pilot_unit)
        assumed = " (assumed)" if unread else ""
        description = (
            f"extrapolated to {source_rows:,} source rows{assumed} from the requests of {record.build_id} for "
            f"{count_source_rows_of_build(record):,} source rows in the world {record.report['world']}"
        )
        warnings = [*format_basis_difference_warning(benchmark, record, lock), *unread]
    with using_own_prompts(parse_own_prompts(resolve_own_prompt_texts(benchmark.assets, run))):
        forecast, recorded, notes = forecast_build(world, basis, run.batch_size)
    if not run.pilot:
        recorded = {"calls": 0.0, "usd": 0.0}
        notes.append(
            "the build replays recorded calls, so it sends fewer requests than this for rows that are already recorded"
        )
    found = make_forecast_report(forecast, recorded, [*warnings, *notes], description, datetime.now(UTC), world.name)
    write_forecast(warehouse, benchmark.name, digest_json(lock), found)
    return {"benchmark": benchmark.name, "lock": digest_json(lock)[:12], **found}


def _run_pilot_for_basis_and_description(
    benchmark: Benchmark, params: BenchmarkParams, run: RunOptions
) -> tuple[ForecastBasis, str]:
    warehouse, begun = resolve_warehouse_path(run), datetime.now(UTC)
    report = make_or_reuse_build(benchmark, params, run, force=True)
    asked = load_build_stage_and_call_rows(warehouse, report.build_id, begun)
    delete_pilot_rows(warehouse, report.build_id)
    requests = {stage["stage"]: stage["requests"] for stage in report.stages if "requests" in stage}
    drawn = next(stage for stage in asked.stages if stage["stage"] == PILOT_DRAW_STAGE)
    description = (
        f"extrapolated from a pilot that sent the requests of {drawn['rows_out']:,} of {drawn['rows_in']:,} rows, sampled "
        f"{f'before {benchmark.pilot_stage}' if benchmark.pilot_stage else 'from the source'}; the build reuses the pilot's replies"
    )
    sizes = next(stage.get("drawn", {}) for stage in report.stages if stage["stage"] == PILOT_DRAW_STAGE)
    return ForecastBasis(asked, requests, {}, sizes=sizes, pilot_unit=benchmark.pilot_unit), description


def _get_forecast_basis_build(
    benchmark: Benchmark, run: RunOptions, name: str | None, manifest: Mapping[str, Any]
) -> BuildRecord:
    warehouse = resolve_warehouse_path(run)
    record = resolve_build(warehouse, name) if name else choose_basis_build(benchmark, list_builds(warehouse), manifest)
    if record is None:
        small = (
            " (the same command with --limit N and without --forecast)"
            if "limit" in benchmark.params.model_fields
            else ""
        )
        raise UsageError(
            f"{warehouse} has no build of {benchmark.name} to extrapolate from. Repeat this command with --pilot 20: it counts the source "
            "rows, samples 20 of them and sends their requests, which the provider bills. Or make a small build first"
            f"{small}, then repeat this command with --rows N, the number of source rows"
        )
    if record.benchmark != benchmark.name:
        raise UsageError(f"--from {record.build_id}: a build of {record.benchmark}; expected one of {benchmark.name}")
    return record


def _format_forecast(forecast_record: dict[str, Any]) -> list[str]:
    total, low, high = forecast_record["total"], forecast_record["low"], forecast_record["high"]
    lines = [f"{forecast_record['benchmark']} in the world {forecast_record['world']}: {forecast_record['basis']}"]
    lines.append(
        f"  {'stage':30} {'rows':>8}  {'call':34} {'requests':>9} {'tokens in':>11} {'out':>10} {'US$':>10} {'hours':>7}"
    )
    for stage in forecast_record["stages"]:
        rows, hours = f"{stage['rows']:,.0f}", f"{stage['hours']:.2f}"
        asked = stage["asked"] or [None]
        for at, each in enumerate(asked):
            first = f"  {stage['stage'] if not at else '':30} {rows if not at else '':>8}"
            took = hours if not at else ""
            if each is None:
                lines.append(f"{first}  {'–':34} {'':>9} {'':>11} {'':>10} {'':>10} {took:>7}")
                continue
            what = shorten_line(f"{each['operation']} {each['model']}".strip())[:34]
            money = f"{each['usd']:.4f}" if each["model"] else ""
            lines.append(
                f"{first}  {what:34} {each['requests']:>9,.0f} {each['tokens_in']:>11,.0f} {each['tokens_out']:>10,.0f} {money:>10} {took:>7}"
            )
    lines.append(
        f"  total: {total['calls']:,.0f} different calls in {total['requests']:,.0f} requests, {total['model_requests']:,.0f} of these to models ({low['model_requests']:,.0f} to {high['model_requests']:,.0f}); "
        f"tokens {total['tokens_in']:,.0f} in, {total['tokens_out']:,.0f} out; US$ {total['usd']:.4f} ({low['usd']:,.4f} to {high['usd']:,.4f}); "
        f"{total['hours']:.2f} hours"
    )
    lines.append(
        "  a call is what a row asks, and rows that ask the same share it; one request can carry several calls, or one of the samples of a call"
    )
    lines.append("  intervals (90 %) cover the choice of sampled rows, but not failing services or different answers")
    if forecast_record["recorded"]["calls"]:
        left = max(0.0, total["usd"] - forecast_record["recorded"]["usd"])
        lines.append(
            f"  already recorded: {forecast_record['recorded']['calls']:,.0f} calls, US$ {forecast_record['recorded']['usd']:.4f}; remaining: US$ {left:.4f}"
        )
    notes = (note if note.startswith("warning: ") else f"note: {note}" for note in forecast_record["notes"])
    return [*lines, *(f"  {note}" for note in notes)]


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
            "--requests and --replies work with one benchmark at a time; for example: `factmill build granola --requests FILE`"
        )
    shared_budget, done = MultiBuildBudget(run), list[str]()
    with sharing_one_prefect_server():
        for benchmark in given.benchmarks:
            params = make_model_from_options(benchmark.params, given)
            # an existing build may have open review items
            force = given.force or getattr(given, "review", None) == "ask"
            try:
                report = make_or_reuse_build(benchmark, params, shared_budget.remaining_options, force)
            except NoRowsPublished as lost:
                report = lost.report
            except BudgetExhausted as reached:
                raise (
                    shared_budget.make_exceeded_error(reached, done) if len(given.benchmarks) > 1 else reached
                ) from None
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
        *make_forecast_options(
            "build",
            "number of source rows that the build will read",
            "the benchmark's newest build with the same world, prompts and parameters; if there is none, its newest build",
            "the rows of your own table; for other sources, as many as an earlier build read",
        ),
    ]
    add_dataclass_command(build_app, name, title, {"Examples": shown}, fields, benchmarks=benchmarks)


for _each in BENCHMARKS.values():
    _add_build_command(_each.name, _each.title, _each.examples, [_each], make_option_dataclass_fields(_each.params))
_add_build_command(
    "all", "Build every benchmark with its defaults", ["factmill build all"], list(BENCHMARKS.values()), []
)


def _format_build_report(report: BuildReport) -> list[str]:
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
        for reason, count in report.reasons.get(stage["stage"], {}).items():
            how = f" (to decide: factmill review {report.build_id} --serve)" if reason == WAITING_REASON else ""
            lines.append(f"      {count:>7} {reason}{how}")
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
            f"  forecast of {forecast['made_at'][:10]}: {total['calls']:,.0f} different calls, US$ {total['usd']:.4f} ({low['usd']:.4f} to "
            f"{high['usd']:.4f}); actual: {actual['calls']:,.0f} different calls, US$ {actual['usd']:.4f}"
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
        lines.append(f"  note: {format_faulty_scripted_reply_shares(report.scripted)}")
    if report.unsettled:
        lines.append(
            f"  note: {report.unsettled} rows were lost to temporary failures of services; run the same command again to retry them"
        )
    if report.rows:
        shown = f"factmill show {report.benchmark} --build {report.build_id}, factmill verify {report.build_id}"
        lines.append(
            f"  next: {shown}, factmill report {report.build_id} --to FILE.html, factmill export {report.build_id} --to DIR, "
            f"factmill release {report.build_id} --to DIR"
        )
    return lines
