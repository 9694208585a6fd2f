"""Search for an answer in a text, as a reader would (FanOutQA, Appendix B: each sub-answer stands in its article).

A text is read once (`index_text`) into the values of text/values/value_tokens.py with their places, so that a look-up
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
from itertools import takewhile
from typing import Any

from factmill.tasks.text.values.dates_and_numbers import MONTH_NAMES, POWER_BY_SCALE_WORD, parse_written_date
from factmill.tasks.text.values.value_tokens import (
    NORMALIZED_UNITS,
    DayWithoutYear,
    TokenValue,
    UnitlessNumberValue,
    WordNumberOrDateToken,
    is_number_or_date,
    normalize_amount_and_name_spelling,
    tokenize_words_numbers_and_dates,
)
from factmill.tasks.text.values.wikidata_literals import YEAR_PRECISION, PartialDate

AnswerValue = str | int | float | bool | list[Any] | dict[str, Any]
"""A primitive, a list of primitives, or a dict of name → primitive or list."""


@dataclass(frozen=True, slots=True)
class IndexedText:
    """A text indexed once for many look-ups."""

    tokens: Sequence[WordNumberOrDateToken | None]
    """Words, numbers and dates of the text, None between paragraphs."""
    places: Mapping[TokenValue, Sequence[int]]
    """Places of each value, including the coarser ones that a date implies."""
    numbers: Sequence[tuple[Decimal, int]]
    """Its numbers with their places, in order of size."""


@dataclass(frozen=True, slots=True)
class AnswerPresence:
    """Whether a text contains an answer."""

    found: bool | None
    """None: cannot be judged from a text (yes or no, nothing, prose)."""
    missing: tuple[str, ...] = ()
    """Parts that the text does not contain."""


_BLANK_LINE_BREAK = re.compile(r"\n\s*\n")
_TRIVIAL_ANSWERS = frozenset(
    {"", "yes", "no", "true", "false", "n/a", "na", "none", "unknown", "not applicable", "not available", "null"}
)
_HEDGE_PREFIX = re.compile(
    r"^(?:(?:an? )?(?:estimated|approximately|approx\.?|about|around|roughly|nearly|almost|circa|ca?\.|over|more than|"
    r"less than|fewer than|under|at least|up to|est\.)\s+|[~≈±][~≈±\s]*+)+(?=\W*\d|(?-i:[A-Z]{2,3})\b)",
    re.IGNORECASE,
)
_BRACKETS = re.compile(r"(?<!\s)\s*+[(\[][^()\[\]]*[)\]]")
_SEPARATOR = re.compile(
    r"(?:(?<!\s)\s+)?[;\n]\s*|(?:,|(?<!\s))\s+(?:and|&)\s+|,\s+(?:and\s+)?|(?<!\s)\s+/\s+|(?<=[^\W\d])/(?=[^\W\d])",
    re.IGNORECASE,
)
_URL_MARK = re.compile(r"://|www\.")
_SLASHED_DATE = re.compile(r"([0-9]{1,2})[/.]([0-9]{1,2})[/.]([0-9]{4})")
_SCALED_NUMBER = re.compile(rf"[0-9](?:\.([0-9]+))? ({'|'.join(POWER_BY_SCALE_WORD)})\b")
_MAX_WORDS_OF_ANSWER = 12
_MAX_WORDS_OF_PART = 6
_MAX_UNIT_WORDS = 3
_MAX_GAP_IN_RANGE = 6
_MAX_GAP_BEFORE_COUNTED = 3
_ORGANIZATION_LAST_WORDS = (
    "academy airport association avenue award bank bay beach bridge building bowl center centre church city "
    "club college company corporation county court cup district empire festival foundation game group "
    "hospital institute island kingdom lake law league library medal museum ocean open orchestra organization "
    "palace park party prix prize province republic river road school sea series show society stadium state "
    "street studio team theatre theater tower university valley war york zealand"
)
_NON_SURNAMES = frozenset(_ORGANIZATION_LAST_WORDS.split())
"""Last words of names that are not persons': Harvard School is not Harvard Law School."""


