"""Paired comparison of models on the items that both have a score for: difference, interval, p-value and ranks.

Items are paired by id, and clusters resampled as wholes, as in metrics. Two models differ if the interval of their paired
difference excludes 0 and the adjusted p is at most 0.05: an interval from few clusters is too narrow, the tests are not.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from factmill.tasks.core.measures.intervals import (
    BOOTSTRAP_DRAWS,
    Z_95,
    Float64Values,
    bootstrap_cluster_mean_interval,
    count_clusters_off_commonest_mean,
    format_interval_warning,
    scale_to_integers_and_binary_exponent,
    sum_and_count_by_cluster,
)
from factmill.tasks.core.measures.metrics import MetricScores, index_names_in_sorted_order, round_to_six_decimals
from factmill.tasks.core.rows import StrictModel

_Z_80 = 0.8416212335729143
"""80 % quantile of the normal distribution."""
MAX_ADJUSTED_P = 0.05
"""Maximum adjusted p of a difference that shows which model is better."""
_MAX_SIGNS_AT_ONCE = 10_000_000
"""Maximum number of signs drawn at once."""
RankRange = tuple[int, int]
"""Best and worst possible rank of a model."""


class ModelComparison(StrictModel):
    """Comparison of two models by one metric, on the items that both have a score for."""

    first: str
    second: str
    setting: str
    """Empty if the two have different settings."""
    metric: str
    n: int
    """Items that both have a score for; all figures use these only."""
    only_first: int
    """Items left out because only the first has a score for them."""
    only_second: int
    clusters: int
    value_first: float | None
    """Mean, to six digits."""
    value_second: float | None
    difference: float | None
    """The first's mean less the second's."""
    ci_low: float | None
    """Lower end of the difference's 95 % interval, by a paired bootstrap over clusters; to four digits."""
    ci_high: float | None
    better: str
    """The model that the interval, and the adjusted p if there is one, show to be better; empty: neither, or no interval."""
    p: float | None
    """Two-sided, to four significant digits."""
    p_adjusted: float | None
    """Adjusted by Benjamini and Hochberg over all comparisons made at once; null for a single comparison."""
    test: Literal["mcnemar", "sign_flip", ""]
    smallest_difference: float | None
    """Smallest true difference that such a sample detects at 5 % (two-sided) with 80 % power."""
    unit: str
    note: str
    """Why there is no figure, or why the interval is unreliable."""


def compare_models(
    first: str, of_first: MetricScores, second: str, of_second: MetricScores, seed: int = 0
) -> ModelComparison:
    """Compare two models by one metric.

    p comes from McNemar's exact test if each item is right or wrong and a cluster of its own, else from a sign-flip
    permutation test over clusters. ValueError if the metrics differ, or an item has two scores.
    """
    same = [(s.metric, s.worst, s.best, s.unit, s.is_share) for s in (of_first, of_second)]
    if same[0] != same[1]:
        raise ValueError(f"cannot compare {first} with {second}: scores of {same[0]} and of {same[1]}")
    left, right = keep_shared_items([of_first, of_second])
    n = len(left.items)
    totals = [math.fsum(scores.values.tolist()) for scores in (left, right)]
    difference = (totals[0] - totals[1]) / n if n else None
    gains = left.values - right.values
    clusters, names = index_names_in_sorted_order(left.clusters)
    scaled, exponent = scale_to_integers_and_binary_exponent(gains, clusters)
    sums, sizes = sum_and_count_by_cluster(scaled, clusters)
    interval = bootstrap_cluster_mean_interval(sums, sizes, seed, exponent) if len(names) > 1 else None
    paired = left.is_share and len(names) == n
    p = None
    if n and paired:
        p = compute_mcnemar_p(int(np.sum(gains > 0)), int(np.sum(gains < 0)))
    elif n:
        p = compute_sign_flip_p(sums, seed)
    smallest = compute_smallest_detectable_difference(sums, sizes, exponent)
    better = ""
    if interval and (interval[0] > 0 or interval[1] < 0):
        better = first if (interval[0] > 0) == (left.best > left.worst) else second
    return ModelComparison(
        first=first,
        second=second,
        setting=left.setting if left.setting == right.setting else "",
        metric=left.metric,
        n=n,
        only_first=int(np.sum(~np.isnan(of_first.values))) - n,
        only_second=int(np.sum(~np.isnan(of_second.values))) - n,
        clusters=len(names),
        value_first=round_to_six_decimals(totals[0] / n) if n else None,
        value_second=round_to_six_decimals(totals[1] / n) if n else None,
        difference=None if difference is None else round_to_six_decimals(difference),
        ci_low=interval[0] if interval else None,
        ci_high=interval[1] if interval else None,
        better=better,
        p=p,
        p_adjusted=None,
        test="" if p is None else "mcnemar" if paired else "sign_flip",
        smallest_difference=smallest,
        unit=left.unit,
        note=format_interval_warning(len(names), count_clusters_off_commonest_mean(sums, sizes))
        if n
        else "no item has a score of both",
    )


def compare_all_models(models: Mapping[str, Sequence[MetricScores]], seed: int = 0) -> list[ModelComparison]:
    """Compare all pairs of models in each setting and by each metric that both have, with adjusted p."""
    found = []
    for (first, of_first), (second, of_second) in itertools.combinations(models.items(), 2):
        others = {(scores.setting, scores.metric): scores for scores in of_second}
        for scores in of_first:
            if (scores.setting, scores.metric) in others:
                found.append(compare_models(first, scores, second, others[scores.setting, scores.metric], seed))
    adjusted = adjust_p_values_benjamini_hochberg([comparison.p for comparison in found])
    return [
        one.model_copy(update={"p_adjusted": p, "better": one.better if p is not None and p <= MAX_ADJUSTED_P else ""})
        for one, p in zip(found, adjusted, strict=True)
    ]


