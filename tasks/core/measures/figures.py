"""Figures as data: what a report draws. A benchmark says what stands in them, tasks/reports how they look."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from factmill.tasks.core.evaluation.rows import EvaluationMetric


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


def draw_groups(
    metrics: Sequence[EvaluationMetric],
    metric: str,
    group_by: str,
    kind: Literal["bars", "lines"] = "bars",
    groups: Sequence[str] | None = None,
    **more: Any,
) -> Figure:
    """Return a metric by group with intervals, a series a model and setting; no series where it was not grouped so.

    `groups`: all that stand on the axis, in order; None: those that each series has. `more`: fields of `Figure` instead of
    those made here. Settings, by name, are named where there are several.
    """
    found: dict[tuple[str, str], dict[str, EvaluationMetric]] = {}
    for each in metrics:
        if each.metric == metric and each.group_by == group_by:
            found.setdefault((each.model, each.setting), {})[each.group] = each
    settings = sorted({setting for _, setting in found})
    series = tuple(
        make_series(
            f"{model}, {setting.replace('_', ' ')}" if len(settings) > 1 else model,
            ((group, mine.get(group)) for group in groups or mine),
        )
        for model in dict.fromkeys(model for model, _ in found)
        for setting in settings
        if (mine := found.get((model, setting)))
    )
    said, by = metric.replace("_", " "), group_by.replace("_", " ")
    made: dict[str, Any] = {
        "name": f"{metric}_{group_by}",
        "title": f"{said.capitalize()} by {by}",
        "x_label": by,
        "y_label": said,
        "note": "Whiskers are 95 % intervals.",
    }
    return Figure(**made | more, kind=kind, series=series)
