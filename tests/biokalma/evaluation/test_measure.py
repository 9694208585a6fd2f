"""Test BioKaLMA's metrics and figures: two answers by hand, unscored answers, and planted rates."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.rows.bio_answers import scored_row

from factmill.tasks.biokalma.core.evaluation.rows import ScoredBiokalmaPrediction
from factmill.tasks.biokalma.evaluation.metrics_and_figures import (
    BIOKALMA_PAPER_FIGURES,
    HEADLINE,
    compute_biokalma_scores_and_metrics,
    draw_biokalma_metric_figures,
    list_biokalma_report_items,
)
from factmill.tasks.core.evaluation.rows import AnswerScore, EvaluationMetric
from factmill.tasks.core.measures.metrics import MeasuredMetric
from factmill.tasks.core.rows import arrow_schema, make_arrow_table
from factmill.tasks.evaluation.definition import EvaluationParams

ONE: dict[str, Any] = {
    "cited": 8, "correct": 4, "near": 1, "needed": 2, "found": 2, "minimum": 4, "malformed": 1, "triples": 7, "aligned": 6,
}  # fmt: skip
TWO: dict[str, Any] = {"cited": 2, "correct": 2, "needed": 2, "found": 2, "minimum": 2, "triples": 2, "aligned": 1}


def compute(rows: Sequence[ScoredBiokalmaPrediction]) -> tuple[pa.Table, list[MeasuredMetric]]:
    return compute_biokalma_scores_and_metrics(make_arrow_table(ScoredBiokalmaPrediction, rows), EvaluationParams())


RATED: dict[str, Any] = {"judge": "j", "coherence": 4, "consistency": 5, "fluency": 3, "relevance": 2}


def measure(
    rows: Sequence[ScoredBiokalmaPrediction], group: str = "", group_by: str = ""
) -> dict[tuple[str, str], MeasuredMetric]:
    _, metrics = compute(rows)
    return {(each.setting, each.metric): each for each in metrics if (each.group_by, each.group) == (group_by, group)}


def read(rows: Sequence[ScoredBiokalmaPrediction], *names: str, **text: str) -> list[float | None]:
    found = measure(rows, **text)
    return [found["given_graph", name].value for name in names]


def test_micro_metrics_pool_citations_and_macro_metrics_average_answers() -> None:
    rows = [scored_row("a", **ONE), scored_row("b", **TWO)]
    assert read(rows, "micro_correctness", "micro_precision", "micro_recall") == [0.6, 0.4, 0.666667]
    assert read(rows, "macro_correctness", "macro_precision", "macro_recall") == [0.75, 0.625, 0.75]
    # 2PR / (P + R) of each
    assert read(rows, "micro_f1", "macro_f1") == [0.5, 0.681818]
    assert read(rows, "micro_alignment", "macro_alignment") == [0.777778, 0.678571]  # 7/9; (6/7 + 1/2)/2
    assert read(rows, "micro_malformed", "micro_loose_correctness") == [0.1, 0.7]


def test_answer_without_citations_has_recall_but_no_precision() -> None:
    found = measure([scored_row("a", **TWO), scored_row("b", minimum=2)])
    result = {name: (found["given_graph", name].value, found["given_graph", name].n) for name in HEADLINE[:7]}
    assert result == {
        "micro_correctness": (1.0, 1), "micro_precision": (1.0, 1), "micro_recall": (0.5, 2), "micro_f1": (0.666667, 2),
        "macro_precision": (1.0, 1), "macro_recall": (0.5, 2), "macro_f1": (0.666667, 2),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("unscored", "recall", "missing"), [("no_answer", 0.5, 0), ("refused", 0.5, 0), ("cut_off", 1.0, 1)]
)
def test_empty_answer_has_zero_recall_and_lost_answer_is_unscored(unscored: str, recall: float, missing: int) -> None:
    rows = [scored_row("a", **TWO), scored_row("b", minimum=2, unscored=unscored, detail="why")]
    found = measure(rows)["given_graph", "micro_recall"]
    assert (found.value, found.n_unscored) == (recall, missing)
    assert (found.bound_low, found.bound_high) == ((0.5, 1.0) if missing else (0.5, 0.5))
    scores, _ = compute(rows)
    mine = {row["id"]: row for row in scores.to_pylist()}["macro_recall:given_graph/b/specific"]
    assert (mine["value"], mine["unscored"], mine["detail"]) == ((None, "cut_off", "why") if missing else (0.0, "", ""))


def test_silent_model_has_zero_recall_and_f1_and_no_precision() -> None:
    rows = [scored_row(each, minimum=3, unscored="no_answer", answer="", answer_read="") for each in "ab"]
    assert read(rows, "micro_recall", "micro_f1", "macro_f1", "micro_precision") == [0.0, 0.0, 0.0, None]


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ({"marked": 2, "marked_right": 2, "removed_found": 2}, [1.0, 1.0, 1.0]),
        ({"marked": 0}, [None, 0.0, 0.0]),
        ({"marked": 4, "marked_right": 1, "removed_found": 1}, [0.25, 0.5, 0.333333]),
    ],
)
def test_missing_mark_metrics_follow_removed_pieces(marks: dict[str, int], expected: list[float | None]) -> None:
    rows = [scored_row(each, minimum=3, removed=2, **marks) for each in "ab"]
    assert read(rows, "micro_na_precision", "micro_na_recall", "micro_na_f1") == expected


def test_missing_marks_are_measured_only_where_graph_lacks_pieces() -> None:
    assert not [name for _, name in measure([scored_row("a", marked=2, **TWO)]) if "na_" in name]
    right = {"minimum": 3, "removed": 1, "marked": 1, "marked_right": 1, "removed_found": 1}
    rows = [scored_row("a", marked=5, **TWO), scored_row("b", **right)]
    assert read(rows, "micro_na_precision", "macro_na_recall") == [1.0, 1.0]


def test_metrics_are_grouped_by_form_and_relation() -> None:
    rows = [scored_row("a", **ONE), scored_row("a", form="general", **TWO), scored_row("b", relation="spouse", **TWO)]
    assert read(rows, "micro_precision", group_by="form", group="specific") == [0.4]
    assert read(rows, "micro_precision", group_by="form", group="general") == [1.0]
    assert read(rows, "micro_precision", group_by="relation", group="spouse") == [1.0]
    assert read(rows, "micro_recall", group_by="pieces", group="1 to 4") == [0.75]
    assert read(rows, "micro_recall", group_by="lacking", group="0") == [0.75]
    sizes = [scored_row(str(size), **ONE | {"minimum": size, "removed": size - 1}) for size in (4, 5, 7, 8)]
    for text, numbers in (
        ({"group_by": "pieces"}, {"1 to 4": 1, "5 to 7": 2, "8 or more": 1}),
        ({"group_by": "lacking"}, {"3": 1, "4 or more": 3}),
    ):
        found = {group: measure(sizes, group, **text)["given_graph", "micro_recall"].n for group in numbers}
        assert found == numbers
    # both questions of a row are in one cluster
    assert measure(rows)["given_graph", "micro_precision"].clusters == 2


def test_upstream_scorer_leaves_out_rows_that_public_script_skips_and_notes_it() -> None:
    rows = [scored_row("a", scorer="upstream", **TWO), scored_row("b", scorer="upstream", is_left_out=True, **ONE)]
    found = measure(rows)
    recall = found["given_graph", "micro_recall"]
    assert (recall.value, recall.n, recall.n_unscored) == (1.0, 1, 0)
    assert "public script" in recall.note
    assert found["given_graph", "micro_alignment"].n == 2
    assert "lexical" in found["given_graph", "micro_alignment"].note
    assert "lexical" not in recall.note


def test_ratings_are_averaged_and_unreadable_ones_are_unscored() -> None:
    unread = {**RATED, "relevance": None, "unrated": ["relevance: judge_unreadable: there is no rating"]}
    rows = [
        scored_row("a", **unread, **TWO),
        scored_row("b", **{**RATED, "coherence": 1}, **TWO),
        scored_row("c", unscored="no_answer", detail="the answer is empty", minimum=2),
    ]
    found = measure(rows)
    result = {name: found["given_graph", name] for name in ("coherence", "consistency", "fluency", "relevance")}
    assert [each.value for each in result.values()] == [2.5, 5.0, 3.0, 2.0]
    assert [(each.n, each.n_unscored) for each in result.values()] == [(2, 1), (2, 1), (2, 1), (1, 2)]
    assert (result["coherence"].bound_low, result["coherence"].bound_high) == (2.0, 3.333333)
    scores, _ = compute(rows)
    why = {row["id"]: row["unscored"] for row in scores.to_pylist() if row["metric"] == "relevance"}
    assert list(why.values()) == ["judge_unreadable", "", "no_answer"]
    assert scores.schema == arrow_schema(AnswerScore)


def test_retrieval_accuracy_is_share_of_both_people_found() -> None:
    rows = [
        scored_row("a", "retrieved", **TWO),
        scored_row("b", "retrieved", retrieved=["Q2", "Q7"], retrieved_names=["B", "C"], **TWO),
        scored_row("c", "retrieved", retrieved=[], retrieved_names=[], unscored="lookup_failed", minimum=2),
    ]
    found = measure(rows)["retrieved", "retrieval_accuracy"]
    assert (found.value, found.n, found.n_unscored) == (0.75, 2, 1)


def test_planted_rates_lie_within_confidence_intervals() -> None:
    draw, rows = np.random.default_rng(5), []
    for at in range(400):
        cited = int(draw.integers(1, 12))
        correct = int(draw.binomial(cited, 0.9))
        needed = int(draw.binomial(correct, 0.4))
        counts = {"cited": cited, "correct": correct, "needed": needed, "triples": cited}
        rows.append(
            scored_row(f"p{at}", **counts, aligned=int(draw.binomial(cited, 0.7)), minimum=7, found=min(needed, 7))
        )
    found = measure(rows)
    for name, planted in (("micro_correctness", 0.9), ("micro_precision", 0.36), ("micro_alignment", 0.7)):
        metric = found["given_graph", name]
        assert metric.ci_low is not None
        assert metric.ci_high is not None
        assert metric.ci_low <= planted <= metric.ci_high


def name_metrics(rows: Sequence[ScoredBiokalmaPrediction], model: str = "m") -> list[EvaluationMetric]:
    _, metrics = compute(rows)
    result = {"benchmark": "biokalma", "model": model, "judge": "j"}
    return [EvaluationMetric(id=str(at), **result, **each.model_dump()) for at, each in enumerate(metrics)]


def test_figures_are_drawn_only_for_measured_settings() -> None:
    settings = ["given_graph", "retrieved", "removed_1", "removed_2", "ablated_100", "ablated_60"]
    rows = [
        scored_row(item, setting, **RATED, **TWO, removed=1, removed_found=1) for setting in settings for item in "ab"
    ]
    metrics = [*name_metrics(rows), *name_metrics(rows, "n")]
    figures = {each.name: each for each in draw_biokalma_metric_figures(metrics)}
    assert list(figures) == [
        "citations_given_graph", "texts_given_graph", "citations_retrieved", "texts_retrieved", "removed", "marks", "ablated"
    ]  # fmt: skip
    bars = figures["citations_given_graph"].series
    assert [(each.label, each.x) for each in bars] == [
        (model, ("correctness", "precision", "recall", "F1", "alignment")) for model in "mn"
    ]
    assert bars[0].y == (1.0, 1.0, 1.0, 1.0, 0.5)
    removed = {each.label: each for each in figures["removed"].series}
    assert removed["m, recall"].x == ("0", "1", "2")
    assert {each.label: each.y for each in figures["marks"].series}["m, [NA] recall"] == (1.0, 1.0, 1.0)
    assert figures["ablated"].series[0].x == ("100", "60")
    assert figures["texts_retrieved"].series[0].y == (4.0, 5.0, 3.0, 2.0)
    assert [each.name for each in draw_biokalma_metric_figures(name_metrics(rows[:2]))] == [
        "citations_given_graph",
        "texts_given_graph",
    ]


def test_figures_of_paper_refer_to_existing_metrics() -> None:
    settings = {each.setting for each in BIOKALMA_PAPER_FIGURES}
    rows = [scored_row("a", each, form, **RATED, **TWO) for each in settings for form in ("general", "specific")]
    _, metrics = compute(rows)
    places = {(each.setting, each.metric, each.group_by, each.group) for each in metrics}
    assert all((each.setting, each.metric, each.group_by, each.group) in places for each in BIOKALMA_PAPER_FIGURES)
    assert all(each.note for each in BIOKALMA_PAPER_FIGURES)
    assert all(0 < each.value <= (5 if each.metric in RATED else 1) for each in BIOKALMA_PAPER_FIGURES)


def test_report_items_describe_counts_and_are_ordered_by_f1() -> None:
    rows = [scored_row("a", **ONE), scored_row("b", unscored="refused", minimum=2), scored_row("c", unscored="cut_off")]
    one, two, three = list_biokalma_report_items(make_arrow_table(ScoredBiokalmaPrediction, rows))
    assert one.verdict == "4 of 8 citations in the graph, 2 needed; 2 of 4 pieces found; 1 malformed"
    assert one.score == pytest.approx(1 / 3)
    assert (two.score, three.score, three.verdict) == (0.0, None, "unscored: cut_off")
    assert one.gold.splitlines()[0] == "Q1 place of birth: London"
