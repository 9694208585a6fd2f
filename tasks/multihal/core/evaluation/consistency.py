"""What pairs of texts are scored for entailment and consistency, and which of an answer's pairs counts (paper, Limitations)."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Pair = tuple[str, str]

DIGITS = 2
"""Of a probability, as of a semantic score."""


def pair_answers(
    questions: Sequence[str], answers: Sequence[str], accepted: Sequence[Sequence[str]]
) -> list[list[Pair]]:
    """Return the pairs of each answer: the question with one accepted answer, and what was answered.

    There are none where nothing was said, or nothing is accepted.
    """
    return [
        [(f"{question} {gold}", answer) for gold in golds if gold.strip() and answer.strip()]
        for question, answer, golds in zip(questions, answers, accepted, strict=True)
    ]


def keep_best(pairs: Sequence[Sequence[Pair]], scores: Floats) -> Floats:
    """Return the scores of each answer, NaN where it has no pairs: those of the pair whose first score is highest.

    `scores`: a row a pair, in the order of `pairs` (pairs × kinds of scores); the first such pair counts among equals.
    """
    kept = np.full((len(pairs), scores.shape[1]), np.nan)
    rounded, start = np.round(scores, DIGITS), 0
    for at, mine in enumerate(pairs):
        if mine:
            found = rounded[start : start + len(mine)]
            kept[at] = found[int(np.argmax(found[:, 0]))] + 0.0
            start += len(mine)
    return kept
