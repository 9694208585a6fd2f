"""Test replies that never end, trickle, grow or lie: each fails with a code and leaks no connection, thread or memory."""

import re
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.webs.every_client import CLIENTS
from support.webs.hostile import BODY, DEFECTS, HEAD, REPLIES, HostileServer, send

from factmill.tasks.clients.sending.sender import cancel_all_sends
from factmill.tasks.core.calls.call import CallResponse
from factmill.tasks.core.service_settings import ServiceLimits
from factmill.tasks.errors import ServiceError, ServiceUnreachable

IN_THREADS = ("wikidata", "dbpedia", "wikipedia", "pageviews")
ENDLESS = ("endless", "gzip bomb")
NEVER_WHOLE = ("drip", "silent", "header drip")
BOUND = 500_000
QUICK = ServiceLimits(parallel=4, timeout_s=0.5, attempts=1, backoff_s=0.01)
BOUNDED = ServiceLimits(parallel=4, timeout_s=60, attempts=3, backoff_s=0.01, max_bytes=BOUND)
_WAIT_S = 30.0
"""Time limit for what is immediate unless the machine is busy."""


@pytest.fixture
def start():
    servers = []

    def make(reply, **options) -> HostileServer:
        servers.append(HostileServer(reply, drip_s=0.05, **options))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def ask(inbox):
    """Returns the replies of a client, opened for an address within limits, to `count` calls."""

    def send_calls(name: str, url: str, limits: ServiceLimits, count: int = 1) -> list[CallResponse]:
        open_client, make_call = CLIENTS[name]
        calls = [make_call(f"Berlin{number}") for number in range(count)]
        open_client(url, limits).send(calls, inbox)
        return [inbox[call] for call in calls]

    return send_calls


def code_of(reply: CallResponse) -> str:
    return (reply.error or "").partition(":")[0]


def count_request_threads() -> int:
    return sum(thread.name == "factmill-request" for thread in threading.enumerate())


def wait_for_threads(most: int) -> None:
    until = time.monotonic() + _WAIT_S
    while count_request_threads() > most:
        assert time.monotonic() < until, f"{count_request_threads()} threads are left"
        time.sleep(0.01)


@pytest.mark.parametrize("name", CLIENTS)
def test_unreachable_service_stops_run(name, ask):
    with pytest.raises(ServiceUnreachable, match=r" at http://127\.0\.0\.1:9\S*: cannot be reached: .*factmill doctor"):
        ask(name, "http://127.0.0.1:9", QUICK)


@pytest.mark.parametrize("reply", ENDLESS)
@pytest.mark.parametrize("name", CLIENTS)
def test_endless_response_is_cut_off_at_size_limit_and_not_retried(name, reply, start, ask):
    server = start(REPLIES[reply])
    (cut,) = ask(name, server.url, BOUNDED)
    operation = CLIENTS[name][1]("Berlin").operation
    assert (code_of(cut), cut.transient) == ("reply_too_big", True)
    assert f"longer than {BOUND:,} bytes" in cut.error
    assert f"limits = {{ max_bytes = {{ {operation} = {2 * BOUND} }} }}" in cut.error
    assert server.requests == 1
    assert server.wait_until_closed(_WAIT_S)


@pytest.mark.parametrize("name", ["wikipedia", "falcon", "chat"])
def test_gzip_bomb_is_stopped_during_decompression(name, start, inbox):
    server = start(REPLIES["gzip bomb"])
    open_client, make_call = CLIENTS[name]
    service = open_client(server.url, BOUNDED)
    service.send([make_call("Berlin")], inbox)  # leaves one-time imports and set-up out of the measurement
    tracemalloc.start()
    try:
        service.send([make_call(f"Berlin{number}") for number in range(4)], inbox)
        assert tracemalloc.get_traced_memory()[1] < 20 * BOUND
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("reply", NEVER_WHOLE)
@pytest.mark.parametrize("name", CLIENTS)
def test_response_that_never_completes_leaves_no_connection_or_thread(name, reply, start, ask):
    server = start(REPLIES[reply])
    threads = count_request_threads()
    assert set(map(code_of, ask(name, server.url, QUICK, 3))) == {"timeout"}
    assert server.requests
    assert server.wait_until_closed(_WAIT_S)
    wait_for_threads(threads)


