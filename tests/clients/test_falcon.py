"""Test the Falcon client: requests follow its contract, with two attempts and growing time-outs."""

import threading

import pytest

from factmill.tasks.clients.falcon import LINK_LIST_KEYS, FalconEntityLinkingClient
from factmill.tasks.core.calls.entity_linking import (
    EntityLinkingResult,
    EntityOrRelationCandidate,
    make_entity_and_relation_linking_call,
    parse_entity_linking_result,
)

HERE = "test-falcon"
FOUND = {"json": {"entities_wikidata": [{"URI": "http://www.wikidata.org/entity/Q64", "surface form": "Berlin"}]}}


@pytest.fixture
def client(server, limits):
    return open_client(server, limits, 60.0)


def open_client(server, limits, timeout_s):
    result = limits.model_copy(update={"attempts": 2, "timeout_s": timeout_s})
    return FalconEntityLinkingClient(f"{server.url}/falcon2/", HERE, result, "tests")


def test_entity_in_text_is_linked(client, server, inbox):
    call = make_entity_and_relation_linking_call(HERE, 'Who founded "Berlin"?', 2)
    server.script(FOUND)
    client.send([call], inbox)
    assert parse_entity_linking_result(inbox[call].body).items == (EntityOrRelationCandidate("Q64", "Berlin"),)
    sent = server.seen[0]
    assert (sent.method, sent.path, sent.query) == ("POST", "/falcon2/api", {"mode": "long", "k": "2", "db": "1"})
    assert sent.json() == {"text": 'Who founded "Berlin"?'}
    assert sent.headers["content-type"] == "application/json"
    assert sent.headers["user-agent"] == "tests"


ALL_OF_TODAY = {
    "entities_wikidata": [{"URI": "http://www.wikidata.org/entity/Q64", "surface form": "Berlin"}],
    "relations_wikidata": [{"URI": "http://www.wikidata.org/entity/P112", "surface form": "founded"}],
    "entities_dbpedia": [{"URI": "http://dbpedia.org/resource/Berlin", "surface form": "Berlin"}],
    "relations_dbpedia": [{"URI": "http://dbpedia.org/ontology/founder", "surface form": "founded"}],
}
ALL_OF_2020 = {
    "entities_wikidata": [["<http://www.wikidata.org/entity/Q64>", "Berlin"]],
    "relations_wikidata": [["founded", "<http://www.wikidata.org/entity/P112>"]],
    "entities_dbpedia": [["Berlin", "http://dbpedia.org/resource/Berlin"]],
    "relations_dbpedia": [["<http://dbpedia.org/ontology/founder>", "founded"]],
}
LINKED = EntityLinkingResult(
    (EntityOrRelationCandidate("Q64", "Berlin"),),
    (EntityOrRelationCandidate("P112", "founded"),),
    (EntityOrRelationCandidate("http://dbpedia.org/resource/Berlin", "Berlin"),),
    (EntityOrRelationCandidate("http://dbpedia.org/ontology/founder", "founded"),),
)


@pytest.mark.parametrize("reply", [ALL_OF_TODAY, ALL_OF_2020], ids=["objects", "pairs"])
def test_responses_of_both_formats_are_recorded_unchanged_and_parse_alike(client, server, inbox, reply):
    server.script({"json": reply})
    call = make_entity_and_relation_linking_call(HERE, "Who founded Berlin?")
    client.send([call], inbox)
    assert inbox[call].body == reply
    assert parse_entity_linking_result(inbox[call].body) == LINKED


@pytest.mark.parametrize("nothing", [[], None, "missing"], ids=str)
@pytest.mark.parametrize("key", LINK_LIST_KEYS)
def test_each_link_list_may_be_empty_null_or_missing(client, server, inbox, key, nothing):
    reply = {**ALL_OF_TODAY, key: nothing}
    server.script({"json": {name: found for name, found in reply.items() if found != "missing"}})
    call = make_entity_and_relation_linking_call(HERE, "Who founded Berlin?")
    client.send([call], inbox)
    links = parse_entity_linking_result(inbox[call].body)
    found = dict(
        zip(
            LINK_LIST_KEYS,
            (links.items, links.properties, links.dbpedia_entities, links.dbpedia_relations),
            strict=True,
        )
    )
    assert [name for name, there in found.items() if not there] == [key]


def test_first_attempt_times_out_at_half_of_configured_timeout(server, limits, inbox):
    client = open_client(server, limits, 6.0)
    assert client._sender._timeouts_s == (3.0, 6.0)
    answered = threading.Event()
    server.script({**FOUND, "until": answered}, FOUND)
    call = make_entity_and_relation_linking_call(HERE, "x")
    client.send([call], inbox)
    answered.set()
    assert inbox[call].status == "ok"
    assert len(server.seen) == 2


@pytest.mark.parametrize(
    ("answer", "code", "tries", "transient"),
    [
        ({"status": 404, "text": "gone"}, "http_404", 1, False),
        ({"json": []}, "malformed_reply", 2, True),
        ({"json": None}, "malformed_reply", 2, True),
        ({"json": {"entities_wikidata": 5}}, "malformed_reply", 2, True),
        ({"json": {"entities_dbpedia": "Berlin"}}, "malformed_reply", 2, True),
        ({"json": {"relations_wikidata": {"URI": "x"}}}, "malformed_reply", 2, True),
        ({"text": ""}, "broken_json", 2, True),
        ({"status": 302, "text": "", "headers": {"Location": "/elsewhere"}}, "http_302", 2, True),
    ],
)
def test_failure_reports_code_attempts_and_whether_it_is_transient(
    client, server, inbox, answer, code, tries, transient
):
    server.script(answer)
    call = make_entity_and_relation_linking_call(HERE, "x")
    client.send([call], inbox)
    assert (inbox[call].error.partition(":")[0], inbox[call].transient) == (code, transient)
    assert len(server.seen) == tries
