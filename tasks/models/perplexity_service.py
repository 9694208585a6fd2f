"""A language model as a service: answers the calls of core/calls/perplexity.py from a local model, opened when first asked."""

import threading
from collections.abc import Callable, Sequence

from tasks.core.calls.call import Call, Deliver, Reply
from tasks.core.calls.perplexity import write_reply
from tasks.models.perplexity import LanguageModel


class PerplexityService:
    """Answers perplexity."""

    is_outside = True

    def __init__(self, identity: str, open_model: Callable[[], LanguageModel]) -> None:
        """Keep how the model is opened; nothing is loaded yet."""
        self.identity = identity
        self._open = open_model
        self._model: LanguageModel | None = None
        self._lock = threading.Lock()

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        """Weigh the texts of all calls; one caller at a time, since the model itself uses all cores."""
        asked = [call for call in calls if call.operation == "perplexity"]
        with self._lock:
            if self._model is None:
                self._model = self._open()
            for place, outcome in self._model.weigh_each([str(call.parts["text"]) for call in asked]):
                deliver(asked[place], write_reply(outcome))
        for call in calls:
            if call.operation != "perplexity":
                deliver(call, Reply(None, "failed", f"unknown_operation: a language model has no {call.operation}"))
