"""Test similarity of token representations by hand, and whether it separates two kinds of facts.

Planted kinds are separated; shuffled ones are not.
"""

import math

import numpy as np
import pytest

from factmill.tasks.slaq.core.mechanism.rows import TokenComponentImportances
from factmill.tasks.slaq.core.mechanism.similarity import (
    compute_assignment_similarity,
    compute_containment_and_iou,
    compute_mean_transported_similarity,
    compute_pearson_correlation,
    compute_permutation_p,
    compute_six_answer_similarities,
    compute_six_similarities_of_two_tokens,
    cross_validate_fact_kinds,
    format_component_name,
    rank_values,
)


def effect(importances: list[float], chosen: list[int]) -> TokenComponentImportances:
    return TokenComponentImportances(token="x", base=1.0, importances=importances, chosen=chosen, recovered=1.0)


@pytest.mark.parametrize(
    ("first", "second", "containment", "iou"),
    [
        ([1, 2, 3, 4], [3, 4], 1.0, 0.5),
        ([1, 2], [2, 3, 4], 0.5, 0.25),
        ([1], [2], 0.0, 0.0),
        ([5, 6, 7], [7, 6, 5], 1.0, 1.0),
    ],
)
def test_containment_and_iou_follow_equations_7_and_8(
    first: list[int], second: list[int], containment: float, iou: float
) -> None:
    for one, other in ((first, second), (second, first)):
        assert compute_containment_and_iou(one, other) == (containment, iou)


def test_overlap_of_empty_sets_is_nan() -> None:
    assert all(map(math.isnan, (*compute_containment_and_iou([], [1]), *compute_containment_and_iou([], []))))


@pytest.mark.parametrize(
    ("x", "y", "of_values", "of_ranks"),
    [
        ([1, 2, 3], [2, 4, 6], 1.0, 1.0),
        ([1, 2, 3], [3, 2, 1], -1.0, -1.0),
        ([1, 2, 3, 4], [1, 3, 2, 4], 0.8, 0.8),
        ([0, 0, 1, 10], [0, 1, 2, 3], 0.8241, 0.9487),  # 15.5 ÷ √(70.75 · 5), 4.5 ÷ √(4.5 · 5)
    ],
)
def test_correlations_match_hand_computed_values(
    x: list[float], y: list[float], of_values: float, of_ranks: float
) -> None:
    assert compute_pearson_correlation(x, y) == pytest.approx(of_values, abs=5e-4)
    assert compute_pearson_correlation(rank_values(x), rank_values(y)) == pytest.approx(of_ranks, abs=5e-4)


def test_tied_values_share_mean_rank_and_constant_values_have_no_correlation() -> None:
    assert rank_values([5, 1, 5, 9]).tolist() == [2.5, 1, 2.5, 4]
    assert math.isnan(compute_pearson_correlation([1, 1], [1, 2]))
    assert math.isnan(compute_pearson_correlation(rank_values([0.3, 0.3, 0.3]), rank_values([1, 2, 3])))


def test_attention_and_mlp_correlations_are_computed_separately() -> None:
    # two layers of two heads and an MLP: heads are 1, 2, 4, 8 and 8, 4, 2, 1; MLPs 1, 3 and 2, 6
    first = effect([1, 2, 1, 4, 8, 3], [4, 3])
    second = effect([8, 4, 2, 2, 1, 6], [0, 4])
    found = compute_six_similarities_of_two_tokens(first, second, heads=2)
    assert found[:2] == [0.5, pytest.approx(1 / 3)]
    assert found[2] == pytest.approx(compute_pearson_correlation([1, 2, 4, 8], [8, 4, 2, 1]))
    assert found[3:] == [pytest.approx(-1), pytest.approx(1), pytest.approx(1)]


def test_component_names_include_layer() -> None:
    assert [format_component_name(at, 2) for at in (0, 1, 2, 3, 5)] == ["L0.H0", "L0.H1", "L0.MLP", "L1.H0", "L1.MLP"]


def test_transport_similarity_matches_hand_computed_values() -> None:
    ot = pytest.importorskip("ot", reason="transport needs the extra `mechanism`")
    # one short token and two long ones: each gets half of its weight
    assert compute_mean_transported_similarity(np.array([[1.0, 0.5]]), ot.emd) == pytest.approx(0.75)
    # two to three tokens: a third per column, a half per row: 1/3·1 + 1/6·0.4 + 1/6·0.2 + 1/3·0.9
    matrix = np.array([[1.0, 0.4, 0.0], [0.0, 0.2, 0.9]])
    assert compute_mean_transported_similarity(matrix, ot.emd) == pytest.approx(1 / 3 + 0.4 / 6 + 0.2 / 6 + 0.3)


def test_transport_and_assignment_agree_for_equal_token_counts() -> None:
    ot = pytest.importorskip("ot", reason="transport needs the extra `mechanism`")
    optimize = pytest.importorskip("scipy.optimize", reason="the Hungarian assignment needs scipy")
    chance = np.random.default_rng(0)
    for size in (1, 2, 3, 5, 9):
        matrix = chance.uniform(-1, 1, (size, size))
        assert compute_mean_transported_similarity(matrix, ot.emd) == pytest.approx(
            compute_assignment_similarity(matrix, optimize.linear_sum_assignment)
        )
    assert compute_assignment_similarity(np.array([[0.2, 0.9, 0.1]]), optimize.linear_sum_assignment) == 0.9


