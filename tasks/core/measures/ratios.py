"""Metrics that are ratios of sums: micro averages, where an answer counts by the size of its content, and F1 of two ratios.

A mean of scores is such a ratio too, with denominator 1 for every item; so is a macro average, with each item's own ratio as
numerator. An F1 combines two ratios, and its interval comes from draws in which both are recomputed.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from factmill.tasks.core.measures.intervals import (
    DRAWS,
    Floats,
    Interval,
    Numbers,
    bootstrap,
    count_unlike,
    cut_tails,
    explain_interval,
    to_whole,
)
from factmill.tasks.core.measures.metrics import Metric, list_groups, number, round_value

_LEAST_DRAWS = 1_000
_DRAWN = 4_000_000
"""Maximum number of clusters drawn for an interval of an F1: above 400 clusters it has fewer draws, down to 1,000."""
_CELLS = 1_000_000
"""Maximum number of clusters drawn at once."""


@dataclass(frozen=True, slots=True)
class Part:
    """A ratio: each item's contribution to numerator (`above`) and denominator (`below`), parallel to the items.

    Denominators are whole numbers, 0 if the ratio does not apply to an item; NaN as numerator: the item is unscored.
    """

    above: Floats
    below: Floats


@dataclass(frozen=True, slots=True)
class Ratios:
    """One metric between 0 and 1 in one setting; ValueError if the columns differ in length."""

    setting: str
    metric: str
    clusters: Sequence[str]
    """Ids of resampling units, one per item."""
    parts: Sequence[Part]
    """One part: the ratio of its sums; two: F1, their harmonic mean."""
    groups: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    unit: str = "share"

    def __post_init__(self) -> None:
        """Check that the columns have equal lengths."""
        columns = [each for part in self.parts for each in (part.above, part.below)]
        if any(len(column) != len(self.clusters) for column in (*columns, *self.groups.values())):
            raise ValueError(f"{self.metric}, {self.setting}: columns are not as long as {len(self.clusters)} items")


def measure_ratios(ratios: Sequence[Ratios], seed: int = 0) -> list[Metric]:
    """Return for each ratio a metric over all items, then one per group, as `measure` does for means.

    n counts the items that a ratio applies to; for the bounds each unscored item gets the mean denominator of the others.
    """
    return [metric for each in ratios for metric in _measure_one(each, seed)]


def _measure_one(ratios: Ratios, seed: int) -> Iterator[Metric]:
    clusters, _ = number(ratios.clusters)
    missing: Numbers = np.any([np.isnan(part.above) for part in ratios.parts], axis=0)
    applies: Numbers = np.any([part.below > 0 for part in ratios.parts], axis=0)
    for group_by, group, chosen in list_groups(ratios.groups, len(clusters)):
        counted = chosen[~missing[chosen] & applies[chosen]]
        n, n_unscored = len(counted), int(missing[chosen].sum())
        sums = [
            (math.fsum(part.above[counted].tolist()), math.fsum(part.below[counted].tolist())) for part in ratios.parts
        ]
        value = _combine(sums)
        interval, drawn, note = _find_interval(ratios.parts, counted, clusters, seed)
        if value is None:
            note = f"none of {n_unscored} is scored" if n_unscored else "nothing to score"
        bounds = [_bound(sums, n, n_unscored, at) if n else float(at) if n_unscored else None for at in (0, 1)]
        yield Metric(
            setting=ratios.setting,
            metric=ratios.metric,
            group_by=group_by,
            group=group,
            value=None if value is None else round_value(value),
            n=n,
            n_unscored=n_unscored,
            coverage=round_value(n / (n + n_unscored)) if n + n_unscored else None,
            bound_low=bounds[0],
            bound_high=bounds[1],
            ci_low=interval[0] if interval else None,
            ci_high=interval[1] if interval else None,
            interval="bootstrap" if interval else "",
            clusters=drawn,
            unit=ratios.unit,
            note=note,
        )


def _combine(sums: Sequence[tuple[float, float]]) -> float | None:
    """Return a ratio, or the harmonic mean of two; None if a denominator is 0.

    The harmonic mean is 0 if one ratio is 0, even if the other is undefined: a model that finds nothing and cites nothing
    has an F1 of 0.
    """
    ratios = [above / below for above, below in sums if below]
    if len(ratios) < len(sums):
        return 0.0 if len(sums) > 1 and 0.0 in ratios else None
    return ratios[0] if len(ratios) == 1 else 2 * math.prod(ratios) / math.fsum(ratios) if any(ratios) else 0.0


def _bound(sums: Sequence[tuple[float, float]], n: int, n_unscored: int, at: int) -> float | None:
    shares = [(above + below / n * n_unscored * at, below + below / n * n_unscored) for above, below in sums]
    value = _combine(shares)
    return None if value is None else round_value(value)


def _find_interval(
    parts: Sequence[Part], counted: Numbers, clusters: Numbers, seed: int
) -> tuple[Interval | None, int, str]:
    """Return the interval, its number of clusters, and the note."""
    columns: list[Floats] = []
    exponents = []
    mine = clusters[counted]
    for part in parts:
        whole, exponent = to_whole(part.above[counted], mine)
        exponents.append(exponent)
        columns += [np.bincount(mine, each).astype(np.float64) for each in (whole, part.below[counted])]
    if not len(mine):
        return None, 0, ""
    there = np.any([below > 0 for below in columns[1::2]], axis=0)
    sums = np.column_stack([column[there] for column in columns])
    ratios = [sums[sums[:, at] > 0, at - 1 : at + 1].T for at in range(1, sums.shape[1], 2)]
    if len(sums) < 2:
        return None, len(sums), explain_interval(len(sums))
    if len(parts) == 1:
        interval = bootstrap(sums[:, 0], sums[:, 1], seed, exponents[0])
    else:
        interval = _draw_means(sums, exponents, seed)
    return interval, len(sums), explain_interval(len(sums), max(count_unlike(*each) for each in ratios))


def _draw_means(sums: Floats, exponents: Sequence[int], seed: int) -> Interval:
    """Return the interval of an F1; `sums`: whole numbers, clusters × (numerator, denominator of each ratio)."""
    draws = max(_LEAST_DRAWS, min(DRAWS, _DRAWN // len(sums)))
    generator, rows, found = np.random.default_rng(seed), max(1, _CELLS // len(sums)), []
    for start in range(0, draws, rows):
        size = min(rows, draws - start)
        drawn = generator.integers(0, len(sums), (size, len(sums))) + np.arange(size)[:, None] * len(sums)
        counts = np.bincount(drawn.ravel(), minlength=size * len(sums)).reshape(size, len(sums))
        totals = counts.astype(np.float64) @ sums
        with np.errstate(invalid="ignore", divide="ignore"):
            first, second = (
                np.ldexp(totals[:, at], -exponent) / totals[:, at + 1]
                for at, exponent in zip((0, 2), exponents, strict=True)
            )
            found.append(np.where((first > 0) & (second > 0), 2 * first * second / (first + second), 0.0))
    return cut_tails(np.concatenate(found))
