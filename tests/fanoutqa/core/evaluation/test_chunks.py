"""Test articles in chunks of 1,024 characters, and which chunks are shown."""

import random

import pytest

from factmill.tasks.fanoutqa.core.evaluation.chunks import (
    MAX_CHUNK_CHARACTERS,
    ArticleChunk,
    rank_texts_by_bm25,
    select_chunks,
    split_article,
    split_text_into_chunks,
)

SENTENCE = "The river flows through the old town and then to the sea. "


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        ("", []),
        ("One.\n\nTwo.", [10]),
        ("a" * 1000 + "\n\n" + "b" * 22, [1024]),
        ("a" * 1000 + "\n\n" + "b" * 23, [1000, 23]),
        (SENTENCE * 20, [17 * len(SENTENCE) - 1, 3 * len(SENTENCE) - 1]),
        ("Head\n\n" + SENTENCE * 20, [4, 17 * len(SENTENCE) - 1, 3 * len(SENTENCE) - 1]),
        ("word " * 300, [1024, 474]),
        ("x" * 2100, [1024, 1024, 52]),
    ],
    ids=["nothing", "short", "just", "over", "sentences", "heading", "one long sentence", "one long word"],
)
def test_splits_text_at_paragraphs_then_sentences_then_words(text: str, lengths: list[int]) -> None:
    pieces = split_text_into_chunks(text)
    assert [len(piece) for piece in pieces] == lengths
    assert "".join("".join(pieces).split()) == "".join(text.split())


def test_random_text_chunks_respect_size_limit_and_lose_no_text() -> None:
    draw = random.Random(7)
    for _ in range(50):
        words = [
            "w" * draw.choice([1, 3, 8, 1500]) + draw.choice(["", ". ", "! "]) for _ in range(draw.randint(1, 400))
        ]
        text = "".join(word + draw.choice([" ", " ", "\n\n"]) for word in words)
        pieces = split_text_into_chunks(text)
        assert max(map(len, pieces)) <= MAX_CHUNK_CHARACTERS
        assert "".join("".join(pieces).split()) == "".join(text.split())


def test_bm25_ranks_texts_with_rare_question_words_first_and_keeps_tie_order() -> None:
    texts = ["the town", "the river Drava is long", "the Mur", "nothing", "the town"]
    assert rank_texts_by_bm25(texts, "How long is the Drava?")[0] == 1
    assert rank_texts_by_bm25(texts, "town")[:2] == [0, 4]
    assert rank_texts_by_bm25(texts, "Zzz?") == [0, 1, 2, 3, 4]
    assert rank_texts_by_bm25(texts, "¿?") == [0, 1, 2, 3, 4]
    assert rank_texts_by_bm25(["a", "a"], "a a a") == [0, 1]


def test_selected_chunks_fit_limit_and_keep_article_order() -> None:
    text = "\n\n".join(f"{name} {'x' * 1000}" for name in ("one", "two", "three", "four"))
    chunks = split_article("T", 5, text)
    assert [str(chunk) for chunk in chunks] == ["T, 5 #1", "T, 5 #2", "T, 5 #3", "T, 5 #4"]
    assert [chunk.number for chunk in select_chunks(chunks, "four two", 2100)] == [2, 4]
    assert select_chunks(chunks, "four two", 100) == []
    assert select_chunks(chunks, "anything", 10_000) == chunks
    assert select_chunks([], "anything", 10) == []


def test_ranking_matches_bm25_plus_formula() -> None:
    """Compare with a plain implementation of BM25+ (Lv and Zhai, 2011) with k1 1.5, b 0.75, delta 0.5."""
    from math import log

    texts = ["cat dog dog", "dog", "cat cat bird fish", "bird"]
    asked = ["dog", "cat"]
    words = [text.split() for text in texts]
    mean = sum(map(len, words)) / len(words)

    def score(of: list[str]) -> float:
        total = 0.0
        for word in asked:
            share = 2.5 * of.count(word) / (1.5 * (0.25 + 0.75 * len(of) / mean) + of.count(word))
            held = sum(word in each for each in words)
            total += log((len(words) + 1) / held) * ((share + 0.5) if of.count(word) else 0.5)
        return total

    expected = sorted(range(4), key=lambda at: (-round(score(words[at]), 6), at))
    assert rank_texts_by_bm25(texts, " ".join(asked)) == expected


def test_chunk_name_has_title_revision_and_number() -> None:
    assert str(ArticleChunk("Enns", 10, 3, "x")) == "Enns, 10 #3"
