"""`factmill forecast`: what a build or an evaluation will ask, cost and take."""

from datetime import UTC, datetime
from typing import Any

from flows.running import make_build
from tasks.core.fingerprints import digest_json
from tasks.core.receipts import DRAWING
from tasks.engine.benchmark import Benchmark
from tasks.engine.naming.locks import make_lock
from tasks.engine.spending.forecasting import Basis, describe_forecast, forecast_build
from tasks.errors import UnknownBuild, UsageError
from tasks.options import Params, RunOptions, warehouse_of
from tasks.reports.texts import shorten_line
from tasks.settings import load_world
from tasks.storage.builds import BuildRecord, find_build, list_builds
from tasks.storage.forecasts import forget_pilot, keep_forecast, read_asked


def make_forecast(
    benchmark: Benchmark, params: Params, run: RunOptions, earlier: str | None, rows: int | None
) -> dict[str, Any]:
    """Return what a build will ask, from a pilot where the options tell one, else from an earlier build; it is kept.

    `earlier`: a build to go by, else the newest of this benchmark. `rows`: of the source; None: as many as that one had.
    """
    warehouse, world = warehouse_of(run), load_world(run.world, run.graph)
    world.require_access(*benchmark.needs(params))
    lock = make_lock(benchmark, benchmark.lock_inputs(params, run), run)
    if run.pilot:
        basis, told = _ask_pilot(benchmark, params, run)
    else:
        record = _find_earlier(benchmark, run, earlier)
        requests = {stage["stage"]: stage["requests"] for stage in record.report["stages"] if "requests" in stage}
        source_rows = rows or record.report["stages"][0]["rows_in"]
        asked = read_asked(warehouse, record.build_id, record.started_at)
        basis = Basis(asked, requests, record.lock["models"], source_rows, unit=benchmark.pilot_unit)
        told = (
            f"what {record.build_id} asked for its {record.report['stages'][0]['rows_in']:,} source rows, in the world "
            f"{record.report['world']}, for {source_rows:,} rows"
        )
    forecast, recorded, notes = forecast_build(world, basis, run.batch_size)
    if not run.pilot:
        recorded = {"calls": 0.0, "usd": 0.0}
        notes.append(
            "what is recorded already is not asked again: the build asks less than this where rows are the same"
        )
    found = describe_forecast(forecast, recorded, notes, told, datetime.now(UTC), world.name)
    keep_forecast(warehouse, benchmark.name, digest_json(lock), found)
    return {"benchmark": benchmark.name, "lock": digest_json(lock)[:12], **found}


def _ask_pilot(benchmark: Benchmark, params: Params, run: RunOptions) -> tuple[Basis, str]:
    """Make a pilot and return what it asked."""
    warehouse, begun = warehouse_of(run), datetime.now(UTC)
    report = make_build(benchmark, params, run, force=True)
    asked = read_asked(warehouse, report.build_id, begun)
    forget_pilot(warehouse, report.build_id)
    requests = {stage["stage"]: stage["requests"] for stage in report.stages if "requests" in stage}
    drawn = next(stage for stage in asked.stages if stage["stage"] == DRAWING)
    told = (
        f"a pilot of {drawn['rows_out']:,} of {drawn['rows_in']:,} rows, really asked, drawn "
        f"{f'before {benchmark.pilot_at}' if benchmark.pilot_at else 'from the source'}; what it asked is recorded, and the build "
        "does not ask it again"
    )
    sizes = next(stage.get("drawn", {}) for stage in report.stages if stage["stage"] == DRAWING)
    return Basis(asked, requests, {}, sizes=sizes, unit=benchmark.pilot_unit), told


def _find_earlier(benchmark: Benchmark, run: RunOptions, name: str | None) -> BuildRecord:
    warehouse = warehouse_of(run)
    try:
        record = find_build(warehouse, name or f"latest:{benchmark.name}")
    except UnknownBuild as error:
        if name is not None or any(each.benchmark == benchmark.name for each in list_builds(warehouse)):
            raise
        raise UsageError(
            f"there is no build of {benchmark.name} yet to make a forecast of; ask some rows first: --pilot 50"
        ) from error
    if record.benchmark != benchmark.name:
        raise UsageError(f"--from {record.build_id}: a build of {record.benchmark}; expected one of {benchmark.name}")
    return record


def format_forecast(told: dict[str, Any]) -> list[str]:
    """Return a forecast as lines to read."""
    total, low, high = told["total"], told["low"], told["high"]
    lines = [f"{told['benchmark']} in the world {told['world']}, by {told['basis']}"]
    lines.append(
        f"  {'stage':30} {'rows':>8}  {'asked':34} {'requests':>9} {'tokens in':>11} {'out':>10} {'US$':>10} {'hours':>7}"
    )
    for stage in told["stages"]:
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
        f"  in all: {total['requests']:,.0f} requests, {total['model_requests']:,.0f} of them to models ({_tell_interval(low, high, 'model_requests', 0)}); "
        f"tokens {total['tokens_in']:,.0f} in, {total['tokens_out']:,.0f} out; US$ {total['usd']:.4f} ({_tell_interval(low, high, 'usd', 4)}); "
        f"{total['hours']:.2f} hours"
    )
    lines.append(
        "  the intervals are those of drawing the rows anew (90 %); services that fail, or answer otherwise, are not in them"
    )
    if told["recorded"]["calls"]:
        left = max(0.0, total["usd"] - told["recorded"]["usd"])
        lines.append(
            f"  recorded by now: {told['recorded']['calls']:,.0f} calls, US$ {told['recorded']['usd']:.4f}; left: US$ {left:.4f}"
        )
    return [*lines, *(f"  note: {note}" for note in told["notes"])]


def _tell_interval(low: dict[str, float], high: dict[str, float], name: str, digits: int) -> str:
    return f"{low[name]:,.{digits}f} to {high[name]:,.{digits}f}"
