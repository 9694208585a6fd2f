"""What a model under test said, before it is a row."""

from dataclasses import dataclass
from typing import TypeVar

from tasks.core.calls.chat import ToolCall
from tasks.core.evaluation.rows import Answer, Asked, Unscored

B = TypeVar("B", bound=Answer)


@dataclass(frozen=True, slots=True)
class Given:
    """What a model said to one question: one text a sample."""

    texts: tuple[str, ...] = ()
    """As given; the first is the answer."""
    read: tuple[str, ...] = ()
    """Each without what was put around it; empty where it says nothing, refuses or was cut off."""
    finish: str = ""
    unscored: Unscored = ""
    """Why no sample can be read; empty where one can."""
    detail: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    """In which the model answered, as recorded."""
    call: str = ""
    drawn: tuple[str, ...] = ()
    """What was drawn on the way, where that is not `texts`."""
    calls: tuple[ToolCall, ...] = ()
    """Functions that it calls; what it says beside them is no answer."""

    def extend(self, asked: Asked, model: type[B], name: str, /, **more: object) -> B:
        """Return the row of an answer; `more` adds the model's own columns, and replaces what is made of the samples."""
        told = {
            "answer": self.texts[0] if self.texts else "",
            "answer_read": self.read[0] if self.read else "",
            "samples": list(self.drawn or (self.texts[1:] and self.texts)),
            **{
                column: getattr(self, column)
                for column in ("finish", "unscored", "detail", "tokens_in", "tokens_out", "call")
            },
            "model": name,
        }
        return asked.extend(model, **(told | more))
