"""Intervals of rates and means: what a figure of a sample says about all rows."""

import math
from collections.abc import Sequence

import numpy as np

_Z = 1.959963984540054
"""Of the normal distribution, for 95 %."""
_DRAWS = 10_000
_DIGITS = 4

Interval = tuple[float, float]


def wilson(successes: int, n: int) -> Interval:
    """Return the 95 % interval of a share by Wilson's score, to four digits; ValueError where n is 0."""
    if not n:
        raise ValueError("an interval of no observation")
    share, square = successes / n, _Z**2 / n
    middle = (share + square / 2) / (1 + square)
    half = _Z / (1 + square) * math.sqrt(share * (1 - share) / n + square / (4 * n))
    return round(max(0.0, middle - half), _DIGITS), round(min(1.0, middle + half), _DIGITS)


def bootstrap(sums: Sequence[int], sizes: Sequence[int], seed: int = 0) -> Interval:
    """Return the 95 % percentile interval of a mean whose observations lie in clusters that are drawn whole.

    `sums`, `sizes`: sum and number of the observations of each cluster; ValueError where there is none. Sums are whole
    numbers, so the same seed gives the same interval on any machine.
    """
    if not sums:
        raise ValueError("an interval of no observation")
    drawn = np.random.default_rng(seed).integers(0, len(sums), (_DRAWS, len(sums)))
    means = np.sort(np.asarray(sums)[drawn].sum(axis=1) / np.asarray(sizes)[drawn].sum(axis=1))
    return round(float(means[_DRAWS // 40]), _DIGITS), round(float(means[-1 - _DRAWS // 40]), _DIGITS)
