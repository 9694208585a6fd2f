"""Measure how the clients of Wikimedia's services behave, with loopback servers.

    python bench trials.wikimedia [replies] [rates]

`replies`: for each kind of response, given once and given always: whether the client retries, how long the whole
service pauses, and the message of the row or the run. `rates`: concurrent requests and requests per second over
three services.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any
from unittest.mock import patch

from support.webs.loopback import Loopback

from factmill.tasks import settings
from factmill.tasks.clients.sending import limiter as limiting
from factmill.tasks.clients.wikipedia import WikipediaClient
from factmill.tasks.core.calls.call import Call, CallResponse
from factmill.tasks.core.calls.pageviews import make_pageviews_call
from factmill.tasks.core.calls.wikipedia import make_search_call
from factmill.tasks.core.service_settings import ServiceLimits
from factmill.tasks.engine import services as opening
from factmill.tasks.engine.services import WorldServices
from factmill.tasks.errors import ServiceError

HERE = "trial"
LIMITS = ServiceLimits(parallel=1, timeout_s=5, attempts=2, backoff_s=0.25)
FOUND = {"json": {"query": {"search": [{"title": "Berlin"}]}}}
CODES = (
    *("maxlag", "ratelimited", "readonly", "timeouterror", "internal_api_error_DBQueryError"),
    *("cirrussearch-too-busy-error", "cirrussearch-backend-error", "cirrussearch-too-busy-for-you-anonymous-error"),
    *("blocked", "autoblocked", "wikimedia-globalblocking-ipblocked-range", "mwoauth-invalid-authorization"),
    *("badvalue", "cirrussearch-parse-error"),
)
AGENT_TEXT = "Please set a user-agent and respect our robot policy."


def list_answers() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each kind of response by name."""
    yield "429, Retry-After: 2", {"status": 429, "text": "slow down", "headers": {"Retry-After": "2"}}
    yield "429", {"status": 429, "text": "slow down"}
    lag = {"X-Database-Lag": "7"}
    yield (
        "503 maxlag, Retry-After: 2",
        {"status": 503, "text": "Waiting for db1: 7 s lagged", "headers": lag | {"Retry-After": "2"}},
    )
    yield "503 maxlag", {"status": 503, "text": "Waiting for db1: 7 s lagged", "headers": lag}
    yield "503", {"status": 503, "text": "upstream connect error"}
    yield "403 user agent", {"status": 403, "text": AGENT_TEXT}
    yield "403", {"status": 403, "text": "forbidden"}
    for code in CODES:
        yield f"error {code}", {"json": {"error": {"code": code, "info": "words of the wiki", "*": "See the docs"}}}
        yield f"errors {code}", {"json": {"errors": [{"code": code, "text": "words of the wiki", "module": "main"}]}}
    yield "header ratelimited, HTML", {"text": "<html>", "headers": {"MediaWiki-API-Error": "ratelimited"}}
    ratelimited = {"error": {"code": "ratelimited", "info": "words of the wiki"}}
    yield (
        "429 ratelimited, Retry-After: 2",
        {
            "status": 429,
            "json": ratelimited,
            "headers": {"MediaWiki-API-Error": "ratelimited", "Retry-After": "2"},
        },
    )


def run(answers: list[dict[str, Any]]) -> tuple[list[CallResponse], str, list[float]]:
    """Return the responses to three searches, the error that stopped the run, and request times (s after the first)."""
    server = Loopback()
    server.script(*answers)
    replies: dict[str, CallResponse] = {}

    def keep(call: Call, reply: CallResponse) -> None:
        replies[call.key] = reply

    try:
        client = WikipediaClient(server.url, HERE, LIMITS, "factmill-trials")
        calls = [make_search_call(HERE, f"word {number}", 3) for number in range(3)]
        client.send(calls, keep)
        stopped = ""
    except ServiceError as error:
        stopped = str(error).replace(server.url, "HOST")
    finally:
        server.close()
    return [replies[call.key] for call in calls if call.key in replies], stopped, [each.at for each in server.seen]


