"""Amounts, subjects and second answers, as the checks of pairs see them."""

import pytest

from tasks.assets import load_list
from tasks.slaq.core.checks import check_answer, check_question
from tasks.slaq.core.known_text import read_article, read_lists
from tasks.slaq.core.several import find_other_answer

LISTS = read_lists(load_list("source_phrases"), load_list("one_of_many"), load_list("function_words"))
LENS = """The achromatic lens was invented by Chester Moor Hall. Hall's lens was about 1.02 metres long and cost US$4.5 million.
A copy was bought by the United States of America. The first English edition of the Optics was printed in Paris, the second English edition in Rome.
Dollond and Bird ground it in roughly eight days. It weighed some 30 pounds and 30 pounds of brass were lost. At about noon it broke. It rolled more than 90 metres."""
LENS_ARTICLE = read_article(LENS)


@pytest.mark.parametrize(
    "answer",
    [
        "about 1.02 m",
        "roughly 1.02 meters",
        "approximately 1.02 metres",
        "4.5 million dollars",
        "$4.5 million",
        "4,500,000 US dollars",
        "the United States",
        "the USA",
        "about eight days",
        "at about noon",
    ],
)
def test_units_money_and_countries_are_the_same_however_written(answer: str) -> None:
    assert [problem.code for problem in check_answer(answer, LENS_ARTICLE, LISTS)] == []


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("1.02 metres", "approximation_lost"),
        ("1.02", "approximation_lost"),
        ("eight days", "approximation_lost"),
        ("about 4.5 million dollars", "answer_not_in_article"),
        ("about 1.02 feet", "answer_not_in_article"),
        ("4.5 million pounds", "answer_not_in_article"),
        ("4.5 dollars", "answer_not_in_article"),
        ("30 pounds", None),
        ("90 metres", "approximation_lost"),
        ("more than 90 metres", None),
    ],
)
def test_about_and_roughly_are_part_of_a_number(answer: str, code: str | None) -> None:
    codes = [problem.code for problem in check_answer(answer, LENS_ARTICLE, LISTS)]
    assert codes == ([code] if code else [])


@pytest.mark.parametrize(
    ("question", "is_named"),
    [
        ("Who invented the achromatic lens?", True),
        ("Who invented achromatic lenses?", False),
        ("Who ground the lens?", False),
        ("Who printed the first edition?", False),
        ("Who bought the achromatic glass?", False),
    ],
)
def test_a_subject_may_be_a_term_written_small(question: str, is_named: bool) -> None:
    codes = [problem.code for problem in check_question(question, "Optics (book)", LENS_ARTICLE, LISTS)]
    assert codes == ([] if is_named else ["subject_missing"])


@pytest.mark.parametrize(
    ("question", "answer", "told"),
    [
        (
            "In which city was the English edition of the Optics printed?",
            "Paris",
            "a first and a second 'english edition'",
        ),
        ("In which city was the first English edition of the Optics printed?", "Paris", None),
        ("Who ground the achromatic lens?", "Dollond", "together with 'Bird'"),
        ("Who ground the achromatic lens?", "Bird", "together with 'Dollond'"),
        ("Who ground the achromatic lens with Bird?", "Dollond", None),
        ("Who ground the achromatic lens?", "Dollond and Bird", None),
        ("Who invented the achromatic lens?", "Chester Moor Hall", None),
    ],
)
def test_a_question_with_two_right_answers_is_seen(question: str, answer: str, told: str | None) -> None:
    found = find_other_answer(question, answer, LENS_ARTICLE, LISTS)
    assert told in found if told and found else (told, found) == (None, None), found
