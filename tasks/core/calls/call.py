"""What is asked of anything outside, and what comes back.

A Call names one logical question (one name to look up, one article's views, one prompt filled in). Its key digests
everything that can change the answer and the identity of the service that answers. How calls are bundled on the wire
(a VALUES block of 100 names, 50 titles in one request) is the client's matter and does not touch the key, so a
recorded answer serves again whatever the batch size was.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

from factmill.tasks.core.fingerprints import Json, canonical_json, digest_json, digest_text

Mode = Literal["record", "replay", "refresh"]
"""How recorded replies are used: serve and add to them, serve only, or ask everything anew."""


_NO_WIRE = digest_json({})


@dataclass(frozen=True)
class Call:
    """One question to an outside service."""

    service: str
    """Identity of the service: a URL, `scripted replies`, or `embedded-<digest>/wikidata`; never a secret, never a port of chance."""
    operation: str
    """What is asked, e.g. `find_items`, `describe_items`, `pageviews`, `chat`."""
    parts: Mapping[str, Json]
    """The parts of the question, recorded as they stand."""
    wire: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What is sent beside the parts and follows from them (rendered messages); digested into the key, not recorded."""

    @cached_property
    def written_parts(self) -> str:
        """The parts as canonical JSON, which the key and the record both need."""
        return canonical_json(dict(self.parts))

    @cached_property
    def key(self) -> str:
        """SHA-256 over service, operation, parts and wire, as the canonical JSON of a list of these."""
        wire = digest_json(dict(self.wire)) if self.wire else _NO_WIRE
        pieces = (canonical_json(self.service), canonical_json(self.operation), self.written_parts, f'"{wire}"')
        return digest_text(f"[{','.join(pieces)}]")


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer, or the recorded failure to get one."""

    body: Json
    """The answer as JSON; None when status is not `ok`."""
    status: Literal["ok", "failed"] = "ok"
    error: str | None = None
    """Why there is no answer: a short code, then detail, e.g. `http_503: …`."""
    transient: bool = False
    """True when asking again later may help (time-out, 429, 5xx); such calls are asked again by the next run."""
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    latency_s: float = 0.0


def fail(code: str, detail: str, transient: bool = False) -> Reply:
    """Return a failed reply with its code and particulars."""
    return Reply(None, "failed", error=f"{code}: {detail}", transient=transient)


Deliver = Callable[[Call, Reply], None]


class Service(Protocol):
    """Anything that answers calls: a network client, the local graph, scripted replies."""

    identity: str
    """Stands in `Call.service` for calls meant for it."""
    is_outside: bool
    """True when its answers are recorded; False for content-addressed local data (a graph), which the lock names instead."""

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        """Answer every call, handing each reply to `deliver` the moment it is there (from any thread, in any order).

        Never raises for one call's trouble: that is a Reply with status `failed`. Raises ServiceUnreachable only when
        nothing can be asked at all.
        """
        ...
