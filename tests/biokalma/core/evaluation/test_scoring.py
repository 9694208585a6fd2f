"""Test whether a sentence supports a triple, and counts of citations and marks, by hand and by the public script."""

from typing import Any

import pytest
from support.rows.bio_answers import ADA, make_piece

from factmill.tasks.biokalma.core.citations import read_sentences_and_citations
from factmill.tasks.biokalma.core.evaluation.rows import CitationCounts, CitationScorer
from factmill.tasks.biokalma.core.evaluation.scoring import (
    SentenceAlignmentClaim,
    is_aligned_lexically,
    list_claims_of_citations_and_na_marks,
    make_alignment_claim,
    make_entailment_pair,
    score_citations,
)
from factmill.tasks.core.authoring.knowledge_pieces import PersonKnowledgePiece

BORN, MATHS, POET, DATE, CHILD = (ADA[at] for at in (0, 1, 2, 6, 7))


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
def test_lexical_alignment_requires_value_in_sentence(
    sentence: str, piece: PersonKnowledgePiece, is_aligned: bool
) -> None:
    assert is_aligned_lexically(SentenceAlignmentClaim(sentence, piece)) is is_aligned


def test_alignment_claims_cover_citations_and_missing_marks() -> None:
    cited = read_sentences_and_citations("A poet [Q1, occupation: poet]. In London [NA]. On [NA] a day [Q1].", ADA)
    assert [(each.sentence, each.piece.value) for each in list_claims_of_citations_and_na_marks(cited, [BORN, DATE])] == [
        ("A poet.", "poet"), ("In London.", "London"), ("In London.", "1815-12-10"),
        ("On a day.", "London"), ("On a day.", "1815-12-10"),
    ]  # fmt: skip


def test_entailment_pair_consists_of_sentence_and_verbalised_triple() -> None:
    cited = read_sentences_and_citations("A poet [Q1, occupation: poet, award: Prize].", ADA)
    pairs = [make_entailment_pair(make_alignment_claim(cited, 0, each), {}) for each in cited.citations]
    assert pairs == [("A poet.", "This person's occupation is poet."), ("A poet.", "This person's award is Prize.")]
    assert (
        make_entailment_pair(SentenceAlignmentClaim("Born.", DATE), {})[1]
        == "This person's date of birth is 10 December 1815."
    )


MINIMUM = [BORN, POET, CHILD]


def score(
    answer: str, scorer: CitationScorer = "fixed", given: list[PersonKnowledgePiece] = ADA, **changed: Any
) -> CitationCounts:
    result = {"minimum": MINIMUM, "removed": []} | changed
    cited, minimum, removed = read_sentences_and_citations(answer, given), result["minimum"], result["removed"]
    _, counts = score_citations(cited, given, minimum, removed, is_aligned_lexically, scorer)
    return counts


def read(counts: CitationCounts) -> tuple[int, ...]:
    return counts.cited, counts.correct, counts.needed, counts.found, counts.malformed, counts.near


@pytest.mark.parametrize(
    ("citations", "expected"),
    [
        # cited, correct, needed, found, malformed, near
        ("", (0, 0, 0, 0, 0, 0)),
        ("[NA]", (0, 0, 0, 0, 0, 0)),
        ("[Q1, place of birth: London]", (1, 1, 1, 1, 0, 0)),
        ("[Q1, occupation: mathematician]", (1, 1, 0, 0, 0, 0)),
        ("[Q1, occupation: painter]", (1, 0, 0, 0, 0, 0)),
        # cited twice: both count, the piece is found once
        ("[Q1, occupation: poet] [Q1, occupation: poet]", (2, 2, 2, 1, 0, 0)),
        ("[Q1, place of birth: London, occupation: poet, occupation: mathematician, award: X]", (4, 3, 2, 2, 0, 0)),
        ("[Q2, occupation: poet]", (1, 0, 0, 0, 0, 0)),
        ("[Q1] [Q1, occupation: poet", (2, 0, 0, 0, 2, 0)),
        ("[Q1, Occupation: poet] [Q1, occupation: Poet] [Q1, residence: París]", (3, 0, 0, 0, 0, 3)),
        ("[Q1, date of birth: 10 December 1815] [Q1, date of birth: 1815]", (2, 0, 0, 0, 0, 1)),
        ("[Q1, P106: Q49757]", (1, 1, 1, 1, 0, 0)),
    ],
)  # fmt: skip
def test_score_counts_cited_correct_needed_and_found_pieces(citations: str, expected: tuple[int, ...]) -> None:
    counts = score(f"She was {citations}.")
    assert (read(counts), counts.minimum) == (expected, 3)


def test_removed_piece_stays_in_minimum_and_its_citation_is_incorrect() -> None:
    given = [piece for piece in ADA if piece != POET]
    counts = score("A [Q1, occupation: poet]. B [Q1, place of birth: London].", given=given, removed=[POET])
    assert (read(counts), counts.minimum, counts.removed) == ((2, 1, 1, 1, 0, 0), 3, 1)


