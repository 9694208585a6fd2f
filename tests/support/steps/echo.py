"""Provide a service that echoes calls, and call caches that use it."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.steps.warehouses import empty_warehouse

from factmill.tasks.core.calls.call import Call, CallCacheMode, CallResponse, CallService, ResponseHandler
from factmill.tasks.storage.recording.call_cache import CallCache, CallResults


class Echo:
    """A service that counts its calls, fails names that begin with `bad`, and may be slow."""

    identity = "echo"
    is_outside = True

    def __init__(self, delay_s: float = 0.0) -> None:
        self.asked: list[str] = []
        self.delay_s = delay_s
        self.recovered = False
        self.body_key = "echo"

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        for call in calls:
            time.sleep(self.delay_s)
            name = str(call.parts["name"])
            self.asked.append(name)
            if name.startswith("bad") and not self.recovered:
                deliver(call, CallResponse(None, "failed", "http_503: down", transient=True))
            elif name.startswith("gone"):
                deliver(call, CallResponse(None, "failed", "http_404: no such thing"))
            else:
                deliver(call, CallResponse({self.body_key: name}))


def calls(*names: str) -> list[Call]:
    """Return calls of these names."""
    return [Call("echo", "say", {"name": name}) for name in names]


def recorder(path: Path, mode: CallCacheMode = "record", **more: Any) -> CallCache:
    """Return a call cache on the warehouse `w.duckdb` in this folder."""
    return CallCache(empty_warehouse(path / "w.duckdb"), mode, **more)


def ask(
    path: Path, service: CallService, *asked: str | Call, mode: CallCacheMode = "record", **more: Any
) -> CallResults:
    """Answer calls (or calls of these names) with a new call cache, closed at the end."""
    run = recorder(path, mode, **more)
    answers = run.get_or_send(
        [call for each in asked for call in (calls(each) if isinstance(each, str) else [each])], service
    )
    run.close()
    return answers


def bodies(answers: CallResults) -> list[Any]:
    """Return the reply to each call."""
    return [record.reply().body for record in answers.records.values()]
