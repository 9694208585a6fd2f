"""Figures of GRANOLA's metrics for one or several models (paper Figures 5 to 8 and 11, Table 3)."""

from collections.abc import Iterator, Mapping, Sequence

from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.measures.counts_and_bins import UNKNOWN_BIN
from factmill.tasks.core.measures.report_figures import (
    FigureSeries,
    ReportFigure,
    format_metric_words,
    make_metric_series,
)
from factmill.tasks.granola.core.evaluation.scoring import SIMILARITY_METRIC, AgreementCell, PredictionOutcome

_SELECTIVE_NOTE = "Accuracies here leave out IDK answers (§5.1)."
_OUTCOMES_BEST_FIRST: tuple[PredictionOutcome, ...] = ("level_1", "level_2", "level_3_or_more", "idk", "wrong")
_SHOWN_CELLS: tuple[AgreementCell, ...] = ("both", "granola_only", "neither")
_ACCURACIES = {"standard": "selective_accuracy", "GRANOLA": "selective_granola_accuracy"}

MetricKey = tuple[str, str, str, str, str]
_MetricsByKey = Mapping[MetricKey, EvaluationMetric]
_RunLabels = Mapping[tuple[str, str], str]
"""(model, setting) → its label in figures."""


def draw_granola_evaluation_figures(metrics: Sequence[EvaluationMetric]) -> list[ReportFigure]:
    """Return all figures of the metrics."""
    by = {(each.model, each.setting, each.metric, each.group_by, each.group): each for each in metrics}
    several = len({each.model for each in metrics}) > 1
    runs = {
        (each.model, each.setting): f"{each.model}, {each.setting}" if several else each.setting for each in metrics
    }
    return [
        ReportFigure(
            name="standard_and_granola_accuracy",
            title="Standard and GRANOLA accuracy",
            kind="scatter",
            x_label="selective accuracy, level 1 alone",
            y_label="selective GRANOLA accuracy, any level",
            series=_make_granola_accuracy_scatter_series(by, runs, "selective_accuracy"),
            note=f"Figure 5 of the paper. The distance of a point above the dashed line, x = y, shows what coarser answers add. {_SELECTIVE_NOTE}",
            y_range=(0, 1),
            reference="x = y",
        ),
        ReportFigure(
            name="accuracy_and_informativeness",
            title="GRANOLA accuracy and informativeness",
            kind="scatter",
            x_label="informativeness",
            y_label="selective GRANOLA accuracy, any level",
            series=_make_granola_accuracy_scatter_series(by, runs, "informativeness"),
            note="Figure 7 of the paper. The accuracy leaves out IDK answers; their informativeness is 0.",
            y_range=(0, 1),
        ),
        _draw_matched_levels(by, runs),
        *(_draw_accuracy_by_popularity(by, run, name) for run, name in runs.items()),
        *_draw_mean_similarity_by_agreement_cell(by, runs),
    ]


def _make_series(metrics_by_key: _MetricsByKey, label: str, keys: Mapping[str, MetricKey]) -> FigureSeries:
    """Return the available metrics as a series; `keys`: x → metric."""
    return make_metric_series(label, ((x, metrics_by_key[key]) for x, key in keys.items() if key in metrics_by_key))


def _draw_matched_levels(metrics_by_key: _MetricsByKey, runs: _RunLabels) -> ReportFigure:
    by_outcome = {
        outcome: _make_series(
            metrics_by_key,
            format_metric_words(outcome),
            {label: (*run, f"share_{outcome}", "", "") for run, label in runs.items()},
        )
        for outcome in _OUTCOMES_BEST_FIRST
    }
    found = {outcome: series for outcome, series in by_outcome.items() if any(series.y)}
    return ReportFigure(
        name="matched_levels",
        title="Levels that answers match",
        kind="stacked",
        x_label="",
        y_label="share of answers",
        series=tuple(found.values()),
        note="Figure 8 of the paper. Level 1 is the finest; outcomes that no answer has are left out.",
        y_range=(0, 1),
        palette="ordered",
        outside_order=len(found.keys() & {"idk", "wrong"}),
    )


def _make_granola_accuracy_scatter_series(
    metrics_by_key: _MetricsByKey, runs: _RunLabels, x_metric: str
) -> tuple[FigureSeries, ...]:
    """Return a point for each run: a metric, and selective GRANOLA accuracy."""
    series = []
    for run, label in runs.items():
        x, y = (metrics_by_key.get((*run, metric, "", "")) for metric in (x_metric, _ACCURACIES["GRANOLA"]))
        if x and y and x.value is not None:
            series.append(make_metric_series(label, [(x.value, y)]))
    return tuple(series)


def _draw_accuracy_by_popularity(metrics_by_key: _MetricsByKey, run: tuple[str, str], run_label: str) -> ReportFigure:
    found = {key[4] for key in metrics_by_key if key[:2] == run and key[3] == "popularity"}
    bins = {each: each.partition(" (")[0] for each in sorted(found - {UNKNOWN_BIN})}
    ranges = "; ".join(f"{short}: {each.partition(' (')[2].rstrip(')')}" for each, short in bins.items())
    return ReportFigure(
        name="_".join(("accuracy_by_popularity", *run_label.split(", "))),
        title=f"Accuracy by popularity: {run_label}",
        kind="lines",
        x_label="popularity of the question's entity",
        y_label="selective accuracy",
        series=tuple(
            _make_series(
                metrics_by_key, name, {short: (*run, metric, "popularity", each) for each, short in bins.items()}
            )
            for name, metric in _ACCURACIES.items()
        ),
        note=f"Figures 6 and 11 of the paper. Bins of equal size by page views in twelve months, the least viewed first ({ranges}). {_SELECTIVE_NOTE}",
        y_range=(0, 1),
    )


def _draw_mean_similarity_by_agreement_cell(metrics_by_key: _MetricsByKey, runs: _RunLabels) -> Iterator[ReportFigure]:
    cells = {format_metric_words(cell): ("agreement", cell) for cell in _SHOWN_CELLS}
    lines = (
        _make_series(metrics_by_key, label, {name: (*run, SIMILARITY_METRIC, *cell) for name, cell in cells.items()})
        for run, label in runs.items()
    )
    if series := tuple(line for line in lines if line.x):
        yield ReportFigure(
            name="similarity_by_agreement",
            title="Similarity to the gold answer, by the accuracies that count the answer as right",
            kind="bars",
            x_label="",
            y_label="mean cosine",
            series=series,
            note="Table 3 of the paper, which uses BLEURT. By definition, no answer is right by standard accuracy only.",
        )
