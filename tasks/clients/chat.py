"""Chat client for one model behind OpenAI's protocol (openai_server.py) or Anthropic's (anthropic_server.py).

It answers the operation of core/calls/chat.py. Several samples are one request with `n` where the server supports it,
otherwise one request per sample, each with its own seed. The limiter counts every such request, and each is retried
separately.

The client learns from refusals (refusals.py) what a server does not accept. It adapts the request and sends it again;
once that is answered, it builds all further requests the same way, and `notes` returns what to put into the world's
file. Where a refusal names no parameter, the client probes the request without one optional parameter after another
(probes.py). Batch jobs (batch_jobs/) use the same request bodies, and their results are read like single responses.
Tools have no substitute: once they are refused, every call with tools fails with `tools_refused`, and the caller has to
ask in another way.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from factmill.tasks import progress
from factmill.tasks.clients.batch_jobs.desk import Desk
from factmill.tasks.clients.batch_jobs.job_files import JobsPlace
from factmill.tasks.clients.batch_jobs.request_files import FileDesk, RequestFiles
from factmill.tasks.clients.completions import judge_answer, judge_error, read_completion
from factmill.tasks.clients.openai_server import Answer, add_spent
from factmill.tasks.clients.probes import Probes
from factmill.tasks.clients.refusals import describe_learnt, find_learnt, is_unexplained, merge_roles, read_refusal
from factmill.tasks.clients.sending.answers import shorten
from factmill.tasks.clients.sending.sender import Sender
from factmill.tasks.clients.servers import open_jobs, open_server
from factmill.tasks.core.calls.call import Call, Deliver, Reply, fail
from factmill.tasks.core.finish_reasons import classify_finish, describe_unknown, is_cut
from factmill.tasks.core.service_settings import Model
from factmill.tasks.errors import AccountBlocked, RepliesAwaited, ServiceUnreachable


@dataclass(frozen=True, slots=True)
class _Draw:
    """One request for some or all samples of a call."""

    number: int
    """Position of the call among those passed to `send`."""
    call: Call
    samples: int
    seed: int | None

    @property
    def custom_id(self) -> str:
        """Id of the request in a batch job, at most 64 characters: the call's key, and the sample's seed."""
        return self.call.key[:48] if self.seed is None else f"{self.call.key[:48]}-{self.seed}"


_PATH = "/chat/completions"
_TOOLS = "tools_refused"
_FILTERED = {"texts": [""], "finish": ["content_filter"]}
"""Stands for the single sample of a refused request, among others that were answered."""
_N_IGNORED = "n_ignored: "
"""Error of a call that is sent again, sample by sample; it is never delivered."""


class Chat:
    """Client that answers chat calls with one model."""

    is_outside = True

    def __init__(
        self,
        identity: str,
        model: Model,
        read_key: Callable[[], str],
        user_agent: str,
        jobs: JobsPlace | None = None,
        files: RequestFiles | None = None,
    ) -> None:
        """Set up the client; send nothing. `read_key` is called with the first request.

        `jobs`: where files of batch jobs lie, if the model is asked in batch jobs; None: it is asked singly. `files`:
        the files of replies and requests that the run reads and writes, if it does.
        """
        self.identity = identity
        self.model = model
        """The model's settings, with those learnt from refusals."""
        self._told = model
        self._probes = Probes()
        self._server = open_server(model, read_key, user_agent)
        self._sender = Sender(model.limits, self._server.name, counts=False, find_subject=lambda draw: draw.call.key)
        self._finishes: set[str] = set()
        """Finish reasons received so far."""
        self._desk: Desk[_Draw] | None = None
        self._is_tried, self._trying = True, threading.Lock()
        if jobs and model.mode == "batch":
            self._desk = Desk(model, open_jobs(self._server, model.jobs, model.limits.attempts), self, jobs)
            learnt = self._desk.find_learnt()
            self.model = model.model_copy(update=learnt or {})
            self._is_tried = learnt is not None or not model.jobs.first_singly
        self._files: FileDesk[_Draw] | None = None
        if files:
            self._files = FileDesk(model, self, files)
            self.model = self.model.model_copy(update=self._files.find_learnt())

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        """Answer calls, with all samples of a call in one reply. RepliesAwaited when requests were written to a file."""
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

        is_written = False
        if self._files:
            draws = self._files.send([(draw.custom_id, draw) for draw in draws], join)
            is_written = self._files.writes
        if is_written:
            pass
        elif self._desk:
            left = self._try_first(draws, join)
            self._desk.send([(draw.custom_id, draw) for draw in left], join)
        else:
            self._sender.send([[draw] for draw in draws], self._ask, join)
        if alone:
            spent = {call.key: reply for call, reply in alone}
            self.send([call for call, _ in alone], lambda call, reply: deliver(call, add_spent(reply, spent[call.key])))
        if is_written and draws:
            raise RepliesAwaited(f"{len(draws)} requests to {self.model.name} are written to a file")

    def _try_first(self, draws: Sequence[_Draw], join: Callable[[_Draw, Reply], object]) -> Sequence[_Draw]:
        """Send the very first request singly, before any job is made; return the requests that are left to jobs.

        ServiceUnreachable when nothing answers at all.
        """
        heard: list[Reply] = []
        answered: list[Reply] = []

        async def ask(group: Sequence[_Draw]) -> list[Reply]:
            answered.extend(await self._ask(group))
            return answered

        with self._trying:
            if self._is_tried or not draws:
                return draws
            try:
                self._sender.send([draws[:1]], ask, lambda _, reply: heard.append(reply))
            except ServiceUnreachable as error:
                if isinstance(error, AccountBlocked) or not self._server.has_answered:
                    raise
                progress.say(f"note: the first request of all is left to a batch job too: {error}")
            self._is_tried = True
        if not answered:
            return draws
        join(draws[0], heard[0])
        return draws[1:]

    def notes(self) -> list[str]:
        """Return messages about the settings that the model was found to need, and how they were found."""
        named = self.model.model_copy(update={name: getattr(self._told, name) for name in self._probes.found})
        probed = named.model_copy(update=self._probes.found)
        notes = []
        if learnt := describe_learnt(self._told, named):
            notes.append(f"model {self.model.name} needs {'; '.join(learnt)}: put it into the world's file")
        if found := describe_learnt(named, probed):
            notes.append(
                f"model {self.model.name} refused a request without saying what it refuses, and took it with "
                f"{'; '.join(found)}: put it into the world's file"
            )
        if self._probes.reason:
            notes.append(
                f"model {self.model.name} refused a request without saying what it refuses ({self._probes.reason}), and refused "
                f"it too without {self._probes.describe_tried()}"
            )
        return [*notes, *describe_unknown(self.model.name, self._finishes)]

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
            answer = await self._server.ask(_PATH, body)
            probed = await self._probe(model, draw, body, learnt, answer)
            heard = probed or self._hear(model, draw, learnt, answer)
            if isinstance(heard, Reply):
                if answer.status < 300:
                    self._probes.note_answered(model, body)
                return [heard]
            learnt |= heard[0]
            refused = heard[1]

    async def _probe(
        self, model: Model, draw: _Draw, sent: Mapping[str, Any], learnt: Mapping[str, Any], answer: Answer
    ) -> Reply | tuple[dict[str, Any], str] | None:
        """Find what the server refuses without naming it.

        Return the reply to a request without it, or the settings for another try with the reason; None where the
        response is no such refusal, or no probe passes. `model`: the settings that the request was built with;
        `learnt`: the settings changed after earlier refusals.
        """
        if not self._is_unexplained(model, sent, learnt, answer):
            return None
        why = shorten(answer.text)
        async with self._probes.lock:
            if change := self._find_probed(model, draw):
                return change, why
            omission = None
            for omission in self._probes.iterate_omissions(model, sent, repeats=answer.status >= 500):
                reply = await self._try_without(model, draw, {**learnt, **omission.settings})
                if reply:
                    self._probes.found.update(omission.settings)
                    return add_spent(fail(_TOOLS, why), reply) if omission.name == "tools" else reply
            if omission:
                self._probes.give_up(model, sent, why or "no text")
        return None

    async def _try_without(self, model: Model, draw: _Draw, learnt: dict[str, Any]) -> Reply | None:
        """Return the reply to a request with other settings; None where it is refused too."""
        while True:
            tried = model.model_copy(update=learnt)
            body = _write_body(tried, draw)
            answer = await self._server.ask(_PATH, body)
            if self._is_unexplained(tried, body, learnt, answer):
                return None
            heard = self._hear(tried, draw, learnt, answer)
            if isinstance(heard, Reply) and answer.status < 300:
                self._probes.note_answered(tried, body)
                return heard
            if isinstance(heard, Reply):
                return None
            learnt |= heard[0]

    def _is_unexplained(self, model: Model, sent: Mapping[str, Any], learnt: Mapping[str, Any], answer: Answer) -> bool:
        """True where the server refuses a request without saying why."""
        if not is_unexplained(answer.status, answer.text) or judge_error(self._server.name, answer):
            return False
        return not read_refusal(model, answer.status, answer.text, sent, learnt)

    def _find_probed(self, model: Model, draw: _Draw) -> dict[str, Any]:
        """Return the settings found by probes, where they would change the request that `model` builds; else {}."""
        change = {name: value for name, value in self._probes.found.items() if getattr(model, name) != value}
        is_other = change and _write_body(model.model_copy(update=change), draw) != _write_body(model, draw)
        return change if is_other else {}

    def write(self, asked: _Draw, learnt: Mapping[str, Any]) -> dict[str, Any] | Reply:
        """Build a request of a batch job (see Asker)."""
        return self._write(self._told.model_copy(update={**learnt, "stream": False}), asked, "")

    def read(self, asked: _Draw, learnt: Mapping[str, Any], answer: Answer) -> Reply | dict[str, Any]:
        """Read the response to a request of a batch job (see Asker)."""
        model = self._told.model_copy(update=learnt)
        is_refused = answer.status >= 400 and self._is_unexplained(model, _write_body(model, asked), learnt, answer)
        if is_refused and (change := self._find_probed(model, asked)):
            return change
        heard = self._hear(model, asked, learnt, answer)
        return heard if isinstance(heard, Reply) else heard[0]

    async def probe(
        self, lines: Sequence[tuple[_Draw, Answer]], learnt: Mapping[str, Any]
    ) -> tuple[_Draw, Reply] | None:
        """Find out by single requests what the server refuses in a job without naming it (see Asker)."""
        model = self._told.model_copy(update=learnt)
        refused = [(draw, answer) for draw, answer in lines if is_unexplained(answer.status, answer.text)]
        if not refused:
            return None
        for draw, answer in lines:
            if answer.status < 300:
                self._probes.note_answered(model, _write_body(model, draw))
        for draw, answer in refused:
            started = time.perf_counter()
            async with asyncio.timeout(self.model.limits.timeout_s):
                heard = await self._probe(model, draw, _write_body(model, draw), learnt, answer)
            if isinstance(heard, Reply):
                return draw, replace(heard, latency_s=time.perf_counter() - started)
            if heard or self._probes.reason:
                return None
        return None

    async def ask(self, asked: _Draw) -> Reply:
        """Send a request of a job singly (see Asker)."""
        started = time.perf_counter()
        async with asyncio.timeout(self.model.limits.timeout_s):
            [reply] = await self._ask([asked])
        return replace(reply, latency_s=time.perf_counter() - started)

    def learnt(self) -> dict[str, Any]:
        """Return the settings in which requests differ from the world's file."""
        return find_learnt(self._told, self.model)

    def _write(self, model: Model, draw: _Draw, refused: str) -> dict[str, Any] | Reply:
        """Build the body of a request, or return a failed reply where asking is useless; `refused`: the last refusal's
        text."""
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
        """Read a response: return its reply, or the settings for another try with the reason; Retry for transient
        failures.

        `model`: the settings that the request was built with; other requests may have learnt more meanwhile. `learnt`:
        the settings changed after earlier refusals, kept once the request is answered.
        """
        if known := judge_error(self._server.name, answer):
            return known
        if change := read_refusal(model, answer.status, answer.text, _write_body(model, draw), learnt):
            return change, shorten(answer.text)
        if failure := judge_answer(self._server.name, answer):
            return failure
        completion = read_completion(self._server.name, answer)
        reply = self._server.price(completion.usage)
        if completion.error:
            return replace(reply, status="failed", error=completion.error)
        too_few = completion.samples < draw.samples
        self.model = self.model.model_copy(update={**learnt, **({"choices": False} if too_few else {})})
        self._finishes.update(completion.body["finish"])
        if too_few:
            return replace(reply, status="failed", error=_N_IGNORED)
        return replace(reply, body=self._server.credentials.scrub_values(completion.body))


