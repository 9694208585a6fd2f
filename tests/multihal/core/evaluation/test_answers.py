"""Test the questions a model gets, the guesser's answers, and the pairs of texts to score."""

import numpy as np
import pytest

from factmill.tasks.core.completions import StrippedCompletion, strip_completion_wrappers
from factmill.tasks.multihal.core.evaluation.answers import (
    ANSWER_REPLY_FORM,
    choose_best_pair_score_row_per_answer,
    guess_commonest_answers_by_question_id,
    make_premise_answer_pairs,
    score_semantic_similarity,
)
from factmill.tasks.multihal.core.rows import MultiHalRow


def _row(question: str, language: str, output: str, source: str = "defan", path: int = 0) -> MultiHalRow:
    result = {"question_id": question, "language": language, "output": output, "source_dataset": source}
    return MultiHalRow.model_construct(id=f"{question}_{path}_{language}", **result)


def test_guess_is_commonest_answer_to_other_questions_of_source_and_language() -> None:
    rows = [
        _row("a", "eng", "1946"),
        _row("b", "eng", "1946"),
        _row("b", "eng", "1946", path=1),
        _row("c", "eng", "1950"),
        _row("d", "eng", "1950"),
        _row("a", "deu", "1946"),
        _row("e", "eng", "Bonn", source="simpleqa"),
    ]
    guesses = guess_commonest_answers_by_question_id(rows)
    # two questions each: for a question answered 1946 one other has 1946, and two have 1950
    assert (guesses["a", "eng"], guesses["b", "eng"]) == ("1950", "1950")
    assert (guesses["c", "eng"], guesses["d", "eng"]) == ("1946", "1946")
    # German, or that foundation, has no other question
    assert (guesses["a", "deu"], guesses["e", "eng"]) == ("", "")


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Answer: She was born in London.", "She was born in London."),
        ("**Antwort:** London", "London"),
        ("<think>London or Paris?</think>Réponse : Londres", "Londres"),
        ("Londres", "Londres"),
    ],
)
def test_answer_label_is_stripped_from_reply(reply: str, answer: str) -> None:
    said = strip_completion_wrappers(reply, "stop", ANSWER_REPLY_FORM)
    assert isinstance(said, StrippedCompletion)
    assert said.text == answer


def test_answer_is_paired_with_each_accepted_answer_prefixed_by_question() -> None:
    pairs = make_premise_answer_pairs(
        ["Who?", "Where?", "When?"], ["Ada", " ", "1843"], [["Ada", "", "Lovelace"], ["Rome"], []]
    )
    assert pairs == [[("Who? Ada", "Ada"), ("Who? Lovelace", "Ada")], [], []]


def test_highest_scoring_pair_counts_and_first_one_wins_ties() -> None:
    pairs = [[("a", "x"), ("b", "x")], [], [("a", "y"), ("b", "y"), ("c", "y")]]
    scores = np.array([[0.2, 0.7], [0.311, 0.1], [0.5004, 0.1], [0.4996, 0.9], [0.0, 0.3]])
    kept = choose_best_pair_score_row_per_answer(pairs, scores)
    np.testing.assert_array_equal(kept, [[0.31, 0.1], [np.nan, np.nan], [0.5, 0.1]])
    assert choose_best_pair_score_row_per_answer([[]], np.zeros((0, 1))).shape == (1, 1)


TEXTS = ["Bonn", "Berlin", "the city of Berlin", "Hauptstadt"]
# unit length, so that a product is a cosine: 0.6 · 1 = 0.6, 0.6 · 0.8 + 0.8 · 0.6 = 0.96
VECTORS = np.array([[0, 1], [1, 0], [0.8, 0.6], [0.6, 0.8]], np.float32)


def test_most_similar_accepted_answer_counts() -> None:
    scores, nearest = score_semantic_similarity(
        ["Hauptstadt", "Berlin"], [["Berlin", "the city of Berlin"]] * 2, TEXTS, VECTORS
    )
    assert scores.tolist() == [0.96, 1.0]
    assert nearest == ["the city of Berlin", "Berlin"]


def test_empty_answer_or_reference_has_no_score() -> None:
    texts, vectors = [*TEXTS, "", " "], np.vstack([VECTORS, np.full((2, 2), np.inf, np.float32)])
    scores, nearest = score_semantic_similarity(
        ["", " ", "Bonn", "Bonn"], [["Berlin"], ["Berlin"], [""], ["Berlin", " "]], texts, vectors
    )
    assert np.isnan(scores).tolist() == [True, True, True, False]
    assert (scores[3], nearest[3]) == (0.0, "Berlin")
