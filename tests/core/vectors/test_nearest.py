"""The nearest vectors by cosine: the same whatever the blocks, ties by order, and what cannot be compared is refused."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factmill.tasks.core import embedding_similarity
from factmill.tasks.core.embedding_similarity import find_nearest_vectors

Floats = npt.NDArray[np.float32]


def make_units(rows: int, dimensions: int, seed: int) -> Floats:
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(rows, dimensions))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def look_at_all(vectors: Floats, queries: Floats, count: int) -> list[list[int]]:
    """Return what sorting all cosines in float64 gives."""
    found = []
    for query in queries.astype(np.float64):
        exact = vectors.astype(np.float64)
        lengths = np.sqrt((exact * exact).sum(axis=1) * (query * query).sum())
        cosines = (exact * query).sum(axis=1) / np.where(lengths > 0, lengths, 1)
        found.append(np.lexsort((np.arange(len(vectors)), -cosines))[:count].tolist())
    return found


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 60),
    st.integers(0, 7),
    st.sampled_from([2, 3, 16, 64]),
    st.integers(1, 70),
    st.integers(0, 2**32 - 1),
    st.integers(1, 20),
)
def test_blocks_of_any_size_find_what_sorting_everything_finds(
    rows: int, asked: int, dimensions: int, count: int, seed: int, block: int
) -> None:
    vectors, queries = make_units(rows, dimensions, seed), make_units(asked, dimensions, seed + 1)
    if rows > 4:
        vectors[rows // 2 :] = vectors[: rows - rows // 2]  # ties
        vectors[rows - 1] = 0
    if asked > 1:
        queries[-1] = vectors[0] if rows else 0
        queries[0] = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedding_similarity, "_MAX_BLOCK_VECTORS", block)
        patch.setattr(embedding_similarity, "_MAX_QUERIES_AT_ONCE", 1 + block // 3)
        patch.setattr(embedding_similarity, "_MAX_CANDIDATES", 3 * block)
        patch.setattr(embedding_similarity, "_MAX_EXACT_PAIRS_AT_ONCE", block)
        found = find_nearest_vectors(vectors, queries, count)
    assert found.shape == (asked, min(count, rows))
    assert found.tolist() == look_at_all(vectors, queries, count)


def test_what_float32_cannot_tell_apart_is_ordered_in_float64() -> None:
    random = np.random.default_rng(3)
    query = make_units(1, 384, 1)[0].astype(np.float64)
    aside = random.normal(size=(500, 384))
    aside -= (aside @ query)[:, None] * query
    aside /= np.linalg.norm(aside, axis=1, keepdims=True)
    cosines = 0.7 + np.arange(500)[:, None] * 3e-9
    vectors = (cosines * query + np.sqrt(1 - cosines**2) * aside).astype(np.float32)
    queries = query[None].astype(np.float32)
    assert find_nearest_vectors(vectors, queries, 30).tolist() == look_at_all(vectors, queries, 30)


def test_equal_vectors_come_in_their_order() -> None:
    vectors = np.tile(make_units(1, 8, 1), (100_000, 1))
    assert find_nearest_vectors(vectors, vectors[:2], 3).tolist() == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize(
    ("vectors", "queries", "count", "told"),
    [
        (np.eye(2), np.eye(3), 1, "as many dimensions"),
        (np.eye(2), np.eye(2), 0, "at least 1"),
        (np.eye(2) * 2, np.eye(2), 1, "length 1"),
        (np.eye(2), np.eye(2) * 0.9, 1, "length 1"),
        (np.array([[np.nan, 1]]), np.eye(2), 1, "not finite"),
        (np.array([[np.inf, 1]]), np.eye(2), 1, "not finite"),
    ],
)
def test_what_cannot_be_compared_is_refused(vectors: Floats, queries: Floats, count: int, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        find_nearest_vectors(vectors.astype(np.float32), queries.astype(np.float32), count)
