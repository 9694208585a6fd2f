"""What the command prints of builds: reports, rows, rejects, columns."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from flows.cli.options import print_json
from flows.commands.judges.audit import format_figures, measure_build
from tasks.core.rows import column_docs
from tasks.core.service_settings import SCRIPTED
from tasks.engine.benchmark import Benchmark
from tasks.engine.since.checking import tell_since
from tasks.errors import OldBuild
from tasks.options import BuildReport
from tasks.reports.texts import shorten_line
from tasks.storage.builds import describe_scripted, find_build, find_rejecting
from tasks.storage.warehouse import open_warehouse, read_records
from tasks.text.whole import clean, shorten_middle

_MOST_DETAIL = 300
"""Characters of a reject's detail in a table."""
_MOST_CELL = 2000
"""Characters of a cell: laying out one of a million takes minutes; --json has all of it."""
_IDENTIFIER = re.compile(r"[QP][0-9]+(?:-|$)")
"""Of an item, a property or a statement."""


def format_report(report: BuildReport) -> list[str]:
    """Return a build's report as lines to read."""
    how = "made again, the same as before: confirmed" if report.confirmed else "published"
    how = "already built from the same inputs" if report.up_to_date else how
    lines = [f"{report.build_id}: {'no row is published' if report.nothing_published else how} in {report.warehouse}"]
    opened = f" + {report.opened} opened from them" if report.opened else ""
    lines.append(
        f"  {report.inputs} source rows{opened} = {report.rows} published + {report.rejects} rejected + {report.merged} merged"
        f"   (world {report.world}, author {report.author})"
    )
    for stage in report.stages:
        lines.append(
            f"  {stage['stage']:32} {stage['rows_in']:>7} in {stage['rows_out']:>7} out {stage['rejects']:>7} rejected"
        )
        lines += [f"      {count:>7} {reason}" for reason, count in report.reasons.get(stage["stage"], {}).items()]
    for name, value in report.facts.items():
        lines += _format_shape(value) if name == "shape" else [f"  {name}: {json.dumps(value)}"]
    lines.append(
        f"  calls: {report.calls_sent} sent, {report.calls_replayed} replayed; tokens {report.tokens_in} in, {report.tokens_out} out; "
        f"{report.format_cost()}; {report.seconds:.1f} s"
    )
    lines += _format_forecast(report.forecast)
    lines += [f"  since {tell_since(report.since)}"] if report.since else []
    lines += map(_format_replies, report.replies, report.replies.values())
    lines += [f"  note: {note}" for note in report.notes]
    if report.caution:
        lines.append(f"  note: {report.caution}")
    elif report.author.startswith(SCRIPTED):
        lines.append(f"  note: answers and scores are {report.author}, written beforehand; no model was asked")
    if report.scripted:
        lines.append(f"  note: {describe_scripted(report.scripted)}")
    if report.unsettled:
        lines.append(
            f"  note: {report.unsettled} rows were lost to passing failures; the same command tries them again"
        )
    if report.rows:
        shown = f"factmill show {report.benchmark}, factmill verify {report.build_id}"
        lines.append(f"  next: {shown}, factmill export {report.build_id} --to DIR")
    return lines


def _format_forecast(told: Mapping[str, Any]) -> list[str]:
    """Return what was forecast beside what it came to, in a line; none where nothing was."""
    if "actual" not in told:
        return []
    total, actual = told["total"], told["actual"]
    return [
        f"  forecast of {told['made_at'][:10]}: {total['calls']:,.0f} calls, US$ {total['usd']:.4f} ({told['low']['usd']:.4f} to "
        f"{told['high']['usd']:.4f}); actual: {actual['calls']:,.0f} calls, US$ {actual['usd']:.4f}"
    ]


def _format_replies(service: str, told: Mapping[str, Any]) -> str:
    """Return how old the replies of a live service are, in a line."""
    came = f"{told['oldest'][:16]} to {told['newest'][:16]} UTC, {told['asked']} asked by this build"
    kept = f"; {told['too_old']} are too old, kept since the service fails" if told["too_old"] else ""
    return f"  replies of {shorten_line(service)}: {told['calls']}, from {came}{kept}"


