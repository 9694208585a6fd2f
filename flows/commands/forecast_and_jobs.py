"""`factmill forecast NAME` and `factmill jobs`: forecast a build's requests, cost and time; manage batch jobs."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from factmill.flows.benchmarks import BENCHMARKS
from factmill.flows.build_runner import make_build
from factmill.flows.cli.options import (
    JsonOption,
    add_command,
    check_warehouse_exists,
    list_option_fields,
    print_result,
    read_options,
)
from factmill.flows.evaluate.evaluations import EVALUATIONS
from factmill.flows.prefect_server import shared_server
from factmill.tasks import progress
from factmill.tasks.clients.batch_jobs import job_files
from factmill.tasks.clients.batch_jobs.job_control import InspectedJob, cancel_job, inspect_jobs
from factmill.tasks.clients.batch_jobs.job_files import JobFile, load_job_files
from factmill.tasks.clients.batch_jobs.jsonl import format_request_count
from factmill.tasks.core.batch_receipts import PILOT_DRAW_STAGE
from factmill.tasks.core.calls.call import CallCacheMode
from factmill.tasks.core.digests import digest_json
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.engine.naming.manifests import make_build_manifest
from factmill.tasks.engine.spending.forecasting import ForecastBasis, forecast_build, make_forecast_report
from factmill.tasks.errors import ServiceError, UnknownBuild, UsageError
from factmill.tasks.options import (
    INTERNAL_OPTIONS,
    REPLY_FILE_OPTIONS,
    BenchmarkParams,
    RunOptions,
    resolve_warehouse_path,
)
from factmill.tasks.processes import is_file_locked
from factmill.tasks.reports.formatting import shorten_line
from factmill.tasks.settings import factmill_home, load_world
from factmill.tasks.storage.builds import (
    BuildRecord,
    delete_pilot_rows,
    list_builds,
    load_build_call_usage,
    resolve_build,
    write_forecast,
)
from factmill.tasks.storage.recording.work_folders import batch_jobs_folder, work_folder
from factmill.tasks.text.durations import format_age_in_words

PilotOption = Annotated[
    int | None,
    typer.Option(
        "--pilot",
        min=1,
        metavar="N",
        help="Really ask for so many rows, drawn so that they stand for all, and go by what they asked. The build replays it.",
    ),
]
EarlierBuildOption = Annotated[
    str | None,
    typer.Option("--from", metavar="BUILD", help="Go by what this build asked. Default: the newest of the benchmark."),
]
SourceRowsOption = Annotated[
    int | None,
    typer.Option("--rows", min=1, help="Source rows that are to be read. Default: as many as that build read."),
]


def forecast(given: Any) -> None:
    """Forecast the requests, cost and time of a build with these options."""
    progress.set_progress_style()
    if given.pilot is not None and (given.earlier or given.rows):
        raise UsageError(
            "--pilot asks rows of the build itself; --from and --rows are for a forecast by an earlier build"
        )
    run = read_options(RunOptions, given)
    if given.pilot is None:
        check_warehouse_exists(run.warehouse)
    params = read_options(given.benchmark.params, given)
    with shared_server():
        told = _make_forecast(given.benchmark, params, run, given.earlier, given.rows)
    print_result(given.as_json, told, _format_forecast(told))


forecast_app = typer.Typer(
    help="Forecast requests, cost and time of a build or an evaluation. Try: factmill forecast granola --pilot 20",
    no_args_is_help=True,
    result_callback=forecast,
)


for _each in (*BENCHMARKS.values(), *EVALUATIONS.values()):
    _fields = [
        *list_option_fields(_each.params),
        *list_option_fields(RunOptions, [*INTERNAL_OPTIONS, *REPLY_FILE_OPTIONS]),
    ]
    _fields += [("pilot", PilotOption, None), ("earlier", EarlierBuildOption, None), ("rows", SourceRowsOption, None)]
    _command = (
        f"factmill forecast {_each.name} --world my-world.toml{'' if _each.name in BENCHMARKS else ' --model mine'}"
    )
    _examples = ("--pilot 50", f"--from {_each.name}-3f2a --rows 5000", "--pilot 50 --max-cost 0.50 --json")
    _blocks = {"Examples": [f"{_command} {each}" for each in _examples]}
    add_command(forecast_app, _each.name, f"Forecast: {_each.title}", _blocks, _fields, benchmark=_each)
jobs_app = typer.Typer(
    help="""List, cancel and forget batch jobs at model servers.

Builds and evaluations submit batch jobs if their world's file says mode = "batch".

\b
Examples:
  factmill jobs
  factmill jobs --no-ask --json
  factmill jobs cancel batch_68a1
