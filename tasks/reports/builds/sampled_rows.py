"""Rows of a build for its page: sampled if there are many, each with its provenance, shortened to fit the page."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from html import escape
from itertools import groupby
from typing import Any

from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.errors import BuildFormatTooOld
from factmill.tasks.reports.builds.build_page import (
    BuildPageCall,
    BuildPageReject,
    BuildPageRow,
    BuildPageVisibility,
    RowProvenance,
)
from factmill.tasks.reports.builds.tracing import (
    TraceRecord,
    format_traced_row_and_companions,
    get_call_settings_variables_reply,
    load_row_traces,
)
from factmill.tasks.reports.formatting import format_column_value, format_column_value_without_ids
from factmill.tasks.reports.item_browser import shorten_with_note
from factmill.tasks.reports.page_frame import MAX_INDEXED_ROWS, SearchablePageRows, pack_rows_for_page_search
from factmill.tasks.storage.recording.call_records import parse_rejected_row
from factmill.tasks.storage.warehouse import Connection, query_rows
from factmill.tasks.text.sanitize import escape_control_characters

MAX_PAGE_ROWS = 400
MAX_PAGE_ROW_BYTES = 2_600_000
"""Maximum bytes of the rows' texts on a page."""
_ROWS_PER_READ = 50
"""Number of rows whose calls are loaded at once."""
_CALLS_PER_OPERATION = 2
"""Maximum number of calls shown for each stage and operation of a row."""
_MAX_LINE_CHARACTERS, _MAX_CALL_CHARACTERS = 1_000, 300
"""Maximum characters of a line, and of a call's request or reply."""
_MAX_PROVENANCE_LINES, _MAX_CALL_VARIABLES = 60, 8
_MAX_FILTER_VALUES, _MAX_FILTER_VALUE_CHARACTERS = 12, 24
"""Maximum number of values, and their characters, of a column that serves as filter."""
_CALL_OVERHEAD_BYTES = 220
"""Bytes of a call on the page in addition to its texts."""
_HELD_OUT_NOTE = "Answers of the test part are held out, so this row's companion rows and calls are not shown."


def sample_row_ids_with_total(
    db: Connection, benchmark: Benchmark, build_id: str, shown: BuildPageVisibility
) -> tuple[list[str], int]:
    """Return a sample of row ids in the order of drawing, and the total number of rows.

    Rows are drawn by a digest of their ids, evenly over the benchmark's parts, so that the same build gives the same
    sample on any machine.
    """
    table = benchmark.main_table
    part = f'CAST("{benchmark.group_column}" AS VARCHAR)' if benchmark.group_column in db.table(table).columns else "''"
    named = "" if shown.rows is None else "AND id IN (SELECT unnest($2))"
    values: list[Any] = [build_id] if shown.rows is None else [build_id, sorted(shown.rows)]
    (counted,) = query_rows(db, f"SELECT count(*) AS rows FROM {table} WHERE build_id = $1 {named}", *values)
    drawn = query_rows(
        db,
        f"SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY {part} ORDER BY md5(id), id) AS place "
        f"FROM {table} WHERE build_id = $1 {named}) ORDER BY place, md5(id), id LIMIT {MAX_PAGE_ROWS}",
        *values,
    )
    return [each["id"] for each in drawn], counted["rows"]


def load_page_rows_and_errors(
    db: Connection, benchmark: Benchmark, build_id: str, ids: Sequence[str], shown: BuildPageVisibility
) -> tuple[list[BuildPageRow], list[str]]:
    """Return the first of these rows that fit on a page, sorted by id, and the errors of unexplained rows."""
    entries: list[BuildPageRow] = []
    values: dict[str, dict[str, str]] = {}
    room = MAX_PAGE_ROW_BYTES
    faults: dict[str, None] = {}
    for some in _batch_row_ids(ids):
        for trace in load_row_traces(db, benchmark, build_id, some):
            entry = BuildPageRow(
                id=trace["id"],
                shown={
                    heading: shorten_with_note(
                        _format_display_column(benchmark, trace["row"], name), _MAX_LINE_CHARACTERS
                    )
                    for name, heading in benchmark.display_columns.items()
                    if name != "id"
                },
                groups={},
                chain=_make_row_provenance(
                    benchmark, trace, faults, _HELD_OUT_NOTE if trace["id"] in shown.unanswered else ""
                ),
            )
            room -= _estimate_row_bytes(entry)
            if room < 0 and entries:
                return _sort_and_add_filter_groups(entries, values, benchmark), list(faults)
            entries.append(entry)
            values[entry.id] = {
                name: (value or "")[:100]
                for name, value in trace["row"].items()
                if name != "id" and (value is None or isinstance(value, str))
            }
    return _sort_and_add_filter_groups(entries, values, benchmark), list(faults)


