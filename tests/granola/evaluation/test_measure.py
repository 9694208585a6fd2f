"""Test the evaluation's output: metrics and their groups, figures, single answers."""

import pyarrow as pa
import pytest
from support.rows.granola_answers import LEVELS, ROWS, answered, score

from factmill.tasks.core.evaluation.rows import AnswerScore, EvaluationMetric
from factmill.tasks.core.measures.metrics import MeasuredMetric
from factmill.tasks.core.measures.report_figures import ReportFigure
from factmill.tasks.core.rows import arrow_schema
from factmill.tasks.granola.core.evaluation.figures import draw_granola_evaluation_figures
from factmill.tasks.granola.evaluation.measure import (
    GRANOLA_PAPER_FIGURES,
    list_granola_report_items,
    make_granola_answer_scores_and_metrics,
)

SIMILARITY = [0.9, 0.8, 0.25, 0.2, None, None, None, None]


def measured(answers: pa.Table) -> list[MeasuredMetric]:
    return make_granola_answer_scores_and_metrics(answers, 0.5, 0.5, 2, 0)[1]


def find(metrics: list[MeasuredMetric], metric: str, group: str = "", group_by: str | None = None) -> MeasuredMetric:
    return next(
        each for each in metrics if (each.metric, each.group) == (metric, group) and group_by in (None, each.group_by)
    )


def draw(metrics: list[MeasuredMetric], *models: str) -> dict[str, ReportFigure]:
    rows = [
        EvaluationMetric(id=f"{number}", benchmark="granola", model=model, judge="", **metric.model_dump())
        for model in models
        for number, metric in enumerate(metrics)
    ]
    return {figure.name: figure for figure in draw_granola_evaluation_figures(rows)}


def test_accuracy_counts_only_level_1_and_counts_idk_as_wrong() -> None:
    values = {each.metric: (each.value, each.n, each.n_unscored) for each in measured(score(ROWS)) if not each.group_by}
    assert values["accuracy"] == (pytest.approx(2 / 7, abs=1e-6), 7, 1)
    assert values["granola_accuracy"] == (pytest.approx(3 / 7, abs=1e-6), 7, 1)
    # without the two IDK answers; the empty one is wrong
    assert values["selective_accuracy"] == (0.4, 5, 1)
    assert values["selective_granola_accuracy"] == (0.6, 5, 1)
    # 1 + 1 + e^-1 of seven
    assert values["informativeness"] == (pytest.approx((2 + 0.36787944) / 7, abs=1e-6), 7, 1)


def test_outcome_shares_match_expected_values() -> None:
    shares = {each.metric: each.value for each in measured(score(ROWS)) if each.metric.startswith("share_")}
    assert shares.pop("share_no_answer") == pytest.approx(1 / 7, abs=1e-6)
    expected = {"wrong": 2 / 7, "idk": 2 / 7, "level_1": 2 / 7, "level_2": 0, "level_3_or_more": 1 / 7}
    assert shares == pytest.approx({f"share_{name}": share for name, share in expected.items()}, abs=1e-6)


def test_relations_and_popularity_bins_have_own_metrics() -> None:
    metrics = measured(score(ROWS))
    assert find(metrics, "granola_accuracy", "P20").value == 0.5
    assert find(metrics, "granola_accuracy", "P19").n_unscored == 1
    groups = [each.group for each in metrics if (each.metric, each.group_by) == ("accuracy", "popularity")]
    assert groups == ["1 of 2 (10 to 40)", "2 of 2 (50 to 80)", "unknown"]
    assert find(metrics, "granola_accuracy", "unknown").value == 1


def test_similarity_is_reported_by_accuracy_agreement() -> None:
    metrics = measured(score(ROWS, SIMILARITY))
    cells = {cell: find(metrics, "semantic_similarity", cell).value for cell in ("both", "granola_only", "neither")}
    assert cells == {"both": 0.85, "granola_only": 0.25, "neither": 0.2}
    shares = [find(metrics, f"agreement_{cell}").value for cell in ("both", "granola_only", "standard_only", "neither")]
    assert shares == [0.5, 0.25, 0, 0.25]
    # a missing answer could have any similarity
    overall = find(metrics, "semantic_similarity")
    assert (overall.n, overall.n_unscored, overall.bound_low) == (4, 1, pytest.approx((2.15 - 1) / 5))


def test_results_are_reported_for_other_tau_and_lambda_values() -> None:
    metrics = measured(score(ROWS))
    lines = [(each.metric, each.group) for each in metrics if each.group_by == "tau"]
    assert [group for metric, group in lines if metric == "accuracy"] == ["0.3", "0.4", "0.5", "0.6", "0.8"]
    # the Voronezh Oblast has F1 2/3 with Voronezh
    assert find(metrics, "accuracy", "0.8", "tau").value == pytest.approx(1 / 7, abs=1e-6)
    assert find(metrics, "informativeness", "0.5", "lambda").value == find(metrics, "informativeness").value
    assert find(metrics, "informativeness", "0", "lambda").value == find(metrics, "granola_accuracy").value


