"""Which replies would come again: by what they rest on, and what is said of that now."""

from datetime import UTC, datetime
from typing import Any

import pytest

from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.freshness import LAG, MOST_THINGS, judge, list_looks, read_states, rests_on
from factmill.tasks.core.calls.item_facts import call_item_facts
from factmill.tasks.core.calls.knowledge import (
    call_describe_item,
    call_find_items,
    call_label,
    call_list_facts,
    call_neighbours,
    call_resolve_item,
)
from factmill.tasks.core.calls.operation import Thing
from factmill.tasks.core.calls.pageviews import call_pageviews
from factmill.tasks.core.calls.paths import call_item_paths, call_literal_paths
from factmill.tasks.core.calls.wikipedia import (
    call_category_members,
    call_page_revision_at,
    call_resolve_title,
    call_search,
)
from factmill.tasks.text.values.literals import Date

ASKED = datetime(2026, 3, 10, 12, tzinfo=UTC)
OLD, LATELY, SINCE = "2026-03-01T00:00:00Z", "2026-03-10T00:00:00Z", "2026-03-11T00:00:00Z"
ULM: dict[str, Any] = {"label": "Ulm", "description": "city", "title": "Ulm", "modified": OLD}
EDGES = [{"pid": "P17", "qid": "Q183", "label": "Germany"}]
FACT = {
    "pid": "P17",
    "property": "country",
    "qid": "Q183",
    "value": "Germany",
    "precision": None,
    "unit": None,
    "statement": "s",
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
    for look, things in list_looks("w", "w", rests_on(call.operation, call.parts, body) or [], 50, "now"):
        told = (PAGES | (pages or {})) if look.operation == "page_states" else (ITEMS | (items or {}))
        states |= read_states(told, things)
    return judge(call.operation, call.parts, body, ASKED, states).is_unchanged


def item(qid: str, **more: Any) -> dict[str, Any]:
    return {qid: {**ITEMS[qid], **more}}


KEPT: list[tuple[Call, Any]] = [
    (call_describe_item("w", "Q3012"), ULM),
    (call_resolve_item("w", "Q3012"), "Q3012"),
    (call_label("w", "P17"), "country"),
    (call_neighbours("w", "Q3012", ["P17"]), EDGES),
    (call_item_facts("w", "Q3012"), [FACT]),
    (call_item_paths("w", 3012, 183, 1), []),
    (call_page_revision_at("w", "Ulm", AT), REVISION),
    (call_resolve_title("w", "Ulm"), RESOLVED),
]


@pytest.mark.parametrize(("call", "body"), KEPT, ids=lambda each: each.operation if isinstance(each, Call) else "")
def test_a_reply_is_kept_whose_things_did_not_change(call: Call, body: Any) -> None:
    assert verdict(call, body) is True


@pytest.mark.parametrize("moment", [LATELY, SINCE])
@pytest.mark.parametrize(
    "call",
    [each for each, _ in KEPT if each.operation in ("resolve_item", "neighbours", "item_facts", "item_paths")],
    ids=lambda each: each.operation,
)
def test_an_item_changed_since_or_so_shortly_before_that_a_copy_may_lag(call: Call, moment: str) -> None:
    assert datetime.fromisoformat(LATELY) + LAG > ASKED
    body = next(found for each, found in KEPT if each is call)
    assert verdict(call, body, item("Q3012", modified=moment)) is False


def test_a_description_tells_itself_when_its_item_was_changed() -> None:
    call = call_describe_item("w", "Q3012")
    assert verdict(call, ULM | {"modified": LATELY}, item("Q3012", modified=LATELY)) is True
    assert verdict(call, ULM, item("Q3012", modified=LATELY)) is False


@pytest.mark.parametrize(("call", "body"), [KEPT[3], KEPT[4]], ids=["neighbours", "item_facts"])
def test_what_a_reply_names_may_be_edited_but_not_renamed(call: Call, body: Any) -> None:
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
def test_a_page_is_the_same_with_the_same_newest_revision(state: dict[str, Any], is_unchanged: bool | None) -> None:
    call = call_page_revision_at("w", "Ulm", AT)
    assert verdict(call, REVISION, pages={"Ulm": PAGES["Ulm"] | state}) is is_unchanged


def test_where_a_title_leads_is_compared_whatever_was_written_there() -> None:
    call = call_resolve_title("w", "Ulm")
    assert verdict(call, RESOLVED, pages={"Ulm": PAGES["Ulm"] | {"timestamp": SINCE}}) is True
    assert verdict(call, RESOLVED, pages={"Ulm": PAGES["Ulm"] | {"qid": "Q1"}}) is False


def test_a_page_that_was_missing_and_is() -> None:
    missing = {**GONE, "revid": None, "timestamp": None}
    assert verdict(call_page_revision_at("w", "Ulm", AT), missing, pages={"Ulm": PAGES["Ulm"] | GONE}) is True
    assert verdict(call_page_revision_at("w", "Ulm", AT), missing) is False


UNTOLD: list[tuple[Call, Any]] = [
    (call_find_items("w", "Ulm"), [{"qid": "Q3012", "via": "label"}]),
    (call_list_facts("w", "P17", None, 10), []),
    (call_pageviews("w", "Ulm", "20250101", "20251231"), {"views": 1, "days": 1}),
    (call_category_members("w", "Cities"), {"members": [], "after": None}),
    (call_search("w", "Ulm"), {"titles": []}),
    (call_item_paths("w", 3012, 183, 2), []),
    (call_resolve_item("w", "Q3013"), "Q3012"),
]


@pytest.mark.parametrize(("call", "body"), UNTOLD, ids=lambda each: each.operation if isinstance(each, Call) else "")
def test_what_no_item_or_page_tells_is_undecidable(call: Call, body: Any) -> None:
    assert verdict(call, body) is None


@pytest.mark.parametrize("state", [None, {"modified": None, "version": None, "label": None}])
def test_an_item_of_which_nothing_is_told_is_undecidable(state: Any) -> None:
    assert verdict(call_neighbours("w", "Q3012", ["P17"]), [], {"Q3012": state}) is None


def test_a_path_to_a_date_of_one_hop_rests_on_its_subject() -> None:
    wanted = Date(1952, 3, 11)
    call = call_literal_paths("w", 3012, wanted, [569], 1)
    assert rests_on(call.operation, call.parts, []) == [Thing("item", "Q3012")]
    far = call_literal_paths("w", 3012, wanted, [569], 2)
    assert rests_on(far.operation, far.parts, []) is None


def test_many_things_are_looked_at_at_once() -> None:
    things = [Thing("item", f"Q{number}") for number in range(1, 121)]
    things += [Thing("label", "Q1", "de"), Thing("page", "A", "follow"), Thing("page", "A", "stay")]
    looks = list_looks("w", "p", things, MOST_THINGS, "now")
    sizes = [(call.service, call.operation, len(told)) for call, told in looks]
    assert sizes == [
        ("w", "item_states", 1),
        *(("w", "item_states", size) for size in (50, 50, 20)),
        ("p", "page_states", 1),
        ("p", "page_states", 1),
    ]
    assert {thing for _, told in looks for thing in told} == set(things)


def test_long_titles_go_in_addresses_that_servers_take() -> None:
    looks = list_looks("w", "p", [Thing("page", f"{number} " + "Ж" * 100, "follow") for number in range(50)], 50, "now")
    assert 1 < len(looks) < 20


def test_each_run_looks_anew() -> None:
    first, second = (list_looks("w", "p", [Thing("item", "Q1")], 50, on)[0][0] for on in ("then", "now"))
    assert first.key != second.key
