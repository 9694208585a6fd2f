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

from factmill.tasks.world.wiki.page_properties import PAGE_PROPERTY_ADDERS, WIKI_SITE_URL, RequestedPagesAndEntries
from factmill.tasks.world.wiki.pages import (
    CATEGORY_NAMESPACE,
    MAIN_NAMESPACE,
    WIKI_NAMESPACES,
    InvalidWikiTitleError,
    WikiPage,
    WikiTitle,
    WorldWikiPageIndex,
    parse_wiki_title,
    strip_html_tags_to_line,
)
from factmill.tasks.world.wiki.request import (
    ActionApiParameters,
    ActionApiRequestRejected,
    ReplyFormat,
    make_bad_continue_error,
)

_WORD = re.compile(r"\w+")
_HEX_TEXT = re.compile(r"(?:[0-9a-f]{2})*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class QueryListResult:
    """One batch of a list."""

    entries: list[dict[str, Any]]
    pages: list[str]
    """Full titles of the entries, for use as a generator."""
    continue_parameters: Mapping[str, str | int]
    """Parameters that request the next batch; empty if there is none."""
    info: Mapping[str, Any]
    """What the response has besides the list."""


def list_category_members(
    wiki: WorldWikiPageIndex, params: ActionApiParameters, parameter_prefix: str
) -> QueryListResult:
    """List a category's members by sort key within each kind; pages come first by default."""
    members = _list_matching_category_members(wiki, params, parameter_prefix)
    limit = params.get_limit(f"{parameter_prefix}limit", 10, "categorymembers")
    shown = set(params.list_values(f"{parameter_prefix}prop", "ids|title"))
    start = 0
    if given := params.get_text(f"{parameter_prefix}continue"):
        parts = given.split("|")
        if len(parts) != 3 or not parts[2].isdigit() or not _HEX_TEXT.fullmatch(parts[1]):
            raise make_bad_continue_error()
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
    more = {f"{parameter_prefix}continue": f"{m.kind}|{m.sort_key.encode().hex()}|{m.page.pageid}" for m in following}
    return QueryListResult(entries, [member.page.title for member in members[start : start + limit]], more, {})


def _list_matching_category_members(
    wiki: WorldWikiPageIndex, params: ActionApiParameters, parameter_prefix: str
) -> list[Any]:
    title, pageid = params.get_text(f"{parameter_prefix}title"), params.get_integer(f"{parameter_prefix}pageid")
    if (title is None) == (pageid is None):
        names = f'"{parameter_prefix}title" and "{parameter_prefix}pageid"'
        if title is None:
            raise ActionApiRequestRejected("missingparam", f"One of the parameters {names} is required.")
        raise ActionApiRequestRejected("invalidparammix", f"The parameters {names} can not be used together.")
    if pageid is not None:
        if pageid not in wiki.by_id:
            raise ActionApiRequestRejected("nosuchpageid", f"There is no page with ID {pageid}.")
        title = wiki.by_id[pageid].title
    try:
        category = parse_wiki_title(str(title))
    except InvalidWikiTitleError as error:
        raise ActionApiRequestRejected("invalidtitle", f'Bad title "{title}".') from error
    if category.namespace != CATEGORY_NAMESPACE:
        raise ActionApiRequestRejected("invalidcategory", "The category name you entered is not valid.")
    kinds = params.list_known_values(
        f"{parameter_prefix}type", ("page", "subcat", "file"), "categorymembers", "page|subcat|file"
    )
    namespaces = set(params.list_integers(f"{parameter_prefix}namespace"))
    members = [m for m in wiki.members_by_category.get(category.full_title, []) if m.kind in kinds]
    members = [m for m in members if not namespaces or m.page.namespace in namespaces]
    if params.get_choice(f"{parameter_prefix}sort", ("sortkey", "timestamp"), "sortkey") == "timestamp":
        members.sort(key=lambda member: (member.page.revisions[0].at, member.page.pageid))
    else:
        members.sort(key=lambda member: kinds.index(member.kind))
    direction = params.get_choice(
        f"{parameter_prefix}dir", ("asc", "ascending", "newer", "desc", "descending", "older"), "asc"
    )
    for unused in ("start", "end", "startsortkeyprefix", "endsortkeyprefix"):
        params.get_text(f"{parameter_prefix}{unused}")
    return members[::-1] if direction in {"desc", "descending", "older"} else members


def list_all_pages(wiki: WorldWikiPageIndex, params: ActionApiParameters, parameter_prefix: str) -> QueryListResult:
    """List the pages of a namespace, sorted by title."""
    namespace = params.get_integer(f"{parameter_prefix}namespace") or MAIN_NAMESPACE
    start, end = params.get_text(f"{parameter_prefix}from") or "", params.get_text(f"{parameter_prefix}to")
    start = (params.get_text(f"{parameter_prefix}continue") or start).replace("_", " ")
    beginning = params.get_text(f"{parameter_prefix}prefix") or ""
    kind = params.get_choice(f"{parameter_prefix}filterredir", ("all", "redirects", "nonredirects"), "all")
    limit = params.get_limit(f"{parameter_prefix}limit", 10, "allpages")
    found: list[tuple[str, WikiPage]] = []
    for page in wiki.by_title.values():
        name = page.title.partition(":")[2] if page.namespace else page.title
        in_range = start <= name and (end is None or name <= end.replace("_", " ")) and name.startswith(beginning)
        is_kind = kind in {"all", "redirects" if page.redirect_to else "nonredirects"}
        if page.namespace == namespace and in_range and is_kind:
            found.append((name, page))
    found.sort(key=lambda pair: pair[0])
    pages = [page for _, page in found[:limit]]
    entries = [{"pageid": page.pageid, "ns": page.namespace, "title": page.title} for page in pages]
    more = {f"{parameter_prefix}continue": name.replace(" ", "_") for name, _ in found[limit : limit + 1]}
    return QueryListResult(entries, [page.title for page in pages], more, {})


def list_search_results(
    wiki: WorldWikiPageIndex, params: ActionApiParameters, parameter_prefix: str
) -> QueryListResult:
    """List the pages with every query word in title, redirects or text; the closest titles come first."""
    question = params.get_text(f"{parameter_prefix}search")
    if question is None:
        raise ActionApiRequestRejected("missingparam", f'The "{parameter_prefix}search" parameter must be set.')
    words = [word.casefold() for word in _WORD.findall(question)]
    if not words:
        raise ActionApiRequestRejected("nosearch", "The search request is empty.")
    namespaces = params.list_integers(f"{parameter_prefix}namespace") or [MAIN_NAMESPACE]
    offset = params.get_integer(f"{parameter_prefix}offset") or 0
    limit = params.get_limit(f"{parameter_prefix}limit", 10, "search")
    shown = set(params.list_values(f"{parameter_prefix}prop", "size|wordcount|timestamp|snippet"))
    asked = set(params.list_values(f"{parameter_prefix}info", "totalhits|suggestion|rewrittenquery"))
    for unused in ("what", "sort", "qiprofile", "interwiki", "backend", "enablerewrites"):
        params.get_text(f"{parameter_prefix}{unused}")
    ranked = sorted(
        (-score, page.pageid, page)
        for page in wiki.by_title.values()
        if not page.redirect_to and page.namespace in namespaces and (score := _score_search_match(wiki, page, words))
    )
    pages = [page for _, _, page in ranked[offset : offset + limit]]
    more = {f"{parameter_prefix}offset": offset + limit} if len(ranked) > offset + limit else {}
    info = {"searchinfo": {"totalhits": len(ranked)}} if "totalhits" in asked else {}
    return QueryListResult(
        [_make_search_hit(page, words, shown) for page in pages], [page.title for page in pages], more, info
    )


QUERY_LISTS: Mapping[str, tuple[str, Callable[[WorldWikiPageIndex, ActionApiParameters, str], QueryListResult]]] = {
    "categorymembers": ("cm", list_category_members),
    "allpages": ("ap", list_all_pages),
    "search": ("sr", list_search_results),
}
"""List → (parameter prefix, function)."""


def _score_search_match(wiki: WorldWikiPageIndex, page: WikiPage, words: list[str]) -> int:
    titles = [page.title, *wiki.redirects_by_target.get(page.title, [])]
    named = [{word.casefold() for word in _WORD.findall(title)} for title in titles]
    text = _count_occurrences_of_html_words(page.newest_html)
    if not all(word in text or any(word in name for name in named) for word in words):
        return 0
    best = max(sum(word in name for word in words) * 1000 - 10 * len(name) for name in named)
    return 10_000 + best + min(sum(text.get(word, 0) for word in words), 500)


@lru_cache(maxsize=4096)
def _count_occurrences_of_html_words(text: str) -> dict[str, int]:
    return Counter(word.casefold() for word in _WORD.findall(strip_html_tags_to_line(text)))


def _make_search_hit(page: WikiPage, words: list[str], shown: set[str]) -> dict[str, Any]:
    plain = strip_html_tags_to_line(page.newest_html)
    parts = {
        "size": len(page.newest_html.encode()),
        "wordcount": len(_WORD.findall(plain)),
        "snippet": _make_search_snippet(plain, words),
        "timestamp": page.revisions[-1].at,
    }
    head = {"ns": page.namespace, "title": page.title, "pageid": page.pageid}
    return head | {name: part for name, part in parts.items() if name in shown}


def _make_search_snippet(plain: str, words: list[str]) -> str:
    matches = [match.start() for match in _WORD.finditer(plain) if match[0].casefold() in words]
    start = plain.rfind(" ", 0, max(matches[0] - 40, 0)) + 1 if matches else 0
    piece = plain[start : start + 180]
    marked, place = "", 0
    for match in _WORD.finditer(piece):
        if match[0].casefold() in words:
            marked += escape(piece[place : match.start()]) + f'<span class="searchmatch">{escape(match[0])}</span>'
            place = match.end()
    return marked + escape(piece[place:])


_PAGE_SOURCES = ("titles", "pageids", "revids", "generator")
_PAGE_GENERATOR_PREFIXES = {"categories": "cl", "links": "pl"}
_META_KINDS = ("siteinfo", "userinfo", "tokens")
_MEDIAWIKI_VERSION = "MediaWiki 1.45.0"
_SPECIAL_PAGES = {"Search", "AllPages", "Categories", "Random", "RecentChanges"}


@dataclass(slots=True)
class RequestedPageSet:
    """Pages of a request by response key, and how the given titles were resolved."""

    pages: dict[int, WikiPage | WikiTitle] = field(default_factory=dict)
    invalid: dict[int, dict[str, Any]] = field(default_factory=dict)
    normalized: dict[str, str] = field(default_factory=dict)
    redirects: dict[str, WikiTitle] = field(default_factory=dict)
    bad_revids: list[int] = field(default_factory=list)

    def add_title(self, title: WikiTitle, wiki: WorldWikiPageIndex) -> None:
        """Add a page by title, existing or not, once."""
        page = wiki.by_title.get(title.full_title)
        known = {(p.title if isinstance(p, WikiPage) else p.full_title) for p in self.pages.values()}
        if title.full_title not in known:
            self.pages[page.pageid if page else self.get_next_missing_key()] = page or title

    def get_next_missing_key(self) -> int:
        """Return the next free negative key."""
        return min([0, *self.pages, *self.invalid]) - 1


def answer_query_action(wiki: WorldWikiPageIndex, params: ActionApiParameters, shape: ReplyFormat) -> dict[str, Any]:
    """Return the response to action=query, without warnings."""
    query: dict[str, Any] = {}
    more: dict[str, Any] = {}
    for name in params.list_known_values("meta", _META_KINDS, "query"):
        query |= _answer_meta(name, params, shape)
    for name in params.list_known_values("list", QUERY_LISTS, "query"):
        prefix, function = QUERY_LISTS[name]
        listed = function(wiki, params, prefix)
        query |= {**listed.info, name: listed.entries}
        more |= listed.continue_parameters
    props = params.list_known_values("prop", PAGE_PROPERTY_ADDERS, "query")
    prop_more: dict[str, Any] = {}
    generator_more: dict[str, Any] = {}
    sources = [name for name in _PAGE_SOURCES if params.get_text(name)]
    # a generator over links or categories of pages needs pages too
    if params.get_text("generator") in _PAGE_GENERATOR_PREFIXES:
        sources.remove("generator")
    if len(sources) > 1:
        names = ", ".join(f'"{name}"' for name in sources)
        raise ActionApiRequestRejected("invalidparammix", f"The parameters {names} can not be used together.")
    if sources:
        page_set, generator_more = _resolve_page_set_and_continuation(wiki, params, shape)
        entries = {key: _make_page_entry(key, page, shape) for key, page in page_set.pages.items()}
        for name in props:
            prop_more |= PAGE_PROPERTY_ADDERS[name](
                RequestedPagesAndEntries(wiki, params, shape, page_set.pages, entries)
            )
        query |= _format_page_set(page_set, entries, shape)
    elif props:
        # MediaWiki returns nothing for a property without pages
        for name in props:
            PAGE_PROPERTY_ADDERS[name](RequestedPagesAndEntries(wiki, params, shape, {}, {}))
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


def _resolve_page_set_and_continuation(
    wiki: WorldWikiPageIndex, params: ActionApiParameters, shape: ReplyFormat
) -> tuple[RequestedPageSet, dict[str, Any]]:
    page_set = RequestedPageSet()
    follow = params.has_flag("redirects")
    for pageid in params.list_integers("pageids"):
        if pageid in wiki.by_id:
            _add_page_following_redirects(page_set, parse_wiki_title(wiki.by_id[pageid].title), wiki, follow)
        else:
            page_set.invalid[pageid] = {"pageid": pageid, **shape.format_flags(missing=True)}
    for revid in params.list_integers("revids"):
        if revid in wiki.by_revid:
            page_set.add_title(parse_wiki_title(wiki.by_revid[revid][0].title), wiki)
        else:
            page_set.bad_revids.append(revid)
    for text in params.list_values("titles"):
        try:
            title = parse_wiki_title(text)
        except InvalidWikiTitleError as error:
            entry = {"title": text, "invalidreason": str(error), **shape.format_flags(invalid=True)}
            page_set.invalid[page_set.get_next_missing_key()] = entry
            continue
        if title.full_title != text:
            page_set.normalized[text] = title.full_title
        _add_page_following_redirects(page_set, title, wiki, follow)
    if generator := params.get_text("generator"):
        return _generate_page_set(generator, page_set, wiki, params, shape)
    return page_set, {}


def _add_page_following_redirects(
    page_set: RequestedPageSet, title: WikiTitle, wiki: WorldWikiPageIndex, follow: bool
) -> None:
    if not follow:
        page_set.add_title(title, wiki)
        return
    steps, target = wiki.follow_redirects(title.full_title)
    page_set.redirects |= dict(steps)
    if target:
        page_set.add_title(target, wiki)


def _generate_page_set(
    generator: str,
    requested_pages: RequestedPageSet,
    wiki: WorldWikiPageIndex,
    params: ActionApiParameters,
    shape: ReplyFormat,
) -> tuple[RequestedPageSet, dict[str, Any]]:
    follow = params.has_flag("redirects")
    if generator in QUERY_LISTS:
        prefix, function = QUERY_LISTS[generator]
        listed = function(wiki, params, f"g{prefix}")
    elif generator in _PAGE_GENERATOR_PREFIXES:
        listed = _generate_links_or_categories(generator, requested_pages, wiki, params, shape)
    else:
        raise ActionApiRequestRejected("badvalue", f'Unrecognized value for parameter "generator": {generator}.')
    generated = RequestedPageSet(normalized=requested_pages.normalized, redirects=requested_pages.redirects)
    for title in listed.pages:
        _add_page_following_redirects(generated, parse_wiki_title(title), wiki, follow)
    return generated, dict(listed.continue_parameters)


def _generate_links_or_categories(
    generator: str,
    requested_pages: RequestedPageSet,
    wiki: WorldWikiPageIndex,
    params: ActionApiParameters,
    shape: ReplyFormat,
) -> QueryListResult:
    """Return the links or categories of the given pages, all in one batch."""
    entries: dict[int, dict[str, Any]] = {key: {} for key in requested_pages.pages}
    prefix = _PAGE_GENERATOR_PREFIXES[generator]
    chosen = {name[1:]: value for name, value in params.given.items() if name.startswith(f"g{prefix}")}
    params.read_names |= {f"g{name}" for name in chosen}
    inner = ActionApiParameters(chosen | {f"{prefix}limit": "max"})
    PAGE_PROPERTY_ADDERS[generator](RequestedPagesAndEntries(wiki, inner, shape, requested_pages.pages, entries))
    titles = [row["title"] for entry in entries.values() for row in entry.get(generator, [])]
    return QueryListResult([], list(dict.fromkeys(titles)), {}, {})


def _make_page_entry(key: int, page: WikiPage | WikiTitle, shape: ReplyFormat) -> dict[str, Any]:
    if isinstance(page, WikiPage):
        return {"pageid": key, "ns": page.namespace, "title": page.title}
    is_special = page.namespace < 0
    flags = shape.format_flags(special=is_special, missing=not is_special or page.name not in _SPECIAL_PAGES)
    return {"ns": page.namespace, "title": page.full_title, **flags}


def _format_page_set(
    page_set: RequestedPageSet, entries: dict[int, dict[str, Any]], shape: ReplyFormat
) -> dict[str, Any]:
    described: dict[str, Any] = {}
    extra = {} if shape.is_version_1 else {"fromencoded": False}
    if steps := page_set.normalized.items():
        described["normalized"] = [{**extra, "from": given, "to": title} for given, title in steps]
    if page_set.redirects:
        described["redirects"] = [
            {"from": source, "to": target.full_title, **({"tofragment": target.fragment} if target.fragment else {})}
            for source, target in page_set.redirects.items()
        ]
    if page_set.bad_revids:
        bad = {revid: {"revid": revid, **shape.format_flags(missing=True)} for revid in page_set.bad_revids}
        described["badrevids"] = shape.format_keyed_entries(bad)
    everything = {**page_set.invalid, **entries}
    return described | ({"pages": shape.format_keyed_entries(everything)} if everything else {})


def _answer_meta(name: str, params: ActionApiParameters, shape: ReplyFormat) -> dict[str, Any]:
    if name == "siteinfo":
        return _make_site_info(
            params.list_known_values("siprop", ("general", "namespaces"), "siteinfo", "general"), shape
        )
    if name == "tokens":
        kinds = params.list_values("type", "csrf")
        return {"tokens": {f"{kind}token": "+\\" for kind in kinds}}
    params.list_values("uiprop")
    rights = {"groups": ["*"], "rights": ["read"]}
    return {"userinfo": {"id": 0, "name": "127.0.0.1", **shape.format_flags(anon=True), **rights}}


def _make_site_info(wanted: list[str], shape: ReplyFormat) -> dict[str, Any]:
    info: dict[str, Any] = {}
    if "general" in wanted:
        info["general"] = {
            "mainpage": "Main Page", "base": f"{WIKI_SITE_URL}/wiki/Main_Page", "sitename": "Wikipedia", "generator": _MEDIAWIKI_VERSION,
            "case": "first-letter", "lang": "en", "articlepath": "/wiki/$1", "scriptpath": "/w",
            "server": "//en.wikipedia.org", "servername": "en.wikipedia.org", "wikiid": "enwiki", "timezone": "UTC",
        }  # fmt: skip
    if "namespaces" in wanted:
        info["namespaces"] = {}
        for number, name in WIKI_NAMESPACES.items():
            flags = shape.format_flags(content=number == 0, subpages=number not in {0, CATEGORY_NAMESPACE})
            entry = {"id": number, "case": "first-letter", **flags, "*" if shape.is_version_1 else "name": name}
            entry |= {"canonical": "Project" if number == 4 else name} if name else {}
            info["namespaces"][str(number)] = entry
    return info
