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

from factmill.tasks.clients.event_streams import read_plain_or_streamed_json
from factmill.tasks.clients.sending.budget import BudgetFullyReserved, get_current_budget_account
from factmill.tasks.clients.sending.credentials import ModelCredentials
from factmill.tasks.clients.sending.http_responses import format_library_error, parse_json_or_none
from factmill.tasks.clients.sending.model_transport import ModelTransport
from factmill.tasks.clients.sending.response_limits import (
    ACCEPTED_ENCODING,
    apply_operation_size_limit,
    check_redirect,
    count_redirect_as_request,
)
from factmill.tasks.clients.sending.sender import Retry
from factmill.tasks.core.calls.call import CallResponse
from factmill.tasks.core.service_settings import BATCH_FILES_OPERATION, ModelSettings
from factmill.tasks.core.spending.costs import (
    BudgetLimits,
    TokenUsage,
    compute_cost_range,
    compute_request_cost,
    is_error_response,
    read_token_usage,
)
from factmill.tasks.errors import BudgetExhausted, FactmillError

FILE_TIMEOUT_S, FILE_DEADLINE_S = 600.0, 7200.0
"""Time-out for a pause and deadline for the whole, while a batch job's file is uploaded or downloaded."""
_TIMEOUT_STATUSES = (408, 504, 524)
"""Statuses of a server or gateway that gave up waiting for the response."""
_OVERLOAD_STATUSES = (503, 529)
"""Statuses of a server that did not start on the request."""
_MAX_TEMPLATE_TOKENS, _MAX_TOKENS_PER_MESSAGE = 128, 16
"""Most tokens that a server's template adds to a request, and to each message."""
DEFAULT_MAX_TOKENS = 16_384
"""Most tokens of a reply, where neither the request nor the world's file sets a limit; raised when replies are longer.
"""
_OVERCOUNT_MARGIN = 1.5
"""Factor on tokens that a server counted beyond those expected."""


