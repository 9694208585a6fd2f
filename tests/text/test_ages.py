"""Ages as people write them."""

import pytest

from factmill.tasks.text.durations import format_age_in_words, parse_validated_duration, validate_duration


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90m", 5400), ("12h", 43_200), ("30d", 2_592_000), ("2w", 1_209_600), ("0", 0), (1.5, 1.5)],
)
def test_an_age_is_read_in_seconds(written: object, seconds: float) -> None:
    assert parse_validated_duration(validate_duration(written)) == seconds


@pytest.mark.parametrize("written", ["", "d", "-1d", "1 d", "1y", "1e9", "١d", "9999999999d", None, True, float("nan")])
def test_what_is_no_age_is_told_with_what_was_expected(written: object) -> None:
    with pytest.raises(ValueError, match="expected one such as 90m, 12h, 30d"):
        validate_duration(written)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (-3, "0 seconds"),
        (1, "1 second"),
        (119, "119 seconds"),
        (120, "2 minutes"),
        (90_000, "25 hours"),
        (2e5, "2 days"),
    ],
)
def test_an_age_is_told_in_its_largest_unit(seconds: float, told: str) -> None:
    assert format_age_in_words(seconds) == told
