"""Answer action=query: pages requested by title or by a list (category members, search, all pages), and their properties.

A list returns its entries, their pages, and the parameters to continue.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape
from typing import Any

from factmill.tasks.world.wiki.pages import (
    CATEGORY,
    MAIN,
    NAMESPACES,
    BadTitleError,
    Page,
    Title,
    Wiki,
    parse_title,
    read_plain_text,
)
from factmill.tasks.world.wiki.props import PROPS, SITE, Asked
from factmill.tasks.world.wiki.request import ApiError, Parameters, Shape, bad_continue

_WORD = re.compile(r"\w+")
_HEX = re.compile(r"(?:[0-9a-f]{2})*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ListReply:
    """One batch of a list."""

    entries: list[dict[str, Any]]
    pages: list[str]
    """Full titles of the entries, for use as a generator."""
    more: Mapping[str, str | int]
    """Parameters that request the next batch; empty if there is none."""
    info: Mapping[str, Any]
    """What the response has besides the list."""


def list_category_members(wiki: Wiki, params: Parameters, prefix: str) -> ListReply:
    """List a category's members by sort key within each kind; pages come first by default."""
    members = _chosen_members(wiki, params, prefix)
    limit = params.limit(f"{prefix}limit", 10, "categorymembers")
    shown = set(params.values(f"{prefix}prop", "ids|title"))
    start = 0
    if given := params.text(f"{prefix}continue"):
        parts = given.split("|")
        if len(parts) != 3 or not parts[2].isdigit() or not _HEX.fullmatch(parts[1]):
            raise bad_continue()
        ids = [member.page.pageid for member in members]
        start = ids.index(int(parts[2])) if int(parts[2]) in ids else len(ids)
    entries = []
    for member in members[start : start + limit]:
        parts_of = {
            "ids": {"pageid": member.page.pageid},
            "title": {"ns": member.page.namespace, "title": member.page.title},
            "sortkey": {"sortkey": member.sort_key.encode().hex()},
            "type": {"type": member.kind},
            "timestamp": {"timestamp": member.page.revisions[0].at},
        }
        entries.append({key: value for name, part in parts_of.items() if name in shown for key, value in part.items()})
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
    """List the pages of a namespace, sorted by title."""
    namespace = params.integer(f"{prefix}namespace") or MAIN
    start, end = params.text(f"{prefix}from") or "", params.text(f"{prefix}to")
    start = (params.text(f"{prefix}continue") or start).replace("_", " ")
    beginning = params.text(f"{prefix}prefix") or ""
    kind = params.one_of(f"{prefix}filterredir", ("all", "redirects", "nonredirects"), "all")
    limit = params.limit(f"{prefix}limit", 10, "allpages")
    found: list[tuple[str, Page]] = []
    for page in wiki.by_title.values():
        name = page.title.partition(":")[2] if page.namespace else page.title
        in_range = start <= name and (end is None or name <= end.replace("_", " ")) and name.startswith(beginning)
        is_kind = kind in {"all", "redirects" if page.redirect_to else "nonredirects"}
        if page.namespace == namespace and in_range and is_kind:
            found.append((name, page))
    found.sort(key=lambda pair: pair[0])
    pages = [page for _, page in found[:limit]]
    entries = [{"pageid": page.pageid, "ns": page.namespace, "title": page.title} for page in pages]
    more = {f"{prefix}continue": name.replace(" ", "_") for name, _ in found[limit : limit + 1]}
    return ListReply(entries, [page.title for page in pages], more, {})


def list_search(wiki: Wiki, params: Parameters, prefix: str) -> ListReply:
    """List the pages with every query word in title, redirects or text; the closest titles come first."""
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
        for page in wiki.by_title.values()
        if not page.redirect_to and page.namespace in namespaces and (score := _score(wiki, page, words))
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
"""List → (parameter prefix, function)."""


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
    return Counter(word.casefold() for word in _WORD.findall(read_plain_text(text)))


def _hit(page: Page, words: list[str], shown: set[str]) -> dict[str, Any]:
    plain = read_plain_text(page.text)
    parts = {
        "size": len(page.text.encode()),
        "wordcount": len(_WORD.findall(plain)),
        "snippet": _cut_snippet(plain, words),
        "timestamp": page.revisions[-1].at,
    }
    head = {"ns": page.namespace, "title": page.title, "pageid": page.pageid}
    return head | {name: part for name, part in parts.items() if name in shown}


def _cut_snippet(plain: str, words: list[str]) -> str:
    matches = [match.start() for match in _WORD.finditer(plain) if match[0].casefold() in words]
    start = plain.rfind(" ", 0, max(matches[0] - 40, 0)) + 1 if matches else 0
    piece = plain[start : start + 180]
    marked, place = "", 0
    for match in _WORD.finditer(piece):
        if match[0].casefold() in words:
            marked += escape(piece[place : match.start()]) + f'<span class="searchmatch">{escape(match[0])}</span>'
            place = match.end()
    return marked + escape(piece[place:])


