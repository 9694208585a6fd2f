"""Score columns of answers: string accuracy by both scorers, ROUGE, and a learned metric (§4.1).

An empty answer and a refusal say none of the gold answer and score 0, as in the paper (§4.2); other unscored answers
have no number. The public scorer reads answers as given, even truncated ones, and scores a question without an answer
as 0. The upstream columns do the same, and have no number only if the model or one of its look-ups failed.

ROUGE uses the words of rouge-score with its stemmer, and gives the same numbers. Counting is done here, since that
library's table for the longest common subsequence grows with the product of both lengths.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Literal

import numpy as np
import pyarrow as pa

from factmill.tasks.core.evaluation.rows import COUNTED_WRONG
from factmill.tasks.core.evaluation.scoring import Floats
from factmill.tasks.fanoutqa.core.evaluation.strings import fixed, upstream
from factmill.tasks.fanoutqa.core.evaluation.strings.golds import Gold, list_references, write_gold
from factmill.tasks.fanoutqa.core.evaluation.strings.lemmas import Lemmatizer

KINDS = ("rouge1", "rouge2", "rougeL")


def rouge(answers: Sequence[str], golds: Sequence[Gold]) -> dict[str, Floats]:
    """Return the F1 of each kind of ROUGE: 0 for an answer without words, NaN if the gold answer has none."""
    stem = _CachedStemmer()
    known = cache(lambda text: _split(text, stem))
    rows = [_score(known(write_gold(gold)), _split(answer, stem)) for answer, gold in zip(answers, golds, strict=True)]
    found = np.array(rows, np.float64).reshape(-1, len(KINDS))
    return {kind: found[:, at] for at, kind in enumerate(KINDS)}


class _CachedStemmer:
    """NLTK's Porter stemmer, as rouge-score uses it, with cached stems."""

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
    """Return the length of the longest common subsequence, bit-parallel: a bit per gold word, a step per other."""
    places: dict[str, int] = {}
    for at, word in enumerate(gold):
        places[word] = places.get(word, 0) | 1 << at
    whole = row = (1 << len(gold)) - 1
    for word in answer:
        if same := row & places.get(word, 0):
            row = (row + same | row - same) & whole
    return len(gold) - row.bit_count()


def score_answers(answers: pa.Table, lemmatize: Lemmatizer) -> pa.Table:
    """Add the columns loose, strict, upstream_…, rouge1, rouge2, rougeL and lemmatizer to rows of `FanOutAnswer`."""
    golds = [json.loads(gold) for gold in answers["gold"].to_pylist()]
    unscored: list[str] = answers["unscored"].to_pylist()
    read: list[str] = answers["answer_read"].to_pylist()
    given: list[str] = answers["answer"].to_pylist()
    counted = np.array([not why or why in COUNTED_WRONG for why in unscored], bool)
    share, whole = loose(read, golds, lemmatize)
    found = {"loose": share, "strict": whole, **rouge(read, golds)}
    columns = {name: np.where(counted, values, np.nan) for name, values in found.items()}
    for name, values in zip(("loose", "strict"), loose(given, golds, lemmatize, "upstream"), strict=True):
        columns[f"upstream_{name}"] = _count_unanswered(values, unscored)
    for name, values in columns.items():
        answers = answers.append_column(name, pa.array(values, pa.float64(), from_pandas=True))
    return answers.append_column("lemmatizer", pa.array([lemmatize.name] * answers.num_rows))


def _count_unanswered(values: Floats, unscored: Sequence[str]) -> Floats:
    missing = np.array([why == "missing" for why in unscored], bool)
    failed = np.array([why in ("model_failed", "lookup_failed") for why in unscored], bool)
    return np.where(missing, 0.0, np.where(failed, np.nan, values))


METRIC = "bleurt_like"
DIGITS = 2
"""Decimals of a score: processors differ in the last bits of the encoder's numbers."""
WANTED = (frozenset({"score", "similarity", "bleurt", "entailment", "label_0"}),)
"""Names that checkpoints give to the label for the similarity of two texts."""
Pair = tuple[str, str]


def pair_answers(answers: Sequence[str], golds: Sequence[Gold]) -> list[Pair | None]:
    """Return (gold answer as text, answer) for each answer; None if either is blank."""
    pairs = ((write_gold(gold), answer) for answer, gold in zip(answers, golds, strict=True))
    return [(gold, answer) if gold.strip() and answer.strip() else None for gold, answer in pairs]


def place_scores(pairs: Sequence[Pair | None], scores: Floats) -> Floats:
    """Return the scores of pairs aligned with their answers, rounded to DIGITS decimals; NaN if there is no pair."""
    placed = np.full(len(pairs), np.nan)
    placed[[at for at, pair in enumerate(pairs) if pair]] = np.round(scores, DIGITS)
    return placed


Scorer = Literal["fixed", "upstream"]
_AT_ONCE = 5_000
"""Answers held in prepared form at a time."""


def loose(
    answers: Sequence[str], golds: Sequence[Gold], lemmatize: Lemmatizer, scorer: Scorer = "fixed"
) -> tuple[Floats, Floats]:
    """Return for each answer the share of its gold answer's strings that it says, and 1 if it says all, else 0.

    NaN if there is nothing to find; with `upstream`, if the public scorer divides by zero.
    """
    score = _score_fixed if scorer == "fixed" else _score_upstream
    found = np.array(list(score(answers, golds, lemmatize)), np.float64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _score_fixed(answers: Sequence[str], golds: Sequence[Gold], lemmatize: Lemmatizer) -> Iterable[tuple[float, float]]:
    references = [list(list_references(gold)) for gold in golds]
    texts = sorted({way for each in references for ways in each for way in ways})
    known = dict(zip(texts, fixed.read_texts(texts, lemmatize), strict=True))
    for start in range(0, len(answers), _AT_ONCE):
        read = fixed.read_texts(answers[start : start + _AT_ONCE], lemmatize)
        for answer, wanted in zip(read, references[start:], strict=False):
            yield fixed.score(wanted, answer, known)


def _score_upstream(
    answers: Sequence[str], golds: Sequence[Gold], lemmatize: Lemmatizer
) -> Iterable[tuple[float, float]]:
    texts = sorted({text for gold in golds for text in upstream.list_texts(gold)})
    normal = dict(zip(texts, upstream.normalise(texts, lemmatize), strict=True))
    for start in range(0, len(answers), _AT_ONCE):
        read = upstream.normalise(answers[start : start + _AT_ONCE], lemmatize)
        for answer, gold in zip(read, golds[start:], strict=False):
            yield upstream.score(gold, answer, normal)
