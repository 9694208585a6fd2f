"""The command `factmill`: thin; what it does is in flows/running.py, flows/commands and the tasks.

Exit codes: 0 right, 1 a build or a check failed, 2 wrong usage, 3 a bound on what a run may spend is reached, 130 stopped
with Ctrl-C, 143 with SIGTERM, 129 with SIGHUP. Progress and messages go to standard error, results to standard output.
"""

import atexit
import errno
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from flows.cli.build import build_app
from flows.cli.diff import diff
from flows.cli.drift import drift_app
from flows.cli.entry import INTERRUPTED, catch_signals, find_stop, report_early_end
from flows.cli.evaluate import evaluate_app
from flows.cli.gc import compact, gc
from flows.cli.judges.audit import audit
from flows.cli.judges.judge_card import judge_card
from flows.cli.judges.label import label_app
from flows.cli.local.graphs import graph_app
from flows.cli.local.mechanism import MECHANISM_HELP, mechanism
from flows.cli.local.models import models_app
from flows.cli.local.paths import paths
from flows.cli.local.replies import replies
from flows.cli.local.worker import worker
from flows.cli.options import (
    CONCURRENCY,
    AsJson,
    Concurrency,
    NewWarehouse,
    Warehouse,
    naming_options,
    print_json,
    print_lines,
)
from flows.cli.releases.release import release
from flows.cli.report import report
from flows.cli.review import review_app
from flows.cli.serve import SERVE_HELP, serve
from flows.cli.spending.forecast import forecast_app
from flows.cli.spending.jobs import jobs_app
from flows.cli.validate import validate_app
from tasks import progress
from tasks.core.rows import MOST
from tasks.errors import FactmillError, UsageError
from tasks.memory import find_shortage
from tasks.options import RunOptions, warehouse_of
from tasks.processes import end_soon, find_noted_shortage
from tasks.text.whole import clean, shorten_middle, whole_text

app = typer.Typer(
    help="Rebuild factuality benchmarks from Wikipedia and Wikidata. Try: factmill build granola",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)
world_app = typer.Typer(help="The embedded world.", no_args_is_help=True)
app.command("audit")(audit)
app.add_typer(build_app, name="build")
app.command("diff")(diff)
app.add_typer(drift_app, name="drift")
app.add_typer(evaluate_app, name="evaluate")
app.add_typer(forecast_app, name="forecast")
app.command("gc")(gc)
app.command("compact")(compact)
app.add_typer(graph_app, name="graph")
app.add_typer(jobs_app, name="jobs")
app.command("judge-card")(judge_card)
app.add_typer(label_app, name="label")
app.command("mechanism", help=MECHANISM_HELP)(mechanism)
app.add_typer(models_app, name="models")
app.command("paths")(paths)
app.command("release")(release)
app.command("report")(report)
app.add_typer(review_app, name="review")
app.command("serve", help=SERVE_HELP)(serve)
app.add_typer(validate_app, name="validate")
app.command("worker")(worker)
app.add_typer(world_app, name="world")
world_app.command("replies")(replies)

_LONGEST_ARGUMENT = 4096
"""Characters of an argument, at most: as many as a path has."""
_LONGEST_MESSAGE = 4000
"""Characters of an error's message that are printed."""
BuildName = Annotated[
    str, typer.Argument(help="A build's id, the beginning of one, or latest:BENCHMARK.", metavar="BUILD")
]
Benchmark = Annotated[str, typer.Argument(metavar="BENCHMARK")]


def main() -> NoReturn:
    """Run the command; errors are told in one line, without a traceback."""
    catch_signals()
    _insist_on_utf8()
    code = _run_command()
    # Prefect's daemon threads outlive the flow, and DuckDB's bindings then complain of leaks for pages while the
    # interpreter is taken down; everything is closed by now, so exit handlers run and the process ends at once.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _insist_on_utf8() -> None:
    """Start over in Python's UTF-8 mode where the locale has another encoding: names of files are UTF-8 everywhere else.

    Arrow, DuckDB and the tools that Prefect starts take names in UTF-8, and the digest of the embedded world holds names.
    """
    if sys.getfilesystemencoding() != "utf-8":
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONUTF8": "1"})


def _check_arguments(arguments: Sequence[str]) -> None:
    """UsageError for an argument that no command can use: what refuses it would repeat all of it."""
    for each in arguments:
        if len(each) > _LONGEST_ARGUMENT:
            raise UsageError(
                f"an argument has {len(each):,} characters; expected {_LONGEST_ARGUMENT:,} at most: {shorten_middle(each)!r}"
            )
        if whole_text(each) != each:
            raise UsageError(f"an argument is not UTF-8: {each!r}; expected UTF-8 in names of files and all else")


