"""Metrics of the mechanistic analysis: similarity of aligned and of misaligned facts, and figures (paper §5.2, §5.3;
Figures 4 and 5).

Intervals, folds and permutations keep a topic's facts together, since they share one long answer. Results by the
paper's folds and permutations, which separate them, are given as well.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.measures.comparing import adjust
from factmill.tasks.core.measures.figures import Figure, make_series
from factmill.tasks.core.measures.intervals import DRAWS, cut_tails
from factmill.tasks.core.measures.metrics import Metric, Scores, measure, round_value
from factmill.tasks.evaluation.record import PaperFigure
from factmill.tasks.slaq.core.mechanism.measures import Floats, predict, shuffle_kinds
from factmill.tasks.slaq.core.mechanism.rows import FEATURES
from factmill.tasks.slaq.mechanism.ablating import import_extra

ALIGNED, MISALIGNED, DIFFERENCE = "aligned", "misaligned", "aligned − misaligned"
ALL = "all six"
AUC, ACCURACY, COEFFICIENT = "roc_auc", "accuracy", "coefficient"
BY_FACT = "_by_fact"
"""Ending of the metrics by the paper's folds, which separate the facts of a topic."""


def measure_mechanism(
    rows: Sequence[Mapping[str, Any]], folds: int, seed: int, name: str, judge: str
) -> list[EvaluationMetric]:
    """Compute the metrics of facts (rows of `ComparedFact`); `name`: name for all models together."""
    models = sorted({row["model"] for row in rows})
    of_kind = {kind: [row for row in rows if row["kind"] == kind] for kind in (ALIGNED, MISALIGNED)}
    scores = [
        Scores(
            setting=kind,
            metric=feature,
            items=[row["id"] for row in mine],
            clusters=[row["item"] for row in mine],
            values=np.array([np.nan if row[feature] is None else row[feature] for row in mine], np.float64),
            groups={"model": [row["model"] for row in mine]} if len(models) > 1 else {},
            worst=0.0 if feature in FEATURES[:2] else -1.0,
            unit="share" if feature in FEATURES[:2] else "correlation",
        )
        for feature in FEATURES
        for kind, mine in of_kind.items()
        if mine
    ]
    found = [*measure(scores, seed), *_compare_kinds(rows, seed)]
    found += _predict_all(rows, folds, seed)
    return [
        EvaluationMetric(
            id="/".join(filter(None, (each.setting, each.metric, each.group_by, each.group))),
            benchmark="slaq",
            model=name,
            judge=judge,
            **each.model_dump(),
        )
        for each in found
    ]


def _compare_kinds(rows: Sequence[Mapping[str, Any]], seed: int) -> Iterator[Metric]:
    """Yield each measure's difference aligned − misaligned, with p adjusted over the six (Benjamini and Hochberg)."""
    scored = {feature: [row for row in rows if row[feature] is not None] for feature in FEATURES}
    values = {feature: np.array([row[feature] for row in mine], np.float64) for feature, mine in scored.items()}
    is_aligned = {feature: np.array([row["kind"] == ALIGNED for row in mine], bool) for feature, mine in scored.items()}
    by_topic, by_fact = (
        [shuffle_kinds(values[each], is_aligned[each], [row[unit] for row in scored[each]], seed) for each in FEATURES]
        for unit in ("item", "id")
    )
    levels = zip(FEATURES, by_topic, adjust(by_topic), by_fact, adjust(by_fact), strict=True)
    for feature, p, adjusted, p_fact, adjusted_fact in levels:
        n, clusters = len(scored[feature]), [row["item"] for row in scored[feature]]
        if p is None:
            yield _tell(DIFFERENCE, feature, None, n, len(rows), note="no fact of one kind has a similarity")
            continue
        of_one, of_other = values[feature][is_aligned[feature]], values[feature][~is_aligned[feature]]
        yield _tell(
            DIFFERENCE,
            feature,
            float(of_one.mean() - of_other.mean()),
            n,
            len(rows),
            interval=_draw_difference(values[feature], is_aligned[feature], clusters, seed),
            clusters=len(set(clusters)),
            note=f"p {p:g}, p adjusted {adjusted:g}; by single facts, as in the paper: p {p_fact:g}, p adjusted {adjusted_fact:g}",
        )


def _draw_difference(
    values: Floats, is_aligned: np.ndarray, clusters: Sequence[str], seed: int
) -> tuple[float, float] | None:
    """Return the bootstrap interval of the difference of means over whole topics; None for a single topic or kind."""
    names, at = np.unique(np.array(clusters), return_inverse=True)
    if len(names) < 2:
        return None
    drawn = np.random.default_rng(seed).multinomial(len(names), np.full(len(names), 1 / len(names)), DRAWS)
    sums = [
        np.bincount(at, np.where(kind, each, 0.0), len(names))
        for kind in (is_aligned, ~is_aligned)
        for each in (values, np.ones_like(values))
    ]
    totals = [drawn @ each for each in sums]
    has_both = (totals[1] > 0) & (totals[3] > 0)
    if not has_both.any():
        return None
    return cut_tails((totals[0] / np.maximum(totals[1], 1) - totals[2] / np.maximum(totals[3], 1))[has_both])


