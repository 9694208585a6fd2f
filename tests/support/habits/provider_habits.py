"""Imitate providers of 2026 by name: each habit handles a request that a model could answer."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from support.habits.provider_server import USD_CACHE_WRITE, USD_CACHED, USD_REQUEST, Reply, Turn, refuse

Respond = Callable[[Turn], Reply]
KEY, EXPIRED = "a-key-that-is-good", "a-key-that-is-over"
REFUSALS = Path(__file__).resolve().parents[4] / "shared" / "data" / "providers" / "refusals.jsonl"


@dataclass(frozen=True)
class ProviderHabit:
    """One provider behaviour, and the expected result of a run against it."""

    respond: Respond
    says: str
    """A description in one line."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The model's settings in the world's file."""
    attempts: int = 6
    environment: Mapping[str, str] = field(default_factory=dict)
    runs: tuple[str, ...] = ("granola",)
    """The runs: `granola`, `slaq` (evaluations), `build granola`, `build slaq`."""
    recovers: bool = False
    """True: the first run stops with exit 1; then the account is topped up."""
    is_cost_told: bool = True
    """False if no report can know the charge."""
    bound_usd: float = 0.0
    """Budget of an additional run over all questions, ten times the maximum cost of a request; 0: no such run."""
    says_in_report: str = ""
    """Text that the report must contain."""


# accounts


def _run_out(error: Reply, after: int, turn: Turn) -> Reply:
    return turn.answer() if turn.number < after or turn.book.is_recovered else error


_ACCOUNTS = {
    "402": refuse(402, "Insufficient credits. Add more to go on.", code=402),
    "402 balance": refuse(402, "Insufficient Balance", type="unknown_error", code="invalid_request_error"),
    "400 credit balance": {
        "status": 400,
        "json": {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API."},
        },
    },
    "429 insufficient_quota": refuse(
        429, "You exceeded your current quota.", type="insufficient_quota", code="insufficient_quota"
    ),
    "400 spending limit": refuse(
        400, "You have reached your specified API usage limits.", type="invalid_request_error"
    ),
    "403 suspended": refuse(403, "Your account is suspended. Contact support.", type="permission_error"),
}


# failures of a provider: each function returns its response in place of a completion


