"""Fixture with a SLAQ judge that rejects one question of every topic."""

from collections.abc import Iterator, Sequence

import pytest
from support.models.scripted_chat import Message, ScriptedChat


def judge_with_doubts(messages: Sequence[Message]) -> tuple[int, str]:
    """Judge every answer a date, and doubt the second question of every topic."""
    if "<topic>" not in messages[-1]["content"]:
        return 200, "Type: DATE"
    return 200, "\n".join(f"{n}: {'nobody could tell' if n == 2 else 'ok'}" for n in range(1, 6))


@pytest.fixture
def doubter() -> Iterator[ScriptedChat]:
    chat = ScriptedChat(judge_with_doubts)
    yield chat
    chat.close()
