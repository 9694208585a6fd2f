"""Rates corrected for a judge's errors, where people have labelled some of the answers that it judged.

Where a judge calls a share p right, (p + specificity − 1)/(sensitivity + specificity − 1) is right (Rogan and Gladen 1978).
The interval is a percentile bootstrap over both samples: each draw takes questions of the evaluation and questions of the
labels whole. Each sample gets an item of each outcome, as a question of its own, in its draws alone: otherwise a judge
without an error among twenty labels would pass for one that never errs. bench/trials/corrected.py measures the coverage.
"""

from collections.abc import Sequence

import numpy as np

from factmill.tasks.core.measures.intervals import DRAWS, Floats, Interval, cut_tails
from factmill.tasks.core.measures.metrics import number, round_value
from factmill.tasks.core.rows import StrictModel

_WEIGHT_BITS = 20
_ADDED = 1.0
"""Items of each outcome that are added to a sample."""


class JudgeRates(StrictModel):
    """How often a judge calls right what people call right, and wrong what they call wrong."""

    n: int
    """Labelled items."""
    sensitivity: float | None
    """Of what people call right, the share that the judge calls right; null where they call nothing right."""
    sensitivity_low: float | None
    """Lower end of the 95 % interval."""
    sensitivity_high: float | None
    specificity: float | None
    """Of what people call wrong, the share that the judge calls wrong; null where they call nothing wrong."""
    specificity_low: float | None
    specificity_high: float | None
    size: int
    """Items that the labelled ones were drawn from; the labelled ones where they are of no draw."""
    questions: dict[str, list[int]]
    """Question → weights of its items in units of 2^-20: both say wrong, the judge alone says right, people alone say right,
    both say right."""


def measure_rates(
    people: Sequence[bool],
    judge: Sequence[bool],
    questions: Sequence[str],
    weights: Sequence[float] | None,
    size: int,
    draws: int = DRAWS,
) -> JudgeRates:
    """Return the rates of parallel columns, one entry a labelled item: True is right.

    `weights`: what each stands for; `size`: judged items that the labelled ones were drawn from, by the judge's verdict, or
    as many as were labelled.
    """
    given = np.ones(len(people)) if weights is None else np.asarray(weights, np.float64)
    of_question, names = number(questions)
    cells = of_question * 4 + 2 * np.asarray(people, np.int64) + np.asarray(judge, np.int64)
    tables = np.bincount(cells, np.rint(np.ldexp(given, _WEIGHT_BITS)), len(names) * 4).reshape(-1, 4).astype(np.int64)
    both_wrong, judge_alone, people_alone, both_right = tables.sum(axis=0).tolist()
    right, wrong = people_alone + both_right, both_wrong + judge_alone
    rates = JudgeRates(
        n=len(people),
        sensitivity=round_value(both_right / right) if right else None,
        sensitivity_low=None,
        sensitivity_high=None,
        specificity=round_value(both_wrong / wrong) if wrong else None,
        specificity_low=None,
        specificity_high=None,
        size=size,
        questions=dict(zip(names, tables.tolist(), strict=True)),
    )
    if not (right and wrong):
        return rates
    generator = np.random.default_rng(0)
    drawn = _draw(np.vstack((_list_tables(rates, names), _add_labels(rates))), generator, draws)
    called_right = _draw_called_right(rates, generator, draws)
    ends = [end for side in _find_rates(drawn, called_right) for end in cut_tails(side[~np.isnan(side)])]
    ends_of = ("sensitivity_low", "sensitivity_high", "specificity_low", "specificity_high")
    return rates.model_copy(update=dict(zip(ends_of, ends, strict=True)))


