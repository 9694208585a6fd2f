"""Search for an answer in a text, as a reader would (FanOutQA, Appendix B: each sub-answer stands in its article).

A text is read once (`read_known_text`) into the values of text/values/words.py with their places, so that a look-up
visits only the places of its rarest word. An answer is found where its values stand in a row. Further rules imitate a
reader:

- A coarser date is found in a finer one, even a month or a year alone; 02/05/1985 is either of two days.
- A number with a unit is found without it only where the paragraph holds nothing else: a cell of a table, whose unit is
  in the heading. A number without a scale word is found before one when it has three digits or a fraction: 527 in "527
  million", not 5 in "5 million".
- A rounded number is found when the answer's scale word shows that it is rounded: "5.2 million" in 5,237,000. Not
  5,237,000 in "5.2 million", and 5200000 only as that number.
- Text in brackets may be missing; so may the middle initial of a person, and the text may have one name more.
- An answer of several parts (commas, "and", semicolons, slashes) is found when each part is. The keys of a dict are
  parts like its values, since in leaves they are years, titles or the article's subject.
- Yes, no, none and unknown, an empty answer, 0, and prose (over 12 words, not a list) that is not there word for word
  cannot be judged from a text: None.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from factmill.tasks.text.values.literals import YEAR, Date
from factmill.tasks.text.values.words import (
    UNITS,
    Count,
    DayOfYear,
    Said,
    Value,
    is_number,
    read_amounts,
    spell_amounts,
)
from factmill.tasks.text.values.written import MONTHS, SCALES, read_date

Answer = str | int | float | bool | list[Any] | dict[str, Any]
"""A primitive, a list of primitives, or a dict of name → primitive or list."""


@dataclass(frozen=True, slots=True)
class KnownText:
    """A text indexed once for many look-ups."""

    said: Sequence[Said | None]
    """Words, numbers and dates of the text, None between paragraphs."""
    places: Mapping[Value, Sequence[int]]
    """Places of each value, including the coarser ones that a date implies."""
    numbers: Sequence[tuple[Decimal, int]]
    """Its numbers with their places, in order of size."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether a text contains an answer."""

    found: bool | None
    """None: cannot be judged from a text (yes or no, nothing, prose)."""
    missing: tuple[str, ...] = ()
    """Parts that the text does not contain."""


_PARAGRAPHS = re.compile(r"\n\s*\n")
_TRIVIAL = frozenset(
    {"", "yes", "no", "true", "false", "n/a", "na", "none", "unknown", "not applicable", "not available", "null"}
)
_HEDGE = re.compile(
    r"^(?:(?:an? )?(?:estimated|approximately|approx\.?|about|around|roughly|nearly|almost|circa|ca?\.|over|more than|"
    r"less than|fewer than|under|at least|up to|est\.)\s+|[~≈±][~≈±\s]*+)+(?=\W*\d|(?-i:[A-Z]{2,3})\b)",
    re.IGNORECASE,
)
_BRACKETS = re.compile(r"(?<!\s)\s*+[(\[][^()\[\]]*[)\]]")
_SEPARATOR = re.compile(
    r"(?:(?<!\s)\s+)?[;\n]\s*|(?:,|(?<!\s))\s+(?:and|&)\s+|,\s+(?:and\s+)?|(?<!\s)\s+/\s+|(?<=[^\W\d])/(?=[^\W\d])",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"://|www\.")
_SLASHED = re.compile(r"([0-9]{1,2})[/.]([0-9]{1,2})[/.]([0-9]{4})")
_SCALED = re.compile(rf"[0-9](?:\.([0-9]+))? ({'|'.join(SCALES)})\b")
_PROSE_WORDS = 12
_LONG_PART_WORDS = 6
_UNIT_WORDS = 3
_GAP_IN_RANGE = 6
_GAP_BEFORE_COUNTED = 3
_LAST_WORDS = (
    "academy airport association avenue award bank bay beach bridge building bowl center centre church city "
    "club college company corporation county court cup district empire festival foundation game group "
    "hospital institute island kingdom lake law league library medal museum ocean open orchestra organization "
    "palace park party prix prize province republic river road school sea series show society stadium state "
    "street studio team theatre theater tower university valley war york zealand"
)
_NO_SURNAMES = frozenset(_LAST_WORDS.split())
"""Last words of names that are not persons': Harvard School is not Harvard Law School."""


def read_known_text(text: str) -> KnownText:
    """Index a text whose paragraphs and cells are separated by blank lines; time grows with its length."""
    said: list[Said | None] = []
    for paragraph in _PARAGRAPHS.split(text):
        said.extend(read_amounts(paragraph))
        said.append(None)
    places: dict[Value, list[int]] = {}
    numbers: list[tuple[Decimal, int]] = []
    for place, each in enumerate(said):
        if each is None:
            continue
        for value in _list_told(each):
            places.setdefault(value, []).append(place)
        if isinstance(each.value, Count):
            numbers.append((Decimal(each.value.number), place))
    return KnownText(said, places, sorted(numbers))


