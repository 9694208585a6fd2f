"""Exact nearest vectors by cosine (FanOutQA, Appendix B), and groups of near-duplicate vectors (MultiHal §2.1).

Duplicates: the paper merges the answers and contexts of every pair of questions whose embeddings have a cosine above 0.99.
Such pairs form groups, also via a third question, so the result does not depend on the order of the pairs; the first row of
each group stays. Pairs are compared by matrix products, block by block, but not in all dimensions: a cosine is at most the
product along the few axes on which the vectors differ most, plus the product of the lengths of the remainders (Cauchy and
Schwarz). Few pairs come that near the threshold by chance; these are computed in float64 in all dimensions. So the
pairs found depend on the vectors alone, not on axes, blocks, processor or library.

Nearest: pairs are compared in float32, block by block; a vector stays a candidate while, given rounding errors, it may be
among the nearest of a query. Candidates are computed again in float64, and ties go to the earlier row. So the vectors
found, and their order, depend on the vectors alone, not on blocks, processor or library.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

VectorArray = npt.NDArray[np.float32]
RowIndexArray = npt.NDArray[np.int64]
CosineArray = npt.NDArray[np.float64]

_MAX_QUERIES_AT_ONCE = 2048
_MAX_BLOCK_VECTORS = 16384
"""Maximum number of vectors in a block: 25 MB at 384 dimensions."""
_MAX_BLOCK_PRODUCTS = 1 << 22
"""Maximum number of products in a block: 16 MB."""
_MAX_CANDIDATES = 1 << 19
"""Number of candidates above which they are computed exactly and pruned, so that a million equal vectors fit in memory."""
_MAX_EXACT_PAIRS_AT_ONCE = 8192
"""Pairs computed exactly at once: about 50 MB at 384 dimensions."""
_UNIT_LENGTH_TOLERANCE = 1e-5
"""Tolerance of a unit vector's squared length."""


def find_nearest_vectors(vectors: VectorArray, queries: VectorArray, count: int) -> RowIndexArray:
    """Return the rows of the `count` vectors (n × dimensions) nearest to each query (m × dimensions), nearest first.

    Shape m × min(count, n). Vectors have length 1, as embedders give them, or 0, in which case cosines count as 0. They are
    read once, in order, per 2,048 queries; a memory-mapped array works. ValueError when shapes do not match, or a vector is
    not finite or has another length.
    """
    if vectors.ndim != 2 or queries.ndim != 2 or vectors.shape[1] != queries.shape[1] or count < 1:
        raise ValueError(
            f"{count} of vectors of shape {vectors.shape} for queries of shape {queries.shape}; expected at least 1 "
            "and rows of as many dimensions"
        )
    _check_unit_lengths(queries)
    parts = [
        _find_nearest_in_blocks(
            vectors, np.ascontiguousarray(queries[start : start + _MAX_QUERIES_AT_ONCE]), min(count, len(vectors))
        )
        for start in range(0, len(queries), _MAX_QUERIES_AT_ONCE)
    ]
    return np.concatenate([np.zeros((0, min(count, len(vectors))), np.int64), *parts])


