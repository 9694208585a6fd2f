"""Test formatting of pieces of knowledge."""

import pytest

from factmill.tasks.core.authoring.knowledge_pieces import (
    PersonKnowledgePiece,
    format_person_knowledge,
    replace_square_brackets_if_unpaired,
)


def make_piece(value: str) -> PersonKnowledgePiece:
    return PersonKnowledgePiece(
        qid="Q1", pid="P1", property="occupation", value_qid="Q9", value=value, precision=None, statement=None
    )


def test_person_knowledge_is_formatted_as_one_braced_line() -> None:
    pieces = [make_piece("writer"), make_piece("poet")]
    assert (
        format_person_knowledge("Ada\nLovelace", pieces)
        == "{qid: Q1, name: Ada Lovelace, occupation: writer, occupation: poet}"
    )


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("[REC]", "[REC]"),
        ("[REC", "(REC"),
        ("REC]", "REC)"),
        ("]a[", ")a("),
        ("[a [b]] c", "[a [b]] c"),
        ("a \n b", "a b"),
    ],
)
def test_unpaired_square_brackets_become_round(label: str, text: str) -> None:
    assert replace_square_brackets_if_unpaired(label) == text
