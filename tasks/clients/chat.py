"""A chat model behind any server of the OpenAI protocol, over the openai client; the question is core/chat_calls.py's.

The openai client builds, signs and sends the requests; its retries are off, since trying again is the Sender's matter.
Replies are taken as plain JSON through the client's generic `post`: building its typed objects costs more processor
time than all the rest of a request, which is felt from some hundred requests a second on.

Several samples are one request with `n` where the server can do that, and one request each with a seed of its own where
it cannot; every such request counts for the limiter and is tried again alone. No stream is ever asked for.
"""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import openai

from tasks.clients.answers import fail, judge_status, read_json, shorten
from tasks.clients.sending import Retry, Sender
from tasks.core.calls import Call, Deliver, Reply
from tasks.errors import ServiceUnreachable
from tasks.settings import Model

_POOL_SIZE = 8
_TOO_LONG = re.compile(
    r"context.?(length|window|size)|(prompt|input|message)s? (is|are) too long|too many tokens|string_above_max_length",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Draw:
    """One request for some or all samples of a call."""

    number: int
    """Which call, by its place in what was sent."""
    call: Call
    samples: int
    seed: int | None


class Chat:
    """Answers chat with one model."""

    is_outside = True

    def __init__(self, identity: str, model: Model, read_key: Callable[[], str], user_agent: str) -> None:
        """Keep what is needed; nothing is sent, and `read_key` is called when the first request is."""
        self.identity = identity
        self._model = model
        self._read_key = read_key
        self._name = f"model {model.name} at {model.url}"
        self._key = ""
        self._wants_older_schema = False
        self._sender = Sender(model.limits, self._name)
        self._client = openai.AsyncOpenAI(
            api_key=self._give_key,
            base_url=model.url,
            max_retries=0,
            timeout=model.limits.timeout_s,
            default_headers={"User-Agent": user_agent},
            http_client=openai.DefaultAsyncHttpxClient(transport=_SpreadTransport(model.limits.parallel)),
        )

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        """Answer calls; the samples of a call arrive as one reply."""
        draws = [draw for number, call in enumerate(calls) for draw in self._list_draws(number, call)]
        open_draws: dict[int, dict[int, Reply]] = {}

        def join(draw: _Draw, reply: Reply) -> None:
            wanted = 1 if draw.seed is None else _samples(draw.call)
            arrived = open_draws.setdefault(draw.number, {})
            arrived[draw.seed or 0] = reply
            if len(arrived) == wanted:
                del open_draws[draw.number]
                deliver(draw.call, _join_replies([arrived[seed] for seed in sorted(arrived)]))

        self._sender.send([[draw] for draw in draws], self._ask, join)

    def _list_draws(self, number: int, call: Call) -> list[_Draw]:
        samples = _samples(call)
        if samples == 1 or self._model.choices:
            return [_Draw(number, call, samples, None)]
        return [_Draw(number, call, 1, seed) for seed in range(samples)]

    async def _ask(self, group: Sequence[_Draw]) -> list[Reply]:
        status, text, retry_after = await self._post(group[0])
        if _is_schema_refused(status, text) and not self._wants_older_schema and group[0].call.wire["schema"]:
            self._wants_older_schema = True
            status, text, retry_after = await self._post(group[0])
        if status in (400, 413, 422) and _TOO_LONG.search(text):
            return [fail("prompt_too_long", shorten(text))]
        if status == 404 or (status == 429 and "insufficient_quota" in text):
            raise ServiceUnreachable(f"{self._name}: HTTP {status}: {shorten(text)}. Check url, name and account")
        failure = judge_status(self._name, status, text, retry_after)
        return [failure or self._read_reply(read_json(text), group[0].samples)]

    async def _post(self, draw: _Draw) -> tuple[int, str, str | None]:
        """Return status, body without the key, and Retry-After of one request; Retry when the connection fails."""
        try:
            response = await self._client.post(
                "/chat/completions", body=self._request_body(draw), cast_to=httpx2.Response
            )
        except openai.APIStatusError as error:
            response = error.response
        except openai.APITimeoutError:
            raise Retry("timeout: the server did not answer in time") from None
        except openai.APIConnectionError as error:
            code = "unreachable" if isinstance(error.__cause__, httpx2.ConnectError) else "connection_cut"
            raise Retry(f"{code}: {self._scrub(repr(error.__cause__ or error))}") from None
        return response.status_code, self._scrub(response.text), response.headers.get("Retry-After")

    async def _give_key(self) -> str:
        if not self._key:
            self._key = self._read_key()
            if not (self._key.isascii() and self._key.isprintable()):
                raise ServiceUnreachable(f"{self._name}: the API key holds characters that no header can carry")
        return self._key

    def _request_body(self, draw: _Draw) -> dict[str, Any]:
        parts = draw.call.parts
        body: dict[str, Any] = {
            "model": parts["model"],
            "messages": draw.call.wire["messages"],
            "temperature": parts["temperature"],
            "max_tokens": parts["max_tokens"],
            "stream": False,
        }
        if draw.samples > 1:
            body["n"] = draw.samples
        if draw.seed is not None:
            body["seed"] = draw.seed
        schema = draw.call.wire["schema"]
        if schema and self._model.json_schema:
            body["response_format"] = (
                {"type": "json_object", "schema": schema}
                if self._wants_older_schema
                else {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema, "strict": True}}
            )
        return body

    def _read_reply(self, answer: Any, samples: int) -> Reply:
        try:
            choices = sorted(answer["choices"], key=lambda choice: choice.get("index") or 0)
            texts = [_read_text(choice["message"]) for choice in choices]
            finish = [str(choice.get("finish_reason")) for choice in choices]
            usage: Mapping[str, Any] = answer.get("usage") or {}
        except (KeyError, TypeError, AttributeError) as error:
            raise Retry(f"malformed_reply: no choices in {shorten(str(answer))}") from error
        if len(texts) < samples:
            advice = "the server ignores n; set choices = false for this model in the world's file"
            return fail("too_few_choices", f"asked for {samples} samples, got {len(texts)}: {advice}")
        tokens_in, tokens_out = int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)
        cost_usd = tokens_in * self._model.usd_per_million_in + tokens_out * self._model.usd_per_million_out
        return Reply(
            {"texts": texts, "finish": finish, "fingerprint": answer.get("system_fingerprint")},
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            cost_usd=cost_usd / 1e6,
        )

    def _scrub(self, text: str) -> str:
        return text.replace(self._key, "***") if len(self._key) > 4 else text


