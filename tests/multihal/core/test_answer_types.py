"""Types of answers: as stated where the answer bears it out, else as it reads."""

import pytest

from tasks.assets import load_units
from tasks.multihal.core.answer_types import settle_answer_type
from tasks.multihal.core.rows import AnswerType


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
    assert settle_answer_type(answer, None, load_units()).answer_type == expected


@pytest.mark.parametrize(
    ("answer", "stated"),
    [
        ("1900", "numerical"),
        ("two medals", "numerical"),
        ("57th place", "numerical"),
        ("October 2012", "date"),
        ("7", "rank"),
        ("57th", "rank"),
        ("1984", "other"),
    ],
)
def test_a_stated_type_stays_where_the_answer_bears_it_out(answer: str, stated: AnswerType) -> None:
    settled = settle_answer_type(answer, stated, load_units())
    assert (settled.answer_type, settled.note) == (stated, "")


@pytest.mark.parametrize(
    ("answer", "stated", "note"),
    [
        ("1962-1965", "date", "stated as a date, but '1962-1965' is none"),
        ("7", "date", "stated as a date, but '7' is none"),
        ("Episode 4", "numerical", "stated as a number, but 'Episode 4' is none"),
        ("601-610", "rank", "stated as a rank, but '601-610' is none"),
        ("1.5", "rank", "stated as a rank, but '1.5' is none"),
        ("0", "rank", "stated as a rank, but '0' is none"),
    ],
)
def test_a_stated_type_falls_back_with_a_note(answer: str, stated: AnswerType, note: str) -> None:
    settled = settle_answer_type(answer, stated, load_units())
    assert (settled.answer_type, settled.note) == ("other", note)