def test_settings_are_measured_separately() -> None:
    rows = [*ROWS, answered(1, "Kursk", LEVELS, id="drag/q1", setting="drag")]
    overall = [each for each in measured(score(rows)) if each.metric == "accuracy" and not each.group_by]
    assert [(each.setting, each.n) for each in overall] == [("greedy", 7), ("drag", 1)]


def test_all_idk_answers_have_no_selective_accuracy() -> None:
    metrics = measured(score([answered(1, "IDK", LEVELS)]))
    found = find(metrics, "selective_accuracy")
    assert (found.value, found.n, found.note) == (None, 0, "nothing to score")
    assert find(metrics, "informativeness").value == 0
    figures = draw(metrics, "m")
    assert figures["standard_and_granola_accuracy"].series == ()


def test_scores_have_one_row_per_metric_and_answer() -> None:
    scores, _ = make_granola_answer_scores_and_metrics(score(ROWS, SIMILARITY), 0.5, 0.5, 2, 0)
    assert scores.schema == arrow_schema(AnswerScore)
    rows = {row["id"]: row for row in scores.to_pylist()}
    assert len(rows) == scores.num_rows == 3 * 8 + 2 * 6 + 5
    assert rows["granola_accuracy:greedy/q3"]["value"] == 1
    assert rows["accuracy:greedy/q3"]["value"] == 0
    missing = rows["accuracy:greedy/q7"]
    assert (missing["value"], missing["unscored"]) == (None, "missing")
    assert "selective_accuracy:greedy/q5" not in rows
    # a refusal counts as IDK, which is scored
    assert (rows["accuracy:greedy/q8"]["value"], rows["accuracy:greedy/q8"]["unscored"]) == (0, "")


def test_figures_show_measured_values() -> None:
    rows = [
        *ROWS,
        answered(1, "IDK", LEVELS, id="idk/q1", setting="idk"),
        answered(2, "Voronezh", LEVELS, id="idk/q2", setting="idk"),
    ]
    figures = draw(measured(score(rows, [*SIMILARITY, None, 0.95])), "m")
    assert list(figures) == [
        "standard_and_granola_accuracy",
        "accuracy_and_informativeness",
        "matched_levels",
        "accuracy_by_popularity_greedy",
        "accuracy_by_popularity_idk",
        "similarity_by_agreement",
    ]
    points = figures["standard_and_granola_accuracy"].series
    assert [(each.label, each.x, each.y) for each in points] == [("greedy", (0.4,), (0.6,)), ("idk", (1,), (1,))]
    stacked = {each.label: each.y for each in figures["matched_levels"].series}
    assert list(stacked) == ["level 1", "level 3 or more", "IDK", "wrong"]  # no answer matches level 2
    assert figures["matched_levels"].outside_order == 2
    assert stacked["IDK"] == (pytest.approx(2 / 7, abs=1e-6), 0.5)
    assert sum(ys[0] or 0 for ys in stacked.values()) == pytest.approx(1, abs=1e-5)
    standard, granola = figures["accuracy_by_popularity_greedy"].series
    # the bins with known popularity; a note gives their range
    assert standard.x == ("1 of 2", "2 of 2")
    assert "(1 of 2: 10 to 40; 2 of 2: 50 to 80)" in figures["accuracy_by_popularity_greedy"].note
    assert (standard.y, granola.y) == ((pytest.approx(2 / 3, abs=1e-6), 0), (pytest.approx(2 / 3, abs=1e-6), 0))
    similar = {each.label: dict(zip(each.x, each.y, strict=True)) for each in figures["similarity_by_agreement"].series}
    assert similar == {"greedy": {"both": 0.85, "GRANOLA only": 0.25, "neither": 0.2}, "idk": {"both": 0.95}}


def test_figures_of_several_models_are_labelled_by_model() -> None:
    figures = draw(measured(score(ROWS)), "one", "two")
    assert [each.label for each in figures["standard_and_granola_accuracy"].series] == ["one, greedy", "two, greedy"]
    assert "accuracy_by_popularity_two_greedy" in figures
    assert "similarity_by_agreement" not in figures


def test_report_items_show_verdict_of_each_answer() -> None:
    items = list_granola_report_items(score(ROWS))
    assert [(item.verdict, item.score) for item in items] == [
        ("level 1", 1.0),
        ("level 1", 1.0),
        ("level 3", 0.33),
        ("wrong", 0),
        ("IDK", 0),
        ("wrong", 0),
        ("unscored: missing", None),
        ("refused (counts as IDK)", 0),
    ]
    assert items[0].gold == "Voronezh → Voronezh Oblast → Russia"


def test_paper_figures_refer_to_existing_metrics() -> None:
    metrics = measured(score(ROWS, SIMILARITY))
    assert {(each.metric, each.group_by, each.group) for each in GRANOLA_PAPER_FIGURES} <= {
        (each.metric, each.group_by, each.group) for each in metrics
    }