def test_answer_lacks_only_measures_that_its_token_pairs_lack() -> None:
    with_set, without = effect([1, 2, 3, 4], [3]), effect([2, 1, 4, 4], [])
    result = compute_six_answer_similarities([with_set], [with_set, without], 1, lambda matrix: float(matrix.mean()))
    assert (result.containment, result.iou) == (None, None)
    assert result.pearson_attention == 1.0
    flat = compute_six_answer_similarities(
        [with_set], [effect([1, 2, 1, 4], [3])], 1, lambda matrix: float(matrix.mean())
    )
    assert flat.pearson_attention is None


@pytest.fixture(scope="module")
def learn() -> object:
    sklearn = pytest.importorskip("sklearn", reason="the regression needs the extra `mechanism`")
    for part in ("linear_model", "metrics", "model_selection", "pipeline", "preprocessing"):
        pytest.importorskip(f"sklearn.{part}", reason="the regression needs the extra `mechanism`")
    return sklearn


def test_classifier_separates_planted_fact_kinds(learn: object) -> None:
    labels = [0, 1] * 30
    chance = np.random.default_rng(0)
    features = np.column_stack([np.array(labels) + chance.normal(0, 0.05, 60), chance.normal(0, 1, 60)])
    found = cross_validate_fact_kinds(features, labels, list(map(str, range(60))), 5, 0, learn)
    assert found is not None
    assert found.aucs == (1.0,) * 5
    assert all(found.is_right)
    assert found.coefficients[0] > 1 > abs(found.coefficients[1])


def test_classifier_does_not_separate_shuffled_fact_kinds(learn: object) -> None:
    chance = np.random.default_rng(1)
    features = chance.normal(0, 1, (600, 6))
    labels = chance.permutation([0, 1] * 300).tolist()
    found = cross_validate_fact_kinds(features, labels, list(map(str, range(600))), 5, 0, learn)
    assert found is not None
    assert sum(found.aucs) / 5 == pytest.approx(0.5, abs=0.06)
    assert sum(found.is_right) / 600 == pytest.approx(0.5, abs=0.06)


def test_kind_found_in_fewer_topics_than_folds_is_not_predicted(learn: object) -> None:
    labels, features = [1] * 12 + [0] * 8, np.zeros((20, 1))
    assert cross_validate_fact_kinds(features, labels, [*map(str, range(16)), *"aabb"], 5, 0, learn) is not None
    assert cross_validate_fact_kinds(features, labels, [*map(str, range(12)), *"aabbccdd"], 5, 0, learn) is None


def plant_topics(seed: int, topics: int = 60, size: int = 5) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return topics, values and kinds of facts; facts of a topic have similar values and similar, random kinds."""
    chance = np.random.default_rng(seed)
    names = [f"t{at}" for at in range(topics) for _ in range(size)]
    values = np.repeat(chance.normal(0, 1, topics), size) + chance.normal(0, 0.1, topics * size)
    kinds = np.repeat(chance.random(topics) < 0.5, size) ^ (chance.random(topics * size) < 0.1)
    return names, values, kinds


def test_cross_validation_by_topic_does_not_leak_between_facts(learn: object) -> None:
    # a topic's facts have similar features, so a regression can memorise each topic's kind
    aucs: dict[str, list[float]] = {"topics": [], "facts": []}
    for seed in range(8):
        names, _, kinds = plant_topics(seed)
        features = np.repeat(np.random.default_rng(seed).normal(0, 1, (60, 30)), 5, axis=0)
        for unit, groups in (("topics", names), ("facts", list(map(str, range(len(names)))))):
            found = cross_validate_fact_kinds(features, kinds.astype(int).tolist(), groups, 5, 0, learn)
            assert found is not None
            aucs[unit] += found.aucs
    assert np.mean(aucs["facts"]) > 0.6
    assert np.mean(aucs["topics"]) == pytest.approx(0.5, abs=0.06)


def test_permuting_topics_keeps_false_rejection_rate_at_nominal_level() -> None:
    rejected = {"topics": 0, "facts": 0}
    for seed in range(200):
        names, values, kinds = plant_topics(seed)
        for unit, groups in (("topics", names), ("facts", list(map(str, range(len(names)))))):
            p = compute_permutation_p(values, kinds, groups, seed, draws=400)
            assert p is not None
            rejected[unit] += p < 0.05
    assert rejected["facts"] > 60  # 10 expected
    assert rejected["topics"] <= 20


def test_p_value_is_small_only_when_kinds_differ() -> None:
    is_aligned = np.array([True, False] * 20)
    each = list(map(str, range(40)))
    p = compute_permutation_p(is_aligned + np.linspace(0, 0.1, 40), is_aligned, each, 0)
    assert p == pytest.approx(1e-4, rel=0.01)
    assert compute_permutation_p(np.tile([1.0, 1.0, 2.0, 2.0], 10), is_aligned, each, 0) == 1.0
    assert compute_permutation_p(np.ones(3), np.array([True] * 3), each[:3], 0) is None
    four, kinds = np.array([1.0, 1, 0, 0]), np.array([True, True, False, False])
    # the six permutations of 2 + 2 facts are equally likely: two of them reach 1, 1 against 0, 0
    assert compute_permutation_p(four, kinds, each[:4], 0) == pytest.approx(1 / 3, abs=0.02)
    # two topics can be swapped or not, with equal differences; topics of different sizes never swap
    assert compute_permutation_p(four, kinds, ["a", "a", "b", "b"], 0) == 1.0
    assert compute_permutation_p(four, kinds, ["a", "b", "b", "b"], 0) == 1.0
