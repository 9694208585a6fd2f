"""Metrics that are ratios of sums: micro averages, where an answer counts by the size of its content, and F1 of two ratios.

A mean of scores is such a ratio too, with denominator 1 for every item; so is a macro average, with each item's own ratio as
numerator. An F1 combines two ratios, and its interval comes from draws in which both are recomputed.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from factmill.tasks.core.measures.intervals import (
    BOOTSTRAP_DRAWS,
    Float64Values,
    Int64Values,
    Interval,
    bootstrap_cluster_mean_interval,
    compute_percentile_interval,
    count_clusters_off_commonest_mean,
    format_interval_warning,
    iterate_cluster_draw_counts,
    scale_to_integers_and_binary_exponent,
)
from factmill.tasks.core.measures.metrics import (
    MeasuredMetric,
    index_names_in_sorted_order,
    iterate_all_items_and_groups,
    round_to_six_decimals,
)

_MIN_F1_DRAWS = 1_000
_MAX_DRAWN_CLUSTERS = 4_000_000
"""Maximum number of clusters drawn for an interval of an F1: above 400 clusters it has fewer draws, down to 1,000."""
_MAX_CLUSTERS_AT_ONCE = 1_000_000
"""Maximum number of clusters drawn at once."""


@dataclass(frozen=True, slots=True)
class RatioTermsPerItem:
    """A ratio: each item's contribution to numerator (`numerators`) and denominator (`denominators`), parallel to the items.

    Denominators are whole numbers, 0 if the ratio does not apply to an item; NaN as numerator: the item is unscored.
    """

    numerators: Float64Values
    denominators: Float64Values


@dataclass(frozen=True, slots=True)
class RatioOrF1TermsPerItem:
    """One metric between 0 and 1 in one setting; ValueError if the columns differ in length."""

    setting: str
    metric: str
    clusters: Sequence[str]
    """Ids of resampling units, one per item."""
    ratios: Sequence[RatioTermsPerItem]
    """One part: the ratio of its sums; two: F1, their harmonic mean."""
    groups: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    unit: str = "share"

    def __post_init__(self) -> None:
        """Check that the columns have equal lengths."""
        columns = [each for part in self.ratios for each in (part.numerators, part.denominators)]
        if any(len(column) != len(self.clusters) for column in (*columns, *self.groups.values())):
            raise ValueError(f"{self.metric}, {self.setting}: columns do not all have {len(self.clusters)} items")


def measure_ratio_metrics(ratios: Sequence[RatioOrF1TermsPerItem], seed: int = 0) -> list[MeasuredMetric]:
    """Return for each ratio a metric over all items, then one per group, as `measure` does for means.

    n counts the items that a ratio applies to; for the bounds each unscored item gets the mean denominator of the others.
    """
    return [metric for each in ratios for metric in _measure_ratio_metric_by_group(each, seed)]


def _measure_ratio_metric_by_group(ratios: RatioOrF1TermsPerItem, seed: int) -> Iterator[MeasuredMetric]:
    clusters, _ = index_names_in_sorted_order(ratios.clusters)
    missing: Int64Values = np.any([np.isnan(part.numerators) for part in ratios.ratios], axis=0)
    applies: Int64Values = np.any([part.denominators > 0 for part in ratios.ratios], axis=0)
    for group_by, group, chosen in iterate_all_items_and_groups(ratios.groups, len(clusters)):
        counted = chosen[~missing[chosen] & applies[chosen]]
        n, n_unscored = len(counted), int(missing[chosen].sum())
        sums = [
            (math.fsum(part.numerators[counted].tolist()), math.fsum(part.denominators[counted].tolist()))
            for part in ratios.ratios
        ]
        value = _compute_ratio_or_f1(sums)
        interval, drawn, note = _compute_ratio_interval_and_note(ratios.ratios, counted, clusters, seed)
        if value is None:
            note = f"none of {n_unscored} is scored" if n_unscored else "nothing to score"
        bounds: list[float | None] = [0.0, 1.0] if n_unscored else [None, None]
        if n:
            missing_sums = [below / n * n_unscored for _, below in sums]
            bounds = [
                _compute_ratio_or_f1(
                    [
                        (above + end * lost, below + lost)
                        for (above, below), lost in zip(sums, missing_sums, strict=True)
                    ]
                )
                for end in (0, 1)
            ]
        yield MeasuredMetric(
            setting=ratios.setting,
            metric=ratios.metric,
            group_by=group_by,
            group=group,
            value=None if value is None else round_to_six_decimals(value),
            n=n,
            n_unscored=n_unscored,
            coverage=round_to_six_decimals(n / (n + n_unscored)) if n + n_unscored else None,
            bound_low=bounds[0] if bounds[0] is None else round_to_six_decimals(bounds[0]),
            bound_high=bounds[1] if bounds[1] is None else round_to_six_decimals(bounds[1]),
            ci_low=interval[0] if interval else None,
            ci_high=interval[1] if interval else None,
            interval="bootstrap" if interval else "",
            clusters=drawn,
            unit=ratios.unit,
            note=note,
        )


def _compute_ratio_or_f1(sums: Sequence[tuple[float, float]]) -> float | None:
    """Return a ratio, or the harmonic mean of two; None if a denominator is 0.

    The harmonic mean is 0 if one ratio is 0, even if the other is undefined: a model that finds nothing and cites nothing
    has an F1 of 0.
    """
    ratios = [above / below for above, below in sums if below]
    if len(ratios) < len(sums):
        return 0.0 if len(sums) > 1 and 0.0 in ratios else None
    return ratios[0] if len(ratios) == 1 else 2 * math.prod(ratios) / math.fsum(ratios) if any(ratios) else 0.0


def _compute_ratio_interval_and_note(
    parts: Sequence[RatioTermsPerItem], counted: Int64Values, clusters: Int64Values, seed: int
) -> tuple[Interval | None, int, str]:
    """Return the interval, its number of clusters, and the note."""
    columns: list[Float64Values] = []
    exponents = []
    counted_clusters = clusters[counted]
    for part in parts:
        scaled, exponent = scale_to_integers_and_binary_exponent(part.numerators[counted], counted_clusters)
        exponents.append(exponent)
        columns += [
            np.bincount(counted_clusters, each).astype(np.float64) for each in (scaled, part.denominators[counted])
        ]
    if not len(counted_clusters):
        return None, 0, ""
    there = np.any([below > 0 for below in columns[1::2]], axis=0)
    sums = np.column_stack([column[there] for column in columns])
    ratios = [sums[sums[:, at] > 0, at - 1 : at + 1].T for at in range(1, sums.shape[1], 2)]
    if len(sums) < 2:
        return None, len(sums), format_interval_warning(len(sums))
    if len(parts) == 1:
        interval = bootstrap_cluster_mean_interval(sums[:, 0], sums[:, 1], seed, exponents[0])
    else:
        interval = _compute_f1_interval(sums, exponents, seed)
    return (
        interval,
        len(sums),
        format_interval_warning(len(sums), max(count_clusters_off_commonest_mean(*each) for each in ratios)),
    )


def _compute_f1_interval(sums: Float64Values, exponents: Sequence[int], seed: int) -> Interval:
    """Return the interval of an F1; `sums`: whole numbers, clusters × (numerator, denominator of each ratio)."""
    draws = max(_MIN_F1_DRAWS, min(BOOTSTRAP_DRAWS, _MAX_DRAWN_CLUSTERS // len(sums)))
    found = []
    for counts in iterate_cluster_draw_counts(len(sums), draws, max(1, _MAX_CLUSTERS_AT_ONCE // len(sums)), seed):
        totals = counts.astype(np.float64) @ sums
        with np.errstate(invalid="ignore", divide="ignore"):
            first, second = (
                np.ldexp(totals[:, at], -exponent) / totals[:, at + 1]
                for at, exponent in zip((0, 2), exponents, strict=True)
            )
            found.append(np.where((first > 0) & (second > 0), 2 * first * second / (first + second), 0.0))
    return compute_percentile_interval(np.concatenate(found))
