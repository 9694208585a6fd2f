"""Calls for the page views of English articles (Pageviews API), and windows of days to count."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.operation import CallParts, Operation, is_string_value
from factmill.tasks.errors import UsageError

_COUNTING_DELAY = timedelta(days=3)
"""Delay after which counts are final: Wikimedia completes the counts of a day within two days."""
FIRST_PAGEVIEW_DAY = date(2015, 7, 1)
"""First day of page views published by Wikimedia."""


@dataclass(frozen=True, slots=True)
class PageviewWindow:
    """Days on which views are counted, both ends included."""

    first: date
    last: date

    @property
    def start_text(self) -> str:
        """The first day in the format of the Pageviews API: 20221122."""
        return self.first.strftime("%Y%m%d")

    @property
    def end_text(self) -> str:
        """The last day in the format of the Pageviews API."""
        return self.last.strftime("%Y%m%d")


def make_pageview_window(cut_off: date, days: int) -> PageviewWindow:
    """Return the `days` days before a cut-off; UsageError for none, or if they begin before there were page views."""
    if days < 1:
        raise UsageError(f"{days} days of page views: expected 1 or more")
    if cut_off - FIRST_PAGEVIEW_DAY < timedelta(days):
        raise UsageError(
            f"{days} days of page views before {cut_off} begin before {FIRST_PAGEVIEW_DAY}, when page views were first "
            f"published; expected at most {max(0, (cut_off - FIRST_PAGEVIEW_DAY).days)} days, or a later cut-off"
        )
    return PageviewWindow(cut_off - timedelta(days), cut_off - timedelta(1))


def make_last_twelve_full_months_window(epoch: date) -> PageviewWindow:
    """Return the last 12 full months before the month of the epoch."""
    return PageviewWindow(epoch.replace(year=epoch.year - 1, day=1), epoch.replace(day=1) - timedelta(1))


def make_pageviews_call(service: str, title: str, start: str, end: str) -> Call:
    """Make the call for the views of an English article from day `start` to day `end` (YYYYMMDD, both included)."""
    return PAGEVIEWS_OPERATION.make_call(service, title=title, start=start, end=end)


def parse_pageview_count(body: Any) -> int | None:
    """Parse the body of pageviews: total views over the days, or None for an article that the API does not know."""
    return None if body is None else int(body["views"])


def _compute_final_count_time(parts: CallParts) -> datetime:
    return datetime.strptime(str(parts["end"]), "%Y%m%d").replace(tzinfo=UTC) + timedelta(days=1) + _COUNTING_DELAY


PAGEVIEWS_OPERATION = Operation(
    "pageviews",
    service="pageviews",
    part_checks={"title": is_string_value, "start": is_string_value, "end": is_string_value},
    parse_body=parse_pageview_count,
    list_world_contents=lambda parts: [f"views {parts['title']}"],
    get_immutable_from=_compute_final_count_time,
)
"""Body: `{"views": int, "days": int}`, sum over the days that the API lists; null when it knows none (404)."""
