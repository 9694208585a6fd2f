"""Falcon's replies in all the forms it has had."""

import pytest

from factmill.tasks.core.calls.entity_linking import EntityLinkingResult, LinkCandidate, parse_entity_linking_result

WD = "http://www.wikidata.org/entity/"


@pytest.mark.parametrize("body", [{}, {"entities_wikidata": None, "relations_wikidata": []}])
def test_missing_and_null_lists_are_empty(body):
    assert parse_entity_linking_result(body) == EntityLinkingResult((), (), (), ())


@pytest.mark.parametrize(
    "entry",
    [
        {"URI": f"{WD}Q64", "surface form": "Berlin"},
        [f"<{WD}Q64>", "Berlin"],
        ["Berlin", f"<{WD}Q64>"],
        [f"{WD}Q64", "Berlin"],
    ],
)
def test_objects_and_pairs_of_either_order_are_links(entry):
    assert parse_entity_linking_result({"entities_wikidata": [entry]}).items == (LinkCandidate("Q64", "Berlin"),)


def test_repeated_candidates_are_kept_once_in_order():
    entries = [[f"<{WD}Q{number}>", "x"] for number in (5, 3, 5, 3, 9)]
    assert [link.id for link in parse_entity_linking_result({"entities_wikidata": entries}).items] == ["Q5", "Q3", "Q9"]


def test_relations_are_the_last_part_of_their_uri():
    body = {
        "relations_wikidata": [
            {"URI": f"{WD}P112", "surface form": "founded"},
            {"URI": "http://www.wikidata.org/prop/direct/P571", "surface form": "founded"},
        ]
    }
    assert [link.id for link in parse_entity_linking_result(body).properties] == ["P112", "P571"]


def test_dbpedia_keeps_its_uris():
    body = {
        "entities_dbpedia": [{"URI": "http://dbpedia.org/resource/AC/DC", "surface form": "AC/DC"}],
        "relations_dbpedia": [["<http://dbpedia.org/ontology/founder>", "founded"]],
    }
    links = parse_entity_linking_result(body)
    assert links.dbpedia_entities == (LinkCandidate("http://dbpedia.org/resource/AC/DC", "AC/DC"),)
    assert links.dbpedia_relations == (LinkCandidate("http://dbpedia.org/ontology/founder", "founded"),)


def test_dbpedia_pairs_of_either_order_keep_every_character_of_the_title():
    uri = "http://dbpedia.org/resource/Who's_Afraid,_100%25_(&_Co.)!"
    for entry in ([f"<{uri}>", "it"], ["it", f"<{uri}>"], ["it", uri]):
        assert parse_entity_linking_result({"entities_dbpedia": [entry]}).dbpedia_entities == (
            LinkCandidate(uri, "it"),
        )


def test_a_link_without_a_surface_is_a_link_all_the_same():
    for entry in ({"URI": f"{WD}Q64"}, {"URI": f"{WD}Q64", "surface form": None}, [f"{WD}Q64", None]):
        assert parse_entity_linking_result({"entities_wikidata": [entry]}).items == (LinkCandidate("Q64", ""),)


@pytest.mark.parametrize("entry", [None, "Q64", ["a"], ["a", "b"], {}, {"URI": None}, {"URI": f"{WD}P1"}, [1, 2]])
def test_what_is_no_item_is_left_out(entry):
    assert parse_entity_linking_result({"entities_wikidata": [entry]}).items == ()
