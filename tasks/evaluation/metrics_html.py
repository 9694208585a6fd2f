"""Metrics as a short HTML table, for notebooks: each value with its interval, n and what has no score."""

from collections.abc import Collection, Iterable, Sequence

from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.text.html_tables import render_html_table

_HEADINGS = ("setting", "metric", "value", "95 % interval", "n", "unscored", "note")


def render_metrics_html(
    title: str, metrics: Iterable[EvaluationMetric], only: Collection[str] = (), notes: Sequence[str] = ()
) -> str:
    """Return the metrics over all items as HTML, in the order given; `only`: names of the metrics to show; empty: all."""
    overall = [each for each in metrics if not each.group_by and (not only or each.metric in only)]
    rows = (
        (
            each.setting,
            each.metric,
            None if each.value is None else f"{each.value:.3f}",
            None if each.ci_low is None else f"{each.ci_low:.3f} to {each.ci_high:.3f}",
            each.n,
            each.n_unscored,
            each.note,
        )
        for each in overall
    )
    return render_html_table(title, _HEADINGS, rows, notes)
