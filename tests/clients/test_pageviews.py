"""Test page views: summed over the days that the API lists, null where it lists none."""

import threading
from typing import Any

import pytest
from support.webs.loopback import Seen

from factmill.tasks.clients.pageviews import PageviewsClient
from factmill.tasks.core.calls.pageviews import make_pageviews_call

HERE = "test-pageviews"
DAYS = {"json": {"items": [{"timestamp": "2025010100", "views": 7}, {"timestamp": "2025010300", "views": 35}]}}


def ask(title):
    return make_pageviews_call(HERE, title, "20250101", "20250103")


@pytest.fixture
def client(server, limits):
    return PageviewsClient(f"{server.url}/api/rest_v1/", HERE, limits, "factmill-tests (someone@example.org)")


def test_views_are_summed_over_listed_days(client, server, inbox):
    server.script(DAYS)
    client.send([ask("Berlin")], inbox)
    assert inbox[ask("Berlin")].body == {"views": 42, "days": 2}
    assert server.seen[0].headers["user-agent"] == "factmill-tests (someone@example.org)"


def test_article_unknown_to_api_has_no_views(client, server, inbox):
    server.script({"status": 404, "json": {"title": "Not found."}, "type": "application/problem+json"})
    client.send([ask("Nope")], inbox)
    assert (inbox[ask("Nope")].status, inbox[ask("Nope")].body) == ("ok", None)


def test_http_404_not_sent_by_api_is_failure(client, server, inbox):
    server.script({"status": 404, "text": "<html>wrong address"})
    client.send([ask("Berlin")], inbox)
    assert inbox[ask("Berlin")].error.startswith("http_404")


@pytest.mark.parametrize(
    ("title", "quoted"),
    [
        ("New York City", "New_York_City"),
        ("AC/DC", "AC%2FDC"),
        ("Who's Afraid?", "Who%27s_Afraid%3F"),
        ("100% & more", "100%25_%26_more"),
        ("%2F", "%252F"),
        ("Ōsaka", "%C5%8Csaka"),
        ("C#", "C%23"),
        ("a+b;c", "a%2Bb%3Bc"),
    ],
)
def test_titles_are_url_quoted(client, server, inbox, title, quoted):
    server.script(DAYS)
    client.send([ask(title)], inbox)
    assert server.seen[0].path == (
        f"/api/rest_v1/metrics/pageviews/per-article/en.wikipedia/all-access/user/{quoted}/daily/20250101/20250103"
    )


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"json": {"items": [{"day": 1}]}}, "malformed_reply"),
        ({"status": 429, "text": "slow", "headers": {"Retry-After": "0.05"}}, "http_429"),
    ],
)
def test_transient_failure_is_retried_then_fails_and_remains_retryable(client, server, inbox, answer, code):
    server.script(answer)
    client.send([ask("A")], inbox)
    assert (inbox[ask("A")].error.partition(":")[0], inbox[ask("A")].transient) == (code, True)
    assert len(server.seen) == 3
    server.script(answer, DAYS)
    client.send([ask("B")], inbox)
    assert inbox[ask("B")].body == {"views": 42, "days": 2}


def test_requests_run_in_parallel_up_to_limit(client, server, inbox):
    is_full = threading.Event()

    def answer(_: Seen) -> dict[str, Any]:
        if server.most_at_once == 4:
            is_full.set()
        return {**DAYS, "until": is_full}

    server.handle = answer
    client.send([ask(f"T{number}") for number in range(20)], inbox)
    assert [reply.status for reply in inbox.replies.values()] == ["ok"] * 20
    assert server.most_at_once == 4
