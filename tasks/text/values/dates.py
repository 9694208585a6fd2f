"""Dates inside sentences: whether a sentence says a date as text/values/literals.py tells it, in whatever way it is written.

A told date is to the day, month or year (1593-07-08, 1593-07, 1593, 44 BC, 0044-03-15 BC), or it is a stretch of years
(1950s, 5th century BC). A sentence says it at that precision or a finer one: 14 March 1879 says 1879, but 1879 does not say
14 March 1879. Single dates are read by text/values/written.py, window by window, the widest first, so that "44 BC" is
never read as the year 44 and 1879 in "14 March 1879" is no date of its own.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tasks.text.values.literals import Date
from tasks.text.values.written import MONTHS, read_date

_WORDS_AT_MOST = 6
"""Of a date: "the 14th of March 44 BC"."""
_MONTHS = tuple(month.capitalize() for month in MONTHS)
_ORDINALS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth",
    "twentieth", "twenty first",
)  # fmt: skip
_ORDINAL_CENTURY = re.compile(rf"\b({'|'.join(_ORDINALS)}) (?=century\b)", re.IGNORECASE)
_STRETCH = re.compile(
    r"(?P<number>[0-9]{1,6})(?:(?P<decade>'?s)|(?:st|nd|rd|th) century)(?: (?P<era>bce?|ce|ad))?", re.IGNORECASE
)
_ISO_BC = re.compile(r"([0-9]{4,})-([0-9]{2})(?:-([0-9]{2}))? BCE?", re.IGNORECASE)
_SHORT_YEAR = re.compile(r"[0-9]{1,3}")
_YEAR_CUES = frozenset(
    {"in", "year", "about", "around", "circa", "ca.", "c.", "since", "until", "from", "by", "before", "after"}
)
"""Words behind which a number of one or two digits is a year; one of three may be one anywhere."""
_EDGES = "()[]{}.,;:!?\"'“”‘’«»"
_SPELLINGS = (
    (re.compile(r"[–—]"), " – "),
    (re.compile(r"\b([BAC])\. ?([CDE])\.(?: ?(E)\.)?"), r"\1\2\3"),
    (re.compile(r"(?<![0-9-])([0-9]{3,4})-([0-9]{3,4})(?![0-9-])"), r"\1 – \2"),
    (re.compile(r"(?i)-(?=(?:first )?century\b)"), " "),
    (re.compile(rf"(?i)\b({'|'.join(_MONTHS)}) of (?=[0-9])"), r"\1 "),
    # behind a day or month written_values reads the era only at the end
    (re.compile(r"(?<=[a-z,.] )AD ([0-9]{1,4})\b"), r"\1 AD"),
)


@dataclass(frozen=True, slots=True)
class Years:
    """A stretch of years: a decade or a century."""

    first: int
    """Astronomical, as in Date."""
    last: int


When = Date | Years


def says_date(sentence: str, told: str) -> bool | None:
    """True when a sentence says a told date, at its precision or a finer one; None when the told text is no date."""
    wanted = _read_told(told)
    return None if wanted is None else any(_says(found, wanted) for found in _find_dates(sentence))


def is_same_date(one: str, other: str) -> bool:
    """True when two texts are the same date at the same precision, however it is written."""
    read = _read_told(one)
    return read is not None and read == _read_told(other)


def write_date(told: str) -> str:
    """Return a told date as it stands in a sentence: 8 July 1593, AD 37, March 44 BC, the 1950s, the 5th century BC."""
    when = _read_told(told)
    if isinstance(when, Years):
        return f"the {told}"
    if when is None or told.startswith("about "):
        return told
    year = f"{1 - when.year} BC" if when.year <= 0 else str(when.year) if when.year >= 100 else f"AD {when.year}"
    return " ".join([*([str(when.day)] if when.day else []), *([_MONTHS[when.month - 1]] if when.month else []), year])


def _read_told(told: str) -> When | None:
    """Return the date that a text is as a whole (text.values.literals.format_date, or as people write it); None for no date."""
    text = _spell(told.removeprefix("about ").removeprefix("the "))
    return Date(int(text)) if _SHORT_YEAR.fullmatch(text) else _read(text)


def _says(found: When, wanted: When) -> bool:
    if isinstance(wanted, Date):
        return isinstance(found, Date) and wanted.fits(found.key, found.precision)
    first, last = (found.first, found.last) if isinstance(found, Years) else (found.year, found.year)
    return wanted.first <= first and last <= wanted.last


def _find_dates(sentence: str) -> Iterator[When]:
    """Yield the dates of a sentence from left to right, none that is sure inside another."""
    words = _spell(sentence).split()
    at = 0
    while at < len(words):
        for width in range(min(_WORDS_AT_MOST, len(words) - at), 0, -1):
            if when := _read(_cut(words, at, width)):
                yield when
                at += width
                break
        else:
            if when := _guess(words, at):
                yield when
            at += 1


def _cut(words: Sequence[str], at: int, width: int) -> str:
    return " ".join(words[at : at + width]).strip(_EDGES)


def _guess(words: Sequence[str], at: int) -> Date | None:
    """Return the date that begins at a word when its year has up to three digits and no era: "in 476", "15 December 37"."""
    dated = (read_date(f"{_cut(words, at, width)} AD") for width in (4, 3))
    if date := next((date for date in dated if date and date.day), None):
        return date
    number = _cut(words, at, 1)
    is_year = _SHORT_YEAR.fullmatch(number) and (len(number) == 3 or (at and words[at - 1].lower() in _YEAR_CUES))
    return Date(int(number)) if is_year else None


def _read(text: str) -> When | None:
    if not re.search("[0-9]", text):
        return None
    if stretch := _STRETCH.fullmatch(text):
        return _read_stretch(int(stretch["number"]), bool(stretch["decade"]), (stretch["era"] or "").lower())
    if iso := _ISO_BC.fullmatch(text):
        return Date(1 - int(iso[1]), *(int(part) for part in iso.groups()[1:] if part))
    return read_date(text)


def _read_stretch(number: int, is_decade: bool, era: str) -> Years:
    first, last = (number, number + 9) if is_decade else (100 * number - 99, 100 * number)
    return Years(1 - last, 1 - first) if era.startswith("b") else Years(first, last)


def _spell(text: str) -> str:
    """Return a text with dashes, eras and centuries in one spelling."""
    plain = " ".join(unicodedata.normalize("NFKC", text).split())
    for pattern, spelling in _SPELLINGS:
        plain = pattern.sub(spelling, plain)
    return _ORDINAL_CENTURY.sub(lambda found: f"{_ORDINALS.index(found[1].lower()) + 1}th ", plain)
