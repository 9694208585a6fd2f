"""Local models as services: they answer the calls of core/calls/, each model opened when it is first asked."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from tasks.core.calls.call import Call, Deliver, Reply
from tasks.core.calls.perplexity import write_reply
from tasks.models.perplexity import LanguageModel
from tasks.models.translate import Translator
from tasks.text.translation import Outcome, PathPart, Untranslatable

M = TypeVar("M")


class LocalModel(Generic[M]):
    """Answers the operations of one model."""

    is_outside = True

    def __init__(
        self, identity: str, what: str, open_model: Callable[[], M], answers: Mapping[str, "Answer[M]"]
    ) -> None:
        """Keep how the model is opened and what answers each operation; nothing is loaded yet."""
        self.identity = identity
        self._what = what
        self._open = open_model
        self._answers = answers
        self._model: M | None = None
        self._lock = threading.Lock()

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        """Answer all calls; one caller at a time, since the model itself uses all cores."""
        with self._lock:
            if self._model is None:
                self._model = self._open()
            for operation, answer in self._answers.items():
                answer(self._model, [call for call in calls if call.operation == operation], deliver)
        for call in calls:
            if call.operation not in self._answers:
                deliver(call, Reply(None, "failed", f"unknown_operation: a {self._what} has no {call.operation}"))


Answer = Callable[[M, Sequence[Call], Deliver], None]
"""What delivers the replies to the calls of one operation."""


def serve_translator(identity: str, open_model: Callable[[], Translator]) -> LocalModel[Translator]:
    """Return a translator as a service (core/calls/translation.py)."""
    answers = {"translate_text": _translate_texts, "translate_path": _translate_paths}
    return LocalModel(identity, "translator", open_model, answers)


def serve_perplexity(identity: str, open_model: Callable[[], LanguageModel]) -> LocalModel[LanguageModel]:
    """Return a language model as a service (core/calls/perplexity.py)."""
    return LocalModel(identity, "language model", open_model, {"perplexity": _weigh_texts})


def _translate_texts(model: Translator, calls: Sequence[Call], deliver: Deliver) -> None:
    asked = [(str(call.parts["text"]), str(call.parts["language"])) for call in calls]
    for call, outcome in zip(calls, model.translate(asked), strict=True):
        deliver(call, _write_text_reply(outcome))


def _write_text_reply(outcome: Outcome) -> Reply:
    if isinstance(outcome, Untranslatable):
        return Reply(None, "failed", f"untranslatable: {outcome.reason}: {outcome.detail}")
    return Reply(outcome)


def _translate_paths(model: Translator, calls: Sequence[Call], deliver: Deliver) -> None:
    for call, told in zip(calls, model.translate_paths(list(map(_read_path, calls))), strict=True):
        deliver(call, Reply([{"text": part.text, "origin": part.origin} for part in told.parts]))


def _read_path(call: Call) -> tuple[list[PathPart], str]:
    parts: Any = call.parts["parts"]
    labels: Any = call.parts["labels"]
    return [PathPart(text, label) for text, label in zip(parts, labels, strict=True)], str(call.parts["language"])


def _weigh_texts(model: LanguageModel, calls: Sequence[Call], deliver: Deliver) -> None:
    for place, outcome in model.weigh_each([str(call.parts["text"]) for call in calls]):
        deliver(calls[place], write_reply(outcome))
