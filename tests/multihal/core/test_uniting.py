"""Questions are one only where they ask the same: near embeddings alone do not tell 2018 from 2019."""

import numpy as np
import pytest
from support.rows.questions import typed_question

from tasks.core.vectors.duplicates import find_duplicates
from tasks.multihal.core.uniting import is_alike, keep_alike


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Where did CVPR take place in 2019?", "Where did CVPR take place in 2018?"),
        ("Where did CVPR take place in 2019?", "Where did ECCV take place in 2019?"),
        ("Who won the first World Cup?", "Who won the second World Cup?"),
        ("How many moons have the two giants?", "How many moons have the three giants?"),
        ("What is vitamin A?", "What is vitamin B?"),
        ("Who designed the Boeing 737-800?", "Who designed the Boeing 737-900?"),
        ("Which virus is H5N1?", "Which virus is H1N1?"),
        ("Who crowned Henry V?", "Who crowned Henry VI?"),
        ('Who sang "One Last Dance"?', 'Who sang "One More Dance"?'),
        ("Who wrote 'the raven'?", "Who wrote 'the river'?"),
        ("How did trade go from 1990 to 1995?", "How did trade go from 1995 to 1990?"),
        ("What happened in the 1950s?", "What happened in the 1960s?"),
        ("Who was born on 5 May 1901?", "Who was born on 6 May 1901?"),
        ("Who ruled in 44 BC?", "Who ruled in 44?"),
        ("What is the capital of Austria?", "What is the capital of Australia?"),
        ("What is the capital of Congo?", "What is the capital of East Congo?"),
    ],
)
def test_questions_with_another_particular_are_two(one: str, other: str) -> None:
    assert not is_alike(one, other)
    assert not is_alike(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('Who actually said, "Let them eat cake"?', 'Who actually said,"Let them eat cake"?'),
        ("Where is Walt Disney's body?", "where is walt disney's body"),
        ("When was the treaty signed?", "On what day was the treaty signed?"),
        ("Who won in 1,000 metres?", "Who won in 1000 metres?"),
        ("Who led the two largest parties?", "Who led the 2 largest parties?"),
    ],
)
def test_questions_that_differ_in_spelling_are_one(one: str, other: str) -> None:
    assert is_alike(one, other)
    assert is_alike(other, one)


def test_pairs_of_two_questions_are_left_out() -> None:
    texts = ("Where was it in 2018?", "Where was it in 2019?", "Where was it, in 2018?")
    rows = [typed_question(f"q{at}", text) for at, text in enumerate(texts)]
    found = keep_alike(rows, find_duplicates(np.ones((3, 2), np.float32)))
    assert list(zip(found.first.tolist(), found.second.tolist(), strict=True)) == [(0, 2)]
    assert found.find_leaders() == [0, 1, 0]
    assert len(keep_alike(rows[:1], find_duplicates(np.ones((1, 2), np.float32))).first) == 0
