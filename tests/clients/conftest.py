"""Fixtures for client tests: a scripted web server, short limits and an inbox for replies."""

from collections.abc import Iterator

import pytest
from support.webs.loopback import Loopback

from factmill.tasks.core.calls.call import Call, CallResponse
from factmill.tasks.core.service_settings import ServiceLimits


@pytest.fixture
def server() -> Iterator[Loopback]:
    loopback = Loopback()
    yield loopback
    loopback.close()


@pytest.fixture
def other() -> Iterator[Loopback]:
    """Return a second host, as the target of redirects."""
    web = Loopback()
    web.script({"status": 400, "json": {"error": {"message": "reached the other host"}}})
    yield web
    web.close()


@pytest.fixture
def limits() -> ServiceLimits:
    """Return limits that make retries quick."""
    return ServiceLimits(parallel=4, timeout_s=5, attempts=3, backoff_s=0.01, batch=10)


class Inbox:
    """Collects the replies of a client and fails on a second reply to one call."""

    def __init__(self) -> None:
        self.replies: dict[str, CallResponse] = {}

    def __call__(self, call: Call, reply: CallResponse) -> None:
        assert call.key not in self.replies, f"two replies to {call}"
        self.replies[call.key] = reply

    def __getitem__(self, call: Call) -> CallResponse:
        return self.replies[call.key]


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()
