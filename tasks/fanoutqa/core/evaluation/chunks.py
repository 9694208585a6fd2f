"""Split articles into chunks of 1,024 characters, and select those that fit a question best by BM25+ (paper §4.3).

Scores are computed in double precision, term by term in the question's order, and rounded to six decimals; ties keep
the order of the article. So the order is the same on any machine.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from factmill.tasks.text.sentences import split_sentences

MAX_CHUNK_CHARACTERS = 1024
"""Most characters of a chunk."""
_WORD = re.compile(r"\w+")
_PARAGRAPH_SEPARATOR = "\n\n"
_MARKUP_CHARACTERS = 12
"""Characters reserved for the surroundings of each shown chunk or title: blank lines, a mark, a heading."""


@dataclass(frozen=True, slots=True)
class ArticleChunk:
    """A piece of an article as of the epoch."""

    title: str
    """Title as requested."""
    revid: int
    number: int
    """Its position in the article, from 1."""
    text: str

    def __str__(self) -> str:
        return f"{self.title}, {self.revid} #{self.number}"


def split_article(title: str, revid: int, text: str) -> list[ArticleChunk]:
    """Split an article into chunks between paragraphs; within a long paragraph between sentences, else words."""
    return [ArticleChunk(title, revid, number, piece) for number, piece in enumerate(split_text_into_chunks(text), 1)]


def split_text_into_chunks(text: str) -> list[str]:
    """Split a text, whose paragraphs are separated by blank lines, into pieces of at most MAX_CHUNK_CHARACTERS."""
    pieces: list[str] = []
    for paragraph in filter(str.strip, text.split(_PARAGRAPH_SEPARATOR)):
        parts = _join_parts_up_to_chunk_size(_split_long_paragraph(paragraph.strip()))
        joined = f"{pieces[-1]}{_PARAGRAPH_SEPARATOR}{parts[0]}" if pieces and len(parts) == 1 else ""
        if joined and len(joined) <= MAX_CHUNK_CHARACTERS:
            pieces[-1] = joined
        else:
            pieces += parts
    return pieces


def _split_long_paragraph(paragraph: str) -> Iterator[str]:
    """Yield a paragraph; if it is too long, its sentences; of long sentences, runs of words that fit."""
    if len(paragraph) <= MAX_CHUNK_CHARACTERS:
        yield paragraph
        return
    for sentence in split_sentences(paragraph):
        if len(sentence) <= MAX_CHUNK_CHARACTERS:
            yield sentence
        else:
            yield from _join_parts_up_to_chunk_size(
                word[at : at + MAX_CHUNK_CHARACTERS]
                for word in sentence.split()
                for at in range(0, len(word), MAX_CHUNK_CHARACTERS)
            )


def _join_parts_up_to_chunk_size(parts: Iterator[str]) -> list[str]:
    """Return parts of sentences joined with a space as long as they fit a chunk."""
    filled: list[str] = []
    for part in parts:
        if filled and len(filled[-1]) + 1 + len(part) <= MAX_CHUNK_CHARACTERS:
            filled[-1] += f" {part}"
        else:
            filled.append(part)
    return filled


def select_chunks(chunks: Sequence[ArticleChunk], query: str, max_characters: int) -> list[ArticleChunk]:
    """Return the chunks that fit a query best, as many as fit in `max_characters` characters, in their original order."""
    costs = [len(chunk.text) + _MARKUP_CHARACTERS for chunk in chunks]
    articles = {(chunk.title, chunk.revid) for chunk in chunks}
    max_characters -= sum(len(title) + _MARKUP_CHARACTERS for title, _ in articles)
    if sum(costs) <= max_characters:
        return list(chunks)
    chosen: list[int] = []
    for at in rank_texts_by_bm25([chunk.text for chunk in chunks], query):
        if costs[at] > max_characters:
            break
        max_characters -= costs[at]
        chosen.append(at)
    return [chunks[at] for at in sorted(chosen)]


def rank_texts_by_bm25(texts: Sequence[str], query: str) -> list[int]:
    """Return the indices of texts, best first, by BM25+ (Lv and Zhai, 2011)."""
    import bm25s

    vocabulary: dict[str, int] = {}
    ids = [[vocabulary.setdefault(word, len(vocabulary)) for word in _tokenize_words(text)] for text in texts]
    asked = [vocabulary[word] for word in dict.fromkeys(_tokenize_words(query)) if word in vocabulary]
    if not asked:
        return list(range(len(texts)))
    index = bm25s.BM25(method="bm25+", dtype="float64")
    index.index(bm25s.tokenization.Tokenized(ids, vocabulary), show_progress=False)
    scores = np.round(index.get_scores_from_ids(asked), 6)
    return [int(at) for at in np.argsort(-scores, kind="stable")]


def _tokenize_words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
