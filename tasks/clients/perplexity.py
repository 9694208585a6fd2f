"""Client that scores the probability of texts with a model behind the OpenAI protocol (core/calls/translation_and_perplexity.py).

The chat protocol gives no probabilities of the prompt; `POST /completions` can. Two forms are known, and the one that a
server answers is kept for later requests:

- `echo`: the prompt is repeated with the log-probability of each token (OpenAI's older models, vLLM, llama-cpp-python
  with `logits_all = true`). The first is null: nothing precedes it, or only the start token.
- `prompt_logprobs`: vLLM's own, for when echo is switched off.

Both ask for one more token and drop it, since some servers read 0 as "no limit". A server that supports neither gets a
failed reply `no_prompt_logprobs`. llama.cpp's own server is one; it silently ignores `echo`, so text that is not
repeated is never taken for the prompt.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from factmill.tasks.clients.completions import find_chat_failure_or_raise
from factmill.tasks.clients.openai_server import OpenAiServerClient, add_usage
from factmill.tasks.clients.sending.http_responses import parse_json_body, shorten_to_line
from factmill.tasks.clients.sending.sender import Retry, RetryingRequestSender
from factmill.tasks.core.calls.call import Call, CallResponse, ResponseHandler, make_failed_response
from factmill.tasks.core.calls.translation_and_perplexity import (
    NO_TOKENS_TO_SCORE,
    make_log_probability_response,
    sum_log_probabilities,
)
from factmill.tasks.core.service_settings import ModelSettings

LogprobForm = Literal["echo", "prompt_logprobs"]

_FORMS: Mapping[LogprobForm, Mapping[str, Any]] = {
    "echo": {"echo": True, "logprobs": 1},
    "prompt_logprobs": {"prompt_logprobs": 0},
}
_FORM_REFUSAL_STATUSES = frozenset({400, 422, 500, 501})
_LOG_OF_ZERO = -9999.0
"""vLLM's value for the logarithm of 0, which JSON cannot hold."""


class _LogprobsMissingError(Exception):
    """Raised when a response lacks the log-probabilities of a form; the text says what is missing."""


class TextPerplexityClient:
    """Client that answers perplexity calls with one model; its identity names it (core.calls.perplexity.name_scorer)."""

    is_outside = True

    def __init__(self, identity: str, model: ModelSettings, read_key: Callable[[], str], user_agent: str) -> None:
        """Set up the client; send nothing. `read_key` is called with the first request."""
        self.identity = identity
        self._server = OpenAiServerClient(model, read_key, user_agent)
        self._sender = RetryingRequestSender(model.limits, self._server.name, counts=False)
        self._form: LogprobForm = "echo"

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        """Score the text of each call, one request per text."""
        self._sender.send([[call] for call in calls], self._ask, deliver)

    async def _ask(self, group: Sequence[Call]) -> list[CallResponse]:
        call = group[0]
        if call.operation != "perplexity":
            return [make_failed_response("unknown_operation", f"a language model has no {call.operation}")]
        text = str(call.parts["text"])
        if not text:
            return [make_log_probability_response(NO_TOKENS_TO_SCORE)]
        first = self._form
        missing = []
        spent = CallResponse(None)
        for form in (first, *(form for form in _FORMS if form != first)):
            answer = await self._server.send_paid(
                "/completions",
                {
                    "model": self._server.model.name,
                    "prompt": text,
                    "max_tokens": 1,
                    "temperature": 0,
                    "stream": False,
                    **_FORMS[form],
                },
                "perplexity",
            )
            is_about_form = any(word in answer.text for word in ("logprobs", "echo", "logits_all"))
            if not (
                reason := (
                    f"HTTP {answer.status}: {shorten_to_line(answer.text)}"
                    if answer.status in _FORM_REFUSAL_STATUSES and is_about_form
                    else None
                )
            ):
                if failure := find_chat_failure_or_raise(self._server.name, answer):
                    return [failure]
                try:
                    choice, usage = _read_choice_and_usage(parse_json_body(answer.text))
                    spent = add_usage(spent, self._server.make_priced_reply(usage))
                    logs = (
                        _read_echoed_logprobs(choice, usage, text) if form == "echo" else _read_prompt_logprobs(choice)
                    )
                except _LogprobsMissingError as error:
                    reason = str(error)
                else:
                    self._form = form
                    return [add_usage(make_log_probability_response(sum_log_probabilities(logs)), spent)]
            missing.append(f"{form}: {reason}")
        advice = "use vLLM, llama-cpp-python with logits_all = true, or a local model (factmill models add perplexity)"
        detail = f"{self._server.name} tells no log-probabilities of a prompt ({'; '.join(missing)}); {advice}"
        return [add_usage(make_failed_response("no_prompt_logprobs", detail), spent)]


def _read_choice_and_usage(answer: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the only choice and the usage of a response."""
    try:
        return dict(answer["choices"][0]), dict(answer.get("usage") or {})
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise Retry(f"malformed_reply: no choices in {shorten_to_line(str(answer))}") from error


def _read_echoed_logprobs(choice: Mapping[str, Any], usage: Mapping[str, Any], text: str) -> list[float]:
    """Return the log-probabilities of the prompt's tokens, without the first where it is null."""
    if not str(choice.get("text") or "").startswith(text):
        raise _LogprobsMissingError("the prompt is not repeated")
    given = choice.get("logprobs")
    logs = given.get("token_logprobs") if isinstance(given, Mapping) else None
    if not isinstance(given, Mapping) or not isinstance(logs, list):
        raise _LogprobsMissingError("no token_logprobs in the reply")
    generated = usage.get("completion_tokens")
    if generated is None:
        generated = sum(offset >= len(text) for offset in given.get("text_offset") or [])
    return _parse_logprobs_dropping_null_first(logs[: len(logs) - int(generated)])


def _read_prompt_logprobs(choice: Mapping[str, Any]) -> list[float]:
    """Return the log-probabilities of the prompt's tokens; of several at one position the first is the prompt's."""
    given = choice.get("prompt_logprobs")
    if not isinstance(given, list):
        raise _LogprobsMissingError("no prompt_logprobs in the reply")
    try:
        return _parse_logprobs_dropping_null_first(
            [None if place is None else next(iter(place.values()))["logprob"] for place in given]
        )
    except (KeyError, StopIteration, TypeError, AttributeError) as error:
        raise Retry(f"malformed_reply: no logprob in {shorten_to_line(str(given))}") from error


def _parse_logprobs_dropping_null_first(logprobs: Sequence[Any]) -> list[float]:
    """Return log-probabilities as floats, without the first where it is null."""
    if not logprobs:
        raise _LogprobsMissingError("log-probabilities of what was generated only")
    logs = logprobs[1:] if logprobs[0] is None else logprobs
    if strange := [log for log in logs if isinstance(log, bool) or not isinstance(log, int | float)]:
        raise _LogprobsMissingError(f"a token with {strange[0]!r} for a log-probability")
    return [-float("inf") if log <= _LOG_OF_ZERO else float(log) for log in logs]