def _half(turn: Turn) -> str:
    return turn.text[: len(turn.text) // 2]


def _fail_choice(turn: Turn) -> Reply:
    result = {"code": 502, "message": "Provider returned error"}
    return turn.complete(_half(turn), "error", choice={"error": result}, more={"usage": None})


def _fail_finish(turn: Turn) -> Reply:
    return turn.complete(_half(turn), "error", more={"usage": None})


def _malform(turn: Turn) -> Reply:
    return turn.complete("", "MALFORMED_FUNCTION_CALL", more={"usage": None})


def _fail_in_200(_turn: Turn) -> Reply:
    return {"json": {"error": {"code": 502, "message": "Upstream error"}}}


def _choose_none(turn: Turn) -> Reply:
    return turn.complete("", more={"choices": [], "usage": None})


FAILURES: dict[str, Respond] = {
    "choices[].error": _fail_choice,
    "finish error, half text": _fail_finish,
    "MALFORMED_FUNCTION_CALL": _malform,
    "200 with an error": _fail_in_200,
    "no choices": _choose_none,
}


def _fail_tries(fail: Respond, share: float, turn: Turn) -> Reply:
    return fail(turn) if turn.hits_try(share) else turn.answer()


def _fail_for_good(fail: Respond, share: float, turn: Turn) -> Reply:
    if not turn.hits(share):
        return turn.answer()
    turn.note("failed")
    return fail(turn)


# blocks


def _block_azure(_turn: Turn) -> Reply:
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": True}}}
    text = "The response was filtered due to the prompt triggering the content management policy."
    return refuse(400, text, type=None, param="prompt", code="content_filter", status=400, innererror=inner)


def _block_openrouter(turn: Turn) -> Reply:
    flagged = {"reasons": ["violence"], "flagged_input": str(turn.body["messages"][-1]["content"])[:60]}
    return refuse(403, "The model requires moderation. Your input was flagged.", code=403, metadata=flagged)


def _block_gemini(turn: Turn) -> Reply:
    return turn.complete("", more={"choices": ..., "promptFeedback": {"blockReason": "SAFETY"}})


BLOCKS: dict[str, Respond] = {
    "Azure 400 content_filter": _block_azure,
    "OpenRouter 403 flagged_input": _block_openrouter,
    "Gemini without choices": _block_gemini,
    "finish content_filter": lambda turn: turn.complete("", "content_filter", message={"content": None}),
    "finish SAFETY": lambda turn: turn.complete("", "SAFETY"),
    "finish RECITATION": lambda turn: turn.complete(_half(turn), "RECITATION"),
    "refusal without content": lambda turn: turn.complete(
        "", message={"content": None, "refusal": "I can't help with that."}
    ),
    "refusal with content": lambda turn: turn.complete(_half(turn), message={"refusal": "I can't help with that."}),
}


def _block(block: Respond, share: float, first: int, turn: Turn) -> Reply:
    """Block a share of contents, or the first few."""
    if not (turn.hits(share) or (first and (turn.content in turn.book.asked[:first]))):
        return turn.answer()
    turn.note("blocked")
    return block(turn)


def _cut(finish: str, turn: Turn) -> Reply:
    if not turn.hits(0.25):
        return turn.answer()
    turn.note("cut")
    return turn.complete(_half(turn), finish)


def fail_block_and_cut(failing: float, blocked: float, cut: float, turn: Turn) -> Reply:
    """Fail a share of attempts, and block and truncate shares of contents, in all the ways above."""
    share = turn.draw("share").random()
    if turn.hits_try(failing):
        return turn.draw("how", turn.tries).choice(list(FAILURES.values()))(turn)
    if share < blocked:
        turn.note("blocked")
        return turn.draw("how").choice(list(BLOCKS.values()))(turn)
    if share < blocked + cut:
        turn.note("cut")
        return turn.complete(_half(turn), turn.draw("how").choice(CUTS))
    return turn.answer()


CUTS = ("length", "max_tokens", "model_length", "MAX_TOKENS", "incomplete")


# money: the charge, and the usage that the response reports

_REASONED = 300


def _tell(turn: Turn, usage: Any, counts: Mapping[str, int], fee: float = 0.0) -> Reply:
    """Answer, charge `counts`, and report `usage`; `...` reports none."""
    turn.charge(counts, fee)
    return turn.complete(more={"usage": usage})


def _reason_besides(turn: Turn) -> Reply:
    counts = turn.count()
    whole = {"in": counts["in"], "out": counts["out"] + _REASONED}
    details = {"reasoning_tokens": _REASONED}
    usage = {"prompt_tokens": counts["in"], "completion_tokens": counts["out"], "completion_tokens_details": details}
    return _tell(turn, usage | {"total_tokens": sum(whole.values())}, whole)


def _report_cached(turn: Turn) -> Reply:
    counts = turn.count()
    cached = counts["in"] // 2
    usage = {"prompt_tokens": counts["in"], "completion_tokens": counts["out"]}
    return _tell(turn, usage | {"prompt_tokens_details": {"cached_tokens": cached}}, counts | {"cached": cached})


def _report_cache_write(turn: Turn) -> Reply:
    counts = turn.count()
    written = counts["in"] // 2
    usage = {"prompt_tokens": counts["in"], "completion_tokens": counts["out"]}
    return _tell(turn, usage | {"prompt_tokens_details": {"cache_write_tokens": written}}, counts | {"write": written})


def _report_with_fee(turn: Turn) -> Reply:
    counts = turn.count()
    usage = {"prompt_tokens": counts["in"], "completion_tokens": counts["out"]}
    return _tell(turn, usage, counts, USD_REQUEST)


def _report_as(make: Callable[[int, int], Any], turn: Turn) -> Reply:
    counts = turn.count()
    return _tell(turn, make(counts["in"], counts["out"]), counts)


_USAGES: dict[str, tuple[Callable[[int, int], Any], bool]] = {
    "usage missing": (lambda _in, _out: ..., False),
    "usage null": (lambda _in, _out: None, False),
    "usage negative": (lambda _in, _out: {"prompt_tokens": -1, "completion_tokens": -1}, False),
    "usage text": (lambda _in, _out: {"prompt_tokens": "many", "completion_tokens": "some"}, False),
    "usage renamed": (lambda tokens_in, tokens_out: {"input_tokens": tokens_in, "output_tokens": tokens_out}, True),
}
_BUSY: dict[str, Reply] = {
    "429": {**refuse(429, "Rate limit reached."), "headers": {"Retry-After": "0"}},
    "529": refuse(529, "Overloaded", type="overloaded_error"),
    "200 with an error": {"json": {"error": {"code": 429, "message": "Rate limit reached."}}},
}


# reach


def stream(turn: Turn) -> Reply:
    """Answer as server-sent events with keep-alive lines, and refuse requests that do not ask for a stream."""
    if turn.body.get("stream") is not True:
        return refuse(400, "This model gives streams only; set stream to true.", param="stream")
    whole = turn.answer()["json"]
    usage = whole.pop("usage")
    shared = {**whole, "object": "chat.completion.chunk"}
    chunks = []
    for choice in whole["choices"]:
        text, at = choice["message"]["content"], choice["index"]
        chunks.append({**shared, "choices": [{"index": at, "delta": {"role": "assistant", "content": ""}}]})
        # chunks of seven characters split every word and every mark of the form
        pieces = [text[start : start + 7] for start in range(0, len(text), 7)]
        chunks += [{**shared, "choices": [{"index": at, "delta": {"content": piece}}]} for piece in pieces]
        chunks.append({**shared, "choices": [{"index": at, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    if turn.body.get("stream_options", {}).get("include_usage"):
        chunks.append({**shared, "choices": [], "usage": usage})
    lines = "".join(f": keep-alive\n\ndata: {json.dumps(chunk, ensure_ascii=False)}\n\n" for chunk in chunks)
    return {"bytes": f"\ufeff{lines}data: [DONE]\n\n".encode(), "type": "text/event-stream"}


def want_request(turn: Turn) -> Reply:
    """Answer requests with the headers, query and key of the table below, and refuse the others."""
    if turn.headers.get("x-team") != "facts" or turn.headers.get("x-secret") != "s3cret-of-a-header":
        return refuse(400, "Missing required header: X-Team, X-Secret.")
    if turn.query.get("api-version") != "2024-10-21":
        return refuse(400, "Missing required query parameter: api-version.")
    return turn.answer() if turn.headers.get("api-key") == KEY else refuse(401, "Access denied: no api-key.")


def expire_token(turn: Turn) -> Reply:
    """Answer requests with the latest token, which expires after ten responses; `key_command` gives the next."""
    used, book = turn.headers.get("authorization", "").removeprefix("Bearer "), turn.book
    if used and used not in book.tokens:
        book.tokens.append(used)
        book.answers_left = 10
    if not used or used != book.tokens[-1] or not book.answers_left:
        return refuse(401, "The access token is missing or expired.")
    book.answers_left -= 1
    return turn.answer()


def _mark_bytes(turn: Turn) -> Reply:
    return {"bytes": b"\xef\xbb\xbf\n\n   \n" + json.dumps(turn.answer()["json"]).encode(), "type": "application/json"}


HEADERS = {
    "headers": {"X-Team": "facts", "X-Secret": {"env": "TRIAL_SECRET"}},
    "query": {"api-version": "2024-10-21"},
    "key_header": "api-key",
    "key_env": "TRIAL_KEY",
}
TOKEN_COMMAND = ["python3", "-c", "import uuid; print(uuid.uuid4())"]
REACH: dict[str, ProviderHabit] = {
    "only streams": ProviderHabit(stream, "gives server-sent events only", {"stream": True}),
    "headers, query, key header": ProviderHabit(
        want_request,
        "wants headers, a query parameter and the key in another header",
        HEADERS,
        environment={"TRIAL_KEY": KEY, "TRIAL_SECRET": "s3cret-of-a-header"},
    ),
    "a token that expires": ProviderHabit(
        expire_token, "refuses a token after ten answers", {"key_command": TOKEN_COMMAND}
    ),
    "byte-order mark": ProviderHabit(_mark_bytes, "puts a byte-order mark and keep-alive lines before JSON"),
}


# refusals

_REFUSED: dict[str, Callable[[dict[str, Any]], bool]] = {
    "token_limit": lambda body: "max_tokens" in body,
    "temperature": lambda body: "temperature" in body,
    "choices": lambda body: body.get("n", 1) > 1,
    "seed": lambda body: "seed" in body,
    "reasoning_effort": lambda body: "reasoning_effort" in body,
    "system": lambda body: any(message["role"] == "system" for message in body["messages"]),
    "json_schema": lambda body: body.get("response_format", {}).get("type") == "json_schema",
}
"""Setting that a refusal teaches → predicate of refused requests."""
_BEFORE: dict[str, dict[str, Any]] = {
    "choices": {"choices": True},
    "reasoning_effort": {"reasoning_effort": "low"},
    "json_schema": {"json_schema": True},
}
"""Setting that a refusal teaches → the world's first value, which makes the client send the refused parameter."""


def _alternates(body: dict[str, Any]) -> bool:
    roles = [message["role"] for message in body["messages"]]
    turns = roles[1:] if roles[0] == "system" else roles
    return turns == [("user", "assistant")[at % 2] for at in range(len(turns))]


def _refuse_while(is_refused: Callable[[dict[str, Any]], bool], expected: Reply, turn: Turn) -> Reply:
    return expected if is_refused(turn.body) else turn.answer()


def read_refusals(path: Path = REFUSALS) -> dict[str, ProviderHabit]:
    """Return a behaviour for each refusal in a file; none if the file is absent."""
    if not path.is_file():
        return {}
    found = {}
    for line in path.read_text("utf-8").splitlines():
        each = json.loads(line)
        taught = next(iter(each["teaches"]), "")
        result = {"status": each["status"], "text": each["body"], "type": "application/json"}
        is_refused = _REFUSED[taught] if taught else lambda body: not _alternates(body)
        found[f"refusal: {each['from']}"] = ProviderHabit(
            partial(_refuse_while, is_refused, result),
            f"refuses what {taught or 'roles'} says, until it is gone",
            _BEFORE.get(taught, {}),
            runs=("build slaq",) if taught == "json_schema" else ("build granola",),
        )
    return found


def make_habits() -> dict[str, ProviderHabit]:
    """Return all behaviours by name."""
    found = {"plain": ProviderHabit(Turn.answer, "no faults", runs=("granola", "slaq", "build granola", "build slaq"))}
    for name, error in _ACCOUNTS.items():
        result = f"answers nothing after ten requests: {name}"
        found[f"account: {name}"] = ProviderHabit(partial(_run_out, error, 10), result, recovers=True)
    found["account: 402 in a build"] = ProviderHabit(
        partial(_run_out, _ACCOUNTS["402"], 10), "the same in a build", recovers=True, runs=("build granola",)
    )
    for name, fail in FAILURES.items():
        runs = ("granola", "slaq", "build granola")
        found[f"fails 25 %: {name}"] = ProviderHabit(
            partial(_fail_tries, fail, 0.25), "a quarter of requests", runs=runs
        )
        found[f"fails for good: {name}"] = ProviderHabit(
            partial(_fail_for_good, fail, 0.25), "a quarter of prompts, whenever they are sent"
        )
    for name, block in BLOCKS.items():
        for share in (0.05, 0.2):
            found[f"blocks {share:.0%}: {name}"] = ProviderHabit(
                partial(_block, block, share, 1), "a share of prompts, and the first"
            )
    for name in ("Azure 400 content_filter", "OpenRouter 403 flagged_input", "Gemini without choices"):
        result = "the first fourteen prompts, and a fifth of the others; the judge's too"
        found[f"blocks the first 14: {name}"] = ProviderHabit(
            partial(_block, BLOCKS[name], 0.2, 14), result, runs=("granola", "slaq")
        )
    for finish in CUTS:
        found[f"cuts 25 %: {finish}"] = ProviderHabit(partial(_cut, finish), "a quarter of answers")
    found["finish unknown"] = ProviderHabit(
        lambda turn: turn.complete(None, "weary"), "an unknown finish reason", says_in_report="weary"
    )
    cached = {"usd_per_million_cached": USD_CACHED}
    found["money: reasoning outside completion_tokens"] = ProviderHabit(_reason_besides, "usage", bound_usd=1.0)
    for name, respond, settings in (
        ("cached", _report_cached, cached),
        ("cache write", _report_cache_write, {"usd_per_million_cache_write": USD_CACHE_WRITE}),
        ("a fee a request", _report_with_fee, {"usd_per_request": USD_REQUEST}),
    ):
        found[f"money: {name}"] = ProviderHabit(respond, "usage", settings, bound_usd=0.11)
    for name, (make, is_told) in _USAGES.items():
        found[f"money: {name}"] = ProviderHabit(
            partial(_report_as, make), "usage", is_cost_told=is_told, bound_usd=0.11
        )
    for name, reply in _BUSY.items():
        found[f"money: 70 % {name}"] = ProviderHabit(
            partial(_fail_tries, lambda _turn, reply=reply: reply, 0.7), "most requests", attempts=40, bound_usd=0.11
        )
    found |= {f"reach: {name}": habit for name, habit in REACH.items()}
    found |= read_refusals()
    opaque = {"status": 400, "text": '{"error": {"message": "Bad Request"}}', "type": "application/json"}
    found["refusal: opaque until seed is gone"] = ProviderHabit(
        partial(_refuse_while, _REFUSED["seed"], opaque), "says nothing of what it refuses", runs=("build granola",)
    )
    return found
