"""Which citations the paragraph bears out."""

import pytest
from support.rows.biographies import make_piece

from tasks.biokalma.core.stated import find_stated
from tasks.core.authoring.citations import parse_citations

NAMES = {"Q1": "Ada Lovelace", "Q2": "George Byron"}


def test_a_value_in_another_sentence_is_not_what_is_cited() -> None:
    pool = [make_piece("Q1", "residence", "London", "Q84"), make_piece("Q2", "place of death", "Dover", "Q9")]
    text = "Ada Lovelace wrote. [qid: Q1, residence: London] George Byron died in Dover [qid: Q2, place of death: Dover] near London."
    found = find_stated(parse_citations(text, {"residence", "place of death"}), pool, NAMES)
    assert (found.pieces, found.unstated, found.removed) == ((pool[1],), (pool[0],), 0)


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
def test_a_label_is_stated_as_a_reader_would_take_it(text: str, value: str, is_stated: bool) -> None:
    qid = "Q2" if "Byron" in value else "Q9"
    piece = make_piece("Q1", "work", value, qid)
    found = find_stated(parse_citations(text.format(f" [qid: Q1, work: {value}]"), {"work"}), [piece], NAMES)
    assert (found.pieces == (piece,), found.unstated == (piece,)) == (is_stated, not is_stated)


@pytest.mark.parametrize(
    ("written", "is_stated"),
    [("10 December 1815", True), ("December 10, 1815", True), ("1815-12-10", True), ("1815", False), ("1816", False)],
)
def test_a_date_is_stated_in_any_writing_but_no_coarser(written: str, is_stated: bool) -> None:
    piece = make_piece("Q1", "born", "1815-12-10", precision=11)
    text = f"Ada Lovelace was born on {written} [qid: Q1, born: 1815-12-10]."
    assert (find_stated(parse_citations(text, {"born"}), [piece], NAMES).pieces == (piece,)) is is_stated


def test_a_piece_that_is_cited_twice_counts_where_it_is_stated() -> None:
    piece = make_piece("Q1", "work", "painter", "Q9")
    cited = "[qid: Q1, work: painter]"
    found = find_stated(parse_citations(f"She wrote {cited}. She was a painter {cited}.", {"work"}), [piece], NAMES)
    assert (found.pieces, found.unstated) == ((piece,), ())


@pytest.mark.parametrize(
    ("stated", "unstated", "is_overdone"), [(1, 2, False), (0, 3, True), (3, 3, False), (3, 4, True)]
)
def test_what_is_far_too_much(stated: int, unstated: int, is_overdone: bool) -> None:
    pool = [make_piece("Q1", "work", f"job{number}", f"Q{number + 10}") for number in range(stated + unstated)]
    cited = "".join(f"[qid: Q1, work: {piece.value}]" for piece in pool)
    text = f"She was {' and '.join(piece.value for piece in pool[:stated])} {cited}."
    assert find_stated(parse_citations(text, {"work"}), pool, NAMES).is_overdone is is_overdone
