"""ROUGE-1, ROUGE-2 and ROUGE-L as F1 of answers with the gold answer's text, words stemmed (§4.1).

Words are those of rouge-score with its stemmer, and so are the numbers; counting is done here, since that library's table
for the longest common subsequence grows with the product of both lengths.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cache

import numpy as np

from tasks.core.evaluation.scoring import Floats
from tasks.fanoutqa.core.evaluation.strings.golds import Gold, write_gold

KINDS = ("rouge1", "rouge2", "rougeL")


def rouge(answers: Sequence[str], golds: Sequence[Gold]) -> dict[str, Floats]:
    """Return the F1 of each kind: 0 for an answer without words, NaN where the gold answer has none."""
    stem = _CachedStemmer()
    known = cache(lambda text: _split(text, stem))
    rows = [_score(known(write_gold(gold)), _split(answer, stem)) for answer, gold in zip(answers, golds, strict=True)]
    found = np.array(rows, np.float64).reshape(-1, len(KINDS))
    return {kind: found[:, at] for at, kind in enumerate(KINDS)}


class _CachedStemmer:
    """NLTK's Porter stemmer, as rouge-score uses it, asked once a word."""

    def __init__(self) -> None:
        from nltk.stem.porter import PorterStemmer

        self.stem = cache(PorterStemmer().stem)


def _split(text: str, stemmer: _CachedStemmer) -> list[str]:
    from rouge_score.tokenize import tokenize

    words: list[str] = tokenize(text, stemmer)
    return words


def _score(gold: Sequence[str], answer: Sequence[str]) -> list[float]:
    if not gold:
        return [float("nan")] * len(KINDS)
    counts = [(_count(answer, size), _count(gold, size)) for size in (1, 2)]
    grams = [_f1((mine & theirs).total(), mine.total(), theirs.total()) for mine, theirs in counts]
    return [*grams, _f1(_find_longest(gold, answer), len(answer), len(gold))]


def _count(words: Sequence[str], size: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[at:] for at in range(size)), strict=False))


def _f1(shared: int, answer: int, gold: int) -> float:
    if not shared:
        return 0.0
    precision, recall = shared / answer, shared / gold
    return 2 * precision * recall / (precision + recall)


def _find_longest(gold: Sequence[str], answer: Sequence[str]) -> int:
    """Return the length of the longest common subsequence: a bit a word of the gold answer, a step a word of the answer."""
    places: dict[str, int] = {}
    for at, word in enumerate(gold):
        places[word] = places.get(word, 0) | 1 << at
    whole = row = (1 << len(gold)) - 1
    for word in answer:
        if same := row & places.get(word, 0):
            row = (row + same | row - same) & whole
    return len(gold) - row.bit_count()
