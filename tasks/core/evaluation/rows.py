"""Rows that all evaluations share: what a model is asked, what it answered, and the scores of that.

A row of an evaluation is never rejected: what cannot be scored stays, unscored, with its reason.
"""

from typing import Literal

from tasks.core.rows import Row

Unscored = Literal[
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
"""Why there is no score: nothing was said, the file of answers lacks it, the model would not, its room was too small, its
server failed; what it looked up, or was to be shown, could not be had; the judge's reply could not be read, the judge failed; there is nothing to score against. Empty: scored."""


class Asked(Row):
    """One question as a model is asked it in one setting; the id is `setting/question_id`."""

    question_id: str
    """What files of answers call it: the row's id, with the part behind it where a row holds several questions."""
    item: str
    """Id of the row of the build that is measured on."""
    cluster: str
    """What is drawn whole for intervals: questions that rest on the same facts move together."""
    setting: str
    question: str
    """The question's text."""


class Answer(Asked):
    """What the model answered."""

    answer: str
    """As given; characters that are none are replaced. Empty where there is no answer."""
    answer_read: str
    """Without what was put around it: thoughts, fences, a label. What is scored."""
    samples: list[str]
    """What was drawn on the way, where the setting draws several."""
    finish: str
    """Why the answer ends, by its server: stop, length, …; empty where no server was asked."""
    unscored: Unscored
    """Why there is nothing to score; empty where there is."""
    detail: str
    """One sentence about that."""
    tokens_in: int
    tokens_out: int
    model: str
    call: str
    """Key of the recorded call that gave the answer; empty for a file and for built-in models."""


class Score(Row):
    """One score of one answer; the id is `metric:id of the answer`."""

    question_id: str
    item: str
    cluster: str
    setting: str
    metric: str
    value: float | None
    """Null where it is unscored."""
    unscored: Unscored
    """Why there is no value; empty where there is."""
    detail: str


class EvaluationMetric(Row):
    """One row of `evaluation_metrics`: a metric in a setting, overall or of one group; the id is `setting/metric/group_by/group`."""

    benchmark: str
    model: str
    """The model under test."""
    judge: str
    """What judged: a model, `exact` (a program), or empty where nothing is judged."""
    setting: str
    metric: str
    group_by: str
    """What the items are grouped by; empty: all of them."""
    group: str
    value: float | None
    """Mean; null where there is nothing to average, as `note` says."""
    n: int
    """Scored items."""
    n_unscored: int
    """Items that should have a score and have none; `<benchmark>_scores` has their reasons."""
    clusters: int
    """Groups of items that are drawn whole for the interval."""
    coverage: float | None
    """n of n + n_unscored."""
    bound_low: float | None
    """The mean if all that is unscored counted least."""
    bound_high: float | None
    """The mean if all that is unscored counted most."""
    ci_low: float | None
    """Lower end of the 95 % interval."""
    ci_high: float | None
    interval: str
    """How the interval was made: wilson, bootstrap; empty: there is none."""
    unit: str
    note: str
