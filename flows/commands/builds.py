"""`factmill show` (and its alias `builds`), `verify`, `export`: list, show, rebuild and export the warehouse's builds."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from factmill.flows import build_runner
from factmill.flows.cli.options import (
    BuildArgument,
    BuildOption,
    JsonOption,
    WarehouseOption,
    print_build_choice_note,
    print_json,
    print_lines_escaping_control_characters,
    print_result,
    raising_bad_parameter,
    resolve_benchmark_and_build_name,
)
from factmill.flows.commands.human_review import compute_build_audit_results, format_audit_results
from factmill.flows.evaluate.evaluations import get_benchmark_or_evaluation
from factmill.flows.evaluate.sessions import write_lm_eval_tasks
from factmill.tasks import progress
from factmill.tasks.core.rows import MAX_SETTING_NUMBER, column_docs
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.engine.failures import WAITING_REASON
from factmill.tasks.errors import BuildFormatTooOld, UnknownBuild, UsageError
from factmill.tasks.options import RunOptions, resolve_warehouse_path
from factmill.tasks.reports.formatting import shorten_line
from factmill.tasks.storage.builds import (
    list_builds,
    resolve_build,
    resolve_build_and_latest_choice_note,
    resolve_build_id_and_reject_count,
)
from factmill.tasks.storage.housekeeping.warehouse_cleanup import find_process_using_warehouse
from factmill.tasks.storage.warehouse import open_warehouse, query_rows
from factmill.tasks.text.sanitize import escape_control_characters, shorten_middle

_CONCURRENCY = RunOptions.model_fields["concurrency"]


def builds(warehouse: WarehouseOption = None, as_json: JsonOption = False) -> None:
    """List the builds of the warehouse, oldest first."""
    path = resolve_warehouse_path(RunOptions(warehouse=warehouse))
    found = list_builds(path)
    reports = [
        {**b.report, "published_at": b.published_at.isoformat(), "content_digest": b.content_digest} for b in found
    ]
    lines = []
    for b in found:
        r = b.report
        author = f"author {shorten_line(r['author'])}  " if r["author"] else ""
        lines.append(
            f"{b.build_id:28} {b.published_at:%Y-%m-%d %H:%M}  {r['rows']:>6} rows  {r['rejects']:>6} rejects  {author}world {shorten_line(r['world'])}"
            + (f"  note: {b.caution}" if b.caution else "")
        )
    now = "" if found else find_process_using_warehouse(path)
    none = f"no builds yet; {now} is running" if now else "no builds yet; make one: `factmill build granola`"
    print_result(as_json, reports, lines, "" if found else none)


def verify(
    build_name: BuildArgument,
    warehouse: WarehouseOption = None,
    concurrency: int = typer.Option(_CONCURRENCY.default, help=_CONCURRENCY.description),
    as_json: JsonOption = False,
) -> None:
    """Repeat a build from its recorded calls and compare all bytes.

    The exit code is 0 only if the bytes of every table are identical.

    Example: factmill verify latest:granola
    """
    progress.set_progress_style()
    with raising_bad_parameter(RunOptions):
        run = RunOptions(warehouse=warehouse, concurrency=concurrency)
    record = resolve_build(resolve_warehouse_path(run), build_name)
    tables = build_runner.verify_build_by_replay(get_benchmark_or_evaluation(record.benchmark), record, run)
    agrees = all(table["agrees"] for table in tables.values())
    lines = [
        f"{name:24} {'identical' if table['agrees'] else 'DIFFERS'}  {str(table['found'])[:16]}  {table['rows']} rows"
        for name, table in tables.items()
    ]
    how = "rebuilt byte for byte from recorded calls" if agrees else "does NOT rebuild to the same bytes"
    result = {"build_id": record.build_id, "agrees": agrees, "tables": tables}
    print_result(as_json, result, [*lines, f"{record.build_id}: {how}"])
    if not agrees:
        raise typer.Exit(1)


def export(
    build_name: BuildArgument,
    to: Path = typer.Option(..., help="Folder to write to; created if it does not exist.", metavar="DIR"),
    with_answers: bool = typer.Option(False, "--with-answers", help="Also write the hidden answers of the test split."),
    lm_eval: Path | None = typer.Option(
        None,
        "--lm-eval",
        metavar="DIR",
        help="Also write tasks for lm-evaluation-harness to this folder, with the gold answers (then: lm_eval --include_path DIR).",
    ),
    warehouse: WarehouseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a build's tables as Parquet, CSV and JSON Lines.

    Rejected rows are written as Parquet only.

    Example: factmill export latest:granola --to out/
    """
    from factmill.tasks.storage.export import export_build  # takes half a second, for pandas

    progress.set_progress_style()
    path = resolve_warehouse_path(RunOptions(warehouse=warehouse))
    record, choice = resolve_build_and_latest_choice_note(path, build_name)
    benchmark = get_benchmark_or_evaluation(record.benchmark)
    held_out = () if with_answers else benchmark.held_out_tables
    audit = format_audit_results(benchmark, compute_build_audit_results(path, benchmark, record.build_id))
    files = export_build(path, record, to, benchmark.forms, held_out, audit)
    files += write_lm_eval_tasks(path, record, lm_eval) if lm_eval else []
    paths = [str(file) for file in files]
    result = {"build_id": record.build_id, "caution": record.caution, "held_out": list(held_out), "files": paths}
    without = (
        f"left out because they hold answers of the test split: {', '.join(held_out)} (--with-answers writes them)"
    )
    print_result(as_json, result, paths, record.caution and f"note: {record.caution}", without if held_out else "")
    print_build_choice_note(choice)


