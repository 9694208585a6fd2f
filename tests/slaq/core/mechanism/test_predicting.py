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
    found = predict(features, labels, 5, 0, learn)
    assert found is not None
    assert found.aucs == (1.0,) * 5
    assert all(found.is_right)
    assert found.coefficients[0] > 1 > abs(found.coefficients[1])


def test_shuffled_kinds_are_not(learn: object) -> None:
    chance = np.random.default_rng(1)
    features = chance.normal(0, 1, (600, 6))
    found = predict(features, chance.permutation([0, 1] * 300).tolist(), 5, 0, learn)
    assert found is not None
    assert sum(found.aucs) / 5 == pytest.approx(0.5, abs=0.06)
    assert sum(found.is_right) / 600 == pytest.approx(0.5, abs=0.06)


def test_a_kind_with_fewer_facts_than_folds_is_not_predicted(learn: object) -> None:
    assert predict(np.zeros((20, 1)), [1] * 16 + [0] * 4, 5, 0, learn) is None


def test_p_of_what_differs_is_small_and_of_what_does_not_is_not() -> None:
    is_aligned = np.array([True, False] * 20)
    assert shuffle_kinds(is_aligned + np.linspace(0, 0.1, 40), is_aligned, 0) == pytest.approx(1e-4, rel=0.01)
    assert shuffle_kinds(np.tile([1.0, 1.0, 2.0, 2.0], 10), is_aligned, 0) == 1.0
    assert shuffle_kinds(np.ones(3), np.array([True] * 3), 0) is None
    # of 2 + 2 facts the six ways are alike likely: 1, 1 against 0, 0 is reached by two of them
    assert shuffle_kinds(np.array([1.0, 1, 0, 0]), np.array([True, True, False, False]), 0) == pytest.approx(
        1 / 3, abs=0.02
    )
