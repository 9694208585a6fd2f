"""Test near-duplicates and nearest vectors: any block size, ties by order, refusal of bad vectors."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factmill.tasks.core import embedding_similarity
from factmill.tasks.core import embedding_similarity as duplicates
from factmill.tasks.core.embedding_similarity import DuplicatePairs, find_duplicate_pairs, find_nearest_vectors
from factmill.tasks.core.rows import MergedAway
from factmill.tasks.multihal.core.preprocessing import merge_duplicate_questions
from factmill.tasks.multihal.core.rows import FoundationQuestion


def point(*degrees: float) -> np.ndarray:
    """Return directions in the plane as vectors."""
    radians = np.deg2rad(degrees)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)


def pairs(found: DuplicatePairs) -> list[tuple[int, int]]:
    return list(zip(found.first.tolist(), found.second.tolist(), strict=True))


def test_pairs_above_threshold_are_found_in_order() -> None:
    # a cosine of 0.99 is an angle of 8.1°
    found = find_duplicate_pairs(point(0, 90, 8, 98, 180))
    assert pairs(found) == [(0, 2), (1, 3)]
    assert found.cosine == pytest.approx(np.cos(np.deg2rad([8, 8])), abs=1e-6)


def test_cosine_equal_to_threshold_is_not_duplicate() -> None:
    vectors = np.array([[1, 0], [3, 4], [3, 4.001]], np.float32)
    assert pairs(find_duplicate_pairs(vectors, 0.6)) == [(1, 2)]
    assert pairs(find_duplicate_pairs(vectors, 0.599)) == [(0, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize("few", [0, 512])
@pytest.mark.parametrize("apart", [-4e-7, -1e-8, 1e-8, 4e-7])
def test_near_threshold_pairs_are_decided_in_float64(apart: float, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "_MAX_UNPROJECTED_ROWS", few)
    random = np.random.default_rng(5)
    first = random.normal(size=(200, 384))
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    aside = random.normal(size=(200, 384))
    aside -= (aside * first).sum(axis=1, keepdims=True) * first
    aside /= np.linalg.norm(aside, axis=1, keepdims=True)
    cosine = 0.99 + apart
    vectors = np.concatenate([first, cosine * first + np.sqrt(1 - cosine**2) * aside]).astype(np.float32)
    exact = vectors.astype(np.float64)
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    true = (exact[:200] * exact[200:]).sum(axis=1) > 0.99
    assert pairs(find_duplicate_pairs(vectors)) == [(row, row + 200) for row in np.flatnonzero(true)]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 40),
    st.sampled_from([1, 2, 3, 8, 31, 33, 64, 200]),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.5, 0.9, 0.99]),
    st.integers(1, 9),
    st.sampled_from([0, 20, 512]),
)
def test_blocks_of_any_size_find_same_pairs_as_full_comparison(
    rows: int, dimensions: int, seed: int, threshold: float, block: int, few: int
) -> None:
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(rows, dimensions)).astype(np.float32)
    if rows > 3:
        vectors[rows // 2 :] = vectors[: rows - rows // 2] * 3 + random.normal(0, 0.05, (rows - rows // 2, dimensions))
        vectors[0] = 0
    exempt = random.random(rows) < 0.2
    exact = vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1)
    exact /= np.where(lengths > 0, lengths, 1)[:, None]
    near = exact @ exact.T > threshold
    usable = (lengths > 0) & ~exempt
    expected = [
        (one, other)
        for one in range(rows)
        for other in range(one + 1, rows)
        if near[one, other] and usable[[one, other]].all()
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "_MAX_UNPROJECTED_ROWS", few)
        patch.setattr(duplicates, "_MAX_BLOCK_VECTORS", block)
        patch.setattr(duplicates, "_MAX_EXACT_PAIRS_AT_ONCE", block)
        assert pairs(find_duplicate_pairs(vectors, threshold, exempt.tolist())) == expected


def test_zero_rows_and_exempt_rows_have_no_duplicates() -> None:
    vectors = np.concatenate([np.zeros((2, 2), np.float32), point(0, 0, 0)])
    assert pairs(find_duplicate_pairs(vectors, exempt=[False, False, False, True, False])) == [(2, 4)]


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_rows_yield_no_pairs(count: int) -> None:
    found = find_duplicate_pairs(np.ones((count, 4), np.float32))
    assert pairs(found) == [] and found.list_group_leaders() == list(range(count))


def test_non_finite_vectors_and_invalid_thresholds_are_rejected() -> None:
    with pytest.raises(ValueError, match="not finite"):
        find_duplicate_pairs(np.array([[np.nan, 1]], np.float32))
    with pytest.raises(ValueError, match="threshold 0"):
        find_duplicate_pairs(point(0), 0)


def test_group_joins_pairs_through_shared_row_and_earliest_row_leads() -> None:
    found = find_duplicate_pairs(point(14, 90, 0, 7, 95, 180))
    assert pairs(found) == [(0, 3), (1, 4), (2, 3)]
    assert found.list_group_leaders() == [0, 1, 0, 0, 1, 5]


def question(row: str, output: str = "Ada", **more: object) -> FoundationQuestion:
    columns: dict[str, object] = {
        "source_dataset": "halueval", "domain": "qa", "licence": "MIT", "input": row, "output": output,
        "optional_output": [], "incorrect_answers": [], "context": [], "answer_type": None,
        "source_name": "f.json", "source_row": 1,
    }  # fmt: skip
    return FoundationQuestion.model_validate({"id": row, **columns, **more})


def test_answers_and_contexts_are_merged_into_first_row_without_repeats() -> None:
    rows = [
        question("a", "Ada", optional_output=["Ada L."], incorrect_answers=["Eve", "Bob"], context=["one", "two"]),
        question("b", "Grace"),
        question("c", "ada ", optional_output=["A. Lovelace"], context=["two", "three"]),
        question("d", "Bob", optional_output=["Ada  l."], incorrect_answers=["Eve", "Kay"], licence="Apache-2.0"),
    ]
    found = list(merge_duplicate_questions(rows, find_duplicate_pairs(point(0, 90, 3, 5))))
    assert found[1:] == [rows[1], MergedAway("c", "a"), MergedAway("d", "a")]
    assert found[0] == rows[0].replace(
        optional_output=["Ada L.", "A. Lovelace", "Bob"],
        incorrect_answers=["Eve", "Kay"],
        context=["one", "two", "three"],
        licence="MIT AND Apache-2.0",
    )


def test_distinct_questions_stay_unchanged() -> None:
    rows = [question("a", optional_output=["x", "x"]), question("b")]
    assert list(merge_duplicate_questions(rows, find_duplicate_pairs(point(0, 90)))) == rows


def test_duplicates_computed_for_other_rows_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"1 questions, .* 2 rows"):
        list(merge_duplicate_questions([question("a")], find_duplicate_pairs(point(0, 90))))


Floats = npt.NDArray[np.float32]


def make_units(rows: int, dimensions: int, seed: int) -> Floats:
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(rows, dimensions))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def look_at_all(vectors: Floats, queries: Floats, count: int) -> list[list[int]]:
    """Return the result of sorting all cosines in float64."""
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
def test_blocks_of_any_size_find_same_neighbours_as_full_sort(
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


def test_near_ties_are_ordered_in_float64() -> None:
    random = np.random.default_rng(3)
    query = make_units(1, 384, 1)[0].astype(np.float64)
    aside = random.normal(size=(500, 384))
    aside -= (aside @ query)[:, None] * query
    aside /= np.linalg.norm(aside, axis=1, keepdims=True)
    cosines = 0.7 + np.arange(500)[:, None] * 3e-9
    vectors = (cosines * query + np.sqrt(1 - cosines**2) * aside).astype(np.float32)
    queries = query[None].astype(np.float32)
    assert find_nearest_vectors(vectors, queries, 30).tolist() == look_at_all(vectors, queries, 30)


def test_equal_vectors_are_returned_in_row_order() -> None:
    vectors = np.tile(make_units(1, 8, 1), (100_000, 1))
    assert find_nearest_vectors(vectors, vectors[:2], 3).tolist() == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize(
    ("vectors", "queries", "count", "text"),
    [
        (np.eye(2), np.eye(3), 1, "as many dimensions"),
        (np.eye(2), np.eye(2), 0, "at least 1"),
        (np.eye(2) * 2, np.eye(2), 1, "length 1"),
        (np.eye(2), np.eye(2) * 0.9, 1, "length 1"),
        (np.array([[np.nan, 1]]), np.eye(2), 1, "not finite"),
        (np.array([[np.inf, 1]]), np.eye(2), 1, "not finite"),
    ],
)
def test_incomparable_vectors_are_rejected(vectors: Floats, queries: Floats, count: int, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        find_nearest_vectors(vectors.astype(np.float32), queries.astype(np.float32), count)
