"""Refusals: the whole answer, whatever its case and its quotation marks."""

import pytest

from tasks.assets import load_list
from tasks.multihal.core.refusals import is_refusal, read_refusals


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        ("I have no comment", True),
        ("  i HAVE no  comment\n", True),
        ("I'm an AI", True),
        ("I’m an AI", True),
        ("I don‘t have", True),
        ("Nothing happens", True),
        ("I have no comment on that", False),
        ("I have no comment.", False),
        ("Nothing in particular happens", False),
        ("", False),
    ],
)
def test_only_a_whole_answer_is_a_refusal(answer: str, refused: bool) -> None:
    assert is_refusal(answer, read_refusals(load_list("refusals"))) is refused


def test_the_list_has_the_phrases_of_the_paper() -> None:
    assert len(read_refusals(load_list("refusals"))) == 9
