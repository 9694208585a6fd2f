"""Property values: read them from facts, verify them in an article, rank members by them (FanOutQA, §3.1).

A graph often has several values of a property, such as the populations of several years. The answer is the value that
the dated article says; if it says none or several, there is no answer. Of items, it must say all.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal

from factmill.tasks.core.calls.item_facts import ItemFact
from factmill.tasks.fanoutqa.core.sets.set_kinds import PropertyKind
from factmill.tasks.text.values.answer_search import AnswerValue, IndexedText, find_answer_and_missing_parts, index_text
from factmill.tasks.text.values.dates_and_numbers import format_date_in_prose
from factmill.tasks.text.values.wikidata_literals import (
    YEAR_PRECISION,
    canonical_number,
    compute_xsd_datetime_day_key,
    format_wikidata_date,
)

_PLACE_LEVEL = re.compile(
    r"^(?:(?:Metropolitan )?City|Town|Municipality|Commune) of (?=\w)|(?<=\w) (?:Metropolitan )?Municipality$"
)
"""The administrative level in a place's label, which articles seldom say: City of Brussels, Rana Municipality."""
_CHARACTERS_AFTER_NAME = 600
"""Characters after a name in which an article may give its value."""
_MIN_DIGITS_WITHOUT_UNIT = 3
"""Least digits of a number that counts without its unit; a text contains shorter ones by chance."""
_MIN_THRESHOLD_POWER = -2
"""Power of ten of the finest threshold."""
_MILLION = 1_000_000
_IRREGULAR_PLURALS = {"foot": "feet", "person": "people"}
_UNCHANGED_PLURALS = re.compile(r"(?:hertz|siemens|lux|percent|gauss|yen|yuan|renminbi|baht|won|rand)$")
_UNIT_HEAD = re.compile(r"^(pound|degree|parts?)(?= )|^(.+?)(?= (?:of|above|below|squared|cubed)\b)")
"""The word or words of a unit that take the plural if others follow: pounds sterling, tons of TNT."""
MIN_LEFT_OUT = 2
"""Least members that a ranking or a threshold leaves out: leaving out one is hardly a choice."""


@dataclass(frozen=True, slots=True)
class PropertyValue:
    """One value of a property."""

    answer: AnswerValue
    """In readable form: a label or list of labels, a number, or a date in words."""
    rank: Decimal | tuple[int, int, int] | None
    """Key for ranking: a number, or year, month and day (0: unknown); None for items."""
    unit: str = ""
    """Unit of a number, in the plural; empty for none."""
    statements: tuple[str, ...] = field(default=(), compare=False)
    """Ids of the statements that give it, as far as known."""

    @property
    def sort_key(self) -> tuple[Decimal, int, int]:
        """Sort key: the number or year, which thresholds compare with, then month and day. ValueError for items."""
        if self.rank is None:
            raise ValueError(f"{self.answer!r} has no rank; expected a time or a quantity")
        if isinstance(self.rank, Decimal):
            return self.rank, 0, 0
        return Decimal(self.rank[0]), *self.rank[1:]


def read_property_values(
    facts: Iterable[ItemFact], kind: PropertyKind, units: Mapping[str, str]
) -> tuple[PropertyValue, ...]:
    """Return the different values in the facts of one property; `units`: QID → label.

    Items form one value together, under their usual names; there is none if an item lacks a label. Dates coarser than a
    year, and numbers whose unit lacks a label, are skipped.
    """
    if kind == "item":
        items = [fact for fact in facts if fact.qid is not None]
        names = list(dict.fromkeys(_drop_place_type(fact.value) for fact in items if fact.value))
        if not names or any(not fact.value for fact in items):
            return ()
        statements = tuple(fact.statement for fact in items if fact.statement)
        return (PropertyValue(names[0] if len(names) == 1 else names, None, statements=statements),)
    stated = [fact for fact in facts if fact.qid is None and fact.value is not None]
    values = (_read_date_value(fact) if kind == "time" else _read_number_value(fact, units) for fact in stated)
    return tuple(dict.fromkeys(value for value in values if value is not None))


def _drop_place_type(label: str) -> str:
    """Return the usual name of a place; a scorer that searches for Brussels also finds it in "City of Brussels"."""
    name = _PLACE_LEVEL.sub("", label)
    return name if name[0].isupper() else label


