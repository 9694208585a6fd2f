"""What items say in one hop: by a graph, by SPARQL, and by following every triple, fact for fact the same."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import duckdb
import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs.plain_paths import PROP, WD, WIKIBASE, PlainPaths
from support.graphs.rdf_lines import spell_out

from tasks.assets import load_query
from tasks.clients.wikidata.queries import fill_query, read_solutions
from tasks.core.calls.call import Call, Reply
from tasks.core.calls.knowledge import Fact, call_item_facts, read_facts, write_facts
from tasks.core.fingerprints import Json
from tasks.errors import GraphError
from tasks.graph.load import load_graph
from tasks.graph.lookup import Graph, open_graph
from tasks.text.values.literals import canonical_number

Make = Callable[..., Graph]

PERSON = """
    wd:Q7259 rdfs:label "Ada Lovelace"@en
    wd:P22 rdfs:label "father"@en
    wd:P569 rdfs:label "date of birth"@en
    wd:Q5679 rdfs:label "Lord Byron"@en
    wd:Q170790 rdfs:label "mathematician"@mul
    wd:Q7259 wdt:P22 wd:Q5679
    wd:Q7259 wdt:P106 wd:Q170790
    wd:Q7259 wdt:P106 wd:Q36180
    wd:Q7259 wdt:P27 wd:Q145
    wd:Q7259 wdt:P214 "59132"
    wd:Q7259 wdt:P569 "1815-12-10T00:00:00Z"^^xsd:dateTime
    wd:Q7259 wdt:P1971 "+3.0"^^xsd:decimal
    wd:Q7259 p:P22 wds:q7259-F
    wds:q7259-F ps:P22 wd:Q5679
    wd:Q7259 p:P106 wds:q7259-A
    wds:q7259-A ps:P106 wd:Q170790
    wds:q7259-A wikibase:rank wikibase:DeprecatedRank
    wd:Q7259 p:P106 wds:q7259-C
    wds:q7259-C ps:P106 wd:Q170790
    wd:Q7259 p:P106 wds:q7259-B
    wds:q7259-B ps:P106 wd:Q170790
    wds:q7259-B wikibase:rank wikibase:NormalRank
    wds:q7259-B pq:P580 "1842-01-01T00:00:00Z"^^xsd:dateTime
    wd:Q7259 p:P106 wds:q7259-D
    wds:q7259-D ps:P106 wd:Q1650915
    wd:Q7259 p:P27 wds:q7259-E
    wds:q7259-E ps:P17 wd:Q145
    wds:q7259-lost ps:P27 wd:Q145
    wd:Q7259 p:P569 wds:q7259-H
    wds:q7259-H ps:P569 "1815-12-10T00:00:00Z"^^xsd:dateTime
    wds:q7259-H psv:P569 v:day
    v:day wikibase:timeValue "1815-12-10T00:00:00Z"^^xsd:dateTime
    v:day wikibase:timePrecision "11"^^xsd:integer
    wd:Q7259 p:P569 wds:q7259-G
    wds:q7259-G ps:P569 "1851-12-10T00:00:00Z"^^xsd:dateTime
    wds:q7259-G wikibase:rank wikibase:DeprecatedRank
    wd:Q7259 p:P2048 wds:q7259-I
    wds:q7259-I ps:P2048 "+1.60"^^xsd:decimal
    wds:q7259-I psv:P2048 v:high
    v:high wikibase:quantityAmount "+1.60"^^xsd:decimal
    v:high wikibase:quantityUnit wd:Q11573
