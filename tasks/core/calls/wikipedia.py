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

from factmill.tasks.core.calls.call import Call, CallResponse, make_failed_response
from factmill.tasks.core.calls.operation import (
    CallParts,
    MediaWikiGet,
    Operation,
    ResponseDependency,
    WikiItemLabelOrPageDependency,
    is_positive_count,
    is_string_value,
    make_list_check,
    make_optional_check,
)
from factmill.tasks.core.digests import JsonValue

_PAGE_PROPS = "wikibase_item|disambiguation"
FILE_IDENTITY_PREFIX = "zim-"
"""Beginning of the identity of a Wikipedia in a file; its date and a digest follow."""


@dataclass(frozen=True, slots=True)
class PageRevision:
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
class RevisionHtmlContent:
    """The text of one revision, as HTML."""

    revid: int
    pageid: int | None
    """None: the text is from a file, which holds no page ids."""
    title: str
    text: str
    file: str = ""
    """Name of the file that the text is from; empty: a wiki."""
    entry: str = ""
    """Path of its entry in that file."""


@dataclass(frozen=True, slots=True)
class PageReference:
    """A page by number and title."""

    pageid: int
    title: str


@dataclass(frozen=True, slots=True)
class CategoryMembersWithContinuation:
    """Some members of a category; `after` is the token for the next ones, None: no more."""

    members: tuple[PageReference, ...]
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


def make_page_revision_at_call(service: str, title: str, at: str, follow: bool = True) -> Call:
    """Make the call for a page's newest revision at or before a moment (ISO 8601, UTC); `follow`: follow today's redirects."""
    # old records lack the part `follow`; so that they still match, it is absent at its default
    unfollowed: dict[str, JsonValue] = {} if follow else {"follow": False}
    return PAGE_REVISION_AT_OPERATION.make_call(service, title=title, at=at, **unfollowed)


def make_revision_html_call(service: str, revid: int, title: str) -> Call:
    """Make the call for a revision's HTML as readers see it; `title`, which leads to its page, counts in files alone."""
    place: dict[str, JsonValue] = {"title": title} if service.startswith(FILE_IDENTITY_PREFIX) else {}
    # the part `form` keeps old records usable, which had a choice of forms
    return PAGE_TEXT_OPERATION.make_call(service, revid=revid, form="html", **place)


def make_category_members_call(
    service: str, category: str, kind: Literal["page", "subcat"] = "page", limit: int = 500, after: str | None = None
) -> Call:
    """Make the call for a category's members, at most `limit` (1 to 500) after the token `after`."""
    return CATEGORY_MEMBERS_OPERATION.make_call(service, category=category, kind=kind, limit=limit, after=after)


def make_resolve_title_call(service: str, title: str) -> Call:
    """Make the call for the page that a title leads to."""
    return RESOLVE_TITLE_OPERATION.make_call(service, title=title)


def make_search_call(service: str, words: str, limit: int = 10) -> Call:
    """Make the call for the articles that match some words best, at most `limit` (1 to 500)."""
    return SEARCH_OPERATION.make_call(service, words=words, limit=limit)


def make_newest_page_revisions_call(service: str, titles: Iterable[str], follow: bool, checked_on: str) -> Call:
    """Make the call for the pages of titles, with newest revisions; `checked_on` makes each check a call of its own."""
    return PAGE_STATES_OPERATION.make_call(service, titles=sorted(titles), follow=follow, on=checked_on)


def parse_page_revision_call_body(body: Any) -> PageRevision:
    """Parse the body of page_revision_at."""
    return PageRevision(**body)


def parse_revision_html(body: Any) -> RevisionHtmlContent:
    """Parse the body of page_text."""
    return RevisionHtmlContent(**body)


def parse_category_members(body: Any) -> CategoryMembersWithContinuation:
    """Parse the body of category_members."""
    return CategoryMembersWithContinuation(tuple(PageReference(**page) for page in body["members"]), body["after"])


def parse_search_titles(body: Any) -> tuple[str, ...]:
    """Parse the body of search: titles, best first."""
    return tuple(body["titles"])


def parse_resolve_title_body(body: Any) -> ResolvedTitle:
    """Parse the body of resolve_title."""
    return ResolvedTitle(**body)


