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
        help="Only forecast requests, tokens, cost and time, from an earlier build or a pilot. Nothing is published.",
    ),
]
PilotOption = Annotated[
    int | None,
    typer.Option(
        "--pilot",
        min=1,
        metavar="N",
        help="With --forecast: send the requests of N rows, a stratified sample, and extrapolate from them. The build replays them.",
    ),
]
EarlierBuildOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="BUILD",
        help="With --forecast: extrapolate from this build. Default: the newest of the benchmark.",
    ),
]
SourceRowsOption = Annotated[
    int | None,
    typer.Option(
        "--rows", min=1, help="With --forecast: source rows that will be read. Default: as many as that build read."
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
                f"{lost} is an option of a forecast; add --forecast: factmill {command} --forecast --pilot 50"
            )
        return
    if unused := next((option for name, option in _NOT_WITH_FORECAST.items() if getattr(given, name, None)), None):
        raise UsageError(f"{unused} does nothing in a forecast; leave it out, or leave out --forecast")
    if count != 1:
        raise UsageError(f"--forecast is of one benchmark and one model: factmill {command} --forecast --pilot 50")


def make_and_print_forecast(given: Any, benchmark: Benchmark, params: BenchmarkParams, run: RunOptions) -> None:
    """Forecast the requests, cost and time of a build with these options, and print them."""
    if given.pilot is not None and (given.earlier or given.rows):
        raise UsageError(
            "--pilot asks rows of the build itself; --from and --rows are for a forecast by an earlier build"
        )
    if given.pilot is None:
        check_warehouse_exists(run.warehouse)
    with shared_server():
        told = _make_and_store_forecast(benchmark, params, run, given.earlier, given.rows)
    print_result(given.as_json, told, _format_forecast(told))


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
        basis, told = _run_pilot_for_forecast_basis(benchmark, params, run)
    else:
        record = _get_earlier_build(benchmark, run, earlier)
        requests = {stage["stage"]: stage["requests"] for stage in record.report["stages"] if "requests" in stage}
        source_rows = rows or record.report["stages"][0]["rows_in"]
        asked = load_build_call_usage(warehouse, record.build_id, record.started_at)
        basis = ForecastBasis(asked, requests, record.lock["models"], source_rows, pilot_unit=benchmark.pilot_unit)
        told = (
            f"what {record.build_id} asked for its {record.report['stages'][0]['rows_in']:,} source rows, in the world "
            f"{record.report['world']}, for {source_rows:,} rows"
        )
    with using_own_prompts(parse_own_prompts(resolve_own_prompts(benchmark.assets, run))):
        forecast, recorded, notes = forecast_build(world, basis, run.batch_size)
    if not run.pilot:
        recorded = {"calls": 0.0, "usd": 0.0}
        notes.append(
            "what is recorded already is not asked again: the build asks less than this where rows are the same"
        )
    found = make_forecast_report(forecast, recorded, notes, told, datetime.now(UTC), world.name)
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
    told = (
        f"a pilot of {drawn['rows_out']:,} of {drawn['rows_in']:,} rows, really asked, drawn "
        f"{f'before {benchmark.pilot_stage}' if benchmark.pilot_stage else 'from the source'}; what it asked is recorded, and the build "
        "does not ask it again"
    )
    sizes = next(stage.get("drawn", {}) for stage in report.stages if stage["stage"] == PILOT_DRAW_STAGE)
    return ForecastBasis(asked, requests, {}, sizes=sizes, pilot_unit=benchmark.pilot_unit), told


def _get_earlier_build(benchmark: Benchmark, run: RunOptions, name: str | None) -> BuildRecord:
    warehouse = resolve_warehouse_path(run)
    try:
        record = resolve_build(warehouse, name or f"latest:{benchmark.name}")
    except UnknownBuild as error:
        if name is not None or any(each.benchmark == benchmark.name for each in list_builds(warehouse)):
            raise
        raise UsageError(
            f"there is no build of {benchmark.name} yet to make a forecast of; ask some rows first: --pilot 50"
        ) from error
    if record.benchmark != benchmark.name:
        raise UsageError(f"--from {record.build_id}: a build of {record.benchmark}; expected one of {benchmark.name}")
    return record


def _format_forecast(forecast_record: dict[str, Any]) -> list[str]:
    """Return a forecast as lines of text."""
    total, low, high = forecast_record["total"], forecast_record["low"], forecast_record["high"]
    lines = [f"{forecast_record['benchmark']} in the world {forecast_record['world']}, by {forecast_record['basis']}"]
    lines.append(
        f"  {'stage':30} {'rows':>8}  {'asked':34} {'requests':>9} {'tokens in':>11} {'out':>10} {'US$':>10} {'hours':>7}"
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
        f"  in all: {total['requests']:,.0f} requests, {total['model_requests']:,.0f} of them to models ({low['model_requests']:,.0f} to {high['model_requests']:,.0f}); "
        f"tokens {total['tokens_in']:,.0f} in, {total['tokens_out']:,.0f} out; US$ {total['usd']:.4f} ({low['usd']:,.4f} to {high['usd']:,.4f}); "
        f"{total['hours']:.2f} hours"
    )
    lines.append(
        "  the intervals are those of drawing the rows anew (90 %); services that fail, or answer otherwise, are not in them"
    )
    if forecast_record["recorded"]["calls"]:
        left = max(0.0, total["usd"] - forecast_record["recorded"]["usd"])
        lines.append(
            f"  recorded by now: {forecast_record['recorded']['calls']:,.0f} calls, US$ {forecast_record['recorded']['usd']:.4f}; left: US$ {left:.4f}"
        )
    return [*lines, *(f"  note: {note}" for note in forecast_record["notes"])]
