"""Page properties of action=query: info, revisions, pageprops, categories, links and category counts.

Each function adds its property to the entries of the requested pages in the response.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from factmill.tasks.world.data import WorldArticleRevision
from factmill.tasks.world.wiki.pages import (
    CATEGORY_NAMESPACE,
    WikiPage,
    WikiTitle,
    WorldWikiPageIndex,
    format_title_for_url_path,
    map_linked_pages_by_full_title,
)
from factmill.tasks.world.wiki.request import (
    MAX_PARAMETER_VALUES,
    ActionApiParameters,
    ActionApiRequestRejected,
    ReplyFormat,
    make_bad_continue_error,
)

WIKI_SITE_URL = "https://en.wikipedia.org"
_REVISION_USER = "Embedded world"

ContinueParameters = dict[str, str]
"""Parameters that request the rest; empty if there is none."""


@dataclass(frozen=True, slots=True)
class RequestedPagesAndEntries:
    """The pages of a request and their entries in the response so far."""

    wiki: WorldWikiPageIndex
    params: ActionApiParameters
    shape: ReplyFormat
    pages: Mapping[int, WikiPage | WikiTitle]
    """Key in the response → page, or title of a missing page; keys of missing pages are negative."""
    entries: dict[int, dict[str, Any]]
    """Key in the response → the page's entry, which the functions extend."""


def add_page_info_to_entries(request: RequestedPagesAndEntries) -> ContinueParameters:
    """Add prop=info: a page's metadata."""
    wanted = set(request.params.list_values("inprop"))
    for key, page in request.pages.items():
        entry = request.entries[key]
        if page.namespace < 0:
            continue
        entry |= {"contentmodel": "wikitext", "pagelanguage": "en", "pagelanguagehtmlcode": "en"}
        entry["pagelanguagedir"] = "ltr"
        title = page.title if isinstance(page, WikiPage) else page.full_title
        if isinstance(page, WikiPage):
            newest = page.revisions[-1]
            entry |= {"touched": newest.at, "lastrevid": newest.revid, "length": len(newest.text.encode())}
            entry |= request.shape.format_flags(redirect=page.redirect_to is not None, new=len(page.revisions) == 1)
        if "protection" in wanted:
            entry |= {
                "protection": [],
                "restrictiontypes": ["edit", "move"] if isinstance(page, WikiPage) else ["create"],
            }
        if "url" in wanted:
            entry["fullurl"] = entry["canonicalurl"] = f"{WIKI_SITE_URL}/wiki/{format_title_for_url_path(title)}"
            entry["editurl"] = f"{WIKI_SITE_URL}/w/index.php?title={format_title_for_url_path(title)}&action=edit"
        if "displaytitle" in wanted:
            entry["displaytitle"] = title
    return {}


def add_page_props(request: RequestedPagesAndEntries) -> ContinueParameters:
    """Add prop=pageprops: item, disambiguation page, short description."""
    wanted = set(request.params.list_values("ppprop"))
    for key, page in request.pages.items():
        if isinstance(page, WikiPage):
            props = {name: value for name, value in page.page_props.items() if not wanted or name in wanted}
            request.entries[key] |= {"pageprops": props} if props else {}
    return {}


def add_page_categories(request: RequestedPagesAndEntries) -> ContinueParameters:
    """Add the categories of pages, sorted by title."""
    only = {title.replace("_", " ") for title in request.params.list_values("clcategories")}
    shown = set(request.params.list_values("clprop"))
    request.params.get_text("clshow")
    rows: list[tuple[int, str, dict[str, Any]]] = []
    for key, page in request.pages.items():
        if isinstance(page, WikiPage) and not page.redirect_to:
            for name, sort_key in sorted(page.categories.items()):
                entry: dict[str, Any] = {"ns": CATEGORY_NAMESPACE, "title": f"Category:{name}"}
                entry |= {"sortkey": (sort_key or page.title).upper().encode().hex()} if "sortkey" in shown else {}
                if not only or entry["title"] in only:
                    rows.append((key, name, entry))
    return _add_limited_rows("categories", "cl", rows, request)


