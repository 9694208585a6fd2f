"""MediaWiki's Action API over HTTP: /w/api.php (GET, POST) with its errors, warnings and maxlag; and action=parse."""

import re
from collections.abc import Callable, Mapping
from html import escape, unescape
from typing import Any
from urllib.parse import parse_qsl

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from factmill.tasks.core.digests import canonical_json
from factmill.tasks.world.data import WorldArticleRevision
from factmill.tasks.world.faults import get_injected_lag_s
from factmill.tasks.world.wiki.pages import (
    InvalidWikiTitleError,
    WikiPage,
    WikiTitle,
    WorldWikiPageIndex,
    find_linked_files,
    map_linked_pages_by_full_title,
    parse_wiki_title,
)
from factmill.tasks.world.wiki.query import answer_query_action
from factmill.tasks.world.wiki.request import ActionApiParameters, ActionApiRequestRejected, ReplyFormat

_PARSE_PROPS = ("text", "categories", "links", "images", "externallinks", "revid", "displaytitle", "properties")
_EXTERNAL_LINK = re.compile(r'<a rel="nofollow" class="external [^"]*" href="([^"]+)"')
_WIKITEXT = "wikitext"
"""A known property that is never present: pages are stored as rendered HTML."""
_IGNORED_PARAMETERS = (
    *("disableeditsection", "disabletoc", "disablelimitreport"),
    *("contentmodel", "contentformat", "useskin", "parser"),
)


def answer_parse_action(wiki: WorldWikiPageIndex, params: ActionApiParameters, shape: ReplyFormat) -> dict[str, Any]:
    """Return the response to action=parse, without warnings."""
    wanted = set(params.list_known_values("prop", (*_PARSE_PROPS, _WIKITEXT), "parse", "|".join(_PARSE_PROPS)))
    for ignored in _IGNORED_PARAMETERS:
        params.get_text(ignored)
    page, revision, redirects = _resolve_page_revision_and_redirects(wiki, params)
    if _WIKITEXT in wanted:
        raise ActionApiRequestRejected("missingcontent-revid", f"Missing content for revision ID {revision.revid}.")
    parsed: dict[str, Any] = {"title": page.title, "pageid": page.pageid}
    if "revid" in wanted:
        parsed["revid"] = revision.revid
    if params.has_flag("redirects"):
        parsed["redirects"] = [{"from": source, "to": target.full_title} for source, target in redirects]
    parsed |= {
        name: part
        for name, part in _make_parse_reply_fields_by_name(wiki, page, revision, shape).items()
        if name in wanted
    }
    return {"parse": parsed}


def _resolve_page_revision_and_redirects(
    wiki: WorldWikiPageIndex, params: ActionApiParameters
) -> tuple[WikiPage, WorldArticleRevision, list[tuple[str, WikiTitle]]]:
    """Return the requested page and revision, and the redirects followed; ActionApiRequestRejected if there is none."""
    oldid, pageid, name = params.get_integer("oldid"), params.get_integer("pageid"), params.get_text("page")
    given = [n for n, value in (("oldid", oldid), ("pageid", pageid), ("page", name)) if value is not None]
    if len(given) > 1:
        names = ", ".join(f'"{n}"' for n in given)
        raise ActionApiRequestRejected("invalidparammix", f"The parameters {names} can not be used together.")
    if oldid is not None:
        if oldid not in wiki.by_revid:
            raise ActionApiRequestRejected("nosuchrevid", f"There is no revision with ID {oldid}.")
        return (*wiki.by_revid[oldid], [])
    if pageid is not None:
        if pageid not in wiki.by_id:
            raise ActionApiRequestRejected("nosuchpageid", f"There is no page with ID {pageid}.")
        name = wiki.by_id[pageid].title
    if not name:
        raise ActionApiRequestRejected(
            "missingparam", 'One of the parameters "page", "pageid" and "oldid" is required.'
        )
    try:
        title = parse_wiki_title(name)
    except InvalidWikiTitleError as error:
        raise ActionApiRequestRejected("invalidtitle", f'Bad title "{name}".') from error
    steps, target = wiki.follow_redirects(title.full_title) if params.has_flag("redirects") else ([], title)
    page = wiki.by_title.get((target or title).full_title)
    if page is None:
        raise ActionApiRequestRejected("missingtitle", "The page you specified doesn't exist.")
    return page, page.revisions[-1], steps


