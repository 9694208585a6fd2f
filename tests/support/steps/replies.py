"""Replies as a step hears them: undressed in their form, then parsed."""

from collections.abc import Callable
from typing import Any

from factmill.tasks.core.completions import (
    CompletionFormat,
    UnreadableCompletion,
    strip_and_parse_completion_samples,
)


def hearing(form: CompletionFormat, read: Callable[..., Any], *more: Any, finish: str = "stop") -> Callable[[str], Any]:
    """Return what reads one reply: undressed in the form, then by `read`, which gets the plain text and `more`."""
    return lambda reply: (
        strip_and_parse_completion_samples([reply], [finish], form, lambda texts: read(texts[0], *more)).result
    )


def get_unreadable_reason(read: Any) -> str:
    """Return why a reply is unreadable; AssertionError for one that was read."""
    assert isinstance(read, UnreadableCompletion), read
    return read.reason
