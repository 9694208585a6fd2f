"""Benchmarks as tasks of Inspect AI: our questions and turns, its models; our reading, judging and metrics.

A sample is a question in a setting. Its score holds the whole row of the answer, and the metrics are measured on these rows
by the same functions as in `factmill evaluate`: so the same answers give the same numbers, to the last digit, whatever
share of them an item has a score for. A sample that ended with an error counts as unscored.
"""

from collections.abc import Sequence

from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
)
from inspect_ai.scorer import Scorer
from inspect_ai.solver import Solver

from tasks.core.evaluation.rows import Asked
from tasks.core.prompts import Ask
from tasks.core.rows import rows_from_arrow
from tasks.evaluation.offline import Session

GRADER = "grader"
"""Role of the model that judges: `--model-role grader=…`; without one the program `exact` does."""
GIVEN = "factmill_given"
"""Where a sample's store has what the model said."""
_FINISH = {"max_tokens": "length", "model_length": "length"}
"""Inspect's stop reason → ours."""
_MESSAGES = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}


def make_task(
    session: Session,
    name: str,
    judge: str | None,
    group_by: Sequence[str],
    max_tokens: int | None,
    solving: Solver,
    scoring: Scorer,
) -> Task:
    """Return the questions of a session as a task."""
    questions = rows_from_arrow(session.evaluation.asked, session.list_questions())
    say_gold = session.evaluation.oracle(session.rows)
    return Task(
        dataset=MemoryDataset([_make_sample(session, asked, say_gold(asked)) for asked in questions], name=name),
        solver=solving,
        scorer=scoring,
        # a question that the model could not be asked stays in the figures, as unscored
        score_on_error=True,
    )


def _make_sample(session: Session, asked: Asked, gold: str) -> Sample:
    ask = session.evaluation.fill(asked, session.inputs.params)
    return Sample(input=_list_messages(ask), target=gold, id=asked.id, metadata=asked.model_dump())


def _list_messages(ask: Ask) -> list[ChatMessage]:
    return [_MESSAGES[each["role"]](content=each["content"]) for each in ask.messages()]
