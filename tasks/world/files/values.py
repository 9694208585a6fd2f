"""The small grammar in which data/world/ writes statements (data/world/README.md), and the values it yields.

Times keep what was written: year, month and day as far as they are given, and the precision. Years are astronomical
(1 BCE is 0, 44 BCE is -43), as in Wikidata's RDF. Amounts stay decimal text, so that no digit is lost.
"""

import re
from calendar import monthrange
from dataclasses import dataclass
from typing import Literal

DataType = Literal["item", "time", "quantity", "string", "external"]
Rank = Literal["preferred", "normal", "deprecated"]
Precision = Literal["day", "month", "year", "decade", "century"]
DATA_TYPES: tuple[DataType, ...] = ("item", "time", "quantity", "string", "external")

_RANKS: dict[str, Rank] = {"preferred": "preferred", "deprecated": "deprecated"}
_QID = re.compile(r"Q[1-9][0-9]*")
_PID = re.compile(r"P[1-9][0-9]*")
_TIME = re.compile(
    r"(?:(?P<year>\d{1,4})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d))?)?"
    r"|(?P<decade>\d{0,3}0)s"
    r"|(?P<century>\d{1,2})(?:st|nd|rd|th) century)(?P<bce> BCE)?"
)
_QUANTITY = re.compile(r"(?P<amount>[+-]?\d+(?:\.\d+)?)(?: (?P<unit>Q[1-9][0-9]*))?")


@dataclass(frozen=True, slots=True)
class ItemValue:
    """An item."""

    qid: str


@dataclass(frozen=True, slots=True)
class TimeValue:
    """A point in time of some precision."""

    year: int
    """Astronomical year: 1 BCE is 0. For a decade the year it is named after, for a century its first year."""
    month: int
    """1 to 12; 1 when the precision is coarser than a month."""
    day: int
    """1 to 31; 1 when the precision is coarser than a day."""
    precision: Precision

    @property
    def is_julian(self) -> bool:
        """True before 15 October 1582, the first day of the Gregorian calendar."""
        return (self.year, self.month, self.day) < (1582, 10, 15)


@dataclass(frozen=True, slots=True)
class QuantityValue:
    """A number, with a unit or without."""

    amount: str
    """Decimal text as written, without a plus sign."""
    unit: str | None
    """Item of the unit; None for a bare number."""


@dataclass(frozen=True, slots=True)
class TextValue:
    """A string, an external id or a URL."""

    text: str


@dataclass(frozen=True, slots=True)
class UnknownValue:
    """There is a value, and nobody knows it."""


Value = ItemValue | TimeValue | QuantityValue | TextValue | UnknownValue


@dataclass(frozen=True, slots=True)
class RawStatement:
    """A statement's text taken apart, its values not read yet."""

    value: str
    qualifiers: tuple[tuple[str, str], ...]
    """(PID, text of the value) in the order written."""
    rank: Rank


def is_qid(text: str) -> bool:
    """True for the id of an item, like Q64."""
    return _QID.fullmatch(text) is not None


def is_pid(text: str) -> bool:
    """True for the id of a property, like P19."""
    return _PID.fullmatch(text) is not None


def split_statement(text: str) -> RawStatement:
    """Take `value | PID=value … | rank` apart; ValueError says which part is wrong and what was expected."""
    value, *rest = text.split(" | ")
    qualifiers: list[tuple[str, str]] = []
    ranks: list[Rank] = []
    for part in rest:
        pid, equals, qualifier = part.partition("=")
        if part in _RANKS:
            ranks.append(_RANKS[part])
        elif equals and is_pid(pid) and qualifier:
            qualifiers.append((pid, qualifier))
        else:
            raise ValueError(f"{part!r} is no qualifier; expected PID=value, `preferred` or `deprecated`")
    if len(ranks) > 1:
        raise ValueError(f"{len(ranks)} ranks; expected at most one")
    if not value.strip():
        raise ValueError("no value; expected one before the first ` | `")
    return RawStatement(value.strip(), tuple(qualifiers), ranks[0] if ranks else "normal")


def read_value(text: str, data_type: DataType) -> Value:
    """Read a value of a property's data type; ValueError says what was expected."""
    if text == "?":
        return UnknownValue()
    if data_type == "item":
        if not is_qid(text):
            raise ValueError(f"{text!r} is no item; expected a QID like Q64")
        return ItemValue(text)
    if data_type == "time":
        return read_time(text)
    if data_type == "quantity":
        return read_quantity(text)
    return TextValue(text)


def read_time(text: str) -> TimeValue:
    """Read a date, month, year, decade or century, with ` BCE` behind it or not; ValueError when it is none."""
    match = _TIME.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is no time; expected 1879-03-14, 1879-03, 1879, 1870s, 19th century, or those BCE")
    is_bce = match["bce"] is not None
    if match["century"]:
        century = int(match["century"])
        _require(century >= 1, text, "centuries count from 1")
        return TimeValue(1 - 100 * century if is_bce else 100 * century - 99, 1, 1, "century")
    named = int(match["decade"] if match["decade"] else match["year"])
    _require(named >= 1 or bool(match["decade"]), text, "there is no year 0")
    year = 1 - named if is_bce else named
    if match["decade"]:
        return TimeValue(year, 1, 1, "decade")
    month, day = int(match["month"] or 1), int(match["day"] or 1)
    _require(1 <= month <= 12, text, "months run from 01 to 12")
    time = TimeValue(year, month, day, "day" if match["day"] else "month" if match["month"] else "year")
    _require(1 <= day <= _month_days(time), text, f"that month has {_month_days(time)} days")
    return time


def read_quantity(text: str) -> QuantityValue:
    """Read `324 Q11573` or a bare number; ValueError when it is none."""
    match = _QUANTITY.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is no quantity; expected a number, then a unit item or nothing: `1.96 Q11573`")
    return QuantityValue(match["amount"].removeprefix("+"), match["unit"])


def _month_days(time: TimeValue) -> int:
    if time.month == 2 and time.is_julian:
        return 29 if time.year % 4 == 0 else 28
    return monthrange(max(time.year, 1), time.month)[1]


def _require(holds: bool, text: str, rule: str) -> None:
    if not holds:
        raise ValueError(f"{text!r} is no time: {rule}")
