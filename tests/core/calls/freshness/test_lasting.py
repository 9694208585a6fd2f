"""Which replies age: those that a service may give otherwise tomorrow."""

from datetime import UTC, datetime, timedelta

import pytest

from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.freshness import get_oldest_usable_response_time
from factmill.tasks.core.calls.item_facts import make_item_facts_call
from factmill.tasks.core.calls.pageviews import make_pageviews_call
from factmill.tasks.core.calls.wikidata import make_describe_item_call, make_find_items_call
from factmill.tasks.core.calls.wikipedia import (
    make_category_members_call,
    make_page_revision_at_call,
    make_resolve_title_call,
    make_revision_html_call,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
AGES = [
    make_find_items_call("w", "Ulm"),
    make_describe_item_call("w", "Q3012"),
    make_item_facts_call("w", "Q3012"),
    make_page_revision_at_call("w", "Ulm", "2026-01-01T00:00:00Z"),
    make_category_members_call("w", "Cities"),
    make_resolve_title_call("w", "Ulm"),
]


@pytest.mark.parametrize("call", AGES, ids=lambda call: call.operation)
def test_what_may_change_ages(call: Call) -> None:
    assert get_oldest_usable_response_time(call.operation, call.parts, NOW) == NOW


def test_the_text_of_a_revision_lasts() -> None:
    call = make_revision_html_call("w", 7, "Title")
    assert get_oldest_usable_response_time(call.operation, call.parts, NOW) < NOW - timedelta(days=10_000)


def test_views_of_days_that_are_over_last_when_they_were_asked_for_after_these() -> None:
    call = make_pageviews_call("w", "Ulm", "20250101", "20251231")
    assert get_oldest_usable_response_time(call.operation, call.parts, NOW) == datetime(2026, 1, 4, tzinfo=UTC)
    to_come = make_pageviews_call("w", "Ulm", "20250301", "20260301")
    assert get_oldest_usable_response_time(to_come.operation, to_come.parts, NOW) == NOW
