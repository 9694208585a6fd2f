"""Check that 64 parallel requests to a priced server never exceed a budget, and measure how much of it buys responses.

    python bench trials.budget [--habit faulty] [--runs 20] [--bound 1.0] [--parallel 64] [--heedless]
    python bench trials.budget --habit all --bound 0.30

The server answers after random delays, mostly with short completions and sometimes with the longest allowed, and
reports usage by a habit of HABITS. It has its own meter, which bills as a provider does: every response it generated,
whether or not the client received it, and nothing for a refused request. Each run sends requests until its budget is
exhausted. Prints a line per run (the amount billed, the share of the budget that paid for received responses, and the
client's own account) and a line per habit. Exits 1 when a budget is exceeded, or when too little of one buys responses:
at least 90 % where all usage is reported and no response is lost, 50 % where some are lost. For unknown usage the
client counts the maximum cost of each response.

`--heedless`: the server exceeds the token limit of a request by up to 60 %, as some reasoning models do. The excess
cannot be known in advance, so exceeding the budget is reported but is not a failure.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from scripts import read_options
from support.webs.loopback import Loopback, Seen

from factmill.tasks.clients.chat import ChatClient
from factmill.tasks.clients.sending.budget import Budget, LazyBudgetedService
from factmill.tasks.core.calls.call import Call, CallResponse
from factmill.tasks.core.calls.chat import make_chat_call
from factmill.tasks.core.prompts import fill_prompt_template, parse_prompt_file
from factmill.tasks.core.service_settings import ModelSettings, ServiceLimits
from factmill.tasks.core.spending.costs import BudgetLimits
from factmill.tasks.errors import BudgetExhausted

USD_IN, USD_OUT, USD_CACHED, USD_CACHE_WRITE = 0.5, 2.5, 0.05, 0.625
"""US$ per million tokens."""
FEE = 0.0005
"""US$ per response, for habits with a fee."""
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
ERROR = {"error": {"message": "The provider returned an error", "code": 502}}


@dataclass(frozen=True)
class Used:
    """Tokens of a response, according to the server's meter."""

    fresh: int
    """Tokens of the prompt that were neither cached nor written to the cache."""
    cached: int
    written: int
    said: int
    reasoned: int

    @property
    def prompt(self) -> int:
        return self.fresh + self.cached + self.written

    @property
    def usd(self) -> float:
        """Amount that the server bills."""
        of_prompt = self.fresh * USD_IN + self.cached * USD_CACHED + self.written * USD_CACHE_WRITE
        return (of_prompt + (self.said + self.reasoned) * USD_OUT) / 1e6


def report_openai(used: Used) -> dict[str, Any]:
    details = {"cached_tokens": used.cached, "cache_write_tokens": used.written}
    out = used.said + used.reasoned
    return {
        "usage": {
            "prompt_tokens": used.prompt,
            "completion_tokens": out,
            "total_tokens": used.prompt + out,
            "prompt_tokens_details": details,
            "completion_tokens_details": {"reasoning_tokens": used.reasoned},
        }
    }


def report_reasoning_apart(used: Used) -> dict[str, Any]:
    result = report_openai(used)["usage"]
    return {"usage": result | {"completion_tokens": used.said}}


def report_reasoning_in_the_total_alone(used: Used) -> dict[str, Any]:
    result = report_reasoning_apart(used)["usage"]
    return {"usage": {name: count for name, count in result.items() if name != "completion_tokens_details"}}


def report_deepseek(used: Used) -> dict[str, Any]:
    result = report_openai(used)["usage"]
    return {"usage": result | {"prompt_tokens_details": None, "prompt_cache_hit_tokens": used.cached}}


def report_anthropic(used: Used) -> dict[str, Any]:
    cache = {"cache_read_input_tokens": used.cached, "cache_creation_input_tokens": used.written}
    return {"usage": {"input_tokens": used.fresh, "output_tokens": used.said + used.reasoned, **cache}}


def report_gemini(used: Used) -> dict[str, Any]:
    counts = {"promptTokenCount": used.prompt, "cachedContentTokenCount": used.cached}
    return {"usageMetadata": {**counts, "candidatesTokenCount": used.said, "thoughtsTokenCount": used.reasoned}}


def report_digits(used: Used) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": str(used.prompt), "completion_tokens": str(used.said + used.reasoned)}}


def report_cost(used: Used) -> dict[str, Any]:
    return {"usage": report_openai(used)["usage"] | {"cost": used.usd}}


def report_nothing(_: Used) -> dict[str, Any]:
    return {}


def report_null(_: Used) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": None, "completion_tokens": None, "total_tokens": None}}


