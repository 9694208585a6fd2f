"""A server of the OpenAI protocol: the openai client builds, signs and sends the requests.

Its retries are off, since trying again is the Sender's matter. Replies are taken as plain JSON through its generic
`post`: building its typed objects costs more processor time than all the rest of a request, which is felt from some
hundred requests a second on.
"""

import itertools
import json
import math
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from urllib.parse import urljoin

import httpx2
import openai

from tasks.clients.sending.answers import fail, judge_status, shorten, tell_error
from tasks.clients.sending.budget import TightError, find_account
from tasks.clients.sending.redirects import check_redirect, count_redirect
from tasks.clients.sending.sender import Retry
from tasks.core.calls.call import Reply
from tasks.core.fingerprints import digest_json
from tasks.core.spending.bounds import Bounds
from tasks.errors import BudgetReached, ServiceUnreachable
from tasks.settings import Model

_POOL_SIZE = 8
FILE_TIMEOUT_S = 600.0
"""How long nothing may come while a file of a batch job is sent or fetched."""
_MOST_TOKENS = 2**53
_TEMPLATE_TOKENS, _MESSAGE_TOKENS = 128, 16
"""What a server's template may add to a request, and to each message."""
UNTOLD_TOKENS = 16_384
"""Of a reply, where neither the request nor the world's file tells a limit, until replies tell more."""
_MARGIN = 1.5
"""On what a server was seen to count beyond what was expected."""
_TOO_LONG = re.compile(
    r"context.?(length|window|size)|(prompt|input|message)s? (is|are) too long|too many tokens|string_above_max_length",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back of one request."""

    status: int
    text: str
    """Body, without the key."""
    retry_after: str | None


class OpenAiServer:
    """One model behind a server."""

    _sdk: Any = openai
    """The library that sends requests; AnthropicServer has another with errors of the same names."""

    def __init__(self, model: Model, read_key: Callable[[], str], user_agent: str) -> None:
        """Keep what is needed; nothing is sent, and `read_key` is called when the first request is."""
        self.name = f"model {model.name} at {model.url}"
        self.model = model
        self.has_answered = False
        """True once anything came back, whatever it said."""
        self._over = [1.0, 1.0]
        """How much more than was expected requests and replies were seen to count, at most."""
        self._read_key = read_key
        self._key = ""
        self._client = self._open_client(
            user_agent,
            self._sdk.DefaultAsyncHttpxClient(
                transport=_SpreadTransport(model.limits.parallel), event_hooks={"response": [self._check_redirect]}
            ),
        )

    def _open_client(self, user_agent: str, http_client: httpx2.AsyncClient) -> Any:
        return openai.AsyncOpenAI(
            api_key=self._give_key,
            base_url=self.model.url,
            max_retries=0,
            timeout=self.model.limits.timeout_s,
            default_headers={"User-Agent": user_agent},
            http_client=http_client,
        )

    async def mark_key(self) -> str:
        """Return what tells whether a later run has the same key for this address, and nothing else of one that nobody guesses."""
        return digest_json([self.model.url, await self._give_key()])[:16]

    async def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        """Send one request, whatever it costs; Retry when the connection fails."""
        return self._read(await self._send(self._client.post(path, body=dict(body), cast_to=httpx2.Response)))

    async def get(self, path: str) -> Answer:
        """Ask for what lies at a path; Retry when the connection fails."""
        return self._read(await self._send(self._client.get(path, cast_to=httpx2.Response)))

    async def fetch(self, path: str) -> tuple[Answer, bytes]:
        """Return the answer for a file, without its text where there is one, and the file's bytes; Retry as `get`."""
        response = await self._send(
            self._client.get(path, cast_to=httpx2.Response, options={"timeout": FILE_TIMEOUT_S})
        )
        if response.is_success:
            return Answer(response.status_code, "", None), response.content
        return self._read(response), b""

    async def upload(self, name: str, content: bytes, purpose: str) -> Answer:
        """Upload a file; Retry when the connection fails."""
        sending = self._client.post(
            "/files",
            body={"purpose": purpose},
            files=[("file", (name, content, "application/jsonl"))],
            # the client adds the boundary; a server reads a large file for long before it answers
            options={"headers": {"Content-Type": "multipart/form-data"}, "timeout": FILE_TIMEOUT_S},
            cast_to=httpx2.Response,
        )
        return self._read(await self._send(sending))

    async def _send(self, sending: Awaitable[httpx2.Response]) -> httpx2.Response:
        try:
            response = await sending
        except self._sdk.APIStatusError as error:
            response = error.response
        except self._sdk.APITimeoutError:
            raise Retry("timeout: the server did not answer in time") from None
        except self._sdk.APIConnectionError as error:
            code = "unreachable" if isinstance(error.__cause__, httpx2.ConnectError) else "connection_cut"
            raise Retry(f"{code}: {self._scrub(tell_error(error.__cause__ or error))}") from None
        self.has_answered = True
        return response

    def _read(self, response: httpx2.Response) -> Answer:
        return Answer(response.status_code, self._scrub(response.text), response.headers.get("Retry-After"))

    async def ask(self, path: str, body: Mapping[str, Any]) -> Answer:
        """Send a request that costs money; Retry when the connection fails, TightError and BudgetReached when it may not go out."""
        budget = find_account().budget
        is_bound = budget.bounds != Bounds()
        held = self.hold(body)
        try:
            answer = await self.post(path, body)
        except BaseException as error:  # a time-out too: the server may have answered, and is then paid
            if isinstance(error, Retry) and error.code == "unreachable":
                budget.settle(held, 0.0, is_answer=False)
            else:
                budget.forgo(held)
            raise
        usage = _read_usage(answer.text) if answer.status < 300 else None
        if (answer.status < 300 and usage is None) or (answer.status >= 500 and answer.status != 503):
            budget.forgo(held)
        else:
            budget.settle(held, self.price(usage).cost_usd, is_answer=usage is not None)
            self._learn(usage, self.expect_tokens(body) if usage and is_bound else (0, 0))
        return answer

    def hold(self, body: Mapping[str, Any], *, is_probed: bool = True, share: float = 1.0) -> int:
        """Count a request and hold the most that it can cost; TightError and BudgetReached when it may not go out.

        `is_probed`: the first one goes alone, so that it tells whether the server keeps to limits. `share`: what it costs of
        the model's prices.
        """
        account = find_account()
        account.budget.take(account.service)
        try:
            is_bound = account.budget.bounds != Bounds()
            usd = share * self.price_at_most(*self.expect_tokens(body)) if is_bound else 0.0
            return account.budget.hold(self.name, usd, is_probed=is_probed)
        except (TightError, BudgetReached):
            account.budget.give_back(account.service)
            raise

    def expect_tokens(self, body: Mapping[str, Any]) -> tuple[int, int]:
        """Return how many tokens a request and its replies have at most: a token of a request is a byte at least, and those
        of a reply are limited; what servers were seen to count beyond is learnt."""
        told = json.dumps(
            [body.get(name) for name in ("messages", "prompt", "tools", "response_format")], ensure_ascii=False
        )
        asked = len(told.encode(errors="replace")) + _TEMPLATE_TOKENS + _MESSAGE_TOKENS * len(body.get("messages", ()))
        limit = next((body[name] for name in ("max_tokens", "max_completion_tokens") if name in body), None)
        if limit is None:
            limit = self.model.context_tokens or UNTOLD_TOKENS
        return math.ceil(asked * self._over[0]), math.ceil(limit * body.get("n", 1) * self._over[1])

    def price_at_most(self, tokens_in: int, tokens_out: int) -> float:
        """Return what so many tokens can cost, whatever of them is cached or thought."""
        usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out}
        cached = {"prompt_tokens_details": {"cached_tokens": tokens_in}}
        thought = {"completion_tokens_details": {"reasoning_tokens": tokens_out}}
        return max(self.price({**usage, **one, **other}).cost_usd for one in ({}, cached) for other in ({}, thought))

    def _learn(self, usage: Any, expected: tuple[int, int]) -> None:
        for at, name in enumerate(("prompt_tokens", "completion_tokens")):
            counted = _count(usage, name)
            if expected[at] and counted > expected[at]:
                self._over[at] *= _MARGIN * counted / expected[at]

    def judge(self, answer: Answer) -> Reply | None:
        """Return None for 2xx and a failed reply for what is final; raise Retry or ServiceUnreachable for the rest."""
        if is_too_long(answer):
            return fail("prompt_too_long", shorten(answer.text))
        if answer.status == 404 or (answer.status == 429 and "insufficient_quota" in answer.text):
            raise ServiceUnreachable(
                f"{self.name}: HTTP {answer.status}: {shorten(answer.text)}. Check url, name and account"
            )
        return judge_status(self.name, answer.status, answer.text, answer.retry_after)

    def price(self, usage: Any) -> Reply:
        """Return a reply without a body that holds the tokens of a `usage` and their price; what is no number counts 0."""
        tokens_in, tokens_out = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
        model = self.model
        cached = min(tokens_in, _count(usage, "prompt_tokens_details", "cached_tokens"))
        thought = min(tokens_out, _count(usage, "completion_tokens_details", "reasoning_tokens"))
        of_cached, of_thought = model.usd_per_million_cached, model.usd_per_million_reasoning
        cost_usd = (tokens_in - cached) * model.usd_per_million_in + (tokens_out - thought) * model.usd_per_million_out
        cost_usd += cached * (model.usd_per_million_in if of_cached is None else of_cached)
        cost_usd += thought * (model.usd_per_million_out if of_thought is None else of_thought)
        return Reply(None, tokens_in=tokens_in, tokens_out=tokens_out, cost_usd=cost_usd / 1e6)

    async def _check_redirect(self, response: httpx2.Response) -> None:
        if response.has_redirect_location:
            asked = str(response.request.url)
            check_redirect(self.name, asked, urljoin(asked, response.headers["Location"]), self.model.limits.redirects)
            count_redirect()

    async def _give_key(self) -> str:
        if not self._key:
            self._key = self._read_key()
            if not (self._key.isascii() and self._key.isprintable()):
                raise ServiceUnreachable(f"{self.name}: the API key holds characters that no header can carry")
        return self._key

    def _scrub(self, text: str) -> str:
        return text.replace(self._key, "***") if len(self._key) > 4 else text


