"""Metrics that are ratios of sums: micro figures, where an answer counts by how much there is in it, and F1 of two such ratios.

The mean of scores is one too, with one below the line for every item; so is the macro figure beside a micro one, with each
item's own ratio above. An F1 is made of its two ratios, and its interval of draws in which both are made anew.
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
"""Clusters that are drawn for an interval of an F1: over 400 of them it has fewer draws, down to 1,000."""
_CELLS = 1_000_000
"""Clusters that are drawn at once."""


@dataclass(frozen=True, slots=True)
class Part:
    """A ratio: what an item adds above the line and below it, parallel to the items.

    Below are whole numbers, none where the ratio does not apply to an item; NaN above: the item is unscored.
    """

    above: Floats
    below: Floats


@dataclass(frozen=True, slots=True)
class Ratios:
    """One metric between 0 and 1 in one setting; ValueError where the columns are not equally long."""

    setting: str
    metric: str
    clusters: Sequence[str]
    """Ids of what is drawn whole, one an item."""
    parts: Sequence[Part]
    """One: the ratio of its sums. Two: F1, their harmonic mean."""
    groups: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    unit: str = "share"

    def __post_init__(self) -> None:
        """Hold the columns to one another."""
        columns = [each for part in self.parts for each in (part.above, part.below)]
        if any(len(column) != len(self.clusters) for column in (*columns, *self.groups.values())):
            raise ValueError(f"{self.metric}, {self.setting}: columns are not as long as {len(self.clusters)} items")


def measure_ratios(ratios: Sequence[Ratios], seed: int = 0) -> list[Metric]:
    """Return a metric of each over all items, then one of each group, as `measure` does for means.

    n counts the items that a ratio applies to; the bounds give each unscored one as much below the line as the others have.
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
    """Return a ratio, or the harmonic mean of two; None where there is nothing below the line.

    The mean is 0 where one is, whatever the other: a model that finds nothing has an F1 also where it cites nothing.
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
    """Return the interval, how many clusters it is drawn from, and the note."""
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
    """Return the interval of an F1; `sums`: of each cluster (clusters × above and below of each ratio), whole numbers."""
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
