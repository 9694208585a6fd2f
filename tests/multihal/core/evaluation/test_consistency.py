"""Which pairs of texts are scored for an answer, and which pair's scores are kept."""

import numpy as np

from tasks.multihal.core.evaluation.consistency import keep_best, pair_answers


def test_an_answer_is_paired_with_each_accepted_one_behind_the_question() -> None:
    pairs = pair_answers(["Who?", "Where?", "When?"], ["Ada", " ", "1843"], [["Ada", "", "Lovelace"], ["Rome"], []])
    assert pairs == [[("Who? Ada", "Ada"), ("Who? Lovelace", "Ada")], [], []]


def test_the_pair_with_the_highest_first_score_counts_and_the_first_of_equals() -> None:
    pairs = [[("a", "x"), ("b", "x")], [], [("a", "y"), ("b", "y"), ("c", "y")]]
    scores = np.array([[0.2, 0.7], [0.311, 0.1], [0.5004, 0.1], [0.4996, 0.9], [0.0, 0.3]])
    kept = keep_best(pairs, scores)
    np.testing.assert_array_equal(kept, [[0.31, 0.1], [np.nan, np.nan], [0.5, 0.1]])
    assert keep_best([[]], np.zeros((0, 1))).shape == (1, 1)