def add_page_links(request: RequestedPagesAndEntries) -> ContinueParameters:
    """Add the links of pages, sorted by namespace and title."""
    namespaces = set(request.params.list_integers("plnamespace"))
    only = {title.replace("_", " ") for title in request.params.list_values("pltitles")}
    rows: list[tuple[int, str, dict[str, Any]]] = []
    for key, page in request.pages.items():
        if isinstance(page, WikiPage):
            for title in sorted(
                map_linked_pages_by_full_title(page.newest_html).values(), key=lambda link: (link.namespace, link.name)
            ):
                if (not namespaces or title.namespace in namespaces) and (not only or title.full_title in only):
                    rows.append(
                        (key, f"{title.namespace}|{title.name}", {"ns": title.namespace, "title": title.full_title})
                    )
    return _add_limited_rows("links", "pl", rows, request)


def add_category_member_counts(request: RequestedPagesAndEntries) -> ContinueParameters:
    """Add the member counts of categories."""
    for key, page in request.pages.items():
        title = page.title if isinstance(page, WikiPage) else page.full_title
        if page.namespace == CATEGORY_NAMESPACE and (
            isinstance(page, WikiPage) or title in request.wiki.members_by_category
        ):
            kinds = [member.kind for member in request.wiki.members_by_category.get(title, [])]
            counts = {"size": len(kinds), "pages": kinds.count("page"), "files": 0, "subcats": kinds.count("subcat")}
            request.entries[key]["categoryinfo"] = counts
    return {}


def ignore_image_info_request(request: RequestedPagesAndEntries) -> ContinueParameters:
    """Add nothing for imageinfo, which mwclient requests with every generator; the wiki has no files."""
    for name in ("iiprop", "iilimit"):
        request.params.get_text(name)
    return {}


def add_page_revisions(request: RequestedPagesAndEntries) -> ContinueParameters:
    """Add revisions: the newest of each page, requested ids, or a range of one page's history."""
    wanted = request.params.list_values("rvprop", "ids|timestamp|flags|comment|user")
    slots = request.params.list_values("rvslots")
    request.params.get_text("uselang")
    if "content" in wanted and not slots:
        request.params.add_warning(
            "revisions",
            'Because "rvslots" was not specified, a legacy format has been used for the output. '
            "This format is deprecated, and in the future the new format will always be used.",
        )
    revids = request.params.list_integers("revids")
    listing = {
        name
        for name in ("rvlimit", "rvstart", "rvend", "rvstartid", "rvendid", "rvuser")
        if request.params.has_flag(name)
    }
    is_run = bool(listing) or request.params.get_choice("rvdir", ("older", "newer"), "older") == "newer"
    if is_run and revids:
        raise ActionApiRequestRejected(
            "invalidparammix", 'The "revids" parameter may not be used with the list options of "rv".'
        )
    if is_run and sum(isinstance(page, WikiPage) for page in request.pages.values()) > 1:
        raise ActionApiRequestRejected(
            "invalidparammix",
            'Several pages were given by "titles", "pageids" or a generator, but "rvlimit", "rvstartid", "rvendid", '
            '"rvdir=newer", "rvuser", "rvexcludeuser", "rvstart" and "rvend" may only be used on a single page.',
        )
    more: ContinueParameters = {}
    for key, page in request.pages.items():
        if not isinstance(page, WikiPage):
            continue
        chosen = [page.revisions[-1]]
        if revids:
            chosen = [revision for revision in page.revisions if revision.revid in revids]
        elif is_run:
            chosen, more = _choose_history_revisions(page, request.params)
        if chosen:
            entries = [_make_revision_entry(each, wanted, bool(slots), request.shape) for each in chosen]
            request.entries[key]["revisions"] = entries
    return more