class _SpreadTransport(httpx2.AsyncBaseTransport):
    """Spreads requests over pools of a few connections each.

    A pool looks at every one of its connections when a request comes and when it goes, which with 64 of them is a
    fifth of what a request costs.
    """

    def __init__(self, parallel: int) -> None:
        context = httpx2.create_ssl_context()
        self._pools = [httpx2.AsyncHTTPTransport(verify=context) for _ in range(-(-parallel // _POOL_SIZE))]
        self._next = itertools.cycle(self._pools)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return await next(self._next).handle_async_request(request)

    async def aclose(self) -> None:
        for pool in self._pools:
            await pool.aclose()


def _join_replies(replies: Sequence[Reply]) -> Reply:
    """Return one reply of several; failed when any has failed, or when no sample says anything."""
    spent = replace(
        replies[0],
        tokens_in=sum(reply.tokens_in for reply in replies),
        tokens_out=sum(reply.tokens_out for reply in replies),
        cost_usd=sum(reply.cost_usd for reply in replies),
        latency_s=max(reply.latency_s for reply in replies),
    )
    if failed := next((reply for reply in replies if reply.status == "failed"), None):
        return replace(spent, body=None, status="failed", error=failed.error, transient=failed.transient)
    bodies: list[Any] = [reply.body for reply in replies]
    texts = [text for body in bodies for text in body["texts"]]
    finish = [reason for body in bodies for reason in body["finish"]]
    if not any(text.strip() for text in texts):
        error = f"empty_reply: {len(texts)} samples without text, finish {sorted(set(finish))}"
        return replace(spent, body=None, status="failed", error=error, transient=True)
    return replace(spent, body={"texts": texts, "finish": finish, "fingerprint": bodies[0]["fingerprint"]})


def _read_text(message: Mapping[str, Any]) -> str:
    text = message.get("content")
    if text is None:
        text = message.get("refusal") or ""
    return text if isinstance(text, str) else "".join(str(part.get("text", "")) for part in text)


def _samples(call: Call) -> int:
    return int(call.parts["samples"])  # type: ignore[arg-type]


def _is_schema_refused(status: int, text: str) -> bool:
    """True when a server does not know the json_schema form; llama-cpp-python's, for one, has an older form.

    That server tells a request it cannot read with status 500, hence the look at the text.
    """
    return status in (400, 422, 500) and ("response_format" in text or "json_schema" in text)