"""

ADA = [
    Fact("P22", "father", "Q5679", "Lord Byron", None, None, "q7259-F"),
    Fact("P27", None, "Q145", None, None, None, None),
    Fact("P106", None, "Q36180", None, None, None, None),
    Fact("P106", None, "Q170790", "mathematician", None, None, "q7259-B"),
    Fact("P569", "date of birth", None, "1815-12-10T00:00:00Z", 11, None, "q7259-H"),
    Fact("P1971", None, None, "3", None, None, None),
    Fact("P2048", None, None, "1.6", None, "Q11573", "q7259-I"),
]


def ask(graph: Graph, *calls: Call) -> list[Reply]:
    replies: dict[str, Reply] = {}
    graph.send(calls, lambda call, reply: replies.__setitem__(call.key, reply))
    return [replies[call.key] for call in calls]


def test_facts_are_best_claims_with_the_first_statement_that_says_them_and_dates_and_numbers(make_graph: Make) -> None:
    graph = make_graph(PERSON)
    here, huge = graph.identity, "Q" + "9" * 18
    replies = ask(graph, *(call_item_facts(here, qid) for qid in ("Q7259", "Q5679", huge)))
    assert [read_facts(reply.body) for reply in replies] == [ADA, [], []]
    assert set(graph.item_facts(["Q7259", huge])["Q7259"]) == set(ADA)


def test_a_statement_is_that_of_its_item_and_property_only(make_graph: Make) -> None:
    both = "wd:Q1 wdt:P1 wd:Q3\nwd:Q1 wdt:P2 wd:Q3\nwd:Q2 wdt:P1 wd:Q3\nwd:Q2 p:P1 wds:a\nwds:a ps:P1 wd:Q3"
    said = make_graph(both).item_facts(["Q1", "Q2"])
    assert {qid: [fact.statement for fact in facts] for qid, facts in said.items()} == {"Q1": [None, None], "Q2": ["a"]}


def test_a_truthy_dump_gives_facts_without_statements(make_graph: Make) -> None:
    graph = make_graph('wd:Q1 wdt:P1 wd:Q3\nwd:Q1 wdt:P2 "-0.50"^^xsd:decimal')
    assert graph.manifest.stored["claims"] == 0
    assert graph.item_facts(["Q1"])["Q1"] == [
        Fact("P2", None, None, "-0.5", None, None, None),
        Fact("P1", None, "Q3", None, None, None, None),
    ]


def test_facts_are_told_by_number_of_property_literals_first_then_by_number_of_the_item() -> None:
    def fact(pid: str, qid: str | None, value: str, statement: str | None = None) -> Fact:
        return Fact(pid, None, qid, value, None, None, statement)  # type: ignore[arg-type]

    ordered = [
        fact("P9", None, "10"),
        fact("P9", None, "9", "a"),
        fact("P9", None, "9", "b"),
        fact("P9", "Q9", "zebra"),
        fact("P9", "Q10", "ant"),
        fact("P10", None, "1"),
    ]
    assert read_facts(write_facts(reversed(ordered))) == ordered


def test_the_table_of_claims_holds_each_statement_of_an_item_once_and_sorted(make_graph: Make) -> None:
    graph = make_graph(PERSON + PERSON)
    with duckdb.connect(str(graph.path / "graph.duckdb"), read_only=True) as connection:
        assert connection.execute("FROM claims").fetchall() == [
            (7259, 22, 5679, "q7259-F"),
            (7259, 106, 170790, "q7259-B"),
            (7259, 106, 170790, "q7259-C"),
            (7259, 106, 1650915, "q7259-D"),
        ]
    assert graph.manifest.stored["claims"] == 4


def test_the_digest_covers_the_statements_of_claims(make_graph: Make) -> None:
    digest = make_graph(PERSON).manifest.digest
    other = make_graph(PERSON.replace("wds:q7259-F", "wds:q7259-X"), "other")
    assert other.manifest.digest != digest
    assert make_graph("\n".join(reversed(PERSON.split("\n"))), "again").manifest.digest == digest


def test_wrong_calls_for_facts_fail_with_a_reason(make_graph: Make) -> None:
    graph = make_graph(PERSON)
    here = graph.identity
    wrong, foreign = ask(graph, call_item_facts(here, "P31"), call_item_facts(here, "Q1", "it"))
    assert wrong.error == "bad_call: item_facts: qid cannot be 'P31'"
    assert foreign.error.startswith("language_missing: ")
    with pytest.raises(GraphError, match="not in it"):
        graph.item_facts(["Q1"], "it")


QUERY = load_query("wikidata/item_facts")
DATES = ['"2000-01-02T00:00:00Z"^^xsd:dateTime', '"-0005-00-00T00:00:00Z"^^xsd:dateTime']
NUMBERS = ['"+1.0"^^xsd:decimal', '"-123456789012345678901234567890.50"^^xsd:decimal']
VALUES = ["wd:Q1", "wd:Q3", *DATES, *NUMBERS, '"Q1"', '"5"@en', "_:unknown", "wd:P1", "<http://a.org/Q1>"]
ITEMS, PIDS, STATEMENTS, NODES = ("Q1", "Q2"), ("P1", "P2"), "abc", "xyz"
UNIVERSE = [
    *(f"wd:{q} wdt:{p} {o}" for q in ITEMS for p in PIDS for o in VALUES),
    *(f"wd:{q} p:{p} wds:{s}" for q in ITEMS for p in PIDS for s in STATEMENTS),
    *(f"wds:{s} ps:{p} {o}" for s in STATEMENTS for p in PIDS for o in VALUES),
    *(f"wds:{s} psv:{p} v:{v}" for s in STATEMENTS for p in PIDS for v in NODES),
    *(f"wds:{s} pq:P1 {o}" for s in STATEMENTS for o in (DATES[0], NUMBERS[0])),
    *(f"wds:{s} wikibase:rank wikibase:{o}Rank" for s, o in [("a", "Normal"), ("a", "Deprecated"), ("b", "Normal")]),
    *(f"wd:{each} rdfs:label {o}" for each in ("Q1", "P1", "P2") for o in ('"one"@en', '"two"@en', '"any"@mul', '"x"')),
]
NODES_SAY = st.fixed_dictionaries(
    {
        "x": st.tuples(st.just(DATES[0]), st.none() | st.integers(7, 11)),
        "y": st.tuples(st.just(NUMBERS[0]), st.sampled_from([2, 199])),
        "z": st.tuples(st.sampled_from(DATES), st.integers(7, 11)) | st.tuples(st.sampled_from(NUMBERS), st.just(2)),
    }
)
"""What each value node says, one thing as Wikidata's do: a date and its precision, or a number and its unit."""


