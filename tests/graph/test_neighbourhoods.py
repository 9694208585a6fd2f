"""What stands around items: claims, dates and numbers, with labels, many items at once."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs.rdf_lines import spell_out
from support.graphs.small_arrays import Edge

from tasks.core.calls.knowledge import Fact
from tasks.errors import GraphError
from tasks.graph.load import load_graph
from tasks.graph.lookup import Degree, Graph, open_graph

Make = Callable[..., Graph]

HUGE = "Q" + "9" * 30

PERSON = """
    wd:Q7259 rdfs:label "Ada Lovelace"@en
    wd:Q7259 wdt:P22 wd:Q5679
    wd:Q7259 wdt:P31 wd:Q5
    wd:Q7259 wdt:P106 wd:Q170790
    wd:Q7259 wdt:P106 wd:Q36180
    wd:Q5679 wdt:P40 wd:Q7259
    wd:Q5679 wdt:P31 wd:Q5
    wd:Q5679 rdfs:label "Lord Byron"@en
    wd:Q170790 rdfs:label "mathematician"@mul
    wd:P22 rdfs:label "father"@en
    wd:P569 rdfs:label "date of birth"@en
    wd:Q7259 p:P569 wds:q7259-A
    wds:q7259-A ps:P569 "1815-12-10T00:00:00Z"^^xsd:dateTime
    wds:q7259-A psv:P569 v:one
    v:one wikibase:timeValue "1815-12-10T00:00:00Z"^^xsd:dateTime
    v:one wikibase:timePrecision "11"^^xsd:integer
    wds:q7259-A pq:P585 "1816-01-01T00:00:00Z"^^xsd:dateTime
    wd:Q7259 p:P2048 wds:q7259-B
    wds:q7259-B ps:P2048 "+1.60"^^xsd:decimal
    wds:q7259-B psv:P2048 v:two
    v:two wikibase:quantityAmount "+1.60"^^xsd:decimal
    v:two wikibase:quantityUnit wd:Q11573
    wd:Q5679 wdt:P569 "1788-01-22T00:00:00Z"^^xsd:dateTime
"""


def test_what_an_item_says_is_dates_and_numbers_then_claims_with_labels(make_graph: Make) -> None:
    found = make_graph(PERSON).item_facts(["Q7259", "Q5679", "Q7259", "Q4", HUGE])
    assert list(found) == ["Q7259", "Q5679", "Q4", HUGE]
    assert found["Q7259"] == [
        Fact("P569", "date of birth", None, "1815-12-10T00:00:00Z", 11, None, "q7259-A"),
        Fact("P2048", None, None, "1.6", None, "Q11573", "q7259-B"),
        Fact("P22", "father", "Q5679", "Lord Byron", None, None, None),
        Fact("P31", None, "Q5", None, None, None, None),
        Fact("P106", None, "Q36180", None, None, None, None),
        Fact("P106", None, "Q170790", "mathematician", None, None, None),
    ]
    assert found["Q5679"][0] == Fact("P569", "date of birth", None, "1788-01-22T00:00:00Z", None, None, None)
    assert found["Q4"] == found[HUGE] == []


def test_no_items_and_a_graph_without_claims_are_answered(make_graph: Make) -> None:
    assert make_graph(PERSON).item_facts([]) == {}
    bare = make_graph('wd:Q1 rdfs:label "one"@en', "bare")
    assert bare.item_facts(["Q1"]) == {"Q1": []}
    assert bare.neighbours(["Q1"], ["P31"]) == {"Q1": []}
    assert bare.degrees(["Q1"]) == {"Q1": Degree(0, 0)}


def test_labels_are_those_of_the_language_that_is_asked_for(make_graph: Make) -> None:
    lines = 'wd:Q1 wdt:P1 wd:Q2\nwd:Q2 rdfs:label "zwei"@de\nwd:Q2 rdfs:label "two"@en\nwd:P1 rdfs:label "teil"@de'
    graph = make_graph(lines, languages=("en", "de"))
    assert graph.item_facts(["Q1"], "de")["Q1"] == [Fact("P1", "teil", "Q2", "zwei", None, None, None)]
    assert graph.item_facts(["Q1"])["Q1"] == [Fact("P1", None, "Q2", "two", None, None, None)]
    with pytest.raises(GraphError, match="was loaded in de, en, not in it"):
        graph.item_facts(["Q1"], "it")


EDGES = st.sets(st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(1, 9)), min_size=1, max_size=60)


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(edges=EDGES, asked=st.lists(st.integers(1, 12), max_size=8, unique=True), only=st.sets(st.integers(1, 5)))
def test_all_look_ups_of_claims_say_what_a_search_through_all_edges_says(
    tmp_path_factory: pytest.TempPathFactory, edges: set[Edge], asked: list[int], only: set[int]
) -> None:
    folder = tmp_path_factory.mktemp("claims")
    lines = "\n".join(f"wd:Q{s} wdt:P{p} wd:Q{o}" for s, p, o in edges)
    (folder / "a.nt").write_text(spell_out(lines), "utf-8")
    load_graph([folder / "a.nt"], "small", folder)
    leaving = {item: sorted((p, o) for s, p, o in edges if s == item) for item in asked}
    qids, pids = [f"Q{item}" for item in asked], [f"P{p}" for p in only]
    with open_graph("small", folder) as graph:
        assert {
            qid: [(int(each.pid[1:]), int(each.qid[1:])) for each in found]
            for qid, found in graph.neighbours(qids, pids).items()
        } == {f"Q{item}": [(p, o) for p, o in pairs if p in only] for item, pairs in leaving.items()}
        assert {
            qid: [(int(each.pid[1:]), int(str(each.qid)[1:])) for each in facts]
            for qid, facts in graph.item_facts(qids).items()
        } == {f"Q{item}": pairs for item, pairs in leaving.items()}
        assert graph.degrees(qids) == {
            f"Q{item}": Degree(sum(s == item for s, _, _ in edges), sum(o == item for _, _, o in edges))
            for item in asked
        }
