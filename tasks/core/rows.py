"""Typed rows, and what can become of one in a stage: a row, a Reject with a reason, or Merged into another.

Columns are declared once, as attributes with docstrings; the Arrow schema of shards and the warehouse's tables with
their comments are made of them.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from operator import attrgetter
from typing import Annotated, Any, Self, TypeVar

import pyarrow as pa
from pydantic import BaseModel, ConfigDict

R = TypeVar("R", bound="Row")
M = TypeVar("M", bound=BaseModel)
MOST = 1_000_000_000
"""The largest number that an option, a parameter or a setting takes where it needs no smaller bound; it fits 32 bits, as rows count."""
OWN_WORLD, OWN_LICENCE = "factmill's embedded world", "Apache-2.0"
"""Source of rows and pages that were written for it, and their licence (SPDX id)."""
NONE_STATED = "none stated"
"""Licence of rows of which nothing says what licence they have."""
_JSON = "json"
JsonText = Annotated[str, _JSON]
"""A column of JSON text: exports to JSON write out what it says, and the warehouse types it JSON."""
LONGEST_S = 86_400.0
"""Seconds that a setting may have anything wait, at most: a day."""


class StrictModel(BaseModel):
    """A frozen record that refuses what it does not know; its attributes' docstrings are their descriptions."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Row(StrictModel):
    """A frozen row with an id that is unique within its stage."""

    id: str
    """Stable id, unique among these rows."""

    def extend(self, model: type[R], /, **more: Any) -> R:
        """Return this row as the next stage's model, with exactly the columns that stage adds.

        TypeError for a column that this row has already; ValidationError names those that are missing, unknown to the
        model, or of another type.
        """
        return model.model_validate(dict(**self.__dict__, **more))

    def narrow(self, model: type[R], /, **more: Any) -> R:
        """Return the columns of this row that the model has, as that model; `more` adds others and replaces some.

        ValidationError names those that are then missing, unknown to the model, or of another type.
        """
        fields = model.model_fields
        kept = {name: value for name, value in self.__dict__.items() if name in fields}
        return model.model_validate(kept | more)

    def replace(self, **changed: Any) -> Self:
        """Return a copy with some columns changed; ValidationError for one that there is not, or of another type."""
        return self.model_validate(self.__dict__ | changed)


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that goes no further, and why."""

    row_id: str
    reason: str
    """Short snake_case code, counted in the funnel."""
    detail: str = ""
    """One sentence with the particulars: what was found, what was expected."""
    retryable: bool = False
    """True when the cause was passing (a service was down): the next run of the same build tries again."""


@dataclass(frozen=True, slots=True)
class Merged:
    """A row that says the same as another and is united with it."""

    row_id: str
    into: str


Outcome = Row | Reject | Merged


def arrow_schema(model: type[BaseModel]) -> pa.Schema:
    """Return the Arrow schema of a row model: one field per attribute, in order, null allowed where None is."""
    return pa.schema([_arrow_field(name, info.annotation) for name, info in model.model_fields.items()])


def arrow_table(model: type[BaseModel], rows: Iterable[BaseModel]) -> pa.Table:
    """Return rows as an Arrow table with the model's schema (shape: len(rows) × number of attributes)."""
    schema, listed = arrow_schema(model), list(rows)
    columns = []
    for field in schema:
        cells = list(map(attrgetter(field.name), listed))
        columns.append(pa.array(map(_dump, cells) if _holds_models(field.type) else cells, field.type))
    return pa.table(columns, schema=schema)


def rows_from_arrow(model: type[M], table: pa.Table) -> list[M]:
    """Return an Arrow table's rows, validated as the model."""
    return [model.model_validate(record) for record in table.to_pylist()]


def column_docs(model: type[BaseModel]) -> dict[str, str]:
    """Return column → docstring, for cards and `factmill show --columns`."""
    return {name: info.description or "" for name, info in model.model_fields.items()}


def json_columns(model: type[BaseModel]) -> frozenset[str]:
    """Return the columns that hold JSON text."""
    return frozenset(
        name
        for name, info in model.model_fields.items()
        if _JSON in info.metadata or JsonText in typing.get_args(info.annotation)
    )


def _holds_models(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) or (pa.types.is_list(kind) and _holds_models(kind.value_type))


def _dump(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump()
    return [_dump(each) for each in value] if isinstance(value, list | tuple) else value


_SCALARS: dict[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    date: pa.date32(),
    datetime: pa.timestamp("us", tz="UTC"),
}


def _arrow_field(name: str, annotation: Any) -> pa.Field:
    bare, nullable = _strip_none(annotation)
    return pa.field(name, _arrow_type(bare), nullable=nullable)


def _arrow_type(annotation: Any) -> pa.DataType:
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return pa.string()
    if origin is Annotated:
        return _arrow_type(args[0])
    if origin in (list, tuple, Sequence):
        return pa.list_(_arrow_type(args[0]))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return pa.struct([_arrow_field(name, info.annotation) for name, info in annotation.model_fields.items()])
    raise TypeError(
        f"no Arrow type for a column of type {annotation!r}; use str, int, float, bool, date, datetime, list or a model"
    )


def _strip_none(annotation: Any) -> tuple[Any, bool]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        args = [a for a in typing.get_args(annotation) if a is not type(None)]
        return args[0], len(args) < len(typing.get_args(annotation))
    return annotation, False


def _no_ids(_row: Mapping[str, Any]) -> tuple[str, ...]:
    return ()


def _no_unit(_row: Mapping[str, Any]) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Matching:
    """What a benchmark says of its rows to those who compare two builds of it.

    A row's id may digest what it says (then a changed question has another id) or count its place in a file (then a row put
    in before it moves it). So rows are matched by one group of columns after another: the first by which a row of either
    build, left over until then, has one partner alone.
    """

    keys: tuple[tuple[str, ...], ...] = (("id",),)
    """Groups of columns of the main table, the surest first; those behind the first that holds more than the id are its
    natural keys."""
    given: tuple[str, ...] = ()
    """Columns that hold what the source says, as it says it."""
    marks: tuple[str, ...] = ()
    """Columns that say by which call or from which place a row was made: rows that differ in these alone are the same."""
    whole: tuple[str, ...] = ()
    """Published tables with more columns of the main table's rows, under the same ids."""
    together: tuple[str, ...] = ()
    """Stages in which what becomes of a row depends on the other rows too."""
    read_ids: Callable[[Mapping[str, Any]], tuple[str, ...]] = _no_ids
    """A row → ids under which it was read, beside those of its benchmark's `trace`."""
    unit: Callable[[Mapping[str, Any]], str] = _no_unit
    """A row → what it was drawn from, under which the calls of drawing are filed: a relation, a kind of sets."""
