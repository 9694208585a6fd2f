"""Texts folded, and whole words in them."""

import pytest

from tasks.text.folded import fold_text, has_words


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Łódź", "lodz"),
        ("Finnegan’s  “Wake”", "finnegan's wake"),
        ("Jean‑Paul – Sartre", "jean paul sartre"),
        ("Maße", "masse"),
        ("Þórr æ Œ", "thorr ae oe"),
        ("", ""),
    ],
)
def test_accents_quotes_and_dashes_do_not_matter(text: str, folded: str) -> None:
    assert fold_text(text) == folded
    assert fold_text(folded) == folded


@pytest.mark.parametrize(
    ("sentence", "words", "found"),
    [
        ("a court painter", "painter", True),
        ("two painters", "painter", False),
        ("repainter, painter!", "painter", True),
        ("東京都", "東京", True),
        ("", "painter", False),
        ("painter", "", False),
    ],
)
def test_words_are_whole(sentence: str, words: str, found: bool) -> None:
    assert has_words(sentence, words) is found
