"""How the rules author reads knowledge that is told as `{qid: Q1, name: Ada Lovelace, place of birth: London}`.

Labels may hold commas and colons, so a part ends only where a comma and the label of a property that biographies tell
with follow (data/lists/biography_properties.csv), or, for other properties, a comma and words in small letters before
a colon.
"""

import re
from dataclasses import dataclass
from functools import cache

from tasks.core.authoring.citations import format_label
from tasks.rules.tables import load_biography_properties

_HEAD = re.compile(r"\s*\{qid: (?P<qid>Q[1-9][0-9]*), name: (?P<rest>.*)\}\s*", re.DOTALL)
_ANY_PROPERTY = r"[^\W\d_A-Z][^,:]*"
_LAST_PART = re.compile(r"(?P<name>.*?), (?P<property>[^,:]+): (?P<value>.*)", re.DOTALL)
_DATE = re.compile(r"(?P<year>[0-9]{1,6})(?:-(?P<month>[0-9]{2})(?:-(?P<day>[0-9]{2}))?)?(?P<era> BC)?")
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fact:
    """A property of a person with its value, as they are told."""

    property: str
    value: str


@dataclass(frozen=True, slots=True)
class Known:
    """What is told of one person."""

    qid: str
    name: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class ToldDate:
    """A date as text.values.literals.format_date tells it."""

    year: int
    month: int | None
    day: int | None
    is_before_christ: bool


def read_knowledge(text: str) -> list[Known]:
    """Return what is told of each person, one line a person; a line that is none is passed over."""
    return [known for line in text.splitlines() if (known := _read_line(line))]


def read_piece(text: str) -> Known:
    """Return whom a piece is about, with the values of its property; ValueError when the text is none."""
    known = _read_line(text)
    if known is None:
        raise ValueError(f"expected a piece of the form {{qid: Q1, name: …, property: value}}, found {text!r}")
    if known.facts:
        return known
    # a property that no list knows and that begins with a capital
    last = _LAST_PART.fullmatch(known.name)
    if not last:
        raise ValueError(f"the piece {text!r} has no property with a value")
    values = last["value"].split(f", {last['property']}: ")
    return Known(known.qid, last["name"], tuple(Fact(last["property"], value) for value in values))


def read_told_date(value: str) -> ToldDate | None:
    """Return the date that a value tells to the day, the month or the year; None when it is none."""
    found = _DATE.fullmatch(value)
    if not found:
        return None
    month, day = (int(found[part]) if found[part] else None for part in ("month", "day"))
    if month is not None and not 1 <= month <= 12:
        return None
    return ToldDate(int(found["year"]), month, day, bool(found["era"]))


def is_date_property(label: str) -> bool:
    """True for a property whose values are dates."""
    return label == "inception" or "date" in label.split()


def _read_line(line: str) -> Known | None:
    head = _HEAD.fullmatch(line)
    if not head:
        return None
    name, *rest = _compile_splits().split(head["rest"])
    facts = (Fact(label, value) for label, value in zip(rest[::2], rest[1::2], strict=True))
    return Known(head["qid"], name, tuple(facts))


@cache
def _compile_splits() -> re.Pattern[str]:
    # the longest label first, and found whole: "languages spoken, written or signed" is one
    labels = sorted(map(format_label, load_biography_properties()), key=lambda label: (-len(label), label))
    return re.compile(rf", ({'|'.join(map(re.escape, labels))}|{_ANY_PROPERTY}): ")
