"""What is drawn of metrics, and how they move with τ and λ."""

import math

import pyarrow as pa
import pytest

from tasks.core.measures.metrics import measure
from tasks.granola.core.scoring import list_scores
from tasks.granola.measure import draw_figures, table_sensitivity

ANSWERS = pa.table(
    {
        "item": ["q1", "q2", "q3", "q1", "q2", "q3"],
        "cluster": ["q1", "q2", "q3", "q1", "q2", "q3"],
        "setting": ["greedy", "greedy", "greedy", "idk", "idk", "idk"],
        "relation": ["P19", "P19", "P20", "P19", "P19", "P20"],
        "question_entity_popularity": [5, 50, None, 5, 50, None],
        "level_f1": [[1.0, 0.0], [0.4, 0.5, 1.0], [0.0, 0.65], [1.0, 0.0], [], [0.4, 0.2]],
        "matched_level": pa.array([1, 3, 2, 1, None, 0], pa.int64()),
        "is_idk": [False, False, False, False, False, True],
        "semantic_similarity": pa.array([0.9, 0.2, 0.3, 0.9, None, None], pa.float64()),
    }
)


def test_figures_hold_what_was_measured() -> None:
    figures = {each.name: each for each in draw_figures(measure(list(list_scores(ANSWERS, 0.5, 2))))}
    assert list(figures) == [
        "standard_and_granola_accuracy",
        "accuracy_and_informativeness",
        "matched_levels",
        "accuracy_by_popularity_greedy",
        "accuracy_by_popularity_idk",
        "similarity_by_agreement",
    ]
    points = figures["standard_and_granola_accuracy"].series
    assert [(each.label, each.x, each.y) for each in points] == [
        ("greedy", (pytest.approx(1 / 3, abs=1e-6),), (1.0,)),
        ("idk", (1.0,), (1.0,)),
    ]
    stacked = {each.label: each.y for each in figures["matched_levels"].series}
    assert stacked["idk"] == (0, 0.5)
    assert stacked["level 3 or more"] == (pytest.approx(1 / 3, abs=1e-6), 0)
    by_popularity = figures["accuracy_by_popularity_greedy"].series
    assert by_popularity[0].x == ("1 of 2 (5 to 5)", "2 of 2 (50 to 50)", "unknown")
    assert [each.y for each in by_popularity] == [(1, 0, 0), (1, 1, 1)]
    # the one answer of the last bin says IDK: it has no point
    assert figures["accuracy_by_popularity_idk"].series[0].x == ("1 of 2 (5 to 5)", "2 of 2 (50 to 50)")
    assert figures["accuracy_by_popularity_idk"].series[0].y == (1, None)
    similar = {each.label: dict(zip(each.x, each.y, strict=True)) for each in figures["similarity_by_agreement"].series}
    assert similar == {"greedy": {"both": 0.9, "granola only": 0.25}, "idk": {"both": 0.9}}


def test_what_was_not_compared_is_not_drawn() -> None:
    nothing = ANSWERS.set_column(8, "semantic_similarity", pa.nulls(6, pa.float64()))
    names = [each.name for each in draw_figures(measure(list(list_scores(nothing, 0.5, 2))))]
    assert "similarity_by_agreement" not in names


def test_results_move_with_tau_and_lambda() -> None:
    rows = table_sensitivity(ANSWERS, 0.45, 0.5)
    greedy = [row for row in rows if row["setting"] == "greedy"]
    assert [(row["tau"], row["lambda"]) for row in greedy] == [
        *((tau, 0.5) for tau in (0.3, 0.4, 0.45, 0.5, 0.6, 0.8)),
        *((0.45, decay) for decay in (0.0, 0.25, 1.0)),
    ]
    found = {(row["tau"], row["lambda"]): row for row in greedy}
    assert found[0.3, 0.5]["accuracy"] == 0.6667
    assert found[0.4, 0.5]["accuracy"] == 0.3333
    assert found[0.8, 0.5]["granola_accuracy"] == 0.6667
    assert found[0.45, 0.0]["informativeness"] == 1
    assert found[0.45, 1.0]["informativeness"] == round((1 + 2 * math.exp(-1)) / 3, 4)
    # what says IDK matches nothing, what is not scored is not counted
    idk = next(row for row in rows if (row["setting"], row["tau"]) == ("idk", 0.3))
    assert (idk["n"], idk["accuracy"]) == (2, 0.5)
