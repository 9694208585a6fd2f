"""Test how calls are cut into groups."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmill.tasks.engine.cluster.protocol import group_indices_by_weight, split_into_ranges


@pytest.mark.parametrize(
    ("weights", "workers", "groups"),
    [
        ([], 2, []),
        ([5, 9, 7], 0, [[1], [2, 0]]),
        ([5, 9, 7, 1], 1, [[1], [2, 0], [3]]),
        ([100, 1, 1], 1, [[0], [1, 2]]),
        ([4] * 6, 1, [[0, 1, 2], [3, 4, 5]]),
        ([0, 0], 1, [[0, 1]]),
    ],
)
def test_groups_have_similar_weight_and_heaviest_come_first(
    weights: list[int], workers: int, groups: list[list[int]]
) -> None:
    assert group_indices_by_weight(weights, workers, 12, 20) == groups


@given(st.lists(st.integers(0, 50)), st.integers(0, 5))
def test_each_index_is_in_exactly_one_group_and_no_group_exceeds_limit(weights: list[int], workers: int) -> None:
    groups = group_indices_by_weight(weights, workers, 20, 60)
    assert sorted(place for group in groups for place in group) == list(range(len(weights)))
    assert all(sum(weights[place] for place in group) <= 60 for group in groups)


@pytest.mark.parametrize(
    ("count", "workers", "sizes"), [(0, 2, []), (5, 2, [2, 2, 1]), (80, 2, [10] * 8), (100, 1, [20] * 5)]
)
def test_ranges_give_every_worker_some_work(count: int, workers: int, sizes: list[int]) -> None:
    ranges = split_into_ranges(count, workers, 2, 20)
    assert [len(each) for each in ranges] == sizes
    assert [place for each in ranges for place in each] == list(range(count))