def load_all_rows_for_page_search(
    db: Connection, benchmark: Benchmark, build_id: str, sample: Sequence[BuildPageRow], shown: BuildPageVisibility
) -> SearchablePageRows:
    """Return all rows that may be shown, the first by id if there are too many, for the page's search: id, the values that
    the page shows, and those of the sample's filters."""
    filters = list(sample[0].groups) if sample else []
    columns = {name: heading for name, heading in benchmark.display_columns.items() if name != "id"}
    there = db.table(benchmark.main_table).columns
    named = "" if shown.rows is None else "AND id IN (SELECT unnest($2))"
    values: list[Any] = [build_id] if shown.rows is None else [build_id, sorted(shown.rows)]
    named_columns = ", ".join(f'"{each}"' for each in dict.fromkeys(["id", *columns, *filters]) if each in there)
    listed = "*" if benchmark.display_texts else named_columns
    found = query_rows(
        db,
        f"SELECT {listed} FROM {benchmark.main_table} WHERE build_id = $1 {named} ORDER BY id LIMIT {MAX_INDEXED_ROWS}",
        *values,
    )
    return pack_rows_for_page_search(
        ["id", *columns.values()],
        filters,
        (
            [
                row["id"],
                *(_format_display_column(benchmark, row, name) for name in columns),
                *(shorten_with_note((row.get(name) or "")[:100] or "–", 80) for name in filters),
            ]
            for row in found
        ),
    )


def _format_display_column(benchmark: Benchmark, row: Mapping[str, Any], name: str) -> str:
    if name in benchmark.display_texts:
        return benchmark.display_texts[name](row)
    return format_column_value_without_ids(row.get(name), " → " if name in benchmark.ordered_list_columns else " · ")


def load_page_rejects(
    db: Connection, benchmark: Benchmark, build_id: str, most: int, shown: BuildPageVisibility
) -> dict[tuple[str, str], tuple[BuildPageReject, ...]]:
    """Return (stage, reason) → its first `most` rejected rows by id."""
    first = query_rows(
        db,
        "SELECT stage, reason, id FROM rejects WHERE build_id = ? "
        "QUALIFY row_number() OVER (PARTITION BY stage, reason ORDER BY id, detail) <= ? ORDER BY ALL",
        build_id,
        most,
    )
    ids = sorted({each["id"] for each in first})
    traces = {
        trace["id"]: trace for some in _batch_row_ids(ids) for trace in load_row_traces(db, benchmark, build_id, some)
    }
    return {
        where: tuple(_make_page_reject(benchmark, traces[each["id"]], shown) for each in group)
        for where, group in groupby(first, key=lambda each: (each["stage"], each["reason"]))
    }


def format_utc_minute(moment: datetime) -> str:
    """Format a moment in UTC, to the minute."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _make_page_reject(benchmark: Benchmark, trace: TraceRecord, shown: BuildPageVisibility) -> BuildPageReject:
    if shown.withheld:
        chain = RowProvenance((), (), _make_explain_command(benchmark, trace), shown.withheld)
        return BuildPageReject(escape_control_characters(trace["id"]), "", chain)
    reject = trace["reject"]
    row = tuple(_format_reject_fields(reject["row"])) if reject["row"] else ()
    calls = tuple(_iterate_first_calls_of_each_operation(trace["calls"]))
    return BuildPageReject(
        shorten_with_note(trace["id"], 200),
        shorten_with_note(reject["detail"], _MAX_LINE_CHARACTERS),
        RowProvenance(row, calls, _make_explain_command(benchmark, trace)),
    )


def _format_reject_fields(row: str) -> Iterator[str]:
    """Yield the non-empty fields of a rejected row as the stage received it; a row without fields gives one line."""
    received = parse_rejected_row(row)
    if not isinstance(received, Mapping):
        yield f"  {shorten_with_note(format_column_value(received), _MAX_CALL_CHARACTERS)}"
        return
    for name, value in list(received.items())[:_MAX_PROVENANCE_LINES]:
        if value not in (None, "", [], {}):
            yield f"  {shorten_with_note(name, 60)}: {shorten_with_note(format_column_value(value), _MAX_CALL_CHARACTERS)}"


def _make_row_provenance(
    benchmark: Benchmark, trace: TraceRecord, faults: dict[str, None], withheld: str
) -> RowProvenance:
    if withheld:
        trace = {**trace, "beside": {table: [] for table in trace["beside"]}, "calls": []}
    try:
        lines = format_traced_row_and_companions(benchmark, trace)
    except BuildFormatTooOld as error:  # still show the row, without its explanation
        faults[str(error)] = None
        lines = []
    shown = [shorten_with_note(line.rstrip(), _MAX_LINE_CHARACTERS) for line in lines[:_MAX_PROVENANCE_LINES]]
    if len(lines) > _MAX_PROVENANCE_LINES:
        shown.append(f"  … {len(lines) - _MAX_PROVENANCE_LINES:,} more lines")
    return RowProvenance(
        tuple(shown),
        tuple(_iterate_first_calls_of_each_operation(trace["calls"])),
        _make_explain_command(benchmark, trace),
        withheld,
    )


def _make_explain_command(benchmark: Benchmark, trace: TraceRecord) -> str:
    row_id = trace["id"] if len(trace["id"]) <= 200 else trace["id"][:60]
    return escape_control_characters(
        f"factmill explain {benchmark.name} {shlex.quote(row_id)} --build {trace['build']}"
    )


def _iterate_first_calls_of_each_operation(calls: Sequence[TraceRecord]) -> Iterator[BuildPageCall]:
    """Yield the first distinct calls of each stage and operation, in their original order."""
    kinds: dict[tuple[str, str], dict[str, TraceRecord]] = {}
    for call in calls:
        kinds.setdefault((call["stage"], call["operation"]), {})[call["key"]] = call
    for (stage, operation), of_kind in kinds.items():
        same = list(of_kind.values())
        for place, call in enumerate(same[:_CALLS_PER_OPERATION], 1):
            yield BuildPageCall(
                stage=stage,
                operation=operation,
                service=shorten_with_note(call["service"], 100),
                at=format_utc_minute(call["asked_at"]),
                key=call["key"][:12],
                asked=tuple(_iterate_call_settings_and_variables(call)),
                replied=_format_call_reply(call),
                failed=call["status"] != "ok",
                taken_off=shorten_with_note(call["taken_off"] or "", _MAX_CALL_CHARACTERS),
                more=len(same) - place if place == _CALLS_PER_OPERATION else 0,
            )


def _iterate_call_settings_and_variables(call: TraceRecord) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of a call's request: its settings under an empty name, then the variables of its prompt."""
    what, asked, _ = get_call_settings_variables_reply(call)
    settings = ", ".join(
        f"{name} {format_column_value(value)}" for name, value in what.items() if value not in (None, "", [], {})
    )
    yield "", shorten_with_note(settings, _MAX_CALL_CHARACTERS)
    for name, value in list(asked.items())[:_MAX_CALL_VARIABLES]:
        yield shorten_with_note(str(name), 60), shorten_with_note(format_column_value(value), _MAX_CALL_CHARACTERS)


