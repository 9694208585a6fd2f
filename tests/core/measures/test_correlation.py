"""Rank correlation of two scores."""

import math

import numpy as np
import pytest

from factmill.tasks.core.measures.agreement import compute_spearman

NAN = math.nan


def test_rho_by_hand() -> None:
    # ranks 1 2 3 4 and 2 1 4 3: 1 - 6 × (1 + 1 + 1 + 1) / (4 × 15)
    found = compute_spearman(np.array([0.1, 0.2, 0.3, 0.4]), np.array([2.0, 1.0, 4.0, 3.0]), ["a", "b", "c", "d"])
    assert (found.rho, found.n, found.n_unscored, found.clusters) == (0.6, 4, 0, 4)
    assert found.note == "an interval from 4 clusters is too narrow"


def test_rho_with_ties_is_that_of_scipy() -> None:
    import scipy.stats

    draw = np.random.default_rng(1)
    for kinds in (2, 3, 10, 1000):
        x = draw.integers(0, kinds, 200)
        y = x + draw.integers(0, kinds, 200)
        found = compute_spearman(x.astype(float), y / 7, [str(n) for n in range(200)])
        assert found.rho == pytest.approx(scipy.stats.spearmanr(x, y).statistic, abs=1e-6)


@pytest.mark.parametrize("clusters", [200, 40])
def test_the_interval_is_that_of_scipy_s_rho_over_drawn_clusters(clusters: int) -> None:
    import scipy.stats

    draw = np.random.default_rng(2)
    of = np.arange(200) % clusters
    x = draw.normal(0, 1, clusters)[of] + draw.normal(0, 0.2, 200)
    y = np.round(x + draw.normal(0, 1, 200), 1)
    members = [np.flatnonzero(of == cluster) for cluster in range(clusters)]
    rhos = []
    for _ in range(2000):
        places = np.concatenate([members[cluster] for cluster in draw.integers(0, clusters, clusters)])
        rhos.append(scipy.stats.spearmanr(x[places], y[places]).statistic)
    found = compute_spearman(x, y, [f"c{cluster:03}" for cluster in of])
    assert found.clusters == clusters
    assert (found.ci_low, found.ci_high) == pytest.approx(np.quantile(rhos, [0.025, 0.975]).tolist(), abs=0.02)


@pytest.mark.parametrize(
    ("x", "y", "note"),
    [
        ([], [], "0 items with both scores: expected 3 or more"),
        ([1.0, NAN, 2.0, 3.0], [1.0, 2.0, 2.0, NAN], "2 items with both scores: expected 3 or more"),
        ([1.0, 1.0, 1.0, NAN], [1.0, 2.0, 3.0, 4.0], "all 3 items have the same first score"),
        ([1.0, 2.0, 3.0], [0.0, 0.0, 0.0], "all 3 items have the same second score"),
    ],
)
def test_there_is_no_rho_where_nothing_can_go_together(x: list[float], y: list[float], note: str) -> None:
    found = compute_spearman(np.array(x), np.array(y), [str(place) for place in range(len(x))])
    assert (found.rho, found.ci_low, found.ci_high, found.note) == (None, None, None, note)
    assert found.n + found.n_unscored == len(x)


def test_one_cluster_has_a_rho_and_no_interval() -> None:
    found = compute_spearman(np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0]), ["a", "a", "a"])
    assert (found.rho, found.ci_low, found.note) == (-1.0, None, "one cluster: nothing to draw an interval from")


def test_draws_without_rho_are_left_out_of_the_interval() -> None:
    # every fourth draw of the two clusters holds one alone, in which x is constant
    found = compute_spearman(np.array([1.0, 1.0, 2.0, 2.0]), np.array([1.0, 2.0, 3.0, 4.0]), ["a", "a", "b", "b"])
    assert found.ci_low is not None
    assert found.ci_high is not None
    assert 0.8 < found.ci_low <= found.ci_high <= 1.0


def test_neither_the_order_of_items_nor_the_unit_of_a_score_matters() -> None:
    draw = np.random.default_rng(4)
    x, y, of = draw.random(90), draw.random(90), [f"c{n % 30}" for n in range(90)]
    order = draw.permutation(90)
    assert compute_spearman(x, y, of) == compute_spearman(x[order], y[order] * 1e6, [of[place] for place in order])
    assert compute_spearman(x, y, of, seed=1) != compute_spearman(x, y, of, seed=2)


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="3 and 2 scores of items in 3 clusters"):
        compute_spearman(np.zeros(3), np.zeros(2), ["a", "b", "c"])
