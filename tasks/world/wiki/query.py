"""action=query: which pages are asked for, and what is said of them."""

from dataclasses import dataclass, field
from typing import Any

from tasks.world.wiki.lists import LISTS, ListReply
from tasks.world.wiki.pages import CATEGORY, NAMESPACES, BadTitleError, Page, Title, Wiki, parse_title
from tasks.world.wiki.props import PROPS, SITE, Asked
from tasks.world.wiki.request import ApiError, Parameters, Shape

_SOURCES = ("titles", "pageids", "revids", "generator")
_PAGE_GENERATORS = {"categories": "cl", "links": "pl"}
_METAS = ("siteinfo", "userinfo", "tokens")
_GENERATOR = "MediaWiki 1.45.0"
_SPECIAL_PAGES = {"Search", "AllPages", "Categories", "Random", "RecentChanges"}


@dataclass(slots=True)
class PageSet:
    """The pages of a request under their keys in the reply, and how titles as given became them."""

    pages: dict[int, Page | Title] = field(default_factory=dict)
    invalid: dict[int, dict[str, Any]] = field(default_factory=dict)
    normalized: dict[str, str] = field(default_factory=dict)
    redirects: dict[str, Title] = field(default_factory=dict)
    bad_revids: list[int] = field(default_factory=list)

    def add(self, title: Title, wiki: Wiki) -> None:
        """Add a page by title, there or not, once."""
        page = wiki.by_title.get(title.full)
        known = {(p.title if isinstance(p, Page) else p.full) for p in self.pages.values()}
        if title.full not in known:
            self.pages[page.pageid if page else self.next_missing()] = page or title

    def next_missing(self) -> int:
        """Return the next free negative key."""
        return min([0, *self.pages, *self.invalid]) - 1


def run_query(wiki: Wiki, params: Parameters, shape: Shape) -> dict[str, Any]:
    """Return the reply to action=query, warnings aside."""
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
    reply: dict[str, Any] = {}
    prop_more: dict[str, Any] = {}
    generator_more: dict[str, Any] = {}
    if _source_of(params):
        page_set, generator_more = _read_page_set(wiki, params, shape)
        entries = {key: _page_entry(key, page, shape) for key, page in page_set.pages.items()}
        for name in props:
            prop_more |= PROPS[name](Asked(wiki, params, shape, page_set.pages, entries))
        query |= _describe_page_set(page_set, entries, shape)
    elif props:
        # MediaWiki answers a property without pages with nothing
        for name in props:
            PROPS[name](Asked(wiki, params, shape, {}, {}))
    if prop_more:
        # the same pages again with more of the property; a generator stays where it is
        more |= prop_more | ({k: v for k, v in _given_generator(params).items() if generator_more or v})
        more["continue"] = "||"
    elif generator_more:
        more |= generator_more
        more["continue"] = f"{next(iter(generator_more))}||"
    elif more:
        more["continue"] = "-||"
    if not prop_more:
        reply["batchcomplete"] = shape.flag
    if more:
        reply["continue"] = more
    if params.limits:
        reply["limits"] = params.limits
    return reply | ({"query": query} if query else {})


def _source_of(params: Parameters) -> str | None:
    given = [name for name in _SOURCES if params.text(name)]
    # a generator over the links or categories of pages goes together with pages
    if params.text("generator") in _PAGE_GENERATORS:
        given = [name for name in given if name != "generator"]
    if len(given) > 1:
        names = ", ".join(f'"{name}"' for name in given)
        raise ApiError("invalidparammix", f"The parameters {names} can not be used together.")
    return given[0] if given else None


def _given_generator(params: Parameters) -> dict[str, str]:
    names = [name for name in params.given if name.startswith("g") and name.endswith(("continue", "offset"))]
    return {name: params.given[name] for name in names}


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
    """Return the links or categories of the given pages, all in one piece."""
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
    if page_set.normalized:
        steps = page_set.normalized.items()
        extra = {} if shape.is_old else {"fromencoded": False}
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
        key = "*" if shape.is_old else "name"
        info["namespaces"] = {
            str(number): {
                "id": number,
                "case": "first-letter",
                **shape.flags(content=number == 0, subpages=number not in {0, CATEGORY}),
                key: name,
                **({"canonical": "Project" if number == 4 else name} if name else {}),
            }
            for number, name in NAMESPACES.items()
        }
    return info
