"""Test parsing of a judge's verdicts, and the program that judges."""

from typing import Any

import pytest
from support.steps.replies import make_reader

from factmill.tasks.core.completions import UnreadableCompletion
from factmill.tasks.fanoutqa.core.evaluation.grades import (
    JUDGE_GRADE_FORM,
    RIGHT_GRADES,
    choose_grade_letter_by_gold_strings,
    read_grade,
)
from factmill.tasks.fanoutqa.core.evaluation.strings.gold_answers import format_gold_answer

read_reply = make_reader(JUDGE_GRADE_FORM, read_grade)


@pytest.mark.parametrize(
    ("reply", "grade"),
    [
        ("Verdict: C", "C"),
        ("C", "C"),
        ("c\n", "C"),
        ("(B)", "B"),
        ("**E**", "E"),
        ('"D".', "D"),
        ("Ｂ", "B"),
        ("**Verdict:** A", "A"),
        ("**Final verdict: F**", "F"),
        ("- Grade: b.", "B"),
        ("It names both.\n\nC\n\nC", "C"),
        ("Reasons.\nThe correct answer is (B).", "B"),
        ("Final answer: E", "E"),
        ("So my verdict is D.", "D"),
        ("<think>Verdict: A?</think>\nB", "B"),
        # the last verdict counts
        ("Verdict: A\nThat was too quick.\nVerdict: D", "D"),
        ("A\nNo, it names more:\nB", "B"),
        ("The answer says 'Verdict: C' of itself.\nVerdict: F", "F"),
    ],
)
def test_last_grade_in_completion_counts(reply: str, grade: str) -> None:
    assert read_reply(reply) == grade


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "says nothing"),
        ("It is right.", "there is no verdict"),
        ("Verdict: G", "the last verdict is 'G'"),
        ("Verdict: B or C", "the last verdict is 'B or C'"),
        ("Verdict: C\nVerdict: unsure", "the last verdict is 'unsure'"),
        ("Verdict:", "the last verdict is ''"),
        ("(C) The submitted answer contains all the same details", "there is no verdict"),
        ("A subset of it.", "there is no verdict"),
        ("BCE", "there is no verdict"),
    ],
)
def test_completion_without_grade_is_unreadable_with_reason(reply: str, reason: str) -> None:
    said = read_reply(reply)
    assert isinstance(said, UnreadableCompletion)
    assert reason in said.reason


@pytest.mark.parametrize(
    ("gold", "answer", "grade"),
    [
        ({"Oslo": "$5 million", "Rome": True}, "Oslo - $5 million\nRome - yes", "C"),
        ({"Oslo": "$5 million"}, "In Oslo it came to 5,000,000 dollars, which is $5 million.", "B"),
        ({"Oslo": "5 million"}, "Oslo: 5,000,000", "C"),
        (["Ann", "Bob"], "Ann", "A"),
        (["Ann", "Bob"], "Carl and Dora", "D"),
        ("1990-05-03", "3 May 1990", "C"),
        ("Ann", "", "F"),
        (None, "Ann", "F"),
    ],
)
def test_exact_judge_grades_by_words_and_values(gold: Any, answer: str, grade: str) -> None:
    assert choose_grade_letter_by_gold_strings(answer, gold) in ({"B", "C"} if grade in RIGHT_GRADES else {grade})
    assert (choose_grade_letter_by_gold_strings(answer, gold) in RIGHT_GRADES) == (grade in RIGHT_GRADES)
    if gold is not None:
        assert choose_grade_letter_by_gold_strings(format_gold_answer(gold), gold) == "C"
