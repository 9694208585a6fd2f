"""Test the DBpedia client: titles are sent unchanged, many in one query, and each succeeds or fails on its own."""

import pytest
from support.webs.wikidata_web import answer_from, open_store, read_query

from factmill.tasks.clients.sparql import SparqlClient
from factmill.tasks.core.calls.entity_linking import make_same_wikidata_items_call, parse_same_as_item

HERE = "test-dbpedia"
RESOURCE = "http://dbpedia.org/resource/"
TITLES = [
    "Mercury_(planet)",
    "Washington,_D.C.",
    "AT&T",
    "E.T.",
    "Oh!",
    "O'Reilly",
    "C++",
    "100%25_Wolf",
    "%22Weird_Al%22_Yankovic",
    "Zoë",
    "Zo%C3%AB",
    "AC/DC",
    "東京",
    "~1*;=@$",
]
"""Titles of resources; the item of each is its place in the list, from 1."""


@pytest.fixture(scope="module")
def store():
    same = "<http://www.w3.org/2002/07/owl#sameAs>"
    links = [f"<{RESOURCE}{title}> {same} wd:Q{number}" for number, title in enumerate(TITLES, 1)]
    links += [
        f"<{RESOURCE}Twins> {same} {other}"
        for other in ("wd:Q900", "wd:Q77", "wd:P31", "<http://wikidata.dbpedia.org/resource/Q5>", "enwiki:Twins")
    ]
    return open_store("\n".join(links))


@pytest.fixture
def client(server, limits):
    return SparqlClient("DBpedia", f"{server.url}/sparql", HERE, limits, "factmill-tests (someone@example.org)")


@pytest.mark.parametrize("title", TITLES)
def test_title_with_special_characters_is_requested_unchanged(client, server, inbox, store, title):
    server.handle = answer_from(store)
    call = make_same_wikidata_items_call(HERE, RESOURCE + title)
    client.send([call], inbox)
    assert parse_same_as_item(inbox[call].body) == f"Q{TITLES.index(title) + 1}"
    assert f"<{RESOURCE}{title}>" in read_query(server.seen[0])


@pytest.mark.parametrize(
    ("title", "escaped"),
    [
        ("100%_Wolf", "100%25_Wolf"),
        ("50%", "50%25"),
        ("%G0", "%25G0"),
        ('"Weird_Al"_Yankovic', "%22Weird_Al%22_Yankovic"),
        ("a^b`c\\d", "a%5Eb%60c%5Cd"),
    ],
)
def test_characters_that_dbpedia_escapes_are_sent_escaped(client, server, inbox, title, escaped):
    server.handle = answer_from(open_store(f"<{RESOURCE}{escaped}> <http://www.w3.org/2002/07/owl#sameAs> wd:Q7"))
    call = make_same_wikidata_items_call(HERE, RESOURCE + title)
    client.send([call], inbox)
    assert inbox[call].body == ["Q7"]


def test_all_titles_are_sent_together_and_each_gets_its_own_result(client, server, limits, inbox, store):
    server.handle = answer_from(store)
    calls = [make_same_wikidata_items_call(HERE, RESOURCE + title) for title in TITLES]
    client.send(calls, inbox)
    assert [inbox[call].body for call in calls] == [[f"Q{number}"] for number in range(1, len(TITLES) + 1)]
    assert len(server.seen) == -(-len(TITLES) // limits.batch)


def test_several_items_are_all_recorded_and_smallest_number_is_used(client, server, inbox, store):
    server.handle = answer_from(store)
    call = make_same_wikidata_items_call(HERE, f"{RESOURCE}Twins")
    client.send([call], inbox)
    assert inbox[call].body == ["Q77", "Q900"]
    assert parse_same_as_item(inbox[call].body) == "Q77"


def test_resource_without_item_is_successful_empty_response(client, server, inbox, store):
    server.handle = answer_from(store)
    call = make_same_wikidata_items_call(HERE, f"{RESOURCE}Nobody_of_Note")
    client.send([call], inbox)
    assert (inbox[call].status, inbox[call].body) == ("ok", [])
    assert parse_same_as_item(inbox[call].body) is None


@pytest.mark.parametrize("title", ["a b", "<Berlin>", "x} ?y {", "a|b", "two\nlines"])
def test_title_invalid_in_iri_fails_alone_and_is_not_sent(client, server, inbox, store, title):
    server.handle = answer_from(store)
    bad, good = (
        make_same_wikidata_items_call(HERE, RESOURCE + title),
        make_same_wikidata_items_call(HERE, f"{RESOURCE}AT&T"),
    )
    client.send([bad, good], inbox)
    assert (inbox[bad].error.partition(":")[0], inbox[bad].transient) == ("bad_value", False)
    assert inbox[good].body == ["Q3"]
    assert [title in read_query(seen) for seen in server.seen] == [False]