def report_negative(used: Used) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": used.prompt, "completion_tokens": -1}}


def report_words(_: Used) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": "n/a", "completion_tokens": "n/a"}}


def report_other_names(used: Used) -> dict[str, Any]:
    return {"usage": {"read": used.prompt, "written": used.said}}


Tell = Callable[[Used], Mapping[str, Any]]
TOLD: tuple[Tell, ...] = (
    report_openai,
    report_reasoning_apart,
    report_reasoning_in_the_total_alone,
    report_anthropic,
    report_gemini,
    report_digits,
    report_cost,
)
UNTOLD: tuple[Tell, ...] = (report_nothing, report_null, report_negative, report_words, report_other_names)


@dataclass(frozen=True)
class Habit:
    """How a server counts and reports usage, and how it fails."""

    tells: tuple[Tell, ...] = (report_openai,)
    """Formats of usage reports; one is chosen for each response."""
    reasons: bool = False
    """Adds reasoning of up to the length of a full completion, beyond the limit."""
    caches: bool = False
    writes_cache: bool = False
    fee: float = 0.0
    refused: float = 0.05
    """Share of requests that the server refuses."""
    refusals: tuple[Mapping[str, Any], ...] = ({"status": 429, "json": ERROR, "headers": {"Retry-After": "0.02"}},)
    loses: bool = False
    """Cuts some connections and answers some requests too late."""

    @property
    def timeout_s(self) -> float:
        return 2.0 if self.loses else 60.0

    @property
    def least_bought(self) -> float:
        """Minimum share of a budget that must buy responses."""
        result = not set(self.tells) & set(UNTOLD)
        return 0.0 if not result else 0.5 if self.loses else 0.9


_FAILED = {"index": 0, "finish_reason": "error", "error": ERROR["error"], "message": {"content": ""}}
HABITS = {
    "plain": Habit(),
    "faulty": Habit(loses=True),
    "reasoning in completion_tokens": Habit(reasons=True),
    "reasoning outside completion_tokens": Habit((report_reasoning_apart,), reasons=True),
    "reasoning in total_tokens alone": Habit((report_reasoning_in_the_total_alone,), reasons=True),
    "cached": Habit(caches=True),
    "cached, DeepSeek's name": Habit((report_deepseek,), caches=True),
    "cache write": Habit(caches=True, writes_cache=True),
    "Anthropic's names": Habit((report_anthropic,), caches=True, writes_cache=True),
    "Gemini's names": Habit((report_gemini,), reasons=True, caches=True),
    "digits as text": Habit((report_digits,)),
    "cost reported": Habit((report_cost,), caches=True),
    "fee a request": Habit(fee=FEE),
    "70 % of 429": Habit(refused=0.7),
    "70 % of 529": Habit(refused=0.7, refusals=({"status": 529, "json": ERROR},)),
    "70 % of 500 with an error": Habit(refused=0.7, refusals=({"status": 500, "json": ERROR},)),
    "70 % of 200 with an error": Habit(refused=0.7, refusals=({"json": ERROR}, {"json": {"choices": [_FAILED]}})),
    "usage missing": Habit((report_nothing,)),
    "usage null": Habit((report_null,)),
    "usage negative": Habit((report_negative,)),
    "usage in words": Habit((report_words,)),
    "usage by other names": Habit((report_other_names,)),
    "mix of all that is reported": Habit(TOLD, reasons=True, caches=True, fee=FEE, refused=0.3),
    "mix of all": Habit(TOLD + UNTOLD, reasons=True, caches=True, fee=FEE, refused=0.3, loses=True),
}