@dataclass(frozen=True, slots=True)
class ServerResponse:
    """Response to one request."""

    status: int
    """HTTP status; 0 in a batch job's result: there was no response."""
    text: str
    """Body without secrets; events of a stream are joined."""
    retry_after: str | None = None

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class OpenAiServerClient:
    """Client of one model behind a server."""

    library = "openai"
    """SDK that sends requests, imported with the first model; AnthropicServerClient's SDK has errors of the same names."""

    def __init__(self, model: ModelSettings, read_key: Callable[[], str], user_agent: str) -> None:
        """Set up the client; send nothing. `read_key` is called with the first request."""
        self._sdk = import_module(self.library)
        self.name = f"model {model.name} at {model.url}"
        self.model = model
        self.has_answered = False
        """True once any response arrived."""
        self._token_overcount = [1.0, 1.0]
        """Highest ratio seen of counted to expected tokens, of requests and of replies."""
        self._price_overcount = 1.0
        """Highest ratio seen of the server's price for a request to the price of its tokens."""
        self.credentials = ModelCredentials(model, read_key)
        """Credentials of requests; they are redacted from responses."""
        self._client = self._open_client(
            user_agent,
            self._sdk.DefaultAsyncHttpxClient(
                transport=ModelTransport(model, self.credentials),
                event_hooks={"response": [self._check_redirect]},
                headers={"Accept-Encoding": ACCEPTED_ENCODING},
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

    async def post(self, path: str, body: Mapping[str, Any]) -> ServerResponse:
        """Send one request without a budget check; Retry when the connection fails."""
        return self._read_response(await self._send(self._client.post(path, body=dict(body), cast_to=httpx2.Response)))

    async def get(self, path: str) -> ServerResponse:
        """Send a GET request; Retry when the connection fails."""
        return self._read_response(await self._send(self._client.get(path, cast_to=httpx2.Response)))

    async def download(self, path: str) -> tuple[ServerResponse, bytes]:
        """Download a file: return the response, without text on success, and the bytes, which may hold secrets.

        Retry as in `get`.
        """
        sending = self._client.get(path, cast_to=httpx2.Response, options={"timeout": FILE_TIMEOUT_S})
        with apply_operation_size_limit(BATCH_FILES_OPERATION):
            response = await self._send(sending, FILE_DEADLINE_S)
        if response.is_success:
            return ServerResponse(response.status_code, ""), response.content
        return self._read_response(response), b""

    async def upload(self, name: str, content: bytes, purpose: str) -> ServerResponse:
        """Upload a file; Retry when the connection fails."""
        sending = self._client.post(
            "/files",
            body={"purpose": purpose},
            files=[("file", (name, content, "application/jsonl"))],
            # the client adds the boundary; a server takes long to read a large file before it answers
            options={"headers": {"Content-Type": "multipart/form-data"}, "timeout": FILE_TIMEOUT_S},
            cast_to=httpx2.Response,
        )
        return self._read_response(await self._send(sending, FILE_DEADLINE_S))

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
            raise Retry(f"{code}: {self.credentials.redact(format_library_error(error.__cause__ or error))}") from None
        self.has_answered = True
        return response

    def _read_response(self, response: httpx2.Response) -> ServerResponse:
        try:
            text = read_plain_or_streamed_json(response.text, response.status_code)
        except Retry as trouble:
            raise Retry(self.credentials.redact(str(trouble))) from None
        return ServerResponse(response.status_code, self.credentials.redact(text), response.headers.get("Retry-After"))

    async def send_paid(self, path: str, body: Mapping[str, Any], operation: str = "chat") -> ServerResponse:
        """Send a request and charge the budget for it.

        Retry when the connection fails; BudgetFullyReserved and BudgetExhausted when the budget does not allow the request.
        """
        budget = get_current_budget_account().budget
        is_bound = budget.bounds != BudgetLimits()
        held = self.reserve_cost(body)
        try:
            with apply_operation_size_limit(operation):
                answer = await self.post(path, body)
        except BaseException as error:  # a time-out too: the server may have answered, and then bills it
            if isinstance(error, Retry) and error.code == "unreachable":
                budget.settle(held, 0.0, is_answer=False)
            else:
                budget.charge_reservation(held)
            raise
        cost_usd, usage = self.compute_cost(answer)
        if cost_usd is None:
            budget.charge_reservation(held, is_answer=answer.status < 300)
        else:
            budget.settle(held, cost_usd, is_answer=usage is not None)
        if usage is not None and is_bound:
            expected = self.bound_tokens(body)
            for at, counted in enumerate((usage.tokens_in, usage.tokens_out)):
                if expected[at] and counted > expected[at]:
                    self._token_overcount[at] *= _OVERCOUNT_MARGIN * counted / expected[at]
            by_tokens = compute_request_cost(replace(usage, cost_usd=0.0), self.model)
            if by_tokens and usage.cost_usd > self._price_overcount * by_tokens:
                self._price_overcount = usage.cost_usd / by_tokens
        return answer

    def compute_cost(self, answer: ServerResponse) -> tuple[float | None, TokenUsage | None]:
        """Return the cost of a response in US$, and its usage; None where either is unknown.

        A response without usage costs nothing where the request was refused or failed at once. It may have been billed
        where the server, or a gateway before it, gave up waiting, and where a gateway reports a failure in its own
        words (HTML) instead of the server's.
        """
        body = parse_json_or_none(answer.text)
        usage = read_token_usage(body)
        if usage is not None:
            return compute_request_cost(usage, self.model), usage
        if answer.status < 300:
            is_free = is_error_response(body)
        else:
            is_free = answer.status < 500 or answer.status in _OVERLOAD_STATUSES or isinstance(body, dict)
        return 0.0 if is_free and answer.status not in _TIMEOUT_STATUSES else None, None

    def reserve_cost(self, body: Mapping[str, Any], *, is_probed: bool = True, share: float = 1.0) -> int:
        """Count a request and reserve its highest cost; BudgetFullyReserved and BudgetExhausted when it may not go out.

        `is_probed`: the model's first request goes alone, to show whether the server keeps to limits. `share`: factor
        on the model's prices.
        """
        account = get_current_budget_account()
        account.budget.count_request(account.service)
        try:
            is_bound = account.budget.bounds != BudgetLimits()
            # however many tokens are cached or spent on reasoning
            highest_usd = compute_cost_range(*self.bound_tokens(body), self.model)[1] if is_bound else 0.0
            return account.budget.reserve(self.name, share * self._price_overcount * highest_usd, is_probed=is_probed)
        except (BudgetFullyReserved, BudgetExhausted):
            account.budget.uncount_request(account.service)
            raise

    def bound_tokens(self, body: Mapping[str, Any]) -> tuple[int, int]:
        """Return upper bounds for the tokens of a request and of its replies.

        A token of a request has at least one byte, and replies are limited; overcounts seen earlier scale both bounds.
        """
        parts = [body.get(name) for name in ("messages", "prompt", "tools", "response_format")]
        text = json.dumps(parts, ensure_ascii=False).encode(errors="replace")
        asked = len(text) + _MAX_TEMPLATE_TOKENS + _MAX_TOKENS_PER_MESSAGE * len(body.get("messages", ()))
        limit = next((body[name] for name in ("max_tokens", "max_completion_tokens") if name in body), None)
        if limit is None:
            limit = self.model.context_tokens or DEFAULT_MAX_TOKENS
        written = limit * body.get("n", 1)
        return math.ceil(asked * self._token_overcount[0]), math.ceil(written * self._token_overcount[1])

    def make_priced_reply(self, usage: Any) -> CallResponse:
        """Return a reply without a body, with the tokens and the price of a Usage, a response body or its `usage`.

        Where the usage is unknown, there are no tokens, and the price is the fee per request.
        """
        read = usage if isinstance(usage, TokenUsage) else read_token_usage(usage)
        if read is None:
            return CallResponse(None, cost_usd=self.model.usd_per_request)
        cost_usd = compute_request_cost(read, self.model)
        return CallResponse(None, tokens_in=read.tokens_in, tokens_out=read.tokens_out, cost_usd=cost_usd)

    async def _check_redirect(self, response: httpx2.Response) -> None:
        if response.has_redirect_location:
            asked, location = str(response.request.url), response.headers["Location"]
            check_redirect(self.name, asked, location, self.model.limits.redirects)
            count_redirect_as_request()


def add_usage(reply: CallResponse, spent: CallResponse) -> CallResponse:
    """Return a reply with the tokens and cost of another added."""
    return replace(
        reply,
        tokens_in=reply.tokens_in + spent.tokens_in,
        tokens_out=reply.tokens_out + spent.tokens_out,
        cost_usd=reply.cost_usd + spent.cost_usd,
    )