def describe(node: str, value: str, meaning: int | None) -> Iterable[str]:
    """Yield the lines of a value node."""
    is_date = value.endswith("dateTime")
    yield f"v:{node} wikibase:{'timeValue' if is_date else 'quantityAmount'} {value}"
    if is_date and meaning is not None:
        yield f'v:{node} wikibase:timePrecision "{meaning}"^^xsd:integer'
    if not is_date:
        yield f"v:{node} wikibase:quantityUnit wd:Q{meaning}"


def follow(triples: Sequence[ox.Triple | ox.Quad], qids: Sequence[str]) -> list[Json]:
    """Put facts together by looking at every triple."""
    plain = PlainPaths(triples)
    said = {(triple.subject, triple.predicate.value, triple.object) for triple in triples}
    deprecated = {s for s, p, o in said if p == f"{WIKIBASE}rank" and o == ox.NamedNode(f"{WIKIBASE}DeprecatedRank")}

    def name(entity: str) -> str | None:
        labels = [o for s, p, o in said if s == ox.NamedNode(WD + entity) and p.endswith("rdf-schema#label")]
        given = {tag: [each.value for each in labels if each.language == tag] for tag in ("en", "mul")}
        return min(given["en"] or given["mul"], default=None)

    def find_statement(qid: str, pid: int, target: int) -> str | None:
        linked = {o for s, p, o in said if (s, p) == (ox.NamedNode(WD + qid), f"{PROP}P{pid}")} - deprecated
        saying = (s for s in linked if (s, f"{PROP}statement/P{pid}", ox.NamedNode(f"{WD}Q{target}")) in said)
        return min((s.value.removeprefix(f"{WD}statement/") for s in saying), default=None)

    def canonicalise(value: str) -> str:
        return canonical_number(value) or value

    def list_facts(qid: str) -> Iterable[Fact]:
        for pid, target in set(plain.claims[int(qid[1:])]):
            value: Any = f"Q{target}"
            yield Fact(f"P{pid}", name(f"P{pid}"), value, name(value), None, None, find_statement(qid, pid, target))  # type: ignore[arg-type]
        literals = plain.literals[int(qid[1:])]
        # an engine keeps numbers by value: those that are written differently are one
        own = {
            (pid, canonicalise(v), at, exact, unit)
            for pid, qualifier, at, v, exact, unit, _ in literals
            if not qualifier
        }
        for pid, value, at, exact, unit in own:
            yield Fact(f"P{pid}", name(f"P{pid}"), None, value, exact, unit and f"Q{unit}", at)  # type: ignore[arg-type]

    return [write_facts(list_facts(qid)) for qid in qids]


def ask_by_sparql(store: ox.Store, qids: Sequence[str]) -> list[Json]:
    """Answer as the client does, all items in one query."""
    calls = [call_item_facts("here", qid) for qid in qids]
    found = store.query(fill_query(QUERY, calls)).serialize(format=ox.QueryResultsFormat.JSON)  # type: ignore[union-attr]
    return read_solutions(calls, json.loads(found)["results"]["bindings"])  # type: ignore[arg-type]


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(st.lists(st.sampled_from(UNIVERSE), min_size=50, unique=True), NODES_SAY)
def test_a_graph_and_sparql_say_what_following_every_triple_says(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[str], said: dict[str, tuple[str, int | None]]
) -> None:
    folder = tmp_path_factory.mktemp("facts")
    nodes_told = [line for node, (value, meaning) in said.items() for line in describe(node, value, meaning)]
    (folder / "a.nt").write_text(spell_out("\n".join([*drawn, *nodes_told])), "utf-8")
    triples = list(ox.parse(path=folder / "a.nt", format=ox.RdfFormat.N_TRIPLES))
    store = ox.Store()
    store.bulk_load(path=folder / "a.nt", format=ox.RdfFormat.N_TRIPLES)
    qids = [*ITEMS, "Q3"]
    expected = follow(triples, qids)
    assert ask_by_sparql(store, qids) == expected
    load_graph([folder / "a.nt"], "small", folder)
    with open_graph("small", folder) as graph:
        assert [reply.body for reply in ask(graph, *(call_item_facts("here", qid) for qid in qids))] == expected
