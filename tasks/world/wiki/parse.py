"""action=parse: a revision as HTML, with what it refers to."""

from html import escape
from typing import Any

from tasks.world.data import Revision
from tasks.world.wiki.page_html import find_external_links, find_files, find_links
from tasks.world.wiki.pages import BadTitleError, Page, Title, Wiki, parse_title
from tasks.world.wiki.request import ApiError, Parameters, Shape

_PROPS = ("text", "categories", "links", "images", "externallinks", "revid", "displaytitle", "properties")
_WRITTEN = "wikitext"
"""What is known as a property, and never there: pages are kept as the HTML that is shown of them."""
_IGNORED = (
    *("disableeditsection", "disabletoc", "disablelimitreport"),
    *("contentmodel", "contentformat", "useskin", "parser"),
)


def run_parse(wiki: Wiki, params: Parameters, shape: Shape) -> dict[str, Any]:
    """Return the reply to action=parse, warnings aside."""
    wanted = set(params.known_values("prop", (*_PROPS, _WRITTEN), "parse", "|".join(_PROPS)))
    for ignored in _IGNORED:
        params.text(ignored)
    page, revision, redirects = _find_revision(wiki, params)
    if _WRITTEN in wanted:
        raise ApiError("missingcontent-revid", f"Missing content for revision ID {revision.revid}.")
    parsed: dict[str, Any] = {"title": page.title, "pageid": page.pageid}
    if "revid" in wanted:
        parsed["revid"] = revision.revid
    if params.flag("redirects"):
        parsed["redirects"] = [{"from": source, "to": target.full} for source, target in redirects]
    parsed |= {name: part for name, part in _parts(wiki, page, revision, shape).items() if name in wanted}
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


def serve_html(page: Page, revision: Revision) -> str:
    """Return a revision as MediaWiki serves it, with the short description that readers do not see."""
    html = revision.text
    if page.short_description:
        classes = "shortdescription nomobile noexcerpt noprint searchaux"
        html = (
            f'<div class="{classes}" style="display:none">{escape(page.short_description, quote=False)}</div>\n{html}'
        )
    return f'<div class="mw-content-ltr mw-parser-output" lang="en" dir="ltr">{html}\n</div>'


def _parts(wiki: Wiki, page: Page, revision: Revision, shape: Shape) -> dict[str, Any]:
    props = {"wikibase-shortdesc": page.short_description} if page.short_description else {}
    props |= {"wikibase_item": page.qid} if page.qid else {}
    props |= {"disambiguation": ""} if page.is_disambiguation else {}
    return {
        "text": shape.wrapped(serve_html(page, revision)),
        "categories": [_category(wiki, name, key, shape) for name, key in page.categories.items()],
        "links": [_link(wiki, title, shape) for title in find_links(revision.text).values()],
        "images": find_files(revision.text),
        "externallinks": find_external_links(revision.text),
        "displaytitle": f'<span class="mw-page-title-main">{page.title}</span>',
        "properties": [{"name": n, "*": v} for n, v in props.items()] if shape.is_old else props,
    }


def _category(wiki: Wiki, name: str, key: str, shape: Shape) -> dict[str, Any]:
    label = "*" if shape.is_old else "category"
    return {
        "sortkey": key,
        label: name.replace(" ", "_"),
        **shape.flags(missing=f"Category:{name}" not in wiki.by_title),
    }


def _link(wiki: Wiki, title: Title, shape: Shape) -> dict[str, Any]:
    exists = title.full in wiki.by_title
    if shape.is_old:
        return {"ns": title.namespace, **shape.flags(exists=exists), "*": title.full}
    return {"ns": title.namespace, "title": title.full, "exists": exists}
