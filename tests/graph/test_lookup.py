"""Test graph lookups: the replies of every operation, one-hop facts of items, and invalid calls."""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import duckdb
import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs.rdf_lines import neighbours, spell_out
from support.graphs.small_arrays import Edge
from support.processes.ready import run_ready
from support.webs.wikidata_web import answer_together

from factmill.tasks.core.calls.call import Call, CallResponse
from factmill.tasks.core.calls.item_facts import ItemFact, format_item_facts, make_item_facts_call, parse_item_facts
from factmill.tasks.core.calls.wikidata import (
    ItemDescription,
    ItemMatchedByName,
    ItemNeighbour,
    make_describe_item_call,
    make_find_items_call,
    make_list_facts_call,
    make_resolve_item_redirect_call,
)
from factmill.tasks.errors import LocalGraphError
from factmill.tasks.graph.load import load_graph
from factmill.tasks.graph.lookup import EdgeCounts, WikidataGraph, open_graph

Make = Callable[..., WikidataGraph]

PEOPLE = """
    wd:Q10 rdfs:label "Mercury"@en
    wd:Q9 rdfs:label "Mercury"@en
    wd:Q100 rdfs:label "quicksilver"@en
    wd:Q100 skos:altLabel "Mercury"@en
    wd:Q10 skos:altLabel "Mercury"@en
    wd:Q8 skos:altLabel "Mercury"@en
    wd:Q10 rdfs:label "Merkur"@de
    wd:Q10 schema:description "smallest planet"@en
    wd:Q10 wdt:P361 wd:Q544
    wd:Q10 wdt:P361 wd:Q90
    wd:Q10 wdt:P31 wd:Q634
    wd:Q10 wdt:P31 wd:Q100
    wd:Q10 wdt:P47 wd:Q1
    wd:Q9 wdt:P31 wd:Q5
    wd:Q3 wdt:P31 wd:Q5
    wd:Q20 wdt:P31 wd:Q5
    enwiki:Mercury_(planet) schema:name "Mercury (planet)"@en
    enwiki:Mercury_(planet) schema:about wd:Q10
    enwiki:Nameless schema:about wd:Q9
    wd:Q10 schema:dateModified "2024-05-06T07:08:09Z"^^xsd:dateTime
    wd:P31 rdfs:label "instance of"@en
"""


def ask(graph: WikidataGraph, *calls: Call) -> list[Any]:
    """Return the replies in the order of the calls."""
    replies: dict[int, CallResponse] = {}
    graph.send(calls, lambda call, reply: replies.setdefault(id(call), reply))  # type: ignore[arg-type,return-value]
    return [replies[id(call)] for call in calls]


def bodies(graph: WikidataGraph, *calls: Call) -> list[Any]:
    replies = ask(graph, *calls)
    assert [reply.error for reply in replies] == [None] * len(calls)
    return [reply.body for reply in replies]


def test_redirects_are_followed_to_end_and_create_no_items(make_graph: Make) -> None:
    graph = make_graph(
        PEOPLE + "    wd:Q901 owl:sameAs wd:Q902\n    wd:Q902 owl:sameAs wd:Q10\n    wd:Q7 owl:sameAs wd:Q7\n"
    )
    asked = ["Q901", "Q902", "Q10", "Q7", "Q12345"]
    assert bodies(graph, *(make_resolve_item_redirect_call(graph.identity, qid) for qid in asked)) == [
        "Q10", "Q10", "Q10", "Q7", "Q12345",
    ]  # fmt: skip
    assert graph.manifest.stored["redirects"] == 3
    assert graph.query("SELECT item FROM graph.items WHERE item IN (901, 902, 7)", {}) == []


