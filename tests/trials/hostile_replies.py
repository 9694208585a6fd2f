"""Replies that never end, drip, swell or lie about their length: what each client holds on to while they come and afterwards.

    PYTHONPATH=tests python -m trials.hostile_replies [--seconds 60] [--factmill DIR] [--services …] [--replies …] [--speed]

A server of this process gives one kind of hostile reply to every request. A client in a process of its own sends requests
for as long, four at once, with a time-out of 2 s; a table shows how far its memory grew, the most threads and sockets that
it had for them, and those that are left 2 s after the last time-out. A client that grows by over 1 GB is ended. `--speed`
measures how long 500 answered requests of 20 ms take instead. `--factmill`: another checkout, whose clients are measured.
Exits 1 when a client grew by over 200 MB, or when threads or sockets are left.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

TIMEOUT_S, PARALLEL = 2.0, 4
MOST_GROWN, MOST_LEFT_GROWN = 1_000_000_000, 200_000_000
SPEED_REQUESTS, SPEED_LATENCY_S = 500, 0.02
PIECE = b" " * 65_536
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
SERVICES = ("sparql", "wikipedia", "pageviews", "falcon", "chat")


def _send_endless(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"\r\n")
    while True:
        connection.sendall(PIECE)


def _send_drip(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"Content-Length: 1000000\r\n\r\n")
    while True:
        connection.sendall(b" ")
        time.sleep(1.0)


def _send_bomb(connection: socket.socket) -> None:
    """Send gzip that inflates a thousandfold, a gigabyte in a second, for ever."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    begin = packer.compress(PIECE) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = packer.compress(PIECE * 256) + packer.flush(zlib.Z_FULL_FLUSH)
    connection.sendall(HEAD + b"Content-Encoding: gzip\r\n\r\n" + begin)
    while True:
        connection.sendall(packed)


def _send_wrong_length(connection: socket.socket) -> None:
    """Announce more than there is and hold the connection open; every second time announce less."""
    body = b'{"results": {"bindings": []}}'
    announced = 5 if next(_TURN) % 2 else 10_000
    connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % announced + body)
    _wait_for_end(connection)


def _send_header_drip(connection: socket.socket) -> None:
    connection.sendall(HEAD)
    while True:
        connection.sendall(b"X-Drip: 1\r\n")
        time.sleep(1.0)


def _wait_for_end(connection: socket.socket) -> None:
    while connection.recv(65_536):
        pass


_TURN = count()
REPLIES: dict[str, Callable[[socket.socket], None]] = {
    "endless": _send_endless,
    "drip": _send_drip,
    "gzip bomb": _send_bomb,
    "wrong length": _send_wrong_length,
    "silent": _wait_for_end,
    "header drip": _send_header_drip,
}


def serve(reply: Callable[[socket.socket], None]) -> int:
    """Give this reply to every request, from now on; return the port."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=256)

    def answer(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            head = b""
            while b"\r\n\r\n" not in head:
                if not (piece := connection.recv(65_536)):
                    return
                head += piece
            reply(connection)

    def accept() -> None:
        while True:
            threading.Thread(target=answer, args=(listening.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return int(listening.getsockname()[1])


def _make_calls(service: str, url: str, **limits: Any) -> tuple[Callable[[], Any], Iterator[Any]]:
    """Return what opens a client, and calls for it without end."""
    from tasks.assets import load_query
    from tasks.clients.chat import Chat
    from tasks.clients.falcon import Falcon
    from tasks.clients.pageviews import Pageviews
    from tasks.clients.wikidata.client import WikidataSparql
    from tasks.clients.wikipedia import Wikipedia
    from tasks.core.calls.chat import call_chat
    from tasks.core.calls.falcon import call_link
    from tasks.core.calls.knowledge import call_list_facts, call_pageviews
    from tasks.core.calls.wikipedia import call_page_text
    from tasks.core.prompts import fill_in, read_prompt
    from tasks.settings import Limits, Model

    told = Limits(parallel=PARALLEL, backoff_s=0.01, **limits)
    prompt = read_prompt("test/p", b'+++\nrole = "author"\ninputs = ["name"]\n+++\n# user\nWho is $name?\n')
    model = Model(kind="openai", name="m", url=f"{url}/v1", limits=told)
    query = {"list_facts": load_query("wikidata/list_facts")}
    agent, numbers = "factmill-trials", count(1)
    ways: dict[str, tuple[Callable[[], Any], Callable[[int], Any]]] = {
        "sparql": (
            lambda: WikidataSparql(url, "s", told, agent, query),
            lambda n: call_list_facts("s", f"P{n}", None, 2),
        ),
        "wikipedia": (lambda: Wikipedia(url, "s", told, agent), lambda n: call_page_text("s", n, "html")),
        "pageviews": (
            lambda: Pageviews(url, "s", told, agent),
            lambda n: call_pageviews("s", f"T{n}", "20250101", "20250103"),
        ),
        "falcon": (lambda: Falcon(url, "s", told, agent), lambda n: call_link("s", f"Text {n}", 2)),
        "chat": (
            lambda: Chat("s", model, lambda: "key-of-trials", agent),
            lambda n: call_chat("s", "m", fill_in(prompt, name=str(n))),
        ),
    }
    opens, make = ways[service]
    return opens, map(make, numbers)


def _measure() -> tuple[int, int, int]:
    """Return this process's memory in bytes, its threads for requests, and its sockets."""
    status = Path("/proc/self/status").read_text("ascii")
    memory = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) * 1024
    threads = sum(thread.name == "factmill-request" for thread in threading.enumerate())
    sockets = 0
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            sockets += str(each.readlink()).startswith("socket:")
    return memory, threads, sockets