def keep_shared_items(of_models: Sequence[MetricScores]) -> list[MetricScores]:
    """Restrict scores to the items that all models have a score for, sorted by item id; ValueError if an item has two."""
    places = []
    for scores in of_models:
        known = {item: place for place, item in enumerate(scores.items)}
        if len(known) < len(scores.items):
            twice = next(item for place, item in enumerate(scores.items) if known[item] != place)
            raise ValueError(f"{scores.metric}, {scores.setting}: {twice} has two scores; expected one per item")
        places.append({scores.items[place]: place for place in np.flatnonzero(~np.isnan(scores.values)).tolist()})
    shared = sorted(set.intersection(*(set(known) for known in places)))
    kept = []
    for scores, known in zip(of_models, places, strict=True):
        chosen = [known[item] for item in shared]
        clusters = [scores.clusters[place] for place in chosen]
        groups = {by: [column[place] for place in chosen] for by, column in scores.groups.items()}
        kept.append(
            dataclasses.replace(scores, items=shared, clusters=clusters, values=scores.values[chosen], groups=groups)
        )
    return kept


def compute_mcnemar_p(only_first: int, only_second: int) -> float:
    """Return the two-sided p of McNemar's exact test, from the numbers of items that only one has right."""
    n, least = only_first + only_second, min(only_first, only_second)
    terms = [math.comb(n, least) / 2**n]
    for k in range(least, 0, -1):
        terms.append(terms[-1] * k / (n - k + 1))
    return _round_p(min(1.0, 2 * math.fsum(terms)))


def compute_sign_flip_p(sums: Float64Values, seed: int = 0) -> float:
    """Return the two-sided p of a sign-flip permutation test: under the null, each cluster's difference may change its sign.

    `sums`: difference of each cluster, whole numbers. With up to 13 nonzero differences all 2^n sign patterns are counted,
    else 10,000 are drawn, and the observed pattern counts as one of them: p is at least 1/10,001.
    """
    sizes = np.sort(np.abs(sums[sums != 0]))
    n, total, found = len(sizes), float(sizes.sum()), abs(float(sums.sum()))
    if 2**n <= BOOTSTRAP_DRAWS:
        ways = np.arange(2**n)[:, None] >> np.arange(n) & 1
        return _round_p(float(np.mean(np.abs(2 * (ways @ sizes) - total) >= found)))
    generator, reached, rows = np.random.default_rng(seed), 1, max(1, _MAX_SIGNS_AT_ONCE // n)
    for start in range(0, BOOTSTRAP_DRAWS, rows):
        drawn = generator.integers(0, 256, (min(rows, BOOTSTRAP_DRAWS - start), -(-n // 8)), np.uint8)
        turned = np.unpackbits(drawn, axis=1, count=n).astype(np.float64) @ sizes
        reached += int(np.sum(np.abs(2 * turned - total) >= found))
    return _round_p(reached / (BOOTSTRAP_DRAWS + 1))


def compute_smallest_detectable_difference(
    sums: Float64Values, sizes: Float64Values, exponent: int = 0
) -> float | None:
    """Return the smallest difference that such a sample detects at 5 % (two-sided) with 80 % power; to six digits.

    `sums`, `sizes`: paired differences by cluster, in units of 2^-exponent. None if these do not vary, or for one cluster:
    then the power is unknown.
    """
    clusters = len(sums)
    if clusters < 2:
        return None
    mean = float(sums.sum() / sizes.sum())
    spread = math.fsum(((sums - mean * sizes) ** 2).tolist()) * clusters / (clusters - 1)
    error = math.ldexp(math.sqrt(spread) / float(sizes.sum()), -exponent)
    return round_to_six_decimals((Z_95 + _Z_80) * error) or None


def adjust_p_values_benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust p-values by Benjamini and Hochberg: those up to 0.05 have a false discovery rate of 5 %."""
    order = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    least = 1.0
    for rank_, (p, place) in reversed(list(enumerate(order, 1))):
        least = min(least, p * len(order) / rank_)
        adjusted[place] = _round_p(least)
    return adjusted


def compute_model_rank_ranges(
    comparisons: Sequence[ModelComparison], lower_is_better: bool = False
) -> dict[str, RankRange]:
    """Return the range of possible ranks of each model: the ranks, by value, of all models that it does not clearly differ from.

    `comparisons`: all pairs of models, by one metric in one setting, on the same items. Models without a clear difference
    share ranks; a model that differs from all others has a single rank.
    """
    compared = [one for one in comparisons if one.ci_low is not None]
    values = {one.first: one.value_first or 0.0 for one in compared}
    values |= {one.second: one.value_second or 0.0 for one in compared}
    sign = 1 if lower_is_better else -1
    places = {name: place for place, name in enumerate(sorted(values, key=lambda name: (sign * values[name], name)), 1)}
    ranks = {name: [place] for name, place in places.items()}
    for one in compared:
        if not one.better:
            ranks[one.first].append(places[one.second])
            ranks[one.second].append(places[one.first])
    return {name: (min(shared), max(shared)) for name, shared in ranks.items()}


def _round_p(p: float) -> float:
    return float(f"{p:.4g}")
