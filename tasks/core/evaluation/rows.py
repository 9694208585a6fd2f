"""Rows that all evaluations share: what a model is asked, what it answered, and the scores of that.

A row of an evaluation is never rejected: what cannot be scored stays, unscored, with its reason.
"""

from typing import Literal

from factmill.tasks.core.rows import Row

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
server failed; what it looked up, or was to be shown, could not be had; the judge's reply could not be read, the judge
failed; there is nothing to score against. Empty: scored."""
COUNTED_WRONG = frozenset({"no_answer", "refused"})
"""Why an answer says nothing that is asked for: it counts as a wrong one, and is judged by nobody."""


class Asked(Row):
    """One question as a model is asked it in one setting; the id is `setting/question_id`."""

    question_id: str
    """What files of answers call it: the row's id, with the part behind it where a row holds several questions."""
    item: str
    """Id of the row of the build that is measured on."""
    cluster: str
    """What is drawn whole for intervals: questions that rest on the same facts move together."""
    setting: str
    """In which it is asked."""
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
    """Tokens of what the model was sent, as its server counts them; 0 where none does."""
    tokens_out: int
    """Tokens of what it said, likewise."""
    model: str
    """The model under test."""
    call: str
    """Key of the recorded call that gave the answer; empty for a file and for built-in models."""


class Score(Row):
    """One score of one answer; the id is `metric:id of the answer`."""

    question_id: str
    """What files of answers call the question."""
    item: str
    """Id of the row of the build that is measured on."""
    cluster: str
    """What is drawn whole for intervals."""
    setting: str
    """In which the question was asked."""
    metric: str
    """What is scored."""
    value: float | None
    """Null where it is unscored."""
    unscored: Unscored
    """Why there is no value; empty where there is."""
    detail: str
    """One sentence about why there is no value."""


class EvaluationMetric(Row):
    """One row of `evaluation_metrics`: a metric in a setting, overall or of one group; the id is `setting/metric/group_by/group`."""

    benchmark: str
    """The benchmark that is measured on."""
    model: str
    """The model under test."""
    judge: str
    """What judged: a model, `exact` (a program), or empty where nothing is judged."""
    setting: str
    """In which questions were asked."""
    metric: str
    """What is measured."""
    group_by: str
    """What the items are grouped by; empty: all of them."""
    group: str
    """Which of these groups; empty: all items."""
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
    """Upper end of the 95 % interval."""
    interval: str
    """How the interval was made: wilson, bootstrap; empty: there is none."""
    unit: str
    """Of the value: share, words, …"""
    note: str
    """Why there is no value or no interval, or what to know of them; empty where there is nothing to say."""
