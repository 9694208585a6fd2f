"""Questions that say the same: found by their embeddings, united into the earliest (MultiHal §2.1).

The paper merges the answers and contexts of every pair of questions whose embeddings have a cosine above 0.99. So what
is united here is whatever such pairs hold together, also over a third question, and the outcome does not hang on the
order in which pairs are looked at; of each group the row that comes first stays.

All pairs are compared by matrix products, block by block, yet not in all dimensions: a cosine is never more than the
product along the few axes on which the vectors differ most, plus the product of what is left of each (Cauchy and Schwarz).
Hardly a pair comes that near the threshold by chance, and those that do are computed in float64 in all dimensions. So
which pairs are found depends on the vectors alone, not on axes, blocks, processor or library.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

_BLOCK = 2048
"""Rows and columns of a block: 16 MB of products."""
_FEWEST_AXES = 32
"""With 31,000 random vectors of 384 dimensions, and with real questions, so few let a pair in a thousand pass at most."""
_FEW_ROWS = 512
"""As many rows are sooner compared in all dimensions than their axes are found."""
_PAIRS_AT_ONCE = 8192
"""Pairs computed again at once: some 100 MB at 768 dimensions."""


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Pairs of rows that say the same, by first row and second."""

    count: int
    """Rows that were compared."""
    first: Ints
    second: Ints
    """Always greater than `first`."""
    cosine: npt.NDArray[np.float64]

    def find_leaders(self, kinds: Sequence[Hashable | None] | None = None) -> list[int]:
        """Return for each row the first row of its group: itself, where it says something new.

        `kinds`: one a row; rows of two kinds are never in one group, rows of none (None) may be in any.
        """
        leaders = list(range(self.count))
        kind_of = list(kinds or [None] * self.count)

        def lead(row: int) -> int:
            while leaders[row] != row:
                leaders[row] = leaders[leaders[row]]
                row = leaders[row]
            return row

        for one, other in zip(self.first.tolist(), self.second.tolist(), strict=True):
            low, high = sorted((lead(one), lead(other)))
            if kind_of[low] is None or kind_of[high] in (None, kind_of[low]):
                leaders[high] = low
                kind_of[low] = kind_of[high] if kind_of[low] is None else kind_of[low]
        return [lead(row) for row in range(self.count)]


def find_duplicates(vectors: Floats, threshold: float = 0.99, exempt: Sequence[bool] | None = None) -> Duplicates:
    """Return all pairs of vectors (n × dimensions) whose cosine is above the threshold.

    Vectors need not be of length 1. Rows of zeros are near nothing, and `exempt` rows (n flags) are left out of all
    pairs. ValueError when a vector is not finite or the threshold is not positive.
    """
    if vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise ValueError(f"embeddings are of shape {vectors.shape} or not finite; expected finite rows × dimensions")
    if threshold <= 0:
        raise ValueError(f"threshold {threshold}: expected a cosine above 0")
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    compared = lengths > 0
    if exempt is not None:
        compared &= ~np.asarray(exempt, bool)
    rows = np.flatnonzero(compared)
    bounding = _project(vectors[rows] / lengths[rows, None])
    found = [
        _compute_exactly(vectors, rows[low], rows[high], threshold)
        for low, high in _compare_blocks(bounding, threshold)
    ]
    first, second, cosine = (np.concatenate(column) for column in zip(*found, strict=True)) if found else _no_pairs()
    order = np.lexsort((second, first))
    return Duplicates(len(vectors), first[order], second[order], cosine[order])


def _no_pairs() -> tuple[Ints, Ints, npt.NDArray[np.float64]]:
    return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)


def _project(units: npt.NDArray[np.float64]) -> Floats:
    """Return rows, narrow where there are many, whose products are no less than the cosines of the units (n × dimensions of
    length 1)."""
    if len(units) <= _FEW_ROWS:
        return units.astype(np.float32)
    count = max(_FEWEST_AXES, units.shape[1] // 16)
    narrow = units.astype(np.float32)
    axes = np.linalg.eigh((narrow.T @ narrow).astype(np.float64))[1][:, -count:]
    along = units @ axes
    left = np.sqrt(np.maximum(1 - (along * along).sum(axis=1), 0))
    return np.column_stack([along, left]).astype(np.float32)


def _compare_blocks(bounding: Floats, threshold: float) -> Iterator[tuple[Ints, Ints]]:
    """Yield the pairs whose product comes near the threshold, the lower row first, at most _PAIRS_AT_ONCE at a time."""
    # a sum of so many products of rounded float32 numbers is off by so many times their precision at most
    near = np.float32(threshold - (bounding.shape[1] + 8) * float(np.finfo(np.float32).eps))
    for top in range(0, len(bounding), _BLOCK):
        for left in range(top, len(bounding), _BLOCK):
            products = bounding[top : top + _BLOCK] @ bounding[left : left + _BLOCK].T
            low, high = np.divmod(np.flatnonzero(products > near), products.shape[1])
            low, high = low + top, high + left
            above = low < high
            low, high = low[above], high[above]
            for start in range(0, len(low), _PAIRS_AT_ONCE):
                yield low[start : start + _PAIRS_AT_ONCE], high[start : start + _PAIRS_AT_ONCE]


def _compute_exactly(
    vectors: Floats, low: Ints, high: Ints, threshold: float
) -> tuple[Ints, Ints, npt.NDArray[np.float64]]:
    """Return the pairs whose cosine in float64 is above the threshold."""
    one, other = vectors[low].astype(np.float64), vectors[high].astype(np.float64)
    # sums along a row, which do not depend on how many rows there are, unlike a matrix product's
    cosine = (one * other).sum(axis=1) / np.sqrt((one * one).sum(axis=1) * (other * other).sum(axis=1))
    above = cosine > threshold
    return low[above], high[above], cosine[above]
