"""Typed rows, and the outcomes of a row in a stage: a row, a Reject with a reason, or Merged into another row.

Columns are declared once, as attributes with docstrings; the Arrow schema of shards and the warehouse's tables with
their comments derive from them.
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
MAX_SETTING_NUMBER = 1_000_000_000
"""Upper bound of options, parameters and settings that need no smaller one; it fits into 32 bits, like row counts."""
EMBEDDED_WORLD_SOURCE, EMBEDDED_WORLD_LICENCE = "factmill's embedded world", "Apache-2.0"
"""Source of rows and pages written for the embedded world, and their licence (SPDX id)."""
WIKIDATA_LICENCE = "CC0-1.0"
"""Licence of Wikidata's facts and labels (SPDX id)."""
NO_LICENCE_STATED = "none stated"
"""Licence of rows whose source states none."""
_JSON_COLUMN_MARK = "json"
JsonText = Annotated[str, _JSON_COLUMN_MARK]
"""A column of JSON text: exports to JSON write it as JSON, and its type in the warehouse is JSON."""
MAX_WAIT_S = 86_400.0
"""Maximum of settings that are waiting times, in seconds: a day."""


class StrictModel(BaseModel):
    """A frozen record that refuses unknown fields; docstrings of its attributes are their descriptions."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Row(StrictModel):
    """A frozen row with an id that is unique within its stage."""

    id: str
    """Stable id, unique among these rows."""

    def extend_to(self, model: type[R], /, **more: Any) -> R:
        """Return this row as the next stage's model, with exactly the columns that this stage adds.

        TypeError for a column that this row has already; ValidationError names columns that are missing, unknown to the
        model, or of another type.
        """
        return model.model_validate(dict(**self.__dict__, **more))

    def narrow_to(self, model: type[R], /, **more: Any) -> R:
        """Return this row as a model with fewer columns; `more` adds or replaces columns.

        ValidationError names columns that are missing, unknown to the model, or of another type.
        """
        fields = model.model_fields
        kept = {name: value for name, value in self.__dict__.items() if name in fields}
        return model.model_validate(kept | more)

    def replace(self, **changed: Any) -> Self:
        """Return a copy with some columns changed; ValidationError for an unknown column or another type."""
        return self.model_validate(self.__dict__ | changed)


@dataclass(frozen=True, slots=True)
class Reject:
    """A row dropped from the build, with its reason."""

    row_id: str
    reason: str
    """Short snake_case code, counted in the funnel."""
    detail: str = ""
    """One sentence with details: what was found, what was expected."""
    retryable: bool = False
    """True when the cause was transient (a service was down): the next run of the same build tries again."""


@dataclass(frozen=True, slots=True)
class MergedAway:
    """A duplicate row, merged into another."""

    row_id: str
    into: str


RowOutcome = Row | Reject | MergedAway


def arrow_schema(model: type[BaseModel]) -> pa.Schema:
    """Return the Arrow schema of a row model: one field per attribute, in order, nullable where None is allowed."""
    return pa.schema([_arrow_field(name, info.annotation) for name, info in model.model_fields.items()])


def make_arrow_table(model: type[BaseModel], rows: Iterable[BaseModel]) -> pa.Table:
    """Return rows as an Arrow table with the model's schema (shape: len(rows) × number of attributes)."""
    schema, listed = arrow_schema(model), list(rows)
    columns = []
    for field in schema:
        cells = list(map(attrgetter(field.name), listed))
        columns.append(pa.array(map(_dump_models, cells) if _holds_structs(field.type) else cells, field.type))
    return pa.table(columns, schema=schema)


def rows_from_arrow(model: type[M], table: pa.Table) -> list[M]:
    """Return the rows of an Arrow table, validated as the model."""
    return [model.model_validate(record) for record in table.to_pylist()]


def column_docs(model: type[BaseModel]) -> dict[str, str]:
    """Return column → docstring, for cards and `factmill show --columns`."""
    return {name: info.description or "" for name, info in model.model_fields.items()}


def json_columns(model: type[BaseModel]) -> frozenset[str]:
    """Return the columns that hold JSON text."""
    return frozenset(
        name
        for name, info in model.model_fields.items()
        if _JSON_COLUMN_MARK in info.metadata or JsonText in typing.get_args(info.annotation)
    )


def _holds_structs(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) or (pa.types.is_list(kind) and _holds_structs(kind.value_type))


def _dump_models(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump()
    return [_dump_models(each) for each in value] if isinstance(value, list | tuple) else value


_ARROW_SCALAR_TYPES: dict[Any, pa.DataType] = {
    **{str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()},
    **{date: pa.date32(), datetime: pa.timestamp("us", tz="UTC")},
}


def _arrow_field(name: str, annotation: Any) -> pa.Field:
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    args = typing.get_args(annotation) if is_union else (annotation,)
    bare = next(arg for arg in args if arg is not types.NoneType)
    return pa.field(name, _arrow_type(bare), nullable=types.NoneType in args)


def _arrow_type(annotation: Any) -> pa.DataType:
    if annotation in _ARROW_SCALAR_TYPES:
        return _ARROW_SCALAR_TYPES[annotation]
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


def _list_no_source_ids(_row: Mapping[str, Any]) -> tuple[str, ...]:
    return ()


def _get_no_draw_unit(_row: Mapping[str, Any]) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class BuildRowMatchingRules:
    """How to match the rows of two builds of a benchmark for comparison.

    A row's id may be a digest of its content (then a changed question has another id) or its position in a file (then a row
    inserted before it shifts it). So rows are matched by one group of columns after another: unmatched rows of the two
    builds become a pair by the first group in which each is the only partner of the other.
    """

    keys: tuple[tuple[str, ...], ...] = (("id",),)
    """Groups of columns of the main table, the most reliable first; the groups after the first with more than the id are its
    natural keys."""
    source_columns: tuple[str, ...] = ()
    """Columns copied unchanged from the source."""
    provenance_columns: tuple[str, ...] = ()
    """Columns with a row's provenance (its call or place): rows that differ only in these are the same."""
    wide_tables: tuple[str, ...] = ()
    """Published tables with further columns of the main table's rows, under the same ids."""
    cross_row_stages: tuple[str, ...] = ()
    """Stages in which the outcome of a row depends on other rows too."""
    list_source_ids: Callable[[Mapping[str, Any]], tuple[str, ...]] = _list_no_source_ids
    """A row → ids under which it was read, in addition to those of its benchmark's `trace`."""
    get_draw_unit: Callable[[Mapping[str, Any]], str] = _get_no_draw_unit
    """A row → unit that it was drawn from (a relation, a kind of sets), under which the calls of drawing are recorded."""
