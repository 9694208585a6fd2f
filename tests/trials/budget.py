"""A bound of US$ 1.00 on a priced server, 64 requests in parallel, run after run: is it ever crossed?

    PYTHONPATH=tests python -m trials.budget [--runs 20] [--bound 1.0] [--parallel 64] [--heedless]

The server answers after random times, refuses some requests with 429, cuts some connections, is too late for some and
answers these all the same, and says little to most and all that it may to some. It keeps its own books: every reply that
it made is paid for, whether the client has seen it or not. Each run goes on asking until its bound is reached; the next
one goes on with what is left. Printed is a line a run: what the server was owed, what the client thought. Exit code 1 when
a bound was crossed, or when a run stopped although half of its bound was left.

`--heedless`: the server goes beyond the limit that it is told, by up to 60 %, as some do that reason. How much cannot be
known before it has been seen, so a crossing there is told and is no failure.
"""

import argparse
import sys
import threading
from random import Random
from typing import Any

from support.webs.loopback import Loopback, Seen

from tasks.clients.chat import Chat
from tasks.clients.sending.budget import Budget
from tasks.clients.sending.lazy import LazyService
from tasks.core.calls.call import Call, Reply
from tasks.core.calls.chat import call_chat
from tasks.core.prompts import fill_in, read_prompt
from tasks.core.spending.bounds import Bounds
from tasks.errors import BudgetReached
from tasks.settings import Limits, Model

USD_IN, USD_OUT = 0.5, 2.5
MOST_TOKENS = 800
PROMPT = f"""+++
role = "author"
inputs = ["number", "text"]
temperature = 0.7
max_tokens = {MOST_TOKENS}
+++
# system
Answer.
# user
$number: $text
"""


class PricedServer:
    """A chat server with prices; `owed` is what all its replies cost."""

    def __init__(self, seed: int, timeout_s: float, heedless: bool) -> None:
        self.owed, self.replies, self.refused = 0.0, 0, 0
        self._random, self._timeout_s, self._heedless = Random(seed), timeout_s, heedless
        self._lock = threading.Lock()
        self.web = Loopback()
        self.web.handle = self._answer

    def _answer(self, seen: Seen) -> dict[str, Any]:
        with self._lock:
            draw = self._random.random()
            delay_s = self._random.expovariate(1 / 0.15)
            if draw < 0.05:
                self.refused += 1
                return {"status": 429, "json": {"error": {"message": "slow down"}}, "headers": {"Retry-After": "0.02"}}
            asked = seen.json()
            tokens_in = sum(len(each["content"]) for each in asked["messages"]) // 4
            most = int(asked["max_tokens"] * (1.6 if self._heedless else 1.0))
            said = [
                most if self._random.random() < 0.2 else self._random.randint(5, most // 4) for _ in range(asked["n"])
            ]
            self.owed += (tokens_in * USD_IN + sum(said) * USD_OUT) / 1e6
            self.replies += 1
        choices = [
            {"index": at, "finish_reason": "stop", "message": {"role": "assistant", "content": "x " * (each // 8)}}
            for at, each in enumerate(said)
        ]
        usage = {"prompt_tokens": tokens_in, "completion_tokens": sum(said)}
        answer: dict[str, Any] = {"json": {"choices": choices, "usage": usage}, "delay_s": min(delay_s, 0.6)}
        if draw > 0.995:
            return answer | {"delay_s": 1.5 * self._timeout_s}
        return answer | ({"cut": True} if draw > 0.99 else {})


def run_once(seed: int, bound: float, parallel: int, heedless: bool) -> tuple[bool, str]:
    """Ask until the bound is reached; return whether all is well, and a line that tells what came."""
    timeout_s = 1.0
    server = PricedServer(seed, timeout_s, heedless)
    model = Model(
        kind="openai",
        name="m",
        url=f"{server.web.url}/v1",
        choices=True,
        usd_per_million_in=USD_IN,
        usd_per_million_out=USD_OUT,
        limits=Limits(parallel=parallel, timeout_s=timeout_s, attempts=6, backoff_s=0.01),
    )
    service = LazyService("m", True, lambda: Chat("m", model, lambda: "none", "factmill-trials"))
    service.budget = Budget(Bounds(cost_usd=bound))
    prompt, random = read_prompt("trial/budget", PROMPT.encode()), Random(seed)
    calls = [
        call_chat("m", "m", fill_in(prompt, samples=2, number=str(number), text="word " * random.randint(10, 400)))
        for number in range(int(2_000 * bound) + 200)
    ]
    came: dict[str, Reply] = {}

    def keep(call: Call, reply: Reply) -> None:
        came[call.key] = reply

    reached = ""
    try:
        service.send(calls, keep)
    except BudgetReached as error:
        reached = error.bound
    spent = service.budget.spent
    server.web.close()
    told = sum(reply.cost_usd for reply in came.values())
    good = bool(reached) and server.owed <= bound and (heedless or server.owed > bound / 2)
    return good, (
        f"{seed:3}: owed US$ {server.owed:.6f} for {server.replies} replies, {server.refused} refused; {server.web.most_at_once} "
        f"at once; the client counts {spent.paid_usd:.6f} paid + {spent.unanswered_usd:.6f} without a reply, recorded {told:.6f}"
        f"{'' if server.owed <= bound else '  CROSSED'}{'' if reached else '  NEVER STOPPED'}"
    )


def main() -> int:
    """Make the runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--bound", type=float, default=1.0, help="US$")
    parser.add_argument("--parallel", type=int, default=64)
    parser.add_argument("--heedless", action="store_true")
    told = parser.parse_args()
    kept = 0
    for seed in range(told.runs):
        good, line = run_once(seed, told.bound, told.parallel, told.heedless)
        kept += good
        print(line, flush=True)
    print(f"{kept} of {told.runs} runs stopped before US$ {told.bound:.2f} was crossed")
    return 0 if kept == told.runs or told.heedless else 1


if __name__ == "__main__":
    sys.exit(main())
