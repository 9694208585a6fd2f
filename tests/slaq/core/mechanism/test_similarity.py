"""How alike tokens are carried, worked by hand; how tokens of two answers are joined."""

import math

import numpy as np
import pytest

from tasks.slaq.core.mechanism.rows import TokenEffect
from tasks.slaq.core.mechanism.similarity import (
    assign,
    compare_answers,
    compare_tokens,
    contain,
    intersect_over_union,
    name_component,
    pearson,
    rank,
    spearman,
    transport,
)


def effect(importances: list[float], chosen: list[int]) -> TokenEffect:
    return TokenEffect(token="x", base=1.0, importances=importances, chosen=chosen, recovered=1.0)


@pytest.mark.parametrize(
    ("first", "second", "containment", "iou"),
    [
        ([1, 2, 3, 4], [3, 4], 1.0, 0.5),
        ([1, 2], [2, 3, 4], 0.5, 0.25),
        ([1], [2], 0.0, 0.0),
        ([5, 6, 7], [7, 6, 5], 1.0, 1.0),
    ],
)
def test_sets_are_compared_as_equations_7_and_8_say(
    first: list[int], second: list[int], containment: float, iou: float
) -> None:
    assert contain(first, second) == contain(second, first) == containment
    assert intersect_over_union(first, second) == iou


def test_without_a_set_there_is_no_overlap_to_tell() -> None:
    assert math.isnan(contain([], [1]))
    assert math.isnan(intersect_over_union([], []))


@pytest.mark.parametrize(
    ("x", "y", "of_values", "of_ranks"),
    [
        ([1, 2, 3], [2, 4, 6], 1.0, 1.0),
        ([1, 2, 3], [3, 2, 1], -1.0, -1.0),
        ([1, 2, 3, 4], [1, 3, 2, 4], 0.8, 0.8),
        ([0, 0, 1, 10], [0, 1, 2, 3], 0.8241, 0.9487),  # 15.5 ÷ √(70.75 · 5), 4.5 ÷ √(4.5 · 5)
    ],
)
def test_correlations_worked_by_hand(x: list[float], y: list[float], of_values: float, of_ranks: float) -> None:
    assert pearson(x, y) == pytest.approx(of_values, abs=5e-4)
    assert spearman(x, y) == pytest.approx(of_ranks, abs=5e-4)


def test_equals_share_the_mean_of_their_ranks_and_what_does_not_vary_has_no_correlation() -> None:
    assert rank([5, 1, 5, 9]).tolist() == [2.5, 1, 2.5, 4]
    assert math.isnan(pearson([1, 1], [1, 2]))
    assert math.isnan(spearman([0.3, 0.3, 0.3], [1, 2, 3]))


def test_attention_and_mlp_are_told_apart() -> None:
    # two layers of two heads and an MLP: heads are 1, 2, 4, 8 and 8, 4, 2, 1; MLPs 1, 3 and 2, 6
    first = effect([1, 2, 1, 4, 8, 3], [4, 3])
    second = effect([8, 4, 2, 2, 1, 6], [0, 4])
    found = compare_tokens(first, second, heads=2)
    assert found[:2] == [0.5, pytest.approx(1 / 3)]
    assert found[2] == pytest.approx(pearson([1, 2, 4, 8], [8, 4, 2, 1]))
    assert found[3:] == [pytest.approx(-1), pytest.approx(1), pytest.approx(1)]


def test_components_are_named_by_layer() -> None:
    assert [name_component(at, 2) for at in (0, 1, 2, 3, 5)] == ["L0.H0", "L0.H1", "L0.MLP", "L1.H0", "L1.MLP"]


def test_the_transport_is_worked_by_hand() -> None:
    ot = pytest.importorskip("ot", reason="transport needs the extra `mechanism`")
    # one short token and two long ones: half of it goes to each
    assert transport(np.array([[1.0, 0.5]]), ot.emd) == pytest.approx(0.75)
    # two to three, a third a column, a half a row: 1/3·1 + 1/6·0.4 + 1/6·0.2 + 1/3·0.9
    matrix = np.array([[1.0, 0.4, 0.0], [0.0, 0.2, 0.9]])
    assert transport(matrix, ot.emd) == pytest.approx(1 / 3 + 0.4 / 6 + 0.2 / 6 + 0.3)


def test_transport_and_assignment_agree_where_both_answers_have_as_many_tokens() -> None:
    ot = pytest.importorskip("ot", reason="transport needs the extra `mechanism`")
    optimize = pytest.importorskip("scipy.optimize", reason="the Hungarian assignment needs scipy")
    chance = np.random.default_rng(0)
    for size in (1, 2, 3, 5, 9):
        matrix = chance.uniform(-1, 1, (size, size))
        assert transport(matrix, ot.emd) == pytest.approx(assign(matrix, optimize.linear_sum_assignment))
    assert assign(np.array([[0.2, 0.9, 0.1]]), optimize.linear_sum_assignment) == 0.9


def test_an_answer_lacks_only_the_measures_that_a_pair_of_its_tokens_lacks() -> None:
    with_set, without = effect([1, 2, 3, 4], [3]), effect([2, 1, 4, 4], [])
    told = compare_answers([with_set], [with_set, without], 1, lambda matrix: float(matrix.mean()))
    assert (told.containment, told.iou) == (None, None)
    assert told.pearson_attention == 1.0
    flat = effect([1, 2, 1, 4], [3])
    assert compare_answers([with_set], [flat], 1, lambda matrix: float(matrix.mean())).pearson_attention is None
