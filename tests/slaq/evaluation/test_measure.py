"""Test SLAQ's metrics and figures: matrices counted by hand, unscored answers, and a model with planted errors."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.rows.slaq_answers import judged_rows, judged_table

from factmill.tasks.core.evaluation.rows import AnswerScore, EvaluationMetric
from factmill.tasks.core.measures.metrics import MeasuredMetric
from factmill.tasks.core.rows import arrow_schema, make_arrow_table
from factmill.tasks.slaq.core.evaluation.answers import ScoredSlaqPrediction
from factmill.tasks.slaq.evaluation.measure import (
    BOTH_SETTINGS,
    PROGRAM_JUDGE_NOTE,
    SLAQ_PAPER_RESULTS,
    draw_slaq_evaluation_figures,
    list_slaq_report_items,
    measure_slaq,
)

SHORT = [[1, 1, 0, 0, 1], [1, 1, 1, 0, 0]]
LONG = [[1, 0, 0, 1, 1], [1, 1, 0, 0, 0]]
Place = tuple[str, str, str, str]


def measure(answers: pa.Table) -> dict[Place, MeasuredMetric]:
    _, metrics = measure_slaq(answers, seed=0)
    return {(each.setting, each.metric, each.group_by, each.group): each for each in metrics}


def read(
    found: dict[Place, MeasuredMetric], setting: str, metric: str, group_by: str = ""
) -> dict[str, tuple[Any, int]]:
    """Map each group to value and number."""
    return {place[3]: (each.value, each.n) for place, each in found.items() if place[:3] == (setting, metric, group_by)}


def name_metrics(metrics: list[MeasuredMetric], model: str = "m", judge: str = "tester") -> list[EvaluationMetric]:
    result = {"benchmark": "slaq", "model": model, "judge": judge}
    return [EvaluationMetric(id=str(at), **result, **each.model_dump()) for at, each in enumerate(metrics)]


def test_headline_metrics_of_two_topics_match_hand_computed_values() -> None:
    found = measure(judged_table(SHORT, LONG))
    assert read(found, "short", "accuracy") == {"": (0.6, 10)}  # 3 + 3
    assert read(found, "long", "accuracy") == {"": (0.5, 10)}  # 3 + 2
    assert read(found, BOTH_SETTINGS, "accuracy_gap") == {"": (-0.1, 10)}
    # the same: 1 . 0 . 1 and 1 1 . 0 0
    assert read(found, BOTH_SETTINGS, "alignment") == {"": (0.7, 10)}
    # both right: 2 + 2; both wrong: 1 + 2
    assert read(found, BOTH_SETTINGS, "signed_alignment") == {"": (0.1, 10)}
    assert {each.clusters for each in found.values() if not each.group_by} == {2}
    assert {each.unit for each in found.values() if each.metric == "alignment"} == {"share"}


def test_accuracy_is_grouped_by_position_and_preceding_run() -> None:
    found = measure(judged_table(SHORT, LONG))
    assert read(found, "long", "accuracy", "position") == {
        "1": (1.0, 2), "2": (0.5, 2), "3": (0.0, 2), "4": (0.5, 2), "5": (0.5, 2)
    }  # fmt: skip
    # before answers 2 to 5: 1 0 0 1 and 1 2 0 0 right ones; 0 1 2 0 and 0 0 1 2 wrong ones
    assert read(found, "long", "accuracy", "right_before") == {
        "0": (0.25, 4), "1": (0.666667, 3), "2": (0.0, 1)
    }  # fmt: skip
    assert read(found, "long", "accuracy", "wrong_before") == {
        "0": (0.5, 4), "1": (0.0, 2), "2": (0.5, 2)
    }  # fmt: skip
    assert not read(found, "short", "accuracy", "right_before")


def test_metrics_are_grouped_by_category_and_half_and_fact_type() -> None:
    found = measure(judged_table(SHORT, LONG))
    assert read(found, "short", "accuracy", "category") == {"C0": (0.6, 5), "C1": (0.6, 5)}
    assert read(found, BOTH_SETTINGS, "alignment", "half") == {"most": (0.6, 5), "least": (0.8, 5)}
    # facts are PERSON, none, DATE, none, none
    assert read(found, "long", "accuracy", "answer_kind") == {"entity": (0.5, 4), "other": (0.5, 6)}
    assert read(found, BOTH_SETTINGS, "signed_alignment", "fact_type") == {
        "PERSON": (1.0, 2), "DATE": (-0.5, 2), "none": (0.0, 6)
    }  # fmt: skip


def test_missing_verdict_counts_as_unscored_in_every_metric_that_needs_it() -> None:
    found = measure(judged_table([[1, None, 0, 0, 1], *SHORT[1:]], [LONG[0], [None] * 5]))
    short, long, both = (found[each, metric, "", ""] for each, metric in [
        ("short", "accuracy"), ("long", "accuracy"), (BOTH_SETTINGS, "alignment")
    ])  # fmt: skip
    assert (short.n, short.n_unscored, short.value) == (9, 1, 0.555556)
    assert (long.n, long.n_unscored, long.value) == (5, 5, 0.6)
    assert (long.bound_low, long.bound_high) == (0.3, 0.8)
    # 1 . 0 . 1 of the first topic: its second short answer and all of the second topic are missing
    assert (both.n, both.n_unscored, both.value) == (4, 6, 0.75)
    signed = found[BOTH_SETTINGS, "signed_alignment", "", ""]
    assert (signed.bound_low, signed.bound_high) == (-0.5, 0.7)  # (1 - 6) / 10, (1 + 6) / 10
    assert found["long", "accuracy", "half", "least"].value is None


def test_fact_asked_in_only_one_setting_is_not_compared() -> None:
    rows = [*judged_rows("short", [SHORT[0], [None, 1, 1, 1, 1]]), *judged_rows("long", LONG[:1])]
    found = measure(make_arrow_table(ScoredSlaqPrediction, rows[1:]))
    counted = {metric: (each.n, each.n_unscored) for (_, metric, by, _), each in found.items() if not by}
    assert counted["alignment"] == counted["accuracy_gap"] == (4, 0)


def test_scores_have_one_row_per_fact_with_reason_when_unscored() -> None:
    scores, _ = measure_slaq(judged_table(SHORT[:1], [[None] * 5]), seed=0)
    assert scores.schema == arrow_schema(AnswerScore)
    rows = {row["id"]: row for row in scores.to_pylist()}
    assert len(rows) == 5 * 5
    assert rows["accuracy:short/t0/3"]["value"] == 0.0
    assert rows["accuracy:short/t0/3"]["unscored"] == ""
    for missing in ("accuracy:long/t0/1", f"alignment:{BOTH_SETTINGS}/t0/1"):
        assert (rows[missing]["value"], rows[missing]["unscored"]) == (None, "judge_unreadable")
        assert rows[missing]["detail"] == "no verdict"
    assert rows["accuracy:long/t0/1"]["question_id"] == "t0/1"


@pytest.mark.parametrize("setting", ["short", "long"])
def test_single_setting_has_accuracy_but_no_alignment(setting: str) -> None:
    found = measure(make_arrow_table(ScoredSlaqPrediction, judged_rows(setting, SHORT)))
    assert {(place[0], place[1]) for place in found} == {(setting, "accuracy")}


def test_exact_judge_accuracy_is_labelled_lower_bound() -> None:
    _, metrics = measure_slaq(judged_table(SHORT, LONG, judge="exact"), seed=0)
    accuracies = [each for each in metrics if each.metric == "accuracy"]
    assert all(PROGRAM_JUDGE_NOTE in each.note for each in accuracies)
    assert not any(PROGRAM_JUDGE_NOTE in each.note for each in metrics if each.metric != "accuracy")
    for figure in draw_slaq_evaluation_figures(name_metrics(metrics, judge="exact")):
        assert ("lower bound" in figure.note) == (figure.y_label == "accuracy")


def plant(rng: np.random.Generator, topics: int = 600) -> pa.Table:
    """Return answers with planted errors.

    60 % of the short answers are right. Long answers are equal, except that 10 % are lost, and 40 % at the fourth
    place.
    """
    short = (rng.random((topics, 5)) < 0.6).astype(int)
    lost = rng.random((topics, 5)) < np.array([0.1, 0.1, 0.1, 0.4, 0.1])
    return judged_table(short.tolist(), np.where(lost, 0, short).tolist())


def test_planted_error_rates_lie_within_confidence_intervals() -> None:
    found = measure(plant(np.random.default_rng(3)))
    planted = {
        ("short", "accuracy", "", ""): 0.6,
        ("long", "accuracy", "", ""): 0.6 * (4 * 0.9 + 0.6) / 5,
        ("long", "accuracy", "position", "1"): 0.54,
        ("long", "accuracy", "position", "4"): 0.36,
        ("short", "accuracy", "position", "4"): 0.6,
        (BOTH_SETTINGS, "alignment", "", ""): 1 - 0.6 * (4 * 0.1 + 0.4) / 5,
        (BOTH_SETTINGS, "signed_alignment", "", ""): 0.504 - 0.4,
        (BOTH_SETTINGS, "accuracy_gap", "", ""): -0.096,
        # answers are independent of earlier ones: after one right answer the second, third, fifth and (rarer) fourth
        ("long", "accuracy", "right_before", "4"): 0.54,
    }
    for place, value in planted.items():
        metric = found[place]
        assert metric.ci_low is not None
        assert metric.ci_high is not None
        assert metric.ci_low <= value <= metric.ci_high, (place, metric)


def test_figures_have_one_curve_per_model_and_gaps_without_data() -> None:
    _, measured = measure_slaq(judged_table(SHORT, LONG), seed=0)
    # a point of momentum needs ten answers
    metrics = [each.model_copy(update={"n": 9 if each.group == "2" else 10}) for each in measured]
    figures = {
        each.name: each for each in draw_slaq_evaluation_figures([*name_metrics(metrics), *name_metrics(metrics, "n")])
    }
    assert list(figures) == [
        "accuracy", "alignment", "signed_alignment", "position", "momentum_right", "momentum_wrong"
    ]  # fmt: skip
    bars = figures["accuracy"].series
    assert [(each.label, each.x, each.y) for each in bars] == [
        ("short", ("m", "n"), (0.6, 0.6)),
        ("long", ("m", "n"), (0.5, 0.5)),
    ]
    assert [each.label for each in figures["position"].series] == ["m, long", "m, short", "n, long", "n, short"]
    assert figures["position"].series[0].y == (1.0, 0.5, 0.0, 0.5, 0.5)
    right = figures["momentum_right"].series[0]
    assert (right.label, right.x) == ("m", ("0", "1", "2", "3", "4"))
    assert right.y == (0.25, 0.666667, None, None, None)
    assert len(right.low) == len(right.high) == 5
    assert figures["momentum_wrong"].x_label == "wrong answers in a row before it"
    assert all(figure.note and figure.y_label for figure in figures.values())


def test_figures_omit_settings_that_were_not_run() -> None:
    _, metrics = measure_slaq(make_arrow_table(ScoredSlaqPrediction, judged_rows("short", SHORT)), seed=0)
    assert [each.name for each in draw_slaq_evaluation_figures(name_metrics(metrics))] == ["accuracy", "position"]


def test_paper_results_refer_to_existing_metrics() -> None:
    runs = [[1] * 5, [0] * 5, [0, 1, 0, 0, 0]]
    found = measure(judged_table(runs, runs))
    assert all((each.setting, each.metric, each.group_by, each.group) in found for each in SLAQ_PAPER_RESULTS)


def test_report_items_describe_verdicts_in_words() -> None:
    items = {
        each.answer_id: each for each in list_slaq_report_items(judged_table([[1, 0, None, 0, 1]], [[1, 0, 1, 1, 0]]))
    }
    assert items["short/t0/1"].verdict == "right"
    assert items["short/t0/2"].verdict == "wrong"
    assert (items["short/t0/3"].verdict, items["short/t0/3"].score) == ("unscored: judge_unreadable", None)
    assert (items["long/t0/long"].verdict, items["long/t0/long"].score) == ("3 of 5 right: 1 0 1 1 0", 0.6)
