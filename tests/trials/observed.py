"""The command, with an embedded world that is watched and may misbehave: `python -m trials.observed LOG SEED RATE build …`.

Every request to a service of the world goes through its app, SPARQL's too, and leaves a line in LOG: what was put on it
(or -), its path, and a digest of the whole request. At RATE (0 to 1) a request meets a fault, drawn by SEED.
"""

import hashlib
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from flows.cli.main import main
from tasks.world import app, faults, serving

HANG_S = 4.0
"""Longer than the time-outs of the world that trials use (trial.write_world)."""
FAULTS = {
    "429": faults.Fault(kind="status", status=429, retry_after=0),
    "500": faults.Fault(kind="status", status=500),
    "html": faults.Fault(kind="html"),
    "cut": faults.Fault(kind="cut"),
    "truncate": faults.Fault(kind="truncate"),
    "hang": faults.Fault(kind="delay", seconds=HANG_S),
}
WEIGHTS = (6, 6, 4, 4, 4, 1)


class Drawn(faults.FaultQueue):
    """Faults drawn by chance in place of those on order."""

    def __init__(self, log: Path, seed: int, rate: float) -> None:
        super().__init__()
        self._log = log
        self._random = random.Random(seed)
        self._rate = rate
        self.request = ""
        """Digest of the request that is being taken."""

    def take(self, path: str) -> faults.Fault | None:
        is_spoilt = self._random.random() < self._rate
        name = self._random.choices(list(FAULTS), WEIGHTS)[0] if is_spoilt else "-"
        with self._log.open("a") as log:
            log.write(f"{name} {path.split('/')[1]} {self.request}\n")
        return FAULTS.get(name)


class Watching(faults.FaultMiddleware):
    """Reads a request whole before it is answered."""

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

        self.queue.request = hashlib.sha256(asked).hexdigest()[:16]
        await super().__call__(scope, again, send)


def watch(log: Path, seed: int, rate: float) -> None:
    """Have worlds that start in this process be watched."""
    describe = serving._describe_world

    def through_the_app(digest: str, sparql_url: str, app_url: str) -> serving.RunningWorld:
        world = describe(digest, sparql_url, app_url)
        return replace(world, endpoints={**world.endpoints, "wikidata": world.sparql_proxy})

    patched: Any = {
        (serving, "_describe_world"): through_the_app,
        (app, "FaultQueue"): lambda: Drawn(log, seed, rate),
        (app, "FaultMiddleware"): Watching,
    }
    for (module, name), ours in patched.items():
        setattr(module, name, ours)


if __name__ == "__main__":
    told, seed, rate, *arguments = sys.argv[1:]
    watch(Path(told), int(seed), float(rate))
    sys.argv = ["factmill", *arguments]
    main()