def test_two_pieces_with_same_label_are_both_found() -> None:
    twins = [make_piece("Q1", "residence", "Paris", "P551", qid) for qid in ("Q90", "Q830149")]
    counts = score("She [Q1, residence: Paris].", given=twins, minimum=twins)
    assert (counts.correct, counts.needed, counts.found, counts.minimum) == (1, 1, 2, 2)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        # marked, right, found
        ("She was a poet [NA]. She lived in London [NA].", (2, 2, 2)),
        ("She was a poet [NA] in London [NA].", (1, 1, 2)),
        ("She was a poet. She lived in London.", (0, 0, 0)),
        ("She was a queen [NA]. She lived in London [NA].", (2, 1, 1)),
        ("She was a poet [NA]. A poet she was [NA].", (2, 2, 1)),
        ("[NA]", (1, 0, 0)),
    ],
)
def test_missing_marks_are_checked_against_removed_pieces(answer: str, expected: tuple[int, ...]) -> None:
    counts = score(answer, given=[MATHS], removed=[BORN, POET])
    assert (counts.marked, counts.marked_right, counts.removed_found, counts.removed) == (*expected, 2)


def test_each_citation_records_whether_it_is_correct_needed_and_aligned() -> None:
    cited = read_sentences_and_citations(
        "A poet [Q1, occupation: poet] in London [NA]. She sang [Q1, award: X] [NA].", ADA
    )
    held, _ = score_citations(cited, [POET, BORN], [BORN], [BORN, DATE], is_aligned_lexically)
    found = [(each.is_correct, each.is_needed, each.is_aligned) for each in held]
    assert found == [(True, False, True), (None, None, True), (False, False, False), (None, None, False)]


def test_alignment_compares_each_citation_with_its_own_sentence() -> None:
    counts = score("She was a poet [Q1, occupation: poet]. She sang [Q1, place of birth: London, award: X]. [Q1]")
    assert (counts.triples, counts.aligned, counts.cited) == (3, 1, 4)


@pytest.mark.parametrize(
    ("citations", "given", "expected"),
    [
        # cited, correct, needed, found: precision ignores correctness, and a second citation lowers it
        ("[Q1, occupation: poet] [Q1, occupation: poet]", ADA, (2, 2, 1, 1)),
        ("[Q1, occupation: poet]", [MATHS], (1, 0, 1, 1)),
        # a QID is the text before the first comma, so this one names no item
        ("[qid: Q1, occupation: poet]", ADA, (1, 0, 0, 0)),
        ("[Q1, notable work: Notes, part: G [draft]]", ADA, (2, 0, 0, 0)),
        ("[Q1, award: X, occupation: poet]", ADA, (2, 1, 1, 1)),
        ("[Q1] [Q1, occupation: poet", ADA, (0, 0, 0, 0)),
        ("[q1, occupation: poet]", ADA, (1, 0, 0, 0)),
        ("[NA] [1]", ADA, (0, 0, 0, 0)),
    ],
)
def test_upstream_scorer_matches_public_script(
    citations: str, given: list[PersonKnowledgePiece], expected: tuple[int, ...]
) -> None:
    counts = score(f"She was {citations}.", "upstream", given)
    assert (counts.cited, counts.correct, counts.needed, counts.found, counts.is_left_out) == (*expected, False)


@pytest.mark.parametrize(
    ("citations", "expected", "fixed"),
    [
        # cited, correct, needed, found; with the scorer fixed: cited, correct
        ("[Q1, name: Ada Lovelace, occupation: poet]", (2, 2, 1, 1), (1, 1)),
        ("[Q1, name: Ada, occupation: poet]", (2, 1, 1, 1), (1, 1)),
        ("[Q2, name: Ada Lovelace, child: Ada Lovelace]", (2, 1, 1, 1), (1, 1)),
        ("[Q1, occupation: poet, name: Ada Lovelace]", (2, 2, 1, 1), (1, 1)),
        ("[Q1, name: Ada Lovelace]", (1, 1, 0, 0), (1, 0)),
        ("[Q9, name: Ada Lovelace, occupation: poet]", (2, 0, 0, 0), (1, 0)),
    ],
)
def test_upstream_scorer_counts_cited_name_as_correct_if_it_is_in_graph(
    citations: str, expected: tuple[int, ...], fixed: tuple[int, int]
) -> None:
    cited = read_sentences_and_citations(f"She was {citations}.", ADA)
    names = {"Q1": "Ada Lovelace", "Q2": "Lord Byron"}
    _, counts = score_citations(cited, ADA, MINIMUM, [], is_aligned_lexically, "upstream", names)
    assert (counts.cited, counts.correct, counts.needed, counts.found) == expected
    _, counts = score_citations(cited, ADA, MINIMUM, [], is_aligned_lexically, "fixed", names)
    assert (counts.cited, counts.correct) == fixed


def test_upstream_scorer_leaves_out_empty_answers_and_empty_graphs() -> None:
    assert score("She [Q1, occupation: poet].", "upstream", []).is_left_out
    assert score("", "upstream").is_left_out
    assert not score("", "fixed").is_left_out
    assert not score("She.", "fixed", []).is_left_out
