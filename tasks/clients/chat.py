"""Chat client for one model behind OpenAI's protocol (openai_server.py) or Anthropic's (anthropic_server.py).

It answers the operation of core/calls/chat.py. Several samples are one request with `n` where the server supports it,
otherwise one request per sample, each with its own seed. The limiter counts every such request, and each is retried
separately.

The client learns from refusals (unsupported_parameters.py) what a server does not accept. It adapts the request and sends it again;
once that is answered, it builds all further requests the same way, and `notes` returns what to put into the world's
file. Where a refusal names no parameter, the client probes the request without one optional parameter after another
(parameter_probes.py). Batch jobs (batch_jobs/) use the same request bodies, and their results are read like single responses.
Tools have no substitute: once they are refused, every call with tools fails with `tools_refused`, and the caller has to
ask in another way.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from factmill.tasks import progress
from factmill.tasks.clients.anthropic_server import make_server_client_of_model_kind
from factmill.tasks.clients.batch_jobs.anthropic_batches import make_anthropic_or_openai_batch_client
from factmill.tasks.clients.batch_jobs.batch_queue import BatchQueue
from factmill.tasks.clients.batch_jobs.job_files import BatchJobsFolderAndRun
from factmill.tasks.clients.batch_jobs.offline_batches import (
    OfflineReplyReaderAndRequestWriter,
    OfflineRequestAndReplyFilesOfRun,
)
from factmill.tasks.clients.batch_jobs.pending_requests import RequestForCallSamples
from factmill.tasks.clients.completions import (
    find_chat_failure_or_raise,
    find_content_or_length_refusal,
    read_completion,
)
from factmill.tasks.clients.openai_server import ServerResponse, add_usage
from factmill.tasks.clients.parameter_probes import ModelParameterProbes
from factmill.tasks.clients.sending.http_responses import shorten_to_line
from factmill.tasks.clients.sending.sender import Retry, RetryingRequestSender
from factmill.tasks.clients.unsupported_parameters import (
    find_changed_settings,
    format_changed_settings_as_toml,
    is_unexplained_refusal,
    merge_system_and_repeated_roles,
    read_settings_from_refusal,
)
from factmill.tasks.core.calls.call import Call, CallResponse, ResponseHandler, make_failed_response
from factmill.tasks.core.finish_reasons import (
    classify_finish_reason,
    format_unknown_finish_reason_warning,
    is_token_limit_reached,
)
from factmill.tasks.core.service_settings import ModelSettings
from factmill.tasks.errors import AccountBlocked, AwaitingReplyFile, ServiceUnreachable

_PATH = "/chat/completions"
_TOOLS_REFUSED_CODE = "tools_refused"
_FILTERED_SAMPLE = {"texts": [""], "finish": ["content_filter"]}
"""Stands for the single sample of a refused request, among others that were answered."""
_N_IGNORED_ERROR = "n_ignored: "
"""Error of a call that is sent again, sample by sample; it is never delivered."""


class ChatClient:
    """Client that answers chat calls with one model."""

    is_outside = True

    def __init__(
        self,
        identity: str,
        model: ModelSettings,
        read_key: Callable[[], str],
        user_agent: str,
        jobs: BatchJobsFolderAndRun | None = None,
        files: OfflineRequestAndReplyFilesOfRun | None = None,
    ) -> None:
        """Set up the client; send nothing. `read_key` is called with the first request.

        `jobs`: where files of batch jobs lie, if the model is asked in batch jobs; None: it is asked singly. `files`:
        the files of replies and requests that the run reads and writes, if it does.
        """
        self.identity = identity
        self.model = model
        """The model's settings, with those learnt from refusals."""
        self._configured_model = model
        self._probes = ModelParameterProbes()
        self._server = make_server_client_of_model_kind(model, read_key, user_agent)
        self._sender = RetryingRequestSender(
            model.limits, self._server.name, counts=False, find_subject=lambda draw: draw.call.key
        )
        self._finish_reasons: set[str] = set()
        """Finish reasons received so far."""
        self._batch_queue: BatchQueue | None = None
        self._has_sent_first, self._first_request_lock = True, threading.Lock()
        if jobs and model.mode == "batch":
            remote = make_anthropic_or_openai_batch_client(self._server, model.jobs, model.limits.attempts)
            self._batch_queue = BatchQueue(model, remote, self, jobs)
            learnt = self._batch_queue.find_learnt_settings()
            self.model = model.model_copy(update=learnt or {})
            self._has_sent_first = learnt is not None or not model.jobs.first_singly
        self._file_queue = OfflineReplyReaderAndRequestWriter(model, self, files) if files else None
        if self._file_queue:
            self.model = self.model.model_copy(update=self._file_queue.learnt)

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        """Answer calls, with all samples of a call in one reply. AwaitingReplyFile when requests were written to a file."""
        draws = [draw for number, call in enumerate(calls) for draw in self._list_sample_requests(number, call)]
        open_draws: dict[int, dict[int, tuple[str, CallResponse]]] = {}
        alone: list[tuple[Call, CallResponse]] = []

        def join(draw: RequestForCallSamples, reply: CallResponse) -> Sequence[str]:
            if reply.error == _N_IGNORED_ERROR:
                alone.append((draw.call, reply))
                return ()
            wanted = 1 if draw.seed is None else _get_sample_count(draw.call)
            arrived = open_draws.setdefault(draw.number, {})
            arrived[draw.seed or 0] = draw.custom_id, reply
            if len(arrived) < wanted:
                return ()
            del open_draws[draw.number]
            custom_ids, replies = zip(*(arrived[seed] for seed in sorted(arrived)), strict=True)
            deliver(draw.call, _join_sample_replies(replies, "once" in draw.call.parts))
            return custom_ids

        if self._file_queue:
            draws = self._file_queue.send(draws, join)
        is_written = self._file_queue is not None and self._file_queue.writes_requests
        if self._batch_queue and not is_written:
            self._batch_queue.send(self._send_first_singly(draws, join), join)
        elif not is_written:
            self._sender.send([[draw] for draw in draws], self._ask, join)
        if alone:
            spent = {call.key: reply for call, reply in alone}
            self.send([call for call, _ in alone], lambda call, reply: deliver(call, add_usage(reply, spent[call.key])))
        if is_written and draws:
            raise AwaitingReplyFile(f"{len(draws)} requests to {self.model.name} are written to a file")

    def _send_first_singly(
        self, draws: Sequence[RequestForCallSamples], join: Callable[[RequestForCallSamples, CallResponse], object]
    ) -> Sequence[RequestForCallSamples]:
        """Send the very first request singly, before any job is made; return the requests that are left to jobs.

        ServiceUnreachable when nothing answers at all.
        """
        responses: list[CallResponse] = []
        answered: list[CallResponse] = []

        async def ask(group: Sequence[RequestForCallSamples]) -> list[CallResponse]:
            answered.extend(await self._ask(group))
            return answered

        with self._first_request_lock:
            if self._has_sent_first or not draws:
                return draws
            try:
                self._sender.send([draws[:1]], ask, lambda _, reply: responses.append(reply))
            except ServiceUnreachable as error:
                if isinstance(error, AccountBlocked) or not self._server.has_answered:
                    raise
                progress.print_and_log(
                    f"note: the first request goes into a batch job too, since it failed when sent singly: {error}"
                )
            self._has_sent_first = True
        if not answered:
            return draws
        join(draws[0], responses[0])
        return draws[1:]

    def notes(self) -> list[str]:
        """Return messages about the settings that the model was found to need, and how they were found."""
        named = self.model.model_copy(
            update={name: getattr(self._configured_model, name) for name in self._probes.found_settings}
        )
        probed = named.model_copy(update=self._probes.found_settings)
        notes = []
        if learnt := format_changed_settings_as_toml(self._configured_model, named):
            notes.append(f"model {self.model.name} needs {'; '.join(learnt)}: add this to the world's file")
        if found := format_changed_settings_as_toml(named, probed):
            notes.append(
                f"model {self.model.name} refused a request without naming a reason, and accepted it with "
                f"{'; '.join(found)}: add this to the world's file"
            )
        if self._probes.unexplained_refusal:
            notes.append(
                f"model {self.model.name} refused a request without naming a reason ({self._probes.unexplained_refusal}), and refused "
                f"it again without each of {self._probes.format_tried()}"
            )
        return [*notes, *format_unknown_finish_reason_warning(self.model.name, self._finish_reasons)]

    def _list_sample_requests(self, number: int, call: Call) -> list[RequestForCallSamples]:
        samples = _get_sample_count(call)
        if samples == 1 or self.model.choices:
            return [RequestForCallSamples(number, call, samples, None)]
        return [RequestForCallSamples(number, call, 1, seed) for seed in range(samples)]

    async def _ask(self, group: Sequence[RequestForCallSamples]) -> list[CallResponse]:
        draw, learnt, refused = group[0], dict[str, Any](), ""
        while True:
            model = self.model.model_copy(update=learnt)
            body = self._build_body_or_reply(model, draw, refused)
            if isinstance(body, CallResponse):
                return [body]
            answer = await self._server.send_paid(_PATH, body)
            probed = await self._probe_unnamed_refusal(model, draw, body, learnt, answer)
            outcome = probed or self._read_response(model, draw, learnt, answer)
            if isinstance(outcome, CallResponse):
                if answer.status < 300:
                    self._probes.note_accepted(model, body)
                return [outcome]
            learnt |= outcome[0]
            refused = outcome[1]

    async def _probe_unnamed_refusal(
        self,
        model: ModelSettings,
        draw: RequestForCallSamples,
        sent: Mapping[str, Any],
        learnt: Mapping[str, Any],
        answer: ServerResponse,
    ) -> CallResponse | tuple[dict[str, Any], str] | None:
        """Find what the server refuses without naming it.

        Return the reply to a request without it, or the settings for another try with the reason; None where the
        response is no such refusal, or no probe passes. `model`: the settings that the request was built with;
        `learnt`: the settings changed after earlier refusals.
        """
        if not self._is_unexplained(model, sent, learnt, answer):
            return None
        why = shorten_to_line(answer.text)
        async with self._probes.lock:
            if change := self._find_probed_settings(model, draw):
                return change, why
            omission = None
            for omission in self._probes.iterate_omissions(model, sent, repeats=answer.status >= 500):
                reply = await self._send_with_settings(model, draw, {**learnt, **omission.settings})
                if reply:
                    self._probes.found_settings.update(omission.settings)
                    return (
                        add_usage(make_failed_response(_TOOLS_REFUSED_CODE, why), reply)
                        if omission.name == "tools"
                        else reply
                    )
            if omission:
                self._probes.give_up(model, sent, why or "no text")
        return None

    async def _send_with_settings(
        self, model: ModelSettings, draw: RequestForCallSamples, learnt: dict[str, Any]
    ) -> CallResponse | None:
        """Return the reply to a request with other settings; None where it is refused too."""
        while True:
            tried = model.model_copy(update=learnt)
            body = _build_request_body(tried, draw)
            answer = await self._server.send_paid(_PATH, body)
            if self._is_unexplained(tried, body, learnt, answer):
                return None
            outcome = self._read_response(tried, draw, learnt, answer)
            if isinstance(outcome, CallResponse) and answer.status < 300:
                self._probes.note_accepted(tried, body)
                return outcome
            if isinstance(outcome, CallResponse):
                return None
            learnt |= outcome[0]

    def _is_unexplained(
        self, model: ModelSettings, sent: Mapping[str, Any], learnt: Mapping[str, Any], answer: ServerResponse
    ) -> bool:
        """True where the server refuses a request without saying why."""
        if not is_unexplained_refusal(answer.status, answer.text) or find_content_or_length_refusal(
            self._server.name, answer
        ):
            return False
        return not read_settings_from_refusal(model, answer.status, answer.text, sent, learnt)

    def _find_probed_settings(self, model: ModelSettings, draw: RequestForCallSamples) -> dict[str, Any]:
        """Return the settings found by probes, where they would change the request that `model` builds; else {}."""
        change = {name: value for name, value in self._probes.found_settings.items() if getattr(model, name) != value}
        tried = model.model_copy(update=change)
        is_other = change and _build_request_body(tried, draw) != _build_request_body(model, draw)
        return change if is_other else {}

    def build_request_body(
        self, asked: RequestForCallSamples, learnt: Mapping[str, Any]
    ) -> dict[str, Any] | CallResponse:
        """Build a request of a batch job, or return a failed reply where asking is useless.

        `learnt`: settings that differ from the world's file.
        """
        return self._build_body_or_reply(
            self._configured_model.model_copy(update={**learnt, "stream": False}), asked, ""
        )

    def read_batch_result(
        self, asked: RequestForCallSamples, learnt: Mapping[str, Any], answer: ServerResponse | None, job_status: str
    ) -> CallResponse | dict[str, Any]:
        """Return the reply in a result of an ended job, or further settings for another try; Retry for a transient failure.

        `learnt`: settings that built the job; `answer`: None where the job has no line for the request.
        """
        if answer is None:
            code = "batch_expired: the job ended before" if job_status == "expired" else "lost_line: the job has"
            raise Retry(f"{code} no line for this request")
        if not answer.status:
            raise Retry(answer.text)
        model = self._configured_model.model_copy(update=learnt)
        is_refused = answer.status >= 400 and self._is_unexplained(
            model, _build_request_body(model, asked), learnt, answer
        )
        settings = self._find_probed_settings(model, asked) if is_refused else {}
        if not settings:
            outcome = self._read_response(model, asked, learnt, answer)
            if isinstance(outcome, CallResponse):
                return outcome
            settings = outcome[0]
        if settings.items() <= learnt.items():  # it was asked with these settings already, and still refused
            return make_failed_response(f"http_{answer.status}", shorten_to_line(answer.text), transient=True)
        return settings

    async def probe_refusals(
        self, lines: Sequence[tuple[RequestForCallSamples, ServerResponse]], learnt: Mapping[str, Any]
    ) -> tuple[RequestForCallSamples, CallResponse] | None:
        """Find out by single requests what the server refuses in a job's lines without naming it.

        Return the request that this answered, and its reply; None where it answered none. Errors as of `send_singly`.
        `learnt`: settings that built the job.
        """
        model = self._configured_model.model_copy(update=learnt)
        refused = [(draw, answer) for draw, answer in lines if is_unexplained_refusal(answer.status, answer.text)]
        if not refused:
            return None
        for draw, answer in lines:
            if answer.status < 300:
                self._probes.note_accepted(model, _build_request_body(model, draw))
        for draw, answer in refused:
            started = time.perf_counter()
            async with asyncio.timeout(self.model.limits.timeout_s):
                outcome = await self._probe_unnamed_refusal(
                    model, draw, _build_request_body(model, draw), learnt, answer
                )
            if isinstance(outcome, CallResponse):
                return draw, replace(outcome, latency_s=time.perf_counter() - started)
            if outcome or self._probes.unexplained_refusal:
                return None
        return None

    async def send_singly(self, asked: RequestForCallSamples) -> CallResponse:
        """Send a request of a job singly, once.

        Retry for a transient failure, BudgetFullyReserved and BudgetExhausted when it may not go out.
        """
        started = time.perf_counter()
        async with asyncio.timeout(self.model.limits.timeout_s):
            [reply] = await self._ask([asked])
        return replace(reply, latency_s=time.perf_counter() - started)

    def learnt_settings(self) -> dict[str, Any]:
        """Return the settings in which requests differ from the world's file."""
        return find_changed_settings(self._configured_model, self.model)

    def _build_body_or_reply(
        self, model: ModelSettings, draw: RequestForCallSamples, refused: str
    ) -> dict[str, Any] | CallResponse:
        """Build the body of a request, or return a failed reply where asking is useless; `refused`: the last refusal's
        text."""
        if draw.samples > 1 and not model.choices:
            self.model = model
            return make_failed_response("n_ignored", "")
        if not model.tools and "tools" in draw.call.unrecorded_parts:
            self.model = self.model.model_copy(update={"tools": False})
            return make_failed_response(
                _TOOLS_REFUSED_CODE, refused or "the world's file says that this model takes no tools"
            )
        return _build_request_body(model, draw)

    def _read_response(
        self, model: ModelSettings, draw: RequestForCallSamples, learnt: Mapping[str, Any], answer: ServerResponse
    ) -> CallResponse | tuple[dict[str, Any], str]:
        """Read a response: return its reply, or the settings for another try with the reason; Retry for transient
        failures.

        `model`: the settings that the request was built with; other requests may have learnt more meanwhile. `learnt`:
        the settings changed after earlier refusals, kept once the request is answered.
        """
        if known := find_content_or_length_refusal(self._server.name, answer):
            return known
        if change := read_settings_from_refusal(
            model, answer.status, answer.text, _build_request_body(model, draw), learnt
        ):
            return change, shorten_to_line(answer.text)
        if failure := find_chat_failure_or_raise(self._server.name, answer):
            return failure
        completion = read_completion(self._server.name, answer)
        reply = self._server.make_priced_reply(completion.usage)
        if completion.error:
            return replace(reply, status="failed", error=completion.error)
        too_few = len(completion.body["texts"]) < draw.samples
        self.model = self.model.model_copy(update={**learnt, **({"choices": False} if too_few else {})})
        self._finish_reasons.update(completion.body["finish"])
        if too_few:
            return replace(reply, status="failed", error=_N_IGNORED_ERROR)
        return replace(reply, body=self._server.credentials.redact_json(completion.body))


