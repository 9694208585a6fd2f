"""Rows of a build for its page: sampled if there are many, each with its provenance, shortened to fit the page."""

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from html import escape
from itertools import groupby
from typing import Any

from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.errors import OldBuild
from factmill.tasks.reports.builds.contents import CallTold, Chain, RejectTold, RowTold, Shown
from factmill.tasks.reports.builds.tracing import Record, explain_trace, tell_call, trace_rows
from factmill.tasks.reports.entries import shorten
from factmill.tasks.storage.recording.records import read_rejected
from factmill.tasks.storage.warehouse import Connection, read_records
from factmill.tasks.text.whole import clean

MOST_ROWS = 400
MOST_BYTES = 2_600_000
"""Maximum bytes of the rows' texts on a page."""
_AT_ONCE = 50
"""Number of rows whose calls are loaded at once."""
_CALLS = 2
"""Maximum number of calls shown for each stage and operation of a row."""
_LONGEST, _LONG_CALL = 1_000, 300
"""Maximum characters of a line, and of a call's request or reply."""
_MOST_LINES, _MOST_ASKED = 60, 8
_MOST_VALUES, _LONG_VALUE = 12, 24
"""Maximum number of values, and their characters, of a column that serves as filter."""
_OF_A_CALL = 220
"""Bytes of a call on the page in addition to its texts."""
_HELD_OUT = "Answers of the test part are held out: neither what this row rests on nor its calls are told here."


def draw_ids(db: Connection, benchmark: Benchmark, build_id: str, shown: Shown) -> tuple[list[str], int]:
    """Return a sample of row ids in the order of drawing, and the total number of rows.

    Rows are drawn by a digest of their ids, evenly over the benchmark's parts, so that the same build gives the same
    sample on any machine.
    """
    table = benchmark.main_table
    part = f'CAST("{benchmark.part}" AS VARCHAR)' if benchmark.part in db.table(table).columns else "''"
    named = "" if shown.rows is None else "AND id IN (SELECT unnest($2))"
    values: list[Any] = [build_id] if shown.rows is None else [build_id, sorted(shown.rows)]
    (counted,) = read_records(db, f"SELECT count(*) AS rows FROM {table} WHERE build_id = $1 {named}", *values)
    drawn = read_records(
        db,
        f"SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY {part} ORDER BY md5(id), id) AS place "
        f"FROM {table} WHERE build_id = $1 {named}) ORDER BY place, md5(id), id LIMIT {MOST_ROWS}",
        *values,
    )
    return [each["id"] for each in drawn], counted["rows"]


def tell_rows(
    db: Connection, benchmark: Benchmark, build_id: str, ids: Sequence[str], shown: Shown
) -> tuple[list[RowTold], list[str]]:
    """Return the first of these rows that fit on a page, sorted by id, and the errors of unexplained rows."""
    told: list[RowTold] = []
    values: dict[str, dict[str, str]] = {}
    room = MOST_BYTES
    faults: dict[str, None] = {}
    for some in _cut(ids):
        for trace in trace_rows(db, benchmark, build_id, some):
            entry = RowTold(
                id=trace["id"],
                shown={
                    heading: shorten(tell_value(trace["row"].get(name)), _LONGEST)
                    for name, heading in benchmark.shown.items()
                    if name != "id"
                },
                groups={},
                chain=_tell_chain(benchmark, trace, faults, _HELD_OUT if trace["id"] in shown.unanswered else ""),
            )
            room -= _measure(entry)
            if room < 0 and told:
                return _settle(told, values, benchmark.part), list(faults)
            told.append(entry)
            values[entry.id] = _list_texts(trace["row"])
    return _settle(told, values, benchmark.part), list(faults)


def tell_rejects(
    db: Connection, benchmark: Benchmark, build_id: str, most: int, shown: Shown
) -> dict[tuple[str, str], tuple[RejectTold, ...]]:
    """Return (stage, reason) → its first `most` rejected rows by id."""
    first = read_records(
        db,
        "SELECT stage, reason, id FROM rejects WHERE build_id = ? "
        "QUALIFY row_number() OVER (PARTITION BY stage, reason ORDER BY id, detail) <= ? ORDER BY ALL",
        build_id,
        most,
    )
    ids = sorted({each["id"] for each in first})
    traces = {trace["id"]: trace for some in _cut(ids) for trace in trace_rows(db, benchmark, build_id, some)}
    return {
        where: tuple(_tell_reject(benchmark, traces[each["id"]], shown) for each in group)
        for where, group in groupby(first, key=lambda each: (each["stage"], each["reason"]))
    }


def tell_value(value: Any) -> str:
    """Format the value of a column as one line."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(tell_value(each) for each in value.values() if each is not None)
    if isinstance(value, list | tuple):
        return " · ".join(tell_value(each) for each in value)
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def tell_moment(moment: datetime) -> str:
    """Format a moment in UTC, to the minute."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _tell_reject(benchmark: Benchmark, trace: Record, shown: Shown) -> RejectTold:
    if shown.withheld:
        chain = Chain((), (), _tell_command(benchmark, trace), shown.withheld)
        return RejectTold(clean(trace["id"]), "", chain)
    reject = trace["reject"]
    row = tuple(_tell_fields(reject["row"])) if reject["row"] else ()
    calls = tuple(_tell_calls(trace["calls"]))
    return RejectTold(
        shorten(trace["id"], 200),
        shorten(reject["detail"], _LONGEST),
        Chain(row, calls, _tell_command(benchmark, trace)),
    )


