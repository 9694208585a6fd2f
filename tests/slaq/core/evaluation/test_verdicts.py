"""Test parsing of a judge's verdicts on short and long answers."""

import pytest
from support.steps.replies import get_unreadable_reason, make_reader

from factmill.tasks.slaq.core.evaluation.verdicts import SLAQ_VERDICT_FORM, read_verdicts

hear_one = make_reader(SLAQ_VERDICT_FORM, read_verdicts, 1)
hear_five = make_reader(SLAQ_VERDICT_FORM, read_verdicts, 5)


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("Verdict: 1", 1),
        ("Verdict: 0", 0),
        ("verdict: 0.", 0),
        ("**Verdict:** 1", 1),
        ("**Verdict: 0**", 0),
        ("Verdict： １", 1),
        ("- Verdict: 1\n", 1),
        ("```\nVerdict: 1\n```", 1),
        ("1", 1),
        (" 0 \n", 0),
        ("[1]", 1),
        ("<think>Verdict: 1?</think>\nVerdict: 0", 0),
        ("Both name the Gardon.\n\nVerdict: 1", 1),
        # the last verdict counts, even after one that the judge quotes from the answer
        ("Verdict: 1\nThat was too quick: the year differs.\nVerdict: 0", 0),
        ('The answer says "Verdict: 1" of itself.\nVerdict: 0', 0),
        ("Verdict: 1\nVerdict: 1\nVerdict: 0", 0),
    ],
)
def test_last_verdict_in_completion_counts(reply: str, verdict: float) -> None:
    assert hear_one(reply) == (verdict,)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "says nothing"),
        ("The answer is right.", 'no line of the form "Verdict: 1"'),
        ("Verdict: right", "the last verdict is 'right'"),
        ("Verdict: 2", "the last verdict is '2'"),
        ("Verdict: 10", "the last verdict is '10'"),
        ("Verdict: 1 or 0", "the last verdict is '1 or 0'"),
        ("Verdict:", "the last verdict is ''"),
        ("Verdict: 1\nVerdict: unsure", "the last verdict is 'unsure'"),
        ("Verdicts: 1, 0", "verdicts in the last line: 2, expected 1"),
        ("0.5", "no line"),
        ("11", "the last verdict is '11'"),
    ],
)
def test_completion_without_verdict_is_unreadable_with_reason(reply: str, reason: str) -> None:
    assert reason in get_unreadable_reason(hear_one(reply))


@pytest.mark.parametrize(
    ("reply", "verdicts"),
    [
        ("Verdicts: 1, 0, 1, 1, 0", (1, 0, 1, 1, 0)),
        ("Verdicts: [1,0,1,1,0]", (1, 0, 1, 1, 0)),
        ("[1, 0, 1, 1, 0]", (1, 0, 1, 1, 0)),
        ("0,0,0,0,0", (0, 0, 0, 0, 0)),
        ("```json\n[1, 0, 1, 1, 0]\n```", (1, 0, 1, 1, 0)),
        ("Fact 3 is not there.\nVerdicts: 1, 1, 0, 1, 1", (1, 1, 0, 1, 1)),
        ("Verdicts: 1, 1, 1, 1, 1\nNo, the fourth differs.\nVerdicts: 1, 1, 1, 0, 1", (1, 1, 1, 0, 1)),
    ],
)
def test_five_verdicts_are_read_in_order(reply: str, verdicts: tuple[float, ...]) -> None:
    assert hear_five(reply) == verdicts


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("Verdicts: 1, 0, 1, 1", "verdicts in the last line: 4, expected 5"),
        ("Verdicts: 1, 0, 1, 1, 0, 1", "verdicts in the last line: 6, expected 5"),
        ("Verdict: 1", "verdicts in the last line: 1, expected 5"),
        ("Verdicts: 1, 0, 1, 1, x", "the last verdict is '1, 0, 1, 1, x'"),
        ("Verdicts: 1, 0, 1, 1, 0\nVerdicts: all right", "the last verdict is 'all right'"),
        ("10110", "the last verdict is '10110'"),
        ("1. right\n2. wrong\n3. right\n4. right\n5. wrong", "no line"),
    ],
)
def test_completion_without_exactly_five_verdicts_is_unreadable(reply: str, reason: str) -> None:
    assert reason in get_unreadable_reason(hear_five(reply))
