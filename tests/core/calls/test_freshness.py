"""Test which cached responses are valid: live services, states of the embedded world, immutable responses."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.freshness import (
    ANSWERS_CONTENT,
    MAX_REPLICATION_LAG,
    MAX_RESOURCES_PER_REQUEST,
    find_resources_response_depends_on,
    get_oldest_usable_response_time,
    judge_embedded_world_freshness,
    judge_live_freshness,
    make_state_calls,
    parse_resource_states,
)
from factmill.tasks.core.calls.item_facts import make_item_facts_call
from factmill.tasks.core.calls.operation import WikiItemLabelOrPageDependency
from factmill.tasks.core.calls.pageviews import make_pageviews_call
from factmill.tasks.core.calls.path_calls import make_fixed_hops_item_paths_call, make_literal_paths_call
from factmill.tasks.core.calls.wikidata import (
    make_describe_item_call,
    make_find_items_call,
    make_label_call,
    make_list_facts_call,
    make_neighbours_call,
    make_resolve_item_redirect_call,
)
from factmill.tasks.core.calls.wikipedia import (
    make_category_members_call,
    make_page_revision_at_call,
    make_resolve_title_call,
    make_revision_html_call,
    make_search_call,
)
from factmill.tasks.text.values.wikidata_literals import PartialDate

ASKED = datetime(2026, 3, 10, 12, tzinfo=UTC)
OLD, LATELY, SINCE = "2026-03-01T00:00:00Z", "2026-03-10T00:00:00Z", "2026-03-11T00:00:00Z"
ULM: dict[str, Any] = {"label": "Ulm", "description": "city", "title": "Ulm", "modified": OLD}
EDGES = [{"pid": "P17", "qid": "Q183", "label": "Germany"}]
FACT = dict.fromkeys(("precision", "unit")) | {
    **{"pid": "P17", "property": "country", "qid": "Q183", "value": "Germany", "statement": "s"},
}
PAGE: dict[str, Any] = {"title": "Ulm", "pageid": 7, "missing": False, "redirected_from": None}
REVISION = {**PAGE, "revid": 70, "timestamp": "2025-01-01T00:00:00Z"}
RESOLVED = {**PAGE, "qid": "Q3012", "is_disambiguation": False}
GONE = {**PAGE, "pageid": None, "missing": True}
ITEMS = {
    name: {"modified": OLD, "version": "1", "label": label}
    for name, label in (("Q3012", "Ulm"), ("Q183", "Germany"), ("P17", "country"))
}
PAGES = {"Ulm": {**RESOLVED, "revid": 71, "timestamp": OLD}}
AT = "2026-01-01T00:00:00Z"


def verdict(
    call: Call, body: Any, items: dict[str, Any] | None = None, pages: dict[str, Any] | None = None
) -> bool | None:
    states = {}
    for look, things in make_state_calls(
        "w", "w", find_resources_response_depends_on(call.operation, call.parts, body) or [], 50, "now"
    ):
        result = (PAGES | (pages or {})) if look.operation == "page_states" else (ITEMS | (items or {}))
        states |= parse_resource_states(result, things)
    return judge_live_freshness(call.operation, call.parts, body, ASKED, states).is_unchanged


def item(qid: str, **more: Any) -> dict[str, Any]:
    return {qid: {**ITEMS[qid], **more}}


KEPT: list[tuple[Call, Any]] = [
    (make_describe_item_call("w", "Q3012"), ULM),
    (make_resolve_item_redirect_call("w", "Q3012"), "Q3012"),
    (make_label_call("w", "P17"), "country"),
    (make_neighbours_call("w", "Q3012", ["P17"]), EDGES),
    (make_item_facts_call("w", "Q3012"), [FACT]),
    (make_fixed_hops_item_paths_call("w", 3012, 183, 1), []),
    (make_page_revision_at_call("w", "Ulm", AT), REVISION),
    (make_resolve_title_call("w", "Ulm"), RESOLVED),
]


@pytest.mark.parametrize(("call", "body"), KEPT, ids=lambda each: each.operation if isinstance(each, Call) else "")
def test_cached_response_stays_valid_if_its_resources_did_not_change(call: Call, body: Any) -> None:
    assert verdict(call, body) is True


@pytest.mark.parametrize("moment", [LATELY, SINCE])
@pytest.mark.parametrize(
    "call",
    [each for each, _ in KEPT if each.operation in ("resolve_item", "neighbours", "item_facts", "item_paths")],
    ids=lambda each: each.operation,
)
def test_item_changed_since_or_within_replication_lag_invalidates_response(call: Call, moment: str) -> None:
    assert datetime.fromisoformat(LATELY) + MAX_REPLICATION_LAG > ASKED
    body = next(found for each, found in KEPT if each is call)
    assert verdict(call, body, item("Q3012", modified=moment)) is False


def test_item_description_is_compared_by_its_own_modified_time() -> None:
    call = make_describe_item_call("w", "Q3012")
    assert verdict(call, ULM | {"modified": LATELY}, item("Q3012", modified=LATELY)) is True
    assert verdict(call, ULM, item("Q3012", modified=LATELY)) is False


@pytest.mark.parametrize(("call", "body"), [KEPT[3], KEPT[4]], ids=["neighbours", "item_facts"])
def test_named_item_may_be_edited_but_not_renamed(call: Call, body: Any) -> None:
    assert verdict(call, body, item("Q183", modified=SINCE)) is True
    assert verdict(call, body, item("Q183", label="Alemania")) is False


@pytest.mark.parametrize(
    ("state", "is_unchanged"),
    [
        ({"timestamp": LATELY}, False),
        ({"timestamp": SINCE}, False),
        ({"title": "Ulm (city)"}, False),
        ({"pageid": 8}, False),
        ({"redirected_from": "Ulm"}, False),
        ({"missing": True}, False),
        ({"timestamp": None}, None),
        ({"timestamp": "soon"}, None),
        ({"qid": "Q1"}, True),
    ],
)
def test_page_is_unchanged_while_its_newest_revision_is_same(state: dict[str, Any], is_unchanged: bool | None) -> None:
    call = make_page_revision_at_call("w", "Ulm", AT)
    assert verdict(call, REVISION, pages={"Ulm": PAGES["Ulm"] | state}) is is_unchanged


def test_resolved_title_is_compared_by_target_not_by_page_edits() -> None:
    call = make_resolve_title_call("w", "Ulm")
    assert verdict(call, RESOLVED, pages={"Ulm": PAGES["Ulm"] | {"timestamp": SINCE}}) is True
    assert verdict(call, RESOLVED, pages={"Ulm": PAGES["Ulm"] | {"qid": "Q1"}}) is False


def test_missing_page_response_is_unchanged_until_page_exists() -> None:
    missing = {**GONE, "revid": None, "timestamp": None}
    assert verdict(make_page_revision_at_call("w", "Ulm", AT), missing, pages={"Ulm": PAGES["Ulm"] | GONE}) is True
    assert verdict(make_page_revision_at_call("w", "Ulm", AT), missing) is False


UNTOLD: list[tuple[Call, Any]] = [
    (make_find_items_call("w", "Ulm"), [{"qid": "Q3012", "via": "label"}]),
    (make_list_facts_call("w", "P17", None, 10), []),
    (make_pageviews_call("w", "Ulm", "20250101", "20251231"), {"views": 1, "days": 1}),
    (make_category_members_call("w", "Cities"), {"members": [], "after": None}),
    (make_search_call("w", "Ulm"), {"titles": []}),
    (make_fixed_hops_item_paths_call("w", 3012, 183, 2), []),
    (make_resolve_item_redirect_call("w", "Q3013"), "Q3012"),
]


@pytest.mark.parametrize(("call", "body"), UNTOLD, ids=lambda each: each.operation if isinstance(each, Call) else "")
def test_responses_without_known_resources_are_undecidable(call: Call, body: Any) -> None:
    assert verdict(call, body) is None


@pytest.mark.parametrize("state", [None, {"modified": None, "version": None, "label": None}])
def test_unknown_item_state_is_undecidable(state: Any) -> None:
    assert verdict(make_neighbours_call("w", "Q3012", ["P17"]), [], {"Q3012": state}) is None


def test_one_hop_date_path_depends_only_on_its_subject() -> None:
    wanted = PartialDate(1952, 3, 11)
    call = make_literal_paths_call("w", 3012, wanted, [569], 1)
    assert find_resources_response_depends_on(call.operation, call.parts, []) == [
        WikiItemLabelOrPageDependency("item", "Q3012")
    ]
    far = make_literal_paths_call("w", 3012, wanted, [569], 2)
    assert find_resources_response_depends_on(far.operation, far.parts, []) is None


def test_many_resources_are_checked_in_bundled_requests() -> None:
    things = [WikiItemLabelOrPageDependency("item", f"Q{number}") for number in range(1, 121)]
    things += [
        WikiItemLabelOrPageDependency("label", "Q1", "de"),
        WikiItemLabelOrPageDependency("page", "A", "follow"),
        WikiItemLabelOrPageDependency("page", "A", "stay"),
    ]
    looks = make_state_calls("w", "p", things, MAX_RESOURCES_PER_REQUEST, "now")
    sizes = [(call.service, call.operation, len(result)) for call, result in looks]
    assert sizes == [
        ("w", "item_states", 1),
        *(("w", "item_states", size) for size in (50, 50, 20)),
        ("p", "page_states", 1),
        ("p", "page_states", 1),
    ]
    assert {thing for _, result in looks for thing in result} == set(things)


def test_long_titles_are_split_across_requests_with_acceptable_url_length() -> None:
    looks = make_state_calls(
        "w",
        "p",
        [WikiItemLabelOrPageDependency("page", f"{number} " + "Ж" * 100, "follow") for number in range(50)],
        50,
        "now",
    )
    assert 1 < len(looks) < 20


def test_each_run_checks_resource_states_again() -> None:
    first, second = (
        make_state_calls("w", "p", [WikiItemLabelOrPageDependency("item", "Q1")], 50, on)[0][0]
        for on in ("then", "now")
    )
    assert first.key != second.key


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
    (make_fixed_hops_item_paths_call("w", 64, 183, 1), [], {"item Q64", "item Q183"}),
    (make_fixed_hops_item_paths_call("w", 64, 183, 2), [], {"near Q64", "near Q183"}),
    (make_page_revision_at_call("w", "Berlin", "2026-01-01T00:00:00Z"), {}, {"page Berlin"}),
    (make_revision_html_call("w", 8, "Title"), {}, {"text 8"}),
    (make_category_members_call("w", "Cities"), {}, {"category Cities"}),
    (make_pageviews_call("w", "Berlin", "20250101", "20250102"), {}, {"views Berlin"}),
]


@pytest.mark.parametrize(
    ("call", "body", "things"), CALLS, ids=lambda each: each.operation if isinstance(each, Call) else ""
)
def test_response_is_reused_unless_resource_it_depends_on_changed(call: Call, body: Any, things: set[str]) -> None:
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
def test_response_with_unknown_resources_is_undecidable(call: Call) -> None:
    assert judge_embedded_world_freshness(call.operation, call.parts, {}, THEN, THEN).is_unchanged is None


@pytest.mark.parametrize(
    ("call", "thing"),
    [
        (make_find_items_call("w", "Ulm"), "name en Ulm"),
        (make_page_revision_at_call("w", "Ulm (city)", "2026-01-01T00:00:00Z"), "page Ulm (city)"),
    ],
)
def test_a_name_or_page_that_was_not_there_is_asked_for_when_it_is(call: Call, thing: str) -> None:
    for now, is_unchanged in ((THEN, True), (THEN | {thing: "a"}, False)):
        found = judge_embedded_world_freshness(call.operation, call.parts, {}, THEN, now)
        assert found.is_unchanged is is_unchanged


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
def test_responses_that_may_change_expire(call: Call) -> None:
    assert get_oldest_usable_response_time(call.operation, call.parts, NOW) == NOW


def test_revision_text_never_expires() -> None:
    call = make_revision_html_call("w", 7, "Title")
    assert get_oldest_usable_response_time(call.operation, call.parts, NOW) < NOW - timedelta(days=10_000)


def test_pageviews_never_expire_if_requested_after_their_last_day() -> None:
    call = make_pageviews_call("w", "Ulm", "20250101", "20251231")
    assert get_oldest_usable_response_time(call.operation, call.parts, NOW) == datetime(2026, 1, 4, tzinfo=UTC)
    to_come = make_pageviews_call("w", "Ulm", "20250301", "20260301")
    assert get_oldest_usable_response_time(to_come.operation, to_come.parts, NOW) == NOW
