"""A chat model behind any server of the OpenAI protocol (openai_server.py); the question is core/calls/chat.py's.

Several samples are one request with `n` where the server can do that, and one request each with a seed of its own where
it cannot; every such request counts for the limiter and is tried again alone. No stream is ever asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tasks.clients.openai_server import Answer, OpenAiServer
from tasks.clients.sending.answers import fail, read_json, shorten
from tasks.clients.sending.sender import Retry, Sender
from tasks.core.calls.call import Call, Deliver, Reply
from tasks.settings import Model


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
        self._wants_older_schema = False
        self._server = OpenAiServer(model, read_key, user_agent)
        self._sender = Sender(model.limits, self._server.name)

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
        answer = await self._server.post("/chat/completions", self._request_body(group[0]))
        if _is_schema_refused(answer) and not self._wants_older_schema and group[0].call.wire["schema"]:
            self._wants_older_schema = True
            answer = await self._server.post("/chat/completions", self._request_body(group[0]))
        return [self._server.judge(answer) or self._read_reply(read_json(answer.text), group[0].samples)]

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
            finish = [_read_finish(choice) for choice in choices]
            usage: Mapping[str, Any] = answer.get("usage") or {}
        except (KeyError, TypeError, AttributeError) as error:
            raise Retry(f"malformed_reply: no choices in {shorten(str(answer))}") from error
        if len(texts) < samples:
            advice = "the server ignores n; set choices = false for this model in the world's file"
            return fail("too_few_choices", f"asked for {samples} samples, got {len(texts)}: {advice}")
        body = {"texts": texts, "finish": finish, "fingerprint": answer.get("system_fingerprint")}
        return replace(self._server.price(usage), body=body)


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
        code = "cut_off" if set(finish) == {"length"} else "empty_reply"
        error = f"{code}: {len(texts)} samples without text, finish {sorted(set(finish))}"
        return replace(spent, body=None, status="failed", error=error, transient=True)
    return replace(spent, body={"texts": texts, "finish": finish, "fingerprint": bodies[0]["fingerprint"]})


def _read_finish(choice: Mapping[str, Any]) -> str:
    """Return why a text ends; a server tells a refusal by a field of its own."""
    message = choice["message"]
    refuses = message.get("content") is None and message.get("refusal")
    return "refusal" if refuses else str(choice.get("finish_reason"))


def _read_text(message: Mapping[str, Any]) -> str:
    text = message.get("content")
    if text is None:
        text = message.get("refusal") or ""
    return text if isinstance(text, str) else "".join(str(part.get("text", "")) for part in text)


def _samples(call: Call) -> int:
    return int(call.parts["samples"])  # type: ignore[arg-type]


def _is_schema_refused(answer: Answer) -> bool:
    """True when a server does not know the json_schema form; llama-cpp-python's, for one, has an older form.

    That server tells a request it cannot read with status 500, hence the look at the text.
    """
    return answer.status in (400, 422, 500) and ("response_format" in answer.text or "json_schema" in answer.text)
