"""Test parsing of RDF dates and numbers, and comparison with a wanted value."""

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmill.tasks.text.values.wikidata_literals import (
    PartialDate,
    WantedNumberWithUnit,
    canonical_number,
    compute_xsd_datetime_day_key,
    format_wikidata_date,
    hash_canonical_number,
    parse_iso_partial_date,
)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("1952-03-11T00:00:00Z", 19520311),
        ("+1952-03-11T00:00:00Z", 19520311),
        ("1952-00-00T00:00:00Z", 19520000),
        ("1952-12-31T00:00:00Z", 19521231),
        ("0000-01-01T00:00:00Z", 101),
        ("-0043-03-15T00:00:00Z", -429685),
        ("-13798000000-01-01T00:00:00Z", -137979999999899),
        ("2001-05-11T12:30:00.5+02:00", 20010511),
        ("hello", None),
        ("1952", None),
        ("1952-13-01T00:00:00Z", None),
        ("1952-01-32T00:00:00Z", None),
        ("1000000000000000-01-01T00:00:00Z", None),
    ],
)
def test_rdf_date_becomes_one_number(text: str, key: int | None) -> None:
    assert compute_xsd_datetime_day_key(text) == key


@pytest.mark.parametrize(
    ("wanted", "text", "precision", "fits"),
    [
        (PartialDate(1952, 3, 11), "1952-03-11T00:00:00Z", 11, True),
        (PartialDate(1952, 3, 11), "1952-03-12T00:00:00Z", 11, False),
        (PartialDate(1952, 3), "1952-03-11T00:00:00Z", 11, True),
        (PartialDate(1952), "1952-03-11T00:00:00Z", 11, True),
        (PartialDate(1952, 1, 1), "1952-01-01T00:00:00Z", 9, False),
        (PartialDate(1952, 1), "1952-01-01T00:00:00Z", 9, False),
        (PartialDate(1952), "1952-01-01T00:00:00Z", 9, True),
        (PartialDate(1952), "1952-01-01T00:00:00Z", 7, False),
        (PartialDate(-43), "-0043-03-15T00:00:00Z", 11, True),
        (PartialDate(-43, 3), "-0043-03-15T00:00:00Z", 11, True),
        (PartialDate(-44), "-0043-03-15T00:00:00Z", 11, False),
        (PartialDate(-42), "-0043-03-15T00:00:00Z", 11, False),
    ],
)
def test_date_matches_value_that_is_at_least_as_precise(
    wanted: PartialDate, text: str, precision: int, fits: bool
) -> None:
    key = compute_xsd_datetime_day_key(text)
    assert key is not None
    assert wanted.is_satisfied_by(key, precision) is fits


@pytest.mark.parametrize(
    ("date", "text"),
    [(PartialDate(1952), "1952"), (PartialDate(-43, 3), "-0043-03"), (PartialDate(79, 8, 24), "0079-08-24")],
)
def test_date_is_formatted_in_iso_8601(date: PartialDate, text: str) -> None:
    assert str(date) == text
    assert parse_iso_partial_date(text) == date


def test_other_date_format_is_rejected() -> None:
    with pytest.raises(ValueError, match="no date of the form"):
        parse_iso_partial_date("11 March 1952")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("+1.50", "1.5"),
        ("+19460", "19460"),
        ("-007.10", "-7.1"),
        ("-0.0", "0"),
        ("000", "0"),
        ("100", "100"),
        (".5", "0.5"),
        ("1.", "1"),
        ("1e5", None),
        ("", None),
        ("+", None),
        (".", None),
        ("1,000", None),
    ],
)
def test_decimal_has_one_canonical_spelling(text: str, number: str | None) -> None:
    assert canonical_number(text) == number


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6), st.integers(0, 3))
def test_equal_decimals_have_same_spelling(value: object, zeros: int) -> None:
    text = f"{value:f}"
    padded = f"{text}{'0' * zeros}" if "." in text else text
    assert canonical_number(text) == canonical_number(padded)


def test_number_matches_in_its_own_unit_or_any_unit() -> None:
    assert WantedNumberWithUnit("1.96", 11573).is_satisfied_by("1.96", 11573)
    assert not WantedNumberWithUnit("1.96", 11573).is_satisfied_by("1.96", 174728)
    assert not WantedNumberWithUnit("1.96", 11573).is_satisfied_by("1.96", None)
    assert WantedNumberWithUnit("1.96").is_satisfied_by("1.96", 11573)
    assert not WantedNumberWithUnit("1.96").is_satisfied_by("1.960", None)


@pytest.mark.parametrize("number", ["0", "1.96", "-7.1", "123456789012345678901234567890"])
def test_number_hash_matches_database_key(number: str) -> None:
    [(key,)] = duckdb.execute("SELECT (md5_number_lower($1) & 9223372036854775807)::BIGINT", [number]).fetchall()
    assert hash_canonical_number(number) == key


@pytest.mark.parametrize(
    ("text", "precision", "expected"),
    [
        ("1952-03-11T00:00:00Z", 11, "1952-03-11"),
        ("1952-03-11T00:00:00Z", None, "1952-03-11"),
        ("1952-03-01T00:00:00Z", 10, "1952-03"),
        ("1952-01-01T00:00:00Z", 9, "1952"),
        ("1952-00-00T00:00:00Z", 11, "1952"),
        ("1955-01-01T00:00:00Z", 8, "1950s"),
        ("2000-01-01T00:00:00Z", 7, "20th century"),
        ("2001-01-01T00:00:00Z", 7, "21st century"),
        ("0079-08-24T00:00:00Z", 11, "0079-08-24"),
        ("-0043-03-15T00:00:00Z", 9, "44 BC"),
        ("-0043-03-15T00:00:00Z", 11, "0044-03-15 BC"),
        ("-13798000000-01-01T00:00:00Z", 3, "about 13798000001 BC"),
        ("some day", 11, "some day"),
    ],
)
def test_date_is_formatted_at_its_precision(text: str, precision: int | None, expected: str) -> None:
    assert format_wikidata_date(text, precision) == expected
