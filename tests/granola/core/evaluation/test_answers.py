"""Test which answers count as "I don't know", and aggregation of several answers."""

import pytest

from factmill.tasks.granola.core.evaluation.scoring import (
    choose_majority_answer,
    format_samples,
    is_only_idk_or_refusal,
)


@pytest.mark.parametrize(
    "answer",
    [
        "IDK", "idk.", "I.D.K.", "**IDK**", "ＩＤＫ", "I don't know", "I don’t know.", "I do not know",
        "I dont know the answer to this question.", "I really don't know who wrote it.", "Sorry, I don't know.",
        "I'm sorry, but I don't know the answer.", "I'm not sure.", "I am not certain of the answer", "Not sure",
        "Unknown", "No idea", "N/A", "n.a.", "I cannot determine where he was born.", "I can't answer that",
        "I don't have enough information to answer.", "I have no information about this person.",
        "IDK (I am not certain)", "I'm sorry, but I can't help with that.",
    ],
)  # fmt: skip
def test_idk_and_refusals_are_recognised_in_many_wordings(answer: str) -> None:
    assert is_only_idk_or_refusal(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "", "London", "Unknown Pleasures", "No Idea Records", "Na", "I don't know, but probably London",
        "I am not sure; it may be London", "IDK, maybe Paris", "an unknown poet", "Notsure",
    ],
)  # fmt: skip
def test_answers_and_guesses_are_not_idk(answer: str) -> None:
    assert not is_only_idk_or_refusal(answer)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (["Bonn", "bonn.", "Berlin"], "Bonn"),
        (["Berlin", "the Bonn", "Bonn"], "the Bonn"),
        (["Hamburg", "Bonn", "Berlin"], "Hamburg"),
        (["Hamburg", "Bonn", "Bonn", "Hamburg"], "Hamburg"),
        (["Paris", "IDK", "I don't know"], "IDK"),
        (["", "", "Paris"], "Paris"),
        (["The The", "the the", "A"], "The The"),
        (["", " "], ""),
        ([], ""),
    ],
)
def test_majority_answer_wins_and_ties_go_to_first_sample(samples: list[str], expected: str) -> None:
    assert choose_majority_answer(samples) == expected


def test_samples_are_formatted_one_per_line() -> None:
    assert format_samples(["Hamburg", " ", "Bonn\non the Rhine"]) == "- Hamburg\n- Bonn on the Rhine"