def _run_command() -> int:
    code = 0
    try:
        _check_arguments(sys.argv[1:])
        app(standalone_mode=True)
    except BrokenPipeError:
        code = 1
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except Exception as error:  # noqa: BLE001 - a fault of ours, or of the system
        _report_error(error)
        code = error.exit_code if isinstance(error, FactmillError) else 1
    if code == INTERRUPTED or find_stop():
        report_early_end()
        code = find_stop() or INTERRUPTED
    return code


def _report_error(error: Exception) -> None:
    """Print an error in a line; a fault of ours with its whole traceback."""
    is_named = isinstance(error, FactmillError)
    if short := find_shortage(error) or ("" if is_named else find_noted_shortage()):
        # what Prefect does at the end of a process may wait for a thread that never started
        end_soon(short)
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        report_early_end(short)
    elif is_named:
        sys.stderr.write(f"factmill: {clean(shorten_middle(str(error), _LONGEST_MESSAGE))}\n")
    elif isinstance(error, OSError) and (error.filename is not None or error.errno == errno.ENOSPC):
        told = f"cannot read or write {error.filename}: {error.strerror}" if error.filename else f"{error.strerror}"
        if error.errno == errno.ENOSPC:
            told += "; make room (`factmill gc` says what can go) and run the same command again"
        sys.stderr.write(f"factmill: {clean(told)}\n")
    elif not find_stop():  # what an interrupted library makes of a stop is no fault
        traceback.print_exc()


@app.command()
def builds(warehouse: Warehouse = None, as_json: AsJson = False) -> None:
    """List the builds of the warehouse, oldest first."""
    from tasks.reports.texts import shorten_line
    from tasks.storage.builds import list_builds

    found = list_builds(warehouse_of(RunOptions(warehouse=warehouse)))
    if as_json:
        print_json(
            [
                {**b.report, "published_at": b.published_at.isoformat(), "content_digest": b.content_digest}
                for b in found
            ]
        )
        return
    for b in found:
        r = b.report
        typer.echo(
            f"{b.build_id:28} {b.published_at:%Y-%m-%d %H:%M}  {r['rows']:>6} rows  {r['rejects']:>6} rejects  author {shorten_line(r['author'])}  world {shorten_line(r['world'])}"
            + (f"  note: {b.caution}" if b.caution else "")
        )
    if not found:
        typer.echo("no builds yet; try: factmill build granola", err=True)


@app.command()
def show(
    benchmark: Benchmark,
    build_name: Annotated[
        str | None, typer.Option("--build", help="A build; default: the latest.", metavar="BUILD")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="Rows to show.")] = 20,
    relation: Annotated[
        str | None,
        typer.Option(
            "--relation",
            "--part",
            help="Only rows of this part: a relation, a source or a category, whichever the benchmark falls into.",
            metavar="NAME",
        ),
    ] = None,
    rejects: Annotated[bool, typer.Option("--rejects", help="Show what was rejected, and why.")] = False,
    columns: Annotated[bool, typer.Option("--columns", help="Show what each column means.")] = False,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """Show rows of a benchmark's latest build.

    \b
    Examples:
      factmill show granola --relation P19
      factmill show granola --rejects
    """
    from flows.commands.show import show_columns, show_rejects, show_rows
    from flows.evaluate.evaluations import find_record

    progress.show()
    known = find_record(benchmark)
    path = warehouse_of(RunOptions(warehouse=warehouse))
    if columns:
        show_columns(known, as_json)
    elif rejects:
        show_rejects(path, known, build_name, limit, as_json)
    else:
        show_rows(path, known, build_name, limit, relation, as_json)


