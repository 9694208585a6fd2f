"""Tokens of services: sent to the service's own host alone, and hidden in whatever it says."""

from collections.abc import Callable

import pytest
from support.webs.loopback import Loopback

from tasks.assets import load_query
from tasks.clients.dbpedia import Dbpedia
from tasks.clients.falcon import Falcon
from tasks.clients.pageviews import Pageviews
from tasks.clients.wikidata.client import WikidataSparql
from tasks.clients.wikipedia import Wikipedia
from tasks.core.calls.call import Call, Service
from tasks.core.calls.dbpedia import call_same_as
from tasks.core.calls.falcon import call_link
from tasks.core.calls.knowledge import call_find_items, call_pageviews
from tasks.core.calls.wikipedia import call_resolve_title
from tasks.core.service_settings import Limits
from tasks.errors import ServiceUnreachable

HERE, AGENT, TOKEN = "test", "factmill-tests", "eyJ0eXAiOiJKV1Qi.c2VjcmV0LTAx.Zm9yZ2VkIQ"
CLIENTS: dict[str, tuple[Callable[[str, Limits, str], Service], Call]] = {
    "wikidata": (
        lambda url, limits, token: WikidataSparql(
            url, HERE, limits, AGENT, {"find_items": load_query("wikidata/find_items")}, token
        ),
        call_find_items(HERE, "Berlin"),
    ),
    "dbpedia": (
        lambda url, limits, token: Dbpedia(url, HERE, limits, AGENT, load_query("dbpedia/same_as"), token),
        call_same_as(HERE, "http://dbpedia.org/resource/Berlin"),
    ),
    "wikipedia": (
        lambda url, limits, token: Wikipedia(url, HERE, limits, AGENT, token),
        call_resolve_title(HERE, "Berlin"),
    ),
    "pageviews": (
        lambda url, limits, token: Pageviews(url, HERE, limits, AGENT, token),
        call_pageviews(HERE, "Berlin", "20250101", "20250103"),
    ),
    "falcon": (lambda url, limits, token: Falcon(url, HERE, limits, AGENT, token), call_link(HERE, "Berlin", 2)),
}


@pytest.fixture
def other():
    web = Loopback()
    web.script({"status": 400, "text": "reached the other host"})
    yield web
    web.close()


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("token", ["", TOKEN])
def test_requests_carry_the_token_and_without_one_nothing(name, token, server, limits, inbox, monkeypatch, tmp_path):
    # the requests library would take a password from here, and put it in the token's place
    (tmp_path / ".netrc").write_text("machine 127.0.0.1\nlogin someone\npassword of-another-program\n")
    if token:
        monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    server.script({"status": 400, "text": "no"})
    open_client, call = CLIENTS[name]
    open_client(server.url, limits, token).send([call], inbox)
    assert [seen.headers.get("authorization") for seen in server.seen] == [f"Bearer {token}" if token else None]


@pytest.mark.parametrize("name", [name for name in CLIENTS if name != "falcon"])
def test_no_token_follows_a_redirect_to_another_host_that_the_world_allows(name, server, other, limits, inbox):
    left = [{"status": 307, "headers": {"Location": "/here"}}, {"status": 307, "headers": {"Location": other.url}}]
    server.handle = lambda _: left.pop(0)
    allowed = limits.model_copy(update={"redirects": (f"127.0.0.1:{other.port}",)})
    open_client, call = CLIENTS[name]
    open_client(server.url, allowed, TOKEN).send([call], inbox)
    assert "reached the other host" in str(inbox[call].error)
    assert [seen.headers.get("authorization") for seen in server.seen] == [f"Bearer {TOKEN}"] * 2
    assert [seen.headers.get("authorization") for seen in other.seen] == [None]


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("status", [400, 503, 403])
def test_a_token_that_the_server_repeats_stands_in_no_message(name, status, server, limits, inbox, caplog):
    server.handle = lambda seen: {"status": status, "text": f"refused: {seen.headers['authorization']}"}
    open_client, call = CLIENTS[name]
    client = open_client(server.url, limits, TOKEN)
    if status == 403:
        with pytest.raises(ServiceUnreachable, match=r"refused: Bearer \*\*\*") as raised:
            client.send([call], inbox)
        assert TOKEN not in str(raised.value)
    else:
        client.send([call], inbox)
        assert "refused: Bearer ***" in inbox[call].error
    assert TOKEN not in caplog.text


def test_a_token_in_an_answer_is_not_recorded(server, limits, inbox):
    page = {"pageid": 5, "ns": 0, "title": "Berlin", "pageprops": {"wikibase_item": f"Q{TOKEN}"}}
    server.script({"json": {"query": {"pages": {"5": page}}}})
    open_client, call = CLIENTS["wikipedia"]
    open_client(server.url, limits, TOKEN).send([call], inbox)
    assert inbox[call].body["qid"] == "Q***"