def _tell_fields(row: str) -> Iterator[str]:
    """Yield the non-empty fields of a rejected row as the stage received it; a row without fields gives one line."""
    told = read_rejected(row)
    if not isinstance(told, Mapping):
        yield f"  {shorten(tell_value(told), _LONG_CALL)}"
        return
    for name, value in list(told.items())[:_MOST_LINES]:
        if value not in (None, "", [], {}):
            yield f"  {shorten(name, 60)}: {shorten(tell_value(value), _LONG_CALL)}"


def _tell_chain(benchmark: Benchmark, trace: Record, faults: dict[str, None], withheld: str) -> Chain:
    if withheld:
        trace = {**trace, "beside": {table: [] for table in trace["beside"]}, "calls": []}
    try:
        lines = explain_trace(benchmark, trace)
    except OldBuild as error:  # still show the row, without its explanation
        faults[str(error)] = None
        lines = []
    told = [shorten(line.rstrip(), _LONGEST) for line in lines[:_MOST_LINES]]
    if len(lines) > _MOST_LINES:
        told.append(f"  … {len(lines) - _MOST_LINES:,} more lines")
    return Chain(tuple(told), tuple(_tell_calls(trace["calls"])), _tell_command(benchmark, trace), withheld)


def _tell_command(benchmark: Benchmark, trace: Record) -> str:
    row_id = trace["id"] if len(trace["id"]) <= 200 else trace["id"][:60]
    return clean(f"factmill explain {benchmark.name} {shlex.quote(row_id)} --build {trace['build']}")


def _tell_calls(calls: Sequence[Record]) -> Iterator[CallTold]:
    """Yield the first distinct calls of each stage and operation, in their original order."""
    kinds: dict[tuple[str, str], dict[str, Record]] = {}
    for call in calls:
        kinds.setdefault((call["stage"], call["operation"]), {})[call["key"]] = call
    for (stage, operation), of_kind in kinds.items():
        same = list(of_kind.values())
        for place, call in enumerate(same[:_CALLS], 1):
            yield CallTold(
                stage=stage,
                operation=operation,
                service=shorten(call["service"], 100),
                at=tell_moment(call["asked_at"]),
                key=call["key"][:12],
                asked=tuple(_tell_asked(call)),
                replied=_tell_reply(call),
                failed=call["status"] != "ok",
                taken_off=shorten(call["taken_off"] or "", _LONG_CALL),
                more=len(same) - place if place == _CALLS else 0,
            )


def _tell_asked(call: Record) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of a call's request: its settings under an empty name, then the variables of its prompt."""
    what, asked, _ = tell_call(call)
    told = ", ".join(f"{name} {tell_value(value)}" for name, value in what.items() if value not in (None, "", [], {}))
    yield "", shorten(told, _LONG_CALL)
    for name, value in list(asked.items())[:_MOST_ASKED]:
        yield shorten(str(name), 60), shorten(tell_value(value), _LONG_CALL)


def _tell_reply(call: Record) -> str:
    """Return a call's reply: a model's texts as they are, other bodies as JSON, or the error."""
    body = call["body"]
    texts = body.get("texts") if isinstance(body, dict) else [body]
    if call["status"] == "ok" and isinstance(texts, list) and texts and all(isinstance(each, str) for each in texts):
        return shorten(" · ".join(texts), _LONG_CALL)
    return shorten(tell_call(call)[2] or "", _LONG_CALL)


def _measure(entry: RowTold) -> int:
    """Estimate the bytes that a row takes on the page."""
    calls = entry.chain.calls
    texts = [*entry.shown.values(), *entry.chain.lines, *(call.replied for call in calls)]
    texts += [text for call in calls for pair in call.asked for text in pair]
    return sum(len(escape(text).encode("utf-8", "replace")) for text in texts) + _OF_A_CALL * (len(calls) + 3)


def _cut(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the ids in batches, in their order."""
    for start in range(0, len(ids), _AT_ONCE):
        yield ids[start : start + _AT_ONCE]


def _settle(told: Sequence[RowTold], values: Mapping[str, Mapping[str, str]], part: str) -> list[RowTold]:
    """Return the rows sorted by id, with filter groups from `part` and the columns with few, short values."""
    found: dict[str, set[str]] = {}
    for row in told:
        for name, value in values[row.id].items():
            found.setdefault(name, set()).add(value)
    kept = [
        name
        for name, each in found.items()
        if len(each) > 1 and (name == part or _is_short(each, most=min(_MOST_VALUES, len(told) // 2)))
    ]
    return [
        replace(
            row,
            id=shorten(row.id, 200),
            groups={name: shorten(values[row.id].get(name) or "–", 80) for name in kept},
        )
        for row in sorted(told, key=lambda each: each.id)
    ]


def _is_short(values: Collection[str], most: int) -> bool:
    return len(values) <= most and all(len(value) <= _LONG_VALUE for value in values)


def _list_texts(row: Mapping[str, Any]) -> dict[str, str]:
    """Return column → text for the text columns of a row, null as an empty text, cut to 100 characters."""
    return {
        name: (value or "")[:100]
        for name, value in row.items()
        if name != "id" and (value is None or isinstance(value, str))
    }
