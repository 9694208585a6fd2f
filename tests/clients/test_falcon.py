"""Falcon: sent as its contract says, tried twice with growing time-outs."""

import pytest

from tasks.clients.falcon import Falcon
from tasks.core.falcon_calls import Link, call_link, read_links

HERE = "test-falcon"
FOUND = {"json": {"entities_wikidata": [{"URI": "http://www.wikidata.org/entity/Q64", "surface form": "Berlin"}]}}


@pytest.fixture
def client(server, limits):
    return Falcon(f"{server.url}/falcon2/", HERE, limits.model_copy(update={"attempts": 2}), "tests", (0.2, 0.6))


def test_a_text_is_linked(client, server, inbox):
    call = call_link(HERE, 'Who founded "Berlin"?', 2)
    server.script(FOUND)
    client.send([call], inbox)
    assert read_links(inbox[call].body).items == (Link("Q64", "Berlin"),)
    sent = server.seen[0]
    assert (sent.method, sent.path, sent.query) == ("POST", "/falcon2/api", {"mode": "long", "k": "2", "db": "1"})
    assert sent.json() == {"text": 'Who founded "Berlin"?'}
    assert sent.headers["content-type"] == "application/json"
    assert sent.headers["user-agent"] == "tests"


def test_the_second_try_waits_longer(client, server, inbox):
    server.script({**FOUND, "delay_s": 0.4})
    call = call_link(HERE, "x")
    client.send([call], inbox)
    assert inbox[call].status == "ok"
    assert len(server.seen) == 2


def test_no_answer_in_time_is_a_failure_that_may_pass(client, server, inbox):
    server.script({**FOUND, "delay_s": 1.0})
    call = call_link(HERE, "x")
    client.send([call], inbox)
    assert inbox[call].error == "timeout: no answer within 0.6 s"
    assert inbox[call].transient


@pytest.mark.parametrize(
    ("answer", "code", "tries", "transient"),
    [
        ({"status": 500, "text": "oops"}, "http_500", 2, True),
        ({"status": 404, "text": "gone"}, "http_404", 1, False),
        ({"text": "<html>down"}, "html_instead_of_json", 2, True),
        ({"json": []}, "malformed_reply", 2, True),
        ({"cut": True}, "connection_cut", 2, True),
        ({**FOUND, "truncate": True}, "connection_cut", 2, True),
    ],
)
def test_trouble_has_a_cause(client, server, inbox, answer, code, tries, transient):
    server.script(answer)
    call = call_link(HERE, "x")
    client.send([call], inbox)
    assert (inbox[call].error.partition(":")[0], inbox[call].transient) == (code, transient)
    assert len(server.seen) == tries
