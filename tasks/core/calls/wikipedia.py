"""Calls to a Wikipedia through the MediaWiki Action API, and their responses.

Titles are resolved fifty per request, everything else one by one, as the API requires. Both JSON formats of MediaWiki
(formatversion 1 and 2) are accepted, since wikis differ. A title that is invalid in MediaWiki (`a|b`, `<x>`) is a failed
response `invalid_title`, not a missing page; redirects that form a loop or leave the wiki are a failed response
`redirect_loop`.
"""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from factmill.tasks.core.calls.call import Call, Reply, fail
from factmill.tasks.core.calls.operation import (
    Dependency,
    Get,
    Operation,
    Parts,
    Thing,
    is_count,
    is_list_of,
    is_none_or,
    is_text,
)
from factmill.tasks.core.fingerprints import Json

_TRAITS = "wikibase_item|disambiguation"


@dataclass(frozen=True, slots=True)
class Revision:
    """Revision of a page at a moment."""

    title: str
    pageid: int | None
    revid: int | None
    timestamp: str | None
    """Time of the revision (ISO 8601, UTC)."""
    redirected_from: str | None
    missing: bool
    first: str | None = None
    """Time of the first revision, if the page is younger than the moment; responses of earlier versions lack it."""


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
    """Some members of a category; `after` is the token for the next ones, None: no more."""

    members: tuple[Page, ...]
    after: str | None


@dataclass(frozen=True, slots=True)
class ResolvedTitle:
    """The page that a title leads to today."""

    title: str
    pageid: int | None
    qid: str | None
    """The article's item in Wikidata."""
    is_disambiguation: bool
    redirected_from: str | None
    missing: bool


def call_page_revision_at(service: str, title: str, at: str, follow: bool = True) -> Call:
    """Make the call for a page's newest revision at or before a moment (ISO 8601, UTC); `follow`: follow today's redirects."""
    # old records lack the part `follow`; so that they still match, it is absent at its default
    unfollowed: dict[str, Json] = {} if follow else {"follow": False}
    return PAGE_REVISION_AT.call(service, title=title, at=at, **unfollowed)


def call_page_text(service: str, revid: int) -> Call:
    """Make the call for the HTML of a revision, as readers see it."""
    # the part `form` keeps old records usable, which had a choice of forms
    return PAGE_TEXT.call(service, revid=revid, form="html")


def call_category_members(
    service: str, category: str, kind: Literal["page", "subcat"] = "page", limit: int = 500, after: str | None = None
) -> Call:
    """Make the call for a category's members, at most `limit` (1 to 500) after the token `after`."""
    return CATEGORY_MEMBERS.call(service, category=category, kind=kind, limit=limit, after=after)


def call_resolve_title(service: str, title: str) -> Call:
    """Make the call for the page that a title leads to."""
    return RESOLVE_TITLE.call(service, title=title)


def call_search(service: str, words: str, limit: int = 10) -> Call:
    """Make the call for the articles that match some words best, at most `limit` (1 to 500)."""
    return SEARCH.call(service, words=words, limit=limit)


def call_page_states(service: str, titles: Iterable[str], follow: bool, on: str) -> Call:
    """Make the call for the pages that titles lead to, with their newest revisions; `on` (ISO 8601, UTC) makes each check a
    separate call."""
    return PAGE_STATES.call(service, titles=sorted(titles), follow=follow, on=on)


def read_revision(body: Any) -> Revision:
    """Parse the body of page_revision_at."""
    return Revision(**body)


def read_page_text(body: Any) -> PageText:
    """Parse the body of page_text."""
    return PageText(**body)


def read_members(body: Any) -> Members:
    """Parse the body of category_members."""
    return Members(tuple(Page(**page) for page in body["members"]), body["after"])


def read_found(body: Any) -> tuple[str, ...]:
    """Parse the body of search: titles, best first."""
    return tuple(body["titles"])


def read_resolved_title(body: Any) -> ResolvedTitle:
    """Parse the body of resolve_title."""
    return ResolvedTitle(**body)


def _answer_revision(get: Get, group: Sequence[Call]) -> list[Reply]:
    parts = group[0].parts
    title = tidy_title(str(parts["title"]))
    asked: dict[str, str | int] = {"prop": "revisions", "titles": title, "rvprop": "ids|timestamp", "rvlimit": 1}
    asked |= {"redirects": 1} if parts.get("follow", True) else {}
    answer = get("query", **asked, rvdir="older", rvstart=str(parts["at"]))
    resolved, page = _find_page(answer["query"], _list_pages(answer["query"]), title)
    if page is None and resolved:
        return [_no_end(resolved)]
    if page is None:
        return [_no_page(title)]
    revision = (page.get("revisions") or [{}])[0]
    found: dict[str, Json] = {
        "title": page["title"],
        "pageid": page.get("pageid"),
        "revid": revision.get("revid"),
        "timestamp": revision.get("timestamp"),
        "redirected_from": resolved,
        "missing": _is_missing(page),
    }
    if not found["missing"] and not revision:
        _, page = _find_page(answer["query"], _list_pages(get("query", **asked, rvdir="newer")["query"]), title)
        found["first"] = ((page or {}).get("revisions") or [{}])[0].get("timestamp")
    return [Reply(found)]