def _find_nearest_in_blocks(vectors: VectorArray, queries: VectorArray, count: int) -> RowIndexArray:
    # rounding error bound of two sums of as many products as there are dimensions
    slack = np.float32(2 * ((vectors.shape[1] + 8) * float(np.finfo(np.float32).eps) + 2 * _UNIT_LENGTH_TOLERANCE))
    size = min(_MAX_BLOCK_VECTORS, max(count, _MAX_BLOCK_PRODUCTS // len(queries)))
    cut = np.full(len(queries), -np.inf, np.float32)
    kept = _NearestVectorCandidates.empty()
    for start in range(0, len(vectors), size):
        block = vectors[start : start + size]
        _check_unit_lengths(block)
        products = queries @ block.T
        if start == 0 and len(block) >= count:
            cut = np.partition(products, len(block) - count, axis=1)[:, len(block) - count] - slack
        query, row = np.nonzero(products >= cut[:, None])
        kept = kept.join(query, row + start, products[query, row])
        if len(kept.query) > _MAX_CANDIDATES:
            kept = kept.keep_exact_nearest(vectors, queries, count)
        kept, cut = kept.prune(len(queries), count, slack)
    return kept.keep_exact_nearest(vectors, queries, count).row.reshape(len(queries), count)


class _NearestVectorCandidates:
    """Pairs of a query and a vector that may be among the nearest, with their products."""

    def __init__(self, query: RowIndexArray, row: RowIndexArray, product: VectorArray | CosineArray) -> None:
        self.query, self.row, self.product = query, row, product

    @classmethod
    def empty(cls) -> "_NearestVectorCandidates":
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))

    def join(self, query: RowIndexArray, row: RowIndexArray, product: VectorArray) -> "_NearestVectorCandidates":
        return _NearestVectorCandidates(
            np.concatenate([self.query, query]),
            np.concatenate([self.row, row]),
            np.concatenate([self.product, product]).astype(np.float32),
        )

    def prune(self, queries: int, count: int, slack: np.float32) -> tuple["_NearestVectorCandidates", VectorArray]:
        """Drop pairs that cannot be among the nearest; return the rest and the least product that counts for each query."""
        order = np.lexsort((-self.product, self.query))
        query, product = self.query[order], self.product[order]
        first = np.searchsorted(query, np.arange(queries))
        enough = np.searchsorted(query, np.arange(queries), side="right") - first >= count
        cut = np.full(queries, -np.inf, np.float32)
        cut[enough] = product[first[enough] + count - 1] - slack
        left = order[product >= cut[query]]
        return _NearestVectorCandidates(self.query[left], self.row[left], self.product[left]), cut

    def keep_exact_nearest(self, vectors: VectorArray, queries: VectorArray, count: int) -> "_NearestVectorCandidates":
        """Return the `count` nearest of each query in float64, nearest first, ties by row."""
        exact = np.zeros(len(self.row))
        for start in range(0, len(self.row), _MAX_EXACT_PAIRS_AT_ONCE):
            part = slice(start, start + _MAX_EXACT_PAIRS_AT_ONCE)
            exact[part] = _compute_exact_cosines_of_row_pairs(queries[self.query[part]], vectors[self.row[part]])
        order = np.lexsort((self.row, -exact, self.query))
        query = self.query[order]
        place = np.arange(len(query)) - np.searchsorted(query, query)
        nearest = order[place < count]
        return _NearestVectorCandidates(self.query[nearest], self.row[nearest], exact[nearest])


def _compute_exact_cosines_of_row_pairs(first: VectorArray, second: VectorArray) -> CosineArray:
    """Return the cosine in float64 of each row of one array with that of the other; 0 for a vector of length 0."""
    one, other = first.astype(np.float64), second.astype(np.float64)
    lengths = np.sqrt((one * one).sum(axis=1) * (other * other).sum(axis=1))
    # sums along a row, which do not depend on how many rows there are, unlike a matrix product's
    return np.asarray((one * other).sum(axis=1) / np.where(lengths > 0, lengths, 1))


def _check_unit_lengths(vectors: VectorArray) -> None:
    squares = np.einsum("ij,ij->i", vectors, vectors)
    # non-finite values fail both tests
    if not ((np.abs(squares - 1) < _UNIT_LENGTH_TOLERANCE) | (squares == 0)).all():
        raise ValueError("vectors are not finite or do not have length 1; expected the vectors of an embedder")


_DUPLICATE_BLOCK_ROWS = 2048
"""Rows and columns of a block: 16 MB of products."""
_MIN_AXES = 32
"""Minimum number of axes: at most one pair in a thousand passes (31,000 random vectors; real questions)."""
_MAX_UNPROJECTED_ROWS = 512
"""Up to this number of rows, comparing all dimensions is faster than finding axes."""


