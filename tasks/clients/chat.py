"""A chat model behind any server of the OpenAI protocol (openai_server.py) or Anthropic's (anthropic_server.py); the question is core/calls/chat.py's.

Several samples are one request with `n` where the server can do that, and one request each with a seed of its own where
it cannot; every such request counts for the limiter and is tried again alone. No stream is ever asked for.

What a server will not take is learnt from its refusal (refusals.py): the request is adapted and sent again, and when that
was answered all further ones are made so; `notes` tells what to put into the world's file. By batch jobs (batch_jobs/) the
same requests are written, and what comes is read as a single answer is. Tools have nothing that they
could be sent as instead: once they were refused, whatever has some fails with `tools_refused`, and who asked has to ask
in another way.
"""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tasks import progress
from tasks.clients.batch_jobs.desk import Desk
from tasks.clients.batch_jobs.job_files import JobsPlace
from tasks.clients.openai_server import Answer, add_spent, is_too_long
from tasks.clients.refusals import describe_learnt, find_learnt, merge_roles, read_refusal
from tasks.clients.sending.answers import fail, read_json, shorten
from tasks.clients.sending.sender import Retry, Sender
from tasks.clients.servers import open_jobs, open_server
from tasks.core.calls.call import Call, Deliver, Reply
from tasks.core.replies import CUT, FILTERED
from tasks.errors import ServiceUnreachable
from tasks.settings import Model


@dataclass(frozen=True, slots=True)
class _Draw:
    """One request for some or all samples of a call."""

    number: int
    """Which call, by its place in what was sent."""
    call: Call
    samples: int
    seed: int | None

    @property
    def custom_id(self) -> str:
        """What it is told apart by in a batch job, in 64 characters: the call, and which sample of it."""
        return self.call.key[:48] if self.seed is None else f"{self.call.key[:48]}-{self.seed}"


_TOOLS = "tools_refused"
_N_IGNORED = "n_ignored: "
"""Error of a call that goes out again, sample by sample; it is never delivered."""


