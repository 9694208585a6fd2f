"""Test redirects: clients follow them within a host, and send nothing to another host unless the world allows it."""

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from support.webs.every_client import CLIENTS, HERE, send_one
from support.webs.loopback import Seen

from factmill.tasks.clients.sending.budget import LazyBudgetedService
from factmill.tasks.clients.sending.response_limits import check_redirect
from factmill.tasks.core.spending.costs import BudgetLimits
from factmill.tasks.errors import BudgetExhausted, ServiceUnreachable


def redirect_to(url: str) -> Callable[[Seen], dict[str, object]]:
    return lambda _: {"status": 307, "headers": {"Location": f"{url}/elsewhere"}, "text": ""}


@pytest.mark.parametrize("name", CLIENTS)
def test_redirect_to_other_host_sends_no_request(name, server, other, limits, inbox):
    server.handle = redirect_to(other.url)
    host = urlsplit(other.url).netloc
    with pytest.raises(ServiceUnreachable, match=rf"redirects to http://{host}/elsewhere.*redirects = \[\"{host}\"\]"):
        send_one(name, server.url, limits, inbox)
    assert not other.seen
    assert len(server.seen) == 1


@pytest.mark.parametrize("name", [name for name in CLIENTS if name != "falcon"])
def test_redirect_to_allowed_host_is_followed(name, server, other, limits, inbox):
    server.handle = redirect_to(other.url)
    result = limits.model_copy(update={"redirects": (urlsplit(other.url).netloc,)})
    send_one(name, server.url, result, inbox)
    assert {seen.path for seen in other.seen} == {"/elsewhere"}


@pytest.mark.parametrize("name", ["wikidata", "dbpedia", "wikipedia", "pageviews", "chat"])
def test_redirects_within_host_are_followed(name, server, limits, inbox):
    open_client, make_call = CLIENTS[name]
    call = make_call("Berlin")
    status = 302 if name in ("wikidata", "dbpedia") else 307
    moved = {"status": status, "headers": {"Location": "/elsewhere"}, "text": ""}
    final = {"status": 400, "json": {"error": {"message": "no"}}}
    server.handle = lambda seen: final if seen.path == "/elsewhere" else moved
    service = LazyBudgetedService(HERE, True, lambda: open_client(server.url, limits))
    service.send([call], inbox)
    assert server.seen[-1].path == "/elsewhere"
    assert service.budget.requests == {HERE: len(server.seen)}, "a redirect counts as a request"
    service.budget.start_run(BudgetLimits(requests=len(server.seen) + 1))
    asked = len(server.seen)
    with pytest.raises(BudgetExhausted, match="--max-requests"):
        service.send([call], inbox)
    assert len(server.seen) == asked + 1


@pytest.mark.parametrize(
    ("asked", "leads_to"),
    [
        ("http://a.org/x", "https://a.org/y"),
        ("http://a.org:80/x", "http://A.org/y"),
        ("https://a.org", "https://a.org:443/z"),
        ("http://a.org", "https://b.org/z"),
    ],
)
def test_https_upgrades_and_allowed_hosts_pass(asked, leads_to):
    check_redirect("it", asked, leads_to, ("b.org",))


@pytest.mark.parametrize(
    ("asked", "leads_to", "message"),
    [
        ("https://a.org", "http://a.org/x", "it redirects to http://a.org/x, .*unencrypted"),
        ("https://a.org", "http://b.org/x", "unencrypted"),
        ("http://a.org", "http://a.org:8080/", "another host"),
        ("http://a.org", "http://user:pw@evil.org/", "redirects to http://evil.org/, another host"),
        ("http://a.org", "http://a.org.evil.org/", "another host"),
        ("http://a.org", "file:///etc/passwd", "redirects to file://"),
    ],
)
def test_refused_redirect_is_explained_without_password(asked, leads_to, message):
    with pytest.raises(ServiceUnreachable, match=message) as caught:
        check_redirect("it", asked, leads_to, ("b.org",))
    assert "pw@" not in str(caught.value)


@pytest.mark.parametrize("moved", [{"status": 307, "headers": {"Location": "."}}, {"status": 302}])
@pytest.mark.parametrize("name", CLIENTS)
def test_redirect_to_nowhere_is_transient_failure(name, moved, server, limits, inbox):
    server.script({**moved, "text": ""})
    reply = inbox[send_one(name, server.url, limits, inbox)]
    assert (reply.status, reply.transient) == ("failed", True), reply
