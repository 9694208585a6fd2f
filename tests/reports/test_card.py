"""Test a model's card: its first line, ties, missing parts, and one page without a script."""

import dataclasses
import json
import re

import pytest
from support.builds.reported import EVALUATION, MODEL, make_evaluated

from factmill.flows.evaluate.evaluations import EVALUATIONS
from factmill.tasks.reports.evaluation_report import LoadedEvaluation
from factmill.tasks.reports.model_card import (
    BenchmarkEvaluationOfEachModel,
    EvaluationReportLink,
    MissingEvaluation,
    ModelCard,
    make_model_card,
)
from factmill.tasks.reports.rendering import CARD_RENDERERS, render_card_html, render_card_markdown
from factmill.tasks.storage.builds import BuildRecord

GOOD = ["gold"] * 18 + ["no", "no"]


def take(
    *evaluated: LoadedEvaluation, missing: tuple[MissingEvaluation, ...] = (), **left_out: list[BuildRecord]
) -> BenchmarkEvaluationOfEachModel:
    pages = [
        EvaluationReportLink("strong", "e-1", "e-1.html", "make e-1"),
        EvaluationReportLink(MODEL, "e-2", "", "make e-2"),
    ]
    others = {each.record.build_id: left_out.get("left_out", []) for each in evaluated[:1]}
    return BenchmarkEvaluationOfEachModel(EVALUATION, evaluated, others, missing, pages if evaluated else ())


@pytest.fixture(scope="module")
def card() -> ModelCard:
    evaluated = [make_evaluated("strong", GOOD), make_evaluated("alike", ["no", *GOOD[1:]])]
    weak = make_evaluated(MODEL, ["no"] * 8 + [""] * 12, scripted={"x": "1"})
    other = make_evaluated("strong", GOOD).record
    other.lock["params"]["params"]["limit"] = 5
    measured = take(*evaluated, weak, left_out=[other])
    return make_model_card(
        ["strong", "alike", MODEL], [measured, take(missing=(MissingEvaluation("strong", "factmill evaluate x"),))]
    )


def test_first_line_says_card_ranks_no_models_and_names_unscored_share(card: ModelCard) -> None:
    first = "This card does not rank models"
    assert card.warnings[0].startswith(first) and "the rows of multihal-1" in card.warnings[0]
    assert f"({MODEL} on multihal 40.0 %" in card.warnings[0]
    assert render_card_markdown(card).startswith(f"> **{first}: ")
    page = render_card_html(card)
    assert page.index(first) < page.index("<h1>")
    assert make_model_card(["strong"], [take(make_evaluated("strong", GOOD))]).warnings == ()


def test_ties_use_shared_items_and_best_paper_result_is_shown(card: ModelCard) -> None:
    (row,) = card.parts[0].rows
    assert {model: cell.ranks for model, cell in row.cells.items()} == {
        "strong": (1, 2),
        "alike": (1, 2),
        MODEL: (3, 3),
    }
    assert row.shared == 8
    assert row.cells["strong"].metric.n == 20
    assert row.best and (row.best.model, row.best.value) == ("GPT-9", 0.5)
    (figure,) = card.figures  # each benchmark's metric has its own axis
    assert [series.y for series in figure.series] == [(0.9,), (0.85,), (0.0,)]


def test_missing_evaluation_or_report_names_command_that_creates_it(card: ModelCard) -> None:
    for text in (render_card_html(card), render_card_markdown(card)):
        assert "factmill evaluate x" in text and "make e-2" in text and "make e-1" not in text
    assert 'href="e-1.html"' in render_card_html(card)
    assert "[report](e-1.html)" in render_card_markdown(card)
    (result,) = card.parts[0].left_out
    assert result.startswith("strong: of 2 evaluations") and "(limit: 5)" in result


def test_card_has_no_script_and_escapes_names(card: ModelCard) -> None:
    page = render_card_html(card)
    assert "<script" not in page and "<b>" not in page and "weak &lt;b&gt;&amp; $x$" in page
    assert [link for link in re.findall(r'href="([^"]*)"', page) if not link.startswith("#")] == ["data:,", "e-1.html"]
    rows = [line for line in render_card_markdown(card).splitlines() if line.startswith("| ")]
    assert {line.count("|") for line in rows} == {7, 6}
    assert json.loads(CARD_RENDERERS[".json"](card))["parts"][0]["metric"] == "accuracy"


def test_every_evaluation_explains_its_main_metric() -> None:
    for evaluation in EVALUATIONS.values():
        assert evaluation.main_metric in evaluation.headline_metrics
        assert re.fullmatch(r"[A-Z][^\n]{40,300}\.", evaluation.main_metric_meaning), evaluation.name


def test_lower_is_better_metric_has_best_at_low_end() -> None:
    paper = tuple(
        dataclasses.replace(EVALUATION.paper_results[0], model=name, value=at) for name, at in (("a", 0.2), ("b", 0.4))
    )
    for lower, best in (((), "b"), (("accuracy",), "a")):
        evaluation = dataclasses.replace(EVALUATION, paper_results=paper, lower_is_better=lower)
        taken = dataclasses.replace(take(make_evaluated("strong", GOOD)), evaluation=evaluation)
        found = make_model_card(["strong"], [taken]).parts[0].rows[0].best
        assert found and found.model == best
