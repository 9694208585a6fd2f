"""The semantic score: how near an answer is to the nearest of the accepted ones, by sentence vectors (paper §3.1)."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

DIGITS = 2
"""Of a score. Sentence vectors of two CPUs differ by 4e-7 in a cosine, which two digits hide; the paper's tables have two."""


def score_answers(
    answers: Sequence[str], accepted: Sequence[Sequence[str]], vectors: Sequence[str], encoded: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float64], list[str]]:
    """Return the score of each answer, NaN where it or all that is accepted is empty, and the accepted one it is nearest to.

    `vectors`: texts, of which `encoded` has the vectors of length 1 (len(vectors) × dimensions); every text is among them.
    """
    row = {text: position for position, text in enumerate(vectors)}
    scores = np.full(len(answers), np.nan)
    nearest = [""] * len(answers)
    wide = encoded.astype(np.float64)
    for at, (answer, golds) in enumerate(zip(answers, accepted, strict=True)):
        known = [gold for gold in golds if gold.strip()]
        if not answer.strip() or not known:
            continue
        cosines = np.round(wide[[row[gold] for gold in known]] @ wide[row[answer]], DIGITS)
        best = int(np.argmax(cosines))
        scores[at], nearest[at] = cosines[best] + 0.0, known[best]
    return scores, nearest
