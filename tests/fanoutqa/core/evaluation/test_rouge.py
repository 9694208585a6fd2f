"""Test ROUGE of answers against rouge-score."""

import math
from functools import cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from factmill.tasks.fanoutqa.core.evaluation.scoring import ROUGE_KINDS, compute_rouge_f1_scores
from factmill.tasks.fanoutqa.core.evaluation.strings.gold_answers import format_gold_answer

words = st.lists(
    st.sampled_from(["a", "b", "c", "Running", "runs", "1,234", "$5", "é", "movies", "-", "\n"]), max_size=12
).map(" ".join)


@cache
def library() -> Any:
    # this imports NLTK and scikit-learn, which other test processes do not need
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(ROUGE_KINDS, use_stemmer=True)


@given(words, words)
def test_rouge_scores_match_rouge_library(answer: str, gold: str) -> None:
    theirs = library().score(gold, answer)
    for kind, values in compute_rouge_f1_scores([answer], [gold]).items():
        if math.isnan(values[0]):
            assert not any(character.isascii() and character.isalnum() for character in gold)
        else:
            assert values[0] == theirs[kind].fmeasure


def test_dict_gold_answers_are_compared_as_lines() -> None:
    gold = {"Ann": 5, "Bob": [True, None]}
    assert format_gold_answer(gold) == "Ann - 5\nBob - yes\n"
    found = compute_rouge_f1_scores(["ann 5 bob yes", "ann 5", ""], [gold] * 3)
    assert {kind: values.tolist() for kind, values in found.items()} == {
        "rouge1": [1, 2 / 3, 0],
        "rouge2": [1, 0.5, 0],
        "rougeL": [1, 2 / 3, 0],
    }


def test_one_word_gold_answer_has_rouge2_of_0_as_in_library() -> None:
    assert (
        compute_rouge_f1_scores(["Paris"], ["Paris"])["rouge2"].tolist()
        == [library().score("Paris", "Paris")["rouge2"].fmeasure]
        == [0]
    )


def test_scores_very_long_answer() -> None:
    assert compute_rouge_f1_scores(["a b c d " * 100_000], ["a b c " * 50])["rougeL"][0] > 0
