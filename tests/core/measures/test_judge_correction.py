"""Test rates corrected for a judge's errors: by hand, uncorrectable cases, and the coverage of intervals."""

import numpy as np
import pytest
from trials.corrected import hold

from factmill.tasks.core.measures.intervals import compute_wilson_interval
from factmill.tasks.core.measures.judge_correction import correct_judged_share, measure_judge_rates

QUESTIONS = [f"q{number}" for number in range(100)]


def label(both_right: int, people_alone: int, judge_alone: int, both_wrong: int) -> tuple[list[bool], list[bool]]:
    """Return people's and the judge's labels of items."""
    counts = (both_right, people_alone, judge_alone, both_wrong)
    people = np.repeat([True, True, False, False], counts).tolist()
    return people, np.repeat([True, False, True, False], counts).tolist()


def answer(right: int, judged: int = 100) -> np.ndarray:
    """Return one score for each of a hundred questions; unjudged ones are wrong."""
    said = (np.arange(100) < right).astype(float)
    return np.column_stack((np.ones(100), said, np.arange(100) < judged, said)).astype(float)


def test_corrected_rate_matches_hand_computed_value() -> None:
    # sensitivity 40/50, specificity 45/50: (0.555 + 0.9 − 1) / (0.8 + 0.9 − 1)
    rates = measure_judge_rates(*label(40, 10, 5, 45), QUESTIONS, None, 100)
    assert (rates.sensitivity, rates.specificity) == (0.8, 0.9)
    found = correct_judged_share(QUESTIONS, answer(55), rates, are_labels_of_these_answers=False)
    assert found
    assert found[0] == pytest.approx(0.45 / 0.7, abs=1e-6)
    assert found[1][0] < 0.55 - 0.04 and found[1][1] > found[0]
    # of 80 judged 60/80 is right, 0.65/0.7 corrected; the other 20 are wrong regardless of the judge
    part = correct_judged_share(QUESTIONS, answer(60, judged=80), rates, are_labels_of_these_answers=False)
    assert part and part[0] == pytest.approx(0.65 / 0.7 * 0.8, abs=1e-6)


def test_labels_sampled_by_verdict_are_reweighted() -> None:
    # of 900 accepted 9 of 10 are right, of 100 rejected 2 of 10: 810 + 20 of 1,000 are right
    people, judge = label(9, 2, 1, 8)
    rates = measure_judge_rates(people, judge, QUESTIONS[:20], [90.0 if each else 10.0 for each in judge], 1000)
    assert rates.sensitivity == pytest.approx(810 / 830, abs=1e-6)
    assert rates.specificity == pytest.approx(80 / 170, abs=1e-6)
    found = correct_judged_share(QUESTIONS, answer(90), rates, are_labels_of_these_answers=False)
    assert found and found[0] == pytest.approx(0.83, abs=1e-6)


def test_labels_of_same_answers_narrow_interval() -> None:
    people, judge = label(40, 10, 5, 45)
    rates = measure_judge_rates(people, judge, QUESTIONS, None, 100)
    sums = np.column_stack((np.ones(100), judge, np.ones(100), judge)).astype(float)
    own, other = (correct_judged_share(QUESTIONS, sums, rates, is_own) for is_own in (True, False))
    assert own and other and own[0] == other[0] == 0.5
    # people labelled every item, so their labels are the rate
    assert own[1] == pytest.approx(compute_wilson_interval(50, 100), abs=0.02)
    assert other[1][1] - other[1][0] > 1.2 * (own[1][1] - own[1][0])


@pytest.mark.parametrize(
    ("counts", "known"),
    [
        ((50, 50, 0, 0), (0.5, None)),
        ((0, 0, 50, 50), (None, 0.5)),
        ((25, 25, 25, 25), (0.5, 0.5)),
        ((5, 45, 45, 5), (0.1, 0.1)),
    ],
)
def test_judge_that_cannot_separate_right_from_wrong_corrects_nothing(
    counts: tuple[int, int, int, int], known: tuple[float | None, float | None]
) -> None:
    rates = measure_judge_rates(*label(*counts), QUESTIONS, None, 100)
    assert (rates.sensitivity, rates.specificity) == known
    assert correct_judged_share(QUESTIONS, answer(55), rates, are_labels_of_these_answers=False) is None


def test_few_labels_without_errors_do_not_imply_perfect_judge() -> None:
    rates = measure_judge_rates(*label(10, 0, 0, 10), QUESTIONS[:20], None, 20)
    assert (rates.sensitivity, rates.specificity) == (1.0, 1.0)
    assert rates.sensitivity_low is not None and rates.sensitivity_low < 0.8
    found = correct_judged_share(QUESTIONS, answer(55), rates, are_labels_of_these_answers=False)
    assert found and found[0] == 0.55
    assert found[1][0] < compute_wilson_interval(55, 100)[0] and found[1][1] > compute_wilson_interval(55, 100)[1]
    # all right, none judged: the labels change nothing
    for right, judged in ((100, 100), (0, 0)):
        ends = correct_judged_share(QUESTIONS, answer(right, judged), rates, are_labels_of_these_answers=False)
        assert ends and ends[0] == right / 100 and ends[1][0] <= ends[0] <= ends[1][1]
    # a judge no better than chance leaves the rate open
    barely = measure_judge_rates(*label(3, 2, 2, 3), QUESTIONS[:10], None, 10)
    vague = correct_judged_share(QUESTIONS, answer(55), barely, are_labels_of_these_answers=False)
    assert vague and vague[1] == (0.0, 1.0)


def test_correction_interval_does_not_depend_on_order() -> None:
    people, judge = label(40, 10, 5, 45)
    order = np.random.default_rng(3).permutation(100)
    rates = measure_judge_rates(people, judge, QUESTIONS, None, 100)
    turned = measure_judge_rates(
        [people[at] for at in order], [judge[at] for at in order], [QUESTIONS[at] for at in order], None, 100
    )
    assert turned == rates
    for is_own in (True, False):
        expected = correct_judged_share(QUESTIONS, answer(55), rates, is_own)
        assert correct_judged_share([QUESTIONS[at] for at in order], answer(55)[order], rates, is_own) == expected


@pytest.mark.parametrize("transfers", [False, True])
def test_corrected_interval_covers_true_rate_where_raw_one_does_not(transfers: bool) -> None:
    # bench/trials/corrected.py measures more rates, on more samples
    samples = [hold(0.69, (0.8, 0.97), 120, transfers, seed) for seed in range(80)]
    assert sum(sample[0] for sample in samples) >= 0.88 * 80
    assert sum(sample[1] for sample in samples) <= 0.2 * 80
