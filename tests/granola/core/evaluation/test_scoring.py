"""Test scoring of answers, over columns."""

import numpy as np
import pytest
from support.rows.granola_answers import LEVELS, ROWS, answered, score

from factmill.tasks.granola.core.evaluation.rows import ScoredGranolaPrediction
from factmill.tasks.granola.core.evaluation.scoring import (
    compute_cosines,
    guess_fact_answers_from_other_facts,
    list_fact_ids,
    list_metrics_for_varied_parameters,
)


def test_scored_answers_have_matched_level_and_idk_mark() -> None:
    scored = score(ROWS)
    assert scored["matched_level"].to_pylist() == [1, 1, 3, 0, 0, 0, None, 0]
    assert scored["is_idk"].to_pylist() == [False, False, False, False, True, False, False, True]
    assert scored["level_f1"].to_pylist()[1] == pytest.approx([2 / 3, 1, 0])
    assert scored["level_f1"].to_pylist()[6] == []
    assert scored.schema.names == list(ScoredGranolaPrediction.model_fields)


def test_idk_like_name_counts_as_answer_when_it_is_gold_answer() -> None:
    scored = score([answered(1, "Unknown", ["Unknown"]), answered(2, "Unknown", ["Rome"])])
    assert scored["is_idk"].to_pylist() == [False, True]
    assert scored["matched_level"].to_pylist() == [1, 0]


def test_metrics_are_computed_for_other_tau_and_lambda_values() -> None:
    rows = [
        answered(1, "London", ["London"]),
        answered(2, "London", ["Sutton", "London Borough of Sutton"]),
        answered(3, "IDK", ["Rome", "IDK of Rome"]),
        answered(4, "", LEVELS, unscored="model_failed"),
    ]
    found = {
        (name, value, column.metric): column.values.tolist()
        for name, value, column in list_metrics_for_varied_parameters(score(rows), 0.45, 0.5)
    }
    assert [value for name, value, metric in found if (name, metric) == ("tau", "accuracy")] == [
        0.3, 0.4, 0.45, 0.5, 0.6, 0.8
    ]  # fmt: skip
    assert found["tau", 0.3, "granola_accuracy"][:3] == [1, 1, 0]
    # F1 of London with London Borough of Sutton is 0.4, which does not exceed 0.4
    assert found["tau", 0.4, "granola_accuracy"][:3] == [1, 0, 0]
    assert found["tau", 0.3, "accuracy"][:3] == [1, 0, 0]
    assert found["tau", 0.3, "informativeness"][:3] == pytest.approx([1, np.exp(-0.5), 0])
    assert found["lambda", 1.0, "informativeness"][:3] == [1, 0, 0]
    assert all(np.isnan(values[3]) for values in found.values())


def test_cosines_are_computed_per_pair_and_nan_without_pair() -> None:
    vectors = np.array([[1, 0], [0.6, 0.8], [0, 1]], np.float32)
    found = compute_cosines([("a", "b"), None, ("c", "a"), ("a", "a")], ["a", "b", "c"], vectors)
    assert found.tolist() == pytest.approx([0.6, np.nan, 0, 1], nan_ok=True)
    assert np.isnan(compute_cosines([None], [], np.zeros((0, 2), np.float32))).all()


def test_guess_is_most_common_answer_among_other_facts_of_relation() -> None:
    relations = ["P19", "P19", "P19", "P20", "P20", "P50"]
    answers = [["Rome", "Italy"], ["Turin", "Italy"], ["Oslo", "Norway"], ["Rome"], ["Bonn", "Bonn"], ["Ada"]]
    assert guess_fact_answers_from_other_facts(relations, list("abcdef"), answers) == {
        "a": "Italy", "b": "Italy", "c": "Italy", "d": "Bonn", "e": "Rome", "f": "",
    }  # fmt: skip


def test_guess_ignores_other_questions_about_same_fact() -> None:
    answers = [["Brooklyn"], ["Brooklyn", "New York"], ["Chester"]]
    assert guess_fact_answers_from_other_facts(["P19"] * 3, ["a", "a", "b"], answers) == {
        "a": "Chester",
        "b": "Brooklyn",
    }


def test_questions_with_same_subject_and_relation_share_fact_id() -> None:
    relations, subjects = ["P19", "P20", "P19", "P19"], ["Q1", "Q1", "Q1", "Q2"]
    assert list_fact_ids(["z", "y", "x", "w"], relations, subjects) == ["x", "y", "x", "w"]