@app.command()
def explain(
    benchmark: Benchmark,
    row: Annotated[str, typer.Argument(help="A row's id, or the beginning of one.", metavar="ROW")],
    build_name: Annotated[
        str | None, typer.Option("--build", help="A build; default: the latest.", metavar="BUILD")
    ] = None,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """Tell where a row comes from: source, items, statements, calls, verdicts. Works for rejected rows too.

    Example: factmill explain granola P19-3f2a
    """
    from flows.commands.explain import format_trace, trace_row
    from flows.evaluate.evaluations import find_record
    from tasks.storage.builds import find_rejecting
    from tasks.storage.warehouse import open_warehouse

    progress.show()
    known = find_record(benchmark)
    path = warehouse_of(RunOptions(warehouse=warehouse))
    build_id, _ = find_rejecting(path, build_name or f"latest:{benchmark}")
    with open_warehouse(path) as db:
        trace = trace_row(db, known, build_id, row)
    print_json(trace) if as_json else print_lines(format_trace(known, trace))


@app.command()
def verify(
    build_name: BuildName,
    warehouse: Warehouse = None,
    concurrency: Concurrency = CONCURRENCY,
    as_json: AsJson = False,
) -> None:
    """Build again from recorded calls alone and compare the bytes of every published table.

    Exit code 0 only when all agree. Example: factmill verify latest:granola
    """
    from flows.evaluate.evaluations import find_record
    from flows.running import verify_build
    from tasks.storage.builds import find_build

    progress.show()
    with naming_options(RunOptions):
        run = RunOptions(warehouse=warehouse, concurrency=concurrency)
    record = find_build(warehouse_of(run), build_name)
    tables = verify_build(find_record(record.benchmark), record, run)
    agrees = all(table["agrees"] for table in tables.values())
    if as_json:
        print_json({"build_id": record.build_id, "agrees": agrees, "tables": tables})
    else:
        for name, table in tables.items():
            typer.echo(
                f"{name:24} {'identical' if table['agrees'] else 'DIFFERS'}  {str(table['found'])[:16]}  {table['rows']} rows"
            )
        typer.echo(
            f"{record.build_id}: {'rebuilt byte for byte from recorded calls' if agrees else 'does NOT rebuild to the same bytes'}"
        )
    if not agrees:
        raise typer.Exit(1)


@app.command()
def export(
    build_name: BuildName,
    to: Annotated[Path, typer.Option(help="Folder to write to.", metavar="DIR")],
    with_answers: Annotated[bool, typer.Option("--with-answers", help="Write the answers of a test part too.")] = False,
    lm_eval: Annotated[
        Path | None,
        typer.Option(
            "--lm-eval",
            metavar="DIR",
            help="Also write tasks for lm-evaluation-harness (lm_eval --include_path DIR), with the gold answers.",
        ),
    ] = None,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """Write a build's tables as Parquet, CSV and JSON Lines, and its rejects as Parquet.

    Example: factmill export latest:granola --to out/
    """
    from flows.commands.judges.audit import format_figures, measure_build
    from flows.evaluate.evaluations import find_record
    from flows.evaluate.sessions import write_lm_eval
    from tasks.storage.builds import find_build
    from tasks.storage.export import export_build

    progress.show()
    path = warehouse_of(RunOptions(warehouse=warehouse))
    record = find_build(path, build_name)
    benchmark = find_record(record.benchmark)
    held_out = () if with_answers else benchmark.held_out
    audit = format_figures(benchmark, measure_build(path, benchmark, record.build_id))
    files = export_build(path, record, to, benchmark.forms, held_out, audit)
    files += write_lm_eval(path, record, lm_eval) if lm_eval else []
    if as_json:
        told = {"build_id": record.build_id, "caution": record.caution, "held_out": list(held_out)}
        print_json({**told, "files": [str(file) for file in files]})
        return
    print_lines(str(file) for file in files)
    if record.caution:
        typer.echo(f"note: {record.caution}", err=True)
    if held_out:
        typer.echo(
            f"left out, since they hold answers of the test part: {', '.join(held_out)} (--with-answers)", err=True
        )


@app.command()
def prepare() -> None:
    """Make once what every build needs (Prefect's database, the embedded world's store), so that the first is quick."""
    from flows.running import prepare as make_ready

    progress.show()
    make_ready()


@world_app.command("serve")
def world_serve(
    port: Annotated[
        int, typer.Option(min=0, max=65534, help="Port of the app; SPARQL is on the next one. 0: any.")
    ] = 8123,
) -> None:
    """Serve the embedded world on loopback until Ctrl-C: SPARQL, MediaWiki, Pageviews, Falcon."""
    from tasks.settings import home
    from tasks.world.serving import serve_forever

    serve_forever(home(), port)


@app.command()
def doctor(
    world: Annotated[str, typer.Option(help="World to look at.")] = "embedded",
    ask: Annotated[
        bool, typer.Option("--ask", help="Ask each model and service once; models may cost a little.")
    ] = False,
    warehouse: NewWarehouse = None,
    as_json: AsJson = False,
) -> None:
    """Say what is configured, reachable or missing, and what to do about it."""
    from flows.commands.doctor import examine

    findings = examine(world, warehouse_of(RunOptions(warehouse=warehouse)), ask)
    if as_json:
        print_json({"ok": all(f["ok"] for f in findings), "findings": findings})
    else:
        for f in findings:
            advice = [] if f["ok"] else [f"        → {f['advice']}"]
            print_lines([f"{'ok     ' if f['ok'] else 'MISSING'} {f['what']:22} {f['found']}", *advice])
    if not all(f["ok"] for f in findings):
        raise typer.Exit(1)
