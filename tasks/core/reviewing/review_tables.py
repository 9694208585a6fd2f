"""The review queue as CSV, for a spreadsheet or an editor: one line an item, columns in the order below.

Fields with edits hold one `name: text` a line; a text of several lines goes on with lines that begin with two spaces:

    ShortQ1: Who built the bridge of Avignon?
    ShortA1: Bénézet

A spreadsheet takes a cell that begins with = + - @, a tab or a carriage return for a formula, and texts here come from
models and web pages. Such a cell gets an apostrophe in front when it is written, and loses it when it is read; so does
one that has apostrophes before such a character already, whereby every text comes back as it was. Cells that a reviewer
typed without the apostrophe are read as they are. A reader has to open the file as UTF-8; a byte order mark is taken.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import ValidationError

from tasks.core.publishing.release_forms import CANARY
from tasks.core.reviewing.review import Decision, Edit, ReviewItem
from tasks.errors import SourceError

COLUMNS = (
    "id",
    "benchmark",
    "row_id",
    "flag",
    "detail",
    "context",
    "proposed",
    "decision",
    "edited",
    "reviewer",
    "note",
)
"""Columns of the file; `decision`, `edited`, `reviewer` and `note` are the reviewer's to fill in."""

_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_GUARDED = re.compile(r"'+[=+\-@\t\r]")
_FIELD = re.compile(r"([A-Za-z_][A-Za-z0-9_]*): ?(.*)", re.DOTALL)
_LONGEST_CELL = 2**31 - 1


def write_queue(items: Sequence[ReviewItem], canary: str = "") -> str:
    """Return the queue as CSV text with a head line, items in the order given; with a canary in a column of its own."""
    texts = ({"proposed": _write_edits(item.proposed), "edited": _write_edits(item.edited)} for item in items)
    more = {CANARY: canary} if canary else {}
    lines = (item.model_dump(include=set(COLUMNS)) | edits | more for item, edits in zip(items, texts, strict=True))
    return write_table([*COLUMNS, *more], lines)


def read_queue(text: str, file: str) -> list[ReviewItem]:
    """Read a queue that `write_queue` wrote and a reviewer filled in; columns may stand in any order.

    An empty decision is `open`. SourceError names the file and the line that cannot be read and says why: columns that
    lack or are too many, the same item twice, an unknown decision, an `edit` without new texts or texts without `edit`.
    """
    items: dict[str, ReviewItem] = {}
    for line, cells in read_table(text, COLUMNS, file, beside=(CANARY,)):
        item = _read_item(cells, file, line)
        if item.id in items:
            raise SourceError(f"{file}, line {line}: the item {item.id!r} stands on line {items[item.id].line} already")
        items[item.id] = item
    return list(items.values())


def write_table(columns: Sequence[str], lines: Iterable[Mapping[str, str]]) -> str:
    """Return lines of cells by column as CSV text with a head line, guarded against being taken for formulas."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\r\n", quoting=csv.QUOTE_ALL)
    writer.writerow(columns)
    writer.writerows([_guard(cells[column]) for column in columns] for cells in lines)
    return file.getvalue()


def read_table(
    text: str, columns: Sequence[str], file: str, beside: Sequence[str] = ()
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the number of the line on which each record of a CSV begins, and its cells by column, in whatever order.

    `beside`: columns that may be there too. SourceError for other columns and for what is no CSV.
    """
    csv.field_size_limit(_LONGEST_CELL)
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    begins = 1
    head: list[str] = []
    try:
        for record in reader:
            line, begins = begins, reader.line_num + 1
            if not head:
                head = record
                if sorted(name for name in head if name not in beside) != sorted(columns):
                    raise SourceError(f"{file}, line {line}: expected the columns {', '.join(columns)}; found {head}")
            elif len(record) == len(head):
                cells = zip(head, map(_unguard, record), strict=True)
                yield line, {name: cell for name, cell in cells if name not in beside}
            elif record:
                raise SourceError(f"{file}, line {line}: expected {len(head)} cells, found {len(record)}")
    except csv.Error as error:
        raise SourceError(f"{file}, line {begins}: {error}; expected CSV with commas and double quotes") from error
    if not head:
        raise SourceError(f"{file}: the file is empty; expected the columns {', '.join(columns)}")