_SOURCES = ("titles", "pageids", "revids", "generator")
_PAGE_GENERATORS = {"categories": "cl", "links": "pl"}
_METAS = ("siteinfo", "userinfo", "tokens")
_GENERATOR = "MediaWiki 1.45.0"
_SPECIAL_PAGES = {"Search", "AllPages", "Categories", "Random", "RecentChanges"}


@dataclass(slots=True)
class PageSet:
    """Pages of a request by response key, and how the given titles were resolved."""

    pages: dict[int, Page | Title] = field(default_factory=dict)
    invalid: dict[int, dict[str, Any]] = field(default_factory=dict)
    normalized: dict[str, str] = field(default_factory=dict)
    redirects: dict[str, Title] = field(default_factory=dict)
    bad_revids: list[int] = field(default_factory=list)

    def add(self, title: Title, wiki: Wiki) -> None:
        """Add a page by title, existing or not, once."""
        page = wiki.by_title.get(title.full)
        known = {(p.title if isinstance(p, Page) else p.full) for p in self.pages.values()}
        if title.full not in known:
            self.pages[page.pageid if page else self.next_missing()] = page or title

    def next_missing(self) -> int:
        """Return the next free negative key."""
        return min([0, *self.pages, *self.invalid]) - 1


def run_query(wiki: Wiki, params: Parameters, shape: Shape) -> dict[str, Any]:
    """Return the response to action=query, without warnings."""
    query: dict[str, Any] = {}
    more: dict[str, Any] = {}
    for name in params.known_values("meta", _METAS, "query"):
        query |= _answer_meta(name, params, shape)
    for name in params.known_values("list", LISTS, "query"):
        prefix, function = LISTS[name]
        listed = function(wiki, params, prefix)
        query |= {**listed.info, name: listed.entries}
        more |= listed.more
    props = params.known_values("prop", PROPS, "query")
    prop_more: dict[str, Any] = {}
    generator_more: dict[str, Any] = {}
    sources = [name for name in _SOURCES if params.text(name)]
    # a generator over links or categories of pages needs pages too
    if params.text("generator") in _PAGE_GENERATORS:
        sources.remove("generator")
    if len(sources) > 1:
        names = ", ".join(f'"{name}"' for name in sources)
        raise ApiError("invalidparammix", f"The parameters {names} can not be used together.")
    if sources:
        page_set, generator_more = _read_page_set(wiki, params, shape)
        entries = {key: _page_entry(key, page, shape) for key, page in page_set.pages.items()}
        for name in props:
            prop_more |= PROPS[name](Asked(wiki, params, shape, page_set.pages, entries))
        query |= _describe_page_set(page_set, entries, shape)
    elif props:
        # MediaWiki returns nothing for a property without pages
        for name in props:
            PROPS[name](Asked(wiki, params, shape, {}, {}))
    if prop_more:
        # continue the property for the same pages; a generator keeps its position
        asked = [name for name in params.given if name.startswith("g") and name.endswith(("continue", "offset"))]
        more |= prop_more | {name: params.given[name] for name in asked if generator_more or params.given[name]}
        more["continue"] = "||"
    elif generator_more:
        more |= generator_more
        more["continue"] = f"{next(iter(generator_more))}||"
    elif more:
        more["continue"] = "-||"
    reply = {} if prop_more else {"batchcomplete": shape.flag}
    parts = {"continue": more, "limits": params.limits, "query": query}
    return reply | {name: part for name, part in parts.items() if part}


def _read_page_set(wiki: Wiki, params: Parameters, shape: Shape) -> tuple[PageSet, dict[str, Any]]:
    page_set = PageSet()
    follow = params.flag("redirects")
    for pageid in params.integers("pageids"):
        if pageid in wiki.by_id:
            _add_following(page_set, parse_title(wiki.by_id[pageid].title), wiki, follow)
        else:
            page_set.invalid[pageid] = {"pageid": pageid, **shape.flags(missing=True)}
    for revid in params.integers("revids"):
        if revid in wiki.by_revid:
            page_set.add(parse_title(wiki.by_revid[revid][0].title), wiki)
        else:
            page_set.bad_revids.append(revid)
    for text in params.values("titles"):
        try:
            title = parse_title(text)
        except BadTitleError as error:
            entry = {"title": text, "invalidreason": str(error), **shape.flags(invalid=True)}
            page_set.invalid[page_set.next_missing()] = entry
            continue
        if title.full != text:
            page_set.normalized[text] = title.full
        _add_following(page_set, title, wiki, follow)
    if generator := params.text("generator"):
        return _generate(generator, page_set, wiki, params, shape)
    return page_set, {}


