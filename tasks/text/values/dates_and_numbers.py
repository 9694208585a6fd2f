"""Dates and numbers as people write them: "11 March 1952", "44 BC", "1,234.5 km", "$12 million", "Third".

An answer is read as a date or number only as a whole; any other text is a name. A date keeps the precision it is
written in (MultiHal's own script reads 1946 as 1 January 1946, and every number up to 2100 as a year). Spelling is
English: a comma separates thousands, a full stop decimals; "3,5" is not read, rather than read as 35.

In a sentence, the wanted date has the format of text/values/wikidata_literals.py (1593-07-08, 1593-07, 1593, 44 BC, 0044-03-15
BC), or is a range of years (1950s, 5th century BC). A sentence states it at that precision or a finer one: 14 March
1879 states 1879, but 1879 does not state 14 March 1879. Sentences are read window by window, the widest first, so that
"44 BC" is never read as the year 44, and 1879 in "14 March 1879" is no separate date.
"""

import csv
import io
import re
import unicodedata
from calendar import monthrange
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from factmill.tasks.errors import SettingsError
from factmill.tasks.text.text_normalization import normalize_answer_to_singular
from factmill.tasks.text.values.wikidata_literals import PartialDate, WantedNumberWithUnit, canonical_number
from factmill.tasks.text.wikidata_ids import get_wikidata_id_number, is_qid

_MAX_DATE_YEAR = 2100
MONTH_NAMES = (
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
_SLASHED_DATE_PATTERN = re.compile(r"([0-9]{1,2})[/.]([0-9]{1,2})[/.]([0-9]{4})")
_DATE_LEAD_IN = re.compile(
    r"(?:(?:in|on)\s+)?(?:the\s+year\s+(?:of\s+)?|(?:mon|tues|wednes|thurs|fri|satur|sun)day,?\s+)?", re.IGNORECASE
)
_DAY_FIRST_WORDING, _MONTH_FIRST_WORDING = (
    re.compile(rf"\b{first}\W+(?:(?:and|the)\W+)*{second}\b", re.IGNORECASE)
    for first, second in (("(?:day|date|dd)", "(?:month|mm)"), ("(?:month|mm)", "(?:day|date|dd)"))
)
"""A question's wording about the order of a date: "the day, month and year", MM/DD/YYYY."""
_MARKED_AMOUNT = re.compile(
    r"(?P<mark>(?:US|AU?|CA?|HK|CN)?[$¥]|[€£₹₩]|USD|EUR|GBP|JPY|CNY|RMB|INR|KRW|CHF|AUD|CAD|HKD) ?(?P<marked>[0-9].*)"
    r"|(?:#|no\. ?|number )(?P<place>[0-9]+)|(?P<nth>[0-9][0-9,]*)(?:st|nd|rd|th)(?P<of>.*)",
    re.IGNORECASE,
)
_FEET = re.compile(
    r"([0-9]+) ?(?:ft\.?|feet|foot|['’′]),? ?([0-9]+(?:\.[0-9]+)?) ?(?:in\.?|inch(?:es)?|[\"”″])", re.IGNORECASE
)
_WRITTEN_NUMBER = re.compile(
    r"(?P<sign>[+\-−]?)(?P<digits>[0-9]{1,3}(?:(?P<gap>[,'\s])[0-9]{3})(?:(?P=gap)[0-9]{3})*|[0-9]+|(?=\.[0-9]))(?P<rest>\.[0-9]+)?"
)
_DIMENSION_ADJECTIVE = re.compile(r" (?:long|high|tall|wide|deep|thick|old)$")
_HYPHENATED = re.compile(r"(?<=[0-9])[ -]?([^\W\d_]+)[ -](long|high|tall|wide|deep|thick)$")
_COUNTED_NOUN = re.compile(r"\b(?:how many|number of) (.*)", re.IGNORECASE | re.DOTALL)
_PLACE_WORD = re.compile(r" (?:place|position|rank)$", re.IGNORECASE)
POWER_BY_SCALE_WORD = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
"""Scale word → power of ten."""
NUMBER_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
)  # fmt: skip
ORDINAL_WORDS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth",
    "twentieth",
)  # fmt: skip
_ANSWER_ORDINALS = ORDINAL_WORDS[:12]
"""Ordinals that an answer may consist of."""
_MAX_WORDS_OF_UNIT = 3
_NON_UNIT_WORDS = {
    *("and", "or", "to", "of", "out", "half", "halves", "third", "thirds", "quarter", "quarters", *NUMBER_WORDS),
    *("bc", "bce", "ad", "ce", "b.c.", "b.c.e.", "a.d.", "c.e."),
}
"""Words after a number that make it another number, or a year."""


