"""MediaWiki's Action API over HTTP: /w/api.php (GET, POST) with its errors, warnings and maxlag; and action=parse."""

import re
from collections.abc import Callable, Mapping
from html import escape, unescape
from typing import Any
from urllib.parse import parse_qsl

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from factmill.tasks.core.fingerprints import canonical_json
from factmill.tasks.world.data import Revision
from factmill.tasks.world.faults import lag_s
from factmill.tasks.world.wiki.pages import (
    BadTitleError,
    Page,
    Title,
    Wiki,
    find_files,
    find_links,
    parse_title,
)
from factmill.tasks.world.wiki.query import run_query
from factmill.tasks.world.wiki.request import ApiError, Parameters, Shape

_PROPS = ("text", "categories", "links", "images", "externallinks", "revid", "displaytitle", "properties")
_EXTERNAL = re.compile(r'<a rel="nofollow" class="external [^"]*" href="([^"]+)"')
_WRITTEN = "wikitext"
"""A known property that is never present: pages are stored as rendered HTML."""
_IGNORED = (
    *("disableeditsection", "disabletoc", "disablelimitreport"),
    *("contentmodel", "contentformat", "useskin", "parser"),
)


def run_parse(wiki: Wiki, params: Parameters, shape: Shape) -> dict[str, Any]:
    """Return the response to action=parse, without warnings."""
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
    """Return the requested page and revision, and the redirects followed; ApiError if there is none."""
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


def _parts(wiki: Wiki, page: Page, revision: Revision, shape: Shape) -> dict[str, Any]:
    def describe_category(name: str, key: str) -> dict[str, Any]:
        flags = shape.flags(missing=f"Category:{name}" not in wiki.by_title)
        return {"sortkey": key, "*" if shape.is_old else "category": name.replace(" ", "_"), **flags}

    def describe_link(title: Title) -> dict[str, Any]:
        exists = title.full in wiki.by_title
        if shape.is_old:
            return {"ns": title.namespace, **shape.flags(exists=exists), "*": title.full}
        return {"ns": title.namespace, "title": title.full, "exists": exists}

    html = revision.text
    if page.short_description:  # hidden from readers
        classes, text = "shortdescription nomobile noexcerpt noprint searchaux", escape(page.short_description, False)
        html = f'<div class="{classes}" style="display:none">{text}</div>\n{html}'
    html = f'<div class="mw-content-ltr mw-parser-output" lang="en" dir="ltr">{html}\n</div>'
    return {
        "text": shape.wrapped(html),
        "categories": [describe_category(name, key) for name, key in page.categories.items()],
        "links": [describe_link(title) for title in find_links(revision.text).values()],
        "images": find_files(revision.text),
        "externallinks": list(dict.fromkeys(map(unescape, _EXTERNAL.findall(revision.text)))),
        "displaytitle": f'<span class="mw-page-title-main">{page.title}</span>',
        "properties": [{"name": n, "*": v} for n, v in page.props.items()] if shape.is_old else page.props,
    }


_ACTIONS: Mapping[str, Callable[[Wiki, Parameters, Shape], dict[str, Any]]] = {"query": run_query, "parse": run_parse}
_HELP = "See https://en.wikipedia.org/w/api.php for API usage."
_DATABASE = "10.64.16.27"


def make_wiki_routes(wiki: Wiki) -> APIRouter:
    """Return the route of the Action API."""
    router = APIRouter()

    @router.api_route("/w/api.php", methods=["GET", "POST"])
    async def api(request: Request) -> Response:
        body = await request.body() if request.method == "POST" else b""
        given = dict(request.query_params) | dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
        return answer(wiki, given, lag_s(request))

    return router


def answer(wiki: Wiki, given: Mapping[str, str], lag: float) -> Response:
    """Return the response to a request with these parameters, at a replication lag of `lag` seconds."""
    params = Parameters(given)
    shape = Shape(2 if given.get("formatversion") in {"2", "latest"} else 1)
    headers: dict[str, str] = {}
    try:
        reply = _run(wiki, params, shape, lag)
    except ApiError as error:
        headers["MediaWiki-API-Error"] = error.code
        if error.code == "maxlag":
            headers |= {"Retry-After": "5", "X-Database-Lag": str(int(lag))}
        reply = {
            "error": {"code": error.code, "info": error.info, **error.more, "*" if shape.is_old else "docref": _HELP}
        }
    if params.warnings:
        reply["warnings"] = shape.warnings(params.warnings)
    if given.get("format") in {None, "jsonfm"}:
        return HTMLResponse(f"<!DOCTYPE html><pre>{escape(canonical_json(reply))}</pre>", headers=headers)
    return JSONResponse(reply, headers=headers)


def _run(wiki: Wiki, params: Parameters, shape: Shape, lag: float) -> dict[str, Any]:
    if params.given.get("format", "json") not in {"json", "jsonfm"}:
        raise ApiError("badvalue", f'Unrecognized value for parameter "format": {params.given["format"]}.')
    most = params.integer("maxlag")
    if most is not None and lag > most:
        seconds = int(lag) if lag == int(lag) else lag
        info = f"Waiting for {_DATABASE}: {seconds} seconds lagged."
        raise ApiError("maxlag", info, host=_DATABASE, lag=seconds, type="db")
    action = params.text("action") or "help"
    if action not in _ACTIONS:
        raise ApiError("badvalue", f'Unrecognized value for parameter "action": {action}.')
    reply = _ACTIONS[action](wiki, params, shape)
    params.warn_of_unread()
    return reply
