"""How a model under test is spoken with where one question takes several turns: searches, and what these give.

A dialogue is a generator that does nothing itself: it yields what it wants next, a prompt or something to be looked up, is
sent what came of it, and returns the answer. So a whole batch of them is held side by side here, a round at a time, and
another harness can hold one with a model of its own. Each turn is a recorded call of its own: a run that was killed is
led through the turns that were answered, and goes on behind them.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from tasks.core.calls.chat import call_chat
from tasks.core.evaluation.given import Given
from tasks.core.prompts import Ask
from tasks.core.replies import TEXT, Form
from tasks.engine.batches import Work
from tasks.evaluation.answering import read_reply
from tasks.evaluation.record import read_params

L = TypeVar("L")
F = TypeVar("F")
G = TypeVar("G", bound=Given)

Dialogue = Generator[Ask | L, Given | F, G]
"""Yields prompts and what is to be looked up (L), is sent what a model said and what was found (F), returns the answer."""


def hold_dialogues(
    work: Work,
    dialogues: Mapping[str, Dialogue[L, F, G]],
    look: Callable[[Work, Sequence[tuple[str, L]]], Sequence[F]],
    form: Form = TEXT,
) -> Iterator[tuple[str, G]]:
    """Hold dialogues (row id → dialogue) with the evaluation's model; yield (row id, answer) in the order given.

    `look`: (row id, what is to be looked up) → what was found, in that order. Tokens of an answer are those of all turns.
    """
    answers: dict[str, G] = {}
    spent: dict[str, tuple[int, int]] = dict.fromkeys(dialogues, (0, 0))
    wanted: dict[str, Any] = {}

    def go_on(row_id: str, given: Given | F | None) -> None:
        wanted.pop(row_id, None)
        try:
            dialogue = dialogues[row_id]
            wanted[row_id] = next(dialogue) if given is None else dialogue.send(given)
        except StopIteration as ended:
            tokens_in, tokens_out = spent[row_id]
            answers[row_id] = replace(ended.value, tokens_in=tokens_in, tokens_out=tokens_out)

    for row_id in dialogues:
        go_on(row_id, None)
    while wanted:
        # all look-ups before the next prompts, so that these are sent together
        if looks := [(row_id, each) for row_id, each in wanted.items() if not isinstance(each, Ask)]:
            for (row_id, _), found in zip(looks, look(work, looks), strict=True):
                go_on(row_id, found)
            continue
        asks = {row_id: each for row_id, each in wanted.items() if isinstance(each, Ask)}
        for row_id, given in _ask(work, asks, form):
            tokens_in, tokens_out = spent[row_id]
            spent[row_id] = tokens_in + given.tokens_in, tokens_out + given.tokens_out
            go_on(row_id, given)
    yield from ((row_id, answers[row_id]) for row_id in dialogues)


def _ask(work: Work, asks: Mapping[str, Ask], form: Form) -> Iterator[tuple[str, Given]]:
    """Put a prompt of each dialogue to the model, once."""
    service, model = work.run.services.model(read_params(work)["model"])
    calls = {row: call_chat(service.identity, model.name, ask, model.profile(), once=True) for row, ask in asks.items()}
    records = work.call(service, calls.items())
    for row_id, call in calls.items():
        reply = records[call.key].reply()
        work.unsettled += reply.transient
        yield row_id, read_reply(reply, call.key, form)
