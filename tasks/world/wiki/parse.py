"""action=parse: a revision as HTML, with what it refers to."""

from html import unescape
from typing import Any

from tasks.world.data import Revision
from tasks.world.files.articles import categories_of
from tasks.world.wiki.pages import BadTitleError, Page, Title, Wiki, parse_title
from tasks.world.wiki.rendering import Rendered, Section, render_revision
from tasks.world.wiki.request import ApiError, Parameters, Shape

_PROPS = (
    "text", "langlinks", "categories", "links", "templates", "images", "externallinks", "sections", "revid",
    "displaytitle", "iwlinks", "properties", "parsewarnings", "wikitext",
)  # fmt: skip
_DEFAULT = (
    "text|langlinks|categories|links|templates|images|externallinks|sections|revid|displaytitle|iwlinks|properties"
)


def run_parse(wiki: Wiki, params: Parameters, shape: Shape) -> dict[str, Any]:
    """Return the reply to action=parse, warnings aside."""
    wanted = set(params.known_values("prop", _PROPS, "parse", _DEFAULT))
    for ignored in ("disabletoc", "disablelimitreport", "contentmodel", "contentformat", "useskin", "parser"):
        params.text(ignored)
    page, revision, redirects = _find_revision(wiki, params)
    with_edit_links = params.text("disableeditsection") is None
    rendered = render_revision(wiki, page, revision, with_edit_links)
    parsed: dict[str, Any] = {"title": page.title, "pageid": page.pageid}
    if "revid" in wanted:
        parsed["revid"] = revision.revid
    if params.flag("redirects"):
        parsed["redirects"] = [{"from": source, "to": target.full} for source, target in redirects]
    parsed |= {name: part for name, part in _parts(wiki, page, revision, rendered, shape).items() if name in wanted}
    return {"parse": parsed}


def _find_revision(wiki: Wiki, params: Parameters) -> tuple[Page, Revision, list[tuple[str, Title]]]:
    """Return the page and revision that are asked for, and the redirects on the way; ApiError when there is none."""
    oldid, pageid, name = params.integer("oldid"), params.integer("pageid"), params.text("page")
    given = [n for n, value in (("oldid", oldid), ("pageid", pageid), ("page", name)) if value is not None]
    if len(given) > 1:
        names = ", ".join(f'"{n}"' for n in given)
        raise ApiError("invalidparammix", f"The parameters {names} can not be used together.")
    if oldid is not None:
        if oldid not in wiki.by_revid:
            raise ApiError("nosuchrevid", f"There is no revision with ID {oldid}.")
        return (*wiki.by_revid[oldid], [])
    if pageid is not None:
        if pageid not in wiki.by_id:
            raise ApiError("nosuchpageid", f"There is no page with ID {pageid}.")
        name = wiki.by_id[pageid].title
    if not name:
        raise ApiError("missingparam", 'One of the parameters "page", "pageid" and "oldid" is required.')
    try:
        title = parse_title(name)
    except BadTitleError as error:
        raise ApiError("invalidtitle", f'Bad title "{name}".') from error
    steps, target = wiki.follow(title.full) if params.flag("redirects") else ([], title)
    page = wiki.by_title.get((target or title).full)
    if page is None:
        raise ApiError("missingtitle", "The page you specified doesn't exist.")
    return page, page.revisions[-1], steps


def _parts(wiki: Wiki, page: Page, revision: Revision, rendered: Rendered, shape: Shape) -> dict[str, Any]:
    found = rendered.found
    props = {"wikibase-shortdesc": page.short_description} if page.short_description else {}
    props |= {"wikibase_item": page.qid} if page.qid else {}
    props |= {"disambiguation": ""} if page.is_disambiguation else {}
    return {
        "text": shape.wrapped(rendered.html),
        "langlinks": [],
        "categories": [_category(wiki, name, key, shape) for name, key in categories_of(revision.text).items()],
        "links": [_link(wiki, title, shape) for title in found.links.values()],
        "templates": [_link(wiki, parse_title(name), shape) for name in found.templates],
        "images": list(found.files),
        "externallinks": list(found.external),
        "sections": _sections(page, rendered.sections),
        "parsewarnings": [],
        "displaytitle": f'<span class="mw-page-title-main">{page.title}</span>',
        "iwlinks": [],
        "properties": [{"name": n, "*": v} for n, v in props.items()] if shape.is_old else props,
        "wikitext": shape.wrapped(revision.text),
    }


def _category(wiki: Wiki, name: str, key: str | None, shape: Shape) -> dict[str, Any]:
    label = "*" if shape.is_old else "category"
    return {
        "sortkey": key or "",
        label: name.replace(" ", "_"),
        **shape.flags(missing=f"Category:{name}" not in wiki.by_title),
    }


def _link(wiki: Wiki, title: Title, shape: Shape) -> dict[str, Any]:
    exists = title.full in wiki.by_title
    if shape.is_old:
        return {"ns": title.namespace, **shape.flags(exists=exists), "*": title.full}
    return {"ns": title.namespace, "title": title.full, "exists": exists}


def _sections(page: Page, sections: tuple[Section, ...]) -> list[dict[str, Any]]:
    """Return the headings with their place in the outline, 1.2 being the second below the first."""
    described, counts, levels = [], [0] * 7, [section.level for section in sections]
    for index, section in enumerate(sections, 1):
        depth = 1 + sum(level < section.level for level in sorted(set(levels[:index])))
        counts[depth] += 1
        counts[depth + 1 :] = [0] * (6 - depth)
        described.append(
            {
                "toclevel": depth,
                "level": str(section.level),
                "line": section.line,
                "number": ".".join(str(count) for count in counts[1 : depth + 1]),
                "index": str(index),
                "fromtitle": page.title.replace(" ", "_"),
                "byteoffset": None,
                "anchor": section.anchor,
                "linkAnchor": unescape(section.anchor),
            }
        )
    return described