def _make_parse_reply_fields_by_name(
    wiki: WorldWikiPageIndex, page: WikiPage, revision: WorldArticleRevision, shape: ReplyFormat
) -> dict[str, Any]:
    def describe_category(name: str, key: str) -> dict[str, Any]:
        flags = shape.format_flags(missing=f"Category:{name}" not in wiki.by_title)
        return {"sortkey": key, "*" if shape.is_version_1 else "category": name.replace(" ", "_"), **flags}

    def describe_link(title: WikiTitle) -> dict[str, Any]:
        exists = title.full_title in wiki.by_title
        if shape.is_version_1:
            return {"ns": title.namespace, **shape.format_flags(exists=exists), "*": title.full_title}
        return {"ns": title.namespace, "title": title.full_title, "exists": exists}

    html = revision.text
    if page.short_description:  # hidden from readers
        classes, text = "shortdescription nomobile noexcerpt noprint searchaux", escape(page.short_description, False)
        html = f'<div class="{classes}" style="display:none">{text}</div>\n{html}'
    html = f'<div class="mw-content-ltr mw-parser-output" lang="en" dir="ltr">{html}\n</div>'
    return {
        "text": shape.format_text(html),
        "categories": [describe_category(name, key) for name, key in page.categories.items()],
        "links": [describe_link(title) for title in map_linked_pages_by_full_title(revision.text).values()],
        "images": find_linked_files(revision.text),
        "externallinks": list(dict.fromkeys(map(unescape, _EXTERNAL_LINK.findall(revision.text)))),
        "displaytitle": f'<span class="mw-page-title-main">{page.title}</span>',
        "properties": [{"name": n, "*": v} for n, v in page.page_props.items()]
        if shape.is_version_1
        else page.page_props,
    }


_ACTIONS: Mapping[str, Callable[[WorldWikiPageIndex, ActionApiParameters, ReplyFormat], dict[str, Any]]] = {
    "query": answer_query_action,
    "parse": answer_parse_action,
}
_HELP_TEXT = "See https://en.wikipedia.org/w/api.php for API usage."
_DATABASE_HOST = "10.64.16.27"


def make_action_api_routes(wiki: WorldWikiPageIndex) -> APIRouter:
    """Return the route of the Action API."""
    router = APIRouter()

    @router.api_route("/w/api.php", methods=["GET", "POST"])
    async def api(request: Request) -> Response:
        body = await request.body() if request.method == "POST" else b""
        given = dict(request.query_params) | dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
        return answer_action_api_request(wiki, given, get_injected_lag_s(request))

    return router


def answer_action_api_request(wiki: WorldWikiPageIndex, parameters: Mapping[str, str], lag_s: float) -> Response:
    """Return the response to a request with these parameters, at a replication lag of `lag_s` seconds."""
    params = ActionApiParameters(parameters)
    shape = ReplyFormat(2 if parameters.get("formatversion") in {"2", "latest"} else 1)
    headers: dict[str, str] = {}
    try:
        reply = _run_action(wiki, params, shape, lag_s)
    except ActionApiRequestRejected as error:
        headers["MediaWiki-API-Error"] = error.code
        if error.code == "maxlag":
            headers |= {"Retry-After": "5", "X-Database-Lag": str(int(lag_s))}
        reply = {
            "error": {
                "code": error.code,
                "info": error.info,
                **error.more_keys,
                "*" if shape.is_version_1 else "docref": _HELP_TEXT,
            }
        }
    if params.warnings:
        reply["warnings"] = shape.format_warnings(params.warnings)
    if parameters.get("format") in {None, "jsonfm"}:
        return HTMLResponse(f"<!DOCTYPE html><pre>{escape(canonical_json(reply))}</pre>", headers=headers)
    return JSONResponse(reply, headers=headers)


def _run_action(
    wiki: WorldWikiPageIndex, params: ActionApiParameters, shape: ReplyFormat, lag_s: float
) -> dict[str, Any]:
    if params.given.get("format", "json") not in {"json", "jsonfm"}:
        raise ActionApiRequestRejected(
            "badvalue", f'Unrecognized value for parameter "format": {params.given["format"]}.'
        )
    most = params.get_integer("maxlag")
    if most is not None and lag_s > most:
        seconds = int(lag_s) if lag_s == int(lag_s) else lag_s
        info = f"Waiting for {_DATABASE_HOST}: {seconds} seconds lagged."
        raise ActionApiRequestRejected("maxlag", info, host=_DATABASE_HOST, lag=seconds, type="db")
    action = params.get_text("action") or "help"
    if action not in _ACTIONS:
        raise ActionApiRequestRejected("badvalue", f'Unrecognized value for parameter "action": {action}.')
    reply = _ACTIONS[action](wiki, params, shape)
    params.warn_of_unread_parameters()
    return reply
