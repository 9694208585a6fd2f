"""Texts as words, numbers and dates in which an amount is the same however it is written."""

import pytest

from tasks.core.amounts_in_text import read_amounts
from tasks.core.value_words import Count


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
