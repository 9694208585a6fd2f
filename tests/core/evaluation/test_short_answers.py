"""How a short answer is read, when it is right, and what is guessed."""

import pytest

from factmill.tasks.core.evaluation.answers import (
    CommonestAnswerGuesser,
    contains_accepted_answer,
    matches_accepted_answer,
    read_short_answer,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Voronezh", "Voronezh"),
        ("\n  Voronezh  \n", "Voronezh"),
        ("Voronezh\n\nIt lies in Russia.", "Voronezh"),
        ("Answer: Voronezh", "Voronezh"),
        ("**Answer:** Voronezh", "Voronezh"),
        ("All of them are German cities.\nAggregated answer: Germany", "Germany"),
        ("Answer: Hamburg\nThat does not fit.\nFinal answer: Germany", "Germany"),
        ("Incorrect aggregated answer: Hamburg", "Incorrect aggregated answer: Hamburg"),
        ("答えは東京です", "答えは東京です"),
        ("Answer： 東京", "東京"),
        ("The answer", "The answer"),
        ("", ""),
        (" \n ", ""),
    ],
)
def test_an_answer_is_read_off_its_reply(text: str, expected: str) -> None:
    assert read_short_answer(text) == expected


@pytest.mark.parametrize(
    ("answer", "accepted", "is_right"),
    [
        ("the Uffizi gallery.", ["Galleria", "Uffizi Gallery"], True),
        ("Uffizi", ["Uffizi Gallery"], False),
        ("The The", ["the the"], True),
        ("", ["The The"], False),
        ("A", ["The The"], False),
        ("Paris", [], False),
    ],
)
def test_an_answer_is_right_that_is_an_accepted_one_in_normal_form(
    answer: str, accepted: list[str], is_right: bool
) -> None:
    assert matches_accepted_answer(answer, accepted) == is_right


@pytest.mark.parametrize(
    ("gold", "guess"),
    [
        ("Rome", "Oslo"),  # Oslo twice, Rome once but for the question itself
        ("Oslo", "Rome"),  # then Oslo once, Rome twice
        ("Ulm", "Oslo"),  # both twice: by text
    ],
)
def test_the_commonest_answer_to_other_questions_is_guessed(gold: str, guess: str) -> None:
    golds = CommonestAnswerGuesser([("city", each) for each in ("Rome", "Rome", "Oslo", "Oslo", "Ulm")])
    assert golds.guess("city", gold) == guess


def test_nothing_is_guessed_where_no_other_question_is_of_the_kind() -> None:
    assert CommonestAnswerGuesser([("city", "Rome"), ("year", "1990")]).guess("year", "1990") == ""


@pytest.mark.parametrize(
    ("answer", "accepted", "is_right"),
    [
        ("It is paris, in France.", ["Paris"], True),
        ("Sao Paulo", ["São Paulo "], True),
        ("Parisian", ["Paris"], False),
        ("Lyon", [" "], False),
    ],
)
def test_an_answer_contains_an_accepted_one_whatever_its_case_and_accents(answer, accepted, is_right):
    assert contains_accepted_answer(answer, accepted) == is_right
