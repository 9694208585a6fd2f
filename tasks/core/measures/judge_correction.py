"""Correct shares for a judge's errors, given human labels of some of the judged answers.

If a judge calls a share p right, the share (p + specificity − 1)/(sensitivity + specificity − 1) is right (Rogan and
Gladen 1978). The interval is a percentile bootstrap over both samples: each draw takes whole questions of the evaluation
and of the labels. For draws only, each sample gets an additional item of each outcome, as its own question: otherwise a
judge without an error in twenty labels would count as infallible. bench/trials/corrected.py measures the coverage.
"""

from collections.abc import Sequence

import numpy as np

from factmill.tasks.core.measures.intervals import BOOTSTRAP_DRAWS, Float64Values, Interval, compute_percentile_interval
from factmill.tasks.core.measures.metrics import index_names_in_sorted_order, round_to_six_decimals
from factmill.tasks.core.rows import StrictModel

_WEIGHT_BITS = 20
_ADDED_ITEMS = 1.0
"""Number of items of each outcome added to a sample."""


class JudgeErrorRates(StrictModel):
    """Sensitivity and specificity of a judge against human labels."""

    n: int
    """Labelled items."""
    sensitivity: float | None
    """Share of the answers right by human label that the judge calls right; null without such answers."""
    sensitivity_low: float | None
    """Lower end of the 95 % interval."""
    sensitivity_high: float | None
    specificity: float | None
    """Share of the answers wrong by human label that the judge calls wrong; null without such answers."""
    specificity_low: float | None
    specificity_high: float | None
    size: int
    """Number of items that the labelled ones were drawn from; of labelled ones if they were not drawn."""
    questions: dict[str, list[int]]
    """Question → weights of its items in units of 2^-20: both say wrong, only the judge says right, only people say right,
    both say right."""


def measure_judge_rates(
    people: Sequence[bool],
    judge: Sequence[bool],
    questions: Sequence[str],
    weights: Sequence[float] | None,
    size: int,
    draws: int = BOOTSTRAP_DRAWS,
) -> JudgeErrorRates:
    """Return the rates of parallel columns, one entry per labelled item: True is right.

    `weights`: number of items that each represents; `size`: number of judged items that the labelled ones were drawn from by
    the judge's verdict, else the number of labelled items.
    """
    given = np.ones(len(people)) if weights is None else np.asarray(weights, np.float64)
    of_question, names = index_names_in_sorted_order(questions)
    cells = of_question * 4 + 2 * np.asarray(people, np.int64) + np.asarray(judge, np.int64)
    tables = np.bincount(cells, np.rint(np.ldexp(given, _WEIGHT_BITS)), len(names) * 4).reshape(-1, 4).astype(np.int64)
    both_wrong, judge_alone, people_alone, both_right = tables.sum(axis=0).tolist()
    right, wrong = people_alone + both_right, both_wrong + judge_alone
    rates = JudgeErrorRates(
        n=len(people),
        sensitivity=round_to_six_decimals(both_right / right) if right else None,
        sensitivity_low=None,
        sensitivity_high=None,
        specificity=round_to_six_decimals(both_wrong / wrong) if wrong else None,
        specificity_low=None,
        specificity_high=None,
        size=size,
        questions=dict(zip(names, tables.tolist(), strict=True)),
    )
    if not (right and wrong):
        return rates
    generator = np.random.default_rng(0)
    drawn = _draw_question_sums(
        np.vstack((_make_outcome_weights_per_question(rates, names), _make_added_pseudo_labels(rates))),
        generator,
        draws,
    )
    called_right = _resample_share_judged_right(rates, generator, draws)
    ends = [
        end
        for side in _compute_drawn_sensitivity_specificity(drawn, called_right)
        for end in compute_percentile_interval(side[~np.isnan(side)])
    ]
    ends_of = ("sensitivity_low", "sensitivity_high", "specificity_low", "specificity_high")
    return rates.model_copy(update=dict(zip(ends_of, ends, strict=True)))


