"""Test answer matching, text folding, and whole-word search."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmill.tasks.text.text_normalization import (
    contains_whole_words,
    fold_case_accents_and_punctuation,
    normalize_answer,
    normalize_answer_to_singular,
    normalized_words,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Beatles", "beatles"),
        ("a U.S. state", "us state"),
        ("An  Apple", "apple"),
        ("Jean-Paul", "jeanpaul"),
        ("“Heroes”", "heroes"),
        ("Größe", "grösse"),
        ("東京", "東京"),
        ("Москва!", "москва"),
        ("Washington, D.C.", "washington dc"),
        ("Theatre", "theatre"),
        ("the", ""),
        ("$5 + tax", "5 tax"),
    ],
)
def test_normalization_ignores_case_punctuation_articles_and_spacing(text: str, expected: str) -> None:
    assert normalize_answer(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Cities", "city"),
        ("the churches", "church"),
        ("boxes", "box"),
        ("universities", "university"),
        ("glass", "glass"),
        ("campus", "campus"),
        ("record labels", "record label"),
        ("gas", "gas"),
    ],
)
def test_normalization_reduces_plurals_for_word_lists(text: str, expected: str) -> None:
    assert normalize_answer_to_singular(text) == expected


@given(st.text())
def test_normalizing_twice_changes_nothing(text: str) -> None:
    once = normalize_answer(text)
    assert normalize_answer(once) == once
    assert normalized_words(text) == once.split()


@pytest.mark.parametrize("mark", [chr(number) for number in range(128)])
def test_ascii_text_is_normalized_like_non_ascii_text(mark: str) -> None:
    assert normalize_answer(f"The A{mark}B") == normalize_answer(f"The A{mark}B é").removesuffix(" é")


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
def test_folding_ignores_accents_quotes_and_dashes(text: str, folded: str) -> None:
    assert fold_case_accents_and_punctuation(text) == folded
    assert fold_case_accents_and_punctuation(folded) == folded


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
def test_words_match_only_complete_words(sentence: str, words: str, found: bool) -> None:
    assert contains_whole_words(sentence, words) is found
