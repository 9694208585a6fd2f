"""What a mechanistic analysis says: how alike aligned and misaligned facts are carried, and whether that tells them apart (§5.2, §5.3).

Intervals, folds and permutations keep a topic's facts together, since they stand in one long answer. The paper's folds and
permutations, which part them, stand next to these.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tasks.core.evaluation.rows import EvaluationMetric
from tasks.core.measures.comparing import adjust
from tasks.core.measures.intervals import DRAWS, cut_tails
from tasks.core.measures.metrics import Metric, Scores, measure, round_value
from tasks.slaq.core.mechanism.predicting import Floats, Predicted, predict, shuffle_kinds
from tasks.slaq.core.mechanism.rows import FEATURES
from tasks.slaq.mechanism.extra import import_extra

ALIGNED, MISALIGNED, DIFFERENCE = "aligned", "misaligned", "aligned − misaligned"
ALL = "all six"
AUC, ACCURACY, COEFFICIENT = "roc_auc", "accuracy", "coefficient"
BY_FACT = "_by_fact"
"""Ending of the metrics whose folds are the paper's: they part the facts of a topic."""
P, ADJUSTED = "p", "p adjusted"


def measure_mechanism(
    rows: Sequence[Mapping[str, Any]], folds: int, seed: int, name: str, judge: str
) -> list[EvaluationMetric]:
    """Return the metrics of facts (rows of `ComparedFact`); `name`: of the models together."""
    models = sorted({row["model"] for row in rows})
    scores = [
        _gather(kind, feature, [row for row in rows if row["kind"] == kind], len(models) > 1)
        for feature in FEATURES
        for kind in (ALIGNED, MISALIGNED)
    ]
    found = [*measure([each for each in scores if each.items], seed), *_compare_kinds(rows, seed)]
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


def _gather(kind: str, feature: str, rows: Sequence[Mapping[str, Any]], by_model: bool) -> Scores:
    return Scores(
        setting=kind,
        metric=feature,
        items=[row["id"] for row in rows],
        clusters=[row["item"] for row in rows],
        values=np.array([np.nan if row[feature] is None else row[feature] for row in rows], np.float64),
        groups={"model": [row["model"] for row in rows]} if by_model else {},
        worst=0.0 if feature in FEATURES[:2] else -1.0,
        unit="share" if feature in FEATURES[:2] else "correlation",
    )


def _compare_kinds(rows: Sequence[Mapping[str, Any]], seed: int) -> Iterator[Metric]:
    """Yield how much more alike aligned facts are carried, with p adjusted over the six measures (Benjamini and Hochberg)."""
    told = []
    for feature in FEATURES:
        scored = [row for row in rows if row[feature] is not None]
        values = np.array([row[feature] for row in scored], np.float64)
        is_aligned = np.array([row["kind"] == ALIGNED for row in scored], bool)
        by_topic, by_fact = (
            shuffle_kinds(values, is_aligned, [row[unit] for row in scored], seed) for unit in ("item", "id")
        )
        told.append((feature, scored, values, is_aligned, by_topic, by_fact))
    adjusted = zip(adjust([each[-2] for each in told]), adjust([each[-1] for each in told]), strict=True)
    for (feature, scored, values, is_aligned, p, by_fact), (level, fact_level) in zip(told, adjusted, strict=True):
        if p is None:
            yield _tell(DIFFERENCE, feature, None, len(scored), len(rows), note="no fact of one kind has a similarity")
            continue
        clusters = [row["item"] for row in scored]
        value = float(values[is_aligned].mean() - values[~is_aligned].mean())
        yield _tell(
            DIFFERENCE,
            feature,
            value,
            len(scored),
            len(rows),
            interval=_draw_difference(values, is_aligned, clusters, seed),
            clusters=len(set(clusters)),
            note=f"{P} {p:g}, {ADJUSTED} {level:g}; by single facts, as in the paper: {P} {by_fact:g}, {ADJUSTED} {fact_level:g}",
        )


def _draw_difference(
    values: Floats, is_aligned: np.ndarray, clusters: Sequence[str], seed: int
) -> tuple[float, float] | None:
    """Return the interval of the difference of means over draws of whole topics; None where there is one topic alone."""
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
    """Yield what each measure alone, and all six, tell of facts that the regression was not fitted to."""
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
                yield from _explain_no_prediction(name, ending, labels, units, folds, len(rows))
                continue
            yield _tell_auc(name, AUC + ending, predicted, len(scored), len(rows))
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


def _explain_no_prediction(
    name: str, ending: str, labels: Sequence[int], units: Sequence[str], folds: int, rows: int
) -> Iterator[Metric]:
    aligned, misaligned = (
        len({unit for unit, each in zip(units, labels, strict=True) if each == kind}) for kind in (1, 0)
    )
    note = (
        f"{aligned} aligned and {misaligned} misaligned facts have it, expected {folds} of each"
        if ending
        else f"{aligned} topics have aligned and {misaligned} have misaligned facts with it, expected {folds} of each"
    )
    for metric in (AUC, ACCURACY):
        yield _tell(name, metric + ending, None, len(labels), rows, note=note)


def _tell_auc(name: str, metric: str, predicted: Predicted, n: int, rows: int) -> Metric:
    low, high = min(predicted.aucs), max(predicted.aucs)
    note = f"mean of {len(predicted.aucs)} folds, {low:.3f} to {high:.3f}"
    return _tell(name, metric, sum(predicted.aucs) / len(predicted.aucs), n, rows, note=note)


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
