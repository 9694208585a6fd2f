"""Test Definition 1 on cases worked by hand and on the paper's own (Table 9)."""

import math

import numpy as np
import pytest

from factmill.tasks.granola.core.evaluation.scoring import (
    classify_outcomes,
    classify_standard_vs_granola_accuracy,
    compute_best_f1_by_level,
    compute_informativeness,
    compute_token_f1,
    find_finest_matched_levels,
    tokenize_answer_words,
)


def f1(prediction: str, answer: str) -> float:
    return compute_token_f1(tokenize_answer_words(prediction), tokenize_answer_words(answer))


@pytest.mark.parametrize(
    ("prediction", "answer", "expected"),
    [
        # the paper's Table 9, with its figures
        ("screenwriter", "being a screenwriter", 2 / 3),
        ("London", "London Borough of Sutton", 0.4),
        ("London", "City of London", 0.5),
        ("London", "London", 1.0),
        ("screenwriter", "27 Dresses", 0.0),
        # case, punctuation, articles
        ("The Barbican!", "barbican", 1.0),
        ("an Indian poet", "Indian Poet", 1.0),
        # repeated words count each time: 2 of 3 and 2 of 2
        ("New York, New York", "New York", 2 * 2 / 6),
        ("New York", "New York, New York", 2 * 2 / 6),
        ("Duran", "Duran Duran", 2 / 3),
        # only articles or punctuation
        ("The The", "The The", 1.0),
        ("the the", "The The", 1.0),
        ("A", "The", 0.0),
        ("!!!", "!!!", 1.0),
        ("", "The The", 0.0),
        ("   ", "Paris", 0.0),
        ("", "", 0.0),
        # another script, Unicode forms of one text
        ("Воронеж", "Voronezh", 0.0),
        ("воронеж", "Воронеж", 1.0),
        ("Воронежская область", "Воронеж", 0.0),
        ("Sa\u0303o Paulo", "S\u00e3o Paulo", 1.0),
        ("Ｌｏｎｄｏｎ", "London", 1.0),
        ("STRASSE", "Straße", 1.0),
        ("\u200bParis\u200e", "Paris", 1.0),
        ("Sao Paulo", "São Paulo", 0.5),
        ("東京都", "東京都", 1.0),
    ],
)
def test_token_f1_matches_expected_value(prediction: str, answer: str, expected: float) -> None:
    assert f1(prediction, answer) == pytest.approx(expected)


LADDER = [["Barbican Centre", "The Barbican"], ["City of London", "London"], ["England", "UK"]]


@pytest.mark.parametrize(
    ("prediction", "tau", "expected"),
    [
        ("the barbican", 0.5, 1),
        ("London", 0.5, 2),
        ("UK", 0.5, 3),
        ("Paris", 0.5, 0),
        ("", 0.0, 0),
        # F1 is 2/3 with level 1 and 2/3 with level 2: the finer level counts
        ("Barbican London", 0.5, 1),
        # a match must exceed τ: F1 is 0.5 with England, and 2/3 with UK
        ("England and Wales", 0.5, 0),
        ("England and Wales", 0.49, 3),
        ("UK today", 2 / 3, 0),
        ("London", 1.0, 0),
    ],
)
def test_finest_level_with_f1_above_tau_is_matched(prediction: str, tau: float, expected: int) -> None:
    assert find_finest_matched_levels(compute_best_f1_by_level([prediction], [LADDER]), tau).tolist() == [expected]


def test_scores_questions_with_different_numbers_of_levels_in_one_matrix() -> None:
    scores = compute_best_f1_by_level(["Rome", "Italy", "Rome"], [[["Rome"]], [["Rome"], ["Lazio"], ["Italy"]], []])
    assert scores.tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]
    assert find_finest_matched_levels(scores, 0.5).tolist() == [1, 3, 0]


def test_empty_inputs_match_no_level() -> None:
    assert find_finest_matched_levels(compute_best_f1_by_level([], []), 0.5).tolist() == []
    assert find_finest_matched_levels(compute_best_f1_by_level(["Rome"], [[]]), 0.5).tolist() == [0]


def test_informativeness_decreases_with_level() -> None:
    weights = compute_informativeness(np.array([0, 1, 2, 3]), 0.5)
    assert weights.tolist() == pytest.approx([0, 1, math.exp(-0.5), math.exp(-1)])
    assert compute_informativeness(np.array([0, 1, 4]), 0).tolist() == [0, 1, 1]
    assert compute_informativeness(np.array([0, 0]), 0.5).tolist() == [0, 0]


def test_outcomes_and_accuracy_agreement_are_classified_by_matched_level() -> None:
    levels = np.array([0, 0, 1, 2, 3, 7])
    outcomes = classify_outcomes(levels, np.array([False, True, False, False, False, False]))
    assert outcomes.tolist() == ["wrong", "idk", "level_1", "level_2", "level_3_or_more", "level_3_or_more"]
    assert classify_standard_vs_granola_accuracy(levels).tolist() == [
        "neither",
        "neither",
        "both",
        *["granola_only"] * 3,
    ]
