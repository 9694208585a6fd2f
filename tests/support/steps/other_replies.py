"""Replies that a test brings for prompts that the embedded world's files have none for, such as those about planted questions."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from tasks.world import replies
from tasks.world.replies import ScriptedReply


@contextmanager
def other_replies(by_prompt: Mapping[str, Callable[[Mapping[str, str]], str]]) -> Iterator[None]:
    """Answer what the files do not, in this process; `by_prompt`: prompt id → what is replied to its variables."""
    find_in_files = replies.find_reply

    def find(prompt_id: str, variables: Mapping[str, str]) -> ScriptedReply | None:
        found = find_in_files(prompt_id, variables)
        if found or prompt_id not in by_prompt:
            return found
        return ScriptedReply(by_prompt[prompt_id](variables))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replies, "find_reply", find)
        yield