def _answer_text(get: Get, group: Sequence[Call]) -> list[Reply]:
    revid = int(group[0].parts["revid"])  # type: ignore[arg-type]
    plain = {"disableeditsection": 1, "disabletoc": 1, "disablelimitreport": 1}
    parsed = get("parse", oldid=revid, prop="text", **plain)["parse"]
    text = parsed["text"]
    text = text["*"] if isinstance(text, Mapping) else text
    return [Reply({"revid": revid, "pageid": parsed["pageid"], "title": parsed["title"], "text": text})]


def _answer_members(get: Get, group: Sequence[Call]) -> list[Reply]:
    parts = group[0].parts
    is_page = parts["kind"] == "page"
    options: dict[str, str | int] = {"cmnamespace": 0} if is_page else {}
    if parts["after"] is not None:
        options["cmcontinue"] = str(parts["after"])
    answer = get(
        "query",
        list="categorymembers",
        cmtitle=f"Category:{tidy_title(str(parts['category']))}",
        cmtype=str(parts["kind"]),
        cmprop="ids|title",
        cmlimit=int(parts["limit"]),  # type: ignore[arg-type]
        **options,
    )
    members: list[Json] = [
        {"pageid": page["pageid"], "title": page["title"] if is_page else page["title"].partition(":")[2]}
        for page in answer["query"]["categorymembers"]
    ]
    return [Reply({"members": members, "after": answer.get("continue", {}).get("cmcontinue")})]


def _answer_titles(get: Get, group: Sequence[Call]) -> list[Reply]:
    titles = [tidy_title(str(call.parts["title"])) for call in group]
    query, pages = _ask_titles(get, titles, prop="pageprops", redirects=1, ppprop=_TRAITS)
    return [_resolve(query, pages, title) for title in titles]


def _answer_states(get: Get, group: Sequence[Call]) -> list[Reply]:
    parts = group[0].parts
    titles = {str(title): tidy_title(str(title)) for title in parts["titles"]}  # type: ignore[union-attr]
    asked: dict[str, str | int] = {"prop": "info|revisions|pageprops", "rvprop": "ids|timestamp", "ppprop": _TRAITS}
    asked |= {"redirects": 1} if parts["follow"] else {}
    query, pages = _ask_titles(get, list(titles.values()), **asked)
    states: dict[str, Json] = {}
    for title, tidy in titles.items():
        resolved = _resolve(query, pages, tidy)
        newest = _merge_page(pages, resolved.body["title"]) if resolved.status == "ok" else {}  # type: ignore[call-overload,index]
        revision = (newest.get("revisions") or [{}])[0]
        told = {"revid": newest.get("lastrevid", revision.get("revid")), "timestamp": revision.get("timestamp")}
        states[title] = {**resolved.body, **told} if newest else None  # type: ignore[dict-item]
    return [Reply(states)]


def _ask_titles(
    get: Get, titles: Sequence[str], **asked: str | int
) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """Query titles; return the mapping of titles to pages, and the pages; a page sent in parts occurs several times."""
    more: dict[str, Any] = {}
    pages: list[Mapping[str, Any]] = []
    while True:
        answer = get("query", titles="|".join(dict.fromkeys(titles)), **asked, **more)
        pages += _list_pages(answer["query"])
        if "continue" not in answer:
            return answer["query"], pages
        more = answer["continue"]


def _merge_page(pages: Sequence[Mapping[str, Any]], title: str) -> dict[str, Any]:
    """Merge all entries of a page."""
    told: dict[str, Any] = {}
    for page in pages:
        if page["title"] == title:
            told |= page
    return told


def _answer_search(get: Get, group: Sequence[Call]) -> list[Reply]:
    words, limit = str(group[0].parts["words"]), int(group[0].parts["limit"])  # type: ignore[arg-type]
    if not any(map(str.isalnum, words)):
        return [Reply({"titles": []})]
    answer = get("query", list="search", srsearch=words, srlimit=limit, srnamespace=0, srinfo="", srprop="")
    return [Reply({"titles": [page["title"] for page in answer["query"]["search"]]})]


def _resolve(query: Mapping[str, Any], pages: Sequence[Mapping[str, Any]], title: str) -> Reply:
    redirected_from, page = _find_page(query, pages, title)
    if page is None:
        return _no_end(redirected_from) if redirected_from else _no_page(title)
    traits: dict[str, Any] = {}
    for same in pages:
        if same["title"] == page["title"]:
            traits |= same.get("pageprops", {})
    return Reply(
        {
            "title": page["title"],
            "pageid": page.get("pageid"),
            "qid": traits.get("wikibase_item"),
            "is_disambiguation": "disambiguation" in traits,
            "redirected_from": redirected_from,
            "missing": _is_missing(page),
        }
    )