def _read_date_value(fact: ItemFact) -> PropertyValue | None:
    key = compute_xsd_datetime_day_key(fact.value or "")
    if key is None or (fact.precision is not None and fact.precision < YEAR_PRECISION):
        return None
    date = format_wikidata_date(fact.value or "", fact.precision)
    year, month_day = divmod(key, 10_000)
    has_day = date.removesuffix(" BC").count("-") == 2
    rank = (year, month_day // 100 if "-" in date else 0, month_day % 100 if has_day else 0)
    return PropertyValue(format_date_in_prose(date), rank, statements=_list_statement_ids(fact))


def _read_number_value(fact: ItemFact, units: Mapping[str, str]) -> PropertyValue | None:
    number = canonical_number(fact.value or "")
    if number is None or (fact.unit and fact.unit not in units):
        return None
    unit = format_plural_unit(units[fact.unit]) if fact.unit else ""
    answer = float(number) if "." in number else int(number)
    return PropertyValue(answer, Decimal(number), unit, _list_statement_ids(fact))


def _list_statement_ids(fact: ItemFact) -> tuple[str, ...]:
    return (fact.statement,) if fact.statement else ()


def choose_value_stated_in_text(values: Sequence[PropertyValue], text: IndexedText) -> PropertyValue | str:
    """Return the value that a text says, or a phrase if it says none, or several that differ."""
    stated = [value for value in values if _is_stated(value, text)]
    finest = [value for value in stated if not any(_is_more_precise_date(other, value) for other in stated)]
    if len(finest) == 1:
        return finest[0]
    if finest:
        return f"says both {' and '.join(map(_format_property_value, finest))}"
    return f"does not say {' or '.join(map(_format_property_value, values))}"


def _is_stated(value: PropertyValue, text: IndexedText) -> bool:
    answer = value.answer
    if isinstance(value.rank, Decimal) and sum(map(str.isdigit, str(answer).lstrip("0."))) < _MIN_DIGITS_WITHOUT_UNIT:
        if not value.unit:
            return False
        answer = f"{answer} {value.unit}"
    return find_answer_and_missing_parts(answer, text).found is True


def _is_more_precise_date(one: PropertyValue, other: PropertyValue) -> bool:
    """True if a date is a more precise form of the other one."""
    counts = [sum(map(bool, each.rank[1:])) if isinstance(each.rank, tuple) else 0 for each in (one, other)]
    return is_tied(one, other) and counts[0] > counts[1]


def _format_property_value(value: PropertyValue) -> str:
    text = ", ".join(map(str, value.answer)) if isinstance(value.answer, list) else str(value.answer)
    return f"{text} {value.unit}".rstrip()


def is_tied(one: PropertyValue, other: PropertyValue) -> bool:
    """True if neither value is known to come before the other."""
    if isinstance(one.rank, tuple) and isinstance(other.rank, tuple):
        for rank_part, others in zip(one.rank[1:], other.rank[1:], strict=True):
            if one.rank[0] != other.rank[0] or (rank_part and others and rank_part != others):
                return False
        return True
    return one.rank == other.rank


def index_passages_following_name(name: str, names: Collection[str], text: str) -> IndexedText:
    """Return the text after each occurrence of a name, up to the next of the names: a table row, a list item."""
    either = "|".join(re.escape(each) for each in sorted({name, *names}, key=lambda each: (-len(each), each)))
    marks = list(re.finditer(rf"(?<!\w)(?:{either})(?!\w)", text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    pieces = [
        text[mark.end() : min(end, mark.end() + _CHARACTERS_AFTER_NAME)]
        for mark, end in zip(marks, ends, strict=True)
        if mark[0] == name
    ]
    return index_text("\n\n".join(pieces))


def choose_round_threshold(values: Sequence[PropertyValue], is_above: bool, least: int) -> Decimal | None:
    """Return the roundest number (or year) with at least `least` values beyond it, and MIN_LEFT_OUT or more not.

    None if there is no such number. No value equals the threshold.
    """
    numbers = sorted((value.sort_key[0] for value in values), reverse=is_above)
    is_date = any(isinstance(value.rank, tuple) for value in values)
    if is_date and min(numbers) < 1:
        return None
    found: list[Decimal] = []
    for at in range(least, len(numbers) - MIN_LEFT_OUT + 1):
        low, high = sorted((numbers[at - 1], numbers[at]))
        between = _find_round_number_between(low, high, 0 if is_date else _MIN_THRESHOLD_POWER)
        if between is not None:
            found.append(between)
    return min(found, key=lambda number: len(number.normalize().as_tuple().digits), default=None)


def _find_round_number_between(low: Decimal, high: Decimal, smallest: int) -> Decimal | None:
    """Return the number between two others with the fewest digits; of several, the nearest to their middle."""
    largest = max(abs(low), abs(high)).adjusted() + 1
    for power in range(largest, smallest - 1, -1):
        step = Decimal(1).scaleb(power)
        first = (low / step).to_integral_value(ROUND_CEILING) * step
        first += step if first == low else 0
        if first < high:
            steps = ((low + high) / 2 - first) / step
            nearest = first + max(0, int(steps.to_integral_value())) * step
            return nearest if low < nearest < high else first
    return None


def format_threshold(number: Decimal, unit: str, is_date: bool) -> str:
    """Return a threshold as questions write it: 100,000 square kilometres, 10 million, 1950."""
    if is_date:
        return str(int(number))
    if number >= _MILLION and number % (_MILLION // 10) == 0:
        text = f"{(number / _MILLION).normalize():f} million"
    else:
        text = f"{number:,f}" if number == number.to_integral_value() else f"{number.normalize():,f}"
    return f"{text} {unit}".rstrip()


def format_plural_unit(unit: str) -> str:
    """Return a unit's label in the plural: square kilometres, metres per second, degrees Celsius, centuries, hertz."""
    head, between, rest = unit.partition(" per ")
    if first := _UNIT_HEAD.match(head):
        return f"{_pluralise_word(first[0])}{head[first.end() :]}{between}{rest}"
    return f"{_pluralise_word(head)}{between}{rest}"


def _pluralise_word(unit: str) -> str:
    before, space, last = unit.rpartition(" ")
    if last in _IRREGULAR_PLURALS:
        return f"{before}{space}{_IRREGULAR_PLURALS[last]}"
    if _UNCHANGED_PLURALS.search(last):
        return unit
    if re.search(r"[^aeiou]y$", last):
        return f"{unit[:-1]}ies"
    return f"{unit}es" if re.search(r"(?:s|x|z|ch|sh)$", last) else f"{unit}s"
