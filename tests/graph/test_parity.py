"""Test that a graph answers every call with the body that the SPARQL client makes from an endpoint."""

import gzip
import random
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pyoxigraph
import pytest
from support.graphs.rdf_lines import spell_out
from support.own_operation import DESCRIPTIONS
from support.webs.wikidata_web import answer_together

from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.item_facts import make_item_facts_call
from factmill.tasks.core.calls.operation import Operation, list_operations
from factmill.tasks.graph.load import load_graph
from factmill.tasks.graph.lookup import WikidataGraph, open_graph

ANSWERED = [each for each in list_operations() if callable(each.load_from_graph)]
"""Every operation that a graph answers, including a benchmark's own."""
LANGUAGES = ("en", "it")
HERE = "anywhere"

WORLD = """
    wd:Q64 rdfs:label "Berlin"@en
    wd:Q64 rdfs:label "Berlino"@it
    wd:Q64 skos:altLabel "Spree-Athens"@en
    wd:Q64 skos:altLabel "Berlin"@mul
    wd:Q64 schema:description "a city of rivers and parks"@en
    wd:Q64 wdt:P17 wd:Q183
    wd:Q64 wdt:P131 wd:Q183
    wd:Q64 wdt:P47 wd:Q1208
    wd:Q64 wdt:P47 wd:Q90
    wd:Q64 wdt:P1082 "3755251"^^xsd:decimal
    wd:Q64 p:P47 wds:q64-b
    wds:q64-b ps:P47 wd:Q90
    wds:q64-b wikibase:rank wikibase:PreferredRank
    wd:Q64 p:P47 wds:q64-a
    wds:q64-a ps:P47 wd:Q90
    wd:Q64 p:P571 wds:q64-c
    wds:q64-c ps:P571 "1237-01-01T00:00:00Z"^^xsd:dateTime
    wds:q64-c psv:P571 v:one
    v:one wikibase:timeValue "1237-01-01T00:00:00Z"^^xsd:dateTime
    v:one wikibase:timePrecision "9"^^xsd:integer
    wd:Q64 wdt:P1 wd:P1
    wd:Q64 wdt:P1 wd:L1
    wd:Q142659 rdfs:label "Berlin"@en
    wd:Q821244 skos:altLabel "Berlin"@en
    wd:Q183 rdfs:label "Germany"@en
    wd:Q183 rdfs:label "Germania"@it
    wd:Q1208 rdfs:label "Brandenburg"@mul
    wd:Q90 rdfs:label "Paris"@fr
    wd:Q90 rdfs:label "Paris"@mul
    wd:Q142 wdt:P36 wd:Q90
    wd:Q142 wdt:P36 wd:Q64
    wd:Q183 wdt:P36 wd:Q64
    wd:Q30 wdt:P36 wd:Q61
    wd:Q155 wdt:P36 _:nobody
    wd:P36 rdfs:label "Berlin"@en
    wd:Q777 owl:sameAs wd:Q778
    wd:Q778 owl:sameAs wd:Q90
    wd:Q779 owl:sameAs wd:Q779
    wd:P36 wdt:P36 wd:Q64
    wd:Q99 rdfs:label "say \\"hi\\" {or}\\\\\\nnot 'so'"@en
    enwiki:Berlin schema:about wd:Q64
    enwiki:Berlin schema:isPartOf <https://en.wikipedia.org/>
    enwiki:Berlin schema:name "Berlin"@en
    <https://it.wikipedia.org/wiki/Berlino> schema:about wd:Q64
    <https://it.wikipedia.org/wiki/Berlino> schema:isPartOf <https://it.wikipedia.org/>
    <https://it.wikipedia.org/wiki/Berlino> schema:name "Berlino"@it
"""


def answer_by_sparql(store: pyoxigraph.Store, calls: Sequence[Call]) -> list[object]:
    """Answer calls one by one, as the client would."""
    return [body for call in calls for body in answer_together(store, [call])]


def answer_by_graph(graph: WikidataGraph, calls: Sequence[Call]) -> list[object]:
    replies: dict[int, object] = {}

    def deliver(call: Call, reply: object) -> None:
        assert id(call) not in replies
        replies[id(call)] = reply.body  # type: ignore[attr-defined]

    graph.send(calls, deliver)
    return [replies[id(call)] for call in calls]


def list_calls(
    operation: Operation[Any], names: Sequence[str], qids: Sequence[str], pids: Sequence[str], languages: Sequence[str]
) -> list[Call]:
    """Return calls of an operation with all values for each of its parts."""
    values: dict[str, Sequence[Any]] = {
        "name": names,
        "qid": qids,
        "id": [*qids, *pids],
        "pid": pids,
        "pids": [sorted(pids, key=lambda pid: int(pid[1:]))],
        "after": [None, *qids[:3]],
        "limit": (1, 2, 500),
        "language": languages,
    }
    chosen = product(*(values[name] for name in operation.part_checks))
    return [operation.make_call(HERE, **dict(zip(operation.part_checks, each, strict=True))) for each in chosen]