@dataclass(frozen=True, slots=True)
class DuplicatePairs:
    """Pairs of near-duplicate rows, sorted by first row, then second."""

    count: int
    """Total number of rows."""
    first: RowIndexArray
    second: RowIndexArray
    """Always greater than `first`."""
    cosine: npt.NDArray[np.float64]

    def list_group_leaders(self, kinds: Sequence[Hashable | None] | None = None) -> list[int]:
        """Return for each row the first row of its group: itself, if it duplicates no earlier row.

        `kinds`: one per row; rows of different kinds are never in one group, rows without a kind (None) may be in any.
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


def find_duplicate_pairs(
    vectors: VectorArray, threshold: float = 0.99, exempt: Sequence[bool] | None = None
) -> DuplicatePairs:
    """Return all pairs of vectors (n × dimensions) whose cosine is above the threshold.

    Vectors need not have length 1. Rows of zeros and `exempt` rows (n flags) are in no pair. ValueError when a vector is
    not finite or the threshold is not positive.
    """
    if vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise ValueError(
            f"embeddings have shape {vectors.shape} or hold values that are not finite; expected finite rows × dimensions"
        )
    if threshold <= 0:
        raise ValueError(f"threshold {threshold}: expected a cosine above 0")
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    compared = lengths > 0
    if exempt is not None:
        compared &= ~np.asarray(exempt, bool)
    rows = np.flatnonzero(compared)
    bounding = _project_to_cosine_upper_bounds(vectors[rows] / lengths[rows, None])
    found = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))]
    for low, high in _iterate_near_pairs(bounding, threshold):
        cosines = _compute_exact_cosines_of_row_pairs(vectors[rows[low]], vectors[rows[high]])
        above = cosines > threshold
        found.append((rows[low][above], rows[high][above], cosines[above]))
    first, second, cosine = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.lexsort((second, first))
    return DuplicatePairs(len(vectors), first[order], second[order], cosine[order])


def _project_to_cosine_upper_bounds(units: npt.NDArray[np.float64]) -> VectorArray:
    """Return rows whose products are upper bounds of the unit vectors' cosines; of many rows, with fewer dimensions."""
    if len(units) <= _MAX_UNPROJECTED_ROWS:
        return units.astype(np.float32)
    count = max(_MIN_AXES, units.shape[1] // 16)
    narrow = units.astype(np.float32)
    axes = np.linalg.eigh((narrow.T @ narrow).astype(np.float64))[1][:, -count:]
    along = units @ axes
    left = np.sqrt(np.maximum(1 - (along * along).sum(axis=1), 0))
    return np.column_stack([along, left]).astype(np.float32)


def _iterate_near_pairs(
    bounding_vectors: VectorArray, threshold: float
) -> Iterator[tuple[RowIndexArray, RowIndexArray]]:
    """Yield the pairs whose product is near or above the threshold, lower row first, at most _PAIRS_AT_ONCE at a time."""
    # rounding error bound of a float32 sum of as many products as there are columns
    near = np.float32(threshold - (bounding_vectors.shape[1] + 8) * float(np.finfo(np.float32).eps))
    for top in range(0, len(bounding_vectors), _DUPLICATE_BLOCK_ROWS):
        for left in range(top, len(bounding_vectors), _DUPLICATE_BLOCK_ROWS):
            products = (
                bounding_vectors[top : top + _DUPLICATE_BLOCK_ROWS]
                @ bounding_vectors[left : left + _DUPLICATE_BLOCK_ROWS].T
            )
            low, high = np.divmod(np.flatnonzero(products > near), products.shape[1])
            low, high = low + top, high + left
            above = low < high
            low, high = low[above], high[above]
            for start in range(0, len(low), _MAX_EXACT_PAIRS_AT_ONCE):
                yield low[start : start + _MAX_EXACT_PAIRS_AT_ONCE], high[start : start + _MAX_EXACT_PAIRS_AT_ONCE]
