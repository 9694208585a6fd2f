"""Local models as services that answer the calls of core/calls/; a model opens at its first call.

Calls of concurrent callers are answered together, since texts share a model's batches only with texts of exactly their
length (exact_batches.py): the more calls, the fuller the batches. Translation takes the calls in runs of some thousand
texts of similar length, and delivers a run's replies before the next run begins, so that an interrupted build loses
little.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from factmill.tasks.core.calls.call import Call, CallResponse, ResponseHandler
from factmill.tasks.core.calls.translation_and_perplexity import make_log_probability_response
from factmill.tasks.models.perplexity import LanguageModel
from factmill.tasks.models.translator import Translator
from factmill.tasks.text.translating.translation import PathPart, UntranslatableReason

M = TypeVar("M")


_TEXTS_PER_RUN = 2048
"""Texts or paths translated before their replies are delivered."""


class _WaitingCallsOfOneCaller:
    """One caller's calls that wait for the model."""

    def __init__(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        self.calls: dict[str, list[Call]] = {}
        """Key → calls of that key that have no reply yet."""
        for call in calls:
            self.calls.setdefault(call.key, []).append(call)
        self.problem: Exception | None = None
        """Exception from the caller's `deliver`; raised for this caller only."""
        self._deliver = deliver

    def deliver_reply(self, key: str, reply: CallResponse) -> None:
        """Deliver a reply to every call of this key."""
        for call in self.calls.pop(key, ()):
            try:
                if self.problem is None:
                    self._deliver(call, reply)
            except Exception as error:  # noqa: BLE001 - any exception is raised again where this caller waits
                self.problem = error


class LocalModelService(Generic[M]):
    """A service that answers the operations of one model."""

    is_outside = True

    def __init__(
        self, identity: str, what: str, open_model: Callable[[], M], answers: Mapping[str, "OperationHandler[M]"]
    ) -> None:
        """Store how to open the model and what answers each operation; load nothing yet."""
        self.identity = identity
        self._what = what
        self._open = open_model
        self._answers = answers
        self._model: M | None = None
        self._lock = threading.Lock()
        self._waiting: list[_WaitingCallsOfOneCaller] = []
        self._queueing = threading.Lock()

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        """Answer all calls, together with those of waiting callers; one group at a time, since a model uses all cores.

        If the model fails, each waiting caller tries again by itself, so that every caller gets its own error.
        """
        for call in calls:
            if call.operation not in self._answers:
                deliver(
                    call, CallResponse(None, "failed", f"unknown_operation: a {self._what} has no {call.operation}")
                )
        own = _WaitingCallsOfOneCaller([call for call in calls if call.operation in self._answers], deliver)
        with self._queueing:
            self._waiting.append(own)
        try:
            with self._lock:
                if own.calls and own.problem is None:
                    self._answer_waiting_calls(own)
        finally:
            with self._queueing:
                self._waiting = [each for each in self._waiting if each is not own]
        if own.problem is not None:
            raise own.problem

    def _answer_waiting_calls(self, own: _WaitingCallsOfOneCaller) -> None:
        """Answer the calls of all callers waiting now; callers still without replies go back to waiting."""
        with self._queueing:
            together, self._waiting = self._waiting, []
        calls = {key: some[0] for each in together for key, some in each.calls.items()}

        def deliver(call: Call, reply: CallResponse) -> None:
            for each in together:
                each.deliver_reply(call.key, reply)
            if own.problem is not None and all(each.problem for each in together):
                raise own.problem

        try:
            if self._model is None:
                self._model = self._open()
            for operation, answer in self._answers.items():
                answer(self._model, [call for call in calls.values() if call.operation == operation], deliver)
        finally:
            with self._queueing:
                self._waiting += [each for each in together if each.calls and each.problem is None]


OperationHandler = Callable[[M, Sequence[Call], ResponseHandler], None]
"""Delivers the replies to the calls of one operation."""


def make_translator_service(identity: str, open_model: Callable[[], Translator]) -> LocalModelService[Translator]:
    """Make a service of a translator (core/calls/translation_and_perplexity.py)."""
    answers = {"translate_text": _answer_translate_text_calls, "translate_path": _answer_translate_graph_path_calls}
    return LocalModelService(identity, "translator", open_model, answers)


def make_language_model_service(
    identity: str, open_model: Callable[[], LanguageModel]
) -> LocalModelService[LanguageModel]:
    """Make a service of a language model (core/calls/translation_and_perplexity.py)."""
    return LocalModelService(identity, "language model", open_model, {"perplexity": _answer_perplexity})


def _answer_translate_text_calls(model: Translator, calls: Sequence[Call], deliver: ResponseHandler) -> None:
    for some in _iterate_runs_longest_first(calls, lambda call: len(model.tokenize(str(call.parts["text"])))):
        asked = [(str(call.parts["text"]), str(call.parts["language"])) for call in some]
        for call, outcome in zip(some, model.translate(asked), strict=True):
            if isinstance(outcome, UntranslatableReason):
                deliver(call, CallResponse(None, "failed", f"untranslatable: {outcome.reason}: {outcome.detail}"))
            else:
                deliver(call, CallResponse(outcome))


def _answer_translate_graph_path_calls(model: Translator, calls: Sequence[Call], deliver: ResponseHandler) -> None:
    def read(call: Call) -> tuple[list[PathPart], str]:
        parts: Any = call.parts["parts"]
        labels: Any = call.parts["labels"]
        return [PathPart(*part) for part in zip(parts, labels, strict=True)], str(call.parts["language"])

    for some in _iterate_runs_longest_first(calls, lambda call: sum(len(part.text) for part in read(call)[0])):
        for call, translated in zip(some, model.translate_path_parts([read(call) for call in some]), strict=True):
            deliver(call, CallResponse([{"text": part.text, "origin": part.origin} for part in translated.parts]))


def _iterate_runs_longest_first(calls: Sequence[Call], count: Callable[[Call], int]) -> Iterator[list[Call]]:
    """Yield calls in runs of at most `_TEXTS_PER_RUN`, those with the most tokens first."""
    order = sorted(((count(call), call) for call in calls), key=lambda pair: -pair[0])
    for start in range(0, len(order), _TEXTS_PER_RUN):
        yield [call for _, call in order[start : start + _TEXTS_PER_RUN]]


def _answer_perplexity(model: LanguageModel, calls: Sequence[Call], deliver: ResponseHandler) -> None:
    for place, outcome in model.iterate_log_probabilities([str(call.parts["text"]) for call in calls]):
        deliver(calls[place], make_log_probability_response(outcome))
