"""Columns of tables that users bring: which column of a file is which field of a benchmark, and what a cell holds.

A form lists the fields that a benchmark reads. A map (`question=q, answers=gold`) names the columns of a file for them;
a field that the map does not name is read from the column of its own name, in any case, if there is one. A cell holds a text, a list
(a JSON array, a Python list, parts with a separator between them, or a real list in Parquet and JSON) or JSON.
"""

import ast
import json
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from difflib import SequenceMatcher
from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field

from factmill.tasks.core.rows import StrictModel
from factmill.tasks.errors import SourceError, UsageError
from factmill.tasks.text.sanitize import MAX_JSON_DEPTH, exceeds_json_depth, find_most_similar_name, format_did_you_mean

_MAX_LISTED_CHARACTERS = 400
_MAX_PYTHON_LIST_CHARACTERS = 20_000
_MIN_GUESS_SIMILARITY = 0.6
_MIN_COMPARED_CHARACTERS = 4
_USUAL_COLUMNS = {
    "question": ("query", "prompt", "problem", "input", "q"),
    "answers": ("gold", "target", "output", "golds", "solution", "reference", "a"),
    "answer": ("gold", "target", "output", "best_answer", "solution", "reference", "a"),
    "topic": ("title", "page", "article"),
    "category": ("class", "group", "subject"),
    "domain": ("topic", "category", "kind", "class", "group", "subject"),
    "relation": ("property", "pid", "predicate", "rel"),
    "licence": ("license",),
    "paragraph": ("text", "passage", "sentence"),
    "person": ("subject", "name", "person1"),
    "other": ("object", "value", "person2"),
}
"""Field → names that such columns often have, best first; only for the map that an error proposes."""

FieldKind = Literal["text", "list", "json"]


class UserSourceSettings(StrictModel):
    """How a source of the user's own is read. It decides rows, so the manifest holds it."""

    columns: dict[str, str] = Field(default_factory=dict)
    """Field → column of the files; empty for files in the benchmark's own form."""
    defaults: dict[str, str] = Field(default_factory=dict)
    """Field → its value in rows that state none."""
    separator: str = ""
    """Text between the parts of a cell that holds a list; empty: such cells hold JSON arrays, or one part."""
    name: str = ""
    licence: str = ""
    """Stated by the user; empty: not stated."""


@dataclass(frozen=True, slots=True)
class ExpectedTableField:
    """A field of a benchmark's form."""

    name: str
    meaning: str
    kind: FieldKind = "text"
    is_required: bool = False
    other_name: str = ""
    """Another name that maps and columns may use for it."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which maps and files may have the field."""
        return (self.name, self.other_name) if self.other_name else (self.name,)


TableForm = Sequence[ExpectedTableField]
"""The fields of a table, the required ones first."""


def format_table_form(form: TableForm) -> str:
    """Return the fields with their meanings, as text."""
    return "; ".join(
        f"{' or '.join(each.names)}{' (required)' if each.is_required else ''}: {each.meaning}" for each in form
    )


def split_column_option_into_pair_texts(column_map: Any) -> Any:
    """Split texts like `question=q,answers=gold`, or a mapping of field → column, into one text per field; other values are
    returned unchanged.

    Text after a comma without `=` belongs to the column before it. ValueError for a text without a field.
    """
    if isinstance(column_map, str):
        column_map = (column_map,)
    if isinstance(column_map, Mapping):
        column_map = tuple(f"{field}={column}" for field, column in column_map.items())
    if not isinstance(column_map, Sequence) or not all(isinstance(each, str) for each in column_map):
        return column_map
    pairs: list[str] = []
    for text in column_map:
        for at, part in enumerate(text.split(",")):
            if "=" in part:
                field, _, column = part.partition("=")
                pairs.append(f"{field.strip()}={column.strip()}")
            elif at and part:
                pairs[-1] += f",{part}"
            elif part or not at:
                raise ValueError(f"{text!r}: expected FIELD=COLUMN, like question=q,answers=gold")
    fields = [pair.partition("=")[0] for pair in pairs]
    if "" in fields:
        raise ValueError(f"{pairs[fields.index('')]!r}: expected a field before the equals sign, like question=q")
    if twice := [field for field in fields if fields.count(field) > 1]:
        raise ValueError(f"the field {twice[0]} is there twice; expected each field once")
    return tuple(pairs)


