"""The lists of action=query: members of a category, search, all pages; each also a generator of pages.

A list gives its entries, the pages they stand for, and where to go on.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import Any

from tasks.world.wiki.page_html import read_plain_text
from tasks.world.wiki.pages import CATEGORY, MAIN, BadTitleError, Page, Wiki, parse_title
from tasks.world.wiki.request import ApiError, Parameters

_WORD = re.compile(r"\w+")
_HEX = re.compile(r"(?:[0-9a-f]{2})*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ListReply:
    """One piece of a list."""

    entries: list[dict[str, Any]]
    pages: list[str]
    """Full titles of the entries, for use as a generator."""
    more: Mapping[str, str | int]
    """Parameters by which the next piece is asked for, empty when there is none."""
    info: Mapping[str, Any]
    """What stands beside the list in the reply."""


def list_category_members(wiki: Wiki, params: Parameters, prefix: str) -> ListReply:
    """List the members of a category by sort key, one kind after the other, pages first unless told otherwise."""
    members = _chosen_members(wiki, params, prefix)
    limit = params.limit(f"{prefix}limit", 10, "categorymembers")
    shown = set(params.values(f"{prefix}prop", "ids|title"))
    start = 0
    if given := params.text(f"{prefix}continue"):
        parts = given.split("|")
        if len(parts) != 3 or not parts[2].isdigit() or not _HEX.fullmatch(parts[1]):
            raise ApiError(
                "badcontinue", "Invalid continue param. You should pass the original value returned by the API."
            )
        ids = [member.page.pageid for member in members]
        start = ids.index(int(parts[2])) if int(parts[2]) in ids else len(ids)
    entries = []
    for member in members[start : start + limit]:
        entry: dict[str, Any] = {"pageid": member.page.pageid} if "ids" in shown else {}
        entry |= {"ns": member.page.namespace, "title": member.page.title} if "title" in shown else {}
        entry |= {"sortkey": member.sort_key.encode().hex()} if "sortkey" in shown else {}
        entry |= {"type": member.kind} if "type" in shown else {}
        entry |= {"timestamp": member.page.revisions[0].at} if "timestamp" in shown else {}
        entries.append(entry)
    following = members[start + limit : start + limit + 1]
    more = {f"{prefix}continue": f"{m.kind}|{m.sort_key.encode().hex()}|{m.page.pageid}" for m in following}
    return ListReply(entries, [member.page.title for member in members[start : start + limit]], more, {})


def _chosen_members(wiki: Wiki, params: Parameters, prefix: str) -> list[Any]:
    title, pageid = params.text(f"{prefix}title"), params.integer(f"{prefix}pageid")
    if (title is None) == (pageid is None):
        names = f'"{prefix}title" and "{prefix}pageid"'
        if title is None:
            raise ApiError("missingparam", f"One of the parameters {names} is required.")
        raise ApiError("invalidparammix", f"The parameters {names} can not be used together.")
    if pageid is not None:
        if pageid not in wiki.by_id:
            raise ApiError("nosuchpageid", f"There is no page with ID {pageid}.")
        title = wiki.by_id[pageid].title
    try:
        category = parse_title(str(title))
    except BadTitleError as error:
        raise ApiError("invalidtitle", f'Bad title "{title}".') from error
    if category.namespace != CATEGORY:
        raise ApiError("invalidcategory", "The category name you entered is not valid.")
    kinds = params.known_values(f"{prefix}type", ("page", "subcat", "file"), "categorymembers", "page|subcat|file")
    namespaces = set(params.integers(f"{prefix}namespace"))
    members = [m for m in wiki.members.get(category.full, []) if m.kind in kinds]
    members = [m for m in members if not namespaces or m.page.namespace in namespaces]
    if params.one_of(f"{prefix}sort", ("sortkey", "timestamp"), "sortkey") == "timestamp":
        members.sort(key=lambda member: (member.page.revisions[0].at, member.page.pageid))
    else:
        members.sort(key=lambda member: kinds.index(member.kind))
    direction = params.one_of(f"{prefix}dir", ("asc", "ascending", "newer", "desc", "descending", "older"), "asc")
    for unused in ("start", "end", "startsortkeyprefix", "endsortkeyprefix"):
        params.text(f"{prefix}{unused}")
    return members[::-1] if direction in {"desc", "descending", "older"} else members


def list_all_pages(wiki: Wiki, params: Parameters, prefix: str) -> ListReply:
    """List the pages of a namespace by title."""
    namespace = params.integer(f"{prefix}namespace") or MAIN
    start, end = params.text(f"{prefix}from") or "", params.text(f"{prefix}to")
    start = params.text(f"{prefix}continue") or start
    beginning = params.text(f"{prefix}prefix") or ""
    kind = params.one_of(f"{prefix}filterredir", ("all", "redirects", "nonredirects"), "all")
    limit = params.limit(f"{prefix}limit", 10, "allpages")
    start = start.replace("_", " ")
    found: list[tuple[str, Page]] = []
    for page in wiki.by_title.values():
        name = page.title.partition(":")[2] if page.namespace else page.title
        in_range = start <= name and (end is None or name <= end.replace("_", " ")) and name.startswith(beginning)
        if (
            page.namespace == namespace
            and in_range
            and kind in {"all", "redirects" if page.redirect_to else "nonredirects"}
        ):
            found.append((name, page))
    found.sort(key=lambda pair: pair[0])
    pages = [page for _, page in found[:limit]]
    entries = [{"pageid": page.pageid, "ns": page.namespace, "title": page.title} for page in pages]
    more = {f"{prefix}continue": name.replace(" ", "_") for name, _ in found[limit : limit + 1]}
    return ListReply(entries, [page.title for page in pages], more, {})


def list_search(wiki: Wiki, params: Parameters, prefix: str) -> ListReply:
    """List the pages that hold every word of a question in title, redirects or text, those with a close title first."""
    question = params.text(f"{prefix}search")
    if question is None:
        raise ApiError("missingparam", f'The "{prefix}search" parameter must be set.')
    words = [word.casefold() for word in _WORD.findall(question)]
    if not words:
        raise ApiError("nosearch", "The search request is empty.")
    namespaces = params.integers(f"{prefix}namespace") or [MAIN]
    offset = params.integer(f"{prefix}offset") or 0
    limit = params.limit(f"{prefix}limit", 10, "search")
    shown = set(params.values(f"{prefix}prop", "size|wordcount|timestamp|snippet"))
    asked = set(params.values(f"{prefix}info", "totalhits|suggestion|rewrittenquery"))
    for unused in ("what", "sort", "qiprofile", "interwiki", "backend", "enablerewrites"):
        params.text(f"{prefix}{unused}")
    ranked = sorted(
        (-score, page.pageid, page)
        for page in _searchable(wiki)
        if page.namespace in namespaces and (score := _score(wiki, page, words))
    )
    pages = [page for _, _, page in ranked[offset : offset + limit]]
    more = {f"{prefix}offset": offset + limit} if len(ranked) > offset + limit else {}
    info = {"searchinfo": {"totalhits": len(ranked)}} if "totalhits" in asked else {}
    return ListReply([_hit(page, words, shown) for page in pages], [page.title for page in pages], more, info)


LISTS: Mapping[str, tuple[str, Callable[[Wiki, Parameters, str], ListReply]]] = {
    "categorymembers": ("cm", list_category_members),
    "allpages": ("ap", list_all_pages),
    "search": ("sr", list_search),
}
"""List → its prefix and its function."""


def _searchable(wiki: Wiki) -> list[Page]:
    return [page for page in wiki.by_title.values() if not page.redirect_to]


def _score(wiki: Wiki, page: Page, words: list[str]) -> int:
    titles = [page.title, *wiki.redirects_to.get(page.title, [])]
    named = [{word.casefold() for word in _WORD.findall(title)} for title in titles]
    text = _plain_words(page.text)
    if not all(word in text or any(word in name for name in named) for word in words):
        return 0
    best = max(sum(word in name for word in words) * 1000 - 10 * len(name) for name in named)
    return 10_000 + best + min(sum(text.get(word, 0) for word in words), 500)


@lru_cache(maxsize=4096)
def _plain_words(text: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in _WORD.findall(read_plain_text(text)):
        folded = word.casefold()
        counts[folded] = counts.get(folded, 0) + 1
    return counts


def _hit(page: Page, words: list[str], shown: set[str]) -> dict[str, Any]:
    plain = read_plain_text(page.text)
    hit: dict[str, Any] = {"ns": page.namespace, "title": page.title, "pageid": page.pageid}
    hit |= {"size": len(page.text.encode())} if "size" in shown else {}
    hit |= {"wordcount": len(_WORD.findall(plain))} if "wordcount" in shown else {}
    hit |= {"snippet": _snippet(plain, words)} if "snippet" in shown else {}
    return hit | ({"timestamp": page.revisions[-1].at} if "timestamp" in shown else {})


def _snippet(plain: str, words: list[str]) -> str:
    matches = [match.start() for match in _WORD.finditer(plain) if match[0].casefold() in words]
    start = plain.rfind(" ", 0, max(matches[0] - 40, 0)) + 1 if matches else 0
    piece = plain[start : start + 180]
    marked, place = "", 0
    for match in _WORD.finditer(piece):
        if match[0].casefold() in words:
            marked += escape(piece[place : match.start()]) + f'<span class="searchmatch">{escape(match[0])}</span>'
            place = match.end()
    return marked + escape(piece[place:])
