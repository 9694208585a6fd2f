"""The one app of the embedded world: MediaWiki, Pageviews, Falcon, faults, and a way through to Oxigraph."""

import httpx
from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tasks.world.data import WorldData
from tasks.world.falcon import make_falcon_routes
from tasks.world.faults import FaultMiddleware, FaultQueue, make_fault_routes
from tasks.world.pageviews import make_pageviews_routes
from tasks.world.wiki.api import make_wiki_routes
from tasks.world.wiki.pages import Wiki

_SPARQL_TIMEOUT_S = 60.0
_PASSED_ON = ("content-type", "accept")


def make_app(data: WorldData, sparql_url: str) -> FastAPI:
    """Return the app over a world; `sparql_url` is the address of its Oxigraph server."""
    queue = FaultQueue()
    app = FastAPI(title="factmill's embedded world", openapi_url=None)
    app.include_router(make_wiki_routes(Wiki(data)))
    app.include_router(make_pageviews_routes(data))
    app.include_router(make_falcon_routes(data))
    app.include_router(make_fault_routes(queue))

    @app.api_route("/sparql", methods=["GET", "POST"])
    async def sparql(request: Request) -> Response:
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
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
                return PlainTextResponse(f"oxigraph does not answer: {error}\n", status_code=502)
        return Response(reply.content, reply.status_code, media_type=reply.headers.get("content-type"))

    # faults work on plain bodies, so they stand within the compression
    app.add_middleware(FaultMiddleware, queue=queue)
    app.add_middleware(GZipMiddleware, minimum_size=1000)
    return app
