"""Run the command with an embedded world that logs requests and may inject faults.

    python -m trials.observed LOG SEED RATE KINDS build …

Every request to a service of the world, SPARQL included, passes through its app and adds a line to LOG: the injected
fault (or -), the path, and a digest of the whole request. A request meets a fault with probability RATE (0 to 1), drawn
by SEED from KINDS (names separated by commas).
"""

import hashlib
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.responses import RedirectResponse
from starlette.types import Message, Receive, Scope, Send

from factmill.flows.cli.main import main
from factmill.tasks.world import app, faults, serving

HANG_S = 4.0
"""Longer than the time-outs in the trials' world (trial.write_world)."""
AWAY = "http://127.0.0.1:9/elsewhere"
WEIGHTS = {"429": 6, "500": 6, "html": 4, "cut": 4, "truncate": 4, "length": 4, "moved": 2, "hang": 1}
"""Recoverable kinds of faults → weight; there is also `redirect`, to another host."""
_FAULTS = {
    "429": faults.InjectedFault(kind="status", status=429, retry_after=0),
    "500": faults.InjectedFault(kind="status", status=500),
    "html": faults.InjectedFault(kind="html"),
    "cut": faults.InjectedFault(kind="cut"),
    "truncate": faults.InjectedFault(kind="truncate"),
    "hang": faults.InjectedFault(kind="delay", seconds=HANG_S),
}


class Drawn(faults.FaultQueue):
    """Faults drawn at random instead of queued ones."""

    def __init__(self, log: Path, seed: int, rate: float, kinds: Sequence[str]) -> None:
        super().__init__()
        self._log = log
        self._random = random.Random(seed)
        self._rate = rate
        self._kinds = kinds
        self._drawn = "-"

    def draw(self, path: str, request: str) -> str:
        """Draw the fault for a request (given by its digest), log it, and return its name or -."""
        is_spoilt = self._random.random() < self._rate
        weights = [WEIGHTS.get(kind, 1) for kind in self._kinds]
        self._drawn = self._random.choices(self._kinds, weights)[0] if is_spoilt else "-"
        with self._log.open("a") as log:
            log.write(f"{self._drawn} {path.split('/')[1]} {request}\n")
        return self._drawn

    def take_next(self, path: str) -> faults.InjectedFault | None:
        return _FAULTS.get(self._drawn)


class Watching(faults.FaultMiddleware):
    """Reads a request completely before it is answered."""

    queue: Drawn

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        messages: list[Message] = [await receive()]
        while messages[-1].get("more_body"):
            messages.append(await receive())
        body = b"".join(message.get("body", b"") for message in messages)
        asked = b" ".join([scope["path"].encode(), scope["query_string"], body])

        async def again() -> Message:
            return messages.pop(0) if messages else await receive()

        drawn = self.queue.draw(scope["path"], hashlib.sha256(asked).hexdigest()[:16])
        if drawn == "length":
            await _promise_too_much(scope, again)
        elif drawn in {"moved", "redirect"}:
            here = f"{scope['path']}?{scope['query_string'].decode()}"
            await RedirectResponse(AWAY if drawn == "redirect" else here)(scope, again, send)
        else:
            await super().__call__(scope, again, send)


async def _promise_too_much(scope: Scope, receive: Receive) -> None:
    """Answer with less than the length in the header, and close the connection."""
    transport = scope["extensions"][faults._TRANSPORT_SCOPE_KEY]
    transport.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n{}")
    transport.close()
    await faults._wait_for_disconnect(receive)


def watch(
    log: Path, seed: int, rate: float, kinds: Sequence[str], put: Callable[[Any, str, Any], None] = setattr
) -> None:
    """Log the requests of worlds that start in this process; `put` sets an attribute of a module."""
    make_world = serving.RunningWorld

    def through_the_app(digest: str, endpoints: Mapping[str, str], app_url: str) -> serving.RunningWorld:
        world = make_world(digest, endpoints, app_url)
        return replace(world, endpoints={**world.endpoints, "wikidata": world.sparql_proxy})

    patched: Any = {
        (serving, "RunningWorld"): through_the_app,
        (app, "FaultQueue"): lambda: Drawn(log, seed, rate, kinds),
        (app, "FaultMiddleware"): Watching,
    }
    for (module, name), ours in patched.items():
        put(module, name, ours)


if __name__ == "__main__":
    log_path, seed, rate, kinds, *arguments = sys.argv[1:]
    watch(Path(log_path), int(seed), float(rate), kinds.split(","))
    sys.argv = ["factmill", *arguments]
    main()
