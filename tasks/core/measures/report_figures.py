"""Figures of reports as data: a benchmark defines their content, tasks/reports their appearance."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from factmill.tasks.core.evaluation.rows import EvaluationMetric

PAPER_MODEL_SUFFIX = " (paper)"
"""End of the name of a bar with a value of the paper; such bars are pale."""
_METRIC_WORDS = {
    "accuracy_gap": "accuracy gap (long − short)",
    "loose": "loose accuracy",
    "strict": "strict accuracy",
    "upstream_loose": "loose accuracy, public scorer",
    "upstream_strict": "strict accuracy, public scorer",
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
    "judged": "share right by the judge",
}
"""Metric → its words, where those of its name are not enough."""
_SPELLINGS = {"f1": "F1", "granola": "GRANOLA", "idk": "IDK", "na": "[NA]", " - ": " − "}
_SPELLED = re.compile(r"\b(?:f1|granola|idk|na(?= (?:precision|recall|f1)\b))\b| - ")


def format_metric_words(name: str) -> str:
    """Return the name of a metric, setting or group in words, as pages and figures show it."""
    return _METRIC_WORDS.get(name) or _SPELLED.sub(lambda found: _SPELLINGS[found[0]], name.replace("_", " "))


@dataclass(frozen=True, slots=True)
class FigureSeries:
    """A series of points of a figure; in a scatter plot, one point with its label."""

    label: str
    x: tuple[float | str, ...]
    y: tuple[float | None, ...]
    """None: nothing to average; the point is omitted."""
    low: tuple[float | None, ...] = ()
    """Lower ends of the points' intervals; empty: no intervals."""
    high: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportFigure:
    """One figure of a report."""

    name: str
    """Unique in its report; snake_case."""
    title: str
    kind: Literal["bars", "stacked", "lines", "scatter"]
    x_label: str
    y_label: str
    series: tuple[FigureSeries, ...]
    note: str = ""
    """Explanation for the reader: its place in the paper, the meaning of error bars."""
    y_range: tuple[float, float] | None = None
    reference: float | Literal["x = y"] | None = None
    """Line that the note cites: a value of y, or the diagonal; None: no line."""
    palette: Literal["distinct", "ordered"] = "distinct"
    """Colours of the series; `ordered`: steps of one colour, the strongest first, for series that have an order."""
    outside_order: int = 0
    """Number of last series that stand outside that order, in grey."""

    @property
    def has_values(self) -> bool:
        """True if any point has a value."""
        return any(y is not None for series in self.series for y in series.y)

    @property
    def is_of_counts(self) -> bool:
        """True if every value is an integer without an interval, such as a number of rows."""
        return not self.y_range and all(
            not series.low and all(y is None or float(y).is_integer() for y in series.y) for series in self.series
        )


def make_metric_series(label: str, points: Iterable[tuple[float | str, EvaluationMetric | None]]) -> FigureSeries:
    """Make a series of metrics with their intervals; None: no metric at this x."""
    pairs = list(points)
    values, low, high = (
        tuple(None if each is None else getattr(each, name) for _, each in pairs)
        for name in ("value", "ci_low", "ci_high")
    )
    return FigureSeries(label, tuple(x for x, _ in pairs), values, low, high)


def make_group_figure(
    metrics: Sequence[EvaluationMetric],
    metric: str,
    group_by: str,
    kind: Literal["bars", "lines"] = "bars",
    groups: Sequence[str] | None = None,
    **more: Any,
) -> ReportFigure:
    """Make a figure of a metric by group with intervals, one series per model and setting; no series without such groups.

    `groups`: groups on the axis, in order; None: those of each series. `more`: fields of `ReportFigure` that replace the
    defaults. Labels name the setting, in order of name, if there are several.
    """
    found: dict[tuple[str, str], dict[str, EvaluationMetric]] = {}
    for each in metrics:
        if each.metric == metric and each.group_by == group_by:
            found.setdefault((each.model, each.setting), {})[each.group] = each
    settings = sorted({setting for _, setting in found})
    series = tuple(
        make_metric_series(
            f"{model}, {format_metric_words(setting)}" if len(settings) > 1 else model,
            ((group, by_group.get(group)) for group in groups or by_group),
        )
        for model in dict.fromkeys(model for model, _ in found)
        for setting in settings
        if (by_group := found.get((model, setting)))
    )
    metric_label, by = format_metric_words(metric), group_by.replace("_", " ")
    made: dict[str, Any] = {
        "name": f"{metric}_{group_by}",
        "title": f"{metric_label[:1].upper()}{metric_label[1:]} by {by}",
        "x_label": by,
        "y_label": metric_label,
        "note": "Whiskers are 95 % intervals.",
    }
    return ReportFigure(**made | more, kind=kind, series=series)
