"""Page properties of action=query: info, revisions, pageprops, categories, links and category counts.

Each function adds its property to the entries of the requested pages in the response.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from factmill.tasks.world.data import Revision
from factmill.tasks.world.wiki.pages import CATEGORY, Page, Title, Wiki, find_links, page_path
from factmill.tasks.world.wiki.request import MANY, ApiError, Parameters, Shape, bad_continue

SITE = "https://en.wikipedia.org"
_USER = "Embedded world"

More = dict[str, str]
"""Parameters that request the rest; empty if there is none."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The pages of a request and their entries in the response so far."""

    wiki: Wiki
    params: Parameters
    shape: Shape
    pages: Mapping[int, Page | Title]
    """Key in the response → page, or title of a missing page; keys of missing pages are negative."""
    entries: dict[int, dict[str, Any]]
    """Key in the response → the page's entry, which the functions extend."""


def add_info(asked: Asked) -> More:
    """Add prop=info: a page's metadata."""
    wanted = set(asked.params.values("inprop"))
    for key, page in asked.pages.items():
        entry = asked.entries[key]
        if page.namespace < 0:
            continue
        entry |= {"contentmodel": "wikitext", "pagelanguage": "en", "pagelanguagehtmlcode": "en"}
        entry["pagelanguagedir"] = "ltr"
        title = page.title if isinstance(page, Page) else page.full
        if isinstance(page, Page):
            newest = page.revisions[-1]
            entry |= {"touched": newest.at, "lastrevid": newest.revid, "length": len(newest.text.encode())}
            entry |= asked.shape.flags(redirect=page.redirect_to is not None, new=len(page.revisions) == 1)
        if "protection" in wanted:
            entry |= {"protection": [], "restrictiontypes": ["edit", "move"] if isinstance(page, Page) else ["create"]}
        if "url" in wanted:
            entry["fullurl"] = entry["canonicalurl"] = f"{SITE}/wiki/{page_path(title)}"
            entry["editurl"] = f"{SITE}/w/index.php?title={page_path(title)}&action=edit"
        if "displaytitle" in wanted:
            entry["displaytitle"] = title
    return {}


def add_pageprops(asked: Asked) -> More:
    """Add prop=pageprops: item, disambiguation page, short description."""
    wanted = set(asked.params.values("ppprop"))
    for key, page in asked.pages.items():
        if isinstance(page, Page):
            props = {name: value for name, value in page.props.items() if not wanted or name in wanted}
            asked.entries[key] |= {"pageprops": props} if props else {}
    return {}


def add_categories(asked: Asked) -> More:
    """Add the categories of pages, sorted by title."""
    only = {title.replace("_", " ") for title in asked.params.values("clcategories")}
    shown = set(asked.params.values("clprop"))
    asked.params.text("clshow")
    rows: list[tuple[int, str, dict[str, Any]]] = []
    for key, page in asked.pages.items():
        if isinstance(page, Page) and not page.redirect_to:
            for name, sort_key in sorted(page.categories.items()):
                entry: dict[str, Any] = {"ns": CATEGORY, "title": f"Category:{name}"}
                entry |= {"sortkey": (sort_key or page.title).upper().encode().hex()} if "sortkey" in shown else {}
                if not only or entry["title"] in only:
                    rows.append((key, name, entry))
    return _add_rows("categories", "cl", rows, asked)


def add_links(asked: Asked) -> More:
    """Add the links of pages, sorted by namespace and title."""
    namespaces = set(asked.params.integers("plnamespace"))
    only = {title.replace("_", " ") for title in asked.params.values("pltitles")}
    rows: list[tuple[int, str, dict[str, Any]]] = []
    for key, page in asked.pages.items():
        if isinstance(page, Page):
            for title in sorted(find_links(page.text).values(), key=lambda link: (link.namespace, link.name)):
                if (not namespaces or title.namespace in namespaces) and (not only or title.full in only):
                    rows.append((key, f"{title.namespace}|{title.name}", {"ns": title.namespace, "title": title.full}))
    return _add_rows("links", "pl", rows, asked)


def add_category_info(asked: Asked) -> More:
    """Add the member counts of categories."""
    for key, page in asked.pages.items():
        title = page.title if isinstance(page, Page) else page.full
        if page.namespace == CATEGORY and (isinstance(page, Page) or title in asked.wiki.members):
            kinds = [member.kind for member in asked.wiki.members.get(title, [])]
            counts = {"size": len(kinds), "pages": kinds.count("page"), "files": 0, "subcats": kinds.count("subcat")}
            asked.entries[key]["categoryinfo"] = counts
    return {}


def add_nothing(asked: Asked) -> More:
    """Add nothing for imageinfo, which mwclient requests with every generator; the wiki has no files."""
    for name in ("iiprop", "iilimit"):
        asked.params.text(name)
    return {}


