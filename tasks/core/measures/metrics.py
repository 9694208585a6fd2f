"""Metrics of an evaluation: means of scores, over all items and by group, with intervals, bounds and coverage.

An item that could not be scored is in no mean and in no n, but it is counted; the bounds give the mean if all such items
had the worst, or the best, score. If there is nothing to average, there is a note in place of a number.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from factmill.tasks.core.measures.intervals import (
    Float64Values,
    Int64Values,
    Interval,
    bootstrap_cluster_mean_interval,
    compute_wilson_interval,
    count_clusters_off_commonest_mean,
    format_interval_warning,
    scale_to_integers_and_binary_exponent,
    sum_and_count_by_cluster,
)
from factmill.tasks.core.rows import StrictModel

IntervalKind = Literal["wilson", "bootstrap", ""]

_METRIC_DIGITS = 6


@dataclass(frozen=True, slots=True)
class MetricScores:
    """Scores of one metric in one setting: parallel columns, one entry per item.

    ValueError if the columns differ in length, a score is infinite, or a share is neither 0 nor 1.
    """

    setting: str
    metric: str
    """snake_case: granola_accuracy."""
    items: Sequence[str]
    """Ids of scored items, without those to which the metric does not apply."""
    clusters: Sequence[str]
    """Ids of resampling units (questions, topics); the items themselves if they are independent."""
    values: Float64Values
    """NaN: unscored."""
    groups: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    """Grouping → group of each item, None for an item in none."""
    worst: float = 0.0
    """Worst possible score; above `best` if lower is better."""
    best: float = 1.0
    unit: str = ""
    """share, cosine, tokens …"""
    is_share: bool = False
    """Each score is right (1) or wrong (0)."""

    def __post_init__(self) -> None:
        """Check the lengths and values of the columns."""
        columns: dict[str, Sequence[str | None] | Float64Values] = {
            "clusters": self.clusters,
            "values": self.values,
            **self.groups,
        }
        for name, column in columns.items():
            if len(column) != len(self.items):
                raise ValueError(f"{self.metric}, {self.setting}: {len(self.items)} items, but {len(column)} {name}")
        wrong = np.isinf(self.values)
        if self.is_share:
            wrong |= ~np.isnan(self.values) & (self.values != 0) & (self.values != 1)
        for position in np.flatnonzero(wrong)[:1]:
            expected = "0 or 1" if self.is_share else "a finite number, or NaN"
            found = f"{self.items[position]} has {self.values[position]}"
            raise ValueError(f"{self.metric}, {self.setting}: {found}; expected {expected}")


class MeasuredMetric(StrictModel):
    """One metric in one setting, over all items or one group, with its interval; these are columns of a published table."""

    setting: str
    """Setting in which questions were asked."""
    metric: str
    """Name of the metric."""
    group_by: str
    """Grouping of the items; empty: not grouped."""
    group: str
    """Group within this grouping; empty: all items."""
    value: float | None
    """Mean; null if there is nothing to average, as `note` explains."""
    n: int
    """Number of scored items."""
    n_unscored: int
    """Number of items that lack a score; `<benchmark>_scores` has the reasons."""
    clusters: int
    """Number of resampling units for the interval."""
    coverage: float | None
    """n divided by n + n_unscored."""
    bound_low: float | None
    """The mean if every unscored item counted as the lowest score."""
    bound_high: float | None
    """The mean if every unscored item counted as the highest score."""
    ci_low: float | None
    """Lower end of the 95 % interval."""
    ci_high: float | None
    """Upper end of the 95 % interval."""
    interval: IntervalKind
    """Method of the interval: wilson, bootstrap; empty: no interval."""
    unit: str
    """Unit of the value: share, words, …"""
    note: str
    """Why there is no value or no interval, or a caution about them; empty for none."""


def measure_mean_metrics(scores: Sequence[MetricScores], seed: int = 0) -> list[MeasuredMetric]:
    """Return for each `MetricScores` a metric over all items, then one per group, whatever the order of items."""
    known: list[tuple[Sequence[str], Int64Values]] = []
    """Cluster columns with their numbers, for reuse: most metrics have the same items."""
    metrics = []
    for each in scores:
        clusters = next((numbers for names, numbers in known if names == each.clusters), None)
        if clusters is None:
            clusters = index_names_in_sorted_order(each.clusters)[0]
            known.append((each.clusters, clusters))
        ends = sorted((each.worst, each.best))
        scored = ~np.isnan(each.values)
        scaled, exponent = scale_to_integers_and_binary_exponent(np.where(scored, each.values, 0.0), clusters)
        for group_by, group, chosen in iterate_all_items_and_groups(each.groups, len(clusters)):
            counted = chosen[scored[chosen]]
            sums, sizes = sum_and_count_by_cluster(scaled[counted], clusters[counted])
            total = math.fsum(each.values[counted].tolist())
            n, n_unscored = len(counted), len(chosen) - len(counted)
            bounds: list[float | None] = [None, None]
            if len(chosen):
                bounds = [round_to_six_decimals((total + n_unscored * end) / len(chosen)) for end in ends]
            interval: Interval | tuple[None, None] = (None, None)
            kind: IntervalKind = ""
            note = ""
            if not n:
                note = f"none of {n_unscored} is scored" if n_unscored else "nothing to score"
            elif each.is_share and sizes.max() == 1:
                interval, kind = compute_wilson_interval(round(total), len(sums)), "wilson"
            else:
                note = format_interval_warning(len(sums), count_clusters_off_commonest_mean(sums, sizes))
                if len(sums) > 1:
                    interval, kind = bootstrap_cluster_mean_interval(sums, sizes, seed, exponent), "bootstrap"
            metrics.append(
                MeasuredMetric(
                    setting=each.setting,
                    metric=each.metric,
                    group_by=group_by,
                    group=group,
                    value=round_to_six_decimals(total / n) if n else None,
                    n=n,
                    n_unscored=n_unscored,
                    coverage=round_to_six_decimals(n / len(chosen)) if len(chosen) else None,
                    bound_low=bounds[0],
                    bound_high=bounds[1],
                    ci_low=interval[0],
                    ci_high=interval[1],
                    interval=kind,
                    clusters=len(sums),
                    unit=each.unit,
                    note=note,
                )
            )
    return metrics


def index_names_in_sorted_order(names: Sequence[str | None]) -> tuple[Int64Values, list[str]]:
    """Return the position of each name in the sorted names, -1 for None, and the sorted names."""
    known = sorted({name for name in names if name is not None})
    positions: dict[str | None, int] = {None: -1, **{name: position for position, name in enumerate(known)}}
    return np.fromiter(map(positions.__getitem__, names), np.int64, len(names)), known


def iterate_all_items_and_groups(
    groups: Mapping[str, Sequence[str | None]], items: int
) -> Iterator[tuple[str, str, Int64Values]]:
    """Yield all items, then each group, sorted by name, as (grouping, group, item positions)."""
    yield "", "", np.arange(items)
    for group_by, column in groups.items():
        numbers, names = index_names_in_sorted_order(column)
        order = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[order], np.arange(len(names) + 1))
        for name, start, end in zip(names, ends[:-1], ends[1:], strict=True):
            yield group_by, name, order[start:end]


def round_to_six_decimals(value: float) -> float:
    """Round a value for publication: to six digits, never minus zero."""
    return round(value, _METRIC_DIGITS) + 0.0


def format_metric_with_interval(metric: MeasuredMetric) -> str:
    """Return a metric's value with its interval, n and number of unscored items, as part of a line."""
    if metric.value is None:
        return f"no value: {metric.note}"
    interval = f" [{metric.ci_low:.3f}, {metric.ci_high:.3f}]" if metric.ci_low is not None else ""
    bounds = f", {metric.n_unscored} unscored" if metric.n_unscored else ""
    if bounds and metric.bound_low is not None:
        bounds += f": {metric.bound_low:.3f} to {metric.bound_high:.3f}"
    note = f"; {metric.note}" if metric.note else ""
    return f"{metric.value:.3f}{interval} (n = {metric.n}{bounds}{note})"
