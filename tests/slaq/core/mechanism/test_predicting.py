"""Whether similarities tell two kinds of facts apart: planted kinds are told, shuffled ones are not."""

import numpy as np
import pytest

from tasks.slaq.core.mechanism.predicting import predict, shuffle_kinds


@pytest.fixture(scope="module")
def learn() -> object:
    sklearn = pytest.importorskip("sklearn", reason="the regression needs the extra `mechanism`")
    for part in ("linear_model", "metrics", "model_selection", "pipeline", "preprocessing"):
        pytest.importorskip(f"sklearn.{part}", reason="the regression needs the extra `mechanism`")
    return sklearn


def test_planted_kinds_are_told_apart(learn: object) -> None:
    labels = [0, 1] * 30
    chance = np.random.default_rng(0)
    features = np.column_stack([np.array(labels) + chance.normal(0, 0.05, 60), chance.normal(0, 1, 60)])
    found = predict(features, labels, list(map(str, range(60))), 5, 0, learn)
    assert found is not None
    assert found.aucs == (1.0,) * 5
    assert all(found.is_right)
    assert found.coefficients[0] > 1 > abs(found.coefficients[1])


def test_shuffled_kinds_are_not(learn: object) -> None:
    chance = np.random.default_rng(1)
    features = chance.normal(0, 1, (600, 6))
    found = predict(features, chance.permutation([0, 1] * 300).tolist(), list(map(str, range(600))), 5, 0, learn)
    assert found is not None
    assert sum(found.aucs) / 5 == pytest.approx(0.5, abs=0.06)
    assert sum(found.is_right) / 600 == pytest.approx(0.5, abs=0.06)


def test_a_kind_in_fewer_topics_than_folds_is_not_predicted(learn: object) -> None:
    labels = [1] * 12 + [0] * 8
    assert predict(np.zeros((20, 1)), labels, [*map(str, range(16)), *"aabb"], 5, 0, learn) is not None
    assert predict(np.zeros((20, 1)), labels, [*map(str, range(12)), *"aabbccdd"], 5, 0, learn) is None


def plant_topics(seed: int, topics: int = 60, size: int = 5) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return topics, values and kinds of facts: a topic's facts have like values, and like kinds that follow nothing."""
    chance = np.random.default_rng(seed)
    names = [f"t{at}" for at in range(topics) for _ in range(size)]
    values = np.repeat(chance.normal(0, 1, topics), size) + chance.normal(0, 0.1, topics * size)
    kinds = np.repeat(chance.random(topics) < 0.5, size) ^ (chance.random(topics * size) < 0.1)
    return names, values, kinds


def test_what_facts_of_a_topic_share_predicts_no_fact_of_another(learn: object) -> None:
    # a topic's facts have like features, so that a regression can learn by heart which kind a topic is of
    aucs: dict[str, list[float]] = {"topics": [], "facts": []}
    for seed in range(8):
        names, _, kinds = plant_topics(seed)
        features = np.repeat(np.random.default_rng(seed).normal(0, 1, (60, 30)), 5, axis=0)
        for unit, groups in (("topics", names), ("facts", list(map(str, range(len(names)))))):
            found = predict(features, kinds.astype(int).tolist(), groups, 5, 0, learn)
            assert found is not None
            aucs[unit] += found.aucs
    assert np.mean(aucs["facts"]) > 0.6
    assert np.mean(aucs["topics"]) == pytest.approx(0.5, abs=0.06)


def test_permuted_topics_reject_what_does_not_differ_as_often_as_they_should() -> None:
    rejected = {"topics": 0, "facts": 0}
    for seed in range(200):
        names, values, kinds = plant_topics(seed)
        for unit, groups in (("topics", names), ("facts", list(map(str, range(len(names)))))):
            p = shuffle_kinds(values, kinds, groups, seed, draws=400)
            assert p is not None
            rejected[unit] += p < 0.05
    assert rejected["facts"] > 60  # of 10 that are expected
    assert rejected["topics"] <= 20


def test_p_of_what_differs_is_small_and_of_what_does_not_is_not() -> None:
    is_aligned = np.array([True, False] * 20)
    each = list(map(str, range(40)))
    assert shuffle_kinds(is_aligned + np.linspace(0, 0.1, 40), is_aligned, each, 0) == pytest.approx(1e-4, rel=0.01)
    assert shuffle_kinds(np.tile([1.0, 1.0, 2.0, 2.0], 10), is_aligned, each, 0) == 1.0
    assert shuffle_kinds(np.ones(3), np.array([True] * 3), each[:3], 0) is None
    four, kinds = np.array([1.0, 1, 0, 0]), np.array([True, True, False, False])
    # of 2 + 2 facts the six ways are alike likely: 1, 1 against 0, 0 is reached by two of them
    assert shuffle_kinds(four, kinds, each[:4], 0) == pytest.approx(1 / 3, abs=0.02)
    # two topics can be exchanged or not, and the difference is as large both ways; topics of other sizes never are
    assert shuffle_kinds(four, kinds, ["a", "a", "b", "b"], 0) == 1.0
    assert shuffle_kinds(four, kinds, ["a", "b", "b", "b"], 0) == 1.0