def _fetch_one_page_revision_at_date(get: MediaWikiGet, group: Sequence[Call]) -> list[CallResponse]:
    parts = group[0].parts
    title = normalise_title_except_first_letter(parts["title"])
    asked: dict[str, str | int] = {"prop": "revisions", "titles": title, "rvprop": "ids|timestamp", "rvlimit": 1}
    asked |= {"redirects": 1} if parts.get("follow", True) else {}
    answer = get("query", **asked, rvdir="older", rvstart=parts["at"])
    resolved, page = _find_redirected_title_and_page(answer["query"], _list_pages(answer["query"]), title)
    if page is None:
        return [_make_invalid_title_or_loop_failure(title, resolved)]
    revision = (page.get("revisions") or [{}])[0]
    found: dict[str, JsonValue] = {
        "title": page["title"],
        "pageid": page.get("pageid"),
        "revid": revision.get("revid"),
        "timestamp": revision.get("timestamp"),
        "redirected_from": resolved,
        "missing": _is_missing(page),
    }
    if not found["missing"] and not revision:
        _, page = _find_redirected_title_and_page(
            answer["query"], _list_pages(get("query", **asked, rvdir="newer")["query"]), title
        )
        found["first"] = ((page or {}).get("revisions") or [{}])[0].get("timestamp")
    return [CallResponse(found)]


def _fetch_one_revision_html(get: MediaWikiGet, group: Sequence[Call]) -> list[CallResponse]:
    revid = group[0].parts["revid"]
    plain = {"disableeditsection": 1, "disabletoc": 1, "disablelimitreport": 1}
    parsed = get("parse", oldid=revid, prop="text", **plain)["parse"]
    text = parsed["text"]
    text = text["*"] if isinstance(text, Mapping) else text
    return [CallResponse({"revid": revid, "pageid": parsed["pageid"], "title": parsed["title"], "text": text})]


def _fetch_category_members(get: MediaWikiGet, group: Sequence[Call]) -> list[CallResponse]:
    parts = group[0].parts
    is_page = parts["kind"] == "page"
    options: dict[str, str | int] = {"cmnamespace": 0} if is_page else {}
    if parts["after"] is not None:
        options["cmcontinue"] = parts["after"]
    answer = get(
        "query",
        list="categorymembers",
        cmtitle=f"Category:{normalise_title_except_first_letter(str(parts['category']))}",
        cmtype=parts["kind"],
        cmprop="ids|title",
        cmlimit=parts["limit"],
        **options,
    )
    members: list[JsonValue] = [
        {"pageid": page["pageid"], "title": page["title"] if is_page else page["title"].partition(":")[2]}
        for page in answer["query"]["categorymembers"]
    ]
    return [CallResponse({"members": members, "after": answer.get("continue", {}).get("cmcontinue")})]


def _fetch_resolved_titles(get: MediaWikiGet, group: Sequence[Call]) -> list[CallResponse]:
    titles = [normalise_title_except_first_letter(call.parts["title"]) for call in group]
    query, pages = _query_titles(get, titles, prop="pageprops", redirects=1, ppprop=_PAGE_PROPS)
    return [_make_resolved_title(query, pages, title) for title in titles]


def _fetch_page_states(get: MediaWikiGet, group: Sequence[Call]) -> list[CallResponse]:
    parts = group[0].parts
    titles = {title: normalise_title_except_first_letter(title) for title in parts["titles"]}
    asked: dict[str, str | int] = {"prop": "info|revisions|pageprops", "rvprop": "ids|timestamp", "ppprop": _PAGE_PROPS}
    asked |= {"redirects": 1} if parts["follow"] else {}
    query, pages = _query_titles(get, list(titles.values()), **asked)
    states: dict[str, JsonValue] = {}
    for title, tidy in titles.items():
        resolved = _make_resolved_title(query, pages, tidy)
        newest: dict[str, Any] = {}
        for page in pages:
            if resolved.status == "ok" and page["title"] == resolved.body["title"]:  # type: ignore[call-overload,index]
                newest |= page
        revision = (newest.get("revisions") or [{}])[0]
        version = {"revid": newest.get("lastrevid", revision.get("revid")), "timestamp": revision.get("timestamp")}
        states[title] = {**resolved.body, **version} if newest else None  # type: ignore[dict-item]
    return [CallResponse(states)]


