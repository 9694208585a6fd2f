"""Metrics of the mechanistic analysis: similarity of aligned and of misaligned facts, and figures (paper §5.2, §5.3;
Figures 4 and 5).

Intervals, folds and permutations keep a topic's facts together, since they share one long answer. Results by the
paper's folds and permutations, which separate them, are given as well.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.measures.intervals import BOOTSTRAP_DRAWS, compute_percentile_interval
from factmill.tasks.core.measures.metrics import (
    MeasuredMetric,
    MetricScores,
    measure_mean_metrics,
    round_to_six_decimals,
)
from factmill.tasks.core.measures.model_comparison import adjust_p_values_benjamini_hochberg
from factmill.tasks.core.measures.report_figures import ReportFigure, make_metric_series
from factmill.tasks.evaluation.definition import PaperResult
from factmill.tasks.slaq.core.mechanism.rows import SIMILARITY_MEASURES
from factmill.tasks.slaq.core.mechanism.similarity import Floats, compute_permutation_p, cross_validate_fact_kinds
from factmill.tasks.slaq.mechanism.ablation import import_mechanism_extra

ALIGNED, MISALIGNED, KIND_DIFFERENCE = "aligned", "misaligned", "aligned − misaligned"
ALL_SIX_MEASURES = "all six"
ROC_AUC, ACCURACY, COEFFICIENT = "roc_auc", "accuracy", "coefficient"
BY_FACT_SUFFIX = "_by_fact"
"""Ending of the metrics by the paper's folds, which separate the facts of a topic."""


def compute_compared_fact_metrics(
    compared_facts: Sequence[Mapping[str, Any]], folds: int, seed: int, all_models_name: str, judge: str
) -> list[EvaluationMetric]:
    """Compute the metrics of facts (rows of `FactWithComponentSimilarities`); `name`: name for all models together."""
    models = sorted({row["model"] for row in compared_facts})
    of_kind = {kind: [row for row in compared_facts if row["kind"] == kind] for kind in (ALIGNED, MISALIGNED)}
    scores = [
        MetricScores(
            setting=kind,
            metric=feature,
            items=[row["id"] for row in kind_rows],
            clusters=[row["item"] for row in kind_rows],
            values=np.array([np.nan if row[feature] is None else row[feature] for row in kind_rows], np.float64),
            groups={"model": [row["model"] for row in kind_rows]} if len(models) > 1 else {},
            worst=0.0 if feature in SIMILARITY_MEASURES[:2] else -1.0,
            unit="share" if feature in SIMILARITY_MEASURES[:2] else "correlation",
        )
        for feature in SIMILARITY_MEASURES
        for kind, kind_rows in of_kind.items()
        if kind_rows
    ]
    found = [*measure_mean_metrics(scores, seed), *_measure_aligned_minus_misaligned(compared_facts, seed)]
    found += _measure_kind_prediction_by_similarity(compared_facts, folds, seed)
    return [
        EvaluationMetric(
            id="/".join(filter(None, (each.setting, each.metric, each.group_by, each.group))),
            benchmark="slaq",
            model=all_models_name,
            judge=judge,
            **each.model_dump(),
        )
        for each in found
    ]


def _measure_aligned_minus_misaligned(rows: Sequence[Mapping[str, Any]], seed: int) -> Iterator[MeasuredMetric]:
    """Yield each measure's difference aligned − misaligned, with p adjusted over the six (Benjamini and Hochberg)."""
    scored = [[row for row in rows if row[feature] is not None] for feature in SIMILARITY_MEASURES]
    values = [
        np.array([row[feature] for row in known], np.float64)
        for feature, known in zip(SIMILARITY_MEASURES, scored, strict=True)
    ]
    kinds = [np.array([row["kind"] == ALIGNED for row in known], bool) for known in scored]
    units = [[[row[unit] for row in known] for known in scored] for unit in ("item", "id")]
    by_topic, by_fact = (
        [compute_permutation_p(*each, seed) for each in zip(values, kinds, of_unit, strict=True)] for of_unit in units
    )
    adjusted, adjusted_by_fact = map(adjust_p_values_benjamini_hochberg, (by_topic, by_fact))
    for at, feature in enumerate(SIMILARITY_MEASURES):
        if by_topic[at] is None:
            note = "no fact of one kind has a similarity"
            yield _make_mechanism_metric(KIND_DIFFERENCE, feature, None, len(scored[at]), len(rows), note=note)
            continue
        by_single_facts = f"by single facts, as in the paper: p {by_fact[at]:g}, p adjusted {adjusted_by_fact[at]:g}"
        yield _make_mechanism_metric(
            KIND_DIFFERENCE,
            feature,
            float(values[at][kinds[at]].mean() - values[at][~kinds[at]].mean()),
            len(scored[at]),
            len(rows),
            interval=_bootstrap_difference_interval(values[at], kinds[at], units[0][at], seed),
            clusters=len(set(units[0][at])),
            note=f"p {by_topic[at]:g}, p adjusted {adjusted[at]:g}; {by_single_facts}",
        )