def be_client(service: str, url: str, seconds: float) -> None:
    """Send requests for as long, and print what was held meanwhile and is left."""
    from tasks.errors import ServiceError

    opens, calls = _make_calls(service, url, timeout_s=TIMEOUT_S, attempts=2)
    open_before = opens()
    with suppress(ServiceError):  # imports, the loop and what the first request loads are no growth
        _make_calls(service, "http://127.0.0.1:9", timeout_s=TIMEOUT_S, attempts=1)[0]().send([next(calls)], print)
    time.sleep(0.5)
    first = _measure()
    most, ends = list(first), Counter[str]()
    over, grown_at = threading.Event(), 0.0

    def watch() -> None:
        nonlocal grown_at
        while not over.wait(0.1):
            now = _measure()
            most[:] = map(max, most, now)
            if now[0] - first[0] > MOST_GROWN:
                grown_at = time.monotonic() - began
                report((0, now[1], now[2]))
                os._exit(0)

    def report(left: tuple[int, int, int]) -> None:
        print(json.dumps({"first": first, "most": most, "left": left, "ends": ends, "grown_at": grown_at}), flush=True)

    began = time.monotonic()
    threading.Thread(target=watch, daemon=True).start()
    client = open_before
    while time.monotonic() - began < seconds:
        try:
            asked = [next(calls) for _ in range(PARALLEL)]
            client.send(asked, lambda _, reply: ends.update([str(reply.error).partition(":")[0]]))
        except ServiceError as error:
            ends[type(error).__name__] += 1
            client = opens()  # as the next run does
    time.sleep(TIMEOUT_S + 2)
    over.set()
    report(_measure())


def be_fast(service: str, url: str) -> None:
    """Print how many seconds answered requests take."""
    opens, calls = _make_calls(service, url, timeout_s=60, attempts=2)
    client, replies = opens(), Counter[str]()

    def note(_: Any, reply: Any) -> None:
        replies[reply.status] += 1

    client.send([next(calls)], note)
    began = time.perf_counter()
    client.send([next(calls) for _ in range(SPEED_REQUESTS)], note)
    print(json.dumps({"seconds": time.perf_counter() - began, "replies": replies}))


def _start(options: argparse.Namespace, checkout: Path, *args: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "trials.hostile_replies", *args, "--seconds", str(options.seconds)]
    paths = os.pathsep.join([str(checkout), str(Path(__file__).parents[1])])
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE, text=True)


def show_held(options: argparse.Namespace) -> bool:
    """Print the table; return whether all is within its bounds."""
    print(
        "| service | reply | memory grew by | threads at most | left | sockets at most | left | ends |\n|---|---|---|---|---|---|---|---|"
    )
    is_fine = True
    for service in options.services:
        under_way = []
        for name in options.replies:
            url = f"http://127.0.0.1:{serve(REPLIES[name])}"
            under_way.append((name, _start(options, options.factmill, "--client", service, "--url", url)))
        for name, process in under_way:
            out = process.communicate()[0]
            held = json.loads(out.splitlines()[-1])
            grown = held["most"][0] - held["first"][0]
            threads, sockets = (held["left"][at] - held["first"][at] for at in (1, 2))
            until = f" in {held['grown_at']:.0f} s, ended" if held["grown_at"] else ""
            ends = ", ".join(f"{number} {end}" for end, number in sorted(held["ends"].items()))
            print(
                f"| {service} | {name} | {grown / 1e6:,.0f} MB{until} | {held['most'][1]} | {threads} | {held['most'][2]} |"
                f" {sockets} | {ends} |",
                flush=True,
            )
            is_fine &= grown <= MOST_LEFT_GROWN and threads <= 0 and sockets <= 0
    return is_fine


def show_speed(options: argparse.Namespace) -> None:
    """Print seconds of this checkout and, in turns, of the other one."""
    from support.webs.loopback import Loopback

    text = " ".join(f"<p>Paragraph {number} of a page.</p>" for number in range(3000))
    cell = {"type": "uri", "value": "http://www.wikidata.org/entity/Q1"}
    facts = {"results": {"bindings": [{"subject": cell, "object": cell}] * 500}}
    bodies = {
        "sparql": {"head": {"vars": ["subject", "object"]}, **facts},
        "wikipedia": {"parse": {"pageid": 1, "title": "T", "text": text}},
    }
    for service, body in bodies.items():
        web = Loopback()
        web.script({"json": body, "delay_s": SPEED_LATENCY_S})
        for checkout in [options.factmill, Path(__file__).parents[2]] * 3:
            process = _start(options, checkout, "--fast", service, "--url", web.url)
            print(service, checkout, process.communicate()[0].strip(), flush=True)
        web.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--factmill", type=Path, default=Path(__file__).parents[2])
    parser.add_argument("--services", nargs="+", choices=SERVICES, default=SERVICES)
    parser.add_argument("--replies", nargs="+", choices=REPLIES, default=list(REPLIES))
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--client", help=argparse.SUPPRESS)
    parser.add_argument("--fast", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        be_client(options.client, options.url, options.seconds)
    elif options.fast:
        be_fast(options.fast, options.url)
    elif options.speed:
        show_speed(options)
    else:
        sys.exit(0 if show_held(options) else 1)


if __name__ == "__main__":
    main()