def test_describe_items_returns_nulls_for_unknown_values(make_graph: Make) -> None:
    graph = make_graph(PEOPLE, dump_date="2024-06-01")
    found = bodies(
        graph, *(make_describe_item_call(graph.identity, qid) for qid in ("Q10", "Q9", "Q544", "Q777", "Q10"))
    )
    mercury = {
        "label": "Mercury",
        "description": "smallest planet",
        "title": "Mercury (planet)",
        "modified": "2024-05-06T07:08:09Z",
    }
    unknown = dict.fromkeys(mercury)
    assert found == [
        mercury,
        {**unknown, "label": "Mercury", "modified": "2024-06-01"},
        {**unknown, "modified": "2024-06-01"},
        unknown,
        mercury,
    ]


def test_pages_of_facts_cover_all_facts_with_any_number_of_objects(make_graph: Make) -> None:
    facts = [(subject, 1000 + thing) for subject in range(1, 40) for thing in range(1 + (subject * 7) % 60)]
    graph = make_graph("\n".join(f"wd:Q{subject} wdt:P1 wd:Q{thing}" for subject, thing in reversed(facts)))
    for limit in (1, 3, 50):
        seen, after = [], None
        while page := graph.list_facts("P1", after, limit):
            assert len({subject for subject, _ in page}) <= limit
            seen += page
            after = page[-1][0]
        assert seen == [(f"Q{subject}", f"Q{thing}") for subject, thing in facts]


ODD_NAMES = [
    'say "hi"',
    "it's",
    "{x} $name ${y}",
    "two\nlines\r\n",
    "back\\slash \\u0041",
    "'; DROP TABLE names; --",
    "%s ? $1 :a",
    "tab\there",
    "nul\0byte",
    "e\u0301",
    "日本 😀",
    " spaced ",
    "a> <b",
    '"@en .',
    "",
]


def spell_label(number: int, name: str, predicate: str = "rdfs:label") -> str:
    spelled = "".join(f"\\U{ord(character):08X}" for character in name)
    return f'wd:Q{number} {predicate} "{spelled}"@en'


def test_names_with_any_characters_are_found(make_graph: Make) -> None:
    graph = make_graph("\n".join(spell_label(number, name) for number, name in enumerate(ODD_NAMES, 1)))
    expected = {name: [ItemMatchedByName(f"Q{number}", "label")] for number, name in enumerate(ODD_NAMES, 1)}
    assert graph.find_items_by_name(ODD_NAMES) == expected
    assert graph.find_labels(f"Q{number}" for number in range(1, 100)) == {
        f"Q{number}": name for number, name in enumerate(ODD_NAMES, 1)
    }
    assert graph.find_items_by_name(["half \ud83d"]) == {"half \ud83d": []}


def test_typed_lookups_match_calls(make_graph: Make) -> None:
    graph = make_graph(PEOPLE)
    assert graph.load_descriptions(["Q9"]) == {"Q9": ItemDescription("Mercury", None, None, "2024-05-06T07:08:09Z")}
    assert neighbours(graph, ["Q10", "Q3"], ["P31"]) == {
        "Q10": [ItemNeighbour("P31", "Q100", "quicksilver"), ItemNeighbour("P31", "Q634", None)],
        "Q3": [ItemNeighbour("P31", "Q5", None)],
    }
    assert graph.find_labels(["Q10", "P31", "P32", "Q777"]) == {"Q10": "Mercury", "P31": "instance of"}
    assert graph.count_edges(["Q10", "Q5", "Q8", "Q777"]) == {
        "Q10": EdgeCounts(out=5, into=0),
        "Q5": EdgeCounts(out=0, into=3),
        "Q8": EdgeCounts(out=0, into=0),
        "Q777": EdgeCounts(out=0, into=0),
    }


def test_empty_batch_and_unknown_ids_yield_empty_answers(make_graph: Make) -> None:
    graph = make_graph(PEOPLE)
    huge = "Q" + "9" * 30
    assert ask(graph) == []
    assert (
        graph.find_items_by_name([])
        == graph.load_descriptions([])
        == neighbours(graph, [], ["P31"])
        == graph.find_labels([])
        == {}
    )
    assert graph.list_neighbours([]) == []
    assert graph.load_descriptions([huge]) == {huge: ItemDescription(None, None, None, None)}
    assert neighbours(graph, [huge], ["P31"]) == {huge: []}
    assert graph.count_edges([huge]) == {huge: EdgeCounts(0, 0)}
    assert graph.find_labels([huge, "P" + "9" * 30]) == {}
    assert graph.list_facts("P31", huge, 5) == graph.list_facts("P" + "9" * 30, None, 5) == []


