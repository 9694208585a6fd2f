"""Test path queries in SPARQL on small random graphs: they find exactly what the plain finder finds."""

import string

import numpy as np
import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs.plain_paths import PlainPaths
from support.webs.wikidata_web import answer_together

from factmill.tasks.core.calls.call import CallResponse
from factmill.tasks.core.calls.path_calls import WikidataCallPathFinder
from factmill.tasks.core.wikidata_paths import PathSearchOptions
from factmill.tasks.text.values.wikidata_literals import PartialDate, WantedNumberWithUnit

WD, PROP, WIKIBASE = "http://www.wikidata.org/entity/", "http://www.wikidata.org/prop/", "http://wikiba.se/ontology#"
DATE, DECIMAL = (ox.NamedNode(f"http://www.w3.org/2001/XMLSchema#{kind}") for kind in ("dateTime", "decimal"))
ITEMS, PROPERTIES = range(1, 5), range(1, 4)
DATES = [PartialDate(2000), PartialDate(2000, 1), PartialDate(2000, 1, 2), PartialDate(-5), PartialDate(12345, 6, 7)]
NUMBERS = [
    WantedNumberWithUnit("1"),
    WantedNumberWithUnit("-1.5"),
    WantedNumberWithUnit("1", 5),
    WantedNumberWithUnit("123456789012345678901234567890.5"),
]

items, properties = st.sampled_from(ITEMS), st.sampled_from(PROPERTIES)
DAYS = ("2000-01-01", "2000-01-02", "2001-01-01", "-0005-03-04", "12345-06-07", "2000-00-00")
dates = st.sampled_from(DAYS).map(lambda day: ox.Literal(f"{day}T00:00:00Z", datatype=DATE))
numbers = st.sampled_from(["+1", "1.0", "-1.50", "+2", "+123456789012345678901234567890.5"]).map(
    lambda text: ox.Literal(text, datatype=DECIMAL)
)
statements = st.sampled_from(string.ascii_uppercase[:4])
nodes = st.sampled_from("xyz")


def item(number):
    return ox.NamedNode(f"{WD}Q{number}")


def statement(name):
    return ox.NamedNode(f"{WD}statement/{name}")


def node(name):
    return ox.NamedNode(f"http://www.wikidata.org/value/{name}")


def predicate(namespace, number):
    return ox.NamedNode(f"{PROP}{namespace}P{number}")


def about(name):
    return ox.NamedNode(f"{WIKIBASE}{name}")


targets = items.map(item) | dates | numbers | st.just(ox.Literal("text")) | st.just(ox.BlankNode("unknown"))
triples = st.one_of(
    st.builds(lambda s, p, o: ox.Triple(item(s), predicate("direct/", p), o), items, properties, targets),
    st.builds(lambda s, p, o: ox.Triple(item(s), predicate("", p), statement(o)), items, properties, statements),
    st.builds(lambda s, p, o: ox.Triple(statement(s), predicate("statement/", p), o), statements, properties, targets),
    st.builds(lambda s, p, o: ox.Triple(statement(s), predicate("qualifier/", p), o), statements, properties, targets),
    st.builds(
        lambda s, p, o: ox.Triple(statement(s), predicate("statement/value/", p), node(o)),
        statements,
        properties,
        nodes,
    ),
    st.builds(
        lambda s, p, o: ox.Triple(statement(s), predicate("qualifier/value/", p), node(o)),
        statements,
        properties,
        nodes,
    ),
    st.builds(lambda s: ox.Triple(statement(s), about("rank"), about("DeprecatedRank")), statements),
)
# each value node has one meaning, as in Wikidata
meanings = st.fixed_dictionaries(
    {
        name: st.tuples(dates, st.none() | st.integers(7, 11)) | st.tuples(numbers, st.sampled_from([5, 199]))
        for name in "xyz"
    }
)


def describe(name, value, meaning):
    if value.datatype == DATE:
        yield ox.Triple(node(name), about("timeValue"), value)
        if meaning is not None:
            yield ox.Triple(node(name), about("timePrecision"), ox.Literal(meaning))
    else:
        yield ox.Triple(node(name), about("quantityAmount"), value)
        yield ox.Triple(node(name), about("quantityUnit"), item(meaning))


def make_asker(store):
    def ask(calls):
        by_query = {}
        for call in calls:
            by_query.setdefault((call.operation, call.parts["hops"]), []).append(call)
        replies = {}
        for group in by_query.values():
            replies |= {
                call.key: CallResponse(body) for call, body in zip(group, answer_together(store, group), strict=True)
            }
        return [replies[call.key] for call in calls]

    return ask


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(triples, max_size=40), meanings)
def test_paths_in_random_graphs_match_reference_finder(lines, said):
    lines += [line for name, (value, meaning) in said.items() for line in describe(name, value, meaning)]
    plain, store = PlainPaths(dict.fromkeys(lines)), ox.Store()
    store.extend(ox.Quad(line.subject, line.predicate, line.object) for line in lines)
    finder, options = (
        WikidataCallPathFinder(make_asker(store), "here"),
        PathSearchOptions(always_two_hops=True, max_paths=None),
    )
    pairs = [(one, other) for one in ITEMS for other in ITEMS if one != other]
    found = finder.find_item_paths(*as_arrays(pairs), options)
    assert rows_of(found) == [
        (at, *row) for at, pair in enumerate(pairs) for hops in (1, 2) for row in plain.find_item_rows(*pair, hops)
    ]
    listed = frozenset({1, 2})
    for wanted in (DATES, NUMBERS):
        asked = [(one, value) for one in ITEMS for value in wanted]
        subjects, values = as_arrays([(one, 0) for one, _ in asked])[0], [value for _, value in asked]
        found = finder.find_literal_paths(subjects, values, listed, options)
        assert rows_of(found) == [
            (at, *row)
            for at, pair in enumerate(asked)
            for hops in (1, 2)
            for row in plain.find_literal_rows(*pair, listed, hops)
        ]


def as_arrays(pairs):
    return tuple(np.array(side, np.int64) for side in zip(*pairs, strict=True))


def rows_of(found):
    return [tuple(line.values()) for line in found.paths.to_pylist()]
