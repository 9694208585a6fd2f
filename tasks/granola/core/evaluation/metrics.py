"""GRANOLA accuracy and informativeness (paper Definition 1, §5.1, §5.4), over columns.

A prediction matches a level when its token F1 with one of the level's acceptable answers exceeds τ; the finest level that
it matches counts. Words are those of the normal form (SQuAD's, for any alphabet: text/matching.py), so an answer in another
script than the gold answer matches nothing. All functions are pure: columns in, numpy arrays out, one entry an item.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from tasks.text.matching import normal_words

Floats = npt.NDArray[np.float64]
Levels = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Ladder = Sequence[Sequence[str]]
"""A question's levels from fine to coarse, each with its acceptable answers."""

Outcome = Literal["wrong", "idk", "level_1", "level_2", "level_3_or_more"]
OUTCOMES: tuple[Outcome, ...] = ("wrong", "idk", "level_1", "level_2", "level_3_or_more")
"""What became of a prediction (paper Figure 8)."""
Cell = Literal["both", "granola_only", "standard_only", "neither"]
CELLS: tuple[Cell, ...] = ("both", "granola_only", "standard_only", "neither")
"""Which of standard and GRANOLA accuracy call a prediction right (paper Table 3, whose two headings are swapped): a match
with the gold answer is one with a level, so nothing is ever in standard_only."""
UNKNOWN = "unknown"
"""The bin of items whose popularity is not known."""


def answer_words(text: str) -> tuple[str, ...]:
    """Return the words by which an answer is compared: of its normal form, or all where that leaves none (The The)."""
    return tuple(normal_words(text) or text.casefold().split())


def token_f1(prediction: Sequence[str], answer: Sequence[str]) -> float:
    """Return the F1 of two bags of words, from 0 to 1; 0 where one is empty."""
    if not prediction or not answer or set(prediction).isdisjoint(answer):
        return 0.0
    common = sum((Counter(prediction) & Counter(answer)).values())
    return 2 * common / (len(prediction) + len(answer))


def score_levels(predictions: Sequence[str], ladders: Sequence[Ladder]) -> Floats:
    """Return each prediction's F1 with each level, the best of the level's answers (items × most levels; 0 where none is)."""
    known: dict[str, tuple[str, ...]] = {}

    def words(text: str) -> tuple[str, ...]:
        if text not in known:
            known[text] = answer_words(text)
        return known[text]

    scores = np.zeros((len(predictions), max(map(len, ladders), default=0)))
    pairs: dict[tuple[str, str], float] = {}
    for row, (prediction, ladder) in enumerate(zip(predictions, ladders, strict=True)):
        for level, answers in enumerate(ladder):
            for answer in answers:
                if (found := pairs.get((prediction, answer))) is None:
                    found = pairs[prediction, answer] = token_f1(words(prediction), words(answer))
                scores[row, level] = max(scores[row, level], found)
    return scores


def match_levels(level_f1: Floats, tau: float) -> Levels:
    """Return the finest level whose F1 exceeds τ, from 1; 0 where none does (i* of Definition 1)."""
    hits = level_f1 > tau
    if not hits.shape[1]:
        return np.zeros(len(hits), np.int64)
    return np.where(hits.any(axis=1), hits.argmax(axis=1) + 1, 0)


def weigh_levels(levels: Levels, decay: float) -> Floats:
    """Return the informativeness of matched levels, exp(−λ (level − 1)); 0 where none was matched.

    To twelve digits, so that mathematical libraries agree.
    """
    weights = [0.0, *(round(math.exp(-decay * step), 12) for step in range(int(levels.max(initial=0))))]
    return np.array(weights)[levels]


def tell_outcomes(levels: Levels, is_idk: Flags) -> npt.NDArray[np.str_]:
    """Return each prediction's outcome, one of OUTCOMES."""
    matched = np.array(["wrong", "level_1", "level_2", "level_3_or_more"])[np.minimum(levels, 3)]
    return np.where(is_idk, "idk", matched)


def tell_cells(levels: Levels) -> npt.NDArray[np.str_]:
    """Return the agreement cell of each prediction, one of CELLS."""
    return np.array(["neither", "both", "granola_only"])[np.minimum(levels, 2)]


def bin_popularity(ids: Sequence[str], popularity: Sequence[int | None], bins: int) -> dict[str, str]:
    """Return id → its bin, rarest first: bins of equal size (one more in some), ties by id; those unknown apart.

    `ids` are different. A bin is called by its number and its smallest and largest popularity.
    """
    known = sorted((views, each) for each, views in zip(ids, popularity, strict=True) if views is not None)
    found = {each: UNKNOWN for each, views in zip(ids, popularity, strict=True) if views is None}
    digits = len(str(bins))
    for number in range(bins):
        members = known[len(known) * number // bins : len(known) * (number + 1) // bins]
        if members:
            name = f"{number + 1:0{digits}} of {bins} ({members[0][0]:,} to {members[-1][0]:,})"
            found |= {each: name for _, each in members}
    return found
