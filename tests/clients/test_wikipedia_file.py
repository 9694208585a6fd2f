"""Test a ZIM file as a Wikipedia: it answers the same operations and names those that it lacks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.worlds.zim_files import ZimFile, ZimPage

from factmill.tasks.clients.wikipedia_file import WikipediaFileClient
from factmill.tasks.core.calls.call import Call, CallResponse
from factmill.tasks.core.calls.pageviews import make_pageviews_call
from factmill.tasks.core.calls.wikipedia import (
    make_category_members_call,
    make_newest_page_revisions_call,
    make_page_revision_at_call,
    make_resolve_title_call,
    make_revision_html_call,
    make_search_call,
    parse_page_revision_call_body,
    parse_resolve_title_body,
    parse_revision_html,
)
from factmill.tasks.errors import WikipediaFileError
from factmill.tasks.zim_archive import ZimArchive

DAY = "2026-01-01T00:00:00Z"
Ask = Callable[..., CallResponse]


@pytest.fixture
def archive(tmp_path: Path) -> ZimArchive:
    pages = [ZimPage("Algebra", "<p>Rules.</p>", 77, "2025-11-02"), ZimPage("Ring", "<p>No revision.</p>")]
    return ZimArchive(ZimFile(pages, {"Algebras": "Algebra"}).write(tmp_path / "wiki.zim"))


@pytest.fixture
def ask(archive: ZimArchive) -> Ask:
    client = WikipediaFileClient(archive)

    def send(make: Callable[..., Call], *parts: Any, **named: Any) -> CallResponse:
        replies: list[CallResponse] = []
        client.send([make(archive.identity, *parts, **named)], lambda _, reply: replies.append(reply))
        return replies[0]

    return send


def test_revision_on_date_of_file_is_revision_stated_by_article(ask: Ask) -> None:
    found = parse_page_revision_call_body(ask(make_page_revision_at_call, "algebra", DAY).body)
    assert (found.title, found.revid, found.timestamp, found.pageid) == ("Algebra", 77, "2025-11-02", None)
    assert (found.missing, found.redirected_from) == (False, None)


def test_redirect_is_followed_or_has_no_own_revision(ask: Ask) -> None:
    followed = parse_page_revision_call_body(ask(make_page_revision_at_call, "Algebras", DAY).body)
    assert (followed.title, followed.revid, followed.redirected_from) == ("Algebra", 77, "Algebras")
    own = parse_page_revision_call_body(ask(make_page_revision_at_call, "Algebras", DAY, follow=False).body)
    assert (own.title, own.revid, own.redirected_from, own.missing) == ("Algebras", None, None, False)


def test_title_without_page_is_missing(ask: Ask) -> None:
    assert parse_page_revision_call_body(ask(make_page_revision_at_call, "Geometry", DAY).body).missing
    assert parse_resolve_title_body(ask(make_resolve_title_call, "Geometry").body).missing


def test_article_text_names_its_file_and_entry(ask: Ask) -> None:
    found = parse_revision_html(ask(make_revision_html_call, 77, "Algebras").body)
    assert (found.title, found.file, found.entry, found.pageid) == ("Algebra", "wiki.zim", "Algebra", None)
    assert "Rules." in found.text


@pytest.mark.parametrize(
    ("make", "parts", "code", "said"),
    [
        (make_page_revision_at_call, ("Algebra", "2025-12-31T00:00:00Z"), "other_day", "revisions as of 2025-12-31T00:00:00Z are not there"),
        (make_page_revision_at_call, ("Ring", DAY), "revision_not_stated", "its entry Ring does not state"),
        (make_page_revision_at_call, ("a|b", DAY), "invalid_title", "no title holds"),
        (make_revision_html_call, (76, "Algebra"), "nosuchrevid", "which has revision 77 of Algebra under 'Algebra'; revision 76 is not there"),
        (make_revision_html_call, (76, "Geometry"), "nosuchrevid", "which has no revision under 'Geometry'"),
        (make_category_members_call, ("Mathematics",), "no_categories", "this world's Wikipedia is the ZIM file wiki.zim of 2026-01-01, which does not list the members of 'Mathematics'"),
        (make_resolve_title_call, ("<x>",), "invalid_title", "no title holds"),
    ],
)  # fmt: skip
def test_content_missing_from_file_fails_finally_with_named_code(
    ask: Ask, make: Callable[..., Call], parts: tuple[Any, ...], code: str, said: str
) -> None:
    reply = ask(make, *parts)
    assert reply.status == "failed"
    assert (reply.error or "").startswith(f"{code}: ")
    assert said in (reply.error or "")
    assert not reply.transient


def test_search_ranks_articles_of_file(ask: Ask, tmp_path: Path) -> None:
    assert ask(make_search_call, "rules", 5).body == {"titles": ["Algebra"]}
    assert ask(make_search_call, "?!", 5).body == {"titles": []}
    plain = WikipediaFileClient(ZimArchive(ZimFile([], indexed=False).write(tmp_path / "plain.zim")))
    replies: list[CallResponse] = []
    plain.send([make_search_call(plain.identity, "rules", 5)], lambda _, reply: replies.append(reply))
    assert "holds no full-text index" in (replies[0].error or "")


def test_page_states_match_file(ask: Ask) -> None:
    states: Any = ask(make_newest_page_revisions_call, ["Algebras", "Geometry", "a|b"], True, DAY).body
    assert (states["Algebras"]["revid"], states["Algebras"]["timestamp"]) == (77, "2025-11-02")
    assert states["Geometry"]["missing"]
    assert states["a|b"] is None


def test_online_wiki_text_calls_keep_their_earlier_keys(archive: ZimArchive) -> None:
    assert make_revision_html_call("https://en.wikipedia.org", 7, "Algebra").parts == {"revid": 7, "form": "html"}
    assert make_revision_html_call(archive.identity, 7, "Algebra").parts == {
        "revid": 7,
        "form": "html",
        "title": "Algebra",
    }


def test_operation_unsupported_by_wikipedia_file_raises_value_error(ask: Ask) -> None:
    with pytest.raises(ValueError, match="cannot answer pageviews"):
        ask(make_pageviews_call, "Algebra", "20250101", "20250131")


def test_replaced_file_delivers_no_results(ask: Ask, archive: ZimArchive, tmp_path: Path) -> None:
    ask(make_resolve_title_call, "Algebra")
    ZimFile([]).write(tmp_path / "new.zim").replace(archive.path)
    with pytest.raises(WikipediaFileError, match="replaced while it was in use"):
        ask(make_resolve_title_call, "Algebra")
