"""Row models shared by all evaluations: questions, the model's answers, their scores, and metrics.

A row of an evaluation is never rejected: if it cannot be scored, it stays, with the reason.
"""

from typing import Literal

from factmill.tasks.core.rows import Row

UnscoredReason = Literal[
    "",
    "no_answer",
    "missing",
    "refused",
    "cut_off",
    "model_failed",
    "lookup_failed",
    "judge_unreadable",
    "judge_failed",
    "no_gold",
]
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


class EvaluationScore(Row):
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


class EvaluationMetric(Row):
    """A metric of an evaluation in one setting, over all items or one group, with its interval; the id is `setting/metric/group_by/group`."""

    benchmark: str
    """The evaluated benchmark."""
    model: str
    """The model under test."""
    judge: str
    """Judge: a model, `exact` (a program), or empty if nothing is judged."""
    setting: str
    """Setting in which questions were asked."""
    metric: str
    """Name of the metric."""
    group_by: str
    """Grouping of the items; empty: not grouped."""
    group: str
    """Group within this grouping; empty: all items."""
    value: float | None
    """Mean; null if there is nothing to average, as `note` explains."""
    n: int
    """Number of scored items."""
    n_unscored: int
    """Number of items that lack a score; `<benchmark>_scores` has the reasons."""
    clusters: int
    """Number of resampling units for the interval."""
    coverage: float | None
    """n divided by n + n_unscored."""
    bound_low: float | None
    """The mean if every unscored item counted as the lowest score."""
    bound_high: float | None
    """The mean if every unscored item counted as the highest score."""
    ci_low: float | None
    """Lower end of the 95 % interval."""
    ci_high: float | None
    """Upper end of the 95 % interval."""
    interval: str
    """Method of the interval: wilson, bootstrap; empty: no interval."""
    unit: str
    """Unit of the value: share, words, …"""
    note: str
    """Why there is no value or no interval, or a caution about them; empty for none."""
