"""Test the figures of MultiHal's evaluation."""

from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.multihal.evaluation.definition import (
    SCORE_DEVIATION,
    SEMANTIC_SCORE,
    draw_multihal_metric_figures,
)


def test_whiskers_of_figure_3_are_one_standard_deviation_to_either_side() -> None:
    metrics = [
        EvaluationMetric.model_construct(
            model="m", setting="qa", metric=metric, group_by="language", group=language, value=value
        )
        for metric, language, value in (
            (SEMANTIC_SCORE, "eng", 0.75),
            (SEMANTIC_SCORE, "deu", 0.5),
            (SEMANTIC_SCORE, "por", None),
            (SCORE_DEVIATION, "eng", 0.25),
        )
    ]
    [figure] = draw_multihal_metric_figures(metrics)
    [bars] = figure.series
    assert (bars.x, bars.y) == (("English", "German", "Portuguese"), (0.75, 0.5, None))
    assert (bars.low, bars.high) == ((0.5, 0.5, None), (1.0, 0.5, None))
