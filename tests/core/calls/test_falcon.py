"""Test parsing of Falcon's responses in all forms it has used."""

import pytest

from factmill.tasks.core.calls.entity_linking import (
    EntityLinkingResult,
    EntityOrRelationCandidate,
    parse_entity_linking_result,
)

WD = "http://www.wikidata.org/entity/"


@pytest.mark.parametrize("body", [{}, {"entities_wikidata": None, "relations_wikidata": []}])
def test_missing_and_null_lists_are_empty(body):
    assert parse_entity_linking_result(body) == EntityLinkingResult((), (), (), ())


DBPEDIA = "http://dbpedia.org/resource/Who's_Afraid,_100%25_(&_Co.)!"


@pytest.mark.parametrize(
    ("entries", "ids"),
    [
        *(([entry], [("Q64", "Berlin")]) for entry in (
            {"URI": f"{WD}Q64", "surface form": "Berlin"}, [f"<{WD}Q64>", "Berlin"], ["Berlin", f"<{WD}Q64>"],
            [f"{WD}Q64", "Berlin"],
        )),
        *(([entry], [("Q64", "")]) for entry in (
            {"URI": f"{WD}Q64"}, {"URI": f"{WD}Q64", "surface form": None}, [f"{WD}Q64", None],
        )),
        *(([entry], []) for entry in (None, "Q64", ["a"], ["a", "b"], {}, {"URI": None}, {"URI": f"{WD}P1"}, [1, 2])),
        ([[f"<{WD}Q{number}>", "x"] for number in (5, 3, 5, 3, 9)], [("Q5", "x"), ("Q3", "x"), ("Q9", "x")]),
    ],
)  # fmt: skip
def test_objects_and_pairs_of_either_order_are_links_to_items_each_once(entries, ids):
    found = parse_entity_linking_result({"entities_wikidata": entries})
    assert [(link.id, link.mention) for link in found.items] == ids


def test_relation_is_last_part_of_its_uri():
    entries = [
        {"URI": uri, "surface form": "founded"} for uri in (f"{WD}P112", "http://www.wikidata.org/prop/direct/P571")
    ]
    found = parse_entity_linking_result({"relations_wikidata": entries})
    assert [link.id for link in found.properties] == ["P112", "P571"]


@pytest.mark.parametrize(
    "entry",
    [{"URI": DBPEDIA, "surface form": "it"}, [f"<{DBPEDIA}>", "it"], ["it", f"<{DBPEDIA}>"], ["it", DBPEDIA]],
)
def test_dbpedia_keeps_every_character_of_its_uris(entry):
    found = parse_entity_linking_result({"entities_dbpedia": [entry], "relations_dbpedia": [entry]})
    assert found.dbpedia_entities == found.dbpedia_relations == (EntityOrRelationCandidate(DBPEDIA, "it"),)