def _write_body(model: Model, draw: _Draw) -> dict[str, Any]:
    """Build the body of a request in the form that a model accepts."""
    parts, wire = draw.call.parts, draw.call.wire
    body: dict[str, Any] = {
        "model": parts["model"],
        "messages": wire["messages"] if model.system == "own" else merge_roles(wire["messages"]),
        "temperature": parts["temperature"] if model.temperature == "asked" else model.temperature,
        model.token_limit: parts["max_tokens"] + model.thinking_tokens,  # type: ignore[operator]
        "stream": bool(model.stream),
    }
    if model.stream is True:
        body["stream_options"] = {"include_usage": True}
    if draw.samples > 1 and model.choices:
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
    if "tools" in wire and model.tools:
        body["tools"] = wire["tools"]
    left_out = {"none"} | ({"temperature"} if model.temperature == "none" else set())
    return {name: value for name, value in (body | model.extra_body).items() if name not in left_out}


def _join_replies(replies: Sequence[Reply], once: bool) -> Reply:
    """Join the replies of several samples into one.

    It fails when any sample failed, when all are refused, or when no sample holds text, unless an empty text is an
    answer (`once`). A refused sample among others keeps its finish reason, and has no text where there is none.
    """
    spent = replace(
        replies[0],
        tokens_in=sum(reply.tokens_in for reply in replies),
        tokens_out=sum(reply.tokens_out for reply in replies),
        cost_usd=sum(reply.cost_usd for reply in replies),
        latency_s=max(reply.latency_s for reply in replies),
    )
    if failed := next((reply for reply in replies if reply.status == "failed" and not _is_refused(reply)), None):
        return replace(spent, body=None, status="failed", error=failed.error, transient=failed.transient)
    if all(map(_is_refused, replies)):
        said = next(filter(None, (reply.error or _quote(reply) for reply in replies)))
        return replace(spent, body=None, status="failed", error=said, transient=False)
    bodies: list[Any] = [reply.body or _FILTERED for reply in replies]
    texts = [text for body in bodies for text in body["texts"]]
    finish = [reason for body in bodies for reason in body["finish"]]
    calls = [of_one for body in bodies for of_one in body.get("calls", [[]] * len(body["texts"]))]
    if not once and not any(text.strip() for text in texts) and not any(calls):
        kind = "cut_off" if all(map(is_cut, finish)) else "empty_reply"
        error = f"{kind}: {len(texts)} samples without text, finish {sorted(set(finish))}"
        return replace(spent, body=None, status="failed", error=error, transient=True)
    fingerprint = next((reply.body["fingerprint"] for reply in replies if reply.body), None)  # type: ignore[index, call-overload]
    joined = {"texts": texts, "finish": finish, "fingerprint": fingerprint}
    return replace(spent, body=joined | ({"calls": calls} if any(calls) else {}))


def _is_refused(reply: Reply) -> bool:
    """True when the model or a filter refused every sample of a reply."""
    if reply.status == "failed":
        return (reply.error or "").startswith("refused:")
    body: Any = reply.body
    return all(classify_finish(reason) == "filtered" for reason in body["finish"])


def _quote(reply: Reply) -> str:
    body: Any = reply.body
    return f"refused: finish {sorted(set(body['finish']))}: {shorten(' '.join(body['texts'])) or 'no text'}"


def _samples(call: Call) -> int:
    return int(call.parts["samples"])  # type: ignore[arg-type]
