"""Selection of a release's rows, their division into configs and splits, and the gates that a build must pass.

A row is dropped if its source or one of its licences is excluded; rows of companion tables that belong only to it go
too.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from factmill.tasks.core.fingerprints import digest_bytes
from factmill.tasks.core.publishing.release_forms import Belonging
from factmill.tasks.release.core.licences import split_licences

Told = tuple[str, str]
"""Source and licence of a row."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_NAME = 60


def pick_rows(told: Sequence[Told], without: Collection[str]) -> list[bool]:
    """Return, per row, whether it stays: neither its source nor one of its licences is excluded."""
    return [source not in without and not {*split_licences(licence)} & {*without} for source, licence in told]


def divide_table(table: pa.Table, keep: Sequence[bool]) -> tuple[pa.Table, pa.Table]:
    """Split a table into the rows to keep and the rows to drop."""
    mask = pa.array(keep, pa.bool_())
    return table.filter(mask), table.filter(pc.invert(mask))


def divide_side(table: pa.Table, belongs: Belonging, kept: pa.Table, gone: pa.Table) -> pa.Table:
    """Return the rows of a companion table without those that belong only to dropped rows of the main table."""
    lost = _list_values(gone, belongs.to) - _list_values(kept, belongs.to)
    return table.filter(pa.array([each not in lost for each in table[belongs.column].to_pylist()], pa.bool_()))


def _list_values(table: pa.Table, column: str) -> set[str]:
    values = table[column].to_pylist()
    return {each for value in values for each in value} if pa.types.is_list(table[column].type) else {*values}


def divide_by(table: pa.Table, column: str, leads: str) -> Iterator[tuple[str, pa.Table]]:
    """Yield (value, rows) for each value of a column: `leads` first, then the others sorted."""
    for value in sorted(set(table[column].to_pylist()), key=lambda each: (each != leads, each)):
        yield value, table.filter(pc.equal(table[column], value))


def unite_splits(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Give all splits of one config the same columns, with null where a split's table lacks one."""
    fields: dict[str, pa.Field] = {}
    for table in tables.values():
        for field in table.schema:
            fields.setdefault(field.name, field)
    return {
        name: pa.table(
            {
                each: table[each] if each in table.column_names else pa.nulls(table.num_rows, field.type)
                for each, field in fields.items()
            }
        )
        for name, table in tables.items()
    }


def name_folder(value: str) -> str:
    """Make a unique config and folder name of a value, from letters, digits, - and _ only."""
    plain = _UNSAFE.sub("-", value).strip("-")[:_LONGEST_NAME]
    return plain if plain == value and plain else f"{plain or 'part'}-{digest_bytes(value.encode('utf-8'))[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """Conditions that a build must meet to be released."""

    rows_within: float
    """Maximum relative change of the number of rows since the previous release."""
    most_lost: float
    """Maximum share of its input rows that a stage may reject."""
    judge_card: bool
    """Require that the judge was compared with human raters."""
    explained: bool
    """Require a recorded cause for every row that changed since the previous release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Facts about a build that the gates check."""

    rows: int
    rows_before: int | None
    """Rows of the previous release; None: there is none."""
    stages: Sequence[Mapping[str, Any]]
    """Funnel: stage, rows_in, rejects."""
    judge: str
    """Name of the judge model; empty: nothing is judged."""
    judge_cards: int
    unexplained: int | None
    """Rows that changed without a recorded cause; None: there is no previous release, or its build is gone."""


def find_closed(gates: Gates, found: Found) -> list[str]:
    """Return the gates that the build fails, each with found and expected value; empty: it may be released."""
    closed = [] if found.rows else ["rows: none is published"]
    before = found.rows_before
    if before is not None and abs(found.rows - before) > gates.rows_within * before:
        closed.append(
            f"rows: {found.rows:,}, in the release before {before:,}; expected within {gates.rows_within:.0%}"
        )
    for stage in found.stages:
        lost = stage["rejects"] / stage["rows_in"] if stage["rows_in"] else 0.0
        if lost > gates.most_lost:
            closed.append(
                f"{stage['stage']}: rejected {stage['rejects']:,} of {stage['rows_in']:,} rows ({lost:.0%}); expected "
                f"{gates.most_lost:.0%} at most"
            )
    if gates.judge_card and found.judge and not found.judge_cards:
        closed.append(f"judge: nobody has held {found.judge} against people (factmill judge-card)")
    if gates.explained and before is not None:
        if found.unexplained is None:
            closed.append(
                "changes: the build of the release before is no longer in the warehouse, so nothing tells them"
            )
        elif found.unexplained:
            closed.append(f"changes: of {found.unexplained:,} rows nothing that is recorded tells why they changed")
    return closed
