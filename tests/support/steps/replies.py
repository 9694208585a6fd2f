"""Read replies as a step does: strip their wrapper in the form, then parse."""

from collections.abc import Callable
from typing import Any

from factmill.tasks.core.completions import (
    CompletionFormat,
    UnreadableCompletion,
    strip_samples_and_parse_together,
)


def make_reader(
    form: CompletionFormat, read: Callable[..., Any], *more: Any, finish: str = "stop"
) -> Callable[[str], Any]:
    """Return a function that strips a reply in the form, then calls `read` with the plain text and `more`."""
    return lambda reply: (
        strip_samples_and_parse_together([reply], [finish], form, lambda texts: read(texts[0], *more)).result
    )


def get_unreadable_reason(read: Any) -> str:
    """Return why a reply is unreadable; raise AssertionError for a readable one."""
    assert isinstance(read, UnreadableCompletion), read
    return read.reason