def _list_pages(query: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    pages = query.get("pages", ())
    return list(pages.values() if isinstance(pages, Mapping) else pages)


def _find_page(
    query: Mapping[str, Any], pages: Iterable[Mapping[str, Any]], title: str
) -> tuple[str | None, Mapping[str, Any] | None]:
    """Return the title that was redirected (None: no redirect) and the page that a title leads to (None: not in the list)."""
    by_title = {page["title"]: page for page in pages}
    name = next((step["to"] for step in query.get("normalized", ()) if step["from"] == title), title)
    steps = {step["from"]: step["to"] for step in query.get("redirects", ())}
    redirected_from = name if name in steps else None
    while name in steps and name not in by_title:
        name = steps.pop(name)
    page = by_title.get(name)
    return redirected_from, None if page is None or "invalid" in page else page


def _is_missing(page: Mapping[str, Any]) -> bool:
    return page.get("missing", False) is not False or "pageid" not in page


def _no_end(title: str) -> Reply:
    return fail("redirect_loop", f"{title!r} leads in circles, or out of this wiki")


def _no_page(title: str) -> Reply:
    return fail("invalid_title", f"{title!r} is no title of a page of this wiki")


def tidy_title(title: str) -> str:
    """Return a title in MediaWiki's normal form, except for its first letter, to match it with the response."""
    return unicodedata.normalize("NFC", " ".join(title.replace("_", " ").split()))


def _rest_on_page(parts: Parts, body: Any, *more: str, by_date: bool) -> list[Dependency]:
    thing = Thing("page", str(parts["title"]), "follow" if parts.get("follow", True) else "stay")
    says = {name: body.get(name) for name in ("title", "pageid", "missing", "redirected_from", *more)}
    return [Dependency(thing, says, by_date)]


PAGE_REVISION_AT = Operation(
    "page_revision_at",
    service="wikipedia",
    parts={"title": is_text, "at": is_text, "follow": lambda value: value is False},
    optional=("follow",),
    read=read_revision,
    wiki=_answer_revision,
    rests_on=lambda parts, body: _rest_on_page(parts, body, by_date=True),
)
"""The newest revision at or before `at` (ISO 8601, UTC). Today's redirects are followed unless `follow` is false: then it is a
revision of the page with exactly this title. Body: title, pageid, revid, timestamp, redirected_from, missing; revid and
timestamp are null when the page is younger than `at`, and `first` is then the time of its first revision."""

PAGE_TEXT = Operation(
    "page_text",
    service="wikipedia",
    parts={"revid": is_count, "form": lambda value: value == "html"},
    read=read_page_text,
    wiki=_answer_text,
    world=lambda parts: [f"text {parts['revid']}"],
    # a revision is requested by its id, and never changes
    lasts_from=lambda _: datetime.min.replace(tzinfo=UTC),
)
"""Body: revid, pageid, title, text. An unknown revision is a failed response `nosuchrevid`."""

CATEGORY_MEMBERS = Operation(
    "category_members",
    service="wikipedia",
    parts={
        "category": is_text,
        "kind": lambda value: value in ("page", "subcat"),
        "limit": is_count,
        "after": is_none_or(is_text),
    },
    read=read_members,
    wiki=_answer_members,
    world=lambda parts: [f"category {parts['category']}"],
)
"""Main-namespace pages, or subcategories, in the category's own order; names of categories lack the prefix. Body: members
`[{pageid, title}]`, and `after`, the token for the next page (null in a call: from the start; in a body: no more)."""

RESOLVE_TITLE = Operation(
    "resolve_title",
    service="wikipedia",
    parts={"title": is_text},
    read=read_resolved_title,
    wiki=_answer_titles,
    together=True,
    rests_on=lambda parts, body: _rest_on_page(parts, body, "qid", "is_disambiguation", by_date=False),
)
"""Follows normalisation and redirects. Body: title, pageid, qid, is_disambiguation, redirected_from, missing."""

SEARCH = Operation(
    "search",
    service="wikipedia",
    parts={"words": is_text, "limit": is_count},
    read=read_found,
    wiki=_answer_search,
)
"""Body: `{"titles"}` of articles as the wiki ranks them today; empty if the words hold no letter or digit."""

PAGE_STATES = Operation(
    "page_states",
    service="wikipedia",
    parts={"titles": is_list_of(is_text), "follow": lambda value: isinstance(value, bool), "on": is_text},
    read=dict,
    wiki=_answer_states,
)
"""Body: title → body of resolve_title, with `revid` and `timestamp` of the page's newest revision (lastrevid); null for an
invalid title."""