@pytest.mark.parametrize("name", IN_THREADS)
def test_slow_tls_handshake_leaves_no_connection_or_thread(name, start, ask):
    def drip(connection, drip_s):
        connection.sendall(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc")
        while True:
            connection.sendall(b"\x00")
            time.sleep(drip_s)

    server = start(drip, reads_request=False)
    threads = count_request_threads()
    (late,) = ask(name, server.url.replace("http:", "https:"), QUICK)
    assert code_of(late) == "timeout"
    assert server.wait_until_closed(_WAIT_S)
    wait_for_threads(threads)


@pytest.mark.parametrize("defect", DEFECTS)
@pytest.mark.parametrize("name", CLIENTS)
def test_broken_response_fails_with_code(name, defect, start, ask):
    reply, codes = DEFECTS[defect]
    server = start(reply)
    (broken,) = ask(name, server.url, BOUNDED.model_copy(update={"attempts": 2}))
    assert code_of(broken) in codes, broken.error
    assert broken.transient
    assert server.requests == 2


@pytest.mark.parametrize(
    "location", ["http://[", "http://127.0.0.1:99999/", "//", "http://\udcff/", "http://..../", "\x00"]
)
@pytest.mark.parametrize("name", CLIENTS)
def test_redirect_without_address_fails_with_code(name, location, start, ask):
    head = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + location.encode("latin-1", "replace") + b"\r\n"
    server = start(send(head, b""))
    try:
        (lost,) = ask(name, server.url, BOUNDED.model_copy(update={"attempts": 1}))
    except ServiceUnreachable as error:
        assert "redirects to" in str(error) or "cannot be reached" in str(error)
    else:
        assert lost.transient
        assert ": " in lost.error


@pytest.mark.parametrize("name", IN_THREADS)
def test_interrupted_request_leaves_no_connection_or_thread(name, start, ask):
    server = start(REPLIES["silent"])
    threads = count_request_threads()
    with ThreadPoolExecutor() as pool:
        asking = pool.submit(ask, name, server.url, BOUNDED)
        until = time.monotonic() + _WAIT_S
        while not server.requests:
            assert time.monotonic() < until
            time.sleep(0.01)
        cancel_all_sends()
        with pytest.raises(ServiceError, match="sending was interrupted"):
            asking.result(_WAIT_S)
    assert server.wait_until_closed(_WAIT_S)
    wait_for_threads(threads)


@pytest.mark.parametrize("name", IN_THREADS)
def test_connections_are_reused_and_accept_compressed_responses(name, server, limits, inbox):
    server.script({"status": 400, "text": "no"})
    open_client, make_call = CLIENTS[name]
    service = open_client(server.url, limits.model_copy(update={"parallel": 1}))
    for number in range(5):
        service.send([make_call(f"Berlin{number}")], inbox)
    assert len(server.seen) == 5
    assert {seen.headers["accept-encoding"] for seen in server.seen} == {"gzip"}
    assert len({seen.port for seen in server.seen}) == 1


def test_response_is_read_completely_up_to_its_size_limit(start, ask, inbox):
    whole = BODY + b" " * (BOUND - len(BODY))
    for more, code in ((b"", ""), (b" ", "reply_too_big")):
        inbox.replies.clear()
        assert [code_of(reply) for reply in ask("wikidata", start(send(HEAD, whole + more)).url, BOUNDED)] == [code]


@pytest.mark.parametrize("name", ["wikidata", "dbpedia", "wikipedia"])
def test_group_with_oversized_response_is_halved_until_it_fits(name, server, limits, ask):
    pages = [{"pageid": at, "title": f"Berlin{at}"} for at in range(8)]
    answer = {"results": {"bindings": []}, "query": {"pages": pages}, "head": {}}

    def reply(seen):
        asked = set(re.findall(r"Berlin\d", "".join([*seen.query.values(), seen.body.decode()])))
        return {"json": answer | ({"more": "x" * BOUND} if len(asked) > 2 else {})}

    server.handle = reply
    replies = ask(name, server.url, limits.model_copy(update={"batch": 8, "max_bytes": {"all": BOUND}}), 8)
    assert [reply.status for reply in replies] == ["ok"] * 8
    assert len(server.seen) > 4