PAGE_PROPERTY_ADDERS: Mapping[str, Callable[[RequestedPagesAndEntries], ContinueParameters]] = {
    "info": add_page_info_to_entries,
    "revisions": add_page_revisions,
    "pageprops": add_page_props,
    "categories": add_page_categories,
    "links": add_page_links,
    "categoryinfo": add_category_member_counts,
    "imageinfo": ignore_image_info_request,
}
"""Property → function that adds it."""


def _choose_history_revisions(
    page: WikiPage, params: ActionApiParameters
) -> tuple[list[WorldArticleRevision], ContinueParameters]:
    """Return a page's revisions between start and end, newest first unless rvdir=newer."""
    start, end = params.get_timestamp("rvstart"), params.get_timestamp("rvend")
    start_id, end_id = params.get_integer("rvstartid"), params.get_integer("rvendid")
    is_newer = params.get_choice("rvdir", ("older", "newer"), "older") == "newer"
    limit = min(params.get_limit("rvlimit", 10, "revisions"), MAX_PARAMETER_VALUES)
    chosen = list(page.revisions if is_newer else page.revisions[::-1])
    early, late = (start, end) if is_newer else (end, start)
    low, high = (start_id, end_id) if is_newer else (end_id, start_id)
    chosen = [r for r in chosen if (early is None or r.at >= early) and (late is None or r.at <= late)]
    chosen = [r for r in chosen if (low is None or r.revid >= low) and (high is None or r.revid <= high)]
    if (user := params.get_text("rvuser")) is not None and user != _REVISION_USER:
        chosen = []
    if given := params.get_text("rvcontinue"):
        revid = given.partition("|")[2]
        place = next((number for number, revision in enumerate(chosen) if str(revision.revid) == revid), None)
        if place is None:
            raise make_bad_continue_error()
        chosen = chosen[place:]
    if len(chosen) <= limit:
        return chosen, {}
    following = chosen[limit]
    return chosen[:limit], {"rvcontinue": f"{re.sub('[-:TZ]', '', following.at)}|{following.revid}"}


def _make_revision_entry(
    revision: WorldArticleRevision, wanted: list[str], has_slots: bool, shape: ReplyFormat
) -> dict[str, Any]:
    data = revision.text.encode()
    entry: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {
        "ids": {"revid": revision.revid, "parentid": revision.parent_revid},
        "flags": {} if shape.is_version_1 else {"minor": False},
        "user": {"user": _REVISION_USER},
        "userid": {"userid": 1},
        "timestamp": {"timestamp": revision.at},
        "size": {"size": len(data)},
        "sha1": {"sha1": hashlib.sha1(data, usedforsecurity=False).hexdigest()},
        "contentmodel": {} if has_slots else {"contentmodel": "wikitext"},
        "comment": {"comment": revision.comment},
        "parsedcomment": {"parsedcomment": revision.comment},
        "tags": {"tags": []},
    }
    for name, part in parts.items():
        if name in wanted:
            entry |= part
    if "content" in wanted:
        # MediaWiki's mark for a revision with lost text; this wiki has rendered HTML and no wikitext
        content = {"contentmodel": "wikitext", **shape.format_flags(textmissing=True)}
        entry |= {"slots": {"main": content}} if has_slots else content
    return entry


def _add_limited_rows(
    name: str, prefix: str, rows: list[tuple[int, str, dict[str, Any]]], request: RequestedPagesAndEntries
) -> ContinueParameters:
    """Add rows to their pages, up to the limit over all pages; return how to continue."""
    params = request.params
    limit = params.get_limit(f"{prefix}limit", 10, name)
    if params.get_choice(f"{prefix}dir", ("ascending", "descending"), "ascending") == "descending":
        rows = rows[::-1]
    start, places = 0, [f"{key}|{mark.replace(' ', '_')}" for key, mark, _ in rows]
    if given := params.get_text(f"{prefix}continue"):
        if given not in places:
            raise make_bad_continue_error()
        start = places.index(given)
    for key, _, entry in rows[start : start + limit]:
        request.entries[key].setdefault(name, []).append(entry)
    return {f"{prefix}continue": place for place in places[start + limit : start + limit + 1]}
