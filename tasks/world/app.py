"""Web app of the embedded world: MediaWiki, Pageviews, Falcon, faults, and a proxy to Oxigraph.

Falcon 2.0 links names in a text to items and properties. The real service is a rule-based linker over an index of labels;
this one works alike, over the world's English labels and aliases. The longest name at a position wins, case is ignored, and
items with that name are sorted by number of statements. Like the real one it gives no offsets or scores, and makes errors.
"""

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache

import httpx
from fastapi import APIRouter, FastAPI
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from factmill.tasks.text.wikidata_ids import get_wikidata_id_number
from factmill.tasks.world.data import WorldData
from factmill.tasks.world.faults import FaultMiddleware, FaultQueue, make_fault_routes
from factmill.tasks.world.pageviews import make_pageviews_routes
from factmill.tasks.world.rdf import WD, make_dbpedia_iri
from factmill.tasks.world.wiki.api import make_action_api_routes
from factmill.tasks.world.wiki.pages import WorldWikiPageIndex

_WORD = re.compile(r"[^\W_]+(?:[.'’-][^\W_]+)*", re.UNICODE)


class EntityNameIndex:
    """Index from a name's words to the ids with that name."""

    def __init__(self, names: Mapping[str, tuple[str, ...]], weights: Mapping[str, int]) -> None:
        """Index a map id → names; ids of one name are sorted by weight, heaviest first, then by id number."""
        found: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for entity, its_names in names.items():
            for name in its_names:
                if words := _make_name_key(_split_name_words(name)):
                    found[words].add(entity)
        order = {entity: (-weights.get(entity, 0), get_wikidata_id_number(entity)) for entity in names}
        self.entities_by_name = {words: sorted(entities, key=order.__getitem__) for words, entities in found.items()}
        self.max_name_words = max((len(words) for words in self.entities_by_name), default=0)

    def find_names(self, text: str) -> list[tuple[str, list[str]]]:
        """Return (name as written, ids) for the names in a text, left to right, longest match, not overlapping."""
        spans = [match.span() for match in _WORD.finditer(text)]
        words = _split_name_words(text)
        found, place = [], 0
        while place < len(words):
            for length in range(min(self.max_name_words, len(words) - place), 0, -1):
                entities = self.entities_by_name.get(_make_name_key(words[place : place + length]))
                if entities:
                    found.append((text[spans[place][0] : spans[place + length - 1][1]], entities))
                    break
            else:
                length = 1
            place += length
        return found


def make_falcon_routes(data: WorldData) -> APIRouter:
    """Return the linker's route; names are indexed on the first request, since most runs make none."""

    @cache
    def indices() -> tuple[EntityNameIndex, EntityNameIndex]:
        items = EntityNameIndex(
            {qid: item.names for qid, item in data.items.items()},
            {qid: len(item.statements) for qid, item in data.items.items()},
        )
        return items, EntityNameIndex({pid: (prop.labels["en"],) for pid, prop in data.properties.items()}, {})

    titles = {qid: item.title for qid, item in data.items.items() if item.title}
    router = APIRouter()

    @router.post("/falcon2/api")
    async def link(request: Request) -> JSONResponse:
        try:
            text = json.loads(await request.body())["text"]
            count = int(request.query_params.get("k", "1"))
        except (ValueError, KeyError, TypeError):
            text, count = None, 0
        mode = request.query_params.get("mode", "long")
        if not isinstance(text, str) or count < 1 or mode not in {"long", "short"}:
            return JSONResponse(
                {"error": 'expected mode=long or short, k of 1 or more and {"text": …}'}, status_code=400
            )
        linked, relations = (
            [(each, surface) for surface, ids in index.find_names(text) for each in ids[:count]] for index in indices()
        )
        reply = {
            "entities_wikidata": [(WD + qid, surface) for qid, surface in linked],
            "relations_wikidata": [(WD + pid, surface) for pid, surface in relations],
        }
        if request.query_params.get("db") == "1":
            named = [(titles[qid], surface) for qid, surface in linked if qid in titles]
            reply["entities_dbpedia"] = [(make_dbpedia_iri(title), surface) for title, surface in named]
            reply["relations_dbpedia"] = []  # the embedded world knows no DBpedia ontology
        body = {
            kind: [{"URI": uri, "surface form": surface} for uri, surface in found] for kind, found in reply.items()
        }
        return JSONResponse(body)

    return router


def _split_name_words(text: str) -> list[str]:
    """Return a text's words without possessive endings."""
    return [match[0].replace("’", "'").removesuffix("'s") for match in _WORD.finditer(text)]


def _make_name_key(words: list[str]) -> tuple[str, ...]:
    """Return words for comparison: case-folded, except a single word of up to 3 letters (`us` is not `US`)."""
    if len(words) == 1 and len(words[0]) <= 3:
        return tuple(words)
    return tuple(word.casefold() for word in words)


_SPARQL_TIMEOUT_S = 60.0
_FORWARDED_HEADERS = ("content-type", "accept")


def make_world_app(data: WorldData, sparql_url: str) -> FastAPI:
    """Build the app for a world; `sparql_url` is the address of its Oxigraph server."""
    queue = FaultQueue()
    app = FastAPI(title="factmill's embedded world", openapi_url=None)
    app.include_router(make_action_api_routes(WorldWikiPageIndex(data)))
    app.include_router(make_pageviews_routes(data))
    app.include_router(make_falcon_routes(data))
    app.include_router(make_fault_routes(queue))

    @app.api_route("/sparql", methods=["GET", "POST"])
    async def sparql(request: Request) -> Response:
        headers = {name: request.headers[name] for name in _FORWARDED_HEADERS if name in request.headers}
        async with httpx.AsyncClient(timeout=_SPARQL_TIMEOUT_S, trust_env=False) as client:
            try:
                reply = await client.request(
                    request.method,
                    sparql_url,
                    params=request.url.query or None,
                    headers=headers,
                    content=await request.body(),
                )
            except httpx.HTTPError as error:
                return PlainTextResponse(f"oxigraph does not respond: {error}\n", status_code=502)
        return Response(reply.content, reply.status_code, media_type=reply.headers.get("content-type"))

    # faults act on plain bodies, so compression wraps them
    app.add_middleware(FaultMiddleware, queue=queue)
    app.add_middleware(GZipMiddleware, minimum_size=1000)
    return app
