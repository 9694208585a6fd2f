"""Score columns of answers: string accuracy by both scorers, ROUGE, and a learned metric (§4.1).

An empty answer and a refusal say none of the gold answer and score 0, as in the paper (§4.2); other unscored answers
have no number. The public scorer reads answers as given, even truncated ones, and scores a question without an answer
as 0. The upstream columns do the same, and have no number only if the model or one of its look-ups failed.

ROUGE uses the words of rouge-score with its stemmer, and gives the same numbers. Counting is done here, since that
library's table for the longest common subsequence grows with the product of both lengths.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Literal, TypeVar

import numpy as np
import pyarrow as pa

from factmill.tasks.core.evaluation.rows import REASONS_COUNTED_WRONG
from factmill.tasks.core.evaluation.scoring import ScoreArray
from factmill.tasks.fanoutqa.core.evaluation.strings.fixed_scorer import (
    make_comparable_texts,
    score_gold_strings_in_answer,
)
from factmill.tasks.fanoutqa.core.evaluation.strings.gold_answers import (
    GoldAnswer,
    format_gold_answer,
    list_gold_string_spellings,
)
from factmill.tasks.fanoutqa.core.evaluation.strings.rule_lemmatizer import TextBatchLemmatizer
from factmill.tasks.fanoutqa.core.evaluation.strings.upstream_scorer import (
    list_upstream_gold_strings,
    normalise_like_upstream,
    score_like_upstream,
)

G = TypeVar("G")
P = TypeVar("P")
ROUGE_KINDS = ("rouge1", "rouge2", "rougeL")


def compute_rouge_f1_scores(answers: Sequence[str], golds: Sequence[GoldAnswer]) -> dict[str, ScoreArray]:
    """Return the F1 of each kind of ROUGE: 0 for an answer without words, NaN if the gold answer has none."""
    from nltk.stem.porter import PorterStemmer
    from rouge_score.tokenize import tokenize

    # the stemmer that rouge-score uses, with cached stems
    stemmer = SimpleNamespace(stem=cache(PorterStemmer().stem))
    known = cache(lambda text: tokenize(text, stemmer))
    rows = [
        _compute_rouge_f1(known(format_gold_answer(gold)), tokenize(answer, stemmer))
        for answer, gold in zip(answers, golds, strict=True)
    ]
    found = np.array(rows, np.float64).reshape(-1, len(ROUGE_KINDS))
    return {kind: found[:, at] for at, kind in enumerate(ROUGE_KINDS)}


def _compute_rouge_f1(gold: Sequence[str], answer: Sequence[str]) -> list[float]:
    if not gold:
        return [float("nan")] * len(ROUGE_KINDS)
    # (shared, of the answer, of the gold answer): words, pairs of words, words in the longest common subsequence
    pairs = Counter(pairwise(answer)), Counter(pairwise(gold))
    counts = [
        ((Counter(answer) & Counter(gold)).total(), len(answer), len(gold)),
        ((pairs[0] & pairs[1]).total(), pairs[0].total(), pairs[1].total()),
        (_compute_lcs_length(gold, answer), len(answer), len(gold)),
    ]
    return [_compute_f1(*each) for each in counts]


def _compute_f1(shared: int, answer: int, gold: int) -> float:
    if not shared:
        return 0.0
    precision, recall = shared / answer, shared / gold
    return 2 * precision * recall / (precision + recall)


def _compute_lcs_length(gold: Sequence[str], answer: Sequence[str]) -> int:
    """Return the length of the longest common subsequence, bit-parallel: a bit per gold word, a step per other."""
    places: dict[str, int] = {}
    for at, word in enumerate(gold):
        places[word] = places.get(word, 0) | 1 << at
    full_row = row = (1 << len(gold)) - 1
    for word in answer:
        if same := row & places.get(word, 0):
            row = (row + same | row - same) & full_row
    return len(gold) - row.bit_count()


def add_string_and_rouge_scores(answers: pa.Table, lemmatize: TextBatchLemmatizer) -> pa.Table:
    """Add the columns loose, strict, upstream_…, rouge1, rouge2, rougeL and lemmatizer to rows of `FanOutPrediction`."""
    golds = [json.loads(gold) for gold in answers["gold"].to_pylist()]
    unscored: list[str] = answers["unscored"].to_pylist()
    read: list[str] = answers["answer_read"].to_pylist()
    counted = np.array([not why or why in REASONS_COUNTED_WRONG for why in unscored], bool)
    missing = np.array([why == "missing" for why in unscored], bool)
    failed = np.array([why in ("model_failed", "lookup_failed") for why in unscored], bool)
    loose, strict = score_loose_and_strict(read, golds, lemmatize)
    found = {"loose": loose, "strict": strict, **compute_rouge_f1_scores(read, golds)}
    columns = {name: np.where(counted, values, np.nan) for name, values in found.items()}
    upstream = score_loose_and_strict(answers["answer"].to_pylist(), golds, lemmatize, "upstream")
    for name, values in zip(("upstream_loose", "upstream_strict"), upstream, strict=True):
        columns[name] = np.where(missing, 0.0, np.where(failed, np.nan, values))
    for name, values in columns.items():
        answers = answers.append_column(name, pa.array(values, pa.float64(), from_pandas=True))
    return answers.append_column("lemmatizer", pa.array([lemmatize.name] * answers.num_rows))


BLEURT_LIKE = "bleurt_like"
BLEURT_LIKE_DIGITS = 2
"""Decimals of a score: processors differ in the last bits of the encoder's numbers."""
SIMILARITY_LABELS = (frozenset({"score", "similarity", "bleurt", "entailment", "label_0"}),)
"""Names that checkpoints give to the label for the similarity of two texts."""
GoldAnswerPair = tuple[str, str]


