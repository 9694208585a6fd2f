"""Test units that a judge adds: which they are, and whether the evidence has them next to the numbers."""

import pytest

from factmill.tasks.fanoutqa.core.wording_checks import (
    find_added_units,
    find_numeric_answer_passage,
    find_unit_support_problem,
)
from factmill.tasks.text.values.answer_search import AnswerValue

HIGH = "What are the height of the five tallest towers of Austria?"


@pytest.mark.parametrize(
    ("question", "rewrite", "units"),
    [
        (HIGH, "What are the heights in metres of the five tallest towers of Austria?", ["metres"]),
        (HIGH, "What are the heights of the five tallest towers of Austria, in feet?", ["feet"]),
        (HIGH, "What are the heights (in m) of the five tallest towers of Austria?", ["m"]),
        (HIGH, "What are the heights of the five tallest towers in Austria?", []),
        ("How high is a oak?", "How many metres high is an oak?", ["metres"]),
        ("What did each cost?", "What did each cost in US dollars?", ["US dollars"]),
        ("how deep is the lakes?", "How deep are the lakes, in square furlongs?", ["square furlongs"]),
        ("how hot is it", "How hot is it in degrees Celsius?", ["degrees Celsius"]),
        ("What is the area in km?", "What is the area in square kilometres?", ["square kilometres"]),
        ("How tall in metres is it?", "How tall is it, in metres?", []),
        ("What year did it open?", "In which year did it open?", []),
        ("Who won the the race?", "Who won the race in London?", []),
    ],
)
def test_added_units_are_found_in_any_form(question: str, rewrite: str, units: list[str]) -> None:
    assert find_added_units(question, rewrite) == units


PROSE, TABLE = "It is 252 m (827 ft) high and was opened in 1964.", "Height\n\n252\n\nOpened\n\n1964"


@pytest.mark.parametrize(
    ("unit", "answer", "text", "messages"),
    [
        ("metres", 252, PROSE, None),
        ("metres", "252 m", PROSE, None),
        ("feet", 827, PROSE, None),
        ("feet", 252, PROSE, 'Donauturm does not say "252 feet"'),
        ("feet", "252 m", PROSE, 'Donauturm does not say "252 feet"'),
        ("furlongs", 252, PROSE, 'Donauturm does not say "252 furlongs"'),
        ("metres", 252, TABLE, 'Donauturm does not say "252 metres"'),
        ("metres", [252, 1964], PROSE, None),
        ("metres", 1964, PROSE, 'Donauturm does not say "1964 metres"'),
        ("metres", "Vienna", PROSE, 'no sub-answer is a number, which "metres" could stand beside'),
        ("metres", "16 April 1964", PROSE, 'no sub-answer is a number, which "metres" could stand beside'),
    ],
)
def test_unit_must_accompany_number_of_every_sub_answer_in_article(
    unit: str, answer: AnswerValue, text: str, messages: str | None
) -> None:
    assert (
        find_unit_support_problem(
            unit, [("Vienna", "a city", "Vienna lies on the Danube."), ("Donauturm", answer, text)]
        )
        == messages
    )


def test_passage_is_sentence_that_contains_number() -> None:
    text = f"Donauturm\n\nThe tower stands in Vienna. {PROSE} Many visit it.\n\n252"
    assert find_numeric_answer_passage(252, text) == PROSE
    assert find_numeric_answer_passage("Vienna", text) == find_numeric_answer_passage(253, text) == ""
    assert len(find_numeric_answer_passage(252, "252 m is " + 400 * "very " + "high.")) == 300
