"""Test intervals of shares and means."""

import math

import numpy as np
import pytest

from factmill.tasks.core.measures.intervals import (
    Float64Values,
    Int64Values,
    bootstrap_cluster_mean_interval,
    compute_wilson_interval,
    count_clusters_off_commonest_mean,
    format_interval_warning,
    scale_to_integers_and_binary_exponent,
    sum_and_count_by_cluster,
)


@pytest.mark.parametrize(
    ("successes", "n", "interval"),
    [(0, 10, (0.0, 0.2775)), (5, 10, (0.2366, 0.7634)), (1, 124, (0.0014, 0.0443)), (10, 10, (0.7225, 1.0))],
)
def test_wilson_interval_matches_known_values(successes: int, n: int, interval: tuple[float, float]) -> None:
    assert compute_wilson_interval(successes, n) == interval


def test_wilson_interval_matches_statsmodels() -> None:
    from statsmodels.stats.proportion import proportion_confint

    for n in (1, 2, 7, 60, 1000, 99_991):
        for successes in {0, 1, n // 3, n // 2, n - 1, n}:
            assert compute_wilson_interval(successes, n) == pytest.approx(
                proportion_confint(successes, n, method="wilson"), abs=5.1e-5
            )


def test_no_observations_yield_no_interval() -> None:
    with pytest.raises(ValueError, match="no observation"):
        compute_wilson_interval(0, 0)
    with pytest.raises(ValueError, match="no observation"):
        bootstrap_cluster_mean_interval([], [])


def test_wilson_interval_covers_sixty_percent_share_in_95_percent_of_samples() -> None:
    # a single share has the jumps of a count; 1,000 samples of random shares do not
    draw = np.random.default_rng(2)
    shares = draw.uniform(0.1, 0.9, 1000)
    inside = sum(
        low <= share <= high
        for share in shares
        for low, high in [compute_wilson_interval(draw.binomial(60, share), 60)]
    )
    assert 930 <= inside <= 970


@pytest.mark.parametrize(("clusters", "least", "most"), [(80, 930, 970), (5, 790, 880)])
def test_bootstrap_covers_clustered_mean_but_undercovers_with_few_clusters(
    clusters: int, least: int, most: int
) -> None:
    draw = np.random.default_rng(7)
    inside = 0
    for seed in range(1000):
        sizes = draw.integers(1, 8, clusters)
        of = np.repeat(np.arange(clusters), sizes)
        values = np.clip(0.5 + draw.normal(0, 0.15, clusters)[of] + draw.normal(0, 0.1, len(of)), 0, 1)
        whole, exponent = scale_to_integers_and_binary_exponent(values, of)
        low, high = bootstrap_cluster_mean_interval(*sum_and_count_by_cluster(whole, of), seed, exponent, draws=500)
        inside += low <= 0.5 <= high
    assert least <= inside <= most


def test_bootstrap_resamples_entire_clusters() -> None:
    # thirty independent observations give a narrower interval than three all-or-nothing clusters of ten
    alone = bootstrap_cluster_mean_interval([1] * 15 + [0] * 15, [1] * 30)
    clustered = bootstrap_cluster_mean_interval([10, 5, 0], [10, 10, 10])
    assert clustered[0] < alone[0]
    assert alone[1] < clustered[1]
    assert bootstrap_cluster_mean_interval([3, 3], [6, 6]) == (0.5, 0.5)


def ratio(sums: Float64Values, sizes: Float64Values, axis: int) -> Float64Values:
    """Return the mean over observations of drawn clusters."""
    return np.asarray(np.sum(sums, axis=axis) / np.sum(sizes, axis=axis))


@pytest.mark.parametrize(
    ("scores", "clusters"),
    [("shares", 12), ("shares", 300), ("rare", 2000), ("real", 25), ("real", 400), ("skewed", 60), ("outlier", 500)],
)
def test_bootstrap_matches_scipy(scores: str, clusters: int) -> None:
    import scipy.stats

    # both ends vary by some 1.4 % of their distance from the mean, in scipy's draws and in ours
    draw = np.random.default_rng(11)
    sizes = draw.integers(1, 6, clusters)
    of = np.repeat(np.arange(clusters), sizes)
    values = {
        "shares": (draw.random(len(of)) < 0.4).astype(np.float64),
        "rare": (np.arange(len(of)) % 1500 == 0).astype(np.float64),
        "real": draw.random(len(of)),
        "skewed": draw.lognormal(0, 1, len(of)),
        "outlier": draw.random(len(of)) + 300 * (np.arange(len(of)) == 3),
    }[scores]
    whole, exponent = scale_to_integers_and_binary_exponent(values, of)
    low, high = bootstrap_cluster_mean_interval(*sum_and_count_by_cluster(whole, of), 0, exponent)
    sums = np.bincount(of, values)
    theirs = scipy.stats.bootstrap(
        (sums, sizes), ratio, paired=True, vectorized=True, method="percentile", n_resamples=10_000, rng=draw, batch=500
    ).confidence_interval
    margin = 0.04 * (theirs.high - theirs.low) + 1e-4
    assert low == pytest.approx(theirs.low, abs=margin)
    assert high == pytest.approx(theirs.high, abs=margin)


def test_interval_ignores_cluster_order_and_unit_of_mean() -> None:
    draw = np.random.default_rng(1)
    sums, sizes = draw.integers(0, 1000, 500), draw.integers(1, 9, 500)
    order = draw.permutation(500)
    expected = bootstrap_cluster_mean_interval(sums.tolist(), sizes.tolist())
    assert bootstrap_cluster_mean_interval(sums[order].tolist(), sizes[order].tolist()) == expected
    assert bootstrap_cluster_mean_interval((sums * 2**20).tolist(), sizes.tolist(), exponent=20) == pytest.approx(
        expected, rel=1e-5
    )


@pytest.mark.parametrize("factor", [1e-308, 1.0, 3.3e7, 1e300])
def test_scaled_integers_sum_exactly_in_any_order(factor: float) -> None:
    draw = np.random.default_rng(4)
    of: Int64Values = draw.integers(0, 50, 3000)
    values = draw.normal(0, factor, 3000)
    whole, exponent = scale_to_integers_and_binary_exponent(values, of)
    assert np.array_equal(whole, np.rint(whole))
    assert np.abs(whole).max() * 3000 * np.bincount(of).max() < 2**43
    assert math.ldexp(math.fsum(whole), -exponent) == pytest.approx(math.fsum(values), rel=1e-5)
    order = draw.permutation(3000)
    assert np.array_equal(sum_and_count_by_cluster(whole[order], of[order])[0], sum_and_count_by_cluster(whole, of)[0])


@pytest.mark.parametrize(("clusters", "least"), [(10, 0.26), (30, 0.58), (100, 0.9)])
def test_rare_event_interval_has_warning_where_it_undercovers(clusters: int, least: float) -> None:
    # an event in 3 % of clusters: sum the probabilities of the counts whose interval contains 0.03
    held = unnoted = 0.0
    for events in range(clusters + 1):
        chance = math.comb(clusters, events) * 0.03**events * 0.97 ** (clusters - events)
        sums, sizes = np.repeat([1.0, 0.0], [events, clusters - events]), np.ones(clusters)
        low, high = bootstrap_cluster_mean_interval(sums, sizes, draws=1000)
        held += chance * (low <= 0.03 <= high)
        if not format_interval_warning(clusters, count_clusters_off_commonest_mean(sums, sizes)):
            unnoted += chance
    assert held == pytest.approx(least, abs=0.06)
    assert unnoted < 0.01


@pytest.mark.parametrize(
    ("clusters", "unlike", "text"),
    [
        (1, 0, "one cluster"),
        (2, 0, "cannot show the spread"),
        (10, 1, "all but 1 of 10 clusters"),
        (19, 18, "19 clusters"),
        (19, None, "19 clusters"),
        (20, 5, ""),
        (20, 4, "all but 4 of 20 clusters"),
        (1000, 9, "all but 9 of 1000 clusters"),
        (1000, 10, ""),
    ],
)
def test_unreliable_interval_has_warning(clusters: int, unlike: int | None, text: str) -> None:
    note = format_interval_warning(clusters, unlike)
    assert text in note
    assert bool(text) == bool(note)
