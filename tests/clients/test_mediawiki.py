"""Test MediaWiki API errors, in both formats and in the header: which are retried, stop the run, or concern one row."""

from typing import Any

import pytest

from factmill.tasks.clients.sending.sender import Retry
from factmill.tasks.clients.wikipedia import MediaWikiApi, PermanentFailureError, WikipediaClient
from factmill.tasks.core.calls.wikipedia import make_search_call
from factmill.tasks.errors import ServiceUnreachable

HERE = "test-wikipedia"
FOUND = {"json": {"query": {"search": [{"title": "Berlin"}]}}}
FORMATS: dict[str, Any] = {
    "bc": lambda code: {"error": {"code": code, "info": "words of the wiki", "*": "See the docs"}, "servedby": "mw1"},
    "plaintext": lambda code: {"errors": [{"code": code, "text": "words of the wiki", "module": "main"}]},
    "html, version 1": lambda code: {"errors": [{"code": code, "module": "main", "*": "words of the wiki"}]},
    "html": lambda code: {"errors": [{"code": code, "html": "words of the wiki", "module": "main"}]},
    "raw": lambda code: {"errors": [{"code": code, "key": "words of the wiki", "params": [], "module": "main"}]},
}
PASSING = (
    *("maxlag", "ratelimited", "readonly", "timeouterror", "internal_api_error_DBQueryError", "internal_api_error"),
    *("cirrussearch-too-busy-error", "cirrussearch-too-busy-for-you-anonymous-error", "cirrussearch-backend-error"),
)
STOPPING = {
    **dict.fromkeys(
        ("blocked", "autoblocked", "wikimedia-globalblocking-ipblocked-range"), "blocks your address or account"
    ),
    "mwoauth-invalid-authorization": "refuses the token",
}


@pytest.fixture
def wiki(server, limits):
    return MediaWikiApi(server.url, "the wiki", limits, "factmill-tests")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("code", PASSING)
def test_busy_wiki_errors_are_retried(wiki, server, code, form):
    server.script({"json": FORMATS[form](code)})
    with pytest.raises(Retry, match="words of the wiki") as raised:
        wiki.get("query")
    assert raised.value.code == code
    is_about_load = code in ("maxlag", "ratelimited", "timeouterror") or "too-busy" in code
    assert raised.value.is_overload == is_about_load


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("code", STOPPING)
def test_block_and_refused_token_stop_run_after_one_request(server, limits, inbox, code, form):
    server.script({"json": FORMATS[form](code)})
    client = WikipediaClient(server.url, HERE, limits.model_copy(update={"parallel": 1}), "factmill-tests")
    with pytest.raises(ServiceUnreachable, match=f"{STOPPING[code]} .{code}.: words of the wiki"):
        client.send([make_search_call(HERE, word, 3) for word in ("one", "two", "three")], inbox)
    assert len(server.seen) == 1


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("code", ["badvalue", "cirrussearch-parse-error", "blockedtoken", "maxlags"])
def test_all_other_errors_are_final_for_their_row(wiki, server, code, form):
    server.script({"json": FORMATS[form](code)})
    with pytest.raises(PermanentFailureError, match=f"{code}: words of the wiki"):
        wiki.get("query")


def test_blocking_or_transient_error_takes_precedence_over_others(wiki, server):
    errors = [{"code": code, "text": code.upper()} for code in ("badvalue", "readonly", "autoblocked")]
    server.script({"json": {"errors": errors[:2]}}, {"json": {"errors": errors}})
    with pytest.raises(Retry, match="readonly: READONLY"):
        wiki.get("query")
    with pytest.raises(ServiceUnreachable, match="AUTOBLOCKED"):
        wiki.get("query")


@pytest.mark.parametrize("body", [{"text": "<html>sorry"}, {"json": FORMATS["bc"]("ratelimited")}, {"text": "{}"}])
@pytest.mark.parametrize("status", [200, 429, 503])
def test_error_header_overrides_body_and_retry_after_is_kept(wiki, server, status, body):
    headers = {"MediaWiki-API-Error": "badvalue, ratelimited", "Retry-After": "7"}
    server.script({"status": status, "headers": headers, **body})
    with pytest.raises(Retry) as raised:
        wiki.get("query")
    assert (raised.value.code, raised.value.retry_after_s) == ("ratelimited", 7.0)


@pytest.mark.parametrize(
    "errors",
    [{"error": "x"}, {"error": None}, {"error": {}}, {"errors": 5}, {"errors": ["x"]}, {"errors": [{"code": ["a"]}]}],
)
def test_errors_in_undocumented_formats_are_retried(wiki, server, errors):
    server.script({"json": errors})
    with pytest.raises(Retry, match="malformed_reply: expected errors with codes"):
        wiki.get("query")


def test_unknown_error_header_leaves_decision_to_status(wiki, server):
    server.script({"status": 503, "headers": {"MediaWiki-API-Error": "strange"}, "text": "down"})
    with pytest.raises(Retry, match="http_503: down"):
        wiki.get("query")


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 429, "text": "slow down"},
        {"status": 503, "text": "Waiting for db1", "headers": {"X-Database-Lag": "7"}},
        {"json": FORMATS["bc"]("ratelimited")},
        {"json": FORMATS["plaintext"]("maxlag")},
    ],
    ids=["429", "503 maxlag", "ratelimited", "maxlag"],
)
def test_refusal_without_retry_after_pauses_all_requests_of_service(server, limits, inbox, answer):
    server.script(answer, FOUND)
    client = WikipediaClient(
        server.url, HERE, limits.model_copy(update={"parallel": 1, "backoff_s": 0.3}), "factmill-tests"
    )
    client.send([make_search_call(HERE, word, 3) for word in ("one", "two", "three")], inbox)
    assert all(reply.status == "ok" for reply in inbox.replies.values())
    words = [each.query["srsearch"] for each in server.seen]
    assert sorted(words) == sorted(["one", "two", "three", words[0]])
    assert server.seen[1].at - server.seen[0].at >= 0.3 - 0.002


def test_user_agent_refusal_by_wikimedia_names_setting_to_write(server, limits, inbox):
    server.script({"status": 403, "text": "Please set a user-agent and respect our robot policy."})
    with pytest.raises(ServiceUnreachable, match=r'HTTP 403: Please.*user_agent = "factmill'):
        WikipediaClient(server.url, HERE, limits, "factmill").send([make_search_call(HERE, "one", 3)], inbox)
