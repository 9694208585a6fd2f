"""What changed from one build to another, as data, and how changed values stand in a line."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from factmill.tasks.text.whole import clean, whole_text

Kind = Literal["added", "removed", "changed"]
CauseKind = Literal[
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
MEANINGS: Mapping[CauseKind, str] = {
    "source": "the row of the source is new, gone or another",
    "world": "a service says something else: a page has another revision, an item another statement",
    "epoch": "the moment whose articles and page views are read is another",
    "prompt": "the prompt was edited",
    "query": "the query was edited",
    "list": "a list was edited",
    "model": "another model answered, or the same one with other settings",
    "parameter": "the build was told something else",
    "decision": "a reviewer decided otherwise, or the policy is another",
    "code": "the code of the build is another",
    "reply": "the same question was asked anew and answered otherwise, or its scripted reply was edited",
    "other rows": "other rows changed, with which this one is weighed",
    "one of": "several inputs differ, any of which may be why, and no recorded call tells which",
    "left out": "the release was made without such rows",
    "not told": "releases are compared, which hold no recorded calls, and their locks do not tell it",
    "unexplained": "nothing that is recorded explains it",
}
"""Kind of a cause → what it says."""
KINDS: tuple[Kind, ...] = ("added", "removed", "changed")


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a row is otherwise."""

    kind: CauseKind
    what: str
    """The input by name: a prompt, a list, a service, a parameter; rows are counted by kind and name."""
    told: str = ""
    """What of it is other, in a line: `item_facts of Q42 says otherwise`."""
    stage: str = ""
    """Where the row's calls first tell of it; empty where none does."""

    @property
    def label(self) -> str:
        """Kind and name, by which rows are counted."""
        return f"{self.kind}: {self.what}" if self.what else self.kind


@dataclass(frozen=True, slots=True)
class InputChange:
    """An input of the two locks that differs."""

    cause: Cause
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column with other content."""

    name: str
    before: Any
    after: Any
    table: str = ""
    """Where it is no column of the main table."""
    withheld: bool = False
    """True where the table's answers are held out: before and after are None then."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a row that one of the builds does not publish."""

    build: Literal["before", "after"]
    stage: str
    reason: str
    """Of a reject; `merged` for a row united with another."""
    detail: str


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row that is added, removed or changed."""

    kind: Kind
    id: str
    """In the later build; in the earlier one for a removed row."""
    id_before: str
    """Empty for an added row."""
    causes: tuple[Cause, ...]
    """The first in the order of stages comes first; never empty."""
    columns: tuple[ColumnChange, ...] = ()
    """Of a changed row."""
    shown: Mapping[str, Any] = field(default_factory=dict)
    """Columns by which readers know the row, as it is in the later build, or was."""
    fate: Fate | None = None

    @property
    def cause(self) -> Cause:
        """The first of its causes, by which it is counted."""
        return self.causes[0]


@dataclass(frozen=True, slots=True)
class Compared:
    """One of the two builds."""

    build_id: str
    rows: int
    published: str
    """Day (ISO 8601)."""
    caution: str = ""


@dataclass(frozen=True, slots=True)
class Diff:
    """All that changed from one build to another."""

    benchmark: str
    title: str
    before: Compared
    after: Compared
    inputs: Sequence[InputChange]
    same: int
    """Rows that say the same."""
    remade: int
    """Of these, rows that another call, or another place of the source, gave."""
    rows: Sequence[RowChange]
    """By kind, then by id."""
    tables: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Other published tables → rows added, removed and changed by id, where there are any."""
    new_columns: Sequence[str] = ()
    """Columns that builds of the earlier one's time did not have: no change of rows."""

    @property
    def differs(self) -> bool:
        """True where rows were added, removed or changed."""
        return bool(self.rows)

    def counts(self) -> dict[Kind, int]:
        """Return kind of change → rows."""
        found = Counter(row.kind for row in self.rows)
        return {kind: found[kind] for kind in KINDS}

    def count_causes(self) -> dict[str, dict[Kind, int]]:
        """Return cause (its label) → kind of change → rows, the most frequent first."""
        found = Counter((row.cause.label, row.kind) for row in self.rows)
        totals = Counter(row.cause.label for row in self.rows)
        return {
            label: {kind: found[label, kind] for kind in KINDS}
            for label, _ in sorted(totals.items(), key=lambda each: (-each[1], each[0]))
        }


def count_unexplained(diff: Diff) -> int:
    """Return the rows of which nothing tells why they changed."""
    return sum(row.cause.kind == "unexplained" for row in diff.rows)


_LEAD = 20
"""Characters told before the first difference of two long texts."""


def tell_value(value: Any) -> str:
    """Return a column's value as text: texts as they are, lists and records as JSON, a dash for none."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return whole_text(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def tell_line(value: Any, longest: int) -> str:
    """Return a value in one line, cleaned and cut where it is long."""
    return _cut(" ".join(tell_value(value).split()), 0, longest)


def tell_pair(before: Any, after: Any, longest: int) -> tuple[str, str]:
    """Return two values in a line each; of long ones the part from shortly before their first difference on."""
    old, new = (" ".join(tell_value(each).split()) for each in (before, after))
    if max(len(old), len(new)) <= longest:
        return clean(old), clean(new)
    start = max(_count_alike(old, new) - _LEAD, 0)
    return _cut(old, start, longest), _cut(new, start, longest)


def cut_pair(before: Any, after: Any, longest: int) -> tuple[str, str]:
    """Return two values as they are, lines kept, but of long ones the part from shortly before their first difference on."""
    old, new = tell_value(before), tell_value(after)
    start = max(_count_alike(old, new) - _LEAD, 0) if max(len(old), len(new)) > longest else 0
    return _cut(old, start, longest), _cut(new, start, longest)


def _count_alike(old: str, new: str) -> int:
    """Return how many characters two texts begin with alike."""
    low, high = 0, min(len(old), len(new))
    while low < high:  # halving: texts of a megabyte are compared whole some twenty times, not letter by letter
        middle = (low + high + 1) // 2
        low, high = (middle, high) if old[:middle] == new[:middle] else (low, middle - 1)
    return low


def _cut(text: str, start: int, longest: int) -> str:
    cut = text[start : start + longest]
    return clean(f"{'…' if start else ''}{cut}{'…' if start + longest < len(text) else ''}")