def is_too_long(answer: Answer) -> bool:
    """True when a request is refused for its length."""
    return answer.status in (400, 413, 422) and bool(_TOO_LONG.search(answer.text))


def add_spent(reply: Reply, spent: Reply) -> Reply:
    """Return a reply with what was spent beside."""
    return replace(
        reply,
        tokens_in=reply.tokens_in + spent.tokens_in,
        tokens_out=reply.tokens_out + spent.tokens_out,
        cost_usd=reply.cost_usd + spent.cost_usd,
    )


def _count(usage: Any, *names: str) -> int:
    for name in names:
        usage = usage.get(name) if isinstance(usage, Mapping) else None
    return int(usage) if isinstance(usage, int | float) and 0 <= usage < _MOST_TOKENS else 0


def _read_usage(text: str) -> Any:
    """Return what a reply says was used; None where it says nothing that counts."""
    try:
        usage = json.loads(text)["usage"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return usage if _count(usage, "prompt_tokens") else None


@cache
def _read_authorities() -> ssl.SSLContext:
    # reading them takes longer than many a request, and each build opens a client for each model
    return httpx2.create_ssl_context()


class _SpreadTransport(httpx2.AsyncBaseTransport):
    """Spreads requests over pools of a few connections each.

    A pool looks at every one of its connections when a request comes and when it goes, which with 64 of them is a
    fifth of what a request costs.
    """

    def __init__(self, parallel: int) -> None:
        context = _read_authorities()
        self._pools = [httpx2.AsyncHTTPTransport(verify=context) for _ in range(-(-parallel // _POOL_SIZE))]
        self._next = itertools.cycle(self._pools)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return await next(self._next).handle_async_request(request)

    async def aclose(self) -> None:
        for pool in self._pools:
            await pool.aclose()
