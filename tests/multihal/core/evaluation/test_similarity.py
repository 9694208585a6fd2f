"""The semantic score of an answer is its cosine with the nearest of the accepted ones."""

import numpy as np

from tasks.multihal.core.evaluation.similarity import score_answers

TEXTS = ["Bonn", "Berlin", "the city of Berlin", "Hauptstadt"]
# of length 1, so that a product is a cosine: 0.6 · 1 = 0.6, 0.6 · 0.8 + 0.8 · 0.6 = 0.96
VECTORS = np.array([[0, 1], [1, 0], [0.8, 0.6], [0.6, 0.8]], np.float32)


def test_the_nearest_accepted_answer_counts() -> None:
    scores, nearest = score_answers(["Hauptstadt", "Berlin"], [["Berlin", "the city of Berlin"]] * 2, TEXTS, VECTORS)
    assert scores.tolist() == [0.96, 1.0]
    assert nearest == ["the city of Berlin", "Berlin"]


def test_where_nothing_is_said_or_accepted_there_is_no_score_and_none_is_infinite() -> None:
    texts, vectors = [*TEXTS, "", " "], np.vstack([VECTORS, np.full((2, 2), np.inf, np.float32)])
    scores, nearest = score_answers(
        ["", " ", "Bonn", "Bonn"], [["Berlin"], ["Berlin"], [""], ["Berlin", " "]], texts, vectors
    )
    assert np.isnan(scores).tolist() == [True, True, True, False]
    assert (scores[3], nearest[3]) == (0.0, "Berlin")
