"""Intervals of shares and means."""

import numpy as np
import pytest

from tasks.core.measures.intervals import bootstrap, wilson


@pytest.mark.parametrize(
    ("successes", "n", "interval"),
    [(0, 10, (0.0, 0.2775)), (5, 10, (0.2366, 0.7634)), (1, 124, (0.0014, 0.0443)), (10, 10, (0.7225, 1.0))],
)
def test_wilson_s_interval(successes: int, n: int, interval: tuple[float, float]) -> None:
    assert wilson(successes, n) == interval


def test_nothing_observed_has_no_interval() -> None:
    with pytest.raises(ValueError, match="no observation"):
        wilson(0, 0)
    with pytest.raises(ValueError, match="no observation"):
        bootstrap([], [])


def test_a_bootstrap_covers_the_mean_in_nineteen_of_twenty_samples() -> None:
    draw = np.random.default_rng(7)
    inside = 0
    for seed in range(200):
        low, high = bootstrap(draw.binomial(6, 0.3, 40).tolist(), [6] * 40, seed)
        inside += low <= 0.3 <= high
    assert 180 <= inside <= 198


def test_clusters_are_drawn_whole() -> None:
    # the same thirty observations of thirty are surer than three rows of ten that are each all or nothing
    alone = bootstrap([1] * 15 + [0] * 15, [1] * 30)
    clustered = bootstrap([10, 5, 0], [10, 10, 10])
    assert clustered[0] < alone[0]
    assert alone[1] < clustered[1]
    assert bootstrap([3, 3], [6, 6]) == (0.5, 0.5)