def _build_request_body(model: ModelSettings, sample_request: RequestForCallSamples) -> dict[str, Any]:
    """Build the body of a request in the form that a model accepts."""
    parts, wire = sample_request.call.parts, sample_request.call.unrecorded_parts
    body: dict[str, Any] = {
        "model": parts["model"],
        "messages": wire["messages"] if model.system == "own" else merge_system_and_repeated_roles(wire["messages"]),
        "temperature": parts["temperature"] if model.temperature == "asked" else model.temperature,
        model.token_limit: parts["max_tokens"] + model.thinking_tokens,
        "stream": bool(model.stream),
    }
    if model.stream is True:
        body["stream_options"] = {"include_usage": True}
    if sample_request.samples > 1 and model.choices:
        body["n"] = sample_request.samples
    if sample_request.seed is not None and model.seed:
        body["seed"] = sample_request.seed
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


def _join_sample_replies(replies: Sequence[CallResponse], allows_empty_text: bool) -> CallResponse:
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
    if failed := next(
        (reply for reply in replies if reply.status == "failed" and not _is_reply_refused_by_model_or_filter(reply)),
        None,
    ):
        return replace(spent, body=None, status="failed", error=failed.error, transient=failed.transient)
    if all(map(_is_reply_refused_by_model_or_filter, replies)):
        refusal = next(filter(None, (reply.error or _format_refusal_error(reply) for reply in replies)))
        return replace(spent, body=None, status="failed", error=refusal, transient=False)
    bodies: list[Any] = [reply.body or _FILTERED_SAMPLE for reply in replies]
    texts = [text for body in bodies for text in body["texts"]]
    finish = [reason for body in bodies for reason in body["finish"]]
    calls = [of_one for body in bodies for of_one in body.get("calls", [[]] * len(body["texts"]))]
    if not allows_empty_text and not any(text.strip() for text in texts) and not any(calls):
        kind = "cut_off" if all(map(is_token_limit_reached, finish)) else "empty_reply"
        error = f"{kind}: {len(texts)} samples without text, finish {sorted(set(finish))}"
        return replace(spent, body=None, status="failed", error=error, transient=True)
    fingerprint = next((reply.body["fingerprint"] for reply in replies if reply.body), None)  # type: ignore[index, call-overload]
    joined = {"texts": texts, "finish": finish, "fingerprint": fingerprint}
    return replace(spent, body=joined | ({"calls": calls} if any(calls) else {}))


def _is_reply_refused_by_model_or_filter(reply: CallResponse) -> bool:
    """True when the model or a filter refused every sample of a reply."""
    if reply.status == "failed":
        return (reply.error or "").startswith("refused:")
    body: Any = reply.body
    return all(classify_finish_reason(reason) == "filtered" for reason in body["finish"])


def _format_refusal_error(reply: CallResponse) -> str:
    body: Any = reply.body
    return f"refused: finish {sorted(set(body['finish']))}: {shorten_to_line(' '.join(body['texts'])) or 'no text'}"


def _get_sample_count(call: Call) -> int:
    return int(call.parts["samples"])
