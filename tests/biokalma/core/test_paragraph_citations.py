"""Test which citations of an annotated paragraph count: pieces of the pool that their sentence supports."""

import pytest
from support.rows.biographies import make_piece

from factmill.tasks.biokalma.core.author_replies import (
    StatedAndUnstatedCitedPieces,
    find_stated_and_unstated_cited_pieces,
)
from factmill.tasks.biokalma.core.citations import read_sentences_and_citations
from factmill.tasks.core.authoring.knowledge_pieces import PersonKnowledgePiece


def classify(text: str, *pool: PersonKnowledgePiece) -> StatedAndUnstatedCitedPieces:
    names = {"Q1": "Ada Lovelace", "Q2": "George Byron"}
    return find_stated_and_unstated_cited_pieces(read_sentences_and_citations(text, pool), pool, names)


def test_value_in_another_sentence_does_not_support_citation() -> None:
    pool = [make_piece("Q1", "residence", "London", "Q84"), make_piece("Q2", "place of death", "Dover", "Q9")]
    text = "Ada Lovelace wrote. [qid: Q1, residence: London] George Byron died in Dover [qid: Q2, place of death: Dover] near London."
    found = classify(text, *pool)
    assert (found.pieces, found.unstated, found.unknown_citations) == ((pool[1],), (pool[0],), 0)


@pytest.mark.parametrize(
    ("text", "value", "is_stated"),
    [
        ("She was born in Łódź{}.", "Lodz", True),
        ("Both film actors{} met.", "film actor", True),
        ("She played the Hamlet{} part.", "Hamlet (play)", True),
        ("She admired Robert Louis Stevenson{}.", "Robert Stevenson", True),
        ("She spoke French{}.", "France", False),
        ("She was born in Paris{}.", "Paris, Texas", False),
        ("She met the poet Byron{}.", "George Gordon Byron", True),
        ("He{} was her father, and George Byron was his name.", "George Gordon Byron", True),
    ],
)
def test_label_is_stated_as_reader_would_understand_it(text: str, value: str, is_stated: bool) -> None:
    piece = make_piece("Q1", "work", value, "Q2" if "Byron" in value else "Q9")
    found = classify(text.format(f" [qid: Q1, work: {value}]"), piece)
    assert (found.pieces == (piece,), found.unstated == (piece,)) == (is_stated, not is_stated)


@pytest.mark.parametrize(
    ("written", "is_stated"),
    [("10 December 1815", True), ("December 10, 1815", True), ("1815-12-10", True), ("1815", False), ("1816", False)],
)
def test_date_is_stated_in_any_format_but_not_less_precisely(written: str, is_stated: bool) -> None:
    piece = make_piece("Q1", "born", "1815-12-10", precision=11)
    text = f"Ada Lovelace was born on {written} [qid: Q1, born: 1815-12-10]."
    assert (classify(text, piece).pieces == (piece,)) is is_stated


def test_piece_cited_twice_counts_where_it_is_stated() -> None:
    piece = make_piece("Q1", "work", "painter", "Q9")
    cited = "[qid: Q1, work: painter]"
    for text in (f"She wrote {cited}. She was a painter {cited}.", f"She was a painter {cited}. She wrote {cited}."):
        found = classify(text, piece)
        assert (found.pieces, found.unstated) == ((piece,), ())


@pytest.mark.parametrize(
    ("stated", "unstated", "is_overdone"), [(1, 2, False), (0, 3, True), (3, 3, False), (3, 4, True)]
)
def test_annotation_with_mostly_unstated_pieces_is_flagged(stated: int, unstated: int, is_overdone: bool) -> None:
    pool = [make_piece("Q1", "work", f"job{number}", f"Q{number + 10}") for number in range(stated + unstated)]
    cited = "".join(f"[qid: Q1, work: {piece.value}]" for piece in pool)
    text = f"She was {' and '.join(piece.value for piece in pool[:stated])} {cited}."
    assert classify(text, *pool).is_mostly_unstated is is_overdone


@pytest.mark.parametrize(
    ("text", "stated", "removed"),
    [
        ("A writer [Q1, occupation: writer]", ["writer"], 0),
        ("A writer [Q1, occupation: writer, work: Rec] [Q1, occupation: writer]", ["writer"], 1),
        ("She made (REC [Q1, work: (REC]", ["[REC"], 0),
        ("A poet [Q2, occupation: writer, occupation: Poet, work: poet] [Q1]", [], 3),
        ("A poet [Q2, occupation: poet] [NA] and writer [Q1, occupation: writer]", ["poet", "writer"], 0),
        ("A writer [Q1, occupation: ] [occupation: poet] [Q1, occupation: writer", [], 3),
    ],
)
def test_only_pool_pieces_are_cited_and_others_are_counted_as_removed(
    text: str, stated: list[str], removed: int
) -> None:
    pool = [
        make_piece("Q1", "occupation", "writer", "Q9"),
        make_piece("Q2", "occupation", "poet", "Q8"),
        make_piece("Q1", "work", "[REC", "Q7"),
    ]
    found = classify(text, *pool)
    assert ([piece.value for piece in found.pieces], found.unknown_citations) == (stated, removed)


@pytest.mark.parametrize(
    ("cited", "held", "is_same"),
    [
        ("8 July 1593", "1593-07-08", True),
        ("July 8, 1593", "1593-07-08", True),
        ("1593", "1593-07-08", False),
        ("1593-07-08", "1593", False),
        ("44 BCE", "44 BC", True),
        ("44", "44 BC", False),
        ("15 March 44 BC", "0044-03-15 BC", True),
        ("5th-century BC", "5th century BC", True),
        ("1590s", "1593", False),
    ],
)
def test_cited_dates_are_compared_as_dates_not_text(cited: str, held: str, is_same: bool) -> None:
    piece = make_piece("Q1", "born", held, precision=11)
    found = classify(f"She was born on {held} [Q1, born: {cited}].", piece)
    assert (len(found.pieces) + len(found.unstated), found.unknown_citations) == ((1, 0) if is_same else (0, 1))
