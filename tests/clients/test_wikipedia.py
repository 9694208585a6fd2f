"""Test the Wikipedia client against scripted responses of the MediaWiki API, in both JSON formats."""

import pytest

from factmill.tasks.clients.wikipedia import WikipediaClient
from factmill.tasks.core.calls.wikipedia import (
    PageReference,
    PageRevision,
    ResolvedTitle,
    make_category_members_call,
    make_page_revision_at_call,
    make_resolve_title_call,
    make_revision_html_call,
    make_search_call,
    parse_category_members,
    parse_page_revision_call_body,
    parse_resolve_title_body,
    parse_revision_html,
    parse_search_titles,
)

HERE = "test-wikipedia"
AT = "2023-11-20T00:00:00Z"


@pytest.fixture
def client(server, limits):
    return WikipediaClient(server.url, HERE, limits, "factmill-tests (someone@example.org)")


@pytest.fixture
def ask(client, server, inbox):
    """Answer one call with one scripted JSON response."""

    def body(call, *answers):
        server.script(*[{"json": answer} for answer in answers])
        client.send([call], inbox)
        assert inbox[call].status == "ok", inbox[call].error
        return inbox[call].body

    return body


def pages(form, *entries):
    """Return pages in formatversion 1 (an object by id, flags as empty texts) or 2 (a list, flags true)."""
    if form == 2:
        return list(entries)
    as_text = [{name: "" if value is True else value for name, value in page.items()} for page in entries]
    return {str(page.get("pageid", -number)): page for number, page in enumerate(as_text, 1)}


@pytest.mark.parametrize("form", [1, 2])
def test_revision_at_moment_is_found_after_normalisation_and_redirect(ask, server, form):
    page = {"pageid": 5, "ns": 0, "title": "Algebra", "revisions": [{"revid": 77, "timestamp": "2021-04-03T10:15:00Z"}]}
    answer = {
        "query": {
            "normalized": [{"from": "algebraic theory", "to": "Algebraic theory"}],
            "redirects": [{"from": "Algebraic theory", "to": "Algebra"}],
            "pages": pages(form, page),
        }
    }
    assert parse_page_revision_call_body(
        ask(make_page_revision_at_call(HERE, "algebraic_theory", AT), answer)
    ) == PageRevision("Algebra", 5, 77, "2021-04-03T10:15:00Z", "Algebraic theory", False)
    sent = server.seen[0]
    assert sent.path == "/w/api.php"
    assert sent.query["titles"] == "algebraic theory"
    assert {name: sent.query[name] for name in ("rvstart", "rvdir", "rvlimit", "maxlag")} == {
        "rvstart": AT,
        "rvdir": "older",
        "rvlimit": "1",
        "maxlag": "5",
    }
    assert sent.headers["user-agent"] == "factmill-tests (someone@example.org)"
    assert sent.headers["accept-encoding"] == "gzip"


def test_history_of_redirect_page_is_requested_without_following_redirects(ask, server):
    page = {"pageid": 9, "ns": 0, "title": "Algebraic theory", "revisions": [{"revid": 5, "timestamp": AT}]}
    answer = {"query": {"pages": pages(2, page)}}
    followed, alone = (
        make_page_revision_at_call(HERE, "A", AT),
        make_page_revision_at_call(HERE, "Algebraic theory", AT, False),
    )
    assert parse_page_revision_call_body(ask(alone, answer)) == PageRevision("Algebraic theory", 9, 5, AT, None, False)
    assert "redirects" not in server.seen[0].query
    # calls without the newer option keep their earlier keys
    assert dict(followed.parts) == {"title": "A", "at": AT}
    assert dict(alone.parts) == {"title": "Algebraic theory", "at": AT, "follow": False}


def test_redirects_to_nowhere_are_distinguished_from_bad_titles(client, server, inbox):
    call = make_page_revision_at_call(HERE, "Loop one", AT)
    circle = [{"from": "Loop one", "to": "Loop two"}, {"from": "Loop two", "to": "Loop one"}]
    server.script({"json": {"query": {"redirects": circle}}})
    client.send([call], inbox)
    assert inbox[call].error == "redirect_loop: 'Loop one' leads in circles, or out of this wiki"
    assert not inbox[call].transient


@pytest.mark.parametrize("form", [1, 2])
def test_missing_page_is_distinguished_from_page_younger_than_moment(ask, form):
    missing = {"query": {"pages": pages(form, {"ns": 0, "title": "Nope", "missing": True})}}
    young = {"query": {"pages": pages(form, {"pageid": 8, "ns": 0, "title": "Young"})}}
    assert parse_page_revision_call_body(ask(make_page_revision_at_call(HERE, "Nope", AT), missing)).missing
    born = {"pageid": 8, "ns": 0, "title": "Young", "revisions": [{"revid": 9, "timestamp": "2024-05-06T07:08:09Z"}]}
    answers = (young, {"query": {"pages": pages(form, born)}})
    assert parse_page_revision_call_body(ask(make_page_revision_at_call(HERE, "Young", AT), *answers)) == PageRevision(
        "Young", 8, None, None, None, False, "2024-05-06T07:08:09Z"
    )


