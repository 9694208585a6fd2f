"""Data classes for the changes between two builds, and formatting of changed values."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from factmill.tasks.text.sanitize import escape_control_characters, replace_lone_surrogates_by_question_mark

RowChangeKind = Literal["added", "removed", "changed"]
ChangeCauseKind = Literal[
    "source",
    "world",
    "epoch",
    "prompt",
    "query",
    "list",
    "model",
    "parameter",
    "decision",
    "code",
    "reply",
    "other rows",
    "one of",
    "left out",
    "not told",
    "unexplained",
]
CAUSE_KIND_MEANINGS: Mapping[ChangeCauseKind, str] = {
    "source": "the source row is new, removed or changed",
    "world": "a service returned something else: a page has another revision, an item another statement",
    "epoch": "the epoch changed, as of which articles and page views are read",
    "prompt": "the prompt was edited",
    "query": "the query was edited",
    "list": "a list was edited",
    "model": "another model replied, or the same one with other settings",
    "parameter": "a parameter of the build changed",
    "decision": "a reviewer's decision or the review policy changed",
    "code": "the code of the build changed",
    "reply": "the same request got another reply when it was sent again, or its scripted reply was edited",
    "other rows": "other rows changed, and a stage compares this row with them",
    "one of": "several inputs differ, and no recorded call shows which of them is the cause",
    "left out": "the release was made without such rows",
    "not told": "releases contain no recorded calls, and their manifests do not show the cause",
    "unexplained": "nothing that was recorded explains it",
}
"""Cause kind → its meaning."""
ROW_CHANGE_KINDS: tuple[RowChangeKind, ...] = ("added", "removed", "changed")


@dataclass(frozen=True, slots=True)
class ChangeCause:
    """Why a row changed."""

    kind: ChangeCauseKind
    what: str
    """Name of the input: a prompt, list, service or parameter; rows are counted by kind and name."""
    change_description: str = ""
    """What changed in it, in one line: `item_facts of Q42 returned something else`."""
    stage: str = ""
    """Stage whose calls first show it; empty if none does."""

    @property
    def label(self) -> str:
        """Kind and name; rows are counted by it."""
        return f"{self.kind}: {self.what}" if self.what else self.kind


@dataclass(frozen=True, slots=True)
class InputChange:
    """An input that differs between the two manifests."""

    cause: ChangeCause
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class ColumnValueChange:
    """A column whose value changed."""

    name: str
    before: Any
    after: Any
    table: str = ""
    """Its table; empty for the main table."""
    withheld: bool = False
    """True where the table is held out; before and after are then None."""


@dataclass(frozen=True, slots=True)
class RowDropInOneBuild:
    """What happened to a row in the build that does not publish it."""

    build: Literal["before", "after"]
    stage: str
    reason: str
    """Reject reason; `merged` for a row merged into another."""
    detail: str


@dataclass(frozen=True, slots=True)
class RowChange:
    """An added, removed or changed row."""

    kind: RowChangeKind
    id: str
    """Id in the later build; for a removed row in the earlier one."""
    id_before: str
    """Empty for an added row."""
    causes: tuple[ChangeCause, ...]
    """In stage order; never empty."""
    columns: tuple[ColumnValueChange, ...] = ()
    """Changed columns; of changed rows only."""
    shown: Mapping[str, Any] = field(default_factory=dict)
    """Columns that identify the row to readers, from the later build if it has the row."""
    fate: RowDropInOneBuild | None = None

    @property
    def main_cause(self) -> ChangeCause:
        """First cause; the row is counted by it."""
        return self.causes[0]


@dataclass(frozen=True, slots=True)
class ComparedBuild:
    """One of the compared builds."""

    build_id: str
    rows: int
    published: str
    """Date (ISO 8601)."""
    caution: str = ""
    scripted: bool = False
    """Scripted replies wrote its rows."""


@dataclass(frozen=True, slots=True)
class BenchmarkRowLabels:
    """How pages name the columns and values of a benchmark."""

    headings: Mapping[str, str] = field(default_factory=dict)
    """Column that identifies a row to readers → its heading."""
    ordered_lists: frozenset[str] = frozenset()
    """Of these, list columns whose order matters."""
    group_labels: Mapping[str, str] = field(default_factory=dict)
    """Group of rows, by which parameters may be given, → its label."""


@dataclass(frozen=True, slots=True)
class BuildDiff:
    """All changes from one build to another."""

    benchmark: str
    title: str
    before: ComparedBuild
    after: ComparedBuild
    inputs: Sequence[InputChange]
    same: int
    """Rows with equal content."""
    remade: int
    """Of these, rows made from another call or source position."""
    rows: Sequence[RowChange]
    """Sorted by kind, then id."""
    tables: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Companion table → rows added, removed and changed, by id; only tables that changed."""
    new_columns: Sequence[str] = ()
    """Columns that one of the builds was made without; they change no row."""
    display: BenchmarkRowLabels = field(default_factory=BenchmarkRowLabels)
    """For pages; not in the JSON."""

    @property
    def has_row_changes(self) -> bool:
        """True where rows were added, removed or changed."""
        return bool(self.rows)

    def count_rows_by_kind(self) -> dict[RowChangeKind, int]:
        """Return kind of change → number of rows."""
        found = Counter(row.kind for row in self.rows)
        return {kind: found[kind] for kind in ROW_CHANGE_KINDS}

    def count_rows_by_cause(self) -> dict[str, dict[RowChangeKind, int]]:
        """Return cause label → kind of change → number of rows, most frequent first."""
        found = Counter((row.main_cause.label, row.kind) for row in self.rows)
        totals = Counter(row.main_cause.label for row in self.rows)
        return {
            label: {kind: found[label, kind] for kind in ROW_CHANGE_KINDS}
            for label, _ in sorted(totals.items(), key=lambda each: (-each[1], each[0]))
        }


