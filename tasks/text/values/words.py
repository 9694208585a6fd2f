"""Texts as words, numbers and dates by what they say: "8 March 1917" is "March 8, 1917", "1,000" is "1000", "two" is 2.

Words are folded (`folded_text`) and compared in the singular, possessives without their ending. A date is read where a
month or an era stands in it; a bare year is a number, and a date says its year too. Ordinals are 5th however written.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from tasks.text.folded import fold_text
from tasks.text.matching import singular_form
from tasks.text.values.dates import write_date
from tasks.text.values.literals import YEAR, Date
from tasks.text.values.written import SCALES, read_date, read_number


class Count(NamedTuple):
    """A number."""

    number: str
    """In canonical form (text.values.literals.canonical_number)."""


class DayOfYear(NamedTuple):
    """A day without its year."""

    month: int
    day: int


Value = str | Count | Date | DayOfYear
"""What a part of a text says; a str is a folded word in the singular."""


class Told(NamedTuple):
    """A part of a text and what it says."""

    said: str
    value: Value


_TOKEN = re.compile(r"[^\W_]+(?:[.,'’^][^\W_]+)*[+#]*|%")
_RAISED = re.compile(r"(?<=[0-9])[⁺⁻]?[⁰¹²³⁴-⁹]+")
_MINUS = re.compile(r"(?<![\w)])[-‐‑–−](?=[0-9])")
_ERA = re.compile(r"\b([BAC])\. ?([CDE])\.(?: ?(E)\.)?")
_PER_CENT = re.compile(r"\bper cent\b", re.IGNORECASE)
_ISO_DATE = re.compile(r"(?<![\w-])[0-9]{4}-[0-9]{2}(?:-[0-9]{2})?(?![\w-])")
_POSSESSIVE = re.compile(r"(?<=[^\W\d_])(?:'s|s')$")
_DECADE = re.compile(r"([0-9]{2,4})'?s")
_ORDINAL = re.compile(r"[0-9]+(?:st|nd|rd|th)")
_MONTHS = frozenset({"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"})
_ERAS = frozenset({"bc", "bce", "ad", "ce"})
_TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
_UNITS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9}
_ORDINALS = {
    **{"first": "1st", "second": "2nd", "third": "3rd", "fourth": "4th", "fifth": "5th", "sixth": "6th"},
    **{"seventh": "7th", "eighth": "8th", "ninth": "9th", "tenth": "10th", "eleventh": "11th", "twelfth": "12th"},
}
_DATE_WORDS_AT_MOST = 6
_LIGHT = frozenset(
    {
        *("a", "about", "an", "and", "around", "at", "between", "by", "circa", "for", "from", "in", "of", "on", "or"),
        *("the", "till", "to", "until", "with"),
    }
)


def read_values(text: str) -> list[Told]:
    """Return what the parts of a text say, in order."""
    words = _TOKEN.findall(_spell(text))
    marks = [_is_month(word) or word.lower() in _ERAS for word in words]
    told: list[Told] = []
    at = 0
    while at < len(words):
        width, value = _read_at(words, marks, at)
        told.append(Told(" ".join(words[at : at + width]), value))
        at += width
    return told


def find_capitals(told: Sequence[Told]) -> Iterator[tuple[bool, str, str]]:
    """Yield the capitalised words among the parts of a sentence: whether it opens it, the word, and what it says.

    Months and numbers that are part of a date or number are none.
    """
    for at, (said, value) in enumerate(told):
        if isinstance(value, str) and said[0].isupper() and said != "I":
            yield at == 0, said, value


def drop_light(values: Sequence[Value]) -> list[Value]:
    """Return the values without articles and small words between; all of them where there is nothing else."""
    return [value for value in values if value not in _LIGHT] or list(values)


def says(found: Value, wanted: Value) -> bool:
    """True when a value says the wanted one: the same, or a date that is finer or of the wanted year."""
    if found == wanted:
        return True
    if isinstance(found, Date):
        if isinstance(wanted, Date):
            return wanted.fits(found.key, found.precision)
        if isinstance(wanted, DayOfYear):
            return (found.month, found.day) == wanted
        return isinstance(wanted, Count) and wanted.number in (str(found.year), str(1 - found.year))
    return False


def has_sequence(values: Sequence[Value], wanted: Sequence[Value]) -> bool:
    """True when the wanted values stand in a row, in order; never for none."""
    width = len(wanted)
    return bool(wanted) and any(
        all(map(says, values[at : at + width], wanted)) for at in range(len(values) - width + 1)
    )


def is_kin(found: Value, wanted: Value) -> bool:
    """True when a value says the wanted one, or both are words of one stem: Carthage and Carthaginian, cross and crossing."""
    if says(found, wanted):
        return True
    if not (isinstance(found, str) and isinstance(wanted, str) and found.isalpha() and wanted.isalpha()):
        return False
    shared = next((at for at, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b), None)
    shorter = min(len(found), len(wanted))
    return (shorter if shared is None else shared) >= max(3, shorter - 2)


def _spell(text: str) -> str:
    """Return a text with signs, powers, eras and ISO dates in forms that parting it into words leaves whole."""
    plain = _ERA.sub(r"\1\2\3", unicodedata.normalize("NFC", text))
    plain = _ISO_DATE.sub(lambda found: write_date(found[0]), plain)
    plain = _RAISED.sub(lambda found: "^" + unicodedata.normalize("NFKC", found[0]).replace("\u2212", "m"), plain)
    return _MINUS.sub("minus ", _PER_CENT.sub("percent", plain))


def _read_at(words: Sequence[str], marks: Sequence[bool], at: int) -> tuple[int, Value]:
    """Return how many words the value at a place takes, and the value; marks are true for months and eras."""
    for width in range(min(_DATE_WORDS_AT_MOST, len(words) - at), 1, -1):
        if True in marks[at : at + width]:
            window = words[at : at + width]
            # a year before the era that follows it would be read as one of ours
            is_cut = at + width < len(words) and words[at + width].lower() in _ERAS
            if not is_cut and (date := read_date(" ".join(window))):
                return width, date
            if width == 2 and (day := _read_day(window)):
                return width, day
    width, number = 1, words[at]
    if tens := _TENS.get(words[at].lower()):
        units = _UNITS.get(_word_at(words, at + 1), 0)
        width, number = (2 if units else 1), str(tens + units)
    scale = _word_at(words, at + width)
    if scale in SCALES and (count := _read_count(f"{number} {scale}")):
        return width + 1, count
    return width, Count(number) if tens else _read_word(words[at])


def _word_at(words: Sequence[str], at: int) -> str:
    return words[at].lower() if at < len(words) else ""


def _is_month(word: str) -> bool:
    return word[:1].isupper() and word[:3].lower() in _MONTHS


def _read_day(window: Sequence[str]) -> DayOfYear | None:
    """Return the day that a month and a number are, in either order: a leap year knows every day."""
    date = read_date(f"{' '.join(window)} 2000")
    return DayOfYear(date.month, date.day) if date and date.month and date.day else None


def _read_count(text: str) -> Count | None:
    number = read_number(text)
    return Count(number.number) if number and number.unit is None else None


@lru_cache(maxsize=65536)
def _read_word(word: str) -> Value:
    if word == "%":
        return "percent"
    folded = fold_text(word)
    if decade := _DECADE.fullmatch(folded):
        return f"{decade[1]}s"
    if folded in _ORDINALS or _ORDINAL.fullmatch(folded):
        return _ORDINALS.get(folded, folded)
    if count := _read_count(folded):
        return count
    bare = _POSSESSIVE.sub(lambda found: "s" if found[0] == "s'" else "", folded)
    if bare in _LIGHT:
        return bare
    return _singular(bare)


def _singular(word: str) -> str:
    """Return a folded word in the singular; one that is more than letters stays."""
    return singular_form(word) or word if word.isalpha() else word


def is_year(value: Value) -> bool:
    """True for a date to the year."""
    return isinstance(value, Date) and value.precision == YEAR