def read_loose_table(text: str, file: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the head of a table that people handled, in small letters, and its rows, each with its number.

    Cells are parted by commas, semicolons or tabs, whichever the head has most of; a line `sep=;` before it is passed
    over. Numbers are a spreadsheet's, in which the head has 1. SourceError for what is no CSV, or is empty.
    """
    csv.field_size_limit(_LONGEST_CELL)
    plain = text.removeprefix("\ufeff")
    first = re.match(r"sep=.\r?\n", plain)
    plain = plain[first.end() :] if first else plain
    line = plain.split("\n", 1)[0]
    delimiter = max(",;\t", key=line.count)
    reader = csv.reader(io.StringIO(plain, newline=""), strict=True, delimiter=delimiter)
    rows: list[tuple[int, list[str]]] = []
    try:
        for number, record in enumerate(reader, 2 if first else 1):
            if any(cell.strip() for cell in record):
                rows.append((number, [_unguard(cell) for cell in record]))
    except csv.Error as error:
        after = rows[-1][0] if rows else 0
        raise SourceError(
            f"{file}, after row {after}: {error}; a quotation mark is missing or too many, or the file is cut off"
        ) from error
    if not rows:
        raise SourceError(f"{file}: the file is empty; expected a table with a head line")
    (_, head), *body = rows
    return [cell.strip().lower() for cell in head], body


def _read_item(cells: Mapping[str, str], file: str, line: int) -> ReviewItem:
    decision = cells["decision"].strip().lower() or "open"
    if decision not in get_args(Decision):
        raise SourceError(
            f"{file}, line {line}: the decision is {cells['decision']!r}; expected one of {', '.join(get_args(Decision))}"
        )
    edits = {column: list(_read_edits(cells[column], column, file, line)) for column in ("proposed", "edited")}
    if decision == "edit" and not edits["edited"]:
        raise SourceError(
            f'{file}, line {line}: the decision is edit; expected new texts under "edited", as in ShortQ1: …'
        )
    if edits["edited"] and decision != "edit":
        raise SourceError(f'{file}, line {line}: new texts under "edited" with the decision {decision}; expected edit')
    values: dict[str, Any] = {**cells, **edits, "decision": decision, "file": file, "line": line}
    try:
        return ReviewItem.model_validate(values)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise SourceError(f"{file}, line {line}, column {wrong['loc'][0]}: {wrong['msg']}") from error


def _write_edits(edits: Iterable[Edit]) -> str:
    return "\n".join(f"{edit.field}: " + edit.text.replace("\n", "\n  ") for edit in edits)


def _read_edits(cell: str, column: str, file: str, line: int) -> Iterator[Edit]:
    """Yield the edits of a cell; what a spreadsheet or hand leaves of blank lines behind them does not matter."""
    if not cell.strip():
        return
    parts: list[list[str]] = []
    for each in cell.split("\n"):
        if each.startswith("  ") and parts:
            parts[-1].append(each[2:])
        elif each.strip():
            parts.append([each])
    names = set()
    for part in parts:
        found = _FIELD.fullmatch("\n".join(part))
        if not found or not found[2] or found[1] in names:
            told = "is there twice" if found and found[1] in names else "has not the form name: text"
            raise SourceError(f"{file}, line {line}, column {column}: {part[0]!r} {told}")
        names.add(found[1])
        yield Edit(field=found[1], text=found[2])


def _guard(cell: str) -> str:
    return f"'{cell}" if _FORMULA.match(cell) else cell


def _unguard(cell: str) -> str:
    return cell[1:] if _GUARDED.match(cell) else cell
