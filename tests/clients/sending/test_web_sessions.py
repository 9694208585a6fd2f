"""Sessions of the requests library: connections that several threads use one after the other."""

import asyncio
import threading

import pytest

from factmill.tasks.clients.sending.sender import run_in_thread
from factmill.tasks.clients.sending.web_sessions import make_http_session


def test_a_function_that_is_given_up_ends_no_connection_whose_reply_it_has_read(server, limits):
    session = make_http_session("the service", "tests", limits.model_copy(update={"parallel": 1}))
    has_read, goes_on, may_answer = threading.Event(), threading.Event(), threading.Event()
    server.script({"text": "first"}, {"text": "second", "until": may_answer})

    def read_and_work() -> None:
        session.get(server.url)
        has_read.set()
        goes_on.wait()

    async def main() -> str:
        first = asyncio.create_task(run_in_thread(read_and_work))
        await asyncio.to_thread(has_read.wait)
        second = asyncio.create_task(run_in_thread(session.get, server.url))
        while len(server.seen) < 2:
            await asyncio.sleep(0.01)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        may_answer.set()
        return (await second).text

    try:
        assert asyncio.run(main()) == "second"
    finally:
        goes_on.set()
    assert server.seen[0].port == server.seen[1].port