def describe(answer: dict[str, Any]) -> list[str]:
    """Return the cells of a row."""
    replies, stopped, times = run([answer, FOUND])
    if stopped:
        happened = "stops"
    elif replies[0].status == "ok" and len(times) > 3:
        happened = "asked again"
    else:
        happened = "final for this row"
    pause = f"{times[1] - times[0]:.1f}" if len(times) > 1 else "-"
    replies, always, sent = run([answer])
    reason = always or f"{replies[0].error} ({'next run asks again' if replies[0].transient else 'final'})"
    return [happened, pause, str(len(times)), reason, str(len(sent))]


def show_replies() -> None:
    """Print the table of responses."""
    print(f"limits: {json.dumps(LIMITS.model_dump(include={'parallel', 'attempts', 'backoff_s'}))}; three searches\n")
    print(
        "| answer | given once | s to next request | requests | given for ever | requests |\n|---|---|---|---|---|---|"
    )
    for name, answer in list_answers():
        print(f"| {name} | {' | '.join(describe(answer))} |", flush=True)


def show_rates() -> None:
    """Print the concurrency and rate of requests of three services of two worlds, with the defaults and with limits."""
    print(
        "\n| [wikimedia] | token | requests | s | most under way | most begun in 1 s | in 10 s |\n|---|---|---|---|---|---|---|"
    )
    for rules, token in (({}, False), ({}, True), ({"parallel": 2, "requests_per_minute": 600}, False)):
        limiting._limiters.clear()
        server = Loopback()
        server.handle = lambda seen: {"json": answer_service(seen.path), "delay_s": 0.15}
        with TemporaryDirectory() as folder, ExitStack() as stack:
            for module in (opening, settings):
                here = server.url
                patched = patch.object(
                    module, "is_wikimedia_url_except_query_service", lambda url, here=here: url.startswith(here)
                )
                stack.enter_context(patched)
            stack.enter_context(patch.dict("os.environ", {"TRIAL_TOKEN": "token-of-an-account"}))
            worlds = [
                stack.enter_context(
                    closing(
                        WorldServices.open(
                            write_world(Path(folder), name, server.url, rules, token), None, Path(folder)
                        )
                    )
                )
                for name in ("one", "two")
            ]
            pages = [make_pageviews_call(HERE, f"Page {number}", "20240101", "20240102") for number in range(25)]
            searches = [make_search_call(HERE, f"word {number}", 3) for number in range(25)]
            work = [(worlds[0].wikipedia, searches), (worlds[0].pageviews, pages), (worlds[1].wikipedia, searches)]
            threads = [Thread(target=service.send, args=(calls, lambda *_: None)) for service, calls in work]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        server.close()
        times = sorted(seen.at for seen in server.seen)
        most = [max(sum(start <= at < start + window for at in times) for start in times) for window in (1, 10)]
        result = rules or "defaults"
        cells = (
            result,
            "yes" if token else "no",
            len(times),
            f"{times[-1] - times[0]:.1f}",
            server.most_at_once,
            *most,
        )
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


def answer_service(path: str) -> dict[str, Any]:
    """Return the body of a response, by the path of its service."""
    return {"items": [{"views": 1}]} if "metrics" in path else {"query": {"search": []}}


def write_world(folder: Path, name: str, url: str, rules: dict[str, float], token: bool) -> str:
    """Write a world with Wikipedia and page views at one address."""
    more = 'token_env = "TRIAL_TOKEN"\n' if token else ""
    sections = [f'[{each}]\nurl = "{url}"\n{more}limits = {{ parallel = 8 }}\n' for each in ("wikipedia", "pageviews")]
    bounds = "".join(f"{key} = {value}\n" for key, value in rules.items())
    path = folder / f"{name}.toml"
    path.write_text(f'name = "w"\nuser_agent = "trials"\n[wikimedia]\n{bounds}{"".join(sections)}[models]\n')
    return str(path)


TABLES: dict[str, Callable[[], None]] = {"replies": show_replies, "rates": show_rates}


def main() -> None:
    """Print the named tables; by default all."""
    started = time.monotonic()
    for name in sys.argv[1:] or TABLES:
        TABLES[name]()
    print(f"\n{time.monotonic() - started:.0f} s")