def count_unexplained_rows(diff: BuildDiff) -> int:
    """Return the number of rows whose change has no explanation."""
    return sum(row.main_cause.kind == "unexplained" for row in diff.rows)


def format_row_count(rows: int) -> str:
    """Return `1 row` or `12 rows`."""
    return f"{rows:,} row{'' if rows == 1 else 's'}"


_LEAD_CHARACTERS = 20
"""Characters shown before the first difference of two long texts."""


def format_changed_value(value: Any) -> str:
    """Return a value as text: texts unchanged, lists and records as JSON, a dash for None."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return replace_lone_surrogates_by_question_mark(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def format_value_in_line(value: Any, max_characters: int) -> str:
    """Return a value as one line, cleaned and cut to `max_characters`."""
    return _cut_and_escape_excerpt(" ".join(format_changed_value(value).split()), 0, max_characters)


def format_change_in_lines(before: Any, after: Any, max_characters: int) -> tuple[str, str]:
    """Return two values as one line each; long ones start shortly before their first difference."""
    old, new = (" ".join(format_changed_value(each).split()) for each in (before, after))
    if max(len(old), len(new)) <= max_characters:
        return escape_control_characters(old), escape_control_characters(new)
    start = max(_count_common_prefix(old, new) - _LEAD_CHARACTERS, 0)
    return _cut_and_escape_excerpt(old, start, max_characters), _cut_and_escape_excerpt(new, start, max_characters)


def excerpt_change_keeping_line_breaks(before: Any, after: Any, max_characters: int) -> tuple[str, str]:
    """Return two values with line breaks; long ones start shortly before their first difference."""
    old, new = format_changed_value(before), format_changed_value(after)
    start = max(_count_common_prefix(old, new) - _LEAD_CHARACTERS, 0) if max(len(old), len(new)) > max_characters else 0
    return _cut_and_escape_excerpt(old, start, max_characters), _cut_and_escape_excerpt(new, start, max_characters)


def _count_common_prefix(old: str, new: str) -> int:
    """Return the length of the common prefix of two texts."""
    low, high = 0, min(len(old), len(new))
    while low < high:  # bisection: some twenty full comparisons of megabyte texts, not one per character
        middle = (low + high + 1) // 2
        low, high = (middle, high) if old[:middle] == new[:middle] else (low, middle - 1)
    return low


def _cut_and_escape_excerpt(text: str, start: int, max_characters: int) -> str:
    cut = text[start : start + max_characters]
    return escape_control_characters(f"{'…' if start else ''}{cut}{'…' if start + max_characters < len(text) else ''}")