def make_nonblank_gold_and_answer_pairs(
    answers: Sequence[str], golds: Sequence[GoldAnswer]
) -> list[GoldAnswerPair | None]:
    """Return (gold answer as text, answer) for each answer; None if either is blank."""
    pairs = ((format_gold_answer(gold), answer) for answer, gold in zip(answers, golds, strict=True))
    return [(gold, answer) if gold.strip() and answer.strip() else None for gold, answer in pairs]


def align_pair_scores(pairs: Sequence[GoldAnswerPair | None], scores: ScoreArray) -> ScoreArray:
    """Return the scores of pairs aligned with their answers, rounded to DIGITS decimals; NaN if there is no pair."""
    placed = np.full(len(pairs), np.nan)
    placed[[at for at, pair in enumerate(pairs) if pair]] = np.round(scores, BLEURT_LIKE_DIGITS)
    return placed


StringScorer = Literal["fixed", "upstream"]
_ANSWERS_PER_BATCH = 5_000
"""Answers held in prepared form at a time."""


def score_loose_and_strict(
    answers: Sequence[str], golds: Sequence[GoldAnswer], lemmatize: TextBatchLemmatizer, scorer: StringScorer = "fixed"
) -> tuple[ScoreArray, ScoreArray]:
    """Return for each answer the share of its gold answer's strings that it says, and 1 if it says all, else 0.

    NaN if there is nothing to find; with `upstream`, if the public scorer divides by zero.
    """
    if scorer == "fixed":
        references = [list(list_gold_string_spellings(gold)) for gold in golds]
        texts = {way for each in references for ways in each for way in ways}
        scores = _score_in_batches(
            answers,
            references,
            texts,
            partial(make_comparable_texts, lemmatize=lemmatize),
            score_gold_strings_in_answer,
        )
    else:
        texts = {text for gold in golds for text in list_upstream_gold_strings(gold)}
        scores = _score_in_batches(
            answers, golds, texts, partial(normalise_like_upstream, lemmatize=lemmatize), score_like_upstream
        )
    found = np.array(list(scores), np.float64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _score_in_batches(
    answers: Sequence[str],
    golds: Sequence[G],
    gold_texts: Iterable[str],
    prepare: Callable[[Sequence[str]], list[P]],
    score: Callable[[G, P, Mapping[str, P]], tuple[float, float]],
) -> Iterator[tuple[float, float]]:
    """Yield the scores of each answer; `gold_texts` are all strings of the gold answers, `score` gets them prepared."""
    texts = sorted(gold_texts)
    known = dict(zip(texts, prepare(texts), strict=True))
    for start in range(0, len(answers), _ANSWERS_PER_BATCH):
        read = prepare(answers[start : start + _ANSWERS_PER_BATCH])
        for answer, gold in zip(read, golds[start:], strict=False):
            yield score(gold, answer, known)