def find_answer(answer: Answer | None, text: KnownText) -> Finding:
    """Search for every part of an answer in a text; keys and values of a dict are parts."""
    verdicts = [verdict for part in list_primitives(answer) for verdict in _find_primitive(part, text)]
    missing = tuple(dict.fromkeys(part for part, found in verdicts if found is False))
    if missing:
        return Finding(False, missing)
    return Finding(True if any(found for _, found in verdicts) else None)


def list_primitives(answer: Any) -> Iterator[str | bool]:
    """Yield the strings, numbers (as strings) and truth values of an answer: keys, values and entries, in order."""
    if isinstance(answer, Mapping):
        for key, value in answer.items():
            yield str(key)
            yield from list_primitives(value)
    elif isinstance(answer, list | tuple):
        for entry in answer:
            yield from list_primitives(entry)
    elif isinstance(answer, str | bool):
        yield answer
    elif isinstance(answer, int | float) and math.isfinite(answer):
        yield write_number(answer)


def write_number(number: int | float) -> str:
    """Format a number without an exponent: 37.0 is 37."""
    text = format(Decimal(repr(number)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _find_primitive(told: str | bool, text: KnownText) -> Iterator[tuple[str, bool | None]]:
    """Yield the parts of a primitive answer that are searched for, each with whether it is found."""
    if isinstance(told, bool) or _is_trivial(told):
        yield str(told), None
        return
    whole = _find_whole(told, text)
    if whole is not False:
        yield told, whole
        return
    parts = _split(told)
    lengths = [len(_read(part)) for part in parts]
    if sum(lengths) > _PROSE_WORDS and max(lengths) > _LONG_PART_WORDS:
        yield told, None
    elif len(parts) == 1:
        # an answer 0 means that the article does not mention it
        yield told, None if _read(told) == (Count("0"),) else False
    elif _says_names_in_one(parts, text):
        yield told, True
    else:
        yield from ((part, None if _is_trivial(part) else _find_whole(part, text)) for part in parts)


def _is_trivial(told: str) -> bool:
    return told.strip(" .").casefold() in _TRIVIAL


def _find_whole(told: str, text: KnownText) -> bool | None:
    """True when a text contains an answer in one place; None when the answer is only small words and signs."""
    plain = _HEDGE.sub("", told.strip())
    forms = dict.fromkeys((told, plain, _BRACKETS.sub("", plain).strip()))
    read = [_read(form) for form in forms]
    if not read[0]:
        return None
    days = [[day] for day in _read_slashed(plain)]
    return any(
        values
        and (
            _has_row(values, text)
            or _has_amount(values, text)
            or _has_rounded(form, values, text)
            or _has_range(values, text)
        )
        for form, values in [*zip(forms, read, strict=True), *(("", day) for day in days)]
    ) or _has_person(plain, text)


@lru_cache(maxsize=16384)
def _read(told: str) -> tuple[Value, ...]:
    """Return the values of an answer, cached for many texts; a bare year becomes a number, which every date implies."""
    values = (each.value for each in read_amounts(told))
    return tuple(
        Count(str(value.year)) if isinstance(value, Date) and value.precision == YEAR and value.year >= 1000 else value
        for value in values
    )


def _read_slashed(told: str) -> list[Value]:
    """Return the days that 02/05/1985 may be: month first or day first."""
    found = _SLASHED.fullmatch(told)
    if not found:
        return []
    first, second, year = found.groups()
    days = (read_date(f"{year}-{month:0>2}-{day:0>2}") for month, day in ((first, second), (second, first)))
    return [day for day in days if day]


def _list_told(said: Said) -> tuple[Value, ...]:
    """Return the value of a part of a text, and the values that follow from it."""
    value = said.value
    if isinstance(value, Count):
        return (value, said.bare) if said.bare else (value,)
    if isinstance(value, DayOfYear):
        return value, MONTHS[value.month - 1]
    if not isinstance(value, Date):
        return (value,)
    told: list[Value] = [value, Count(str(value.year if value.year > 0 else 1 - value.year))]
    if value.month:
        told += [Date(value.year), MONTHS[value.month - 1]]
    if value.month and value.day:
        told += [Date(value.year, value.month), DayOfYear(value.month, value.day)]
    return tuple(told)


def _list_rows(wanted: Sequence[Value], text: KnownText) -> Iterator[int]:
    """Yield the places where the wanted values stand in a row, in order."""
    counts = [len(text.places.get(value, ())) for value in wanted]
    rarest = counts.index(min(counts))
    for place in text.places.get(wanted[rarest], ()):
        first = place - rarest
        row = text.said[first : first + len(wanted)] if first >= 0 else ()
        if len(row) == len(wanted) and all(
            said is not None and value in _list_told(said) for said, value in zip(row, wanted, strict=True)
        ):
            yield first


def _has_row(wanted: Sequence[Value], text: KnownText) -> bool:
    return next(_list_rows(wanted, text), None) is not None


def _has_amount(wanted: Sequence[Value], text: KnownText) -> bool:
    """True when the numbers stand before their unit or counted noun, or alone in their paragraph."""
    width = next((at for at, value in enumerate(wanted) if not is_number(value)), len(wanted))
    tail = wanted[width:]
    if width == 0 or not 0 < len(tail) <= _UNIT_WORDS or any(map(is_number, tail)):
        return False
    return any(_is_followed(place + width, tail, text) for place in _list_rows(wanted[:width], text))


def _is_followed(place: int, tail: Sequence[Value], text: KnownText) -> bool:
    """True when the tail follows a number, after other numbers of a range or up to three words, or the number stands
    alone.

    A paragraph of nothing but numbers counts as a table cell.
    """
    ahead = text.said[place : place + _GAP_BEFORE_COUNTED + len(tail)]
    numbers = next((at for at, said in enumerate(ahead) if said is None or not is_number(said.value)), len(ahead))
    if _is_at(ahead, numbers, tail):
        return True
    if not any(value in UNITS for value in tail):
        words = next(
            (at for at, said in enumerate(ahead) if said is None or is_number(said.value) or said.value in UNITS),
            len(ahead),
        )
        if any(_is_at(ahead, at, tail) for at in range(words)):
            return True
    return _is_alone(place, text)


def _is_at(said: Sequence[Said | None], at: int, wanted: Sequence[Value]) -> bool:
    row = said[at : at + len(wanted)]
    return len(row) == len(wanted) and all(
        each is not None and each.value == value for each, value in zip(row, wanted, strict=True)
    )


def _is_alone(place: int, text: KnownText) -> bool:
    """True when the paragraph around a place contains only numbers."""
    for step, start in ((-1, place - 1), (1, place)):
        at = start
        while 0 <= at < len(text.said) and (said := text.said[at]) is not None:
            if not is_number(said.value):
                return False
            at += step
    return True


def _has_rounded(told: str, wanted: Sequence[Value], text: KnownText) -> bool:
    """True when a number of the text, rounded as the answer's scale word shows, is the answer."""
    scaled = _SCALED.search(spell_amounts(told))
    first, tail = wanted[0], wanted[1:]
    if not scaled or not isinstance(first, Count) or any(map(is_number, tail)) or len(tail) > _UNIT_WORDS:
        return False
    half = Decimal(5).scaleb(SCALES[scaled[2]] - len(scaled[1] or "") - 1)
    number = Decimal(first.number)
    at = bisect_left(text.numbers, (number - half, -1))
    while at < len(text.numbers) and text.numbers[at][0] <= number + half:
        if not tail or _is_followed(text.numbers[at][1] + 1, tail, text):
            return True
        at += 1
    return False


def _has_range(wanted: Sequence[Value], text: KnownText) -> bool:
    """True when the two ends of a range stand close together in one paragraph, in order."""
    if len(wanted) != 2 or not all(map(is_number, wanted)):
        return False
    for place in text.places.get(wanted[0], ()):
        for said in text.said[place + 1 : place + 2 + _GAP_IN_RANGE]:
            if said is None:
                break
            if wanted[1] in _list_told(said):
                return True
    return False


def _has_person(told: str, text: KnownText) -> bool:
    """True when the text names a person with one name more, or without or with another form of the middle initial."""
    read = read_amounts(told)
    names = [each.value for each in read if isinstance(each.value, str) and each.is_capital]
    if len(names) != len(read) or len(names) not in (2, 3) or names[-1] in _NO_SURNAMES or _SEPARATOR.search(told):
        return False
    first, middle, last = names[0], (names[1] if len(names) == 3 else ""), names[-1]
    if len(middle) == 1 and _has_row([first, last], text):
        return True
    for place in text.places.get(last, ()):
        before, between = text.said[place - 2 : place] if place >= 2 else (None, None)
        if before and between and before.value == first and isinstance(between.value, str) and between.is_capital:
            shortest = min(len(middle), len(between.value))
            if not middle or (shortest == 1 and middle[0] == between.value[0]):
                return True
    return False


def _split(told: str) -> list[str]:
    """Return the parts of an answer; the whole where a separator lies inside a date or number."""
    plain = _BRACKETS.sub("", _HEDGE.sub("", told.strip()))
    if _ADDRESS.search(plain):
        return [plain]
    parts = [part for part in (part.strip() for part in _SEPARATOR.split(plain)) if part and _read(part)]
    apart = [value for part in parts for value in _read(part)]
    whole = [value for value in _read(plain) if value != "and"]
    return parts if len(parts) > 1 and apart == whole else [plain or told]


def _says_names_in_one(parts: Sequence[str], text: KnownText) -> bool:
    """True when the text gives a shared last name once: Ada and Grace Vogt."""
    names = [_read(part) for part in parts]
    if len({name[-1] for name in names}) != 1 or any(len(name) < 2 for name in names) or is_number(names[0][-1]):
        return False
    given: list[Value] = []
    for at, name in enumerate(names):
        given += [*(["and"] if at == len(names) - 1 else []), *(name[:-1] if at < len(names) - 1 else name)]
    return _has_row(given, text)