@dataclass(frozen=True, slots=True)
class WrittenNumber:
    """A number as written, with its unit or mark."""

    number: str
    """Canonical (`canonical_number`), with any "million" multiplied in."""
    unit: str | None
    """Text of the unit or the counted noun, as written; None when there is none."""


def parse_written_date(text: str) -> PartialDate | None:
    """Parse a whole text as a date, with its precision; None when it is no date, or after 2100.

    A bare number is a year only with four digits. An ambiguous date like 03/04/1952 gives only the year.
    """
    plain = " ".join(text.split()).strip(" .").lower()
    if found := _SLASHED_DATE_PATTERN.fullmatch(plain):
        first, second, year = map(int, found.groups())
        if first != second and first <= 12 and second <= 12:
            return _make_valid_date(year, None, None)
        day, month = (first, second) if second <= 12 else (second, first)
        return _make_valid_date(year, month, day)
    for form in _DATES:
        if found := form.fullmatch(plain):
            parts = found.groupdict()
            if date := _make_partial_date(parts):
                return date
    return None


def parse_answer_as_date(answer: str, question: str) -> PartialDate | None:
    """Read an answer as a date, after an optional "in", "on" or weekday, in the order that the question states."""
    bare = answer.strip()[_DATE_LEAD_IN.match(answer.strip()).end() :]  # type: ignore[union-attr]
    found = _SLASHED_DATE_PATTERN.fullmatch(bare.strip(" ."))
    if found and bool(_DAY_FIRST_WORDING.search(question)) != bool(_MONTH_FIRST_WORDING.search(question)):
        first, second, year = map(int, found.groups())
        day, month = (first, second) if _DAY_FIRST_WORDING.search(question) else (second, first)
        return _make_valid_date(year, month, day) or parse_written_date(bare)
    return parse_written_date(bare)


def parse_written_number(text: str) -> WrittenNumber | None:
    """Parse a whole text as a number with a unit of at most three words; None when it is no number.

    Feet and inches become inches; a place ("third place") has no unit. "20m-high" and "20-metre-high" are 20 m high.
    """
    plain = _HYPHENATED.sub(r" \1 \2", " ".join(text.split()).strip().removesuffix("."))
    if both := _FEET.fullmatch(plain):
        return WrittenNumber(str(canonical_number(str(12 * int(both[1]) + Decimal(both[2])))), "in")
    mark = None
    if found := _MARKED_AMOUNT.fullmatch(plain):
        mark = found["mark"]
        plain = found["marked"] or found["place"] or f"{found['nth']}{_PLACE_WORD.sub('', found['of'])}"
    first, _, behind = plain.partition(" ")
    if first.lower() in _ANSWER_ORDINALS and behind.partition(" ")[0].lower() not in POWER_BY_SCALE_WORD:
        place = _ANSWER_ORDINALS.index(first.lower()) + 1
        return _make_scaled_number_with_unit(str(place), _PLACE_WORD.sub("", f" {behind}").strip(), None)
    if first.lower() in NUMBER_WORDS:
        return _make_scaled_number_with_unit(str(NUMBER_WORDS.index(first.lower())), behind, mark)
    number = _WRITTEN_NUMBER.match(plain)
    if not number:
        return None
    behind = plain[number.end() :]
    if behind[:1] and (behind[0].isdigit() or behind[0] in ",.'/-–:"):
        return None
    digits = re.sub(r"[^0-9]", "", number["digits"])
    sign = "-" if number["sign"] in ("-", "−") else ""
    return _make_scaled_number_with_unit(f"{sign}{digits}{number['rest'] or ''}", behind.strip(), mark)


def parse_units_csv(text: str) -> dict[str, int]:
    """Parse the list of units (CSV) as name → QID number; SettingsError names an invalid line."""
    reader = csv.DictReader(io.StringIO(text))
    units: dict[str, int] = {}
    for line in reader:
        if None in line.values() or not is_qid(line["qid"]):
            raise SettingsError(f"units.csv, line {reader.line_num}: expected qid, name and other names, found {line}")
        for name in (line["name"], *filter(None, line["other_names"].split("|"))):
            if units.setdefault(name, get_wikidata_id_number(line["qid"])) != get_wikidata_id_number(line["qid"]):
                raise SettingsError(f"units.csv, line {reader.line_num}: {name!r} names two units")
    return units


