"""Texts as words, numbers and dates in which an amount is the same however it is written."""

import pytest

from tasks.text.values.amounts import read_amounts, spell_amounts
from tasks.text.values.words import Count


def read_numbers(text: str) -> list[str]:
    return [each.value.number for each in read_amounts(text) if isinstance(each.value, Count)]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("−999 m", ["-999"]),
        ("−1000 m", ["1000"]),
        ("−2100 m", ["2100"]),
        ("−2101 m", ["-2101"]),
        ("−10000 m", ["-10000"]),
        ("−0 m", ["0"]),
    ],
)
def test_a_minus_belongs_to_a_number_unless_it_ends_a_range_of_years(text: str, numbers: list[str]) -> None:
    assert read_numbers(text) == numbers


@pytest.mark.parametrize(
    ("text", "spelt"),
    [
        ("2012-13", "2012–2013"),
        ("2011-12", "2011-12"),
        ("2011–12", "2011–2012"),
        ("1999–00", "1999–2000"),
        ("2011–10", "2011–10"),
    ],
)
def test_two_digits_behind_a_hyphen_may_be_a_month_and_are_then_left(text: str, spelt: str) -> None:
    assert spell_amounts(text) == spelt
