"""Calls to external services, and their responses.

A Call is one logical question (one name to look up, one article's views, one prompt filled in). Its key is a digest of
everything that can change the response, and of the service's identity. Clients decide how to bundle calls into requests
(a VALUES block of 100 names, 50 titles in one request); this does not affect the key, so a recorded response is reusable
with any batch size.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

from factmill.tasks.core.digests import JsonValue, canonical_json, digest_json, digest_text

CallCacheMode = Literal["record", "replay", "refresh"]
"""Use of recorded responses: serve and add to them, serve only, or request everything again."""


_EMPTY_WIRE_DIGEST = digest_json({})


@dataclass(frozen=True)
class Call:
    """One question to an outside service."""

    service: str
    """Identity of the service: a URL, `scripted replies`, or `embedded-<digest>/wikidata`; never a secret or a random port."""
    operation: str
    """Name of the operation, e.g. `find_items`, `describe_items`, `pageviews`, `chat`."""
    parts: Mapping[str, Any]
    """Parameters of the operation, recorded unchanged."""
    unrecorded_parts: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Further request content that follows from the parts (rendered messages); digested into the key, not recorded."""

    @cached_property
    def parts_json(self) -> str:
        """The parts as canonical JSON, for the key and the record."""
        return canonical_json(dict(self.parts))

    @cached_property
    def key(self) -> str:
        """SHA-256 of the canonical JSON of a list of service, operation, parts and digest of the wire."""
        wire = digest_json(dict(self.unrecorded_parts)) if self.unrecorded_parts else _EMPTY_WIRE_DIGEST
        pieces = (canonical_json(self.service), canonical_json(self.operation), self.parts_json, f'"{wire}"')
        return digest_text(f"[{','.join(pieces)}]")


@dataclass(frozen=True, slots=True)
class CallResponse:
    """Response to a call, or its recorded failure."""

    body: JsonValue
    """The response as JSON; None when status is not `ok`."""
    status: Literal["ok", "failed"] = "ok"
    error: str | None = None
    """Cause of the failure: a short code, then detail, e.g. `http_503: …`."""
    transient: bool = False
    """True when a retry may succeed (time-out, 429, 5xx); the next run repeats such calls."""
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    latency_s: float = 0.0


def make_failed_response(code: str, detail: str, transient: bool = False) -> CallResponse:
    """Make a failed response with its error code and detail."""
    return CallResponse(None, "failed", error=f"{code}: {detail}", transient=transient)


ResponseHandler = Callable[[Call, CallResponse], None]


class CallService(Protocol):
    """Anything that answers calls: a network client, the local graph, scripted replies."""

    identity: str
    """Value of `Call.service` for calls to this service."""
    is_outside: bool
    """True when its responses are recorded; False for content-addressed local data (a graph), named in the manifest instead."""

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        """Answer every call, passing each response to `deliver` as soon as it arrives (from any thread, in any order).

        The failure of one call raises no error: it is a Reply with status `failed`. Raises ServiceUnreachable only when
        no call can be sent at all.
        """
        ...
