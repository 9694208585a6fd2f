"""Row models shared by all evaluations: questions, the model's answers, their scores, and metrics.

A row of an evaluation is never rejected: if it cannot be scored, it stays, with the reason.
"""

from typing import Literal

from factmill.tasks.core.measures.metrics import MeasuredMetric
from factmill.tasks.core.rows import Row

UnscoredReason = Literal[
    "", "no_answer", "missing", "refused", "cut_off", "model_failed", "lookup_failed", "judge_unreadable", "judge_failed", "no_gold"
]  # fmt: skip
"""Why there is no score, in this order: the answer is empty; the answers file lacks it; the model refused; a token limit cut
it off; the server failed; a look-up failed; the judge's completion could not be read; the judge failed; there is no gold
answer. Empty: scored."""
REASONS_COUNTED_WRONG = frozenset({"no_answer", "refused"})
"""Reasons for which an answer counts as wrong, without being judged."""


class EvaluationQuestion(Row):
    """One question to a model in one setting; the id is `setting/question_id`."""

    question_id: str
    """Id in answers files: the row's id, followed by the part if a row holds several questions."""
    item: str
    """Id of the row in the evaluated build."""
    cluster: str
    """Resampling unit for intervals: questions about the same facts are drawn together."""
    setting: str
    """Setting in which the question is asked."""
    question: str
    """Text of the question."""


class EvaluationPrediction(EvaluationQuestion):
    """A model's answer to a question."""

    answer: str
    """Answer as given, with invalid characters replaced; empty where there is none."""
    answer_read: str
    """Answer without wrappers (thoughts, fences, a label); this text is scored."""
    samples: list[str]
    """Intermediate samples, if the setting draws several."""
    finish: str
    """Finish reason of the server: stop, length, …; empty if no server was called."""
    unscored: UnscoredReason
    """Why there is nothing to score; empty if there is."""
    detail: str
    """One sentence about that reason."""
    tokens_in: int
    """Prompt tokens, as the server counts them; 0 if it does not."""
    tokens_out: int
    """Completion tokens, as the server counts them; 0 if it does not."""
    model: str
    """The model under test."""
    call: str
    """Key of the recorded call of the answer; empty for an answers file and for built-in models."""


class AnswerScore(Row):
    """One score of one answer; the id is `metric:id of the answer`."""

    question_id: str
    """Id of the question in answers files."""
    item: str
    """Id of the row in the evaluated build."""
    cluster: str
    """Resampling unit for intervals."""
    setting: str
    """Setting in which the question was asked."""
    metric: str
    """Name of the metric."""
    value: float | None
    """Score; null if unscored."""
    unscored: UnscoredReason
    """Why there is no value; empty if there is."""
    detail: str
    """One sentence about that reason."""


class _EvaluatedModel(Row):
    benchmark: str
    """The evaluated benchmark."""
    model: str
    """The model under test."""
    judge: str
    """Judge: a model, `exact` (a program), or empty if nothing is judged."""


class EvaluationMetric(MeasuredMetric, _EvaluatedModel):
    """A metric of an evaluation in one setting, over all items or one group; the id is `setting/metric/group_by/group`."""