def index_text(text: str) -> IndexedText:
    """Index a text whose paragraphs and cells are separated by blank lines; time grows with its length."""
    tokens: list[WordNumberOrDateToken | None] = []
    for paragraph in _BLANK_LINE_BREAK.split(text):
        tokens.extend(tokenize_words_numbers_and_dates(paragraph))
        tokens.append(None)
    places: dict[TokenValue, list[int]] = {}
    numbers: list[tuple[Decimal, int]] = []
    for place, each in enumerate(tokens):
        if each is None:
            continue
        for value in _list_own_and_implied_values(each):
            places.setdefault(value, []).append(place)
        if isinstance(each.value, UnitlessNumberValue):
            numbers.append((Decimal(each.value.number), place))
    return IndexedText(tokens, places, sorted(numbers))


def find_answer_and_missing_parts(answer: AnswerValue | None, text: IndexedText) -> AnswerPresence:
    """Search for every part of an answer in a text; keys and values of a dict are parts."""
    verdicts = [
        verdict for part in iterate_answer_primitives(answer) for verdict in _search_primitive_answer_parts(part, text)
    ]
    missing = tuple(dict.fromkeys(part for part, found in verdicts if found is False))
    if missing:
        return AnswerPresence(False, missing)
    return AnswerPresence(True if any(found for _, found in verdicts) else None)


def iterate_answer_primitives(answer: Any) -> Iterator[str | bool]:
    """Yield the strings, numbers (as strings) and truth values of an answer: keys, values and entries, in order."""
    if isinstance(answer, Mapping):
        for key, value in answer.items():
            yield str(key)
            yield from iterate_answer_primitives(value)
    elif isinstance(answer, list | tuple):
        for entry in answer:
            yield from iterate_answer_primitives(entry)
    elif isinstance(answer, str | bool):
        yield answer
    elif isinstance(answer, int | float) and math.isfinite(answer):
        yield format_number_without_exponent(answer)


