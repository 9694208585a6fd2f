"""When a sentence bears out a triple, by the rule; and what a cross-encoder is asked."""

import pytest
from support.rows.bio_answers import ADA, make_piece

from tasks.biokalma.core.evaluation.alignment import Claim, align_lexically, list_claims, make_claim, put_pair
from tasks.biokalma.core.evaluation.citations import read_citations
from tasks.core.authoring.pieces import Piece

BORN, _, POET, _, _, _, DATE, _ = ADA


@pytest.mark.parametrize(
    ("sentence", "piece", "is_aligned"),
    [
        ("She was born in London.", BORN, True),
        ("She was born in Londonderry.", BORN, False),
        ("They were poets.", POET, True),
        ("SHE WAS A POET", POET, True),
        ("She was born on December 10, 1815.", DATE, True),
        ("She was born in 1815.", DATE, False),
        ("She lived in Lodz.", make_piece("Q1", "residence", "Łódź", "P551", "Q580"), True),
        ("", POET, False),
        ("A poet. " * 10_000, POET, True),
    ],
)
def test_a_value_that_is_said_is_aligned(sentence: str, piece: Piece, is_aligned: bool) -> None:
    assert align_lexically(Claim(sentence, piece)) is is_aligned


def test_claims_are_all_that_scoring_asks() -> None:
    cited = read_citations("A poet [Q1, occupation: poet]. In London [NA]. On [NA] a day [Q1].", ADA)
    assert [(each.sentence, each.piece.value) for each in list_claims(cited, [BORN, DATE])] == [
        ("A poet.", "poet"), ("In London.", "London"), ("In London.", "1815-12-10"),
        ("On a day.", "London"), ("On a day.", "1815-12-10"),
    ]  # fmt: skip


def test_a_pair_is_the_sentence_and_the_triple_as_one() -> None:
    cited = read_citations("A poet [Q1, occupation: poet, award: Prize].", ADA)
    pairs = [put_pair(make_claim(cited, 0, each), {}) for each in cited.citations]
    assert pairs == [("A poet.", "This person's occupation is poet."), ("A poet.", "This person's award is Prize.")]
    assert put_pair(Claim("Born.", DATE), {})[1] == "This person's date of birth is 10 December 1815."
