"""A server of the OpenAI protocol: the openai client builds, signs and sends the requests.

Its retries are off, since trying again is the Sender's matter. Replies are taken as plain JSON through its generic
`post`: building its typed objects costs more processor time than all the rest of a request, which is felt from some
hundred requests a second on.
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
"""How long a file of a batch job that is sent or fetched may pause, and how long it may take in all."""
_TIMED_OUT = (408, 504, 524)
"""Statuses of a server or gateway that gave up waiting for the reply."""
_OVERLOADED = (503, 529)
"""Statuses of a server that did not begin."""
_TEMPLATE_TOKENS, _MESSAGE_TOKENS = 128, 16
"""What a server's template may add to a request, and to each message."""
UNTOLD_TOKENS = 16_384
"""Of a reply, where neither the request nor the world's file tells a limit, until replies tell more."""
_MARGIN = 1.5
"""On what a server was seen to count beyond what was expected."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back of one request."""

    status: int
    text: str
    """Body, without secrets; events of a stream are joined."""
    retry_after: str | None


class OpenAiServer:
    """One model behind a server."""

    library = "openai"
    """What sends requests, imported with the first model that is asked; AnthropicServer has another with errors of the same names."""

    def __init__(self, model: Model, read_key: Callable[[], str], user_agent: str) -> None:
        """Keep what is needed; nothing is sent, and `read_key` is called when the first request is."""
        self._sdk = import_module(self.library)
        self.name = f"model {model.name} at {model.url}"
        self.model = model
        self.has_answered = False
        """True once anything came back, whatever it said."""
        self._over = [1.0, 1.0]
        """How much more than was expected requests and replies were seen to count, at most."""
        self._over_price = 1.0
        """How much more than by its tokens the server was seen to charge for a request, at most."""
        self.credentials = Credentials(model, read_key)
        """What requests carry; hides its secrets in what comes back."""
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
            api_key="none",  # the transport adds what the credentials say
            base_url=self.model.url,
            max_retries=0,
            timeout=self.model.limits.timeout_s,
            default_headers={"User-Agent": user_agent},
            http_client=http_client,
        )

    async def mark_key(self) -> str:
        """Return what tells whether a later run has the same key for this address, and nothing else of one that nobody guesses."""
        return await self.credentials.mark()

    async def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        """Send one request, whatever it costs; Retry when the connection fails."""
        return self._read(await self._send(self._client.post(path, body=dict(body), cast_to=httpx2.Response)))

    async def get(self, path: str) -> Answer:
        """Ask for what lies at a path; Retry when the connection fails."""
        return self._read(await self._send(self._client.get(path, cast_to=httpx2.Response)))

    async def fetch(self, path: str) -> tuple[Answer, bytes]:
        """Return the answer for a file, without its text where there is one, and the file's bytes, which may hold secrets; Retry as
        `get`."""
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
            # the client adds the boundary; a server reads a large file for long before it answers
            options={"headers": {"Content-Type": "multipart/form-data"}, "timeout": FILE_TIMEOUT_S},
            cast_to=httpx2.Response,
        )
        return self._read(await self._send(sending, FILE_DEADLINE_S))

    async def _send(self, sending: Awaitable[httpx2.Response], deadline_s: float | None = None) -> httpx2.Response:
        """Return a response; Retry when it has not come whole within the deadline (None: `limits.timeout_s`)."""
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
            if isinstance(error.__cause__, Retry | FactmillError):  # of the transport: Anthropic's SDK wraps them
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
        """Send a request that costs money; Retry when the connection fails, TightError and BudgetReached when it may not go out."""
        budget = find_account().budget
        is_bound = budget.bounds != Bounds()
        held = self.hold(body)
        try:
            with asking(operation):
                answer = await self.post(path, body)
        except BaseException as error:  # a time-out too: the server may have answered, and is then paid
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
        """Return the US$ that an answer costs, and its usage; None where either is unknown.

        An answer without usage costs nothing where the request was refused or failed at once. It may have been billed where the server, or a gateway before it, gave up waiting for the reply, and where a gateway
        tells a failure in its own words (HTML) in place of the server's.
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
        """Return what a request with these tokens can cost, whatever of them is cached or reasoning."""
        return self._over_price * price_range(tokens_in, tokens_out, self.model)[1]

    def _learn(self, usage: Usage, expected: tuple[int, int]) -> None:
        for at, counted in enumerate((usage.tokens_in, usage.tokens_out)):
            if expected[at] and counted > expected[at]:
                self._over[at] *= _MARGIN * counted / expected[at]
        by_tokens = price_usage(replace(usage, cost_usd=0.0), self.model)
        if by_tokens and usage.cost_usd > self._over_price * by_tokens:
            self._over_price = usage.cost_usd / by_tokens

    def price(self, usage: Any) -> Reply:
        """Return a reply without a body that holds the tokens and the price of a Usage, of a reply's body or of its `usage`.

        Where the usage is unknown there are no tokens, and the price is the fee of a request alone.
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
    """Return a reply with what was spent beside."""
    return replace(
        reply,
        tokens_in=reply.tokens_in + spent.tokens_in,
        tokens_out=reply.tokens_out + spent.tokens_out,
        cost_usd=reply.cost_usd + spent.cost_usd,
    )


def _read_body(text: str) -> Any:
    """Return the JSON of a body; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
