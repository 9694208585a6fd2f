"""Calls for the page views of English articles (Pageviews API), and windows of days to count."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.operation import Operation, Parts, is_text
from factmill.tasks.errors import UsageError

_COUNTED_AFTER = timedelta(days=3)
"""Delay after which counts are final: Wikimedia completes the counts of a day within two days."""
FIRST_DAY_OF_VIEWS = date(2015, 7, 1)
"""First day of page views published by Wikimedia."""


@dataclass(frozen=True, slots=True)
class ViewWindow:
    """Days on which views are counted, both ends included."""

    first: date
    last: date

    @property
    def start(self) -> str:
        """The first day in the format of the Pageviews API: 20221122."""
        return self.first.strftime("%Y%m%d")

    @property
    def end(self) -> str:
        """The last day in the format of the Pageviews API."""
        return self.last.strftime("%Y%m%d")


def open_window(cut_off: date, days: int) -> ViewWindow:
    """Return the `days` days before a cut-off, which is excluded.

    UsageError for fewer than one day, and for a window that begins before page views were published.
    """
    if days < 1:
        raise UsageError(f"{days} days of page views: expected 1 or more")
    if cut_off - FIRST_DAY_OF_VIEWS < timedelta(days):
        raise UsageError(
            f"{days} days of page views before {cut_off} begin before {FIRST_DAY_OF_VIEWS}, when page views were first "
            f"published; expected at most {max(0, (cut_off - FIRST_DAY_OF_VIEWS).days)} days, or a later cut-off"
        )
    return ViewWindow(cut_off - timedelta(days), cut_off - timedelta(1))


def last_twelve_months(epoch: date) -> ViewWindow:
    """Return the last 12 full months before the month of the epoch."""
    return ViewWindow(epoch.replace(year=epoch.year - 1, day=1), epoch.replace(day=1) - timedelta(1))


def call_pageviews(service: str, title: str, start: str, end: str) -> Call:
    """Make the call for the views of an English article from day `start` to day `end` (YYYYMMDD, both included)."""
    return PAGEVIEWS.call(service, title=title, start=start, end=end)


def read_views(body: Any) -> int | None:
    """Parse the body of pageviews: total views over the days, or None for an article that the API does not know."""
    return None if body is None else int(body["views"])


def _find_day_of_last_count(parts: Parts) -> datetime:
    return datetime.strptime(str(parts["end"]), "%Y%m%d").replace(tzinfo=UTC) + timedelta(days=1) + _COUNTED_AFTER


PAGEVIEWS = Operation(
    "pageviews",
    service="pageviews",
    parts={"title": is_text, "start": is_text, "end": is_text},
    read=read_views,
    world=lambda parts: [f"views {parts['title']}"],
    lasts_from=_find_day_of_last_count,
)
"""Body: `{"views": int, "days": int}`, sum over the days that the API lists; null when it knows none (404)."""
