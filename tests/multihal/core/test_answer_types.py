"""Types of answers: as stated where the answer bears it out, else as it reads."""

import pytest

from tasks.assets import load_units
from tasks.multihal.core.answer_types import SettledType, settle_answer_type
from tasks.multihal.core.rows import AnswerType
from tasks.text.values.literals import Date, Number


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("11 March 1952", "date"),
        ("March 1952", "date"),
        ("1952", "date"),
        ("44 BC", "date"),
        ("2100", "date"),
        ("2101", "numerical"),
        ("62", "numerical"),
        ("1,234.5", "numerical"),
        ("1.98 m", "numerical"),
        ("4,653 °F", "numerical"),
        ("8,611 Metres", "numerical"),
        ("$12 million", "numerical"),
        ("17%", "numerical"),
        ("seven", "numerical"),
        (".500", "numerical"),
        ("5 ft 10 in", "numerical"),
        ("Third", "numerical"),
        ("In 1993.", "date"),
        ("08-1981", "date"),
        ("2000002010 BC", "other"),
        ("One Direction", "other"),
        ("two medals", "other"),
        ("16-year-old", "other"),
        ("1985 and 1987", "other"),
        ("US 60", "other"),
        ("Mary Shelley", "other"),
        ("", "other"),
    ],
)
def test_an_answer_of_which_nothing_is_said_is_read(answer: str, expected: AnswerType) -> None:
    assert settle_answer_type(answer, None, load_units(), "").answer_type == expected


@pytest.mark.parametrize(
    ("answer", "stated", "value"),
    [
        ("1900", "numerical", Number("1900")),
        ("57th place", "numerical", Number("57")),
        ("28 years old", "numerical", Number("28", 577)),
        ("1.98 m", "numerical", Number("1.98", 11573)),
        ("3/4/2012", "date", Date(2012, 4, 3)),
        ("7", "rank", Number("7")),
        ("57th", "rank", Number("57")),
        ("1984", "other", None),
    ],
)
def test_a_stated_type_stays_where_the_answer_bears_it_out(
    answer: str, stated: AnswerType, value: Date | Number | None
) -> None:
    settled = settle_answer_type(answer, stated, load_units(), "On what day, month, and year?")
    assert settled == SettledType(stated, value)


@pytest.mark.parametrize(
    ("answer", "stated"),
    [
        ("1962-1965", "date"),
        ("7", "date"),
        ("Episode 4", "numerical"),
        ("601-610", "rank"),
        ("1.5", "rank"),
        ("0", "rank"),
    ],
)
def test_a_stated_type_falls_back(answer: str, stated: AnswerType) -> None:
    assert settle_answer_type(answer, stated, load_units(), "") == SettledType("other")


@pytest.mark.parametrize("stated", [None, "numerical"])
def test_a_number_of_what_the_question_counts_is_a_number(stated: AnswerType | None) -> None:
    settled = settle_answer_type("two medals", stated, load_units(), "How many medals did she win?")
    assert settled == SettledType("numerical", Number("2"))


@pytest.mark.parametrize(
    ("answer", "stated"), [("1.96 apples", None), ("1.96 apples", "numerical"), ("two medals", "numerical")]
)
def test_a_number_in_a_unit_that_is_not_known_is_no_value(answer: str, stated: AnswerType | None) -> None:
    assert settle_answer_type(answer, stated, load_units(), "") == SettledType("numerical", None)
