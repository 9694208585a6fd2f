"""Fault injection: tests order faults for the next requests to the embedded world.

    POST   /faults   {"path": "/w/api.php", "kind": "status", "status": 429, "retry_after": 2, "times": 3}
    GET    /faults   list pending faults
    DELETE /faults   remove all

A fault applies to the next `times` requests whose path begins with `path`; the oldest match is used first.
"""

import asyncio
from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

_TRANSPORT_SCOPE_KEY, _LAG_SCOPE_KEY = "factmill.transport", "factmill.lag_s"
_ERROR_PAGE_HTML = "<!DOCTYPE html>\n<html><head><title>Error</title></head><body><h1>Service error</h1><p>Injected fault.</p></body></html>"


class InjectedFault(BaseModel):
    """One ordered fault."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    path: str = "/"
    """Prefix of the paths it applies to."""
    kind: Literal["status", "delay", "cut", "html", "truncate", "maxlag"]
    """status: respond with `status` and plain text; delay: respond normally after `seconds`; cut: drop the connection
    after `seconds` without a response; html: respond with a web page instead of JSON, with `status` (default 200);
    truncate: drop the second half of the response body; maxlag: MediaWiki's servers lag `seconds` behind."""
    status: int | None = Field(default=None, ge=200, le=599)
    retry_after: int | None = Field(default=None, ge=0)
    """Seconds in the Retry-After header, for kinds status and html."""
    seconds: float = Field(default=0.0, ge=0)
    times: int = Field(default=1, ge=1)
    """Number of requests it applies to."""


class FaultQueue:
    """Queue of pending faults; only the server's event loop uses it."""

    def __init__(self) -> None:
        self.pending: list[InjectedFault] = []

    def take_next(self, path: str) -> InjectedFault | None:
        """Return the oldest fault for a path and count it down; None if there is none."""
        fault = next((fault for fault in self.pending if path.startswith(fault.path)), None)
        if fault:
            fault.times -= 1
            self.pending = [f for f in self.pending if f.times]
        return fault


class FaultMiddleware:
    """ASGI middleware that applies pending faults to requests and passes on all others."""

    def __init__(self, app: ASGIApp, queue: FaultQueue) -> None:
        self.app = app
        self.queue = queue

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, applying a fault if one is pending for it."""
        fault = self.queue.take_next(scope["path"]) if scope["type"] == "http" and scope["path"] != "/faults" else None
        if fault and fault.kind in {"delay", "cut"}:
            await asyncio.sleep(fault.seconds)
        if fault is None or fault.kind == "delay":
            await self.app(scope, receive, send)
        elif fault.kind == "cut":
            scope["extensions"][_TRANSPORT_SCOPE_KEY].abort()
            await _wait_for_disconnect(receive)
        elif fault.kind == "truncate":
            await self.app(scope, receive, _TruncatingSend(send))
        elif fault.kind == "maxlag":
            await self.app({**scope, _LAG_SCOPE_KEY: fault.seconds}, receive, send)
        else:
            headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
            answer: Response = PlainTextResponse("Injected fault.\n", fault.status or 503, headers)
            if fault.kind == "html":
                answer = HTMLResponse(_ERROR_PAGE_HTML, fault.status or 200, headers)
            await answer(scope, receive, send)


async def _wait_for_disconnect(receive: Receive) -> None:
    """Wait until the server notices that the connection is closed."""
    while (await receive())["type"] != "http.disconnect":
        pass


class AbortableHttpProtocol(H11Protocol):
    """uvicorn's HTTP protocol that passes its connection to the app, so that a fault can drop it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Put the connection into the scope of each of its requests."""
        super().connection_made(transport)
        answer = self.app

        async def with_transport(scope: Scope, receive: Receive, send: Send) -> None:
            await answer(
                {**scope, "extensions": {**scope.get("extensions", {}), _TRANSPORT_SCOPE_KEY: transport}}, receive, send
            )

        self.app = with_transport


class _TruncatingSend:
    """ASGI `send` that drops the second half of a response body and adjusts Content-Length."""

    def __init__(self, send: Send) -> None:
        self.send = send
        self.start: Message = {}
        self.body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.start = message
            return
        self.body += message.get("body", b"")
        if message.get("more_body", False):
            return
        kept = self.body[: len(self.body) // 2]
        headers = [(name, value) for name, value in self.start["headers"] if name.lower() != b"content-length"]
        await self.send({**self.start, "headers": [*headers, (b"content-length", str(len(kept)).encode())]})
        await self.send({"type": "http.response.body", "body": kept})


def make_fault_routes(queue: FaultQueue) -> APIRouter:
    """Return the routes that order, list and remove faults."""
    router = APIRouter()

    @router.post("/faults")
    async def order_fault(fault: InjectedFault) -> list[InjectedFault]:
        queue.pending.append(fault)
        return queue.pending

    @router.get("/faults")
    async def list_faults() -> list[InjectedFault]:
        return queue.pending

    @router.delete("/faults")
    async def forget_faults() -> list[InjectedFault]:
        queue.pending = []
        return queue.pending

    return router


def get_injected_lag_s(request: Request) -> float:
    """Return the lag in seconds of MediaWiki's servers for this request; 0 without a fault."""
    return float(request.scope.get(_LAG_SCOPE_KEY, 0.0))
