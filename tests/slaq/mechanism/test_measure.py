"""Test an analysis of facts with planted similarities."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the regression needs the extra `mechanism`")

from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.slaq.core.mechanism.rows import SIMILARITY_MEASURES
from factmill.tasks.slaq.mechanism.measure import (
    ACCURACY,
    ALL_SIX_MEASURES,
    BY_FACT_SUFFIX,
    COEFFICIENT,
    KIND_DIFFERENCE,
    MECHANISM_PAPER_RESULTS,
    ROC_AUC,
    compute_compared_fact_metrics,
    draw_mechanism_figures,
)


def plant(facts: int, gap: float, **changed: Any) -> Iterator[dict[str, Any]]:
    """Yield equally many facts of each kind, five per topic; the aligned ones are more similar by this much."""
    chance = np.random.default_rng(0)
    for at in range(facts):
        kind = ("misaligned", "aligned")[at % 2]
        values = {each: float(0.5 + gap * (at % 2) + chance.uniform(-0.1, 0.1)) for each in SIMILARITY_MEASURES}
        yield {"id": f"m/{at}", "item": f"t{at // 5}", "model": "m", "kind": kind, **values, **changed}


def tell(rows: list[dict[str, Any]]) -> dict[tuple[str, str, str], EvaluationMetric]:
    metrics = list(compute_compared_fact_metrics(rows, 5, 0, "m", ""))
    found = {(each.setting, each.metric, each.group): each for each in metrics}
    assert len(found) == len(metrics), "a metric has two values"
    return found


def test_difference_between_planted_fact_kinds_is_detected() -> None:
    found = tell(list(plant(60, 0.3)))
    assert found["aligned", "iou", ""].value == pytest.approx(0.8, abs=0.03)
    assert found["misaligned", "iou", ""].value == pytest.approx(0.5, abs=0.03)
    difference = found[KIND_DIFFERENCE, "iou", ""]
    assert difference.value == pytest.approx(0.3, abs=0.04)
    assert difference.ci_low is not None
    assert difference.ci_low > 0.25
    assert difference.note == (
        "p 0.003, p adjusted 0.003; by single facts, as in the paper: p 9.999e-05, p adjusted 9.999e-05"
    )
    assert [found[ALL_SIX_MEASURES, each + BY_FACT_SUFFIX, ""].value for each in (ROC_AUC, ACCURACY)] == [1.0, 1.0]
    assert [found[each, ROC_AUC, ""].value for each in (*SIMILARITY_MEASURES, ALL_SIX_MEASURES)] == [1.0] * 7
    assert found[ALL_SIX_MEASURES, ACCURACY, ""].value == 1.0
    assert all(found[each, COEFFICIENT, ""].value is not None for each in SIMILARITY_MEASURES)


def test_no_difference_is_reported_for_equal_fact_kinds() -> None:
    found = tell(list(plant(200, 0.0)))
    auc = found[ALL_SIX_MEASURES, ROC_AUC, ""].value
    assert auc is not None
    assert abs(auc - 0.5) < 0.12
    difference = found[KIND_DIFFERENCE, "iou", ""]
    assert difference.ci_low is not None and difference.ci_high is not None
    assert difference.ci_low < 0 < difference.ci_high


def test_facts_without_similarity_are_counted_unscored_and_excluded_from_means() -> None:
    rows = list(plant(60, 0.3))
    rows[0]["iou"] = rows[1]["iou"] = None
    found = tell(rows)
    assert (found["aligned", "iou", ""].n, found["aligned", "iou", ""].n_unscored) == (29, 1)
    assert (found[KIND_DIFFERENCE, "iou", ""].n, found[KIND_DIFFERENCE, "iou", ""].n_unscored) == (58, 2)
    assert (found["iou", ROC_AUC, ""].n, found["iou", ACCURACY, ""].n_unscored) == (58, 2)
    assert found[ALL_SIX_MEASURES, ACCURACY, ""].n == 58
    assert found["containment", ROC_AUC, ""].n == 60


def test_single_fact_kind_gives_means_and_notes_missing_comparisons() -> None:
    found = tell([row | {"kind": "aligned"} for row in plant(12, 0.3)])
    assert found["aligned", "iou", ""].n == 12
    assert ("misaligned", "iou", "") not in found
    for place, note in {
        (KIND_DIFFERENCE, "iou"): "no fact of one kind has a similarity",
        (ALL_SIX_MEASURES, ROC_AUC): "3 topics have aligned and 0 have misaligned facts with it, expected 5 of each",
        (ALL_SIX_MEASURES, ROC_AUC + BY_FACT_SUFFIX): "12 aligned and 0 misaligned facts have it, expected 5 of each",
    }.items():
        assert (found[*place, ""].value, found[*place, ""].note) == (None, note)
    assert tell([]) != {}


def test_several_models_are_measured_together_and_separately() -> None:
    rows = [*plant(20, 0.3), *(row | {"id": f"n{row['id']}", "model": "n"} for row in plant(20, 0.3))]
    found = tell(rows)
    assert [found["aligned", "iou", model].n for model in ("", "m", "n")] == [20, 10, 10]


def test_mechanism_figures_show_measured_values_and_paper_results() -> None:
    metrics = list(tell(list(plant(60, 0.3))).values())
    similarity, prediction, coefficients = draw_mechanism_figures(metrics)
    assert [each.label for each in similarity.series] == ["aligned", "misaligned"]
    assert prediction.series[0].y == (1.0,) * 7
    assert len(coefficients.series[0].y) == 6
    result = {(each.metric, each.setting) for each in metrics}
    assert all((each.metric, each.setting) in result for each in MECHANISM_PAPER_RESULTS)
    assert [each.name for each in draw_mechanism_figures([each for each in metrics if each.setting == "aligned"])] == [
        "similarity"
    ]
    assert draw_mechanism_figures([]) == []
