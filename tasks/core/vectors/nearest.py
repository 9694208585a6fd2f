"""The vectors nearest to others by cosine, exactly, among millions that need not be in memory (FanOutQA, Appendix B).

All pairs are compared in float32, block by block; a vector stays a candidate while it may be among the nearest of a query
even if rounding was against it. Candidates are computed again in float64, and ties go to the earlier row. So which
vectors are found, and in what order, depends on the vectors alone, not on blocks, processor or library.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

_QUERIES_AT_ONCE = 2048
_BLOCK = 16384
"""Vectors of a block at most: 25 MB at 384 dimensions."""
_PRODUCTS_AT_ONCE = 1 << 22
"""Products of a block: 16 MB."""
_CANDIDATES = 1 << 19
"""Candidates kept before they are computed exactly, so that a million equal vectors take no memory."""
_PAIRS_AT_ONCE = 8192
"""Pairs computed again at once: some 50 MB at 384 dimensions."""
_SHORT_OF_ONE = 1e-5
"""How far the length of a vector may be from 1."""


def find_nearest(vectors: Floats, queries: Floats, count: int) -> Ints:
    """Return the rows of the `count` vectors (n × dimensions) nearest to each query (m × dimensions), the nearest first.

    Shape m × min(count, n). Vectors are of length 1, as embedders give them, or 0, whose cosines count as 0. They are read
    once in order for every 2,048 queries; a memory-mapped array will do. ValueError when shapes do not fit, or a vector is
    not finite or of another length.
    """
    if vectors.ndim != 2 or queries.ndim != 2 or vectors.shape[1] != queries.shape[1] or count < 1:
        raise ValueError(
            f"{count} of vectors of shape {vectors.shape} for queries of shape {queries.shape}; expected at least 1 "
            "and rows of as many dimensions"
        )
    _check_lengths(queries)
    parts = [
        _find_nearest(
            vectors, np.ascontiguousarray(queries[start : start + _QUERIES_AT_ONCE]), min(count, len(vectors))
        )
        for start in range(0, len(queries), _QUERIES_AT_ONCE)
    ]
    return np.concatenate([np.zeros((0, min(count, len(vectors))), np.int64), *parts])


def _find_nearest(vectors: Floats, queries: Floats, count: int) -> Ints:
    # two sums of so many products of rounded numbers are each off by so many times their precision at most
    slack = np.float32(2 * ((vectors.shape[1] + 8) * float(np.finfo(np.float32).eps) + 2 * _SHORT_OF_ONE))
    size = min(_BLOCK, max(count, _PRODUCTS_AT_ONCE // len(queries)))
    cut = np.full(len(queries), -np.inf, np.float32)
    kept = _Candidates.none()
    for start in range(0, len(vectors), size):
        block = vectors[start : start + size]
        _check_lengths(block)
        products = queries @ block.T
        if start == 0 and len(block) >= count:
            cut = np.partition(products, len(block) - count, axis=1)[:, len(block) - count] - slack
        query, row = np.nonzero(products >= cut[:, None])
        kept = kept.join(query, row + start, products[query, row])
        if len(kept.query) > _CANDIDATES:
            kept = kept.compute(vectors, queries, count)
        kept, cut = kept.prune(len(queries), count, slack)
    return kept.compute(vectors, queries, count).row.reshape(len(queries), count)


class _Candidates:
    """Pairs of a query and a vector that may be among the nearest, with their products."""

    def __init__(self, query: Ints, row: Ints, product: Floats | Doubles) -> None:
        self.query, self.row, self.product = query, row, product

    @classmethod
    def none(cls) -> "_Candidates":
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))

    def join(self, query: Ints, row: Ints, product: Floats) -> "_Candidates":
        return _Candidates(
            np.concatenate([self.query, query]),
            np.concatenate([self.row, row]),
            np.concatenate([self.product, product]).astype(np.float32),
        )

    def prune(self, queries: int, count: int, slack: np.float32) -> tuple["_Candidates", Floats]:
        """Drop what cannot be among the nearest; return the rest and the least product that counts, a query."""
        order = np.lexsort((-self.product, self.query))
        query, product = self.query[order], self.product[order]
        first = np.searchsorted(query, np.arange(queries))
        enough = np.searchsorted(query, np.arange(queries), side="right") - first >= count
        cut = np.full(queries, -np.inf, np.float32)
        cut[enough] = product[first[enough] + count - 1] - slack
        left = order[product >= cut[query]]
        return _Candidates(self.query[left], self.row[left], self.product[left]), cut

    def compute(self, vectors: Floats, queries: Floats, count: int) -> "_Candidates":
        """Return the `count` nearest of each query by float64, the nearest first, earlier rows first where they tie."""
        exact = np.zeros(len(self.row))
        for start in range(0, len(self.row), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            one, other = queries[self.query[part]].astype(np.float64), vectors[self.row[part]].astype(np.float64)
            lengths = np.sqrt((one * one).sum(axis=1) * (other * other).sum(axis=1))
            # sums along a row, which do not depend on how many rows there are, unlike a matrix product's
            exact[part] = (one * other).sum(axis=1) / np.where(lengths > 0, lengths, 1)
        order = np.lexsort((self.row, -exact, self.query))
        query = self.query[order]
        place = np.arange(len(query)) - np.searchsorted(query, query)
        nearest = order[place < count]
        return _Candidates(self.query[nearest], self.row[nearest], exact[nearest])


def _check_lengths(vectors: Floats) -> None:
    squares = np.einsum("ij,ij->i", vectors, vectors)
    # what is not finite fails both
    if not ((np.abs(squares - 1) < _SHORT_OF_ONE) | (squares == 0)).all():
        raise ValueError("vectors are not finite or of another length than 1; expected those of an embedder")