def _predict_all(rows: Sequence[Mapping[str, Any]], folds: int, seed: int) -> Iterator[Metric]:
    """Yield how well each measure alone, and all six together, predict the kind of held-out facts."""
    learn = import_extra("sklearn")
    for part in ("linear_model", "metrics", "model_selection", "pipeline", "preprocessing"):
        import_extra(f"sklearn.{part}")
    for name, features in (*((each, (each,)) for each in FEATURES), (ALL, FEATURES)):
        scored = [row for row in rows if all(row[each] is not None for each in features)]
        matrix = np.array([[row[each] for each in features] for row in scored], np.float64).reshape(-1, len(features))
        labels = [int(row["kind"] == ALIGNED) for row in scored]
        for unit, ending in (("item", ""), ("id", BY_FACT)):
            units = [row[unit] for row in scored]
            predicted = predict(matrix, labels, units, folds, seed, learn)
            if predicted is None:
                aligned, misaligned = (
                    len({each for each, label in zip(units, labels, strict=True) if label == kind}) for kind in (1, 0)
                )
                note = (
                    f"{aligned} aligned and {misaligned} misaligned facts have it, expected {folds} of each"
                    if ending
                    else f"{aligned} topics have aligned and {misaligned} have misaligned facts with it, expected {folds} of each"
                )
                for metric in (AUC, ACCURACY):
                    yield _tell(name, metric + ending, None, len(labels), len(rows), note=note)
                continue
            aucs = predicted.aucs
            note = f"mean of {len(aucs)} folds, {min(aucs):.3f} to {max(aucs):.3f}"
            yield _tell(name, AUC + ending, sum(aucs) / len(aucs), len(scored), len(rows), note=note)
            told = dict(zip((row["id"] for row in scored), predicted.is_right, strict=True))
            right = Scores(
                setting=name,
                metric=ACCURACY + ending,
                items=[row["id"] for row in rows],
                clusters=[row["item"] for row in rows],
                values=np.array([told.get(row["id"], np.nan) for row in rows], np.float64),
                is_share=True,
                unit="share",
            )
            yield from measure([right], seed)
            if name == ALL and not ending:
                for feature, coefficient in zip(features, predicted.coefficients, strict=True):
                    yield _tell(feature, COEFFICIENT, coefficient, len(scored), len(rows), note="fitted to all facts")


def _tell(
    setting: str,
    metric: str,
    value: float | None,
    n: int,
    rows: int,
    *,
    interval: tuple[float, float] | None = None,
    clusters: int = 0,
    note: str = "",
) -> Metric:
    return Metric(
        setting=setting,
        metric=metric,
        group_by="",
        group="",
        value=None if value is None else round_value(value),
        n=n,
        n_unscored=rows - n,
        coverage=round_value(n / rows) if rows else None,
        bound_low=None,
        bound_high=None,
        ci_low=interval[0] if interval else None,
        ci_high=interval[1] if interval else None,
        interval="bootstrap" if interval else "",
        clusters=clusters,
        unit="",
        note=note,
    )


_NAMES = {
    "containment": "containment",
    "iou": "IoU",
    "pearson_attention": "Pearson, attention",
    "spearman_attention": "Spearman, attention",
    "pearson_mlp": "Pearson, MLP",
    "spearman_mlp": "Spearman, MLP",
}


def draw_figures(metrics: Sequence[EvaluationMetric]) -> list[Figure]:
    """Draw the similarities of both kinds of facts (Figure 4), and how well they predict the kind (Figure 5)."""
    found = {(each.setting, each.metric): each for each in metrics if not each.group_by}
    told = {**_NAMES, ALL: ALL}
    kinds = [
        make_series(kind, ((_NAMES[each], found.get((kind, each))) for each in FEATURES))
        for kind in (ALIGNED, MISALIGNED)
        if any((kind, each) in found for each in FEATURES)
    ]
    measures = [
        make_series(label, ((told[each], found.get((each, metric))) for each in told))
        for label, metric in (("ROC-AUC", AUC), ("accuracy", ACCURACY))
        if any((found[at].value is not None) for at in found if at[1] == metric)
    ]
    weights = [make_series(COEFFICIENT, ((_NAMES[each], found.get((each, COEFFICIENT))) for each in FEATURES))]
    has_weights = any(metric == COEFFICIENT for _, metric in found)
    figures = [
        Figure(
            "similarity", "Similarity of short and long answers", "bars", "similarity measure", "mean similarity",
            tuple(kinds), "Figure 4. Whiskers are 95 % intervals over topics.",
        ),
        Figure(
            "prediction", "Telling aligned from misaligned facts by similarity", "bars", "features", "of held-out facts",
            tuple(measures), "Figure 5. Logistic regression, cross-validated by topic; 0.5 is chance where both kinds are as many. "
            "Whiskers are 95 % intervals over topics.", (0.0, 1.0),
        ),
        Figure(
            "coefficients", "Weights of the six measures together", "bars", "similarity measure", "coefficient",
            tuple(weights if has_weights else ()), "Figure 5. In units of each measure's spread; above 0: the more alike, the likelier aligned.",
        ),
    ]  # fmt: skip
    return [each for each in figures if each.series]


PAPER = tuple(
    PaperFigure(
        metric=metric,
        setting=setting,
        model="Qwen-2.5 1B, 3B and Qwen-3 1.7B, 4B",
        value=value,
        where=where,
        note="four models with 30 facts of each kind together; answers were paired by hand",
    )
    for metric, setting, where, value in (
        ("containment", ALIGNED, "Figure 4", 0.552),
        ("containment", MISALIGNED, "Figure 4", 0.499),
        ("iou", ALIGNED, "Figure 4", 0.316),
        ("iou", MISALIGNED, "Figure 4", 0.272),
        (AUC + BY_FACT, "spearman_attention", "Figure 5", 0.83),
        (AUC + BY_FACT, ALL, "Figure 5", 0.81),
        (ACCURACY + BY_FACT, ALL, "Figure 5", 0.76),
        (COEFFICIENT, "spearman_attention", "Figure 5", 1.36),
    )
)
"""The paper's numbers of §5.2 and §5.3."""
