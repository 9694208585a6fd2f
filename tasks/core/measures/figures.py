"""Figures as data: what a report draws. A benchmark says what stands in them, tasks/reports how they look."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tasks.core.evaluation.rows import EvaluationMetric


@dataclass(frozen=True, slots=True)
class Series:
    """Points that belong together; where a figure scatters, a series is one point with its label."""

    label: str
    x: tuple[float | str, ...]
    y: tuple[float | None, ...]
    """None: nothing to average; the point is left out."""
    low: tuple[float | None, ...] = ()
    """Lower ends of the points' intervals; empty: they have none."""
    high: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a report."""

    name: str
    """Unique in its report; snake_case."""
    title: str
    kind: Literal["bars", "stacked", "lines", "scatter"]
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    note: str = ""
    """What the reader must know to read it: where it stands in the paper, what the bars' ends are."""
    y_range: tuple[float, float] | None = None


def make_series(label: str, points: Iterable[tuple[float | str, EvaluationMetric | None]]) -> Series:
    """Return metrics with their intervals as points; None: nothing was counted there."""
    told = list(points)
    values, low, high = (
        tuple(None if each is None else getattr(each, name) for _, each in told)
        for name in ("value", "ci_low", "ci_high")
    )
    return Series(label, tuple(x for x, _ in told), values, low, high)