def _format_shape(shape: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the build's shape beside the paper's, a line a figure."""
    return [
        f"  {name}: {'no data' if figure['here'] is None else figure['here']} (n = {figure['n']}; paper {figure['paper']})"
        for name, figure in shape.items()
    ]


def show_rows(
    warehouse: Path, known: Benchmark, build: str | None, limit: int, part: str | None, as_json: bool
) -> None:
    """Print rows of the published table, spread over its parts (relations, sources) when none is named."""
    record = find_build(warehouse, build or f"latest:{known.name}")
    order = "id" if part else f"row_number() OVER (PARTITION BY {known.part} ORDER BY id), id"
    with open_warehouse(warehouse) as db:
        there = db.table(known.main_table).columns
        if lacking := [column for column in (known.part, *known.shown) if column not in there]:
            raise OldBuild(
                f"{record.build_id} was made by an earlier factmill, which wrote no {', '.join(dict.fromkeys(lacking))} into "
                f"{known.main_table}; make it again with the same command: recorded replies are not asked for again"
            )
        rows = read_records(
            db,
            f"SELECT * EXCLUDE (build_id) FROM {known.main_table} WHERE build_id = $1 AND ($2 IS NULL OR {known.part} = $2) "
            f"ORDER BY {order} LIMIT $3",
            record.build_id,
            part,
            limit,
        )
    if as_json:
        print_json({"build_id": record.build_id, "caution": record.caution, "rows": rows})
        return
    note = f"; {record.caution}" if record.caution else ""
    print_rows(
        f"{record.build_id}, {len(rows)} of {record.report['rows']} rows (author {record.report['author']}{note})",
        known.shown,
        rows,
    )
    for line in format_figures(known, measure_build(warehouse, known, record.build_id)):
        typer.echo(line)


def show_rejects(warehouse: Path, known: Benchmark, build: str | None, limit: int, as_json: bool) -> None:
    """Print rejected rows with stage and reason, spread over the reasons; of a run that published nothing too."""
    build_id, rejects = find_rejecting(warehouse, build or f"latest:{known.name}")
    with open_warehouse(warehouse) as db:
        rows = read_records(
            db,
            "SELECT stage, id, reason, detail FROM rejects WHERE build_id = ? "
            "ORDER BY row_number() OVER (PARTITION BY stage, reason ORDER BY id), stage, reason LIMIT ?",
            build_id,
            limit,
        )
    if as_json:
        print_json({"build_id": build_id, "rejects": rows})
        return
    print_rows(
        f"{build_id}, {len(rows)} of {rejects} rejects",
        dict.fromkeys(("stage", "id", "reason", "detail")),
        [{**row, "detail": _shorten(row["detail"])} for row in rows],
    )


def show_columns(known: Benchmark, as_json: bool) -> None:
    """Print what each column of the published table means."""
    docs = column_docs(known.row)
    if as_json:
        print_json(docs)
        return
    print_rows(
        known.main_table,
        dict.fromkeys(("column", "meaning")),
        [{"column": name, "meaning": text} for name, text in docs.items()],
    )


def print_rows(title: str, columns: Mapping[str, str | None], rows: list[dict[str, Any]]) -> None:
    """Print rows as a table as wide as the terminal; `columns`: name → heading (None: the name)."""
    table = Table(title=clean(title), box=box.SIMPLE_HEAD, header_style="bold", title_justify="left", pad_edge=False)
    for column, heading in columns.items():
        table.add_column(heading or column, no_wrap=column == "id", overflow="fold")
    for row in rows:
        table.add_row(*(clean(shorten_middle(_cell(row[column]), _MOST_CELL)) for column in columns))
    Console(highlight=False, markup=False).print(table)


def _shorten(detail: str) -> str:
    flat = " ".join(detail.split())
    return flat if len(flat) <= _MOST_DETAIL else f"{flat[:_MOST_DETAIL]}… (all of it: --json)"


def _cell(value: Any) -> str:
    if isinstance(value, list):
        between = "; " if any(isinstance(each, dict) for each in value) else " → "
        return between.join(map(_cell, value))
    if isinstance(value, dict):  # a piece of knowledge, in words; `explain` and --json have the identifiers too
        return " ".join(each for each in value.values() if isinstance(each, str) and not _IDENTIFIER.match(each))
    if isinstance(value, float):
        return f"{value:.2f}"
    return "" if value is None else str(value)
