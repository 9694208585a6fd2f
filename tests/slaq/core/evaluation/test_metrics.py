"""Test SLAQ's metrics on matrices small enough to count by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from factmill.tasks.slaq.core.evaluation.verdicts import (
    VerdictMatrix,
    compute_alignment,
    compute_signed_alignment,
    count_consecutive_verdicts_before_each,
)

NO = np.nan
SHORT = np.array([[1, 1, 0, 0, 1], [NO, 1, NO, 0, 0]])
LONG = np.array([[1, 0, 0, 1, 1], [1, NO, NO, 0, 1]])

verdicts = st.lists(st.lists(st.sampled_from([0.0, 1.0, NO]), min_size=5, max_size=5), min_size=1, max_size=6)


def test_answers_align_when_both_are_right_or_both_wrong() -> None:
    aligned = compute_alignment(SHORT, LONG)
    assert_array_equal(aligned, [[1, 0, 1, 0, 1], [NO, NO, NO, 1, 0]])
    # 3 of 5 in the first topic, 1 of the 2 known ones in the second
    assert np.nanmean(aligned) == 4 / 7


def test_signed_alignment_distinguishes_both_right_from_both_wrong() -> None:
    signed = compute_signed_alignment(SHORT, LONG)
    assert_array_equal(signed, [[1, 0, -1, 0, 1], [NO, NO, NO, -1, 0]])
    assert np.nanmean(signed) == (2 - 2) / 7


@pytest.mark.parametrize(
    ("answers", "right_before", "wrong_before"),
    [
        ([1, 1, 1, 1, 1], [NO, 1, 2, 3, 4], [NO, 0, 0, 0, 0]),
        ([0, 0, 0, 0, 0], [NO, 0, 0, 0, 0], [NO, 1, 2, 3, 4]),
        ([1, 0, 1, 1, 0], [NO, 1, 0, 1, 2], [NO, 0, 1, 0, 0]),
        ([0, 0, 1, 0, 1], [NO, 0, 0, 1, 0], [NO, 1, 2, 0, 1]),
        # a run that reaches an unjudged answer is unknown, until a later answer certainly ends it
        ([NO, 1, 1, 0, 1], [NO, NO, NO, NO, 0], [NO, NO, 0, 0, 1]),
        ([1, NO, 0, 0, 1], [NO, 1, NO, 0, 0], [NO, 0, NO, NO, NO]),
        ([1, 1, 1, 1, NO], [NO, 1, 2, 3, 4], [NO, 0, 0, 0, 0]),
        ([NO] * 5, [NO] * 5, [NO] * 5),
    ],
)
def test_runs_are_counted_immediately_before_each_answer(
    answers: list[float], right_before: list[float], wrong_before: list[float]
) -> None:
    assert_array_equal(count_consecutive_verdicts_before_each(np.array([answers], float), verdict=1), [right_before])
    assert_array_equal(count_consecutive_verdicts_before_each(np.array([answers], float), verdict=0), [wrong_before])


@given(verdicts)
def test_each_answer_after_first_follows_run_of_one_verdict(rows: list[list[float]]) -> None:
    matrix: VerdictMatrix = np.array(rows)
    right, wrong = (
        count_consecutive_verdicts_before_each(matrix, verdict=1),
        count_consecutive_verdicts_before_each(matrix, verdict=0),
    )
    before = matrix[:, :-1]
    assert np.all(wrong[:, 1:][before == 1] == 0)
    assert np.all(right[:, 1:][before == 0] == 0)
    assert np.all(np.isnan(right[:, 1:][np.isnan(before)]))
    assert not np.any((right > 0) & (wrong > 0))


@given(verdicts)
def test_alignment_is_absolute_value_of_signed_alignment(rows: list[list[float]]) -> None:
    short: VerdictMatrix = np.array(rows)
    long = short[::-1, ::-1]
    assert_array_equal(compute_alignment(short, long), np.abs(compute_signed_alignment(short, long)))