class PricedServer:
    """A chat server with prices; `owed` is the amount billed, `bought` the part for responses received in time."""

    def __init__(self, seed: int, habit: Habit, heedless: bool) -> None:
        self.owed = self.bought = 0.0
        self.replies = self.refused = 0
        self._random, self._habit, self._heedless = Random(seed), habit, heedless
        self._lock = threading.Lock()
        self.web = Loopback()
        self.web.handle = self._answer

    def _answer(self, seen: Seen) -> dict[str, Any]:
        habit, random = self._habit, self._random
        with self._lock:
            delay_s = min(0.1, random.expovariate(1 / 0.02))
            if random.random() < habit.refused:
                self.refused += 1
                return dict(random.choice(habit.refusals))
            asked = seen.json()
            most = int(asked["max_tokens"] * (1.6 if self._heedless else 1.0))
            said = [most if random.random() < 0.2 else random.randint(5, most // 4) for _ in range(asked.get("n", 1))]
            used = self._use(
                sum(len(each["content"]) for each in asked["messages"]) // 4, sum(said), most * asked.get("n", 1)
            )
            result = random.choice(habit.tells)(used)
            lost = random.random() if habit.loses else 1.0
            usd = used.usd + habit.fee
            self.owed += usd
            self.bought += usd if lost > 0.01 else 0.0
            self.replies += 1
        choices = [
            {"index": at, "finish_reason": "stop", "message": {"role": "assistant", "content": "x " * (each // 8)}}
            for at, each in enumerate(said)
        ]
        answer: dict[str, Any] = {"json": {"choices": choices, **result}, "delay_s": delay_s}
        if lost < 0.005:
            return answer | {"delay_s": 1.5 * habit.timeout_s}
        return answer | ({"cut": True} if lost < 0.01 else {})

    def _use(self, prompt: int, said: int, most: int) -> Used:
        cached = int(prompt * self._random.random()) if self._habit.caches else 0
        written = int((prompt - cached) * self._random.random()) if self._habit.writes_cache else 0
        reasoned = self._random.randint(most // 4, most) if self._habit.reasons else 0
        return Used(prompt - cached - written, cached, written, said, reasoned)


@dataclass(frozen=True)
class Run:
    """The result of a run."""

    owed: float
    bought: float
    is_good: bool
    line: str


def run_once(seed: int, habit: Habit, bound: float, parallel: int, heedless: bool) -> Run:
    """Send requests until the budget is exhausted."""
    server = PricedServer(seed, habit, heedless)
    model = ModelSettings(
        kind="openai",
        name="m",
        url=f"{server.web.url}/v1",
        choices=True,
        usd_per_million_in=USD_IN,
        usd_per_million_out=USD_OUT,
        usd_per_million_cached=USD_CACHED,
        usd_per_million_cache_write=USD_CACHE_WRITE,
        usd_per_request=habit.fee,
        limits=ServiceLimits(parallel=parallel, timeout_s=habit.timeout_s, attempts=6, backoff_s=0.01),
    )
    service = LazyBudgetedService("m", True, lambda: ChatClient("m", model, lambda: "none", "factmill-trials"))
    service.budget = Budget(BudgetLimits(cost_usd=bound))
    prompt, random = parse_prompt_file("trial/budget", PROMPT.encode()), Random(seed)
    calls = [
        make_chat_call(
            "m",
            "m",
            fill_prompt_template(prompt, samples=2, number=str(number), text="word " * random.randint(10, 400)),
        )
        for number in range(int(2_000 * bound) + 200)
    ]
    came: dict[str, CallResponse] = {}

    def keep(call: Call, reply: CallResponse) -> None:
        came[call.key] = reply

    reached = ""
    try:
        service.send(calls, keep)
    except BudgetExhausted as error:
        reached = error.limit
    spent = service.budget.spent
    server.web.close()
    result = sum(reply.cost_usd for reply in came.values())
    share = server.bought / bound
    is_crossed, is_little = server.owed > bound, share < habit.least_bought
    return Run(
        server.owed,
        share,
        bool(reached) and (heedless or not (is_crossed or is_little)),
        f"{seed:3}: owed US$ {server.owed:.6f} for {server.replies} replies, {server.refused} refused; {share:.1%} bought "
        f"replies; {server.web.most_at_once} at once; the client counts {spent.paid_usd:.6f} paid + {spent.unanswered_usd:.6f} "
        f"of unknown cost, recorded {result:.6f}{'  CROSSED' if is_crossed else ''}{'  TOO LITTLE' if is_little else ''}"
        f"{'' if reached else '  NEVER STOPPED'}",
    )


def main() -> int:
    """Run the trials and print the table."""
    result = read_options(
        __doc__, habit=("faulty", None, ["all", *HABITS]), runs=20, bound=(1.0, "US$"), parallel=64, heedless=False
    )
    table, good = [], True
    for name in HABITS if result.habit == "all" else [result.habit]:
        runs = []
        for seed in range(result.runs):
            runs.append(run_once(seed, HABITS[name], result.bound, result.parallel, result.heedless))
            print(f"{name}: {runs[-1].line}", flush=True)
        crossed = sum(run.owed > result.bound for run in runs)
        owed, bought = sorted(run.owed for run in runs), sorted(run.bought for run in runs)
        good &= all(run.is_good for run in runs)
        table.append(
            f"| {name} | {crossed} of {len(runs)} | {owed[0]:.4f} to {owed[-1]:.4f} | {bought[0]:.1%} to {bought[-1]:.1%} |"
        )
    print(f"\n| habit | bounds of US$ {result.bound:.2f} crossed | owed, US$ | bought replies |\n|---|--:|--:|--:|")
    print("\n".join(table))
    return 0 if good else 1