def resolve_number_unit(
    written: WrittenNumber, units: Mapping[str, int], question: str = ""
) -> WantedNumberWithUnit | None:
    """Resolve the unit of a number; a number without one matches any unit. None for an unknown unit.

    A noun that the question counts is no unit: "two medals" is 2 where it asks how many medals there are.
    """
    if written.unit is None:
        return WantedNumberWithUnit(written.number)
    name = _DIMENSION_ADJECTIVE.sub("", written.unit)
    unit = units.get(name, units.get(name.lower()))
    if unit is not None:
        return WantedNumberWithUnit(written.number, unit)
    counted = _COUNTED_NOUN.search(question)
    noun = normalize_answer_to_singular(name).split()[-1:]
    if counted and written.number.isdigit() and noun and noun[0] in normalize_answer_to_singular(counted[1]).split():
        return WantedNumberWithUnit(written.number)
    return None


def _make_scaled_number_with_unit(number: str, words_after: str, mark: str | None) -> WrittenNumber | None:
    scale, _, rest = words_after.partition(" ")
    if scale.lower() in POWER_BY_SCALE_WORD:
        number = format(Decimal(number).scaleb(POWER_BY_SCALE_WORD[scale.lower()]), "f")
        words_after = rest
    words = words_after.split()
    canonical = canonical_number(number)
    if canonical is None or len(words) > _MAX_WORDS_OF_UNIT or (mark and words):
        return None
    if words and (words[0].lower() in _NON_UNIT_WORDS or re.search("[0-9]", words_after.replace("m2", "m"))):
        return None
    return WrittenNumber(canonical, mark or words_after or None)


def _make_partial_date(parts: Mapping[str, str | None]) -> PartialDate | None:
    era = (parts.get("era") or "").replace(".", "").strip()
    year = int(parts["year"] or 0)
    digits_at_least = 1 if era or parts.get("front") else 3 if "month" in parts else 4
    if not digits_at_least <= len((parts["year"] or "").removeprefix("-")) <= (4 if digits_at_least == 4 else 6):
        return None
    if era.startswith("b"):
        year = 1 - year
    month = parts.get("month")
    if month is None:
        return PartialDate(year) if year <= _MAX_DATE_YEAR else None
    day = parts.get("day")
    names = (at for at, name in enumerate(MONTH_NAMES, 1) if name.startswith(month) or month == "sept" == name[:4])
    return _make_valid_date(year, int(month) if month.isdigit() else next(names, 0), int(day) if day else None)


def _make_valid_date(year: int, month: int | None, day: int | None) -> PartialDate | None:
    if year > _MAX_DATE_YEAR:
        return None
    if month is None:
        return PartialDate(year)
    if not 1 <= month <= 12:
        return None
    # 2000, a leap year, stands for years before 1583, whose leap days depend on the calendar
    if day is not None and not 1 <= day <= monthrange(year if year >= 1583 else 2000, month)[1]:
        return None
    return PartialDate(year, month, day)


_MAX_WORDS_OF_DATE = 6
"""Most words of a date: "the 14th of March 44 BC"."""
_CAPITALIZED_MONTHS = tuple(month.capitalize() for month in MONTH_NAMES)
_CENTURIES = (*ORDINAL_WORDS, "twenty first")
_ORDINAL_CENTURY = re.compile(rf"\b({'|'.join(_CENTURIES)}) (?=century\b)", re.IGNORECASE)
_DECADE_OR_CENTURY = re.compile(
    r"(?P<number>[0-9]{1,6})(?:(?P<decade>'?s)|(?:st|nd|rd|th) century)(?: (?P<era>bce?|ce|ad))?", re.IGNORECASE
)
_ISO_BC_DATE = re.compile(r"([0-9]{4,})-([0-9]{2})(?:-([0-9]{2}))? BCE?", re.IGNORECASE)
_SHORT_YEAR = re.compile(r"[0-9]{1,3}")
_YEAR_CUES = frozenset(
    {"in", "year", "about", "around", "circa", "ca.", "c.", "since", "until", "from", "by", "before", "after"}
)
"""Words after which a number of one or two digits is a year; one of three may be one anywhere."""
_DATE_EDGE_PUNCTUATION = "()[]{}.,;:!?\"'“”‘’«»"
ERA_WITH_STOPS = re.compile(r"\b([BAC])\. ?([CDE])\.(?: ?(E)\.)?")
"""An era with stops; `\\1\\2\\3` spells it without them."""
_SPELLINGS = (
    (re.compile(r"[–—]"), " – "),
    (ERA_WITH_STOPS, r"\1\2\3"),
    (re.compile(r"(?<![0-9-])([0-9]{3,4})-([0-9]{3,4})(?![0-9-])"), r"\1 – \2"),
    (re.compile(r"(?i)-(?=(?:first )?century\b)"), " "),
    (re.compile(rf"(?i)\b({'|'.join(_CAPITALIZED_MONTHS)}) of (?=[0-9])"), r"\1 "),
    # after a day or month the era is read only at the end
    (re.compile(r"(?<=[a-z,.] )AD ([0-9]{1,4})\b"), r"\1 AD"),
)