def correct_share(
    names: Sequence[str], sums: Floats, rates: JudgeRates, is_own: bool, seed: int = 0, draws: int = DRAWS
) -> tuple[float, Interval] | None:
    """Return the corrected share with its 95 % interval; None where the judge does not tell right from wrong.

    `sums` (questions × 4, whole numbers; `names`: the questions): items with a score, the sum of their scores, those that
    were judged, those that the judge calls right. What has a score without a verdict keeps it: no answer is wrong, whatever
    the judge. `is_own`: the labels were drawn of these very answers, so questions are drawn with their labels.
    """
    if rates.sensitivity is None or rates.specificity is None or rates.sensitivity + rates.specificity <= 1:
        return None
    generator = np.random.default_rng(seed)
    added = np.array([[_ADDED, 0.0, _ADDED, 0.0], [_ADDED, _ADDED, _ADDED, _ADDED]])
    if is_own:
        both = np.hstack((sums, _list_tables(rates, names)))
        more = np.vstack((np.pad(added, ((0, 0), (0, 4))), np.pad(_add_labels(rates), ((0, 0), (4, 0)))))
        drawn = _draw(np.vstack((both, more)), generator, draws)
        answers, labels = drawn[:, :4], drawn[:, 4:]
        called_right = answers[:, 3] / np.maximum(answers[:, 2], _ADDED)
    else:
        answers = _draw(np.vstack((sums, added)), generator, draws)
        labels = _draw(np.vstack((_list_tables(rates, list(rates.questions)), _add_labels(rates))), generator, draws)
        called_right = _draw_called_right(rates, generator, draws)
    sensitivity, specificity = _find_rates(labels, called_right)
    lows, highs = (_correct(answers, sensitivity, specificity, unknown) for unknown in (0.0, 1.0))
    of_all = sums.sum(axis=0, keepdims=True)
    value = float(_correct(of_all, np.array([rates.sensitivity]), np.array([rates.specificity]), 0.0)[0])
    # the added items may draw an interval off a share of 0 or 1
    return round_value(value), (min(cut_tails(lows)[0], round(value, 4)), max(cut_tails(highs)[1], round(value, 4)))


def _correct(sums: Floats, sensitivity: Floats, specificity: Floats, unknown: float) -> Floats:
    """Return corrected shares, between 0 and 1; `unknown`: of what is judged, where a judge errs as often as not."""
    scored, total, judged, right = sums.T
    with np.errstate(invalid="ignore", divide="ignore"):
        corrected = (right / judged + specificity - 1) / (sensitivity + specificity - 1)
    corrected = np.where((sensitivity + specificity > 1) & (judged > 0), np.clip(corrected, 0.0, 1.0), unknown)
    return np.asarray((corrected * judged + total - right) / scored)


def _find_rates(tables: Floats, called_right: Floats) -> tuple[Floats, Floats]:
    """Return sensitivity and specificity of draws of labels (draws × 4), NaN where nothing that they are of was drawn.

    What is right is counted within what the judge calls right, and within what it calls wrong, since labels are drawn by
    its verdicts. `called_right`: the share that it calls right of all that they were drawn from.
    """
    called_wrong = 1 - called_right
    with np.errstate(invalid="ignore", divide="ignore"):
        right_of_wrong = tables[:, 2] / (tables[:, 0] + tables[:, 2])
        right_of_right = tables[:, 3] / (tables[:, 1] + tables[:, 3])
        sensitivity = 1 / (1 + called_wrong * right_of_wrong / (called_right * right_of_right))
        specificity = 1 / (1 + called_right * (1 - right_of_right) / (called_wrong * (1 - right_of_wrong)))
    return sensitivity, specificity


def _draw_called_right(rates: JudgeRates, generator: np.random.Generator, draws: int) -> Floats:
    both_wrong, judge_alone, people_alone, both_right = np.sum(list(rates.questions.values()), axis=0).tolist()
    share = (judge_alone + both_right) / (both_wrong + judge_alone + people_alone + both_right)
    return generator.binomial(rates.size, share, draws) / rates.size


def _list_tables(rates: JudgeRates, names: Sequence[str]) -> Floats:
    return np.array([rates.questions.get(name, [0] * 4) for name in names], np.float64)


def _add_labels(rates: JudgeRates) -> Floats:
    """Return the items that are added to labels, each worth as much as they are on the average."""
    return np.eye(4) * np.rint(_ADDED * np.sum(list(rates.questions.values())) / rates.n)


def _draw(sums: Floats, generator: np.random.Generator, draws: int) -> Floats:
    """Return sums of draws (draws × columns) of as many questions as there are (questions × columns)."""
    # drawing kinds of questions is drawing questions
    kinds, often = np.unique(sums, axis=0, return_counts=True)
    return np.asarray(generator.multinomial(len(sums), often / len(sums), draws).astype(np.float64) @ kinds)