SHARED_NAMES = """
    wd:Q1 rdfs:label "Ada"@mul
    wd:Q2 rdfs:label "Ada"@en
    wd:Q2 rdfs:label "Adda"@mul
    wd:Q2 skos:altLabel "Ada"@mul
    wd:Q3 skos:altLabel "Ada"@mul
    wd:Q4 rdfs:label "Ada"@de
    wd:Q5 wdt:P1 wd:Q1
    wd:Q5 wdt:P1 wd:Q2
    wd:P1 rdfs:label "p"@mul
"""


def test_name_for_all_languages_replaces_missing_language_label(make_graph: Make) -> None:
    graph = make_graph(SHARED_NAMES)
    assert graph.find_labels(["Q1", "Q2", "Q3", "Q4", "P1"]) == {"Q1": "Ada", "Q2": "Ada", "P1": "p"}
    assert [graph.load_descriptions([qid])[qid].label for qid in ("Q1", "Q2", "Q3")] == ["Ada", "Ada", None]
    assert [edge.label for edge in neighbours(graph, ["Q5"], ["P1"])["Q5"]] == ["Ada", "Ada"]
    assert graph.find_items_by_name(["Ada", "Adda"]) == {
        "Ada": [ItemMatchedByName("Q1", "label"), ItemMatchedByName("Q2", "label"), ItemMatchedByName("Q3", "alias")],
        "Adda": [ItemMatchedByName("Q2", "label")],
    }


def test_language_that_was_not_loaded_is_rejected(make_graph: Make) -> None:
    graph = make_graph(PEOPLE)
    [refused, facts] = ask(
        graph,
        make_find_items_call(graph.identity, "Merkur", "de"),
        make_list_facts_call(graph.identity, "P47", None, 5, "de"),
    )
    assert refused.status == "failed"
    assert refused.error == "language_missing: graph small was loaded in en, not in de"
    assert facts.body == [{"subject": "Q10", "object": "Q1"}]
    with pytest.raises(LocalGraphError, match="was loaded in en, not in de"):
        graph.find_items_by_name(["Merkur"], "de")


@pytest.mark.parametrize(
    ("operation", "parts", "error"),
    [
        ("pageviews", {"title": "A"}, "unknown_operation: pageviews"),
        ("find_items", {"language": "en"}, "bad_call: find_items: name is missing"),
        ("describe_items", {"qid": "64", "language": "en"}, "bad_call: describe_items: qid cannot be '64'"),
        ("neighbours", {"qid": "Q1", "pids": ["Q2"], "language": "en"}, "bad_call: neighbours: pids cannot be"),
        ("list_facts", {"pid": "P1", "after": None, "limit": 0, "language": "en"}, "bad_call: list_facts: limit"),
        ("item_facts", {"qid": "P31", "language": "en"}, "bad_call: item_facts: qid cannot be 'P31'"),
        ("item_facts", {"qid": "Q1", "language": "it"}, "language_missing: graph small was loaded in en, not in it"),
    ],
)
def test_unanswerable_call_fails_alone(make_graph: Make, operation: str, parts: dict[str, Any], error: str) -> None:
    graph = make_graph(PEOPLE)
    [failed, answered] = ask(
        graph, Call(graph.identity, operation, parts), make_find_items_call(graph.identity, "quicksilver")
    )
    assert (failed.status, failed.body, failed.transient) == ("failed", None, False)
    assert failed.error.startswith(error)
    assert answered.body == [{"qid": "Q100", "via": "label"}]


