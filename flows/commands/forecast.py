"""`factmill build NAME --forecast` and `factmill evaluate NAME --forecast`: forecast requests, cost and time."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from factmill.flows.build_runner import make_or_reuse_build
from factmill.flows.cli.options import (
    check_warehouse_exists,
    print_result,
)
from factmill.flows.prefect_server import shared_server
from factmill.tasks.assets import using_own_prompts
from factmill.tasks.core.batch_receipts import PILOT_DRAW_STAGE
from factmill.tasks.core.digests import digest_json
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.engine.naming.manifests import make_build_manifest, resolve_own_prompts
from factmill.tasks.engine.spending.forecasting import ForecastBasis, forecast_build, make_forecast_report
from factmill.tasks.errors import UnknownBuild, UsageError
from factmill.tasks.options import (
    BenchmarkParams,
    RunOptions,
    resolve_warehouse_path,
)
from factmill.tasks.own_prompts import parse_own_prompts
from factmill.tasks.reports.formatting import shorten_line
from factmill.tasks.settings import load_world
from factmill.tasks.storage.builds import (
    BuildRecord,
    delete_pilot_rows,
    list_builds,
    load_build_call_usage,
    resolve_build,
    write_forecast,
)

ForecastOption = Annotated[
    bool,
    typer.Option(
        "--forecast",
        help="Forecast requests, tokens, cost and time from an earlier build or a pilot. Publishes nothing.",
    ),
]
PilotOption = Annotated[
    int | None,
    typer.Option(
        "--pilot",
        min=1,
        metavar="N",
        help="With --forecast: send the requests of a stratified sample of N rows and extrapolate from them. The build reuses their replies.",
    ),
]
EarlierBuildOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="BUILD",
        help="With --forecast: extrapolate from this build. Default: the newest build of the benchmark.",
    ),
]
SourceRowsOption = Annotated[
    int | None,
    typer.Option(
        "--rows",
        min=1,
        metavar="N",
        help="With --forecast: number of source rows that the build will read. Default: as many as the earlier build read.",
    ),
]


FORECAST_FIELDS = [
    ("forecast", ForecastOption, False),
    ("pilot", PilotOption, None),
    ("earlier", EarlierBuildOption, None),
    ("rows", SourceRowsOption, None),
]
"""Options of a forecast, as add_dataclass_command takes them."""
_FORECAST_ONLY = {"pilot": "--pilot", "earlier": "--from", "rows": "--rows"}
_NOT_WITH_FORECAST = {
    "force": "--force",
    "requests": "--requests",
    "replies": "--replies",
    "reports": "--reports",
    "questions": "--questions",
}


def check_forecast_options(given: Any, command: str, count: int) -> None:
    """Raise UsageError for options of a forecast without --forecast, or options that a forecast does not take.

    `command`: the command as in an example; `count`: number of builds that the command asks for.
    """
    if not given.forecast:
        if lost := next((option for name, option in _FORECAST_ONLY.items() if getattr(given, name) is not None), None):
            raise UsageError(
                f"{lost} works only with --forecast; for example: factmill {command} --forecast --pilot 50"
            )
        return
    if unused := next((option for name, option in _NOT_WITH_FORECAST.items() if getattr(given, name, None)), None):
        raise UsageError(f"{unused} has no effect with --forecast; remove one of the two")
    if count != 1:
        raise UsageError(
            f"--forecast works with one benchmark and one model at a time; for example: factmill {command} --forecast --pilot 50"
        )


def make_and_print_forecast(given: Any, benchmark: Benchmark, params: BenchmarkParams, run: RunOptions) -> None:
    """Forecast the requests, cost and time of a build with these options, and print them."""
    if given.pilot is not None and (given.earlier or given.rows):
        raise UsageError("--pilot cannot be combined with --from and --rows, which extrapolate from an earlier build")
    if given.pilot is None:
        check_warehouse_exists(run.warehouse)
    with shared_server():
        forecast = _make_and_store_forecast(benchmark, params, run, given.earlier, given.rows)
    print_result(given.as_json, forecast, _format_forecast(forecast))


def _make_and_store_forecast(
    benchmark: Benchmark, params: BenchmarkParams, run: RunOptions, earlier: str | None, rows: int | None
) -> dict[str, Any]:
    """Make and store the forecast of a build, from a pilot if the options ask for one, else from an earlier build.

    `earlier`: the build to extrapolate; None: the newest. `rows`: source rows; None: as many as that build read.
    """
    warehouse, world = resolve_warehouse_path(run), load_world(run.world, run.graph)
    world.require_service_access(*benchmark.required_services(params))
    lock = make_build_manifest(benchmark, benchmark.resolve_inputs(params, run), run)
    if run.pilot:
        basis, description = _run_pilot_for_forecast_basis(benchmark, params, run)
    else:
        record = _get_earlier_build(benchmark, run, earlier)
        requests = {stage["stage"]: stage["requests"] for stage in record.report["stages"] if "requests" in stage}
        source_rows = rows or record.report["stages"][0]["rows_in"]
        asked = load_build_call_usage(warehouse, record.build_id, record.started_at)
        basis = ForecastBasis(asked, requests, record.lock["models"], source_rows, pilot_unit=benchmark.pilot_unit)
        description = (
            f"extrapolated to {source_rows:,} source rows from the requests of {record.build_id} for "
            f"{record.report['stages'][0]['rows_in']:,} source rows in the world {record.report['world']}"
        )
    with using_own_prompts(parse_own_prompts(resolve_own_prompts(benchmark.assets, run))):
        forecast, recorded, notes = forecast_build(world, basis, run.batch_size)
    if not run.pilot:
        recorded = {"calls": 0.0, "usd": 0.0}
        notes.append(
            "the build replays recorded calls, so it sends fewer requests than this for rows that are already recorded"
        )
    found = make_forecast_report(forecast, recorded, notes, description, datetime.now(UTC), world.name)
    write_forecast(warehouse, benchmark.name, digest_json(lock), found)
    return {"benchmark": benchmark.name, "lock": digest_json(lock)[:12], **found}


def _run_pilot_for_forecast_basis(
    benchmark: Benchmark, params: BenchmarkParams, run: RunOptions
) -> tuple[ForecastBasis, str]:
    """Run a pilot build and return the basis of a forecast, with its description."""
    warehouse, begun = resolve_warehouse_path(run), datetime.now(UTC)
    report = make_or_reuse_build(benchmark, params, run, force=True)
    asked = load_build_call_usage(warehouse, report.build_id, begun)
    delete_pilot_rows(warehouse, report.build_id)
    requests = {stage["stage"]: stage["requests"] for stage in report.stages if "requests" in stage}
    drawn = next(stage for stage in asked.stages if stage["stage"] == PILOT_DRAW_STAGE)
    description = (
        f"extrapolated from a pilot that sent the requests of {drawn['rows_out']:,} of {drawn['rows_in']:,} rows, sampled "
        f"{f'before {benchmark.pilot_stage}' if benchmark.pilot_stage else 'from the source'}; the build reuses the pilot's replies"
    )
    sizes = next(stage.get("drawn", {}) for stage in report.stages if stage["stage"] == PILOT_DRAW_STAGE)
    return ForecastBasis(asked, requests, {}, sizes=sizes, pilot_unit=benchmark.pilot_unit), description


def _get_earlier_build(benchmark: Benchmark, run: RunOptions, name: str | None) -> BuildRecord:
    warehouse = resolve_warehouse_path(run)
    try:
        record = resolve_build(warehouse, name or f"latest:{benchmark.name}")
    except UnknownBuild as error:
        if name is not None or any(each.benchmark == benchmark.name for each in list_builds(warehouse)):
            raise
        raise UsageError(
            f"{warehouse} has no build of {benchmark.name} to extrapolate from; to send the requests of 50 rows instead, add "
            "--pilot 50"
        ) from error
    if record.benchmark != benchmark.name:
        raise UsageError(f"--from {record.build_id}: a build of {record.benchmark}; expected one of {benchmark.name}")
    return record


def _format_forecast(forecast_record: dict[str, Any]) -> list[str]:
    """Return a forecast as lines of text."""
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
        f"  total: {total['requests']:,.0f} requests, {total['model_requests']:,.0f} of them to models ({low['model_requests']:,.0f} to {high['model_requests']:,.0f}); "
        f"tokens {total['tokens_in']:,.0f} in, {total['tokens_out']:,.0f} out; US$ {total['usd']:.4f} ({low['usd']:,.4f} to {high['usd']:,.4f}); "
        f"{total['hours']:.2f} hours"
    )
    lines.append("  intervals (90 %) cover the choice of sampled rows, but not failing services or different answers")
    if forecast_record["recorded"]["calls"]:
        left = max(0.0, total["usd"] - forecast_record["recorded"]["usd"])
        lines.append(
            f"  already recorded: {forecast_record['recorded']['calls']:,.0f} calls, US$ {forecast_record['recorded']['usd']:.4f}; remaining: US$ {left:.4f}"
        )
    return [*lines, *(f"  note: {note}" for note in forecast_record["notes"])]
