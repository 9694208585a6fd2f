"""Rows of GRANOLA's evaluation: a question in one setting, as it is asked, answered and scored (paper §2.2, §5)."""

from tasks.core.evaluation.rows import Answer, Asked
from tasks.core.rows import Row


class Gold(Row):
    """What an answer is held to."""

    relation: str
    """PID of the relation that the question asks for."""
    question_entity_popularity: int | None
    """Page views of the question entity's English article; null when there is none."""
    granola_answers: list[str]
    """Answers from fine to coarse; the first is the gold answer of standard accuracy."""


class AskedQuestion(Asked, Gold):
    """A question in one setting."""

    guess: str
    """What the built-in guesser says: the commonest answer, of any level, to the relation's other questions."""


class AnsweredQuestion(Answer, Gold):
    """With the model's answer."""


class GranolaAnswer(AnsweredQuestion):
    """One row of the published table `granola_answers`: an answer and what it is worth."""

    level_f1: list[float]
    """Token F1 of the answer with each of granola_answers; empty where the answer is not scored."""
    matched_level: int | None
    """The finest level whose F1 exceeds tau, from 1; 0 where none does, null where the answer is not scored."""
    is_idk: bool
    """Whether it says that the model does not know, or refuses."""
    semantic_similarity: float | None
    """Cosine of the answer and the gold answer by the world's sentence encoder; null where it was not asked for, or there
    is no answer that could be compared."""