@pytest.mark.parametrize("html", [{"*": "<p>Algebra"}, "<p>Algebra"])
def test_text_is_fetched_by_revision(ask, server, html):
    answer = {"parse": {"title": "Algebra", "pageid": 5, "revid": 77, "text": html}}
    text = parse_revision_html(ask(make_revision_html_call(HERE, 77, "Algebra"), answer))
    assert (text.revid, text.pageid, text.title, text.text) == (77, 5, "Algebra", "<p>Algebra")
    assert (server.seen[0].query["oldid"], server.seen[0].query["prop"]) == ("77", "text")


def test_wiki_error_is_final_and_keeps_its_code(client, server, inbox):
    call = make_revision_html_call(HERE, 1, "Algebra")
    server.script({"json": {"error": {"code": "nosuchrevid", "info": "There is no revision with ID 1."}}})
    client.send([call], inbox)
    assert inbox[call].error == "nosuchrevid: There is no revision with ID 1."
    assert (inbox[call].transient, len(server.seen)) == (False, 1)


def test_category_members_are_paginated(ask, server):
    first = {
        "continue": {"cmcontinue": "page|41|7", "continue": "-||"},
        "query": {"categorymembers": [{"pageid": 1, "ns": 0, "title": "Algebra"}]},
    }
    members = parse_category_members(ask(make_category_members_call(HERE, "Mathematics", limit=1), first))
    assert (members.members, members.after) == ((PageReference(1, "Algebra"),), "page|41|7")
    last = {"batchcomplete": "", "query": {"categorymembers": []}}
    call = make_category_members_call(HERE, "Mathematics", limit=1, after=members.after)
    assert parse_category_members(ask(call, last)).after is None
    assert [seen.query.get("cmcontinue") for seen in server.seen] == [None, "page|41|7"]
    assert server.seen[0].query["cmtitle"] == "Category:Mathematics"
    assert server.seen[0].query["cmnamespace"] == "0"


def test_subcategories_lose_their_prefix(ask, server):
    answer = {"query": {"categorymembers": [{"pageid": 9, "ns": 14, "title": "Category:Number theory"}]}}
    members = parse_category_members(ask(make_category_members_call(HERE, "Mathematics", "subcat"), answer))
    assert members.members == (PageReference(9, "Number theory"),)
    assert "cmnamespace" not in server.seen[0].query


@pytest.mark.parametrize("form", [1, 2])
def test_one_request_resolves_many_titles(client, server, inbox, form):
    server.script(
        {
            "json": {
                "query": {
                    "normalized": [{"from": "mercury", "to": "Mercury"}],
                    "redirects": [{"from": "NYC", "to": "New York City"}, {"from": "Big Apple", "to": "NYC"}],
                    "pages": pages(
                        form,
                        {"pageid": 1, "title": "Mercury", "pageprops": {"disambiguation": "", "wikibase_item": "Q48"}},
                        {"pageid": 2, "title": "New York City", "pageprops": {"wikibase_item": "Q60"}},
                        {"title": "Nope", "missing": True},
                        {"pageid": 4, "title": "Plain"},
                    ),
                }
            }
        }
    )
    wanted = {
        "mercury": ResolvedTitle("Mercury", 1, "Q48", True, None, False),
        "Mercury": ResolvedTitle("Mercury", 1, "Q48", True, None, False),
        "Big_Apple": ResolvedTitle("New York City", 2, "Q60", False, "Big Apple", False),
        "New York City": ResolvedTitle("New York City", 2, "Q60", False, None, False),
        "Nope": ResolvedTitle("Nope", None, None, False, None, True),
        "Plain": ResolvedTitle("Plain", 4, None, False, None, False),
    }
    calls = {title: make_resolve_title_call(HERE, title) for title in wanted}
    client.send(list(calls.values()), inbox)
    assert {title: parse_resolve_title_body(inbox[call].body) for title, call in calls.items()} == wanted
    assert len(server.seen) == 1
    assert server.seen[0].query["titles"] == "mercury|Mercury|Big Apple|New York City|Nope|Plain"