def test_graph_identity_follows_its_content(make_graph: Make) -> None:
    first, same, other = make_graph(PEOPLE), make_graph(PEOPLE, "copy"), make_graph("wd:Q1 wdt:P31 wd:Q5", "other")
    assert first.identity == same.identity == f"graph-{first.manifest.digest[:16]}"
    assert first.identity != other.identity
    assert not first.is_outside


@pytest.mark.slow
def test_graph_is_readable_from_many_threads_and_other_process_at_once(make_graph: Make, tmp_path: Path) -> None:
    graph = make_graph(PEOPLE)
    expected = graph.find_items_by_name(["Mercury"])
    results: list[dict[str, list[ItemMatchedByName]]] = []

    def look_up() -> None:
        results.extend(graph.find_items_by_name(["Mercury"]) for _ in range(20))

    threads = [threading.Thread(target=look_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    program = (
        "import sys; from pathlib import Path; from factmill.tasks.graph.lookup import open_graph\n"
        "print(len(open_graph('small', Path(sys.argv[1])).find_items_by_name(['Mercury'])['Mercury']))"
    )
    done = run_ready(program, tmp_path / "graphs")
    for thread in threads:
        thread.join()
    assert (done.out, done.code) == ("4\n", 0), done.err
    assert results == [expected] * 80


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
    ItemFact("P22", "father", "Q5679", "Lord Byron", None, None, "q7259-F"),
    ItemFact("P27", None, "Q145", None, None, None, None),
    ItemFact("P106", None, "Q36180", None, None, None, None),
    ItemFact("P106", None, "Q170790", "mathematician", None, None, "q7259-B"),
    ItemFact("P569", "date of birth", None, "1815-12-10T00:00:00Z", 11, None, "q7259-H"),
    ItemFact("P1971", None, None, "3", None, None, None),
    ItemFact("P2048", None, None, "1.6", None, "Q11573", "q7259-I"),
]


def test_facts_include_best_claims_with_first_statement_dates_and_numbers(make_graph: Make) -> None:
    graph = make_graph(PERSON)
    here, huge = graph.identity, "Q" + "9" * 18
    replies = ask(graph, *(make_item_facts_call(here, qid) for qid in ("Q7259", "Q5679", huge)))
    assert [parse_item_facts(reply.body) for reply in replies] == [ADA, [], []]
    assert set(graph.list_item_facts(["Q7259", huge])["Q7259"]) == set(ADA)


def test_fact_statement_belongs_to_same_item_and_property(make_graph: Make) -> None:
    both = "wd:Q1 wdt:P1 wd:Q3\nwd:Q1 wdt:P2 wd:Q3\nwd:Q2 wdt:P1 wd:Q3\nwd:Q2 p:P1 wds:a\nwds:a ps:P1 wd:Q3"
    said = make_graph(both).list_item_facts(["Q1", "Q2"])
    assert {qid: [fact.statement for fact in facts] for qid, facts in said.items()} == {"Q1": [None, None], "Q2": ["a"]}


def test_truthy_dump_yields_facts_without_statements(make_graph: Make) -> None:
    graph = make_graph('wd:Q1 wdt:P1 wd:Q3\nwd:Q1 wdt:P2 "-0.50"^^xsd:decimal')
    assert graph.manifest.stored["claims"] == 0
    assert graph.list_item_facts(["Q1"])["Q1"] == [
        ItemFact("P2", None, None, "-0.5", None, None, None),
        ItemFact("P1", None, "Q3", None, None, None, None),
    ]


def test_facts_are_sorted_by_property_then_literals_then_item() -> None:
    def fact(pid: str, qid: str | None, value: str, statement: str | None = None) -> ItemFact:
        return ItemFact(pid, None, qid, value, None, None, statement)  # type: ignore[arg-type]

    ordered = [
        fact("P9", None, "10"),
        fact("P9", None, "9", "a"),
        fact("P9", None, "9", "b"),
        fact("P9", "Q9", "zebra"),
        fact("P9", "Q10", "ant"),
        fact("P10", None, "1"),
    ]
    assert parse_item_facts(format_item_facts(reversed(ordered))) == ordered


def test_claims_table_has_each_item_statement_once_and_sorted(make_graph: Make) -> None:
    graph = make_graph(PERSON + PERSON)
    with duckdb.connect(str(graph.path / "graph.duckdb"), read_only=True) as connection:
        assert connection.execute("FROM claims").fetchall() == [
            (7259, 22, 5679, "q7259-F"),
            (7259, 106, 170790, "q7259-B"),
            (7259, 106, 170790, "q7259-C"),
            (7259, 106, 1650915, "q7259-D"),
        ]
    assert graph.manifest.stored["claims"] == 4


def test_digest_covers_statements_of_claims(make_graph: Make) -> None:
    digest = make_graph(PERSON).manifest.digest
    other = make_graph(PERSON.replace("wds:q7259-F", "wds:q7259-X"), "other")
    assert other.manifest.digest != digest
    assert make_graph("\n".join(reversed(PERSON.split("\n"))), "again").manifest.digest == digest


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
"""The one meaning of each value node, as in Wikidata: a date and its precision, or a number and its unit."""


def describe(node: str, value: str, meaning: int | None) -> Iterable[str]:
    """Yield the lines of a value node."""
    is_date = value.endswith("dateTime")
    yield f"v:{node} wikibase:{'timeValue' if is_date else 'quantityAmount'} {value}"
    if is_date and meaning is not None:
        yield f'v:{node} wikibase:timePrecision "{meaning}"^^xsd:integer'
    if not is_date:
        yield f"v:{node} wikibase:quantityUnit wd:Q{meaning}"


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(st.lists(st.sampled_from(UNIVERSE), min_size=50, unique=True), NODES_SAY)
def test_graph_and_sparql_yield_same_facts_for_any_triples(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[str], said: dict[str, tuple[str, int | None]]
) -> None:
    folder = tmp_path_factory.mktemp("facts")
    nodes_told = [line for node, (value, meaning) in said.items() for line in describe(node, value, meaning)]
    (folder / "a.nt").write_text(spell_out("\n".join([*drawn, *nodes_told])), "utf-8")
    store = ox.Store()
    store.bulk_load(path=folder / "a.nt", format=ox.RdfFormat.N_TRIPLES)
    calls = [make_item_facts_call("here", qid) for qid in (*ITEMS, "Q3")]
    load_graph([folder / "a.nt"], "small", folder)
    with open_graph("small", folder) as graph:
        assert [reply.body for reply in ask(graph, *calls)] == answer_together(store, calls)


def test_empty_request_and_graph_without_claims_yield_empty_answers(make_graph: Make) -> None:
    assert make_graph(PERSON).list_item_facts([]) == {}
    bare = make_graph('wd:Q1 rdfs:label "one"@en', "bare")
    assert bare.list_item_facts(["Q1"]) == {"Q1": []}
    assert neighbours(bare, ["Q1"], ["P31"]) == {"Q1": []}
    assert bare.count_edges(["Q1"]) == {"Q1": EdgeCounts(0, 0)}


EDGES = st.sets(st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(1, 9)), min_size=1, max_size=60)


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(edges=EDGES, asked=st.lists(st.integers(1, 12), max_size=8, unique=True), only=st.sets(st.integers(1, 5)))
def test_claim_lookups_match_search_through_all_edges(
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
            for qid, found in neighbours(graph, qids, pids).items()
        } == {f"Q{item}": [(p, o) for p, o in pairs if p in only] for item, pairs in leaving.items()}
        assert {
            qid: [(int(each.pid[1:]), int(str(each.qid)[1:])) for each in facts]
            for qid, facts in graph.list_item_facts(qids).items()
        } == {f"Q{item}": pairs for item, pairs in leaving.items()}
        assert graph.count_edges(qids) == {
            f"Q{item}": EdgeCounts(sum(s == item for s, _, _ in edges), sum(o == item for _, _, o in edges))
            for item in asked
        }
