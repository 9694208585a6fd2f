"""Test comparison of words, numbers and dates by meaning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmill.tasks.text.values.value_tokens import (
    DayWithoutYear,
    UnitlessNumberValue,
    contains_value_sequence,
    drop_stop_words,
    is_same_or_related_word,
    normalize_amount_and_name_spelling,
    states_wanted_value,
    tokenize_values,
    tokenize_words_numbers_and_dates,
)
from factmill.tasks.text.values.wikidata_literals import PartialDate


def read_all(text: str) -> list:
    return [result.value for result in tokenize_values(text)]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("8 March 1917", [PartialDate(1917, 3, 8)]),
        ("March 8, 1917", [PartialDate(1917, 3, 8)]),
        ("the 8th of March 1917", [PartialDate(1917, 3, 8)]),
        ("1917-03-08", [PartialDate(1917, 3, 8)]),
        ("March 1917", [PartialDate(1917, 3)]),
        ("1917", [UnitlessNumberValue("1917")]),
        ("8 March", [DayWithoutYear(3, 8)]),
        ("March 8", [DayWithoutYear(3, 8)]),
        ("44 BC", [PartialDate(-43)]),
        ("44 B.C.", [PartialDate(-43)]),
        ("264–241 BCE", [UnitlessNumberValue("264"), PartialDate(-240)]),
        ("15 March 44 BC", [PartialDate(-43, 3, 15)]),
        ("it may 5 times march 8", ["it", "may", UnitlessNumberValue("5"), "time", "march", UnitlessNumberValue("8")]),
        ("1,000 and 1000", [UnitlessNumberValue("1000"), "and", UnitlessNumberValue("1000")]),
        ("two", [UnitlessNumberValue("2")]),
        ("2.50", [UnitlessNumberValue("2.5")]),
        ("3 million, $3 million", [UnitlessNumberValue("3000000"), UnitlessNumberValue("3000000")]),
        ("two hundred", [UnitlessNumberValue("200")]),
        ("sixty thousand, 60 thousand, 60,000", [UnitlessNumberValue("60000")] * 3),
        ("Forty-three or forty years", [UnitlessNumberValue("43"), "or", UnitlessNumberValue("40"), "year"]),
        ("−273.15 or -273.15", ["minus", UnitlessNumberValue("273.15"), "or", "minus", UnitlessNumberValue("273.15")]),
        ("10⁵, 10⁻³, km²", ["10^5", "10^m3", "km2"]),
        ("the fifth, the 5th, the thirteenth", ["the", "5th", "the", "5th", "the", "thirteenth"]),
        ("the 1950s and 1950's", ["the", "1950s", "and", "1950s"]),
        ("50% or 50 per cent", [UnitlessNumberValue("50"), "percent", "or", UnitlessNumberValue("50"), "percent"]),
        ("Kepler’s laws", ["kepler", "law"]),
        ("Łódź and Lodz", ["lodz", "and", "lodz"]),
        ("Jean-Paul O'Brien", ["jean", "paul", "o'brien"]),
        ("C, C++ and C#", ["c", "c++", "and", "c#"]),
        ("東京都", ["東京都"]),
        ("∞ …", []),
    ],
)
def test_text_is_parsed_into_its_values(text: str, values: list[object]) -> None:
    assert read_all(text) == values


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        (PartialDate(1917, 3, 8), PartialDate(1917, 3), True),
        (PartialDate(1917, 3), PartialDate(1917, 3, 8), False),
        (PartialDate(1917, 3, 8), UnitlessNumberValue("1917"), True),
        (UnitlessNumberValue("1917"), PartialDate(1917, 3, 8), False),
        (PartialDate(-43), UnitlessNumberValue("44"), True),
        (PartialDate(1917, 3, 8), DayWithoutYear(3, 8), True),
        (PartialDate(1917, 3, 8), DayWithoutYear(3, 9), False),
        (UnitlessNumberValue("2"), UnitlessNumberValue("2"), True),
        (UnitlessNumberValue("2"), "2", False),
        ("law", "law", True),
    ],
)
def test_finer_date_implies_coarser_date(found, wanted, said: bool) -> None:
    assert states_wanted_value(found, wanted) is said


@pytest.mark.parametrize(
    ("found", "wanted", "kin"),
    [
        ("carthaginian", "carthage", True),
        ("roman", "rome", True),
        ("italian", "italy", True),
        ("crossing", "cross", True),
        ("paris", "london", False),
        ("am", "an", False),
        ("1950s", "1951s", False),
        (UnitlessNumberValue("1950"), UnitlessNumberValue("1951"), False),
    ],
)
def test_words_of_one_stem_are_related(found, wanted, kin: bool) -> None:
    assert is_same_or_related_word(found, wanted) is kin
    assert is_same_or_related_word(wanted, found) is kin


def test_value_sequence_must_be_contiguous() -> None:
    values = drop_stop_words(read_all("Rome fought Carthage in 264 BC"))
    assert contains_value_sequence(values, drop_stop_words(read_all("the Carthage of 264 BC")))
    assert not contains_value_sequence(values, drop_stop_words(read_all("Rome, Carthage")))
    assert not contains_value_sequence(values, [])
    assert drop_stop_words(read_all("to the")) == ["to", "the"]


@given(st.text(max_size=80))
def test_any_text_is_parsed_and_contains_its_own_values(text: str) -> None:
    values = read_all(text)
    assert not values or contains_value_sequence(values, values)
    assert all(result.source for result in tokenize_values(text))


@given(st.integers(0, 10**9))
def test_number_is_same_with_and_without_commas(number: int) -> None:
    assert read_all(f"{number:,}") == read_all(str(number)) == [UnitlessNumberValue(str(number))]


@given(st.dates())
def test_date_is_same_in_every_format(day) -> None:
    forms = (f"{day.day} {day:%B} {day.year:04d}", f"{day:%B} {day.day}, {day.year:04d}", day.isoformat())
    if 100 <= day.year <= 2100:
        assert [read_all(form) for form in forms] == [[PartialDate(day.year, day.month, day.day)]] * 3


def read_numbers(text: str) -> list[str]:
    return [
        each.value.number
        for each in tokenize_words_numbers_and_dates(text)
        if isinstance(each.value, UnitlessNumberValue)
    ]


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
def test_minus_sign_belongs_to_number_unless_it_ends_year_range(text: str, numbers: list[str]) -> None:
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
def test_two_digits_after_hyphen_may_be_month_and_stay_unchanged(text: str, spelt: str) -> None:
    assert normalize_amount_and_name_spelling(text) == spelt