class Chat:
    """Answers chat with one model."""

    is_outside = True

    def __init__(
        self,
        identity: str,
        model: Model,
        read_key: Callable[[], str],
        user_agent: str,
        jobs: JobsPlace | None = None,
    ) -> None:
        """Keep what is needed; nothing is sent, and `read_key` is called when the first request is.

        `jobs`: where it is kept what is known of batch jobs, if the model is asked by such; None: it is asked singly.
        """
        self.identity = identity
        self.model = model
        """Its settings, with what was learnt of it."""
        self._told = model
        self._server = open_server(model, read_key, user_agent)
        self._sender = Sender(model.limits, self._server.name, counts=False)
        self._desk: Desk[_Draw] | None = None
        self._is_tried, self._trying = True, threading.Lock()
        if jobs and model.mode == "batch":
            self._desk = Desk(model, open_jobs(self._server, model.jobs, model.limits.attempts), self, jobs)
            learnt = self._desk.find_learnt()
            self.model = model.model_copy(update=learnt or {})
            self._is_tried = learnt is not None or not model.jobs.first_singly

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        """Answer calls; the samples of a call arrive as one reply."""
        draws = [draw for number, call in enumerate(calls) for draw in self._list_draws(number, call)]
        open_draws: dict[int, dict[int, tuple[str, Reply]]] = {}
        alone: list[tuple[Call, Reply]] = []

        def join(draw: _Draw, reply: Reply) -> Sequence[str]:
            if reply.error == _N_IGNORED:
                alone.append((draw.call, reply))
                return ()
            wanted = 1 if draw.seed is None else _samples(draw.call)
            arrived = open_draws.setdefault(draw.number, {})
            arrived[draw.seed or 0] = draw.custom_id, reply
            if len(arrived) < wanted:
                return ()
            del open_draws[draw.number]
            custom_ids, replies = zip(*(arrived[seed] for seed in sorted(arrived)), strict=True)
            deliver(draw.call, _join_replies(replies, "once" in draw.call.parts))
            return custom_ids

        if self._desk:
            left = self._try_first(draws, join)
            self._desk.send([(draw.custom_id, draw) for draw in left], join)
        else:
            self._sender.send([[draw] for draw in draws], self._ask, join)
        if alone:
            spent = {call.key: reply for call, reply in alone}
            self.send([call for call, _ in alone], lambda call, reply: deliver(call, add_spent(reply, spent[call.key])))

    def _try_first(self, draws: Sequence[_Draw], join: Callable[[_Draw, Reply], object]) -> Sequence[_Draw]:
        """Ask the first request of all singly, before any job is made; return those that are left to jobs. ServiceUnreachable
        when nothing at all is there."""
        heard: list[Reply] = []
        with self._trying:
            if self._is_tried or not draws:
                return draws
            try:
                self._sender.send([draws[:1]], self._ask, lambda _, reply: heard.append(reply))
            except ServiceUnreachable as error:
                if not self._server.has_answered:
                    raise
                progress.say(f"note: the first request of all is left to a batch job too: {error}")
            self._is_tried = True
        if not heard or heard[0].transient:
            return draws
        join(draws[0], heard[0])
        return draws[1:]

    def notes(self) -> list[str]:
        """Return what was learnt of the model, as a line to read."""
        learnt = describe_learnt(self._told, self.model)
        return [f"model {self.model.name} was learnt to need {'; '.join(learnt)}: put it into the world's file"][
            : len(learnt)
        ]

    def _list_draws(self, number: int, call: Call) -> list[_Draw]:
        samples = _samples(call)
        if samples == 1 or self.model.choices:
            return [_Draw(number, call, samples, None)]
        return [_Draw(number, call, 1, seed) for seed in range(samples)]

    async def _ask(self, group: Sequence[_Draw]) -> list[Reply]:
        draw, learnt, refused = group[0], dict[str, Any](), ""
        while True:
            model = self.model.model_copy(update=learnt)
            body = self._write(model, draw, refused)
            if isinstance(body, Reply):
                return [body]
            heard = self._hear(model, draw, learnt, await self._server.ask("/chat/completions", body))
            if isinstance(heard, Reply):
                return [heard]
            learnt |= heard[0]
            refused = heard[1]

    def write(self, asked: _Draw, learnt: Mapping[str, Any]) -> dict[str, Any] | Reply:
        """Return a request of a batch job (see Asker)."""
        return self._write(self._told.model_copy(update=learnt), asked, "")

    def read(self, asked: _Draw, learnt: Mapping[str, Any], answer: Answer) -> Reply | dict[str, Any]:
        """Return what an answer to a request of a batch job says (see Asker)."""
        heard = self._hear(self._told.model_copy(update=learnt), asked, learnt, answer)
        return heard if isinstance(heard, Reply) else heard[0]

    async def ask(self, asked: _Draw) -> Reply:
        """Send a request of a job singly (see Asker)."""
        started = time.perf_counter()
        async with asyncio.timeout(self.model.limits.timeout_s):
            [reply] = await self._ask([asked])
        return replace(reply, latency_s=time.perf_counter() - started)

    def learnt(self) -> dict[str, Any]:
        """Return the settings by which requests are not made as the world's file says."""
        return find_learnt(self._told, self.model)

    def _write(self, model: Model, draw: _Draw, refused: str) -> dict[str, Any] | Reply:
        """Return the body of a request, or the reply where there is no use in asking; `refused`: what was said of it before."""
        if draw.samples > 1 and not model.choices:
            self.model = model
            return fail("n_ignored", "")
        if not model.tools and "tools" in draw.call.wire:
            self.model = self.model.model_copy(update={"tools": False})
            return fail(_TOOLS, refused or "the world's file says that this model takes no tools")
        return _write_body(model, draw)

    def _hear(
        self, model: Model, draw: _Draw, learnt: Mapping[str, Any], answer: Answer
    ) -> Reply | tuple[dict[str, Any], str]:
        """Return the reply that an answer holds, or by what settings to ask again, and why; Retry for what may pass.

        `model`: by which the request was written, others may have learnt meanwhile; `learnt`: what is, where it is answered.
        """
        sent = _write_body(model, draw)
        if not is_too_long(answer) and (change := read_refusal(model, answer.status, answer.text, sent)):
            return change, shorten(answer.text)
        if failure := self._server.judge(answer):
            return failure
        reply = self._read_reply(read_json(answer.text))
        given = len(reply.body["texts"])  # type: ignore[index, call-overload]
        if not given:
            raise Retry(f"malformed_reply: no choices in {shorten(answer.text)}")
        too_few = given < draw.samples
        self.model = self.model.model_copy(update={**learnt, **({"choices": False} if too_few else {})})
        return replace(reply, body=None, status="failed", error=_N_IGNORED) if too_few else reply

    def _read_reply(self, answer: Any) -> Reply:
        try:
            choices = sorted(answer["choices"], key=lambda choice: choice.get("index") or 0)
            texts = [_read_text(choice["message"]) for choice in choices]
            calls = [_read_calls(choice["message"]) for choice in choices]
            finish = [str(choice.get("finish_reason")) for choice in choices]
            usage = answer.get("usage")
        except (KeyError, TypeError, AttributeError) as error:
            raise Retry(f"malformed_reply: no choices in {shorten(str(answer))}") from error
        body: dict[str, Any] = {"texts": texts, "finish": finish, "fingerprint": answer.get("system_fingerprint")}
        return replace(self._server.price(usage), body=body | ({"calls": calls} if any(calls) else {}))


