"""Figures of GRANOLA's metrics for one or several models (paper Figures 5 to 8 and 11, Table 3)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.measures.counts_and_bins import UNKNOWN_BIN
from factmill.tasks.core.measures.report_figures import ReportFigure, make_metric_series
from factmill.tasks.granola.core.evaluation.scoring import AGREEMENT_CELLS, SIMILARITY_METRIC, PredictionOutcome

_SELECTIVE_NOTE = "Accuracies here leave out IDK answers (§5.1)."
_OUTCOMES_BEST_FIRST: tuple[PredictionOutcome, ...] = ("level_1", "level_2", "level_3_or_more", "idk", "wrong")
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
        _draw_accuracy_scatter(
            by,
            runs,
            "standard_and_granola_accuracy",
            "Standard and GRANOLA accuracy",
            ("selective_accuracy", "selective accuracy, level 1 alone"),
            f"Figure 5 of the paper. The distance of a point above the dashed line, x = y, shows what coarser answers add. {_SELECTIVE_NOTE}",
            reference="x = y",
        ),
        _draw_accuracy_scatter(
            by,
            runs,
            "accuracy_and_informativeness",
            "GRANOLA accuracy and informativeness",
            ("informativeness", "informativeness"),
            "Figure 7 of the paper. The accuracy leaves out IDK answers; their informativeness is 0.",
        ),
        _draw_outcome_shares(by, runs),
        *(_draw_accuracy_by_popularity(by, run, name) for run, name in runs.items()),
        *_draw_similarity_by_agreement(by, runs),
    ]


def _draw_accuracy_scatter(
    metrics_by_key: _MetricsByKey,
    runs: _RunLabels,
    name: str,
    title: str,
    x_metric: tuple[str, str],
    note: str,
    reference: Literal["x = y"] | None = None,
) -> ReportFigure:
    metric, label = x_metric
    points = (
        (
            run_label,
            metrics_by_key.get((*run, metric, "", "")),
            metrics_by_key.get((*run, _ACCURACIES["GRANOLA"], "", "")),
        )
        for run, run_label in runs.items()
    )
    return ReportFigure(
        name=name,
        title=title,
        kind="scatter",
        x_label=label,
        y_label="selective GRANOLA accuracy, any level",
        series=tuple(
            make_metric_series(run_label, [(x.value, y)])
            for run_label, x, y in points
            if x and y and x.value is not None
        ),
        note=note,
        y_range=(0, 1),
        reference=reference,
    )


def _draw_outcome_shares(metrics_by_key: _MetricsByKey, runs: _RunLabels) -> ReportFigure:
    return ReportFigure(
        name="matched_levels",
        title="Levels that answers match",
        kind="stacked",
        x_label="setting",
        y_label="share of answers",
        series=tuple(
            make_metric_series(
                outcome.replace("_", " "),
                _list_available_labelled_metrics(
                    metrics_by_key, {label: (*run, f"share_{outcome}", "", "") for run, label in runs.items()}
                ),
            )
            for outcome in _OUTCOMES_BEST_FIRST
        ),
        note="Figure 8 of the paper. Level 1 is the finest.",
        y_range=(0, 1),
        palette="ordered",
    )


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
            make_metric_series(
                name,
                _list_available_labelled_metrics(
                    metrics_by_key, {short: (*run, metric, "popularity", each) for each, short in bins.items()}
                ),
            )
            for name, metric in _ACCURACIES.items()
        ),
        note=f"Figures 6 and 11 of the paper. Bins of equal size by page views in twelve months, the least viewed first ({ranges}). {_SELECTIVE_NOTE}",
        y_range=(0, 1),
    )


def _draw_similarity_by_agreement(metrics_by_key: _MetricsByKey, runs: _RunLabels) -> Iterator[ReportFigure]:
    lines = (
        make_metric_series(
            label,
            _list_available_labelled_metrics(
                metrics_by_key,
                {cell.replace("_", " "): (*run, SIMILARITY_METRIC, "agreement", cell) for cell in AGREEMENT_CELLS},
            ),
        )
        for run, label in runs.items()
    )
    if series := tuple(line for line in lines if line.x):
        yield ReportFigure(
            name="similarity_by_agreement",
            title="Similarity to the gold answer, by the accuracies that count the answer as right",
            kind="bars",
            x_label="right by",
            y_label="mean cosine",
            series=series,
            note="Table 3 of the paper, which uses BLEURT. By definition, no answer is right by standard accuracy only.",
        )


def _list_available_labelled_metrics(
    metrics_by_key: _MetricsByKey, keys: Mapping[str, MetricKey]
) -> Iterator[tuple[str, EvaluationMetric]]:
    return ((label, metrics_by_key[key]) for label, key in keys.items() if key in metrics_by_key)
