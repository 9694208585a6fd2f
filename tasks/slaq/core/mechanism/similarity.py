"""How alike two tokens are carried (equations 7 and 8, and correlations), and how tokens of two answers are joined (equation 9).

The transport is that of least cost between tokens of equal weight, cost being 1 − similarity (earth mover's distance, by
POT); the Hungarian assignment is its check: where both answers have as many tokens the two give the same.
"""

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.slaq.core.mechanism.rows import FEATURES, Similarities, TokenEffect

Floats = npt.NDArray[np.float64]
_DIGITS = 6


def contain(first: Collection[int], second: Collection[int]) -> float:
    """Return how many are in both, of the smaller set; NaN where one is empty."""
    return len(set(first) & set(second)) / min(len(set(first)), len(set(second))) if first and second else math.nan


def intersect_over_union(first: Collection[int], second: Collection[int]) -> float:
    """Return how many are in both, of those in either; NaN where one is empty."""
    return len(set(first) & set(second)) / len(set(first) | set(second)) if first and second else math.nan


def pearson(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> float:
    """Return Pearson's correlation; NaN where a side does not vary."""
    x, y = (np.asarray(each, np.float64) - np.mean(each) for each in (first, second))
    spread = math.sqrt(float(x @ x)) * math.sqrt(float(y @ y))
    is_flat = np.ptp(np.asarray(first)) == 0 or np.ptp(np.asarray(second)) == 0
    return math.nan if is_flat or spread == 0 else max(-1.0, min(1.0, float(x @ y) / spread))


def spearman(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> float:
    """Return Spearman's correlation, equals having the mean of their ranks; NaN where a side does not vary."""
    return pearson(rank(first), rank(second))


def rank(values: Sequence[float] | Floats) -> Floats:
    """Return the rank of each value, from 1; equals have the mean of theirs."""
    _, place, often = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(often)
    ranks: Floats = (last - (often - 1) / 2)[place]
    return ranks


def compare_tokens(first: TokenEffect, second: TokenEffect, heads: int) -> list[float]:
    """Return the six measures of two tokens, NaN where one has none; `heads`: of a layer."""
    matrices = [np.array(each.importances).reshape(-1, heads + 1) for each in (first, second)]
    attention = [each[:, :heads].ravel() for each in matrices]
    mlp = [each[:, heads] for each in matrices]
    return [
        contain(first.chosen, second.chosen),
        intersect_over_union(first.chosen, second.chosen),
        pearson(*attention),
        spearman(*attention),
        pearson(*mlp),
        spearman(*mlp),
    ]


def transport(similarities: Floats, emd: Callable[..., Any]) -> float:
    """Return the mean similarity of tokens (shape: short × long) under the transport that makes it greatest.

    `emd`: POT's, since the core imports no library of an extra.
    """
    rows, columns = similarities.shape
    plan = emd(np.full(rows, 1 / rows), np.full(columns, 1 / columns), 1.0 - similarities)
    return float(np.sum(np.asarray(plan) * similarities))


def assign(similarities: Floats, solve: Callable[..., Any]) -> float:
    """Return the mean similarity of tokens under the best assignment one to one; `solve`: scipy's linear_sum_assignment."""
    rows, columns = solve(similarities, maximize=True)
    return float(np.mean(similarities[rows, columns]))


def compare_answers(
    short: Sequence[TokenEffect], long: Sequence[TokenEffect], heads: int, join: Callable[[Floats], float]
) -> Similarities:
    """Return the six measures of two answers, each by its own joining of tokens; None where a pair of tokens has none."""
    pairs = np.array([[compare_tokens(mine, theirs, heads) for theirs in long] for mine in short])
    joined = {}
    for at, name in enumerate(FEATURES):
        matrix = pairs[:, :, at]
        joined[name] = None if np.isnan(matrix).any() else round(join(matrix), _DIGITS) + 0.0
    return Similarities(**joined)


def name_component(place: int, heads: int) -> str:
    """Return what a component is called: L3.H5 for an attention head, L3.MLP for a layer's MLP, both from 0."""
    layer, at = divmod(place, heads + 1)
    return f"L{layer}.MLP" if at == heads else f"L{layer}.H{at}"
