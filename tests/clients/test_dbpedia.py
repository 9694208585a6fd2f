"""DBpedia: resources of any title are asked for as they are, many in one query, each answered or failed for itself."""

import pytest
from support.webs.loopback import Seen
from support.webs.wikidata_web import answer_from, open_store, read_query

from factmill.tasks.clients.sparql import SparqlClient
from factmill.tasks.core.calls.entity_linking import make_same_as_call, parse_same_as_item
from factmill.tasks.errors import ServiceUnreachable

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
"""Title of each resource; its item is the place in the list, from 1."""
EMPTY = {"json": {"head": {"vars": []}, "results": {"bindings": []}}}


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
def test_a_title_of_any_characters_is_asked_for_as_it_is(client, server, inbox, store, title):
    server.handle = answer_from(store)
    call = make_same_as_call(HERE, RESOURCE + title)
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
    call = make_same_as_call(HERE, RESOURCE + title)
    client.send([call], inbox)
    assert inbox[call].body == ["Q7"]


def test_all_titles_go_out_together_and_each_gets_its_own(client, server, limits, inbox, store):
    server.handle = answer_from(store)
    calls = [make_same_as_call(HERE, RESOURCE + title) for title in TITLES]
    client.send(calls, inbox)
    assert [inbox[call].body for call in calls] == [[f"Q{number}"] for number in range(1, len(TITLES) + 1)]
    assert len(server.seen) == -(-len(TITLES) // limits.batch)


def test_of_several_items_all_are_told_and_the_smallest_number_is_taken(client, server, inbox, store):
    server.handle = answer_from(store)
    call = make_same_as_call(HERE, f"{RESOURCE}Twins")
    client.send([call], inbox)
    assert inbox[call].body == ["Q77", "Q900"]
    assert parse_same_as_item(inbox[call].body) == "Q77"


def test_a_resource_without_an_item_is_an_answer_and_no_failure(client, server, inbox, store):
    server.handle = answer_from(store)
    call = make_same_as_call(HERE, f"{RESOURCE}Nobody_of_Note")
    client.send([call], inbox)
    assert (inbox[call].status, inbox[call].body) == ("ok", [])
    assert parse_same_as_item(inbox[call].body) is None


@pytest.mark.parametrize("title", ["a b", "<Berlin>", "x} ?y {", "a|b", "two\nlines"])
def test_what_no_iri_can_hold_fails_alone_and_is_never_sent(client, server, inbox, store, title):
    server.handle = answer_from(store)
    bad, good = make_same_as_call(HERE, RESOURCE + title), make_same_as_call(HERE, f"{RESOURCE}AT&T")
    client.send([bad, good], inbox)
    assert (inbox[bad].error.partition(":")[0], inbox[bad].transient) == ("bad_value", False)
    assert inbox[good].body == ["Q3"]
    assert [title in read_query(seen) for seen in server.seen] == [False]


def test_a_query_that_takes_too_long_is_halved(client, server, inbox, store):
    answer = answer_from(store)

    def answer_few(seen: Seen):
        return answer(seen) if read_query(seen).count(RESOURCE) <= 3 else {"status": 504, "text": "Gateway Time-out"}

    server.handle = answer_few
    calls = [make_same_as_call(HERE, RESOURCE + title) for title in TITLES[:8]]
    client.send(calls, inbox)
    assert [inbox[call].body for call in calls] == [[f"Q{number}"] for number in range(1, 9)]


@pytest.mark.parametrize(
    ("answer", "code", "tries", "transient"),
    [
        ({"status": 500, "text": "Virtuoso 42000 Error"}, "http_500", 3, True),
        ({"status": 503, "text": "down"}, "http_503", 3, True),
        ({"status": 400, "text": "Virtuoso 37000 Error SP030: SPARQL compiler"}, "http_400", 1, False),
        ({"text": "<html>The web-site you are currently trying to access is under maintenance"},
         "html_instead_of_json", 3, True),
        ({"json": {"results": {"bindings": [{"resource": {"value": "x"}}]}}}, "malformed_reply", 3, True),
        ({"cut": True}, "connection_cut", 3, True),
        ({**EMPTY, "truncate": True}, "truncated", 3, True),
    ],
)  # fmt: skip
def test_trouble_has_a_cause(client, server, inbox, answer, code, tries, transient):
    server.script(answer)
    call = make_same_as_call(HERE, f"{RESOURCE}Berlin")
    client.send([call], inbox)
    assert (inbox[call].error.partition(":")[0], inbox[call].transient) == (code, transient)
    assert len(server.seen) == tries


def test_an_endpoint_that_refuses_us_stops_the_run(client, server, inbox):
    server.script({"status": 403, "text": "blocked"})
    with pytest.raises(ServiceUnreachable, match=r"DBpedia at .* HTTP 403"):
        client.send([make_same_as_call(HERE, f"{RESOURCE}Berlin")], inbox)