def parse_columns_by_field(pairs: Iterable[str], form: TableForm) -> dict[str, str]:
    """Return field → column (empty: not read) of `split_column_option_into_pair_texts`'s pairs; UsageError for an unknown field."""
    known = {name: field.name for field in form for name in field.names}
    found: dict[str, str] = {}
    for field, _, column in (pair.partition("=") for pair in pairs):
        if field not in known:
            meant = f"; did you mean {column}={field}?" if column in known else format_did_you_mean(field, known)
            raise UsageError(f"--map {field}={column}: unknown field {field}; expected {', '.join(known)}{meant}")
        if known[field] in found:
            raise UsageError(
                f"--map: {known[field]} is there twice, as {' and '.join(n for n in known if known[n] == known[field])}"
            )
        found[known[field]] = column
    return found


def resolve_table_columns(
    place: str,
    form: TableForm,
    column_map: Mapping[str, str],
    columns: Sequence[str],
    defaults: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Return field → column for the fields that a file with these columns has.

    SourceError for a mapped column that the file lacks, and for a required field without column and default: it lists the file's
    columns, what is read, and a map that fits the file.
    """
    found: dict[str, str] = {}
    unknown: dict[str, str] = {}
    for field in form:
        if field.name in column_map:
            column = column_map[field.name]
            if column and column not in columns and column.partition(".")[0] not in columns:
                unknown[field.name] = column
                column = find_most_similar_name(column, [each for each in columns if each not in column_map.values()])
        else:
            alike = [column for column in columns if column.strip().casefold() in field.names]
            column = next((name for name in field.names if name in columns), alike[0] if len(alike) == 1 else "")
        if column:
            found[field.name] = column
    missing = [field for field in form if field.is_required and field.name not in {*found, *defaults}]
    if not missing and not unknown:
        return found
    proposal = _format_map_proposal(
        form, column_map, found, columns, {field.name for field in missing} | unknown.keys()
    )
    if unknown:
        wrong = ",".join(f"{field}={column}" for field, column in unknown.items())
        column = next(iter(unknown.values()))
        raise SourceError(
            f"{place}: --map {wrong}: the column {column} is missing; {_format_file_columns_message(columns)}"
            f"{proposal or format_did_you_mean(column, columns)}"
        )
    raise SourceError(
        f"{place}: the column {missing[0].name} is missing ({missing[0].meaning}); {_format_file_columns_message(columns)}{proposal}. "
        f"Fields are {format_table_form(form)}"
    )


def _format_map_proposal(
    form: TableForm, column_map: Mapping[str, str], found: Mapping[str, str], columns: Sequence[str], lacking: Set[str]
) -> str:
    """Return a map that fits the file's columns, as the end of an error; empty if it has no column for a `lacking` field."""
    mapped = {field: found.get(field, "") for field, column in column_map.items() if field in found or not column}
    guessed = {**mapped, **_guess_missing_columns(form, {**mapped, **found}, columns)}
    if not guessed.keys() >= lacking:
        return ""
    proposed = ",".join(f"{field}={column}" for field, column in guessed.items())
    if not all(each.isalnum() or each in "_=,.-" for each in proposed):
        proposed = f"'{proposed}'"
    return f"; to use the columns that fit best: --map {proposed}"


def _format_file_columns_message(columns: Sequence[str]) -> str:
    listed = ", ".join(columns)[:_MAX_LISTED_CHARACTERS] or "none"
    if len(columns) == 1 and (mark := next((each for each in ";\t|" if each in columns[0]), "")):
        shown = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}[mark]
        return (
            f"the file has one column, {listed!r}: its cells seem to be separated by {shown}, but its first rows have different numbers of "
            "them; save it with commas, with quotation marks around cells that hold one, and name the columns with --map"
        )
    return f"the file has the columns {listed}"


def _guess_missing_columns(form: TableForm, found: Mapping[str, str], columns: Sequence[str]) -> dict[str, str]:
    """Return field → column for the map that an error proposes; only fields that need a map."""
    free = [column for column in columns if column not in found.values()]
    guessed: dict[str, str] = {}
    open_fields = [field for field in form if field.name not in found]
    for field in open_fields:
        likely = max(free, key=lambda column: _score_guess(field, column), default="")
        if likely and _score_guess(field, likely) >= _MIN_GUESS_SIMILARITY:
            guessed[field.name] = likely
            free.remove(likely)
    for field in open_fields:
        if field.is_required and field.name not in guessed and free:
            guessed[field.name] = free.pop(0)
    return {field.name: guessed[field.name] for field in form if field.name in guessed}