def _add_following(page_set: PageSet, title: Title, wiki: Wiki, follow: bool) -> None:
    if not follow:
        page_set.add(title, wiki)
        return
    steps, target = wiki.follow(title.full)
    page_set.redirects |= dict(steps)
    if target:
        page_set.add(target, wiki)


def _generate(
    generator: str, given: PageSet, wiki: Wiki, params: Parameters, shape: Shape
) -> tuple[PageSet, dict[str, Any]]:
    follow = params.flag("redirects")
    if generator in LISTS:
        prefix, function = LISTS[generator]
        listed = function(wiki, params, f"g{prefix}")
    elif generator in _PAGE_GENERATORS:
        listed = _generate_from_pages(generator, given, wiki, params, shape)
    else:
        raise ApiError("badvalue", f'Unrecognized value for parameter "generator": {generator}.')
    generated = PageSet(normalized=given.normalized, redirects=given.redirects)
    for title in listed.pages:
        _add_following(generated, parse_title(title), wiki, follow)
    return generated, dict(listed.more)


def _generate_from_pages(generator: str, given: PageSet, wiki: Wiki, params: Parameters, shape: Shape) -> ListReply:
    """Return the links or categories of the given pages, all in one batch."""
    entries: dict[int, dict[str, Any]] = {key: {} for key in given.pages}
    prefix = _PAGE_GENERATORS[generator]
    chosen = {name[1:]: value for name, value in params.given.items() if name.startswith(f"g{prefix}")}
    params.read |= {f"g{name}" for name in chosen}
    inner = Parameters(chosen | {f"{prefix}limit": "max"})
    PROPS[generator](Asked(wiki, inner, shape, given.pages, entries))
    titles = [row["title"] for entry in entries.values() for row in entry.get(generator, [])]
    return ListReply([], list(dict.fromkeys(titles)), {}, {})


def _page_entry(key: int, page: Page | Title, shape: Shape) -> dict[str, Any]:
    if isinstance(page, Page):
        return {"pageid": key, "ns": page.namespace, "title": page.title}
    is_special = page.namespace < 0
    flags = shape.flags(special=is_special, missing=not is_special or page.name not in _SPECIAL_PAGES)
    return {"ns": page.namespace, "title": page.full, **flags}


def _describe_page_set(page_set: PageSet, entries: dict[int, dict[str, Any]], shape: Shape) -> dict[str, Any]:
    described: dict[str, Any] = {}
    extra = {} if shape.is_old else {"fromencoded": False}
    if steps := page_set.normalized.items():
        described["normalized"] = [{**extra, "from": given, "to": title} for given, title in steps]
    if page_set.redirects:
        described["redirects"] = [
            {"from": source, "to": target.full, **({"tofragment": target.fragment} if target.fragment else {})}
            for source, target in page_set.redirects.items()
        ]
    if page_set.bad_revids:
        bad = {revid: {"revid": revid, **shape.flags(missing=True)} for revid in page_set.bad_revids}
        described["badrevids"] = shape.keyed(bad)
    everything = {**page_set.invalid, **entries}
    return described | ({"pages": shape.keyed(everything)} if everything else {})


def _answer_meta(name: str, params: Parameters, shape: Shape) -> dict[str, Any]:
    if name == "siteinfo":
        return _site_info(params.known_values("siprop", ("general", "namespaces"), "siteinfo", "general"), shape)
    if name == "tokens":
        kinds = params.values("type", "csrf")
        return {"tokens": {f"{kind}token": "+\\" for kind in kinds}}
    params.values("uiprop")
    rights = {"groups": ["*"], "rights": ["read"]}
    return {"userinfo": {"id": 0, "name": "127.0.0.1", **shape.flags(anon=True), **rights}}


def _site_info(wanted: list[str], shape: Shape) -> dict[str, Any]:
    info: dict[str, Any] = {}
    if "general" in wanted:
        info["general"] = {
            "mainpage": "Main Page", "base": f"{SITE}/wiki/Main_Page", "sitename": "Wikipedia", "generator": _GENERATOR,
            "case": "first-letter", "lang": "en", "articlepath": "/wiki/$1", "scriptpath": "/w",
            "server": "//en.wikipedia.org", "servername": "en.wikipedia.org", "wikiid": "enwiki", "timezone": "UTC",
        }  # fmt: skip
    if "namespaces" in wanted:
        info["namespaces"] = {}
        for number, name in NAMESPACES.items():
            flags = shape.flags(content=number == 0, subpages=number not in {0, CATEGORY})
            entry = {"id": number, "case": "first-letter", **flags, "*" if shape.is_old else "name": name}
            entry |= {"canonical": "Project" if number == 4 else name} if name else {}
            info["namespaces"][str(number)] = entry
    return info