def _query_titles(
    get: MediaWikiGet, titles: Sequence[str], **asked: str | int
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


def _fetch_search_titles(get: MediaWikiGet, group: Sequence[Call]) -> list[CallResponse]:
    words, limit = group[0].parts["words"], group[0].parts["limit"]
    if not any(map(str.isalnum, words)):
        return [CallResponse({"titles": []})]
    answer = get("query", list="search", srsearch=words, srlimit=limit, srnamespace=0, srinfo="", srprop="")
    return [CallResponse({"titles": [page["title"] for page in answer["query"]["search"]]})]


def _make_resolved_title(query: Mapping[str, Any], pages: Sequence[Mapping[str, Any]], title: str) -> CallResponse:
    redirected_from, page = _find_redirected_title_and_page(query, pages, title)
    if page is None:
        return _make_invalid_title_or_loop_failure(title, redirected_from)
    traits: dict[str, Any] = {}
    for same in pages:
        if same["title"] == page["title"]:
            traits |= same.get("pageprops", {})
    return CallResponse(
        {
            "title": page["title"],
            "pageid": page.get("pageid"),
            "qid": traits.get("wikibase_item"),
            "is_disambiguation": "disambiguation" in traits,
            "redirected_from": redirected_from,
            "missing": _is_missing(page),
        }
    )


def _make_invalid_title_or_loop_failure(title: str, redirected_from: str | None) -> CallResponse:
    if redirected_from:
        return make_failed_response("redirect_loop", f"{redirected_from!r} leads in circles, or out of this wiki")
    return make_failed_response("invalid_title", f"{title!r} is no title of a page of this wiki")


def _list_pages(query: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    pages = query.get("pages", ())
    return list(pages.values() if isinstance(pages, Mapping) else pages)


def _find_redirected_title_and_page(
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


def normalise_title_except_first_letter(title: str) -> str:
    """Return a title in MediaWiki's normal form, except for its first letter, to match it with the response."""
    return unicodedata.normalize("NFC", " ".join(title.replace("_", " ").split()))


def _make_page_dependency(parts: CallParts, body: Any, *more: str, by_date: bool) -> list[ResponseDependency]:
    thing = WikiItemLabelOrPageDependency("page", parts["title"], "follow" if parts.get("follow", True) else "stay")
    says = {name: body.get(name) for name in ("title", "pageid", "missing", "redirected_from", *more)}
    return [ResponseDependency(thing, says, by_date)]


PAGE_REVISION_AT_OPERATION = Operation(
    "page_revision_at",
    service="wikipedia",
    part_checks={"title": is_string_value, "at": is_string_value, "follow": lambda value: value is False},
    optional_parts=("follow",),
    parse_body=parse_page_revision_call_body,
    fetch_from_wiki=_fetch_one_page_revision_at_date,
    list_dependencies=lambda parts, body: _make_page_dependency(parts, body, by_date=True),
)
"""The newest revision at or before `at` (ISO 8601, UTC). Today's redirects are followed unless `follow` is false: then it is a
revision of the page with exactly this title. Body: title, pageid, revid, timestamp, redirected_from, missing; revid and
timestamp are null when the page is younger than `at`, and `first` is then the time of its first revision. From a file: pageid
is null, timestamp is a day, or null where the file states none, and an unfollowed redirect has no revision."""

PAGE_TEXT_OPERATION = Operation(
    "page_text",
    service="wikipedia",
    part_checks={"revid": is_positive_count, "form": lambda value: value == "html", "title": is_string_value},
    optional_parts=("title",),
    parse_body=parse_revision_html,
    fetch_from_wiki=_fetch_one_revision_html,
    list_world_contents=lambda parts: [f"text {parts['revid']}"],
    # a revision is requested by its id, and never changes
    get_immutable_from=lambda _: datetime.min.replace(tzinfo=UTC),
)
"""Body: revid, pageid (null from a file), title, text, file, entry. An unknown revision fails as `nosuchrevid`."""

CATEGORY_MEMBERS_OPERATION = Operation(
    "category_members",
    service="wikipedia",
    part_checks={
        "category": is_string_value,
        "kind": lambda value: value in ("page", "subcat"),
        "limit": is_positive_count,
        "after": make_optional_check(is_string_value),
    },
    parse_body=parse_category_members,
    fetch_from_wiki=_fetch_category_members,
    list_world_contents=lambda parts: [f"category {parts['category']}"],
)
"""Main-namespace pages, or subcategories, in the category's own order; names of categories lack the prefix. Body: members
`[{pageid, title}]`, and `after`, the token for the next page (null in a call: from the start; in a body: no more)."""

RESOLVE_TITLE_OPERATION = Operation(
    "resolve_title",
    service="wikipedia",
    part_checks={"title": is_string_value},
    parse_body=parse_resolve_title_body,
    fetch_from_wiki=_fetch_resolved_titles,
    batches_titles=True,
    list_dependencies=lambda parts, body: _make_page_dependency(parts, body, "qid", "is_disambiguation", by_date=False),
)
"""Follows normalisation and redirects. Body: title, pageid, qid, is_disambiguation, redirected_from, missing."""

SEARCH_OPERATION = Operation(
    "search",
    service="wikipedia",
    part_checks={"words": is_string_value, "limit": is_positive_count},
    parse_body=parse_search_titles,
    fetch_from_wiki=_fetch_search_titles,
)
"""Body: `{"titles"}` of articles as the wiki ranks them today; empty if the words hold no letter or digit."""

PAGE_STATES_OPERATION = Operation(
    "page_states",
    service="wikipedia",
    part_checks={
        "titles": make_list_check(is_string_value),
        "follow": lambda value: isinstance(value, bool),
        "on": is_string_value,
    },
    parse_body=dict,
    fetch_from_wiki=_fetch_page_states,
)
"""Body: title → body of resolve_title, with `revid` and `timestamp` of its newest revision; null for an invalid title."""