def _bootstrap_difference_interval(
    values: Floats, is_aligned: np.ndarray, clusters: Sequence[str], seed: int
) -> tuple[float, float] | None:
    """Return the bootstrap interval of the difference of means over whole topics; None for a single topic or kind."""
    names, at = np.unique(np.array(clusters), return_inverse=True)
    if len(names) < 2:
        return None
    drawn = np.random.default_rng(seed).multinomial(len(names), np.full(len(names), 1 / len(names)), BOOTSTRAP_DRAWS)
    sums = [
        np.bincount(at, np.where(kind, each, 0.0), len(names))
        for kind in (is_aligned, ~is_aligned)
        for each in (values, np.ones_like(values))
    ]
    totals = [drawn @ each for each in sums]
    has_both = (totals[1] > 0) & (totals[3] > 0)
    if not has_both.any():
        return None
    differences = totals[0] / np.maximum(totals[1], 1) - totals[2] / np.maximum(totals[3], 1)
    return compute_percentile_interval(differences[has_both])


def _measure_kind_prediction_by_similarity(
    rows: Sequence[Mapping[str, Any]], folds: int, seed: int
) -> Iterator[MeasuredMetric]:
    """Yield how well each measure alone, and all six together, predict the kind of held-out facts."""
    learn = import_mechanism_extra("sklearn")
    for part in ("linear_model", "metrics", "model_selection", "pipeline", "preprocessing"):
        import_mechanism_extra(f"sklearn.{part}")
    for name, features in (*((each, (each,)) for each in SIMILARITY_MEASURES), (ALL_SIX_MEASURES, SIMILARITY_MEASURES)):
        scored = [row for row in rows if all(row[each] is not None for each in features)]
        matrix = np.array([[row[each] for each in features] for row in scored], np.float64).reshape(-1, len(features))
        labels = [int(row["kind"] == ALIGNED) for row in scored]
        for unit, ending in (("item", ""), ("id", BY_FACT_SUFFIX)):
            units = [row[unit] for row in scored]
            predicted = cross_validate_fact_kinds(matrix, labels, units, folds, seed, learn)
            if predicted is None:
                aligned, misaligned = (
                    len({each for each, label in zip(units, labels, strict=True) if label == kind}) for kind in (1, 0)
                )
                note = (
                    f"{aligned} aligned and {misaligned} misaligned facts have it, expected {folds} of each"
                    if ending
                    else f"{aligned} topics have aligned and {misaligned} have misaligned facts with it, expected {folds} of each"
                )
                for metric in (ROC_AUC, ACCURACY):
                    yield _make_mechanism_metric(name, metric + ending, None, len(labels), len(rows), note=note)
                continue
            aucs = predicted.aucs
            note = f"mean of {len(aucs)} folds, {min(aucs):.3f} to {max(aucs):.3f}"
            yield _make_mechanism_metric(
                name, ROC_AUC + ending, sum(aucs) / len(aucs), len(scored), len(rows), note=note
            )
            is_right = dict(zip((row["id"] for row in scored), predicted.is_right, strict=True))
            right = MetricScores(
                setting=name,
                metric=ACCURACY + ending,
                items=[row["id"] for row in rows],
                clusters=[row["item"] for row in rows],
                values=np.array([is_right.get(row["id"], np.nan) for row in rows], np.float64),
                is_share=True,
                unit="share",
            )
            yield from measure_mean_metrics([right], seed)
            if name == ALL_SIX_MEASURES and not ending:
                for feature, coefficient in zip(features, predicted.coefficients, strict=True):
                    yield _make_mechanism_metric(
                        feature, COEFFICIENT, coefficient, len(scored), len(rows), note="fitted to all facts"
                    )