def show(
    benchmark: Annotated[
        str | None,
        typer.Argument(
            metavar="[BENCHMARK]",
            help="Benchmark or evaluation to show, such as granola or granola_evaluation. Default: list all builds, oldest first.",
        ),
    ] = None,
    build_name: BuildOption = None,
    limit: int = typer.Option(20, min=1, max=MAX_SETTING_NUMBER, help="Maximum number of rows to show."),
    part: str | None = typer.Option(
        None, "--part", help="Only rows of this part of the benchmark: a relation, source or category.", metavar="NAME"
    ),
    rejects: bool = typer.Option(False, "--rejects", help="Show rejected rows with their reasons."),
    columns: bool = typer.Option(False, "--columns", help="Show the meaning of each column."),
    warehouse: WarehouseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show rows of a benchmark's latest build, or list the builds.

    \b
    Examples:
      factmill show
      factmill show granola --part P19
      factmill show granola --rejects
    """
    progress.set_progress_style()
    if benchmark is None:
        if build_name or part or rejects or columns:
            raise UsageError(
                "--build, --part, --rejects and --columns need a benchmark; for example: `factmill show granola --columns`"
            )
        return builds(warehouse, as_json)
    benchmark, build_name = resolve_benchmark_and_build_name(benchmark, build_name)
    known = get_benchmark_or_evaluation(benchmark)
    path = resolve_warehouse_path(RunOptions(warehouse=warehouse))
    if columns:
        docs = column_docs(known.main_row_model)
        shown = [{"column": name, "meaning": text} for name, text in docs.items()]
        print_json(docs) if as_json else print_terminal_table(
            known.main_table, {"column": None, "meaning": None}, shown
        )
    elif rejects:
        _show_rejects(path, known, build_name, limit, as_json)
    else:
        _show_rows(path, known, build_name, limit, part, as_json)
    return None


_MAX_DETAIL_CHARACTERS = 300
"""Maximum characters of a reject's detail in a table."""
_MAX_TABLE_CELL_CHARACTERS = 2000
"""Maximum characters of a cell: laying out a million takes minutes; --json prints the full value."""
_WIKIDATA_ID = re.compile(r"[QP][0-9]+(?:-|$)")
"""Matches the id of an item, a property or a statement."""


def _show_rows(
    warehouse: Path, known: Benchmark, build: str | None, limit: int, part: str | None, as_json: bool
) -> None:
    """Print rows of the published table; if `part` is None, a balanced choice over its parts (relations, sources)."""
    try:
        record, choice = resolve_build_and_latest_choice_note(warehouse, build or f"latest:{known.name}")
    except UnknownBuild as error:
        if now := find_process_using_warehouse(warehouse):
            raise UnknownBuild(f"{error}. At present {now} is running; its rows are there when it ends") from None
        raise
    order = "id" if part else f"row_number() OVER (PARTITION BY {known.group_column} ORDER BY id), id"
    with open_warehouse(warehouse) as db:
        there = db.table(known.main_table).columns
        if lacking := [column for column in (known.group_column, *known.display_columns) if column not in there]:
            raise BuildFormatTooOld(
                f"{record.build_id} is from an earlier factmill version: {known.main_table} lacks the columns "
                f"{', '.join(dict.fromkeys(lacking))}; build it again with the same command, which uses the recorded replies"
            )
        rows = query_rows(
            db,
            f"SELECT * EXCLUDE (build_id) FROM {known.main_table} WHERE build_id = $1 AND ($2 IS NULL OR {known.group_column} = $2) "
            f"ORDER BY {order} LIMIT $3",
            record.build_id,
            part,
            limit,
        )
        if part and not rows:
            found = query_rows(
                db,
                f"SELECT DISTINCT {known.group_column} AS part FROM {known.main_table} WHERE build_id = $1 ORDER BY part",
                record.build_id,
            )
            parts = ", ".join(str(each["part"]) for each in found)
            raise UsageError(
                f"--part {part}: no row of {record.build_id} has this {known.group_column}; it has: {parts}"
            )
    if as_json:
        print_json({"build_id": record.build_id, "caution": record.caution, "rows": rows})
        print_build_choice_note(choice)
        return
    for row in rows:
        row |= {column: make_text(row) for column, make_text in known.display_texts.items()}
    author = record.report["author"]
    notes = "; ".join(filter(None, [author and f"author {author}", record.caution]))
    print_terminal_table(
        f"{record.build_id}, {len(rows)} of {record.report['rows']} rows{f' ({notes})' if notes else ''}",
        known.display_columns,
        rows,
        known.ordered_list_columns,
    )
    print_lines_escaping_control_characters(
        format_audit_results(known, compute_build_audit_results(warehouse, known, record.build_id))
    )
    if part is None and len(rows) < record.report["rows"]:
        print_lines_escaping_control_characters(
            [f"more rows: --limit N; all of them, as files: factmill export {record.build_id} --to DIR"]
        )
    print_build_choice_note(choice)


def _show_rejects(warehouse: Path, known: Benchmark, build: str | None, limit: int, as_json: bool) -> None:
    """Print rejects with stage and reason, balanced over the reasons; also for a run that published nothing."""
    build_id, rejects = resolve_build_id_and_reject_count(warehouse, build or f"latest:{known.name}")
    with open_warehouse(warehouse) as db:
        rows = query_rows(
            db,
            "SELECT stage, id, reason, detail FROM rejects WHERE build_id = ? "
            "ORDER BY row_number() OVER (PARTITION BY stage, reason ORDER BY id), stage, reason LIMIT ?",
            build_id,
            limit,
        )
    if as_json:
        print_json({"build_id": build_id, "rejects": rows})
        return
    for row in rows:
        flat = " ".join(row["detail"].split())
        row["detail"] = (
            flat
            if len(flat) <= _MAX_DETAIL_CHARACTERS
            else f"{flat[:_MAX_DETAIL_CHARACTERS]}… (--json prints all of it)"
        )
        if row["reason"] == WAITING_REASON:
            row["detail"] += f"; to decide: factmill review {build_id} --serve"
    columns = dict.fromkeys(("stage", "id", "reason", "detail"))
    print_terminal_table(f"{build_id}, {len(rows)} of {rejects} rejects", columns, rows)


def print_terminal_table(
    title: str, columns: Mapping[str, str | None], rows: list[dict[str, Any]], ordered: Collection[str] = ()
) -> None:
    """Print rows as a table of the terminal's width. `columns`: name → heading (None: the name); `ordered`: columns
    whose lists are sequences, joined by arrows."""
    table = Table(
        title=escape_control_characters(title),
        box=box.SIMPLE_HEAD,
        header_style="bold",
        title_justify="left",
        pad_edge=False,
    )
    for column, heading in columns.items():
        table.add_column(heading or column, no_wrap=column == "id", overflow="fold")
    for row in rows:
        table.add_row(
            *(
                escape_control_characters(
                    shorten_middle(
                        _format_terminal_cell(row[column], " → " if column in ordered else "; "),
                        _MAX_TABLE_CELL_CHARACTERS,
                    )
                )
                for column in columns
            )
        )
    Console(highlight=False, markup=False).print(table)


def _format_terminal_cell(value: Any, between: str = "; ") -> str:
    if isinstance(value, list):
        return between.join(map(_format_terminal_cell, value))
    if isinstance(value, dict):  # without identifiers, which `explain` and --json show
        return " ".join(each for each in value.values() if isinstance(each, str) and not _WIKIDATA_ID.match(each))
    if isinstance(value, float):
        return f"{value:.2f}"
    return "" if value is None else str(value)