""",
    invoke_without_command=True,
)
JobsWarehouseOption = Annotated[
    Path | None,
    typer.Option(help="Jobs of this DuckDB file alone. Default: of all in factmill's home.", metavar="FILE"),
]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="A job's id, or the beginning of one.")]


@jobs_app.callback()
def list_batch_jobs(
    context: typer.Context,
    ask: bool = typer.Option(True, "--ask/--no-ask", help="Have servers say how far their jobs are; it costs nothing."),
    warehouse: JobsWarehouseOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the jobs whose answers are not all taken yet, the oldest first: of all warehouses in factmill's home, or of one."""
    if context.invoked_subcommand is not None:
        return
    warehouses = _resolve_job_warehouses(warehouse)
    known = _list_warehouse_jobs(warehouses)
    looked = (
        inspect_jobs([each.job for each in known], _USER_AGENT) if ask else [InspectedJob(each.job) for each in known]
    )
    found = [_make_job_json(each, look, ask) for each, look in zip(known, looked, strict=True)]
    none = f'no batch jobs of {", ".join(map(str, warehouses))}; a model is asked by such where its world says mode = "batch"'
    print_result(as_json, {"jobs": found}, _format_jobs(found), "" if found else none)


@jobs_app.command("cancel")
def cancel(
    job: str | None = typer.Argument(None, metavar="JOB", help="A job's id, or the beginning of one."),
    every: bool = typer.Option(False, "--all", help="Cancel all jobs that go on."),
    warehouse: JobsWarehouseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have a server break off a job. What it has done until then is paid for, and is taken by the same build.

    \b
    Examples:
      factmill jobs cancel batch_68a1
      factmill jobs cancel --all
    """
    if (job is None) != every:
        raise UsageError("expected one job (factmill jobs lists them) or --all")
    warehouses = _resolve_job_warehouses(warehouse)
    if job is not None:
        chosen = [_resolve_job(warehouses, job)]
    else:
        known = _list_warehouse_jobs(warehouses)
        looked = inspect_jobs([each.job for each in known], _USER_AGENT)
        if silent := next((look for look in looked if look.trouble), None):
            raise ServiceError(f"nothing was cancelled, since not all jobs can be seen: {silent.trouble}")
        chosen = [each for each, look in zip(known, looked, strict=True) if look.state and not look.state.has_ended]
    told, lines = list[dict[str, Any]](), list[str]()
    for each in chosen:
        state, count = cancel_job(each.job, _USER_AGENT), len(each.job.request_ids)
        told.append({"job": state.job_id, "state": state.status, "done": state.done, "requests": count})
        lines.append(
            f"{state.job_id}: {state.status}, with {state.done:,} of {count:,} done; the same build takes these and stops; "
            "started again it asks for the rest"
        )
    print_result(as_json, {"cancelled": told}, lines, "" if told else "no job goes on, so there is nothing to cancel")


@jobs_app.command("forget")
def forget_job(job: JobArgument, warehouse: JobsWarehouseOption = None, as_json: JsonOption = False) -> None:
    """Leave a job out of account that its server may not have lost: the same build asks anew what is left of it, and pays again.

    Example: factmill jobs forget batch_68a1
    """
    known = _resolve_job(_resolve_job_warehouses(warehouse), job)
    if not job_files.delete_job_file(known.job):
        raise UsageError(f"{known.name}: a running process waits for this job; stop that first (Ctrl-C)")
    count = len(known.job.open_ids)
    told = {"job": known.name, "forgotten": True, "requests": count, "build": known.job.run}
    line = f"{known.name}: forgotten; {count:,} of its requests are asked anew when a build needs them"
    print_result(as_json, told, [line])


def _resolve_job_warehouses(warehouse: Path | None) -> list[Path]:
    """Return the warehouses whose jobs are selected; UsageError if the named one does not exist."""
    if warehouse is None:  # all of the home, the default one first
        beside = sorted(factmill_home().glob("*.duckdb.runs"))
        return [
            factmill_home() / "factmill.duckdb",
            *(each.with_name(each.name.removesuffix(".runs")) for each in beside),
        ]
    path = resolve_warehouse_path(RunOptions(warehouse=warehouse))
    if not work_folder(path).is_dir():  # jobs outlive their warehouse
        check_warehouse_exists(warehouse)
    return [path]


def _make_forecast(
    benchmark: Benchmark, params: BenchmarkParams, run: RunOptions, earlier: str | None, rows: int | None
) -> dict[str, Any]:
    """Make and store the forecast of a build, from a pilot if the options ask for one, else from an earlier build.

    `earlier`: the build to extrapolate; None: the newest. `rows`: source rows; None: as many as that build read.
    """
    warehouse, world = resolve_warehouse_path(run), load_world(run.world, run.graph)
    world.require_service_access(*benchmark.required_services(params))
    lock = make_build_manifest(benchmark, benchmark.resolve_inputs(params, run), run)
    if run.pilot:
        basis, told = _ask_pilot(benchmark, params, run)
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
    forecast, recorded, notes = forecast_build(world, basis, run.batch_size)
    if not run.pilot:
        recorded = {"calls": 0.0, "usd": 0.0}
        notes.append(
            "what is recorded already is not asked again: the build asks less than this where rows are the same"
        )
    found = make_forecast_report(forecast, recorded, notes, told, datetime.now(UTC), world.name)
    write_forecast(warehouse, benchmark.name, digest_json(lock), found)
    return {"benchmark": benchmark.name, "lock": digest_json(lock)[:12], **found}


def _ask_pilot(benchmark: Benchmark, params: BenchmarkParams, run: RunOptions) -> tuple[ForecastBasis, str]:
    """Run a pilot build and return the basis of a forecast, with its description."""
    warehouse, begun = resolve_warehouse_path(run), datetime.now(UTC)
    report = make_build(benchmark, params, run, force=True)
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


_USER_AGENT = "factmill"
_MODES: tuple[CallCacheMode, ...] = ("record", "refresh")


@dataclass(frozen=True, slots=True)
class _WarehouseJob:
    """A batch job, and the warehouse whose build submitted it."""

    warehouse: Path
    job: JobFile

    @property
    def name(self) -> str:
        return self.job.job_id or self.job.name


def _list_warehouse_jobs(warehouses: Sequence[Path]) -> list[_WarehouseJob]:
    folders = [(each, batch_jobs_folder(each, mode)) for each in warehouses for mode in _MODES]
    known = [_WarehouseJob(warehouse, job) for warehouse, folder in folders for job in load_job_files(folder)]
    return sorted(known, key=lambda each: (each.job.created_s, each.job.name))


def _make_job_json(known: _WarehouseJob, looked: InspectedJob, asked: bool) -> dict[str, Any]:
    job, state, followed = known.job, looked.state, is_file_locked(known.job.path)
    if state:
        name = state.status
    elif not job.job_id:
        name = "uploaded" if job.file_id else "not_handed_in"
    else:
        name = "unknown" if looked.trouble else "handed_in"
    note = looked.trouble
    if not note and followed:
        note = "a running process waits for it"
    elif not note and state and state.is_lost:
        note = "its server knows it no more; the same build asks, and pays, anew what is left of it"
    elif not note and state and state.has_ended:
        note = "its answers wait for the same build to take them"
    elif not note and (job.job_id or asked):
        note = "no process waits for it; the same build goes on with it"
    return {
        "job": known.name,
        "state": name,
        "model": job.server.model,
        "url": job.server.url,
        "requests": len(job.request_ids),
        "left": len(job.open_ids),
        "done": state.done if state else None,
        "failed": state.failed if state else None,
        "handed_in_at": datetime.fromtimestamp(job.created_s, UTC).isoformat(timespec="seconds"),
        "age_s": max(0, round(time.time() - job.created_s)),
        "build": job.run,
        "warehouse": str(known.warehouse),
        "followed": followed,
        "note": note,
    }


def _format_jobs(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield lines of text about jobs."""
    wide = max((len(each["job"]) for each in found), default=0)
    for each in found:
        done = "" if each["done"] is None else f"{each['done']:,} of "
        failed = f", {each['failed']:,} failed" if each["failed"] else ""
        left = f", {each['left']:,} to be taken" if each["left"] < each["requests"] else ""
        yield (
            f"{each['job']:{wide}}  {each['state']:14} {done}{format_request_count(each['requests'])}{failed}{left} to "
            f"{shorten_line(each['model'])}, {format_age_in_words(each['age_s'])} ago, for {each['build'] or 'a build'}"
        )
        if each["note"]:
            yield f"    {each['note']}"


def _resolve_job(warehouses: Sequence[Path], name: str) -> _WarehouseJob:
    """Return the job with this id, or beginning of an id; UsageError if there is none, or several."""
    known = _list_warehouse_jobs(warehouses)
    found = [each for each in known if name in (each.job.job_id, each.job.name)] or [
        each for each in known if name and name in (each.job.job_id[: len(name)], each.job.name[: len(name)])
    ]
    if len(found) == 1:
        return found[0]
    names = ", ".join(each.name for each in (found or known)[:10])
    if found:
        raise UsageError(f"{name}: several jobs begin so: {names}; write one out")
    told = f"known are: {names}" if known else "no job is known"
    raise UsageError(
        f"{name}: no such job in {', '.join(map(str, warehouses))}; {told}. One of another warehouse: --warehouse FILE"
    )
