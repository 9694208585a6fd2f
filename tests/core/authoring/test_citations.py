"""How pieces of knowledge are told."""

import pytest

from factmill.tasks.core.authoring.knowledge_pieces import (
    PersonKnowledgePiece,
    format_person_knowledge,
    replace_unpaired_square_brackets,
)


def make_piece(value: str) -> PersonKnowledgePiece:
    return PersonKnowledgePiece(
        qid="Q1", pid="P1", property="occupation", value_qid="Q9", value=value, precision=None, statement=None
    )


def test_knowledge_is_told_as_one_line_in_braces() -> None:
    pieces = [make_piece("writer"), make_piece("poet")]
    assert (
        format_person_knowledge("Ada\nLovelace", pieces)
        == "{qid: Q1, name: Ada Lovelace, occupation: writer, occupation: poet}"
    )


@pytest.mark.parametrize(
    ("label", "told"),
    [
        ("[REC]", "[REC]"),
        ("[REC", "(REC"),
        ("REC]", "REC)"),
        ("]a[", ")a("),
        ("[a [b]] c", "[a [b]] c"),
        ("a \n b", "a b"),
    ],
)
def test_brackets_that_do_not_pair_are_told_round(label: str, told: str) -> None:
    assert replace_unpaired_square_brackets(label) == told