def add_revisions(asked: Asked) -> More:
    """Add revisions: the newest of each page, requested ids, or a range of one page's history."""
    wanted = asked.params.values("rvprop", "ids|timestamp|flags|comment|user")
    slots = asked.params.values("rvslots")
    asked.params.text("uselang")
    if "content" in wanted and not slots:
        asked.params.warn(
            "revisions",
            'Because "rvslots" was not specified, a legacy format has been used for the output. '
            "This format is deprecated, and in the future the new format will always be used.",
        )
    revids = asked.params.integers("revids")
    listing = {
        name for name in ("rvlimit", "rvstart", "rvend", "rvstartid", "rvendid", "rvuser") if asked.params.flag(name)
    }
    is_run = bool(listing) or asked.params.one_of("rvdir", ("older", "newer"), "older") == "newer"
    if is_run and revids:
        raise ApiError("invalidparammix", 'The "revids" parameter may not be used with the list options of "rv".')
    if is_run and sum(isinstance(page, Page) for page in asked.pages.values()) > 1:
        raise ApiError(
            "invalidparammix",
            'Several pages were given by "titles", "pageids" or a generator, but "rvlimit", "rvstartid", "rvendid", '
            '"rvdir=newer", "rvuser", "rvexcludeuser", "rvstart" and "rvend" may only be used on a single page.',
        )
    more: More = {}
    for key, page in asked.pages.items():
        if not isinstance(page, Page):
            continue
        chosen = [page.revisions[-1]]
        if revids:
            chosen = [revision for revision in page.revisions if revision.revid in revids]
        elif is_run:
            chosen, more = _run_of_history(page, asked.params)
        if chosen:
            told = [_revision_entry(each, wanted, bool(slots), asked.shape) for each in chosen]
            asked.entries[key]["revisions"] = told
    return more


PROPS: Mapping[str, Callable[[Asked], More]] = {
    "info": add_info,
    "revisions": add_revisions,
    "pageprops": add_pageprops,
    "categories": add_categories,
    "links": add_links,
    "categoryinfo": add_category_info,
    "imageinfo": add_nothing,
}
"""Property → function that adds it."""


def _run_of_history(page: Page, params: Parameters) -> tuple[list[Revision], More]:
    """Return a page's revisions between start and end, newest first unless rvdir=newer."""
    start, end = params.timestamp("rvstart"), params.timestamp("rvend")
    start_id, end_id = params.integer("rvstartid"), params.integer("rvendid")
    is_newer = params.one_of("rvdir", ("older", "newer"), "older") == "newer"
    limit = min(params.limit("rvlimit", 10, "revisions"), MANY)
    chosen = list(page.revisions if is_newer else page.revisions[::-1])
    early, late = (start, end) if is_newer else (end, start)
    low, high = (start_id, end_id) if is_newer else (end_id, start_id)
    chosen = [r for r in chosen if (early is None or r.at >= early) and (late is None or r.at <= late)]
    chosen = [r for r in chosen if (low is None or r.revid >= low) and (high is None or r.revid <= high)]
    if (user := params.text("rvuser")) is not None and user != _USER:
        chosen = []
    if given := params.text("rvcontinue"):
        revid = given.partition("|")[2]
        place = next((number for number, revision in enumerate(chosen) if str(revision.revid) == revid), None)
        if place is None:
            raise bad_continue()
        chosen = chosen[place:]
    if len(chosen) <= limit:
        return chosen, {}
    following = chosen[limit]
    return chosen[:limit], {"rvcontinue": f"{re.sub('[-:TZ]', '', following.at)}|{following.revid}"}


def _revision_entry(revision: Revision, wanted: list[str], has_slots: bool, shape: Shape) -> dict[str, Any]:
    data = revision.text.encode()
    entry: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {
        "ids": {"revid": revision.revid, "parentid": revision.parent_revid},
        "flags": {} if shape.is_old else {"minor": False},
        "user": {"user": _USER},
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
        content = {"contentmodel": "wikitext", **shape.flags(textmissing=True)}
        entry |= {"slots": {"main": content}} if has_slots else content
    return entry


def _add_rows(name: str, prefix: str, rows: list[tuple[int, str, dict[str, Any]]], asked: Asked) -> More:
    """Add rows to their pages, up to the limit over all pages; return how to continue."""
    params = asked.params
    limit = params.limit(f"{prefix}limit", 10, name)
    if params.one_of(f"{prefix}dir", ("ascending", "descending"), "ascending") == "descending":
        rows = rows[::-1]
    start, places = 0, [f"{key}|{mark.replace(' ', '_')}" for key, mark, _ in rows]
    if given := params.text(f"{prefix}continue"):
        if given not in places:
            raise bad_continue()
        start = places.index(given)
    for key, _, entry in rows[start : start + limit]:
        asked.entries[key].setdefault(name, []).append(entry)
    return {f"{prefix}continue": place for place in places[start + limit : start + limit + 1]}
