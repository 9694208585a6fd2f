"""Which rows a release has, how they fall into configs and splits, and the gates that a build has to hold to.

A row goes when its source or one of its licences is to be left out; rows of side tables that belong to it alone go too.
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
    """Return which rows stay."""
    return [source not in without and not {*split_licences(licence)} & {*without} for source, licence in told]


def divide_table(table: pa.Table, keep: Sequence[bool]) -> tuple[pa.Table, pa.Table]:
    """Return the rows that stay, and those that go."""
    mask = pa.array(keep, pa.bool_())
    return table.filter(mask), table.filter(pc.invert(mask))


def divide_side(table: pa.Table, belongs: Belonging, kept: pa.Table, gone: pa.Table) -> pa.Table:
    """Return the rows of a side table but those that belong to rows which go, and to none that stays."""
    lost = _list_values(gone, belongs.to) - _list_values(kept, belongs.to)
    return table.filter(pa.array([each not in lost for each in table[belongs.column].to_pylist()], pa.bool_()))


def _list_values(table: pa.Table, column: str) -> set[str]:
    values = table[column].to_pylist()
    return {each for value in values for each in value} if pa.types.is_list(table[column].type) else {*values}


def divide_by(table: pa.Table, column: str, leads: str) -> Iterator[tuple[str, pa.Table]]:
    """Yield the values of a column, each with its rows: the leading one, then the others by name."""
    for value in sorted(set(table[column].to_pylist()), key=lambda each: (each != leads, each)):
        yield value, table.filter(pc.equal(table[column], value))


def unite_splits(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Return the splits of one config with the columns of all of them, null where a split's table lacks one."""
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
    """Return a value as the name of a config and its folder: letters, digits, - and _ alone; two values never share one."""
    plain = _UNSAFE.sub("-", value).strip("-")[:_LONGEST_NAME]
    return plain if plain == value and plain else f"{plain or 'part'}-{digest_bytes(value.encode('utf-8'))[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """What is asked of a build."""

    rows_within: float
    """Share by which rows may be more or fewer than in the release before."""
    most_lost: float
    """Largest share of its rows that a stage may reject."""
    judge_card: bool
    """The judge was held against people."""
    explained: bool
    """Of every row that changed since the release before something that is recorded tells why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What is known of a build."""

    rows: int
    rows_before: int | None
    """Of the release before; None: there is none."""
    stages: Sequence[Mapping[str, Any]]
    """Funnel: stage, rows_in, rejects."""
    judge: str
    """Empty: nothing is judged."""
    judge_cards: int
    unexplained: int | None
    """Rows that changed without a cause; None: there is no release before, or its build is no longer there."""


def find_closed(gates: Gates, found: Found) -> list[str]:
    """Return the gates that are closed, each with what was found and what was expected; none: the build may go out."""
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