def test_page_properties_arriving_in_parts_are_merged(ask):
    first = {
        "continue": {"ppcontinue": "1", "continue": "||"},
        "query": {"pages": pages(1, {"pageid": 1, "title": "A", "pageprops": {"wikibase_item": "Q1"}})},
    }
    second = {"query": {"pages": pages(1, {"pageid": 1, "title": "A", "pageprops": {"disambiguation": ""}})}}
    resolved = parse_resolve_title_body(ask(make_resolve_title_call(HERE, "A"), first, second))
    assert (resolved.qid, resolved.is_disambiguation) == ("Q1", True)


def test_titles_are_batched_up_to_count_and_url_length_limits(server, limits, inbox):
    def answer(seen):
        titles = seen.query["titles"].split("|")
        return {"json": {"query": {"pages": pages(1, *[{"title": title, "missing": True} for title in titles])}}}

    server.handle = answer
    client = WikipediaClient(server.url, HERE, limits.model_copy(update={"batch": 500}), "tests")
    client.send([make_resolve_title_call(HERE, f"T{number}") for number in range(120)], inbox)
    assert sorted(len(seen.query["titles"].split("|")) for seen in server.seen) == [20, 50, 50]
    client.send([make_resolve_title_call(HERE, f"{number} {'ö' * 200}") for number in range(10)], inbox)
    assert max(len(seen.query["titles"].encode()) for seen in server.seen) < 5000
    assert {reply.status for reply in inbox.replies.values()} == {"ok"}


def test_impossible_titles_fail_alone(client, server, inbox):
    server.script({"json": {"query": {"pages": pages(1, {"pageid": 1, "title": "A"})}}})
    bad = [make_resolve_title_call(HERE, title) for title in ("a|b", "", " _ ", "<x>", "A#b")]
    bad.append(make_category_members_call(HERE, "a|b"))
    good = make_resolve_title_call(HERE, "A")
    client.send([*bad, good], inbox)
    assert {inbox[call].error.partition(":")[0] for call in bad} == {"invalid_title"}
    assert inbox[good].status == "ok"


def test_title_of_another_wiki_is_rejected(client, server, inbox):
    server.script({"json": {"query": {"interwiki": [{"title": "fr:Paris", "iw": "fr"}]}}})
    calls = [make_resolve_title_call(HERE, "fr:Paris"), make_page_revision_at_call(HERE, "fr:Paris", AT)]
    client.send(calls, inbox)
    assert {inbox[call].error.partition(":")[0] for call in calls} == {"invalid_title"}


LAGGED = {"error": {"code": "maxlag", "info": "Waiting for db: 7 seconds lagged.", "lag": 7}}
FOUND = {"json": {"query": {"categorymembers": []}}}


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"json": LAGGED}, "maxlag"),
        ({"json": LAGGED, "headers": {"Retry-After": "0.02", "X-Database-Lag": "7"}}, "maxlag"),
        ({"status": 429, "text": "slow", "headers": {"Retry-After": "0.02"}}, "http_429"),
        ({"json": {"query": {}}}, "malformed_reply"),
        ({"json": []}, "malformed_reply"),
    ],
)
def test_transient_failure_is_retried_then_fails_and_remains_retryable(client, server, inbox, answer, code):
    server.script(answer)
    call = make_category_members_call(HERE, "x")
    client.send([call], inbox)
    assert (inbox[call].error.partition(":")[0], inbox[call].transient) == (code, True)
    assert len(server.seen) == 3
    server.script(answer, FOUND)
    other = make_category_members_call(HERE, "y")
    client.send([other], inbox)
    assert inbox[other].body == {"members": [], "after": None}


@pytest.mark.parametrize(
    ("path", "script"), [("", "/w/api.php"), ("/", "/w/api.php"), ("/wiki", "/wiki/api.php"), ("/a/b/", "/a/b/api.php")]
)
def test_script_path_is_derived_from_address(server, limits, inbox, path, script):
    server.script(FOUND)
    WikipediaClient(server.url + path, HERE, limits, "tests").send([make_category_members_call(HERE, "x")], inbox)
    assert server.seen[0].path == script


def test_title_search_keeps_ranking_of_wiki(server, ask):
    hits = [{"ns": 0, "title": "Ulm"}, {"ns": 0, "title": "Ulm (song)"}]
    assert parse_search_titles(ask(make_search_call(HERE, "ulm song", 2), {"query": {"search": hits}})) == (
        "Ulm",
        "Ulm (song)",
    )
    asked = server.seen[0].query
    assert {name: asked[name] for name in ("list", "srsearch", "srlimit", "srnamespace")} == {
        "list": "search", "srsearch": "ulm song", "srlimit": "2", "srnamespace": "0"
    }  # fmt: skip


def test_unsearchable_words_return_no_titles_and_are_not_sent(server, ask):
    assert parse_search_titles(ask(make_search_call(HERE, " -?- "))) == ()
    assert server.seen == []
