"""Measure what each client retains during and after responses that never end, drip, swell or misstate their length.

    python bench trials.hostile_replies [--seconds 60] [--factmill DIR] [--services …] [--replies …] [--speed]

A server in this process answers every request with one kind of hostile response. A client in its own process sends
requests for --seconds seconds, four at once, with a time-out of 2 s. A table shows the growth of its memory, its
maximum numbers of request threads and sockets, and those left 2 s after the last time-out. A client that grows by
over 1 GB is stopped. `--speed` instead times 500 answered requests of 20 ms. `--factmill` measures the clients of
another checkout. Exits 1 when a client grows by over 400 MB (four responses of 32 MB, with their copies), when
threads are left, or when more sockets are left than requests run at once.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from support.webs.hostile import REPLIES, HostileServer
from support.webs.loopback import Loopback

TIMEOUT_S, PARALLEL = 2.0, 4
MOST_GROWN, MOST_GOOD = 1_000_000_000, 400_000_000
SPEED_REQUESTS, SPEED_LATENCY_S = 500, 0.02
SERVICES = ("wikidata", "wikipedia", "pageviews", "falcon", "chat")


def _make_calls(service: str, url: str, **limits: Any) -> tuple[Callable[[], Any], Iterator[Any]]:
    """Return a function that opens a client, and an endless iterator of calls for it."""
    from support.webs.every_client import CLIENTS

    from factmill.tasks.core.service_settings import ServiceLimits

    result = ServiceLimits(parallel=PARALLEL, backoff_s=0.01, batch=1, **limits)
    opens, make_call = CLIENTS[service]
    return lambda: opens(url, result), map(make_call, map("Name {}".format, count(1)))


def _measure() -> tuple[int, int, int]:
    """Return this process's memory in bytes, its request threads, and its sockets."""
    status = Path("/proc/self/status").read_text("ascii")
    memory = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) * 1024
    threads = sum(thread.name == "factmill-request" for thread in threading.enumerate())
    sockets = 0
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            sockets += str(each.readlink()).startswith("socket:")
    return memory, threads, sockets


def be_client(service: str, url: str, seconds: float) -> None:
    """Send requests for a time; print the initial, maximum and final memory, threads and sockets."""
    from factmill.tasks.errors import ServiceError

    opens, calls = _make_calls(service, url, timeout_s=TIMEOUT_S, attempts=2)
    open_before = opens()
    with suppress(ServiceError):  # imports, the loop and the first request's loads do not count as growth
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
    """Print the seconds that answered requests take."""
    opens, calls = _make_calls(service, url, timeout_s=60, attempts=2)
    client, replies = opens(), Counter[str]()

    def note(_: Any, reply: Any) -> None:
        replies[reply.status] += 1

    if service == "wikipedia":
        from factmill.tasks.core.calls.wikipedia import make_revision_html_call

        calls = (make_revision_html_call("test", number, "Title") for number in count(1))
    client.send([next(calls)], note)
    began = time.perf_counter()
    client.send([next(calls) for _ in range(SPEED_REQUESTS)], note)
    assert replies == {"ok": SPEED_REQUESTS + 1}, replies
    print(json.dumps({"seconds": time.perf_counter() - began, "replies": replies}))


def _start(options: argparse.Namespace, checkout: Path, *args: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "trials.hostile_replies", *args, "--seconds", str(options.seconds)]
    paths = os.pathsep.join([str(checkout.resolve()), *os.environ["PYTHONPATH"].split(os.pathsep)[1:]])
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.Popen(command, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True)


def show_held(options: argparse.Namespace) -> bool:
    """Print the table; return whether all clients stay within the limits."""
    print(
        "| service | reply | memory grew by | threads at most | left | sockets at most | left | ends |\n|---|---|---|---|---|---|---|---|"
    )
    is_fine = True
    for service in options.services:
        under_way = []
        for name in options.replies:
            url = HostileServer(REPLIES[name]).url
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
            is_fine &= grown <= MOST_GOOD and threads <= 0 and sockets <= PARALLEL
    return is_fine


def show_speed(options: argparse.Namespace) -> None:
    """Print the seconds of this checkout and the other one, alternating."""
    cells = {"name": "Berlin", "via": "label", "item": "http://www.wikidata.org/entity/Q1"}
    solution = {name: {"type": "literal", "value": value} for name, value in cells.items()}
    bodies = {
        "wikidata": {"head": {"vars": [*cells]}, "results": {"bindings": [solution] * 100}},
        "wikipedia": {"parse": {"pageid": 1, "title": "T", "text": "<p>A paragraph of a page.</p>" * 3000}},
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
