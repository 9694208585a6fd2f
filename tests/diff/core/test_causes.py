"""Test causes of a row's difference, from its calls, its source and the two manifests."""

from typing import Any

import pytest
from support.builds.changes import LOCK

from factmill.tasks.diff.core.call_differences import RecordedRowCall, find_call_differences
from factmill.tasks.diff.core.causes import RowChangeEvidence, explain_row_change, is_change_carried_over
from factmill.tasks.diff.core.changes import ChangeCause, ColumnValueChange, RowDropInOneBuild
from factmill.tasks.diff.core.manifest_changes import compare_manifests

CODE, LIST = {"code": "c2"}, {"lists": {"l.txt": "2"}}


def chat(reply: str, position: int = 2, service: str = "https://m", **parts: Any) -> RecordedRowCall:
    result = {"prompt": "x/write", "prompt_digest": "p1", "model": "mine", "variables": {"about": "a city"}} | parts
    return RecordedRowCall(
        position, f"stage {position}", "chat", service, result, "k", "ok", {"texts": [reply]}, "2026-01-01"
    )


def item(reply: Any, position: int = 1, service: str = "https://wd", qid: str = "Q1") -> RecordedRowCall:
    return RecordedRowCall(
        position, f"stage {position}", "item_facts", service, {"qid": qid}, "k", "ok", reply, "2026-01-01"
    )


def page(revid: int, service: str = "https://wp", at: str = "2026-01-01") -> RecordedRowCall:
    asked = {"title": "Ulm", "at": at}
    return RecordedRowCall(1, "stage 1", "page_revision_at", service, asked, "k", "ok", {"revid": revid}, "2026-01-01")


def explain(
    before: list[RecordedRowCall],
    after: list[RecordedRowCall],
    column: tuple[Any, Any] | None = ("old", "new"),
    lock: dict[str, Any] | None = None,
    **facts: Any,
) -> list[str]:
    columns = [ColumnValueChange("text", *column)] if column else []
    locks = compare_manifests(LOCK, LOCK | (lock or {}))
    return [
        each.label
        for each in explain_row_change(RowChangeEvidence(find_call_differences(before, after), columns, **facts), locks)
    ]


