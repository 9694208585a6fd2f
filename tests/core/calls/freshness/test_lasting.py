"""Which replies age: those that a service may give otherwise tomorrow."""

from datetime import UTC, datetime, timedelta

import pytest

from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.freshness import find_oldest
from factmill.tasks.core.calls.item_facts import call_item_facts
from factmill.tasks.core.calls.knowledge import call_describe_item, call_find_items
from factmill.tasks.core.calls.pageviews import call_pageviews
from factmill.tasks.core.calls.wikipedia import (
    call_category_members,
    call_page_revision_at,
    call_page_text,
    call_resolve_title,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
AGES = [
    call_find_items("w", "Ulm"),
    call_describe_item("w", "Q3012"),
    call_item_facts("w", "Q3012"),
    call_page_revision_at("w", "Ulm", "2026-01-01T00:00:00Z"),
    call_category_members("w", "Cities"),
    call_resolve_title("w", "Ulm"),
]


@pytest.mark.parametrize("call", AGES, ids=lambda call: call.operation)
def test_what_may_change_ages(call: Call) -> None:
    assert find_oldest(call.operation, call.parts, NOW) == NOW


def test_the_text_of_a_revision_lasts() -> None:
    call = call_page_text("w", 7)
    assert find_oldest(call.operation, call.parts, NOW) < NOW - timedelta(days=10_000)


def test_views_of_days_that_are_over_last_when_they_were_asked_for_after_these() -> None:
    call = call_pageviews("w", "Ulm", "20250101", "20251231")
    assert find_oldest(call.operation, call.parts, NOW) == datetime(2026, 1, 4, tzinfo=UTC)
    to_come = call_pageviews("w", "Ulm", "20250301", "20260301")
    assert find_oldest(to_come.operation, to_come.parts, NOW) == NOW