def _make_mechanism_metric(
    setting: str,
    metric: str,
    value: float | None,
    n: int,
    rows: int,
    *,
    interval: tuple[float, float] | None = None,
    clusters: int = 0,
    note: str = "",
) -> MeasuredMetric:
    return MeasuredMetric(
        setting=setting,
        metric=metric,
        group_by="",
        group="",
        value=None if value is None else round_to_six_decimals(value),
        n=n,
        n_unscored=rows - n,
        coverage=round_to_six_decimals(n / rows) if rows else None,
        bound_low=None,
        bound_high=None,
        ci_low=interval[0] if interval else None,
        ci_high=interval[1] if interval else None,
        interval="bootstrap" if interval else "",
        clusters=clusters,
        unit="",
        note=note,
    )


_MEASURE_TITLES = {
    "containment": "containment",
    "iou": "IoU",
    "pearson_attention": "Pearson, attention",
    "spearman_attention": "Spearman, attention",
    "pearson_mlp": "Pearson, MLP",
    "spearman_mlp": "Spearman, MLP",
}


def draw_mechanism_figures(metrics: Sequence[EvaluationMetric]) -> list[ReportFigure]:
    """Draw the similarities of both kinds of facts (Figure 4), and how well they predict the kind (Figure 5)."""
    found = {(each.setting, each.metric): each for each in metrics if not each.group_by}
    titles = {**_MEASURE_TITLES, ALL_SIX_MEASURES: ALL_SIX_MEASURES}
    kinds = [
        make_metric_series(kind, ((_MEASURE_TITLES[each], found.get((kind, each))) for each in SIMILARITY_MEASURES))
        for kind in (ALIGNED, MISALIGNED)
        if any((kind, each) in found for each in SIMILARITY_MEASURES)
    ]
    measures = [
        make_metric_series(label, ((titles[each], found.get((each, metric))) for each in titles))
        for label, metric in (("ROC-AUC", ROC_AUC), ("accuracy", ACCURACY))
        if any((found[at].value is not None) for at in found if at[1] == metric)
    ]
    coefficients = ((_MEASURE_TITLES[each], found.get((each, COEFFICIENT))) for each in SIMILARITY_MEASURES)
    has_weights = any(metric == COEFFICIENT for _, metric in found)
    weights = [make_metric_series(COEFFICIENT, coefficients)] if has_weights else []
    figures = [
        ReportFigure(
            "similarity", "Similarity of short and long answers", "bars", "similarity measure", "mean similarity",
            tuple(kinds), "Figure 4 of the paper. Whiskers are 95 % intervals over topics.",
        ),
        ReportFigure(
            "prediction", "Prediction of aligned and misaligned facts from similarity", "bars", "features", "for held-out facts",
            tuple(measures), "Figure 5 of the paper. Logistic regression, cross-validated by topic; 0.5, dashed, is chance if both kinds are equally frequent. "
            "Whiskers are 95 % intervals over topics.", (0.0, 1.0), 0.5,
        ),
        ReportFigure(
            "coefficients", "Weights of all six measures", "bars", "similarity measure", "coefficient",
            tuple(weights), "Figure 5 of the paper. In units of the standard deviation of each measure; above 0: more similar facts are more likely aligned.", reference=0.0,
        ),
    ]  # fmt: skip
    return [each for each in figures if each.series]


MECHANISM_PAPER_RESULTS = tuple(
    PaperResult(
        metric=metric,
        setting=setting,
        model="Qwen-2.5 1B, 3B and Qwen-3 1.7B, 4B",
        value=value,
        where=where,
        note="four models pooled, 30 facts of each kind; answers were paired by hand",
    )
    for metric, setting, where, value in (
        ("containment", ALIGNED, "Figure 4", 0.552),
        ("containment", MISALIGNED, "Figure 4", 0.499),
        ("iou", ALIGNED, "Figure 4", 0.316),
        ("iou", MISALIGNED, "Figure 4", 0.272),
        (ROC_AUC + BY_FACT_SUFFIX, "spearman_attention", "Figure 5", 0.83),
        (ROC_AUC + BY_FACT_SUFFIX, ALL_SIX_MEASURES, "Figure 5", 0.81),
        (ACCURACY + BY_FACT_SUFFIX, ALL_SIX_MEASURES, "Figure 5", 0.76),
        (COEFFICIENT, "spearman_attention", "Figure 5", 1.36),
    )
)
"""The paper's numbers of §5.2 and §5.3."""
