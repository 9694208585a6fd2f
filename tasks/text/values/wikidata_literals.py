"""Dates and numbers of Wikidata: their RDF literals, and when a value matches a wanted one.

Values and wanted dates have a precision (day, month or year): "1952" matches 11 March 1952, but 11 March 1952 does not
match a value with only the year (MultiHal reads every year as its 1 January; see the paper, §2.2 and Appendix C,
Listing 3). Numbers are compared as exact decimals, never as floats, in their stated unit. Years are those of the RDF:
astronomical, so that 44 BC is -43, and beyond the range of Python's dates.
"""

import hashlib
import re
from dataclasses import dataclass
from decimal import Decimal

YEAR_PRECISION, MONTH_PRECISION, DAY_PRECISION = 9, 10, 11
"""Wikidata's numbers for the precision of a time (wikibase:timePrecision); coarser ones are smaller, down to 0."""
UNITLESS_QID_NUMBER = 199
"""Q199, the number 1: the unit of quantities without one."""

_MAX_YEAR = 10**14
_DATE_TIME = re.compile(
    r"([+-]?)([0-9]{4,})-([0-9]{2})-([0-9]{2})T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})?"
)
_ISO_PARTIAL_DATE = re.compile(r"(-?[0-9]{4,})(?:-([0-9]{2})(?:-([0-9]{2}))?)?")
_DECIMAL = re.compile(r"([+-]?)0*+([0-9]*+)(?:\.((?:0*+[1-9])*+)0*)?")


@dataclass(frozen=True, slots=True)
class PartialDate:
    """A wanted date, with the precision of a day, month or year."""

    year: int
    """Astronomical: 1 BC is 0."""
    month: int | None = None
    day: int | None = None

    @property
    def precision(self) -> int:
        """Wikidata's number of the precision: 11 day, 10 month, 9 year."""
        if self.month is None:
            return YEAR_PRECISION
        return MONTH_PRECISION if self.day is None else DAY_PRECISION

    @property
    def key(self) -> int:
        """The date as one number like `compute_xsd_datetime_day_key`, with 0 for unknown parts."""
        return self.year * 10_000 + (self.month or 0) * 100 + (self.day or 0)

    def is_satisfied_by(self, key: int, precision: int) -> bool:
        """True when a value with this key and precision states this date, at least as precisely."""
        step = {YEAR_PRECISION: 10_000, MONTH_PRECISION: 100, DAY_PRECISION: 1}[self.precision]
        return precision >= self.precision and key // step == self.key // step

    def __str__(self) -> str:
        """ISO 8601, cut at the precision: 1952, 1952-03, -0043-03-15."""
        sign = "-" if self.year < 0 else ""
        parts = [f"{sign}{abs(self.year):04d}", *(f"{part:02d}" for part in (self.month, self.day) if part is not None)]
        return "-".join(parts)


@dataclass(frozen=True, slots=True)
class WantedNumberWithUnit:
    """A wanted number, with its unit."""

    number: str
    """In canonical form (`canonical_number`)."""
    unit: int | None = None
    """Number of the unit's QID; None matches any unit."""

    def is_satisfied_by(self, number: str, unit: int | None) -> bool:
        """True when a value (canonical number, unit or None) matches this number."""
        return self.number == number and self.unit in (None, unit)


def parse_iso_partial_date(text: str) -> PartialDate:
    """Parse the text of `str(date)`; ValueError for any other."""
    found = _ISO_PARTIAL_DATE.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is no date of the form 1952, 1952-03 or 1952-03-11")
    return PartialDate(int(found[1]), *(int(part) for part in found.groups()[1:] if part is not None))


def compute_xsd_datetime_day_key(text: str) -> int | None:
    """Return an xsd:dateTime as year · 10,000 + month · 100 + day (0: unknown); None when the text is no date."""
    found = _DATE_TIME.fullmatch(text)
    if not found:
        return None
    sign, year, month, day = found[1], int(found[2]), int(found[3]), int(found[4])
    if year > _MAX_YEAR or month > 12 or day > 31:
        return None
    return (-year if sign == "-" else year) * 10_000 + month * 100 + day


def canonical_number(text: str) -> str | None:
    """Return an xsd:decimal without plus sign, leading and trailing zeros ("+1.50" is "1.5"); None for any other text."""
    found = _DECIMAL.fullmatch(text)
    if not found or not any(character.isdigit() for character in text):
        return None
    integer, rest = found[2] or "0", found[3] or ""
    number = f"{integer}.{rest}" if rest else integer
    return f"-{number}" if found[1] == "-" and Decimal(number) else number


def hash_canonical_number(number: str) -> int:
    """Return the index key of a canonical number, 63 bits of its MD5; numbers with equal keys are compared themselves."""
    return int.from_bytes(hashlib.md5(number.encode(), usedforsecurity=False).digest()[8:], "little") & (2**63 - 1)


def format_wikidata_date(text: str, precision: int | None) -> str:
    """Format an xsd:dateTime for readers, cut at its precision (Wikidata's number; None: to the day).

    Day and month are ISO 8601, which needs no translation: 1952-03-11, 1952-03, 1952, 1950s, 20th century, 44 BC,
    0044-03-15 BC; coarser dates give the year with "about". A text that is no date is returned unchanged.
    """
    found = _DATE_TIME.fullmatch(text)
    if not found:
        return text
    year = -int(found[2]) if found[1] == "-" else int(found[2])
    shown, era = (1 - year, " BC") if year <= 0 else (year, "")
    formatted = str(shown)
    match DAY_PRECISION if precision is None else precision:
        case 10:
            formatted = f"{shown:04d}-{found[3]}" if found[3] != "00" else formatted
        case 9:
            pass
        case 8:
            formatted = f"{shown // 10 * 10}s"
        case 7:
            formatted = f"{format_ordinal((shown + 99) // 100)} century"
        case coarse if coarse < 7:
            formatted = f"about {shown}"
        case _:
            formatted = f"{shown:04d}-{found[3]}-{found[4]}" if found[3] != "00" and found[4] != "00" else formatted
    return formatted + era


def format_wikidata_literal(text: str, precision: int | None, unit: str | None = None) -> str:
    """Format the value at the end of a path for readers: a date with `format_wikidata_date`, a number with its unit."""
    number = canonical_number(text)
    if number is None:
        return format_wikidata_date(text, precision)
    return f"{number} {unit}" if unit else number


def format_ordinal(number: int) -> str:
    """Format an ordinal: 1st, 22nd, 13th."""
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