@dataclass(frozen=True, slots=True)
class YearRange:
    """A range of years: a decade or a century."""

    first: int
    """Astronomical, as in Date."""
    last: int


DateOrYearRange = PartialDate | YearRange


def states_date(sentence: str, formatted: str) -> bool | None:
    """True when a sentence states a formatted date, at its precision or a finer one; None when `formatted` is no date."""
    wanted = _read_formatted_date(formatted)
    if wanted is None:
        return None
    for found in _iterate_dates(sentence):
        if isinstance(wanted, YearRange):
            first, last = (found.first, found.last) if isinstance(found, YearRange) else (found.year, found.year)
            if wanted.first <= first and last <= wanted.last:
                return True
        elif isinstance(found, PartialDate) and wanted.is_satisfied_by(found.key, found.precision):
            return True
    return False


def is_same_date(one: str, other: str) -> bool:
    """True when two texts, however written, are the same date at the same precision."""
    read = _read_formatted_date(one)
    return read is not None and read == _read_formatted_date(other)


def format_date_in_prose(formatted: str) -> str:
    """Format a date for use in a sentence: 8 July 1593, AD 37, March 44 BC, the 1950s, the 5th century BC."""
    when = _read_formatted_date(formatted)
    if isinstance(when, YearRange):
        return f"the {formatted}"
    if when is None or formatted.startswith("about "):
        return formatted
    year = f"{1 - when.year} BC" if when.year <= 0 else str(when.year) if when.year >= 100 else f"AD {when.year}"
    month = _CAPITALIZED_MONTHS[when.month - 1] if when.month else ""
    return " ".join(filter(None, (str(when.day or ""), month, year)))


def _read_formatted_date(formatted: str) -> DateOrYearRange | None:
    """Read a whole text as a date, formatted by `format_wikidata_date` or written by people; None for no date."""
    text = _normalize_dash_era_century_spelling(formatted.removeprefix("about ").removeprefix("the "))
    return PartialDate(int(text)) if _SHORT_YEAR.fullmatch(text) else _read_date_or_years(text)


def _iterate_dates(sentence: str) -> Iterator[DateOrYearRange]:
    """Yield the dates of a sentence from left to right, skipping those that are certainly part of another."""
    words = _normalize_dash_era_century_spelling(sentence).split()
    at = 0
    while at < len(words):
        for width in range(min(_MAX_WORDS_OF_DATE, len(words) - at), 0, -1):
            if when := _read_date_or_years(_join_window_without_edge_punctuation(words, at, width)):
                yield when
                at += width
                break
        else:
            # a year of up to three digits without an era: "15 December 37", "in 476"
            dated = (
                parse_written_date(f"{_join_window_without_edge_punctuation(words, at, width)} AD") for width in (4, 3)
            )
            number, is_after_cue = (
                _join_window_without_edge_punctuation(words, at, 1),
                at > 0 and words[at - 1].lower() in _YEAR_CUES,
            )
            if date := next((date for date in dated if date and date.day), None):
                yield date
            elif _SHORT_YEAR.fullmatch(number) and (len(number) == 3 or is_after_cue):
                yield PartialDate(int(number))
            at += 1


def _join_window_without_edge_punctuation(words: Sequence[str], at: int, width: int) -> str:
    return " ".join(words[at : at + width]).strip(_DATE_EDGE_PUNCTUATION)


def _read_date_or_years(text: str) -> DateOrYearRange | None:
    if not re.search("[0-9]", text):
        return None
    if stretch := _DECADE_OR_CENTURY.fullmatch(text):
        number = int(stretch["number"])
        first, last = (number, number + 9) if stretch["decade"] else (100 * number - 99, 100 * number)
        is_bc = (stretch["era"] or "").lower().startswith("b")
        return YearRange(1 - last, 1 - first) if is_bc else YearRange(first, last)
    if iso := _ISO_BC_DATE.fullmatch(text):
        return PartialDate(1 - int(iso[1]), *(int(part) for part in iso.groups()[1:] if part))
    return parse_written_date(text)


def _normalize_dash_era_century_spelling(text: str) -> str:
    """Return a text with dashes, eras and centuries in one spelling."""
    plain = " ".join(unicodedata.normalize("NFKC", text).split())
    for pattern, spelling in _SPELLINGS:
        plain = pattern.sub(spelling, plain)
    return _ORDINAL_CENTURY.sub(lambda found: f"{_CENTURIES.index(found[1].lower()) + 1}th ", plain)
