"""Test dates and numbers as people write them: parsing answers, finding a date in a sentence, formatting dates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmill.tasks.assets import load_property_numbers, load_unit_qid_numbers_by_name
from factmill.tasks.errors import SettingsError
from factmill.tasks.text.values.dates_and_numbers import (
    WrittenNumber,
    format_date_in_prose,
    is_same_date,
    parse_answer_as_date,
    parse_units_csv,
    parse_written_date,
    parse_written_number,
    resolve_number_unit,
    states_date,
)
from factmill.tasks.text.values.wikidata_literals import PartialDate, WantedNumberWithUnit, format_wikidata_date


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("11 March 1952", PartialDate(1952, 3, 11)),
        ("March 11, 1952", PartialDate(1952, 3, 11)),
        ("the 11th of March, 1952.", PartialDate(1952, 3, 11)),
        ("Mar. 1952", PartialDate(1952, 3)),
        ("Sept 3 2001", PartialDate(2001, 9, 3)),
        (" 1952 ", PartialDate(1952)),
        ("1952-03-11", PartialDate(1952, 3, 11)),
        ("1952-03", PartialDate(1952, 3)),
        ("-0043-03-15", PartialDate(-43, 3, 15)),
        ("44 BC", PartialDate(-43)),
        ("15 March 44 BC", PartialDate(-43, 3, 15)),
        ("AD 79", PartialDate(79)),
        ("79 CE", PartialDate(79)),
        ("25 December 800", PartialDate(800, 12, 25)),
        ("13/04/1952", PartialDate(1952, 4, 13)),
        ("04/13/1952", PartialDate(1952, 4, 13)),
        ("3/3/1952", PartialDate(1952, 3, 3)),
        ("29 February 2000", PartialDate(2000, 2, 29)),
        ("29 February 1500", PartialDate(1500, 2, 29)),
        ("28 of March of 2009", PartialDate(2009, 3, 28)),
        ("20/May/1956", PartialDate(1956, 5, 20)),
        ("20-May-1956", PartialDate(1956, 5, 20)),
        ("08-1981", PartialDate(1981, 8)),
        ("March of 1981", PartialDate(1981, 3)),
    ],
)
def test_date_is_parsed_at_precision_it_is_written_in(text: str, date: PartialDate) -> None:
    assert parse_written_date(text) == date


def test_ambiguous_day_and_month_leave_only_year() -> None:
    assert parse_written_date("03/04/1952") == PartialDate(1952)


@pytest.mark.parametrize(
    ("answer", "question", "date"),
    [
        ("In 1993.", "When?", PartialDate(1993)),
        ("in the year 1993", "When?", PartialDate(1993)),
        ("On 3 May 1993", "When?", PartialDate(1993, 5, 3)),
        ("Wednesday, August 23, 2023", "When?", PartialDate(2023, 8, 23)),
        ("03/04/1952", "On what day was it?", PartialDate(1952)),
        ("03/04/1952", "On what day, month, and year was it?", PartialDate(1952, 4, 3)),
        ("03/04/1952.", "On what month and day of which year was it?", PartialDate(1952, 3, 4)),
        ("03/04/1952", "When was it (MM/DD/YYYY)?", PartialDate(1952, 3, 4)),
        ("03/04/1952", "When was it (dd/mm/yyyy)?", PartialDate(1952, 4, 3)),
        ("03/24/1952", "When was it (dd/mm/yyyy)?", PartialDate(1952, 3, 24)),
        ("Since 1993", "When?", None),
        ("In 7", "When?", None),
    ],
)
def test_answer_date_is_parsed_in_order_question_states(answer: str, question: str, date: PartialDate | None) -> None:
    assert parse_answer_as_date(answer, question) == date


@pytest.mark.parametrize(
    "text",
    [
        *("", "900", "12345", "2101", "1 May 2101", "1950s", "in 1952", "30 February 2001", "29 February 1900"),
        *("May 52", "Ma 2001", "Apollo 1952"),
    ],
)
def test_non_date_text_is_parsed_as_none(text: str) -> None:
    assert parse_written_date(text) is None


@pytest.mark.parametrize(
    ("text", "number", "unit"),
    [
        ("42", "42", None),
        ("3.0", "3", None),
        ("0.000", "0", None),
        ("-4.5 °C", "-4.5", "°C"),
        ("−4.5", "-4.5", None),
        ("1,234.5 km", "1234.5", "km"),
        ("1 234 567", "1234567", None),
        ("1'000", "1000", None),
        ("12 million", "12000000", None),
        ("1.5 billion people", "1500000000", "people"),
        ("$12 million", "12000000", "$"),
        ("12%", "12", "%"),
        ("5th", "5", None),
        ("2nd place", "2", None),
        ("5th Avenue", "5", "Avenue"),
        ("Third", "3", None),
        ("third place", "3", None),
        ("Second Life", "2", "Life"),
        (".500", "0.5", None),
        ("-.5", "-0.5", None),
        ("5 ft 10 in", "70", "in"),
        ("6 feet, 0.5 inches.", "72.5", "in"),
        ("5'10\"", "70", "in"),
        ("#5", "5", None),
        ("No. 12", "12", None),
        ("twelve", "12", None),
        ("Three hundred", "300", None),
        ("9.58 m2", "9.58", "m2"),
    ],
)
def test_number_is_parsed_with_its_unit(text: str, number: str, unit: str | None) -> None:
    assert parse_written_number(text) == WrittenNumber(number, unit)


@pytest.mark.parametrize(
    "text",
    [
        *("", "3,5", "1,23", "1 2", "10-20", "12:30", "1.2.3", "1952-03-11", "twenty one", "two and a half"),
        *("two thirds", "12 angry men here now", "€5 each", "about 5", "Five Guys and more friends"),
        *("2000002010 BC", "first million", "."),
    ],
)
def test_non_number_text_is_parsed_as_none(text: str) -> None:
    assert parse_written_number(text) is None


def test_known_unit_is_resolved_and_unknown_unit_matches_no_value() -> None:
    units = load_unit_qid_numbers_by_name()
    assert resolve_number_unit(WrittenNumber("1.96", "metres"), units) == WantedNumberWithUnit("1.96", 11573)
    assert resolve_number_unit(WrittenNumber("375", "mi long"), units) == WantedNumberWithUnit("375", 253276)
    assert resolve_number_unit(WrittenNumber("28", "years old"), units) == WantedNumberWithUnit("28", 577)
    assert resolve_number_unit(WrittenNumber("1.96", "apples"), units) is None
    assert resolve_number_unit(WrittenNumber("1.96", "apples long"), units) is None
    assert resolve_number_unit(WrittenNumber("12", None), units) == WantedNumberWithUnit("12", None)


@pytest.mark.parametrize(
    ("text", "number", "unit"),
    [
        ("96.9 MHz", "96.9", 732707),
        ("220 hp", "220", 2276380),
        ("500 million JPY", "500000000", 8146),
        ("JPY 500 million", "500000000", 8146),
        ("¥500", "500", 8146),
        ("A$1.2 million", "1200000", 259502),
        ("CAD 5", "5", 1104069),
        ("1,200 sq ft", "1200", 857027),
        ("1,200 sq. ft.", "1200", 857027),
        ("20m-high", "20", 11573),
        ("20-metre-high", "20", 11573),
        ("20-foot tall", "20", 3710),
        ("1,234.5 km long", "1234.5", 828224),
    ],
)
def test_units_and_currencies_are_recognised_as_people_write_them(text: str, number: str, unit: int) -> None:
    written = parse_written_number(text)
    assert written and resolve_number_unit(written, load_unit_qid_numbers_by_name()) == WantedNumberWithUnit(
        number, unit
    )


@pytest.mark.parametrize(
    ("text", "question", "number"),
    [
        ("two medals.", "How many medals did she win?", "2"),
        ("2 silver medals", "How many silver medals did she win?", "2"),
        ("100 ducats", "For how many ducats was it sold?", "100"),
        ("one city", "What is the number of cities with a port?", "1"),
    ],
)
def test_noun_counted_in_question_is_not_unit(text: str, question: str, number: str) -> None:
    written = parse_written_number(text)
    assert written and resolve_number_unit(written, load_unit_qid_numbers_by_name(), question) == WantedNumberWithUnit(
        number
    )


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("1.96 apples", "How many apples are there?"),
        ("12 couples", "How many people were there?"),
        ("12 couples", "Which couples were there?"),
        ("3 %%", "How many were there?"),
        ("3 leagues", ""),
    ],
)
def test_word_not_counted_in_question_is_unknown_unit(text: str, question: str) -> None:
    written = parse_written_number(text)
    assert written and resolve_number_unit(written, load_unit_qid_numbers_by_name(), question) is None


def test_age_is_not_parsed_as_number() -> None:
    assert parse_written_number("16-year-old") is None
    assert parse_written_number("NBC 10") is None


def test_unit_name_with_two_ids_is_rejected_by_name() -> None:
    with pytest.raises(SettingsError, match=r"line 3: 'm' names two units"):
        parse_units_csv("qid,name,other_names\nQ11573,metre,m\nQ7727,minute,m\n")


def test_property_lists_separate_dates_numbers_ranks_and_ignored_properties() -> None:
    times, numbers, ranks, ignored = map(
        load_property_numbers, ("time_properties", "number_properties", "rank_properties", "ignored_properties")
    )
    assert (len(times), len(numbers), ranks, len(ignored)) == (50, 206, frozenset({1352}), 8349)
    assert 569 in times
    assert 2048 in numbers
    assert not (times | numbers | ranks) & ignored
    assert not times & numbers


DAY = "1879-03-14"


@pytest.mark.parametrize(
    ("sentence", "text"),
    [
        ("Born on 14 March 1879, he", DAY),
        ("Born on March 14, 1879, he", DAY),
        ("Born on March 14th, 1879.", DAY),
        ("Born on the 14th of March, 1879.", DAY),
        ("Albert (14 March 1879 – 18 April 1955) was", DAY),
        ("Albert (14 March 1879–18 April 1955) was", "1955-04-18"),
        ("Born 1879-03-14.", DAY),
        ("Born on 14/03/1879.", DAY),
        ("Born in March 1879.", "1879-03"),
        ("Born in March of 1879.", "1879-03"),
        ("Born on 14 March 1879.", "1879-03"),
        ("Born in 1879.", "1879"),
        ("Albert (1879–1955) was", "1879"),
        ("Albert (1879-1955) was", "1955"),
        ("Born on “March 14, 1879”", "1879"),
        ("Killed in 44 BC.", "44 BC"),
        ("Killed in 44 BCE.", "44 BC"),
        ("Killed in 44 B.C. in Rome", "44 BC"),
        ("Killed on 15 March 44 B.C.E.", "44 BC"),
        ("Killed on March 15, 44 BC", "0044-03-15 BC"),
        ("Killed on 0044-03-15 BC", "0044-03-15 BC"),
        ("Nero was born on 15 December 37 in Antium", "0037-12-15"),
        ("Nero was born on 15 December AD 37", "0037-12-15"),
        ("Nero was born in AD 37", "37"),
        ("Rome fell in 476, they say", "476"),
        ("The year of the fall was 476.", "476"),
        ("He died in 37.", "37"),
        ("In the 1950s he", "1950s"),
        ("In the 1950's he", "1950s"),
        ("In 1953 he", "1950s"),
        ("In the 5th century BC.", "5th century BC"),
        ("In the fifth century B.C.", "5th century BC"),
        ("A fifth-century BCE poet", "5th century BC"),
        ("In 450 BC", "5th century BC"),
        ("In 1801.", "19th century"),
        ("In the 450s BC", "5th century BC"),
        ("in the twenty-first century", "21st century"),
        ("Around 5000 BC", "about 5000 BC"),
        ("Born on 2 May, 14 March 1879, or later", DAY),
    ],
)
def test_date_is_stated_in_any_format_at_its_precision_or_finer(sentence: str, text: str) -> None:
    assert states_date(sentence, text) is True


@pytest.mark.parametrize(
    ("sentence", "text"),
    [
        ("Born in 1879.", DAY),
        ("Born in March 1879.", DAY),
        ("Born on 15 March 1879.", DAY),
        ("Born in 1879.", "1879-03"),
        ("Born in the 1870s.", "1879"),
        ("Born in 1593 BC.", "1593"),
        ("Born in 1593.", "1593 BC"),
        ("Killed in 44.", "44 BC"),
        ("Aged 37, he", "37"),
        ("In the 4th century BC.", "5th century BC"),
        ("In the 5th century.", "5th century BC"),
        ("In 1960.", "1950s"),
        ("In 1800.", "19th century"),
        ("She had 18790 books", "1879"),
        ("Nothing is said of it.", "1879"),
        ("", DAY),
    ],
)
def test_other_or_coarser_date_does_not_state_date(sentence: str, text: str) -> None:
    assert states_date(sentence, text) is False


def test_non_date_answer_cannot_be_stated() -> None:
    assert states_date("Born in 1879.", "Ulm") is None


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (DAY, "14 March 1879"),
        ("1879-03", "March 1879"),
        ("1879", "1879"),
        ("44 BC", "44 BC"),
        ("0044-03-15 BC", "15 March 44 BC"),
        ("0044-03 BC", "March 44 BC"),
        ("0037-12-15", "15 December AD 37"),
        ("37", "AD 37"),
        ("476", "476"),
        ("1950s", "the 1950s"),
        ("5th century BC", "the 5th century BC"),
        ("about 5000 BC", "about 5000 BC"),
        ("unknown", "unknown"),
    ],
)
def test_date_is_formatted_in_prose(text: str, written: str) -> None:
    assert format_date_in_prose(text) == written


@given(st.integers(-3000, 2100), st.integers(1, 12), st.integers(1, 28), st.integers(6, 11))
def test_date_formatted_in_prose_states_original_date(year: int, month: int, day: int, precision: int) -> None:
    sign = "-" if year < 0 else ""
    text = format_wikidata_date(f"{sign}{abs(year):04d}-{month:02d}-{day:02d}T00:00:00Z", precision)
    assert states_date(f"It was in {format_date_in_prose(text)}, they say.", text) is True
    assert is_same_date(format_date_in_prose(text), text)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (DAY, "March 14, 1879", True),
        ("0044-03 BC", "March 44 BC", True),
        ("1879", "1879-03", False),
        ("1950s", "1950", False),
        ("Ulm", "Ulm", False),
    ],
)
def test_two_texts_are_compared_as_dates(one: str, other: str, is_same: bool) -> None:
    assert is_same_date(one, other) is is_same


def test_century_does_not_state_its_first_decade() -> None:
    assert states_date("Built in the 19th century.", "1800s") is False
    assert states_date("Built in the 1800s.", "1800s") is True