def _format_call_reply(call: TraceRecord) -> str:
    """Return a call's reply: a model's texts as they are, other bodies as JSON, or the error."""
    body = call["body"]
    texts = body.get("texts") if isinstance(body, dict) else [body]
    if call["status"] == "ok" and isinstance(texts, list) and texts and all(isinstance(each, str) for each in texts):
        return shorten_with_note(" · ".join(texts), _MAX_CALL_CHARACTERS)
    return shorten_with_note(get_call_settings_variables_reply(call)[2] or "", _MAX_CALL_CHARACTERS)


def _estimate_row_bytes(entry: BuildPageRow) -> int:
    """Estimate the bytes that a row takes on the page."""
    calls = entry.chain.calls
    texts = [*entry.shown.values(), *entry.chain.lines, *(call.replied for call in calls)]
    texts += [text for call in calls for pair in call.asked for text in pair]
    return sum(len(escape(text).encode("utf-8", "replace")) for text in texts) + _CALL_OVERHEAD_BYTES * (len(calls) + 3)


def _batch_row_ids(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the ids in batches, in their order."""
    for start in range(0, len(ids), _ROWS_PER_READ):
        yield ids[start : start + _ROWS_PER_READ]


def _sort_and_add_filter_groups(
    rows: Sequence[BuildPageRow], values: Mapping[str, Mapping[str, str]], benchmark: Benchmark
) -> list[BuildPageRow]:
    """Return the rows in natural order of their ids, with filter groups from the benchmark's parts and the columns with few,
    short values; what is a group, or the label of one, is not shown again."""
    found: dict[str, set[str]] = {}
    for row in rows:
        for name, value in values[row.id].items():
            found.setdefault(name, set()).add(value)
    labels_of_groups = {
        f"{column}_label"
        for column, known in benchmark.value_labels().items()
        if found.get(column, set()) <= known.keys()
    }
    kept = [
        name
        for name, each in found.items()
        if len(each) > 1
        and name not in labels_of_groups
        and (
            name == benchmark.group_column
            or (
                len(each) <= min(_MAX_FILTER_VALUES, len(rows) // 2)
                and all(len(value) <= _MAX_FILTER_VALUE_CHARACTERS for value in each)
            )
        )
    ]
    repeated = {benchmark.display_columns.get(name) for name in kept}
    return [
        replace(
            row,
            id=shorten_with_note(row.id, 200),
            shown={heading: text for heading, text in row.shown.items() if heading not in repeated},
            groups={name: shorten_with_note(values[row.id].get(name) or "–", 80) for name in kept},
        )
        for row in sorted(rows, key=lambda each: (_make_natural_sort_key(each.id), each.id))
    ]


def _make_natural_sort_key(row_id: str) -> list[tuple[int, str]]:
    """Return a key that sorts texts with numbers by the numbers: pairs_2 before pairs_10."""
    parts = re.split("([0-9]+)", row_id)  # every second part is a number
    return [(len(part.lstrip("0")), part.lstrip("0")) if at % 2 else (0, part) for at, part in enumerate(parts)]