def correct_judged_share(
    questions: Sequence[str],
    sums: Float64Values,
    rates: JudgeErrorRates,
    are_labels_of_these_answers: bool,
    seed: int = 0,
    draws: int = BOOTSTRAP_DRAWS,
) -> tuple[float, Interval] | None:
    """Return the corrected share with its 95 % interval; None if the judge cannot distinguish right from wrong.

    `sums` (questions × 4, whole numbers): number of scored items, sum of their scores, number of
    judged items, number that the judge calls right. Items scored without a verdict keep their score: a missing answer is
    wrong for any judge. `are_labels_of_these_answers`: the labels were drawn from these answers, so questions are drawn with their labels.
    """
    if rates.sensitivity is None or rates.specificity is None or rates.sensitivity + rates.specificity <= 1:
        return None
    generator = np.random.default_rng(seed)
    added = np.array([[_ADDED_ITEMS, 0.0, _ADDED_ITEMS, 0.0], [_ADDED_ITEMS, _ADDED_ITEMS, _ADDED_ITEMS, _ADDED_ITEMS]])
    if are_labels_of_these_answers:
        both = np.hstack((sums, _make_outcome_weights_per_question(rates, questions)))
        more = np.vstack((np.pad(added, ((0, 0), (0, 4))), np.pad(_make_added_pseudo_labels(rates), ((0, 0), (4, 0)))))
        drawn = _draw_question_sums(np.vstack((both, more)), generator, draws)
        answers, labels = drawn[:, :4], drawn[:, 4:]
        called_right = answers[:, 3] / np.maximum(answers[:, 2], _ADDED_ITEMS)
    else:
        answers = _draw_question_sums(np.vstack((sums, added)), generator, draws)
        labels = _draw_question_sums(
            np.vstack(
                (_make_outcome_weights_per_question(rates, list(rates.questions)), _make_added_pseudo_labels(rates))
            ),
            generator,
            draws,
        )
        called_right = _resample_share_judged_right(rates, generator, draws)
    sensitivity, specificity = _compute_drawn_sensitivity_specificity(labels, called_right)
    lows, highs = (_compute_corrected_shares(answers, sensitivity, specificity, unknown) for unknown in (0.0, 1.0))
    of_all = sums.sum(axis=0, keepdims=True)
    value = float(
        _compute_corrected_shares(of_all, np.array([rates.sensitivity]), np.array([rates.specificity]), 0.0)[0]
    )
    # the added items may move the interval away from a share of 0 or 1
    return round_to_six_decimals(value), (
        min(compute_percentile_interval(lows)[0], round(value, 4)),
        max(compute_percentile_interval(highs)[1], round(value, 4)),
    )


def _compute_corrected_shares(
    sums: Float64Values, sensitivity: Float64Values, specificity: Float64Values, unknown: float
) -> Float64Values:
    """Return corrected shares, between 0 and 1; `unknown`: share for judged items if the judge is no better than chance."""
    scored, total, judged, right = sums.T
    with np.errstate(invalid="ignore", divide="ignore"):
        corrected = (right / judged + specificity - 1) / (sensitivity + specificity - 1)
    corrected = np.where((sensitivity + specificity > 1) & (judged > 0), np.clip(corrected, 0.0, 1.0), unknown)
    return np.asarray((corrected * judged + total - right) / scored)


def _compute_drawn_sensitivity_specificity(
    tables: Float64Values, called_right: Float64Values
) -> tuple[Float64Values, Float64Values]:
    """Return sensitivity and specificity of draws of labels (draws × 4), NaN without an item for their denominator.

    Right items are counted separately within each verdict of the judge, since labels are drawn by verdict.
    `called_right`: share that the judge calls right among all items that the labels were drawn from.
    """
    called_wrong = 1 - called_right
    with np.errstate(invalid="ignore", divide="ignore"):
        right_of_wrong = tables[:, 2] / (tables[:, 0] + tables[:, 2])
        right_of_right = tables[:, 3] / (tables[:, 1] + tables[:, 3])
        sensitivity = 1 / (1 + called_wrong * right_of_wrong / (called_right * right_of_right))
        specificity = 1 / (1 + called_right * (1 - right_of_right) / (called_wrong * (1 - right_of_wrong)))
    return sensitivity, specificity


def _resample_share_judged_right(rates: JudgeErrorRates, generator: np.random.Generator, draws: int) -> Float64Values:
    both_wrong, judge_alone, people_alone, both_right = np.sum(list(rates.questions.values()), axis=0).tolist()
    share = (judge_alone + both_right) / (both_wrong + judge_alone + people_alone + both_right)
    return generator.binomial(rates.size, share, draws) / rates.size


def _make_outcome_weights_per_question(rates: JudgeErrorRates, questions: Sequence[str]) -> Float64Values:
    return np.array([rates.questions.get(name, [0] * 4) for name in questions], np.float64)


def _make_added_pseudo_labels(rates: JudgeErrorRates) -> Float64Values:
    """Return the items added to labels, each with the mean weight of a label."""
    return np.eye(4) * np.rint(_ADDED_ITEMS * np.sum(list(rates.questions.values())) / rates.n)


def _draw_question_sums(sums: Float64Values, generator: np.random.Generator, draws: int) -> Float64Values:
    """Return sums of bootstrap draws (draws × columns) of questions (questions × columns)."""
    # drawing distinct rows by frequency equals drawing questions
    kinds, often = np.unique(sums, axis=0, return_counts=True)
    return np.asarray(generator.multinomial(len(sums), often / len(sums), draws).astype(np.float64) @ kinds)
