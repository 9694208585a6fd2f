"""Client of a server of the OpenAI protocol, on top of the openai SDK.

The SDK's retries are off, since the Sender retries. Responses are taken as plain JSON through its generic `post`:
building its typed objects costs more processor time than the rest of a request, which matters from some hundred
requests a second on.
"""

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import httpx2

from factmill.tasks.clients.event_streams import read_body
from factmill.tasks.clients.refusals import is_prompt_too_long
from factmill.tasks.clients.sending.answers import tell_error
from factmill.tasks.clients.sending.bounded import ACCEPTED, asking, check_redirect, count_redirect
from factmill.tasks.clients.sending.budget import TightError, find_account
from factmill.tasks.clients.sending.connections import ModelTransport
from factmill.tasks.clients.sending.credentials import Credentials
from factmill.tasks.clients.sending.sender import Retry
from factmill.tasks.core.calls.call import Reply
from factmill.tasks.core.service_settings import FILES, Model
from factmill.tasks.core.spending.bounds import Bounds, Usage, is_unanswered, price_range, price_usage, read_usage
from factmill.tasks.errors import BudgetReached, FactmillError

FILE_TIMEOUT_S, FILE_DEADLINE_S = 600.0, 7200.0
"""Time-out for a pause and deadline for the whole, while a batch job's file is uploaded or downloaded."""
_TIMED_OUT = (408, 504, 524)
"""Statuses of a server or gateway that gave up waiting for the response."""
_OVERLOADED = (503, 529)
"""Statuses of a server that did not start on the request."""
_TEMPLATE_TOKENS, _MESSAGE_TOKENS = 128, 16
"""Most tokens that a server's template adds to a request, and to each message."""
UNTOLD_TOKENS = 16_384
"""Most tokens of a reply, where neither the request nor the world's file sets a limit; raised when replies are longer.
"""
_MARGIN = 1.5
"""Factor on tokens that a server counted beyond those expected."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Response to one request."""

    status: int
    text: str
    """Body without secrets; events of a stream are joined."""
    retry_after: str | None


