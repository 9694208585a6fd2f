"""How the clients of Wikimedia's services behave, measured at loopback servers.

`replies`: for each kind of answer, given once and given for ever, whether it is asked again, how long the whole service
pauses, and what the row or the run says. `rates`: requests under way and in each second over three services.

Run: PYTHONPATH=tests python -m trials.wikimedia
"""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from support.webs.loopback import Loopback

from tasks.clients.wikipedia import Wikipedia
from tasks.core.calls.call import Call, Reply
from tasks.core.calls.wikipedia import call_search
from tasks.errors import ServiceError
from tasks.settings import Limits

HERE = "trial"
LIMITS = Limits(parallel=1, timeout_s=5, attempts=2, backoff_s=0.25)
FOUND = {"json": {"query": {"search": [{"title": "Berlin"}]}}}
CODES = (
    *("maxlag", "ratelimited", "readonly", "timeouterror", "internal_api_error_DBQueryError"),
    *("cirrussearch-too-busy-error", "cirrussearch-backend-error", "cirrussearch-too-busy-for-you-anonymous-error"),
    *("blocked", "autoblocked", "wikimedia-globalblocking-ipblocked-range", "mwoauth-invalid-authorization"),
    *("badvalue", "cirrussearch-parse-error"),
)
AGENT_TEXT = "Please set a user-agent and respect our robot policy."


def list_answers() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each kind of answer by name."""
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


def run(answers: list[dict[str, Any]]) -> tuple[list[Reply], str, list[float]]:
    """Return the replies to three searches, what stopped the run, and when requests came (seconds after the first)."""
    server = Loopback()
    server.script(*answers)
    replies: dict[str, Reply] = {}

    def keep(call: Call, reply: Reply) -> None:
        replies[call.key] = reply

    try:
        client = Wikipedia(server.url, HERE, LIMITS, "factmill-trials")
        calls = [call_search(HERE, f"word {number}", 3) for number in range(3)]
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
    """Print the table of replies."""
    print(f"limits: {json.dumps(LIMITS.model_dump(include={'parallel', 'attempts', 'backoff_s'}))}; three searches\n")
    print(
        "| answer | given once | s to next request | requests | given for ever | requests |\n|---|---|---|---|---|---|"
    )
    for name, answer in list_answers():
        print(f"| {name} | {' | '.join(describe(answer))} |", flush=True)


TABLES: dict[str, Callable[[], None]] = {"replies": show_replies}

if __name__ == "__main__":
    started = time.monotonic()
    for show in TABLES.values():
        show()
    print(f"\n{time.monotonic() - started:.0f} s")
