"""Dates and numbers as people write them in answers: "11 March 1952", "44 BC", "1,234.5 km", "$12 million", "Third".

Only a text that is a date or number as a whole is read as one; anything else is a name. A date is kept at the precision
it is written in (MultiHal's own script reads 1946 as 1 January 1946, and every number up to 2100 as a year). English
spelling is meant: a comma parts thousands, a full stop parts decimals; "3,5" is read as nothing rather than as 35.
"""

import csv
import io
import re
from calendar import monthrange
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from tasks.errors import SettingsError
from tasks.text.ids import id_number, is_qid
from tasks.text.matching import singular_form
from tasks.text.values.literals import Date, Number, canonical_number

_LATEST_YEAR = 2100
MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH = r"(?P<month>[a-z]{3,9})\.?"
_DAY = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>[0-9]{1,4})(?P<era> ?(?:bce?|b\.c\.|ce|ad|a\.d\.))?"
_DATES = tuple(
    re.compile(form)
    for form in (
        r"(?P<year>-?[0-9]{4})(?P<era>)-(?P<month>[0-9]{2})(?:-(?P<day>[0-9]{2}))?",
        rf"(?:the )?{_DAY}(?: of)? {_MONTH}(?:,| of)? {_YEAR}",
        rf"{_DAY}(?P<gap>[/-]){_MONTH}(?P=gap){_YEAR}",
        rf"{_MONTH} (?:the )?{_DAY},? {_YEAR}",
        rf"{_MONTH}(?:,| of)? {_YEAR}",
        r"(?P<month>0[1-9]|1[0-2])[/-](?P<year>[0-9]{4})(?P<era>)",
        r"(?P<front>ad )?(?P<year>[0-9]{1,6})(?P<era> ?(?:bce?|b\.c\.|ce|ad|a\.d\.))?",
    )
)
_SLASHED = re.compile(r"([0-9]{1,2})[/.]([0-9]{1,2})[/.]([0-9]{4})")
_LEAD = re.compile(
    r"(?:(?:in|on)\s+)?(?:the\s+year\s+(?:of\s+)?|(?:mon|tues|wednes|thurs|fri|satur|sun)day,?\s+)?", re.IGNORECASE
)
_DAY_FIRST, _MONTH_FIRST = (
    re.compile(rf"\b{first}\W+(?:(?:and|the)\W+)*{second}\b", re.IGNORECASE)
    for first, second in (("(?:day|date|dd)", "(?:month|mm)"), ("(?:month|mm)", "(?:day|date|dd)"))
)
"""What a question says of the order in which it wants a date: "the day, month and year", MM/DD/YYYY."""
_AMOUNT = re.compile(
    r"(?P<mark>(?:US|AU?|CA?|HK|CN)?[$¥]|[€£₹₩]|USD|EUR|GBP|JPY|CNY|RMB|INR|KRW|CHF|AUD|CAD|HKD) ?(?P<marked>[0-9].*)"
    r"|(?:#|no\. ?|number )(?P<place>[0-9]+)|(?P<nth>[0-9][0-9,]*)(?:st|nd|rd|th)(?P<of>.*)",
    re.IGNORECASE,
)
_FEET = re.compile(
    r"([0-9]+) ?(?:ft\.?|feet|foot|['’′]),? ?([0-9]+(?:\.[0-9]+)?) ?(?:in\.?|inch(?:es)?|[\"”″])", re.IGNORECASE
)
_NUMBER = re.compile(
    r"(?P<sign>[+\-−]?)(?P<digits>[0-9]{1,3}(?:(?P<gap>[,'\s])[0-9]{3})(?:(?P=gap)[0-9]{3})*|[0-9]+|(?=\.[0-9]))(?P<rest>\.[0-9]+)?"
)
_MEASURED = re.compile(r" (?:long|high|tall|wide|deep|thick|old)$")
_HYPHENATED = re.compile(r"(?<=[0-9])[ -]?([^\W\d_]+)[ -](long|high|tall|wide|deep|thick)$")
_COUNTED = re.compile(r"\b(?:how many|number of) (.*)", re.IGNORECASE | re.DOTALL)
_PLACE = re.compile(r" (?:place|position|rank)$", re.IGNORECASE)
SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
"""Scale word → power of ten."""
_WORDS = {
    word: number
    for number, word in enumerate(
        (
            *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"),
            *("twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
        )
    )
}
_ORDINALS = {
    word: number
    for number, word in enumerate(
        (
            *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"),
            *("eleventh", "twelfth"),
        ),
        1,
    )
}
_UNIT_WORDS_AT_MOST = 3
_NO_UNITS = {
    *("and", "or", "to", "of", "out", "half", "halves", "third", "thirds", "quarter", "quarters", *_WORDS),
    *("bc", "bce", "ad", "ce", "b.c.", "b.c.e.", "a.d.", "c.e."),
}
"""Words behind a number that make it another number, or a year."""


@dataclass(frozen=True, slots=True)
class WrittenNumber:
    """A number as it is written, with what stands behind or before it."""

    number: str
    """Canonical (`canonical_number`), any "million" multiplied in."""
    unit: str | None
    """Text of the unit or of what is counted, as written; None when there is none."""


def read_date(text: str) -> Date | None:
    """Return the date that a text is as a whole, at the precision it has; None when it is none, or after 2100.

    A bare number is a year only with four digits. Of a date like 03/04/1952, which is read in two ways, the year stays.
    """
    plain = " ".join(text.split()).strip(" .").lower()
    if found := _SLASHED.fullmatch(plain):
        return _read_slashed(*map(int, found.groups()))
    for form in _DATES:
        if found := form.fullmatch(plain):
            parts = found.groupdict()
            if date := _make_date(parts):
                return date
    return None


def read_answer_date(answer: str, question: str) -> Date | None:
    """Return the date that an answer is, with "in", "on" or a weekday before it, in the order that the question states."""
    bare = answer.strip()[_LEAD.match(answer.strip()).end() :]  # type: ignore[union-attr]
    found = _SLASHED.fullmatch(bare.strip(" ."))
    if found and bool(_DAY_FIRST.search(question)) != bool(_MONTH_FIRST.search(question)):
        first, second, year = map(int, found.groups())
        day, month = (first, second) if _DAY_FIRST.search(question) else (second, first)
        return _check_date(year, month, day) or read_date(bare)
    return read_date(bare)


def read_number(text: str) -> WrittenNumber | None:
    """Return the number that a text is as a whole, with its unit in at most three words; None when it is none.

    Feet and inches are inches; a place ("third place") has no unit. "20m-high" and "20-metre-high" are 20 m high.
    """
    plain = _HYPHENATED.sub(r" \1 \2", " ".join(text.split()).strip().removesuffix("."))
    if both := _FEET.fullmatch(plain):
        return WrittenNumber(str(canonical_number(str(12 * int(both[1]) + Decimal(both[2])))), "in")
    mark = None
    if found := _AMOUNT.fullmatch(plain):
        mark = found["mark"]
        plain = found["marked"] or found["place"] or f"{found['nth']}{_PLACE.sub('', found['of'])}"
    first, _, behind = plain.partition(" ")
    if (nth := _ORDINALS.get(first.lower())) and behind.partition(" ")[0].lower() not in SCALES:
        return _scale(str(nth), _PLACE.sub("", f" {behind}").strip(), None)
    if (word := _WORDS.get(first.lower())) is not None:
        return _scale(str(word), behind, mark)
    number = _NUMBER.match(plain)
    if not number:
        return None
    behind = plain[number.end() :]
    if behind[:1] and (behind[0].isdigit() or behind[0] in ",.'/-–:"):
        return None
    digits = re.sub(r"[^0-9]", "", number["digits"])
    sign = "-" if number["sign"] in ("-", "−") else ""
    return _scale(f"{sign}{digits}{number['rest'] or ''}", behind.strip(), mark)


def read_units(text: str) -> dict[str, int]:
    """Read the list of units (CSV) as name → QID number; SettingsError names the line that is wrong."""
    reader = csv.DictReader(io.StringIO(text))
    units: dict[str, int] = {}
    for line in reader:
        if None in line.values() or not is_qid(line["qid"]):
            raise SettingsError(f"units.csv, line {reader.line_num}: expected qid, name and other names, found {line}")
        for name in (line["name"], *filter(None, line["other_names"].split("|"))):
            if units.setdefault(name, id_number(line["qid"])) != id_number(line["qid"]):
                raise SettingsError(f"units.csv, line {reader.line_num}: {name!r} names two units")
    return units


def look_for(written: WrittenNumber, units: Mapping[str, int], question: str = "") -> Number | None:
    """Return the number to look for: in its unit, in any unit where it has none; None for a unit that is not known.

    What the question counts is no unit: "two medals" is 2 where it asks how many medals there are.
    """
    if written.unit is None:
        return Number(written.number)
    name = _MEASURED.sub("", written.unit)
    unit = units.get(name, units.get(name.lower()))
    if unit is not None:
        return Number(written.number, unit)
    counted = _COUNTED.search(question)
    noun = singular_form(name).split()[-1:]
    if counted and written.number.isdigit() and noun and noun[0] in singular_form(counted[1]).split():
        return Number(written.number)
    return None


def _scale(number: str, behind: str, mark: str | None) -> WrittenNumber | None:
    scale, _, rest = behind.partition(" ")
    if scale.lower() in SCALES:
        number = format(Decimal(number).scaleb(SCALES[scale.lower()]), "f")
        behind = rest
    words = behind.split()
    canonical = canonical_number(number)
    if canonical is None or len(words) > _UNIT_WORDS_AT_MOST or (mark and words):
        return None
    if words and (words[0].lower() in _NO_UNITS or re.search("[0-9]", behind.replace("m2", "m"))):
        return None
    return WrittenNumber(canonical, mark or behind or None)


def _make_date(parts: Mapping[str, str | None]) -> Date | None:
    era = (parts.get("era") or "").replace(".", "").strip()
    year = int(parts["year"] or 0)
    digits_at_least = 1 if era or parts.get("front") else 3 if "month" in parts else 4
    if not digits_at_least <= len((parts["year"] or "").removeprefix("-")) <= (4 if digits_at_least == 4 else 6):
        return None
    if era.startswith("b"):
        year = 1 - year
    month = parts.get("month")
    if month is None:
        return Date(year) if year <= _LATEST_YEAR else None
    day = parts.get("day")
    number = int(month) if month.isdigit() else _month_number(month)
    return _check_date(year, number, int(day) if day else None)


def _month_number(name: str) -> int:
    """Return the number of a month by its name or the beginning of it; 0 when it is none."""
    return next((at for at, month in enumerate(MONTHS, 1) if month.startswith(name) or name == "sept" == month[:4]), 0)


def _read_slashed(first: int, second: int, year: int) -> Date | None:
    if first != second and first <= 12 and second <= 12:
        return _check_date(year, None, None)
    day, month = (first, second) if second <= 12 else (second, first)
    return _check_date(year, month, day)


def _check_date(year: int, month: int | None, day: int | None) -> Date | None:
    if year > _LATEST_YEAR:
        return None
    if month is None:
        return Date(year)
    if not 1 <= month <= 12:
        return None
    # 2000 stands for every leap year; which years before 1583 were one depends on the calendar
    if day is not None and not 1 <= day <= monthrange(year if year >= 1583 else 2000, month)[1]:
        return None
    return Date(year, month, day)
