"""Which replies of one state of the embedded world another would give."""

from typing import Any

import pytest

from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.freshness import ANSWERS_CONTENT, judge_embedded_world_freshness
from factmill.tasks.core.calls.pageviews import make_pageviews_call
from factmill.tasks.core.calls.path_calls import make_item_paths_call
from factmill.tasks.core.calls.wikidata import make_find_items_call, make_list_facts_call, make_neighbours_call
from factmill.tasks.core.calls.wikipedia import (
    make_category_members_call,
    make_page_revision_at_call,
    make_revision_html_call,
    make_search_call,
)

THEN = {
    ANSWERS_CONTENT: "1",
    **dict.fromkeys(
        ("item Q64", "item Q183", "near Q64", "near Q183", "label Q183", "name en Berlin", "facts P36"), "a"
    ),
    **dict.fromkeys(("page Berlin", "views Berlin", "text 8", "category Cities"), "a"),
}
GERMANY = [{"pid": "P17", "qid": "Q183", "label": "Germany"}]
CALLS: list[tuple[Call, Any, set[str]]] = [
    (make_find_items_call("w", "Berlin"), [], {"name en Berlin"}),
    (make_neighbours_call("w", "Q64", ["P17"]), GERMANY, {"item Q64", "label Q183"}),
    (make_list_facts_call("w", "P36", None, 9), [], {"facts P36"}),
    (make_item_paths_call("w", 64, 183, 1), [], {"item Q64", "item Q183"}),
    (make_item_paths_call("w", 64, 183, 2), [], {"near Q64", "near Q183"}),
    (make_page_revision_at_call("w", "Berlin", "2026-01-01T00:00:00Z"), {}, {"page Berlin"}),
    (make_revision_html_call("w", 8, "Title"), {}, {"text 8"}),
    (make_category_members_call("w", "Cities"), {}, {"category Cities"}),
    (make_pageviews_call("w", "Berlin", "20250101", "20250102"), {}, {"views Berlin"}),
]


@pytest.mark.parametrize(
    ("call", "body", "things"), CALLS, ids=lambda each: each.operation if isinstance(each, Call) else ""
)
def test_a_reply_comes_again_unless_something_changed_that_it_rests_on(call: Call, body: Any, things: set[str]) -> None:
    def judge(now: dict[str, str]) -> bool | None:
        return judge_embedded_world_freshness(call.operation, call.parts, body, THEN, now).is_unchanged

    assert judge(THEN) is True
    assert {thing for thing in THEN if judge(THEN | {thing: "b"}) is False} == {ANSWERS_CONTENT, *things}


@pytest.mark.parametrize(
    "call",
    [
        make_search_call("w", "Berlin"),
        make_find_items_call("w", "Berlino", "it"),
        make_page_revision_at_call("w", "berlin", "2026-01-01T00:00:00Z"),
        make_page_revision_at_call("w", "Ulm_(city)", "2026-01-01T00:00:00Z"),
        make_page_revision_at_call("w", "Ulm&#32;", "2026-01-01T00:00:00Z"),
        make_pageviews_call("w", "nowhere", "20250101", "20250102"),
    ],
    ids=lambda call: call.operation,
)
def test_what_nothing_is_known_of_is_undecidable(call: Call) -> None:
    assert judge_embedded_world_freshness(call.operation, call.parts, {}, THEN, THEN).is_unchanged is None


def test_a_name_that_nobody_bore_is_asked_for_when_somebody_does() -> None:
    call = make_find_items_call("w", "Ulm")
    assert judge_embedded_world_freshness(call.operation, call.parts, [], THEN, THEN).is_unchanged is True
    assert (
        judge_embedded_world_freshness(call.operation, call.parts, [], THEN, THEN | {"name en Ulm": "a"}).is_unchanged
        is False
    )


def test_a_page_that_was_missing_is_missing_until_there_is_one() -> None:
    call = make_page_revision_at_call("w", "Ulm (city)", "2026-01-01T00:00:00Z")
    assert judge_embedded_world_freshness(call.operation, call.parts, {}, THEN, THEN).is_unchanged is True
    assert (
        judge_embedded_world_freshness(
            call.operation, call.parts, {}, THEN, THEN | {"page Ulm (city)": "a"}
        ).is_unchanged
        is False
    )
