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

from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.core.publishing.release_spec import ParentRowLink
from factmill.tasks.release.core.licences import split_licence_expression

SourceAndLicence = tuple[str, str]
"""Source and licence of a row."""
_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_NAME_CHARACTERS = 60


def mark_released_rows(sources: Sequence[SourceAndLicence], excluded: Collection[str]) -> list[bool]:
    """Return, per row, whether it stays: neither its source nor one of its licences is excluded."""
    return [
        source not in excluded and not {*split_licence_expression(licence)} & {*excluded} for source, licence in sources
    ]


def split_by_mask(table: pa.Table, keep: Sequence[bool]) -> tuple[pa.Table, pa.Table]:
    """Split a table into the rows to keep and the rows to drop."""
    mask = pa.array(keep, pa.bool_())
    return table.filter(mask), table.filter(pc.invert(mask))


def drop_companion_rows(
    table: pa.Table, parent_link: ParentRowLink, kept_parents: pa.Table, removed_parents: pa.Table
) -> pa.Table:
    """Return the rows of a companion table without those that belong only to dropped rows of the main table."""
    lost = _collect_flattened_column_values(
        removed_parents, parent_link.parent_column
    ) - _collect_flattened_column_values(kept_parents, parent_link.parent_column)
    return table.filter(pa.array([each not in lost for each in table[parent_link.column].to_pylist()], pa.bool_()))


def _collect_flattened_column_values(table: pa.Table, column: str) -> set[str]:
    values = table[column].to_pylist()
    return {each for value in values for each in value} if pa.types.is_list(table[column].type) else {*values}


def split_by_column(table: pa.Table, column: str, first_value: str) -> Iterator[tuple[str, pa.Table]]:
    """Yield (value, rows) for each value of a column: `first_value` first, then the others sorted."""
    for value in sorted(set(table[column].to_pylist()), key=lambda each: (each != first_value, each)):
        yield value, table.filter(pc.equal(table[column], value))


def align_split_columns(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
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


def make_dataset_config_name(value: str) -> str:
    """Make a unique config and folder name of a value, from letters, digits, - and _ only."""
    plain = _UNSAFE_CHARACTERS.sub("-", value).strip("-")[:_MAX_NAME_CHARACTERS]
    return plain if plain == value and plain else f"{plain or 'part'}-{digest_bytes(value.encode('utf-8'))[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseGates:
    """Conditions that a build must meet to be released."""

    max_row_change: float
    """Maximum relative change of the number of rows since the previous release."""
    max_reject_share: float
    """Maximum share of its input rows that a stage may reject."""
    requires_judge_card: bool
    """Require that the judge was compared with human raters."""
    requires_explained_changes: bool
    """Require a recorded cause for every row that changed since the previous release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFacts:
    """Facts about a build that the gates check."""

    rows: int
    previous_rows: int | None
    """Rows of the previous release; None: there is none."""
    stages: Sequence[Mapping[str, Any]]
    """Funnel: stage, rows_in, rejects."""
    judge: str
    """Name of the judge model; empty: nothing is judged."""
    judge_card_count: int
    unexplained_rows: int | None
    """Rows that changed without a recorded cause; None: there is no previous release, or its build is gone."""


def find_failed_gates(gates: ReleaseGates, facts: GateFacts) -> list[str]:
    """Return the gates that the build fails, each with found and expected value; empty: it may be released."""
    closed = [] if facts.rows else ["rows: 0 published; expected at least 1"]
    before = facts.previous_rows
    if before is not None and abs(facts.rows - before) > gates.max_row_change * before:
        closed.append(
            f"rows: {facts.rows:,}, in the previous release {before:,}; expected a change of at most {gates.max_row_change:.0%}"
        )
    for stage in facts.stages:
        lost = stage["rejects"] / stage["rows_in"] if stage["rows_in"] else 0.0
        if lost > gates.max_reject_share:
            closed.append(
                f"{stage['stage']}: rejected {stage['rejects']:,} of {stage['rows_in']:,} rows ({lost:.0%}); expected at "
                f"most {gates.max_reject_share:.0%}"
            )
    if gates.requires_judge_card and facts.judge and not facts.judge_card_count:
        closed.append(f"judge: {facts.judge} was not compared with human raters; run `factmill judge-card`")
    if gates.requires_explained_changes and before is not None:
        if facts.unexplained_rows is None:
            closed.append(
                "changes: the previous release's build is no longer in the warehouse, so its rows cannot be compared"
            )
        elif facts.unexplained_rows:
            closed.append(f"changes: {facts.unexplained_rows:,} rows changed without a recorded cause; expected 0")
    return closed
