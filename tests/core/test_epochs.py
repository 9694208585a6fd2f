"""Test parsing of moments as people write them."""

import pytest

from factmill.tasks.core.epochs import normalise_epoch_to_utc
from factmill.tasks.errors import UsageError


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2023-11-20", "2023-11-20T00:00:00Z"),
        ("2023-11-20T00:00:00Z", "2023-11-20T00:00:00Z"),
        (" 2023-11-20T12:30 ", "2023-11-20T12:30:00Z"),
        ("2023-11-20T01:00:00+02:00", "2023-11-19T23:00:00Z"),
    ],
)
def test_days_and_times_are_normalised_to_utc(text: str, moment: str) -> None:
    assert normalise_epoch_to_utc(text) == moment


@pytest.mark.parametrize(
    "text", ["", "yesterday", "20 November 2023", "2023-13-01", "2023-02-30", "0001-01-01T00:00:00+05:00"]
)
def test_invalid_epoch_raises_usage_error_with_expected_form(text: str) -> None:
    with pytest.raises(UsageError, match="expected a day like 2023-11-20"):
        normalise_epoch_to_utc(text)