KNOWN = list(enumerate(["Q64", "Q142", "Q183", "Q1208", "Q90", "Q821244", "Q99"]))


@pytest.fixture
def small(tmp_path: Path) -> Iterator[tuple[WikidataGraph, pyoxigraph.Store]]:
    # An item without a date of its own gets the dump's date in a graph, which an endpoint does not know.
    changes = [f'wd:{qid} schema:dateModified "2024-05-06T07:08:{second:02}Z"^^xsd:dateTime' for second, qid in KNOWN]
    text = spell_out("\n".join([WORLD.strip(), *changes]))
    (tmp_path / "small.nt").write_text(text, "utf-8")
    load_graph([tmp_path / "small.nt"], "small", tmp_path, LANGUAGES)
    store = pyoxigraph.Store()
    store.load(text, pyoxigraph.RdfFormat.N_TRIPLES)
    with open_graph("small", tmp_path) as graph:
        yield graph, store


def test_every_sparql_operation_can_be_answered_by_graph() -> None:
    asked = [each for each in list_operations() if each.sparql]
    assert DESCRIPTIONS in asked
    assert [each.name for each in ANSWERED if each not in asked] == []
    assert [each.name for each in asked if not each.load_from_graph] == []


@pytest.mark.parametrize("operation", ANSWERED, ids=lambda each: each.name)
def test_operation_returns_same_body_from_small_graph_and_sparql(
    small: tuple[WikidataGraph, pyoxigraph.Store], operation: Operation[Any]
) -> None:
    graph, store = small
    names = ["Berlin", "Berlino", "Spree-Athens", "Brandenburg", "Paris", "berlin", "", "say \"hi\" {or}\\\nnot 'so'"]
    qids = [*(qid for _, qid in KNOWN), "Q777", "Q779", "Q780"]
    calls = list_calls(operation, names, qids, ["P1", "P17", "P36", "P47", "P131", "P1082", "P999"], LANGUAGES)
    expected = answer_by_sparql(store, calls)
    assert any(expected)
    assert answer_by_graph(graph, calls) == expected
    for body in expected:
        operation.parse_body(body)


def test_facts_match_sparql_on_full_rdf_of_real_items(shared_data: Path, tmp_path: Path) -> None:
    files = [shared_data / "wikidata" / "rdf" / f"{qid}.ttl" for qid in ("Q42", "Q37599471")]
    load_graph(files, "whole", tmp_path, LANGUAGES)
    store = pyoxigraph.Store()
    for file in files:
        store.bulk_load(path=file, format=pyoxigraph.RdfFormat.TURTLE)
    calls = [make_item_facts_call(HERE, qid, language) for qid in ("Q42", "Q37599471") for language in LANGUAGES]
    expected = answer_by_sparql(store, calls)
    facts = [fact for body in expected for fact in body]  # type: ignore[attr-defined]
    assert len(facts) > 300
    assert all(fact["statement"] for fact in facts)
    assert {fact["precision"] for fact in facts if fact["pid"] == "P569"} == {11}
    with open_graph("whole", tmp_path) as graph:
        assert answer_by_graph(graph, calls) == expected


def test_every_operation_returns_same_body_from_real_graph_and_sparql(shared_data: Path, tmp_path: Path) -> None:
    dump = shared_data / "wikidata" / "truthy_labelled.nt.gz"
    load_graph([dump], "real", tmp_path)
    store = pyoxigraph.Store()
    with gzip.open(dump) as lines:
        store.bulk_load(lines, pyoxigraph.RdfFormat.N_TRIPLES)
    draw = random.Random(11)
    labels = store.query(
        "SELECT ?item ?label WHERE { ?item <http://www.w3.org/2000/01/rdf-schema#label> ?label"
        ' FILTER(strstarts(str(?item), "http://www.wikidata.org/entity/Q")) }'
    )
    known = sorted((row["item"].value.rsplit("/", 1)[1], row["label"].value) for row in labels)  # type: ignore[union-attr,index]
    drawn = draw.sample(known, 60)
    names, qids = [name for _, name in drawn], [qid for qid, _ in drawn]
    with open_graph("real", tmp_path) as graph:
        for operation in ANSWERED:
            calls = list_calls(operation, names, qids, ["P19", "P69", "P106", "P530"], ["en"])
            assert answer_by_graph(graph, calls) == answer_by_sparql(store, calls)
