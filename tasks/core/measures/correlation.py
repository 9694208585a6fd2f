"""Spearman's rank correlation of two scores of the same items."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tasks.core.measures.intervals import DRAWS, Floats, Numbers, cut_tails, explain_interval
from tasks.core.measures.metrics import number, round_value
from tasks.core.rows import StrictModel

_LEAST_DRAWS = 1_000
_RANKED = 20_000_000
"""Items that are ranked for an interval: over 2,000 items it has fewer draws, down to 1,000."""
_CELLS = 200_000
"""Items that are ranked at once."""


class Correlation(StrictModel):
    """How two scores of the same items go together."""

    rho: float | None
    """Spearman's, tied scores having the mean of their ranks; to six digits."""
    n: int
    """Items with both scores."""
    n_unscored: int
    """Items that lack one."""
    clusters: int
    ci_low: float | None
    """Lower end of the 95 % interval, by a bootstrap over clusters; to four digits."""
    ci_high: float | None
    note: str
    """Why there is no rho or no interval, or why the interval is not to be relied on."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One of two scores, sorted."""

    order: npt.NDArray[np.intp]
    """Items by score."""
    ends: npt.NDArray[np.intp]
    """Where in that order each different score ends."""
    places: npt.NDArray[np.intp]
    """Each item's place among the different scores."""

    @classmethod
    def of(cls, scores: Floats) -> "_Side":
        """Sort scores."""
        places = np.unique(scores, return_inverse=True)[1]
        order = np.argsort(places, kind="stable")
        return cls(order, np.flatnonzero(np.diff(places[order], append=-1)), places)


def correlate(x: Floats, y: Floats, clusters: Sequence[str], seed: int = 0) -> Correlation:
    """Return Spearman's rho of two scores, one entry an item (NaN: unscored), with its interval.

    Draws in which a side is constant have no rho and are left out of the interval. ValueError where the columns are not
    equally long.
    """
    if not len(x) == len(y) == len(clusters):
        raise ValueError(f"{len(x)} and {len(y)} scores of items in {len(clusters)} clusters")
    paired = np.flatnonzero(~np.isnan(x) & ~np.isnan(y))
    numbers, names = number([clusters[place] for place in paired.tolist()])
    sides = [_Side.of(side[paired]) for side in (x, y)]
    interval, rho, note = None, None, explain_interval(len(names))
    if len(paired) < 3:
        note = f"{len(paired)} items with both scores: expected 3 or more"
    elif min(len(side.ends) for side in sides) == 1:
        note = f"all {len(paired)} items have the same {'first' if len(sides[0].ends) == 1 else 'second'} score"
    else:
        rho = round_value(float(_rank_and_correlate(sides, np.ones((1, len(paired)), np.int64))[0]))
        interval = _draw_interval(sides, numbers, len(names), seed) if len(names) > 1 else None
    return Correlation(
        rho=rho,
        n=len(paired),
        n_unscored=len(x) - len(paired),
        clusters=len(names),
        ci_low=interval[0] if interval else None,
        ci_high=interval[1] if interval else None,
        note=note,
    )


def _draw_interval(sides: list[_Side], numbers: Numbers, clusters: int, seed: int) -> tuple[float, float]:
    """Return the interval of rho over draws of clusters."""
    draws = max(_LEAST_DRAWS, min(DRAWS, _RANKED // len(numbers)))
    generator, rows, found = np.random.default_rng(seed), max(1, _CELLS // len(numbers)), []
    for start in range(0, draws, rows):
        size = min(rows, draws - start)
        drawn = generator.integers(0, clusters, (size, clusters)) + np.arange(size)[:, None] * clusters
        counts = np.bincount(drawn.ravel(), minlength=size * clusters).reshape(size, clusters)
        found.append(_rank_and_correlate(sides, counts[:, numbers]))
    rhos = np.concatenate(found)
    return cut_tails(rhos[~np.isnan(rhos)])


def _rank_and_correlate(sides: list[_Side], weights: Numbers) -> Floats:
    """Return rho of each draw; `weights`: how often each item is in it (shape: draws × items); NaN: a side is constant.

    Ranks are taken twice and from their middle, so that all sums are whole numbers, exact up to a million items.
    """
    n = weights.sum(axis=1, keepdims=True)
    ranks = []
    for side in sides:
        upto = np.cumsum(weights[:, side.order], axis=1)[:, side.ends]
        ranks.append((upto + np.pad(upto, ((0, 0), (1, 0)))[:, :-1] - n)[:, side.places])
    first, second = ranks
    both, one, other = (
        np.einsum("ij,ij,ij->i", weights, a, b) for a, b in ((first, second), (first, first), (second, second))
    )
    with np.errstate(invalid="ignore"):
        return both / np.sqrt(one.astype(np.float64)) / np.sqrt(other.astype(np.float64))