CASES: dict[str, tuple[list[str], list[str]]] = {
    "a prompt": (explain([chat("old")], [chat("new", prompt_digest="p2")]), ["prompt: x/write"]),
    "a model": (
        explain([chat("old")], [chat("new", model="other")], lock={"models": {"author": "other", "judge": "mine"}}),
        ["model: author"],
    ),
    "new sample of a reply": (explain([chat("old")], [chat("new")]), ["reply: x/write"]),
    "edited scripted reply": (
        explain([chat("old", script="1")], [chat("new", script="2")]),
        ["reply: x/write"],
    ),
    "an item": (explain([item("old")], [item("new")]), ["world: wikidata"]),
    "changed item in the author prompt": (
        explain(
            [item("a town"), chat("old", variables={"about": "a town"})],
            [item("a city"), chat("new", variables={"about": "a city"})],
        ),
        ["world: wikidata"],
    ),
    "changed item and changed prompt": (
        explain([item("a town"), chat("old")], [item("a city"), chat("new", prompt_digest="p2")]),
        ["prompt: x/write"],
    ),
    "both an item and a prompt": (
        explain(
            [item("a town"), chat("old", variables={"about": "a town"})],
            [item("a city"), chat("new", variables={"about": "a city"}, prompt_digest="p2")],
        ),
        ["world: wikidata", "prompt: x/write"],
    ),
    "query to a service with a content digest": (
        explain(
            [item("old", service="embedded-1/wikidata")],
            [item("new", service="embedded-1/wikidata")],
            lock={"queries": {"wikidata/item_facts": "2"}},
        ),
        ["query: wikidata/item_facts"],
    ),
    "query to a live service": (
        explain([item("old")], [item("new")], lock={"queries": {"wikidata/item_facts": "2"}}),
        ["one of: query: wikidata/item_facts, world: wikidata"],
    ),
    "a revision": (explain([page(10)], [page(11)], (10, 11)), ["world: wikipedia"]),
    "revision of another date": (
        explain([page(10)], [page(11, at="2027-01-01")], (10, 11), {"world": LOCK["world"] | {"epoch": "2027-01-01"}}),
        ["epoch"],
    ),
    "a list alone": (explain([], [], lock=LIST), ["list: l.txt"]),
    "code alone": (explain([], [], lock=CODE), ["code: steps"]),
    "variable without a recorded source": (
        explain([chat("old")], [chat("new", variables={"about": "other"})], lock=CODE),
        ["code: steps"],
    ),
    "a parameter alone": (explain([], [], lock={"params": {"params": {"least": 3}}}), ["parameter: least"]),
    "list and code without a call": (explain([], [], lock=LIST | CODE), ["one of: list: l.txt, code: steps"]),
    "nothing": (explain([], []), ["unexplained"]),
    "other rows": (explain([], [], other_rows_changed=True), ["other rows"]),
    "the source": (explain([], [], source_cause=ChangeCause("source", "a.json"), lock=CODE), ["source: a.json"]),
    "a decision": (
        explain(
            [], [], changed_decisions=[(None, {"flag": "f", "decision": "edit", "reviewer": "Ann", "edited": ["new"]})]
        ),
        ["decision: f"],
    ),
    "reject because of a reply": (
        explain(
            [item("fine")],
            [item("much too long")],
            None,
            CODE,
            fate=RowDropInOneBuild("after", "stage 1", "r", "much too long"),
        ),
        ["world: wikidata"],
    ),
    "a reject by policy": (
        explain(
            [],
            [],
            None,
            CODE | {"params": {"params": {"least": 2}, "reviewing": {"policy": "manual"}}},
            fate=RowDropInOneBuild("after", "stage 1", "not_reviewed", "f"),
        ),
        ["decision: policy"],
    ),
    "a limit": (
        explain(
            [],
            [],
            None,
            CODE | {"params": {"params": {"least": 2, "limit": 4}}},
            narrowing_parameters=frozenset({"limit"}),
        ),
        ["parameter: limit"],
    ),
    "other sampled rows": (explain([item(["Q1"])], [item(["Q1", "Q2"])], None, CODE), ["world: wikidata"]),
    "transient failure": (
        explain(
            [item("old")],
            [RecordedRowCall(1, "stage 1", "item_facts", "https://wd", {"qid": "Q1"}, "k", "failed", "http_503")],
        ),
        ["reply: item_facts"],
    ),
}


@pytest.mark.parametrize(("found", "messages"), CASES.values(), ids=CASES)
def test_first_visible_difference_is_cause(found: list[str], messages: list[str]) -> None:
    assert found == messages


def test_calls_with_equal_request_and_response_are_not_differences() -> None:
    """Service names do not matter: the embedded world's change with any change of the world."""
    before = [item("same", service="embedded-1/wikidata"), chat("same", script="1")]
    after = [item("same", service="embedded-2/wikidata"), chat("same", script="1")]
    assert find_call_differences(before, after) == []


def test_calls_of_one_stage_are_paired_by_similarity() -> None:
    found = find_call_differences(
        [item("a", qid="Q1"), item("b", qid="Q2")], [item("b", qid="Q2"), item("c", qid="Q3")]
    )
    assert [each.get_changed_request_parts() for each in found] == [{"qid": ("Q1", "Q3")}]
    many = [item("a", qid=f"Q{n}") for n in range(50)]
    assert len(find_call_differences(many, [item("b", qid="R")])) == 51


@pytest.mark.parametrize(
    ("given", "taken", "expected"),
    [
        (("a town", "a city in Italy"), (["x"], ["x", "Italy"]), True),
        (({"views": 10}, {"views": 12}), (10, 12), True),
        (({"views": 1}, {"views": 2}), (1, 2), False),  # small numbers occur everywhere
        (
            ("<p>It is <b>nearly</b> old.</p>", "<p>It is <b>almost</b> old.</p>"),
            ("It is nearly old.", "It is almost old."),
            True,
        ),
        (("a town", "a city"), ("no", "yes"), False),
        ((None, "a city"), (None, "removed: 'a city'"), True),
        (("same", "same"), ("old", "new"), False),
    ],
)
def test_change_is_carried_over_by_values_with_its_new_part(given: Any, taken: Any, expected: bool) -> None:
    assert is_change_carried_over(given, taken) is expected
