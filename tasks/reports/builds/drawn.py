"""Rows of a build as its page shows them: drawn where there are many, each with where it comes from, cut to what a page holds."""

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
"""Of the rows' texts on a page."""
_AT_ONCE = 50
"""Rows whose calls are read at once."""
_CALLS = 2
"""Calls of one stage and operation that are told of a row."""
_LONGEST, _LONG_CALL = 1_000, 300
"""Characters of a line, and of what a call asked or replied."""
_MOST_LINES, _MOST_ASKED = 60, 8
_MOST_VALUES, _LONG_VALUE = 12, 24
"""Values up to which rows can be filtered by a column, and their characters."""
_OF_A_CALL = 220
"""Bytes of a call on the page beside its texts."""
_HELD_OUT = "Answers of the test part are held out: neither what this row rests on nor its calls are told here."


def draw_ids(db: Connection, benchmark: Benchmark, build_id: str, shown: Shown) -> tuple[list[str], int]:
    """Return ids of published rows in the order in which they are drawn, and how many rows there are.

    They are drawn by a digest of their ids, evenly over the parts of the benchmark, so that the same rows are drawn of the
    same build on any machine.
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
    """Return the first of these rows that a page has room for, by id; and what could not be told of them."""
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
    """Return (stage, reason) → its first rejected rows by id."""
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
    """Return the value of a column as a line to read."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(tell_value(each) for each in value.values() if each is not None)
    if isinstance(value, list | tuple):
        return " · ".join(tell_value(each) for each in value)
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def tell_moment(moment: datetime) -> str:
    """Return a moment to the minute, in UTC."""
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
    """Yield the fields of a rejected row that say anything, as the stage got them; what has no fields in one line."""
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
    except OldBuild as error:  # its rows are shown all the same, without what an earlier factmill did not write
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
    """Yield the first calls of each stage and operation, in the order in which these came, each call once."""
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
    """Yield what a call asked, by name: with which settings, then what it is about."""
    what, asked, _ = tell_call(call)
    told = ", ".join(f"{name} {tell_value(value)}" for name, value in what.items() if value not in (None, "", [], {}))
    yield "", shorten(told, _LONG_CALL)
    for name, value in list(asked.items())[:_MOST_ASKED]:
        yield shorten(str(name), 60), shorten(tell_value(value), _LONG_CALL)


def _tell_reply(call: Record) -> str:
    """Return what was replied: the texts of a model as they are, all else as JSON."""
    body = call["body"]
    texts = body.get("texts") if isinstance(body, dict) else [body]
    if call["status"] == "ok" and isinstance(texts, list) and texts and all(isinstance(each, str) for each in texts):
        return shorten(" · ".join(texts), _LONG_CALL)
    return shorten(tell_call(call)[2] or "", _LONG_CALL)


def _measure(entry: RowTold) -> int:
    """Return about how many bytes a row takes on the page."""
    calls = entry.chain.calls
    texts = [*entry.shown.values(), *entry.chain.lines, *(call.replied for call in calls)]
    texts += [text for call in calls for pair in call.asked for text in pair]
    return sum(len(escape(text).encode("utf-8", "replace")) for text in texts) + _OF_A_CALL * (len(calls) + 3)


def _cut(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield ids in their order, as many as are read at once."""
    for start in range(0, len(ids), _AT_ONCE):
        yield ids[start : start + _AT_ONCE]


def _settle(told: Sequence[RowTold], values: Mapping[str, Mapping[str, str]], part: str) -> list[RowTold]:
    """Return rows by id, each with what it can be found by: columns that have few and short values among them."""
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
    """Return the columns of a row that hold a text, or none; longer texts than can be chosen from are cut."""
    return {
        name: (value or "")[:100]
        for name, value in row.items()
        if name != "id" and (value is None or isinstance(value, str))
    }