def format_number_without_exponent(number: int | float) -> str:
    """Format a number without an exponent: 37.0 is 37."""
    text = format(Decimal(repr(number)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _search_primitive_answer_parts(answer: str | bool, text: IndexedText) -> Iterator[tuple[str, bool | None]]:
    """Yield the parts of a primitive answer that are searched for, each with whether it is found."""
    if isinstance(answer, bool) or _is_yes_no_or_empty_answer(answer):
        yield str(answer), None
        return
    is_found = _contains_answer_in_one_place(answer, text)
    if is_found is not False:
        yield answer, is_found
        return
    parts = _split_answer_parts(answer)
    lengths = [len(_read_answer_token_values(part)) for part in parts]
    if sum(lengths) > _MAX_WORDS_OF_ANSWER and max(lengths) > _MAX_WORDS_OF_PART:
        yield answer, None
    elif len(parts) == 1:
        # an answer 0 means that the article does not mention it
        yield answer, None if _read_answer_token_values(answer) == (UnitlessNumberValue("0"),) else False
    elif _contains_names_sharing_last_name(parts, text):
        yield answer, True
    else:
        yield from (
            (part, None if _is_yes_no_or_empty_answer(part) else _contains_answer_in_one_place(part, text))
            for part in parts
        )


def _is_yes_no_or_empty_answer(answer: str) -> bool:
    return answer.strip(" .").casefold() in _TRIVIAL_ANSWERS


def _contains_answer_in_one_place(answer: str, text: IndexedText) -> bool | None:
    """True when a text contains an answer in one place; None when the answer is only small words and signs."""
    plain = _HEDGE_PREFIX.sub("", answer.strip())
    forms = dict.fromkeys((answer, plain, _BRACKETS.sub("", plain).strip()))
    read = [_read_answer_token_values(form) for form in forms]
    if not read[0]:
        return None
    days: list[list[TokenValue]] = []
    if slashed := _SLASHED_DATE.fullmatch(plain):  # month first or day first
        first, second, year = slashed.groups()
        written = (f"{year}-{month:0>2}-{day:0>2}" for month, day in ((first, second), (second, first)))
        days = [[day] for day in map(parse_written_date, written) if day]
    return any(
        values
        and (
            _contains_consecutive_values(values, text)
            or _contains_number_with_unit(values, text)
            or _contains_number_rounding_to_answer(form, values, text)
            or _contains_range(values, text)
        )
        for form, values in [*zip(forms, read, strict=True), *(("", day) for day in days)]
    ) or _contains_person_name_variant(plain, text)


@lru_cache(maxsize=16384)
def _read_answer_token_values(answer: str) -> tuple[TokenValue, ...]:
    """Return the values of an answer, cached for many texts; a bare year becomes a number, which every date implies."""
    values = (each.value for each in tokenize_words_numbers_and_dates(answer))
    return tuple(
        UnitlessNumberValue(str(value.year))
        if isinstance(value, PartialDate) and value.precision == YEAR_PRECISION and value.year >= 1000
        else value
        for value in values
    )


def _list_own_and_implied_values(token: WordNumberOrDateToken) -> tuple[TokenValue, ...]:
    """Return the value of a part of a text, and the values that follow from it."""
    value = token.value
    if isinstance(value, UnitlessNumberValue):
        return (value, token.bare) if token.bare else (value,)
    if isinstance(value, DayWithoutYear):
        return value, MONTH_NAMES[value.month - 1]
    if not isinstance(value, PartialDate):
        return (value,)
    implied: list[TokenValue] = [value, UnitlessNumberValue(str(value.year if value.year > 0 else 1 - value.year))]
    if value.month:
        implied += [PartialDate(value.year), MONTH_NAMES[value.month - 1]]
    if value.month and value.day:
        implied += [PartialDate(value.year, value.month), DayWithoutYear(value.month, value.day)]
    return tuple(implied)


def _iterate_value_sequence_places(wanted: Sequence[TokenValue], text: IndexedText) -> Iterator[int]:
    """Yield the places where the wanted values stand in a row, in order."""
    counts = [len(text.places.get(value, ())) for value in wanted]
    rarest = counts.index(min(counts))
    for place in text.places.get(wanted[rarest], ()):
        first = place - rarest
        row = text.tokens[first : first + len(wanted)] if first >= 0 else ()
        if len(row) == len(wanted) and all(
            token is not None and value in _list_own_and_implied_values(token)
            for token, value in zip(row, wanted, strict=True)
        ):
            yield first


def _contains_consecutive_values(wanted: Sequence[TokenValue], text: IndexedText) -> bool:
    return next(_iterate_value_sequence_places(wanted, text), None) is not None


def _contains_number_with_unit(wanted: Sequence[TokenValue], text: IndexedText) -> bool:
    """True when the numbers stand before their unit or counted noun, or alone in their paragraph."""
    width = next((at for at, value in enumerate(wanted) if not is_number_or_date(value)), len(wanted))
    tail = wanted[width:]
    if width == 0 or not 0 < len(tail) <= _MAX_UNIT_WORDS or any(map(is_number_or_date, tail)):
        return False
    return any(
        _is_followed_by_unit_or_in_number_cell(place + width, tail, text)
        for place in _iterate_value_sequence_places(wanted[:width], text)
    )


def _is_followed_by_unit_or_in_number_cell(place: int, tail: Sequence[TokenValue], text: IndexedText) -> bool:
    """True when the tail follows a number, after other numbers of a range or up to three words, or the number stands
    alone.

    A paragraph of nothing but numbers counts as a table cell.
    """
    ahead = text.tokens[place : place + _MAX_GAP_BEFORE_COUNTED + len(tail)]
    numbers = sum(1 for _ in takewhile(lambda token: token is not None and is_number_or_date(token.value), ahead))
    if _has_consecutive_values_at(ahead, numbers, tail):
        return True
    if not any(value in NORMALIZED_UNITS for value in tail):
        for at, token in enumerate(ahead):
            if token is None or is_number_or_date(token.value) or token.value in NORMALIZED_UNITS:
                break
            if _has_consecutive_values_at(ahead, at, tail):
                return True
    for step, start in ((-1, place - 1), (1, place)):
        at = start
        while 0 <= at < len(text.tokens) and (token := text.tokens[at]) is not None:
            if not is_number_or_date(token.value):
                return False
            at += step
    return True


def _has_consecutive_values_at(
    tokens: Sequence[WordNumberOrDateToken | None], at: int, wanted: Sequence[TokenValue]
) -> bool:
    row = tokens[at : at + len(wanted)]
    return len(row) == len(wanted) and all(
        each is not None and each.value == value for each, value in zip(row, wanted, strict=True)
    )


def _contains_number_rounding_to_answer(answer: str, wanted: Sequence[TokenValue], text: IndexedText) -> bool:
    """True when a number of the text, rounded as the answer's scale word shows, is the answer."""
    scaled = _SCALED_NUMBER.search(normalize_amount_and_name_spelling(answer))
    first, tail = wanted[0], wanted[1:]
    if not scaled or not isinstance(first, UnitlessNumberValue):
        return False
    if any(map(is_number_or_date, tail)) or len(tail) > _MAX_UNIT_WORDS:
        return False
    half = Decimal(5).scaleb(POWER_BY_SCALE_WORD[scaled[2]] - len(scaled[1] or "") - 1)
    number = Decimal(first.number)
    at = bisect_left(text.numbers, (number - half, -1))
    while at < len(text.numbers) and text.numbers[at][0] <= number + half:
        if not tail or _is_followed_by_unit_or_in_number_cell(text.numbers[at][1] + 1, tail, text):
            return True
        at += 1
    return False


def _contains_range(wanted: Sequence[TokenValue], text: IndexedText) -> bool:
    """True when the two ends of a range stand close together in one paragraph, in order."""
    if len(wanted) != 2 or not all(map(is_number_or_date, wanted)):
        return False
    for place in text.places.get(wanted[0], ()):
        for token in text.tokens[place + 1 : place + 2 + _MAX_GAP_IN_RANGE]:
            if token is None:
                break
            if wanted[1] in _list_own_and_implied_values(token):
                return True
    return False


def _contains_person_name_variant(answer: str, text: IndexedText) -> bool:
    """True when the text names a person with one name more, or without or with another form of the middle initial."""
    read = tokenize_words_numbers_and_dates(answer)
    names = [each.value for each in read if isinstance(each.value, str) and each.is_capital]
    if len(names) != len(read) or len(names) not in (2, 3) or names[-1] in _NON_SURNAMES or _SEPARATOR.search(answer):
        return False
    first, middle, last = names[0], (names[1] if len(names) == 3 else ""), names[-1]
    if len(middle) == 1 and _contains_consecutive_values([first, last], text):
        return True
    for place in text.places.get(last, ()):
        before, between = text.tokens[place - 2 : place] if place >= 2 else (None, None)
        if before and between and before.value == first and isinstance(between.value, str) and between.is_capital:
            shortest = min(len(middle), len(between.value))
            if not middle or (shortest == 1 and middle[0] == between.value[0]):
                return True
    return False


def _split_answer_parts(answer: str) -> list[str]:
    """Return the parts of an answer; the whole where a separator lies inside a date or number."""
    plain = _BRACKETS.sub("", _HEDGE_PREFIX.sub("", answer.strip()))
    if _URL_MARK.search(plain):
        return [plain]
    parts = [
        part for part in (part.strip() for part in _SEPARATOR.split(plain)) if part and _read_answer_token_values(part)
    ]
    apart = [value for part in parts for value in _read_answer_token_values(part)]
    unsplit = [value for value in _read_answer_token_values(plain) if value != "and"]
    return parts if len(parts) > 1 and apart == unsplit else [plain or answer]


def _contains_names_sharing_last_name(parts: Sequence[str], text: IndexedText) -> bool:
    """True when the text gives a shared last name once: Ada and Grace Vogt."""
    names = [_read_answer_token_values(part) for part in parts]
    if len({name[-1] for name in names}) != 1 or min(map(len, names)) < 2 or is_number_or_date(names[0][-1]):
        return False
    given: list[TokenValue] = [value for name in names[:-1] for value in name[:-1]]
    given += ["and", *names[-1]]
    return _contains_consecutive_values(given, text)