def _score_guess(field: ExpectedTableField, column: str) -> float:
    """Return how likely a column is a field's, from 0 to 1."""
    plain = column.casefold().strip().replace(" ", "_")
    usual = [name for each in field.names for name in (each, *_USUAL_COLUMNS.get(each, ()))]
    if plain in usual:
        return 1 - usual.index(plain) / 100
    # `kind` is similar to `id`, but short names are similar by chance
    compared = [each for each in field.names if len(each) >= _MIN_COMPARED_CHARACTERS]
    whole = max((SequenceMatcher(None, plain, each).ratio() for each in compared), default=0.0)
    return max(whole, 0.8 if set(plain.split("_")) & set(usual) else 0.0)


def read_table_fields(row: Any, form: TableForm, own: UserSourceSettings) -> dict[str, Any] | str:
    """Return field → value of a row (a text, a list of texts or a JSON value; None where empty), or what is wrong with it."""
    if not isinstance(row, Mapping):
        return "the row is no object"
    found: dict[str, Any] = {}
    for field in form:
        column = own.columns.get(field.name)
        cell = row.get(column) if column else None
        if column and column not in row:  # answer.value is the part `value` of the cell in `answer`
            cell = row
            for part in column.split("."):
                cell = cell.get(part) if isinstance(cell, Mapping) else None
        if isinstance(cell, str) and not cell.strip():
            cell = None
        value: Any = None
        try:
            if cell is not None:
                value = _read_cell(cell, field.kind, own.separator)
        except ValueError as error:
            name = next(iter(cell), None) if isinstance(cell, Mapping) else None
            hint = "" if name is None else f"; name a part of it, like {column}.{name}"
            return f"the column {column} {error}{hint}"
        value = own.defaults.get(field.name) if value in (None, []) else value
        if field.is_required and value is None:
            return f"the column {column} is empty; expected {field.meaning}"
        found[field.name] = [] if value is None and field.kind == "list" else value
    return found


def _read_cell(cell: Any, kind: FieldKind, separator: str) -> Any:
    """Return a cell's value; ValueError says what is wrong with it."""
    if kind == "text":
        return _read_text(cell)
    if kind == "json":
        return _parse_json(cell.strip()) if isinstance(cell, str) and cell.strip()[0] in "[{" else cell
    if isinstance(cell, str):
        text = cell.strip()
        if text.startswith("[") and text.endswith("]"):
            try:
                cell = _parse_json(text)
            except ValueError as error:
                cell = None
                if len(text) <= _MAX_PYTHON_LIST_CHARACTERS:
                    # data frames write a list in a CSV file as Python does
                    with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
                        cell = ast.literal_eval(text)
                if not isinstance(cell, list):
                    raise ValueError(
                        f'stands in square brackets and is no list; write it as a JSON array, ["London", "Greater London"]: {error}'
                    ) from error
        elif separator:
            cell = [part for part in text.split(separator) if part.strip()]
    parts = cell if isinstance(cell, list | tuple) else [cell]
    return list(dict.fromkeys(filter(None, (_read_text(part) for part in parts if part is not None))))


def _read_text(cell: Any) -> str:
    if isinstance(cell, str):
        text = cell.strip()
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("holds half a surrogate pair") from None
        return text
    if isinstance(cell, float) and (math.isnan(cell) or cell.is_integer()):
        raise ValueError(f"holds the decimal number {cell}; write whole numbers without a decimal point, or as text")
    if isinstance(cell, int | float | Decimal) and not isinstance(cell, bool):
        return str(cell)
    if isinstance(cell, date):
        return cell.isoformat()
    shown = f"{cell!r}"[:60]
    raise ValueError(f"holds {shown}, not a text")


def _parse_json(text: str) -> Any:
    try:
        value = json.loads(text)
        if text.count("[") + text.count("{") > MAX_JSON_DEPTH and exceeds_json_depth(value):
            raise RecursionError
    except (ValueError, RecursionError) as error:
        what = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ValueError(f"begins like JSON and cannot be read: {what}") from error
    return value
