"""The translator as a service: answers the calls of core/calls/translation.py from a local model, opened when first asked."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from tasks.core.calls.call import Call, Deliver, Reply
from tasks.models.translate import Translator
from tasks.text.translation import Outcome, PathPart, TranslatedPath, Untranslatable


class TranslationService:
    """Answers translate_text and translate_path."""

    is_outside = True

    def __init__(self, identity: str, open_model: Callable[[], Translator]) -> None:
        """Keep how the model is opened; nothing is loaded yet."""
        self.identity = identity
        self._open = open_model
        self._model: Translator | None = None
        self._lock = threading.Lock()

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        """Translate all calls; one caller at a time, since the model itself uses all cores."""
        with self._lock:
            if self._model is None:
                self._model = self._open()
            texts = [call for call in calls if call.operation == "translate_text"]
            paths = [call for call in calls if call.operation == "translate_path"]
            for call, outcome in zip(texts, self._model.translate(list(map(_read_text, texts))), strict=True):
                deliver(call, _write_text_reply(outcome))
            for call, told in zip(paths, self._model.translate_paths(list(map(_read_path, paths))), strict=True):
                deliver(call, _write_path_reply(told))
        for call in calls:
            if call.operation not in ("translate_text", "translate_path"):
                deliver(call, Reply(None, "failed", f"unknown_operation: a translator has no {call.operation}"))


def _read_text(call: Call) -> tuple[str, str]:
    return str(call.parts["text"]), str(call.parts["language"])


def _read_path(call: Call) -> tuple[list[PathPart], str]:
    parts: Any = call.parts["parts"]
    labels: Any = call.parts["labels"]
    return [PathPart(text, label) for text, label in zip(parts, labels, strict=True)], str(call.parts["language"])


def _write_text_reply(outcome: Outcome) -> Reply:
    if isinstance(outcome, Untranslatable):
        return Reply(None, "failed", f"untranslatable: {outcome.reason}: {outcome.detail}")
    return Reply(outcome)


def _write_path_reply(told: TranslatedPath) -> Reply:
    return Reply([{"text": part.text, "origin": part.origin} for part in told.parts])
