"""Test the range of days for page views."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmill.tasks.core.calls.pageviews import make_last_twelve_full_months_window, make_pageview_window
from factmill.tasks.errors import UsageError


def test_window_ends_on_day_before_cutoff() -> None:
    window = make_pageview_window(date(2025, 3, 1), 1095)
    assert (window.first, window.last) == (date(2022, 3, 2), date(2025, 2, 28))
    assert (window.start_text, window.end_text) == ("20220302", "20250228")
    assert make_pageview_window(date(2025, 3, 1), 1).first == date(2025, 2, 28)


@given(st.dates(date(2018, 6, 30), date(2100, 1, 1)))
def test_window_has_expected_number_of_days(cut_off: date) -> None:
    window = make_pageview_window(cut_off, 1095)
    assert (window.last - window.first).days + 1 == 1095
    assert window.last + timedelta(1) == cut_off


def test_days_before_first_published_pageviews_are_rejected() -> None:
    assert make_pageview_window(date(2015, 7, 11), 10).first == date(2015, 7, 1)
    with pytest.raises(UsageError, match="at most 10 days"):
        make_pageview_window(date(2015, 7, 11), 11)
    with pytest.raises(UsageError, match="at most 0 days"):
        make_pageview_window(date(1, 1, 5), 1)
    with pytest.raises(UsageError, match="0 days of page views"):
        make_pageview_window(date(2025, 3, 1), 0)


@pytest.mark.parametrize("day", [date(2025, 3, 1), date(2025, 3, 31)])
def test_twelve_months_end_with_last_complete_month(day: date) -> None:
    window = make_last_twelve_full_months_window(day)
    assert (window.start_text, window.end_text) == ("20240301", "20250228")
    assert make_last_twelve_full_months_window(date(2024, 2, 29)).start_text == "20230201"
