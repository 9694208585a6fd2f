"""Test path queries in SPARQL: against a small Turtle graph on two engines, and how solutions become paths."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pyoxigraph
import pytest
from support.graphs.plain_paths import PlainPaths

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.clients.sparql import SparqlClient
from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.operation import list_operations
from factmill.tasks.core.calls.path_calls import (
    make_fixed_hops_item_paths_call,
    make_literal_paths_call,
    parse_item_paths,
    parse_literal_paths,
)
from factmill.tasks.text.values.wikidata_literals import PartialDate, WantedNumberWithUnit

HERE = "test-wikidata"
GRAPH = Path(__file__).parent / "paths.ttl"
TIMES = frozenset({569, 570, 571, 580, 582})
NUMBERS = frozenset({1082, 2046, 2048, 2067})
AGENT = "factmill-tests (someone@example.org)"


@pytest.fixture(scope="module")
def plain() -> PlainPaths:
    return PlainPaths(pyoxigraph.parse(path=str(GRAPH)))


@pytest.fixture(scope="module", params=["oxigraph", "rdflib"])
def engine(request) -> Callable[[str], str]:
    """Return a function that answers a query with its JSON results, for two independent engines."""
    import rdflib

    if request.param == "rdflib":
        graph = rdflib.Graph().parse(GRAPH)
        return lambda query: graph.query(query).serialize(format="json").decode()
    store = pyoxigraph.Store()
    store.load(path=str(GRAPH))
    return lambda query: store.query(query).serialize(format=pyoxigraph.QueryResultsFormat.JSON).decode()


@pytest.fixture
def ask(engine, server, limits, inbox):
    def answer(seen):
        query = seen.query.get("query") or seen.form()["query"]
        return {"text": engine(query), "type": "application/sparql-results+json"}

    server.handle = answer
    client = SparqlClient("Wikidata", f"{server.url}/sparql", HERE, limits, AGENT)

    def bodies(calls: Sequence[Call]):
        client.send(calls, inbox)
        assert [inbox[call].error for call in calls if inbox[call].status != "ok"] == []
        return [inbox[call].body for call in calls]

    return bodies


def literal(subject, wanted, hops=1):
    properties = TIMES if isinstance(wanted, PartialDate) else NUMBERS
    return make_literal_paths_call(HERE, subject, wanted, properties, hops)


@pytest.mark.parametrize("path", sorted((ASSETS_ROOT / "sparql" / "multihal").glob("*.rq")), ids=lambda path: path.stem)
def test_every_query_file_runs_with_its_example_values(engine, path):
    found = json.loads(engine(path.read_text("utf-8")))
    assert found["results"]["bindings"], "the example values should find something"


def test_every_query_file_belongs_to_an_operation():
    files = {
        f"{path.parent.name}/{path.stem}"
        for folder in ("dbpedia", "multihal", "wikidata")
        for path in (ASSETS_ROOT / "sparql" / folder).glob("*.rq")
    }
    assert files == {file for operation in list_operations() for file in operation.query_files}


def test_claims_between_two_items_are_found_in_both_directions(ask, server):
    assert ask(
        [
            make_fixed_hops_item_paths_call(HERE, 42, 145, 1),
            make_fixed_hops_item_paths_call(HERE, 145, 42, 1),
            make_fixed_hops_item_paths_call(HERE, 42, 99, 1),
        ]
    ) == [
        [{"backward": False, "path": ["P27"]}, {"backward": True, "path": ["P6"]}],
        [{"backward": False, "path": ["P6"]}, {"backward": True, "path": ["P27"]}],
        [],
    ]
    assert len(server.seen) == 1, "one query for all pairs"


def test_two_hop_paths_pass_only_through_items(ask):
    (body,) = ask([make_fixed_hops_item_paths_call(HERE, 42, 145, 2)])
    assert body == [
        {"backward": False, "path": ["P551", "Q84", "P17"]},
        {"backward": False, "path": ["P551", "Q84", "P1376"]},
        {"backward": False, "path": ["P937", "Q84", "P17"]},
        {"backward": False, "path": ["P937", "Q84", "P1376"]},
        {"backward": False, "path": ["P27", "Q145", "P31"]},
        {"backward": False, "path": ["P19", "Q350", "P17"]},
        {"backward": True, "path": ["P31", "Q145", "P6"]},
    ]


def test_date_is_found_as_statement_and_as_qualifier(ask, server):
    born, school = ask([literal(42, PartialDate(1952, 3, 11)), literal(42, PartialDate(1974))])
    assert born == [
        {
            "path": ["P569"],
            "qualifier": None,
            "statement": "q42-D840",
            "value": "1952-03-11T00:00:00Z",
            "precision": 11,
            "unit": None,
            "main": None,
        }
    ]
    assert [(result["qualifier"], result["statement"], result["precision"], result["main"]) for result in school] == [
        ("P580", "Q42-5A1B", None, None),
        ("P582", "q42-0E9C", 9, "Q691283"),
    ]
    assert len(server.seen) == 1, "one query for dates of all precisions"


def test_date_is_found_at_its_precision(ask):

    # one query, since rdflib parses slowly
    expected = {
        PartialDate(1952): 1,
        PartialDate(1952, 3): 1,
        PartialDate(1952, 3, 11): 1,
        PartialDate(1952, 3, 12): 0,
        PartialDate(1952, 4): 0,
        PartialDate(952): 0,
        PartialDate(19522): 0,
        PartialDate(1971): 1,
        PartialDate(1971, 1): 0,
    }
    bodies = ask([literal(42, wanted) for wanted in expected])
    assert dict(zip(expected, map(len, bodies), strict=True)) == expected


def test_value_with_several_meanings_is_returned_with_each(ask):
    day, month, year = ask(
        [literal(64, PartialDate(1961, 8, 13)), literal(64, PartialDate(1961, 8)), literal(64, PartialDate(1961))]
    )
    assert [result["precision"] for result in day] == [11]
    assert [(result["value"][:10], result["precision"]) for result in month] == [
        ("1961-08-01", None),
        ("1961-08-13", 10),
        ("1961-08-13", 11),
    ]
    assert year == month


def test_two_hop_paths_reach_values_of_another_item(ask):
    wedding, death = ask([literal(42, PartialDate(2001, 5, 11), 2), literal(42, PartialDate(-43), 2)])
    assert [(result["path"], result["qualifier"], result["main"]) for result in wedding] == [
        (["P26", "Q14623681", "P26"], "P582", "Q42")
    ]
    assert [(result["path"], result["statement"], result["value"]) for result in death] == [
        (["P26", "Q14623681", "P571"], None, "-0043-03-15T00:00:00Z")
    ]


def test_astronomical_years_and_dates_of_old_dumps_are_found(ask):
    bang, month, year = ask(
        [literal(90, PartialDate(-13_798_000_000)), literal(90, PartialDate(900, 1)), literal(90, PartialDate(900))]
    )
    assert [result["value"] for result in bang] == ["-13798000000-01-01T00:00:00Z"]
    assert month == []
    assert [result["value"] for result in year] == ["0900-00-00T00:00:00Z"]


def test_number_is_found_by_value_and_unit(ask):
    expected = [
        (42, WantedNumberWithUnit("1.96"), [("P2048", None, "1.96", "Q11573")]),
        (42, WantedNumberWithUnit("1.96", 11573), [("P2048", None, "1.96", "Q11573")]),
        (42, WantedNumberWithUnit("1.96", 1), []),
        (42, WantedNumberWithUnit("2"), []),
        (64, WantedNumberWithUnit("3755251"), [("P1082", None, "3755251", None)]),
        (64, WantedNumberWithUnit("0.5"), [("P1082", "P2048", "0.5", "Q11573")]),
        (90, WantedNumberWithUnit("2102650"), [("P1082", None, "2102650", None)]),
        (
            525,
            WantedNumberWithUnit("1988400000000000000000000000000"),
            [("P2067", None, "1988400000000000000000000000000", "Q11570")],
        ),
        (
            525,
            WantedNumberWithUnit("-0.0000000000000000000000000000000000662607015"),
            [("P2067", None, "-0.0000000000000000000000000000000000662607015", None)],
        ),
        (525, WantedNumberWithUnit("0"), []),
    ]
    bodies = ask([literal(subject, wanted) for subject, wanted, _ in expected])
    found = [[(row["path"][-1], row["qualifier"], row["value"], row["unit"]) for row in body] for body in bodies]
    assert found == [result for _, _, result in expected]


def test_main_number_of_number_qualifier_is_in_canonical_form(ask):
    (body,) = ask([literal(64, WantedNumberWithUnit("0.5"))])
    assert body[0]["main"] == "3755251"


def test_unlisted_qualifier_properties_are_ignored(ask):
    calls = [
        make_literal_paths_call(HERE, 42, PartialDate(1974), frozenset(each), 1) for each in ({582}, {58, 5, 82}, set())
    ]
    bodies = ask(calls)
    assert [[result["qualifier"] for result in body] for body in bodies] == [["P582"], [], []]


@pytest.mark.parametrize("engine", ["oxigraph"], indirect=True)
def test_paths_of_all_graph_pairs_match_reference_finder(ask, plain):
    items = [42, 64, 84, 90, 145, 183, 350, 525, 14623681, 999]
    dates = [
        PartialDate(1952),
        PartialDate(1961, 8),
        PartialDate(1974),
        PartialDate(1971, 1, 1),
        PartialDate(2001),
        PartialDate(-43),
        PartialDate(-13_798_000_000),
    ]
    numbers = [
        WantedNumberWithUnit("1.96"),
        WantedNumberWithUnit("891", 712226),
        WantedNumberWithUnit("0.5"),
        WantedNumberWithUnit("2102650"),
        WantedNumberWithUnit("3755251"),
    ]
    pairs = [(one, other) for one in items for other in items if one != other]
    found = 0
    for hops in (1, 2):
        rows = [
            parse_item_paths(body)
            for body in ask([make_fixed_hops_item_paths_call(HERE, *pair, hops) for pair in pairs])
        ]
        assert rows == [plain.find_item_rows(*pair, hops) for pair in pairs]
        found += sum(map(len, rows))
        for values, properties in ((dates, TIMES), (numbers, NUMBERS)):
            asked = [(item, value) for item in items for value in values]
            rows = [parse_literal_paths(body) for body in ask([literal(*pair, hops) for pair in asked])]
            assert rows == [plain.find_literal_rows(*pair, properties, hops) for pair in asked]
            found += sum(map(len, rows))
    assert found > 60


@pytest.mark.parametrize(
    "parts",
    [
        {"subject": "Q42 } #", "object": "Q1", "hops": 1},
        {"subject": "Q42", "object": "P1", "hops": 1},
        {"subject": "Q42", "object": "Q1", "hops": 3},
        {"subject": "Q42", "date": "1952-3", "properties": ["P569"], "hops": 1},
        {"subject": "Q42", "date": "1952", "properties": ['P569 " } #'], "hops": 1},
        {"subject": "Q42", "number": "+5", "unit": None, "properties": ["P2048"], "hops": 2},
    ],
    ids=str,
)
def test_invalid_values_fail_alone_and_are_not_sent(server, limits, inbox, parts):
    server.handle = lambda _: {"json": {"results": {"bindings": []}}}
    operation = next(name for name in ("object", "date", "number") if name in parts)
    bad = Call(HERE, {"object": "item", "date": "date", "number": "number"}[operation] + "_paths", parts)
    good = make_fixed_hops_item_paths_call(HERE, 1, 2, 1)
    SparqlClient("Wikidata", server.url, HERE, limits, AGENT).send([bad, good], inbox)
    assert inbox[bad].error.startswith("bad_value")
    assert (inbox[good].body, len(server.seen)) == ([], 1)


def test_malformed_solutions_are_skipped(server, limits, inbox):
    def uri(iri):
        return {"type": "uri", "value": iri}

    claim = "http://www.wikidata.org/prop/direct/P27"
    wd = "http://www.wikidata.org/entity/"
    ends = {"start": uri(f"{wd}Q1"), "end": uri(f"{wd}Q2")}
    server.handle = lambda _: {
        "json": {
            "results": {
                "bindings": [
                    {**ends, "property_1": uri("http://www.wikidata.org/prop/direct-normalized/P27")},
                    {**ends, "start": uri(f"{wd}L1"), "property_1": uri(claim)},
                    {**ends, "property_1": uri(claim)},
                    {**ends, "property_1": uri(claim)},
                ]
            }
        }
    }
    call = make_fixed_hops_item_paths_call(HERE, 1, 2, 1)
    SparqlClient("Wikidata", server.url, HERE, limits, AGENT).send([call], inbox)
    assert inbox[call].body == [{"backward": False, "path": ["P27"]}]


def test_rejects_operation_without_query(server, limits):
    client = SparqlClient("Wikidata", server.url, HERE, limits, AGENT)
    for operation in ("no_such_operation", "pageviews"):
        with pytest.raises(ValueError, match=f"SPARQL endpoint cannot answer {operation}"):
            client.send([Call(HERE, operation, {})], lambda *_: None)
