"""Loose and strict string accuracy of many answers at once, by the public scorer's way or as it is meant (§4.1, equations 1 and 2)."""

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from tasks.core.evaluation.scoring import Floats
from tasks.fanoutqa.core.evaluation.strings import fixed, upstream
from tasks.fanoutqa.core.evaluation.strings.golds import Gold, list_references
from tasks.fanoutqa.core.evaluation.strings.lemmas import Lemmatizer

Scorer = Literal["fixed", "upstream"]
_AT_ONCE = 5_000
"""Answers that are held in the form in which they are compared."""


def loose(
    answers: Sequence[str], golds: Sequence[Gold], lemmatize: Lemmatizer, scorer: Scorer = "fixed"
) -> tuple[Floats, Floats]:
    """Return the share of what each gold answer says that its answer says, and 1 where that is all of it, else 0.

    NaN where there is nothing to find; `upstream`: where the public scorer divides by zero.
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
