"""How a model under test is spoken with where one question takes several turns: drafts put together, searches and what they give.

A dialogue is a generator that does nothing itself: it yields what it wants next, a prompt or something to be looked up, is
sent what came of it, and returns the answer. So a whole batch of them is held side by side here, a round at a time, and
another harness can hold one with a model of its own. Each turn is a recorded call of its own: a run that was killed is
led through the turns that were answered, and goes on behind them.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from tasks.core.evaluation.given import Given
from tasks.core.evaluation.rows import Asked
from tasks.core.prompts import Ask
from tasks.engine.batches import Work
from tasks.evaluation.answering import ask_model
from tasks.evaluation.record import Evaluation

A = TypeVar("A", bound=Asked)


def hold_dialogues(work: Work, evaluation: Evaluation, asked: Sequence[A]) -> Iterator[tuple[A, Given]]:
    """Put every question to the evaluation's model, all side by side, a turn at a time; yield (question, answer) in order."""
    params = work.inputs(evaluation.inputs).params
    rows = {row.id: row for row in asked}
    held = {row.id: evaluation.start(row, params) for row in asked}
    wanted: dict[str, Any] = {row_id: next(dialogue) for row_id, dialogue in held.items()}
    answers: dict[str, Given] = {}

    def go_on(row_id: str, came: Any) -> None:
        del wanted[row_id]
        try:
            wanted[row_id] = held[row_id].send(came)
        except StopIteration as ended:
            answers[row_id] = ended.value

    while wanted:
        # all look-ups before the next prompts, so that these are sent together
        if looks := [(row_id, each) for row_id, each in wanted.items() if not isinstance(each, Ask)]:
            if evaluation.look is None:
                raise TypeError(f"{evaluation.name} looks up {looks[0][1]!r}, and has nothing that does")
            for (row_id, _), found in zip(looks, evaluation.look(work, looks), strict=True):
                go_on(row_id, found)
            continue
        asks = dict(wanted)
        said = ask_model(work, [rows[row_id] for row_id in asks], lambda row: asks[row.id], evaluation.form)  # noqa: B023 - used at once
        for row, given in list(said):
            go_on(row.id, given)
    yield from ((row, answers[row.id]) for row in asked)
