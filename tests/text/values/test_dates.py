"""Whether a sentence says a date, and how dates are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.text.values.dates import is_same_date, says_date, write_date
from tasks.text.values.literals import format_date

DAY = "1879-03-14"


@pytest.mark.parametrize(
    ("sentence", "told"),
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
        ("In the 450s BC", "5th century BC"),
        ("in the twenty-first century", "21st century"),
        ("Around 5000 BC", "about 5000 BC"),
        ("Born on 2 May, 14 March 1879, or later", DAY),
    ],
)
def test_a_date_is_said_however_it_is_written_at_its_precision_or_finer(sentence: str, told: str) -> None:
    assert says_date(sentence, told) is True


@pytest.mark.parametrize(
    ("sentence", "told"),
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
        ("She had 18790 books", "1879"),
        ("Nothing is said of it.", "1879"),
        ("", DAY),
    ],
)
def test_another_or_a_coarser_date_does_not_say_it(sentence: str, told: str) -> None:
    assert says_date(sentence, told) is False


def test_what_is_no_date_cannot_be_said() -> None:
    assert says_date("Born in 1879.", "Ulm") is None


@pytest.mark.parametrize(
    ("told", "written"),
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
def test_a_told_date_is_written_out(told: str, written: str) -> None:
    assert write_date(told) == written


@given(st.integers(-3000, 2100), st.integers(1, 12), st.integers(1, 28), st.integers(6, 11))
def test_a_date_that_is_written_out_says_what_was_told(year: int, month: int, day: int, precision: int) -> None:
    sign = "-" if year < 0 else ""
    told = format_date(f"{sign}{abs(year):04d}-{month:02d}-{day:02d}T00:00:00Z", precision)
    assert says_date(f"It was in {write_date(told)}, they say.", told) is True
    assert is_same_date(write_date(told), told)


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
def test_two_texts_are_the_same_date_or_not(one: str, other: str, is_same: bool) -> None:
    assert is_same_date(one, other) is is_same


def test_a_century_does_not_say_the_decade_that_it_begins_with() -> None:
    assert says_date("Built in the 19th century.", "1800s") is False
    assert says_date("Built in the 1800s.", "1800s") is True
