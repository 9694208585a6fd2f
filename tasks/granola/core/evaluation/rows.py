"""Rows of GRANOLA's evaluation: a question in one setting, as it is asked, answered and scored (paper §2.2, §5)."""

from tasks.core.evaluation.rows import Answer, Asked


class GranolaAsked(Asked):
    """A question in one setting."""

    relation: str
    """PID of the relation that the question asks for."""
    question_entity_popularity: int | None
    """Page views of the question entity's English article; null when there is none."""
    granola_answers: list[str]
    """What the answer is held to, from fine to coarse; the first is the gold answer of standard accuracy."""
    is_compared: bool
    """Whether it is among those that are compared with the gold answer by the sentence encoder."""


class GranolaGiven(GranolaAsked, Answer):
    """With the model's answer."""


class GranolaAnswer(GranolaGiven):
    """One row of the published table `granola_answers`: an answer and what it is worth."""

    level_f1: list[float]
    """Token F1 of the answer with each of granola_answers; empty where the answer is not scored."""
    matched_level: int | None
    """The finest level whose F1 exceeds tau, from 1; 0 where none does, null where the answer is not scored."""
    is_idk: bool
    """Whether it says that the model does not know, or refuses."""
    semantic_similarity: float | None
    """Cosine of the answer and the gold answer, to two digits; null where the answer says nothing or is not compared."""
    encoder: str
    """Sentence encoder of that; empty where none is compared."""
