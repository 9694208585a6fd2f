"""Test the difference of two manifests, input by input."""

from typing import Any

import pytest
from support.builds.changes import LOCK

from factmill.tasks.diff.core.manifest_changes import compare_manifests, list_changed_review_decisions

WORLD = LOCK["world"]
EMBEDDED = [{name: f"embedded-{n}/{name}" for name in ("wikidata", "wikipedia")} for n in (1, 2)]


@pytest.mark.parametrize(
    ("before", "after", "messages"),
    [
        ({}, {}, []),
        ({}, {"code": "c2"}, ["code: steps"]),
        (
            {},
            {"sources": {"files": {"a": [["a.json", "2"], ["b.json", "1"]]}, "wikidata": None}},
            ["source: a.json", "source: b.json"],
        ),
        (
            {},
            {"world": WORLD | {"epoch": "2027-01-01"}, "params": {"params": {"least": 2}, "views_from": "x"}},
            ["epoch"],
        ),
        ({}, {"world": WORLD | {"digest": "e"}}, ["model: settings"]),
        ({"services": EMBEDDED[0]}, {"services": EMBEDDED[1]}, ["world: embedded"]),
        ({}, {"services": {"wikidata": "graph-1", "wikipedia": "https://wp"}}, ["world: wikidata"]),
        ({}, {"models": {"author": "other", "judge": "mine"}, "author": "other"}, ["model: author"]),
        ({}, {"author": "oracle"}, ["model: answers"]),
        ({}, {"prompts": {"x/write": "p2"}, "queries": {}}, ["prompt: x/write", "query: wikidata/item_facts"]),
        ({"scripted": {"x/write": "1"}}, {"scripted": {"x/write": "2"}}, ["reply: x/write"]),
        ({"scripted": None}, {"scripted": None}, []),
        (
            {},
            {"params": {"params": {"least": 3}, "embedder": {"name": "n", "digest": "d"}}},
            ["model: embedder", "parameter: least"],
        ),
        ({}, {"params": {"params": {"least": 2}, "reviewing": {"policy": "auto"}}}, ["decision: policy"]),
    ],
)
def test_changed_inputs_are_labelled_by_kind_and_name(
    before: dict[str, Any], after: dict[str, Any], messages: list[str]
) -> None:
    assert [each.cause.label for each in compare_manifests(LOCK | before, LOCK | after).changes] == messages


def test_changed_unit_limits_are_listed_individually() -> None:
    params = [{"params": {}, "limits": {"P19": n, "P20": 1}} for n in (None, 4)]
    (change,) = compare_manifests(LOCK | {"params": params[0]}, LOCK | {"params": params[1]}).changes
    assert (change.cause.label, change.cause.change_description) == ("parameter: limits", "P19 not set → 4")


def test_changed_decisions_are_only_those_about_row() -> None:
    made = [
        {"id": name, "row_id": row, "flag": "f", "decision": decision, "reviewer": "Ann"}
        for name, row, decision in (("i", "r1", "keep"), ("j", "r2", "drop"), ("i", "r1", "drop"))
    ]
    reviewing = [{"policy": "auto", "decisions": each} for each in (made[:2], [made[2]])]
    locks = compare_manifests(*(LOCK | {"params": {"params": {}, "reviewing": each}} for each in reviewing))
    assert list_changed_review_decisions(locks, ["r1"]) == [(made[0], made[2])]
    assert list_changed_review_decisions(locks, ["r2"]) == [(made[1], None)]
    assert list_changed_review_decisions(locks, ["r3"]) == []
