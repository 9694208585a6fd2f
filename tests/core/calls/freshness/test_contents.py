"""Which replies of one state of the embedded world another would give."""

from typing import Any

import pytest

from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.freshness import ANSWERS, judge_content
from factmill.tasks.core.calls.knowledge import call_find_items, call_list_facts, call_neighbours
from factmill.tasks.core.calls.pageviews import call_pageviews
from factmill.tasks.core.calls.paths import call_item_paths
from factmill.tasks.core.calls.wikipedia import (
    call_category_members,
    call_page_revision_at,
    call_page_text,
    call_search,
)

THEN = {
    ANSWERS: "1",
    **dict.fromkeys(
        ("item Q64", "item Q183", "near Q64", "near Q183", "label Q183", "name en Berlin", "facts P36"), "a"
    ),
    **dict.fromkeys(("page Berlin", "views Berlin", "text 8", "category Cities"), "a"),
}
GERMANY = [{"pid": "P17", "qid": "Q183", "label": "Germany"}]
CALLS: list[tuple[Call, Any, set[str]]] = [
    (call_find_items("w", "Berlin"), [], {"name en Berlin"}),
    (call_neighbours("w", "Q64", ["P17"]), GERMANY, {"item Q64", "label Q183"}),
    (call_list_facts("w", "P36", None, 9), [], {"facts P36"}),
    (call_item_paths("w", 64, 183, 1), [], {"item Q64", "item Q183"}),
    (call_item_paths("w", 64, 183, 2), [], {"near Q64", "near Q183"}),
    (call_page_revision_at("w", "Berlin", "2026-01-01T00:00:00Z"), {}, {"page Berlin"}),
    (call_page_text("w", 8), {}, {"text 8"}),
    (call_category_members("w", "Cities"), {}, {"category Cities"}),
    (call_pageviews("w", "Berlin", "20250101", "20250102"), {}, {"views Berlin"}),
]


@pytest.mark.parametrize(
    ("call", "body", "things"), CALLS, ids=lambda each: each.operation if isinstance(each, Call) else ""
)
def test_a_reply_comes_again_unless_something_changed_that_it_rests_on(call: Call, body: Any, things: set[str]) -> None:
    def judge(now: dict[str, str]) -> bool | None:
        return judge_content(call.operation, call.parts, body, THEN, now).is_unchanged

    assert judge(THEN) is True
    assert {thing for thing in THEN if judge(THEN | {thing: "b"}) is False} == {ANSWERS, *things}


@pytest.mark.parametrize(
    "call",
    [
        call_search("w", "Berlin"),
        call_find_items("w", "Berlino", "it"),
        call_page_revision_at("w", "berlin", "2026-01-01T00:00:00Z"),
        call_page_revision_at("w", "Ulm_(city)", "2026-01-01T00:00:00Z"),
        call_page_revision_at("w", "Ulm&#32;", "2026-01-01T00:00:00Z"),
        call_pageviews("w", "nowhere", "20250101", "20250102"),
    ],
    ids=lambda call: call.operation,
)
def test_what_nothing_is_known_of_is_undecidable(call: Call) -> None:
    assert judge_content(call.operation, call.parts, {}, THEN, THEN).is_unchanged is None


def test_a_name_that_nobody_bore_is_asked_for_when_somebody_does() -> None:
    call = call_find_items("w", "Ulm")
    assert judge_content(call.operation, call.parts, [], THEN, THEN).is_unchanged is True
    assert judge_content(call.operation, call.parts, [], THEN, THEN | {"name en Ulm": "a"}).is_unchanged is False


def test_a_page_that_was_missing_is_missing_until_there_is_one() -> None:
    call = call_page_revision_at("w", "Ulm (city)", "2026-01-01T00:00:00Z")
    assert judge_content(call.operation, call.parts, {}, THEN, THEN).is_unchanged is True
    assert judge_content(call.operation, call.parts, {}, THEN, THEN | {"page Ulm (city)": "a"}).is_unchanged is False