class OpenAiServer:
    """Client of one model behind a server."""

    library = "openai"
    """SDK that sends requests, imported with the first model; AnthropicServer's SDK has errors of the same names."""

    def __init__(self, model: Model, read_key: Callable[[], str], user_agent: str) -> None:
        """Set up the client; send nothing. `read_key` is called with the first request."""
        self._sdk = import_module(self.library)
        self.name = f"model {model.name} at {model.url}"
        self.model = model
        self.has_answered = False
        """True once any response arrived."""
        self._over = [1.0, 1.0]
        """Highest ratio seen of counted to expected tokens, of requests and of replies."""
        self._over_price = 1.0
        """Highest ratio seen of the server's price for a request to the price of its tokens."""
        self.credentials = Credentials(model, read_key)
        """Credentials of requests; they are redacted from responses."""
        self._client = self._open_client(
            user_agent,
            self._sdk.DefaultAsyncHttpxClient(
                transport=ModelTransport(model, self.credentials),
                event_hooks={"response": [self._check_redirect]},
                headers={"Accept-Encoding": ACCEPTED},
            ),
        )

    def _open_client(self, user_agent: str, http_client: httpx2.AsyncClient) -> Any:
        return self._sdk.AsyncOpenAI(
            api_key="none",  # the transport adds the real key
            base_url=self.model.url,
            max_retries=0,
            timeout=self.model.limits.timeout_s,
            default_headers={"User-Agent": user_agent},
            http_client=http_client,
        )

    async def mark_key(self) -> str:
        """Return a digest that shows whether a later run has the same key for this address, and that reveals no strong
        key."""
        return await self.credentials.mark()

    async def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        """Send one request without a budget check; Retry when the connection fails."""
        return self._read(await self._send(self._client.post(path, body=dict(body), cast_to=httpx2.Response)))

    async def get(self, path: str) -> Answer:
        """Send a GET request; Retry when the connection fails."""
        return self._read(await self._send(self._client.get(path, cast_to=httpx2.Response)))

    async def fetch(self, path: str) -> tuple[Answer, bytes]:
        """Download a file: return the response, without text on success, and the bytes, which may hold secrets.

        Retry as in `get`.
        """
        sending = self._client.get(path, cast_to=httpx2.Response, options={"timeout": FILE_TIMEOUT_S})
        with asking(FILES):
            response = await self._send(sending, FILE_DEADLINE_S)
        if response.is_success:
            return Answer(response.status_code, "", None), response.content
        return self._read(response), b""

    async def upload(self, name: str, content: bytes, purpose: str) -> Answer:
        """Upload a file; Retry when the connection fails."""
        sending = self._client.post(
            "/files",
            body={"purpose": purpose},
            files=[("file", (name, content, "application/jsonl"))],
            # the client adds the boundary; a server takes long to read a large file before it answers
            options={"headers": {"Content-Type": "multipart/form-data"}, "timeout": FILE_TIMEOUT_S},
            cast_to=httpx2.Response,
        )
        return self._read(await self._send(sending, FILE_DEADLINE_S))

    async def _send(self, sending: Awaitable[httpx2.Response], deadline_s: float | None = None) -> httpx2.Response:
        """Return a response; Retry unless it is complete within the deadline (None: `limits.timeout_s`)."""
        deadline_s = deadline_s or self.model.limits.timeout_s
        try:
            async with asyncio.timeout(deadline_s):
                response = await sending
        except TimeoutError:
            raise Retry(f"timeout: no whole answer within {deadline_s:g} s") from None
        except self._sdk.APIStatusError as error:
            response = error.response
        except self._sdk.APITimeoutError:
            raise Retry("timeout: the server did not answer in time") from None
        except self._sdk.APIConnectionError as error:
            if isinstance(error.__cause__, Retry | FactmillError):  # from the transport: Anthropic's SDK wraps them
                raise error.__cause__ from None
            code = "unreachable" if isinstance(error.__cause__, httpx2.ConnectError) else "connection_cut"
            raise Retry(f"{code}: {self.credentials.scrub(tell_error(error.__cause__ or error))}") from None
        self.has_answered = True
        return response

    def _read(self, response: httpx2.Response) -> Answer:
        try:
            text = read_body(response.text, response.status_code)
        except Retry as trouble:
            raise Retry(self.credentials.scrub(str(trouble))) from None
        return Answer(response.status_code, self.credentials.scrub(text), response.headers.get("Retry-After"))

    async def ask(self, path: str, body: Mapping[str, Any], operation: str = "chat") -> Answer:
        """Send a request and charge the budget for it.

        Retry when the connection fails; TightError and BudgetReached when the budget does not allow the request.
        """
        budget = find_account().budget
        is_bound = budget.bounds != Bounds()
        held = self.hold(body)
        try:
            with asking(operation):
                answer = await self.post(path, body)
        except BaseException as error:  # a time-out too: the server may have answered, and then bills it
            if isinstance(error, Retry) and error.code == "unreachable":
                budget.settle(held, 0.0, is_answer=False)
            else:
                budget.forgo(held)
            raise
        cost_usd, usage = self.bill(answer)
        if cost_usd is None:
            budget.forgo(held, is_answer=answer.status < 300)
        else:
            budget.settle(held, cost_usd, is_answer=usage is not None)
        if usage is not None and is_bound:
            self._learn(usage, self.expect_tokens(body))
        return answer

    def bill(self, answer: Answer) -> tuple[float | None, Usage | None]:
        """Return the cost of a response in US$, and its usage; None where either is unknown.

        A response without usage costs nothing where the request was refused or failed at once. It may have been billed
        where the server, or a gateway before it, gave up waiting, and where a gateway reports a failure in its own
        words (HTML) instead of the server's.
        """
        body = _read_body(answer.text)
        usage = read_usage(body)
        if usage is not None:
            return price_usage(usage, self.model), usage
        if answer.status < 300:
            is_free = is_unanswered(body)
        else:
            is_free = answer.status < 500 or answer.status in _OVERLOADED or isinstance(body, dict)
        return 0.0 if is_free and answer.status not in _TIMED_OUT else None, None

    def hold(self, body: Mapping[str, Any], *, is_probed: bool = True, share: float = 1.0) -> int:
        """Count a request and reserve its highest cost; TightError and BudgetReached when it may not go out.

        `is_probed`: the model's first request goes alone, to show whether the server keeps to limits. `share`: factor
        on the model's prices.
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
        """Return upper bounds for the tokens of a request and of its replies.

        A token of a request has at least one byte, and replies are limited; overcounts seen earlier scale both bounds.
        """
        told = json.dumps(
            [body.get(name) for name in ("messages", "prompt", "tools", "response_format")], ensure_ascii=False
        )
        asked = len(told.encode(errors="replace")) + _TEMPLATE_TOKENS + _MESSAGE_TOKENS * len(body.get("messages", ()))
        limit = next((body[name] for name in ("max_tokens", "max_completion_tokens") if name in body), None)
        if limit is None:
            limit = self.model.context_tokens or UNTOLD_TOKENS
        return math.ceil(asked * self._over[0]), math.ceil(limit * body.get("n", 1) * self._over[1])

    def price_at_most(self, tokens_in: int, tokens_out: int) -> float:
        """Return the highest cost of a request with these tokens, in US$, however many are cached or spent on
        reasoning."""
        return self._over_price * price_range(tokens_in, tokens_out, self.model)[1]

    def _learn(self, usage: Usage, expected: tuple[int, int]) -> None:
        for at, counted in enumerate((usage.tokens_in, usage.tokens_out)):
            if expected[at] and counted > expected[at]:
                self._over[at] *= _MARGIN * counted / expected[at]
        by_tokens = price_usage(replace(usage, cost_usd=0.0), self.model)
        if by_tokens and usage.cost_usd > self._over_price * by_tokens:
            self._over_price = usage.cost_usd / by_tokens

    def price(self, usage: Any) -> Reply:
        """Return a reply without a body, with the tokens and the price of a Usage, a response body or its `usage`.

        Where the usage is unknown, there are no tokens, and the price is the fee per request.
        """
        read = usage if isinstance(usage, Usage) else read_usage(usage)
        if read is None:
            return Reply(None, cost_usd=self.model.usd_per_request)
        return Reply(None, tokens_in=read.tokens_in, tokens_out=read.tokens_out, cost_usd=price_usage(read, self.model))

    async def _check_redirect(self, response: httpx2.Response) -> None:
        if response.has_redirect_location:
            asked, location = str(response.request.url), response.headers["Location"]
            check_redirect(self.name, asked, location, self.model.limits.redirects)
            count_redirect()


def is_too_long(answer: Answer) -> bool:
    """True when a request is refused for its length."""
    return is_prompt_too_long(answer.status, answer.text)


def add_spent(reply: Reply, spent: Reply) -> Reply:
    """Return a reply with the tokens and cost of another added."""
    return replace(
        reply,
        tokens_in=reply.tokens_in + spent.tokens_in,
        tokens_out=reply.tokens_out + spent.tokens_out,
        cost_usd=reply.cost_usd + spent.cost_usd,
    )


def _read_body(text: str) -> Any:
    """Parse a body as JSON; None where it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
