"""What pairs of texts a learned metric scores, BLEURT or any cross-encoder like it: the gold answer and what was answered (§4.1)."""

from collections.abc import Sequence

import numpy as np

from tasks.core.evaluation.scoring import Floats
from tasks.fanoutqa.core.evaluation.strings.golds import Gold, write_gold

METRIC = "bleurt_like"
DIGITS = 2
"""Of a score: processors differ in the last bits of the encoder's numbers."""
WANTED = (frozenset({"score", "similarity", "bleurt", "entailment", "label_0"}),)
"""What checkpoints call the label that says how alike two texts are."""
Pair = tuple[str, str]


def pair_answers(answers: Sequence[str], golds: Sequence[Gold]) -> list[Pair | None]:
    """Return the pair of each answer, the gold answer as text first; None where either says nothing."""
    pairs = ((write_gold(gold), answer) for answer, gold in zip(answers, golds, strict=True))
    return [(gold, answer) if gold.strip() and answer.strip() else None for gold, answer in pairs]


def place_scores(pairs: Sequence[Pair | None], scores: Floats) -> Floats:
    """Return the scores of pairs, which have one each in order, in the places of their answers; NaN where there is no pair."""
    placed = np.full(len(pairs), np.nan)
    placed[[at for at, pair in enumerate(pairs) if pair]] = np.round(scores, DIGITS)
    return placed
