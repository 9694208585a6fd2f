"""The paper's Figures 4 and 5 from the metrics of a mechanistic analysis, and its numbers beside which ours stand."""

from collections.abc import Iterator, Sequence

from tasks.core.evaluation.rows import EvaluationMetric
from tasks.core.measures.figures import Figure, make_series
from tasks.evaluation.record import PaperFigure
from tasks.slaq.core.mechanism.rows import FEATURES
from tasks.slaq.mechanism.measure import ACCURACY, ALIGNED, ALL, AUC, BY_FACT, COEFFICIENT, MISALIGNED

_NAMES = {
    "containment": "containment",
    "iou": "IoU",
    "pearson_attention": "Pearson, attention",
    "spearman_attention": "Spearman, attention",
    "pearson_mlp": "Pearson, MLP",
    "spearman_mlp": "Spearman, MLP",
}


def draw_figures(metrics: Sequence[EvaluationMetric]) -> list[Figure]:
    """Return how alike both kinds of facts are carried (Figure 4), and what that tells of them (Figure 5)."""
    found = {(each.setting, each.metric): each for each in metrics if not each.group_by}
    kinds = [
        make_series(kind, ((_NAMES[each], found.get((kind, each))) for each in FEATURES))
        for kind in (ALIGNED, MISALIGNED)
        if any((kind, each) in found for each in FEATURES)
    ]
    told = {**_NAMES, ALL: ALL}
    measures = [
        make_series(label, ((told[each], found.get((each, metric))) for each in told))
        for label, metric in (("ROC-AUC", AUC), ("accuracy", ACCURACY))
        if any((found[at].value is not None) for at in found if at[1] == metric)
    ]
    weights = [
        make_series(COEFFICIENT, ((_NAMES[each], found.get((each, COEFFICIENT))) for each in FEATURES))
        for _ in range(int(any(metric == COEFFICIENT for _, metric in found)))
    ]
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
            tuple(weights), "Figure 5. In units of each measure's spread; above 0: the more alike, the likelier aligned.",
        ),
    ]  # fmt: skip
    return [each for each in figures if each.series]


def _list_paper() -> Iterator[PaperFigure]:
    told = {
        ("containment", ALIGNED, "Figure 4"): 0.552,
        ("containment", MISALIGNED, "Figure 4"): 0.499,
        ("iou", ALIGNED, "Figure 4"): 0.316,
        ("iou", MISALIGNED, "Figure 4"): 0.272,
        (AUC + BY_FACT, "spearman_attention", "Figure 5"): 0.83,
        (AUC + BY_FACT, ALL, "Figure 5"): 0.81,
        (ACCURACY + BY_FACT, ALL, "Figure 5"): 0.76,
        (COEFFICIENT, "spearman_attention", "Figure 5"): 1.36,
    }
    for (metric, setting, where), value in told.items():
        yield PaperFigure(
            metric=metric,
            setting=setting,
            model="Qwen-2.5 1B, 3B and Qwen-3 1.7B, 4B",
            value=value,
            where=where,
            note="four models with 30 facts of each kind together; answers were paired by hand",
        )


PAPER = tuple(_list_paper())
"""What §5.2 and §5.3 tell in numbers."""