def _write_body(model: Model, draw: _Draw) -> dict[str, Any]:
    """Return a request as a model takes it."""
    parts, wire = draw.call.parts, draw.call.wire
    body: dict[str, Any] = {
        "model": parts["model"],
        "messages": wire["messages"] if model.system == "own" else merge_roles(wire["messages"]),
        "temperature": parts["temperature"] if model.temperature == "asked" else model.temperature,
        model.token_limit: parts["max_tokens"] + model.thinking_tokens,  # type: ignore[operator]
        "stream": False,
    }
    if draw.samples > 1:
        body["n"] = draw.samples
    if draw.seed is not None and model.seed:
        body["seed"] = draw.seed
    if model.reasoning_effort:
        body["reasoning_effort"] = model.reasoning_effort
    if wire["schema"] and model.json_schema:
        body["response_format"] = (
            {"type": "json_object", "schema": wire["schema"]}
            if model.json_schema == "json_object"
            else {"type": "json_schema", "json_schema": {"name": "reply", "schema": wire["schema"], "strict": True}}
        )
    if "tools" in wire:
        body["tools"] = wire["tools"]
    left_out = {"none"} | ({"temperature"} if model.temperature == "none" else set())
    return {name: value for name, value in (body | model.extra_body).items() if name not in left_out}


def _join_replies(replies: Sequence[Reply], once: bool) -> Reply:
    """Return one reply of several; failed when any has failed, or when no sample says anything, unless that is an answer."""
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
    calls = [of_one for body in bodies for of_one in body.get("calls", [[]] * len(body["texts"]))]
    if not once and not any(text.strip() for text in texts) and not any(calls):
        ends = set(finish)
        kind = "refused" if ends <= FILTERED else "cut_off" if ends <= CUT else "empty_reply"
        error = f"{kind}: {len(texts)} samples without text, finish {sorted(ends)}"
        return replace(spent, body=None, status="failed", error=error, transient=kind != "refused")
    joined = {"texts": texts, "finish": finish, "fingerprint": bodies[0]["fingerprint"]}
    return replace(spent, body=joined | ({"calls": calls} if any(calls) else {}))


def _read_text(message: Mapping[str, Any]) -> str:
    text = message.get("content")
    if text is None:
        text = message.get("refusal") or ""
    return text if isinstance(text, str) else "".join(str(part.get("text", "")) for part in text)


def _read_calls(message: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the functions that a message calls, in the form of today or the one before it (`function_call`)."""
    asked = message.get("tool_calls") or []
    if not asked and message.get("function_call"):
        asked = [{"function": message["function_call"]}]
    calls = []
    for at, each in enumerate(asked, 1):
        named = each.get("function") or {}
        given = named.get("arguments") or ""
        # nine characters, since some servers take no other number of them
        told = {"id": str(each.get("id") or f"call{at:05}"), "name": str(named.get("name") or "")}
        calls.append({**told, "arguments": given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)})
    return calls


def _samples(call: Call) -> int:
    return int(call.parts["samples"])  # type: ignore[arg-type]
