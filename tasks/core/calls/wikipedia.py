"""The questions that are put to a Wikipedia through the MediaWiki Action API, and the form of their answers.

| operation | parts | body of the reply |
|---|---|---|
| page_revision_at | title, at (ISO 8601, UTC), follow | title, pageid, revid, timestamp, redirected_from, missing, first |
| page_text | revid, form (`html`) | revid, pageid, title, text |
| category_members | category, kind (`page` or `subcat`), limit, after | members `[{pageid, title}]`, after |
| resolve_title | title | title, pageid, qid, is_disambiguation, redirected_from, missing |
| search | words, limit | titles |

page_revision_at gives the newest revision at or before `at`; redirects are followed as they are today, unless `follow`
is there and false: then it is the history of the page of that very title. revid and timestamp are null when the page is
younger than `at`; then `first` is when its first revision was made. Redirects that lead in circles or out of the wiki are a failed reply `redirect_loop`. page_text of a revision that nobody knows is a failed reply
`nosuchrevid`. category_members gives main-namespace pages, or subcategories, both categories without their prefix, in
the category's own order; `after` is the token that asks for the next page (null: from the start, or no more).
resolve_title follows normalisation and redirects. search gives titles of articles as the wiki ranks them today; of none
where the words hold nothing that can be searched for.

A title that MediaWiki cannot have (`a|b`, `<x>`) is a failed reply `invalid_title`, not a missing page.
"""

from dataclasses import dataclass
from typing import Any, Literal

from tasks.core.calls.call import Call
from tasks.core.fingerprints import Json


@dataclass(frozen=True, slots=True)
class Revision:
    """A page as it stood at a moment."""

    title: str
    pageid: int | None
    revid: int | None
    timestamp: str | None
    """When the revision was made (ISO 8601, UTC)."""
    redirected_from: str | None
    missing: bool
    first: str | None = None
    """When the first revision of a page younger than the moment was made; replies of earlier versions do not tell it."""


@dataclass(frozen=True, slots=True)
class PageText:
    """The text of one revision, as HTML."""

    revid: int
    pageid: int
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page by number and title."""

    pageid: int
    title: str


@dataclass(frozen=True, slots=True)
class Members:
    """Some members of a category; `after` asks for the next ones, None: there are no more."""

    members: tuple[Page, ...]
    after: str | None


@dataclass(frozen=True, slots=True)
class ResolvedTitle:
    """What a title leads to today."""

    title: str
    pageid: int | None
    qid: str | None
    """The article's item in Wikidata."""
    is_disambiguation: bool
    redirected_from: str | None
    missing: bool


def call_page_revision_at(service: str, title: str, at: str, follow: bool = True) -> Call:
    """Ask for a page's newest revision at or before a moment (ISO 8601, UTC); `follow`: of where it leads to today."""
    # replies from before there was a choice are served on, so the part is there only where it says something else
    unfollowed: dict[str, Json] = {} if follow else {"follow": False}
    return Call(service, "page_revision_at", {"title": title, "at": at, **unfollowed})


def call_page_text(service: str, revid: int) -> Call:
    """Ask for the HTML that readers are shown of a revision."""
    # the form was a choice once, and replies of then are served on
    return Call(service, "page_text", {"revid": revid, "form": "html"})


def call_category_members(
    service: str, category: str, kind: Literal["page", "subcat"] = "page", limit: int = 500, after: str | None = None
) -> Call:
    """Ask for a category's members, at most `limit` (1 to 500) behind the token `after`."""
    return Call(service, "category_members", {"category": category, "kind": kind, "limit": limit, "after": after})


def call_resolve_title(service: str, title: str) -> Call:
    """Ask what a title leads to."""
    return Call(service, "resolve_title", {"title": title})


def call_search(service: str, words: str, limit: int = 10) -> Call:
    """Ask which articles fit some words best, at most `limit` of them (1 to 500)."""
    return Call(service, "search", {"words": words, "limit": limit})


def read_revision(body: Any) -> Revision:
    """Read the answer to page_revision_at."""
    return Revision(**body)


def read_page_text(body: Any) -> PageText:
    """Read the answer to page_text."""
    return PageText(**body)


def read_members(body: Any) -> Members:
    """Read the answer to category_members."""
    return Members(tuple(Page(**page) for page in body["members"]), body["after"])


def read_found(body: Any) -> tuple[str, ...]:
    """Read the answer to search: titles, the best one first."""
    return tuple(body["titles"])


def read_resolved_title(body: Any) -> ResolvedTitle:
    """Read the answer to resolve_title."""
    return ResolvedTitle(**body)
