"""The Action API over HTTP: /w/api.php, GET and POST, with errors, warnings and maxlag as MediaWiki has them."""

from collections.abc import Callable, Mapping
from html import escape
from typing import Any
from urllib.parse import parse_qsl

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from tasks.core.fingerprints import canonical_json
from tasks.world.faults import lag_s
from tasks.world.wiki.pages import Wiki
from tasks.world.wiki.parse import run_parse
from tasks.world.wiki.query import run_query
from tasks.world.wiki.request import ApiError, Parameters, Shape

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
    """Return the reply to a request with these parameters, at a replication lag of `lag` seconds."""
    params = Parameters(given)
    shape = Shape(2 if given.get("formatversion") in {"2", "latest"} else 1)
    headers: dict[str, str] = {}
    try:
        reply = _run(wiki, params, shape, lag)
    except ApiError as error:
        headers["MediaWiki-API-Error"] = error.code
        if error.code == "maxlag":
            headers |= {"Retry-After": "5", "X-Database-Lag": str(int(lag))}
        reply = {"error": {"code": error.code, "info": error.info, **error.more, _help_key(shape): _HELP}}
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


def _help_key(shape: Shape) -> str:
    return "*" if shape.is_old else "docref"
