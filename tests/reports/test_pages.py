"""Test reports: their content, inactive texts of models, and no requests from a page."""

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from support.builds.reported import EVALUATION, HOSTILE, MODEL, list_items, make_evaluated
from support.docs.chromium import open_filtered, open_page
from support.docs.read_page import ReadPage

from factmill.tasks.core.measures.intervals import format_interval_warning
from factmill.tasks.core.measures.report_figures import FigureSeries, ReportFigure
from factmill.tasks.evaluation.definition import BUILT_IN_MODELS, AnswerShownInReport, PaperResult
from factmill.tasks.reports.evaluation_report import (
    EvaluationReport,
    PaperComparisonRow,
    list_paper_notes,
    make_evaluation_report,
)
from factmill.tasks.reports.formatting import format_p_value, replace_cluster_term_in_note
from factmill.tasks.reports.item_browser import MAX_ITEM_ENTRIES
from factmill.tasks.reports.model_ranking import format_comparison_verdict, put_better_value_first
from factmill.tasks.reports.rendering import (
    REPORT_RENDERERS,
    group_comparison_rows_by_paper_models,
    render_report_html,
    render_report_json,
    render_report_markdown,
)

GOOD = ["gold"] * 18 + ["no", ""]


@pytest.fixture(scope="module")
def report() -> EvaluationReport:
    strong = make_evaluated("strong", GOOD)
    alike = make_evaluated("alike", ["no", *GOOD[1:]])
    return make_evaluation_report(
        EVALUATION, [strong, alike, make_evaluated(MODEL, [*HOSTILE, *[""] * 12, "gold", "gold"])]
    )


@pytest.fixture(scope="module")
def page(report: EvaluationReport) -> str:
    return render_report_html(report)


def test_page_references_nothing_external(page: str) -> None:
    read = ReadPage(page)
    assert read.addresses
    assert [each for each in read.addresses if not each.startswith(("#", "data:"))] == []
    styles = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert len(styles) == 1
    assert "@import" not in styles[0] and "url(" not in styles[0]
    assert "default-src 'none'" in page


def test_model_text_is_escaped(page: str, report: EvaluationReport) -> None:
    read = ReadPage(page)
    assert read.tags.count("script") == 1
    assert read.handlers == []
    assert "img" not in read.tags and "b" not in read.tags
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "[U+202E]gnorw si siht[U+202C] שלום" in page
    assert "weak &lt;b&gt;&amp; $x$" in page
    assert "[shortened: 100,000 characters in all]" in page and "long " * 300 not in page
    markdown = render_report_markdown(report)
    assert "<script>" not in markdown and "&lt;script&gt;" in markdown.replace("\\", "")
    assert not re.search(r"(?<!\\)\]\(", markdown)
    assert "\\| cell<br>line" in markdown


@pytest.mark.parametrize("name", [*HOSTILE, "n" * 1_000_000])
def test_group_names_are_escaped_and_shortened(name: str) -> None:
    def items(answers: pa.Table) -> list[AnswerShownInReport]:
        return [dataclasses.replace(each, groups={"kind": name}) for each in list_items(answers)]

    figure = ReportFigure("named", "Named", "bars", "", "", (FigureSeries(name, (name, "b"), (1.0, 2.0)),))
    made = make_evaluated("strong", GOOD)
    metrics = [made.metrics[0].model_copy(update={"group_by": "kind", "group": name})]
    evaluation = dataclasses.replace(EVALUATION, list_report_items=items, draw_figures=lambda _: [figure])
    page = render_report_html(
        make_evaluation_report(evaluation, [dataclasses.replace(made, metrics=[*made.metrics, *metrics])])
    )
    read = ReadPage(page)
    assert (read.tags.count("script"), read.tags.count("style"), read.handlers) == (1, 2, [])
    assert not {"img", "b", "textarea"}.intersection(read.tags)
    assert not any(each in page for each in ("\u202e", "\x00"))
    assert len(page) < 100_000


def test_first_line_names_low_scored_share(report: EvaluationReport, page: str) -> None:
    assert report.warnings[0].startswith("Only 40.0 %") and MODEL in report.warnings[0]
    assert render_report_markdown(report).startswith("> **Only 40.0 % ")
    assert page.index("Only 40.0 %") < page.index("<h1>")
    full = make_evaluation_report(EVALUATION, [make_evaluated("strong", ["gold"] * 20)])
    assert full.warnings == ()


def test_rule_based_judges_and_built_in_models_are_disclosed() -> None:
    report = make_evaluation_report(
        EVALUATION, [make_evaluated("oracle", ["gold"] * 3, scripted={"x": "1"}, judge="exact")]
    )
    assert any(
        warning.startswith("oracle ") and f": it {BUILT_IN_MODELS['oracle']}." in warning for warning in report.warnings
    )
    assert any("scripted replies" in warning.lower() for warning in report.warnings)
    assert "lexical lower bound" in report.subjects[0].facts["Judge"]
    judged = make_evaluation_report(EVALUATION, [make_evaluated("m", ["gold"] * 3, judge="gpt-9")])
    assert any(warning == "Judge gpt-9: not checked against human labels." for warning in judged.warnings)


def test_models_are_compared_on_shared_items_and_ties_are_shown(report: EvaluationReport) -> None:
    (ranking,) = report.rankings
    assert ranking.n == 7  # the weak model's first six and q18; the others have no score for q19
    assert {each.model: each.ranks for each in ranking.placed} == dict.fromkeys(["alike", "strong", MODEL], (1, 3))
    tie = next(one for one in ranking.comparisons if {one.first, one.second} == {"strong", "alike"})
    assert (tie.better, tie.test, tie.p) == ("", "mcnemar", 1.0)
    assert all(one.p_adjusted is not None for one in ranking.comparisons)
    # strong is right on 6 of 7 items, weak on the seventh: the interval excludes 0, but McNemar's p is 2 × 8/128, adjusted 0.3282
    assert [(one.first, one.second, format_comparison_verdict(one)) for one in ranking.differences] == [
        ("strong", "alike", "a tie"),
        ("strong", MODEL, "too few items to tell (p 0.3282)"),
        ("alike", MODEL, "a tie"),
    ]
    assert "<li>1–3: <bdi>alike</bdi>" in render_report_html(report)


def test_evaluation_differing_in_more_than_model_is_marked() -> None:
    other = make_evaluated("other", GOOD)
    other.record.lock["params"]["params"]["limit"] = 5
    report = make_evaluation_report(EVALUATION, [make_evaluated("one", GOOD), other])
    assert any(
        warning.startswith("The evaluations differ in limit ") and "(one: not set; other: 5)" in warning
        for warning in report.warnings
    )


def test_page_limits_number_of_items() -> None:
    report = make_evaluation_report(EVALUATION, [make_evaluated("m", ["<" * 3_000] * (MAX_ITEM_ENTRIES + 50))])
    assert len(report.entries) < MAX_ITEM_ENTRIES and report.entries_in_all == MAX_ITEM_ENTRIES + 50
    page = render_report_html(report)
    assert len(page.encode()) < 3_000_000
    assert "factmill export multihal_evaluation-1 --to DIR" in page
    assert f"the first {len(report.entries)} of 550" in page


def test_json_has_metrics_comparisons_and_items(report: EvaluationReport) -> None:
    result = json.loads(render_report_json(report))
    assert {each["model"] for each in result["headline"]} == {"strong", "alike", MODEL}
    assert len(result["rankings"][0]["comparisons"]) == 3
    assert len(result["entries"]) == 20
    assert result["paper"][0]["paper"] == {"GPT-9": 0.5}


def test_note_on_the_paper_names_all_its_places() -> None:
    results = [
        PaperResult("a", "s", "m", 0.5, where, note)
        for where, note in (("Table 1", "other rows"), ("§2", ""), ("Table 3", "other rows"), ("Table 1", "other rows"))
    ]
    assert list_paper_notes(results) == ("Table 1, Table 3: other rows", "§2")


_RENDER = """
import sys
from support.docs.chromium import open_page
from support.docs.read_page import ReadPage
from support.builds.reported import EVALUATION, HOSTILE, make_evaluated
from factmill.tasks.reports.evaluation_report import make_evaluation_report
from factmill.tasks.reports.rendering import REPORT_RENDERERS
report = make_evaluation_report(EVALUATION, [make_evaluated("a", HOSTILE), make_evaluated("bb", ["gold"] * 6)])
sys.stdout.buffer.write("".join(render(report) for render in REPORT_RENDERERS.values()).encode())
"""


def test_same_evaluations_have_same_bytes_in_every_locale() -> None:
    report = make_evaluation_report(EVALUATION, [make_evaluated("a", HOSTILE), make_evaluated("bb", ["gold"] * 6)])
    here = "".join(render(report) for render in REPORT_RENDERERS.values())
    elsewhere = {"TZ": "Asia/Tokyo", "LC_ALL": "de_DE.UTF-8", "PYTHONHASHSEED": "1"}
    there = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", _RENDER],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **elsewhere},
        check=True,
        capture_output=True,
    ).stdout
    assert there.decode() == here == "".join(render(report) for render in REPORT_RENDERERS.values())


def test_browser_loads_nothing(page: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(page, "utf-8")
    dumped, asked = open_page(tmp_path / "page.html")
    assert "20 of 20 shown" in dumped  # the page's own script has run
    assert [each for each in asked if "elsewhere" in each] == []


def test_single_series_has_no_legend_and_empty_figure_is_omitted() -> None:
    empty = ReportFigure("empty", "Nothing", "lines", "x", "y", (FigureSeries("m", (1,), (None,)),))
    one = ReportFigure("one", "One", "bars", "", "share", (FigureSeries("m", ("a",), (0.0,)),))
    evaluation = dataclasses.replace(EVALUATION, draw_figures=lambda _: [empty, one])
    report = make_evaluation_report(evaluation, [make_evaluated("strong", GOOD)])
    assert [figure.name for figure in report.figures] == ["one"]
    assert 'class="legend"' not in render_report_html(report)


def test_comparison_shows_tables_and_command_for_items(report: EvaluationReport) -> None:
    evaluated = [make_evaluated("strong", GOOD), make_evaluated("alike", ["no", *GOOD[1:]])]
    tables = make_evaluation_report(EVALUATION, evaluated, with_items=False)
    assert tables.entries == () and tables.entries_in_all == 20 and len(tables.rankings) == 1
    for render in (render_report_html, render_report_markdown):
        assert "multihal_evaluation-6 multihal_evaluation-5 --items --to multihal.html" in render(tables)
        assert "Question 3?" not in render(tables) and "Question 3?" in render(report)


def test_graphs_and_articles_of_evaluation_are_named() -> None:
    made = make_evaluated("strong", GOOD)
    assert made.measured
    made.measured.origin["graph"] = "wikidata-2026"
    made.measured.lock["params"] = {"epoch": "2023-11-20T00:00:00Z"}
    facts = make_evaluation_report(EVALUATION, [made]).subjects[0].facts
    assert facts["Local graph"] == "wikidata-2026 (the measured build)"
    assert facts["Articles"] == "as of 2023-11-20"
    made.record.origin["graph"] = "wikidata-2026"
    assert make_evaluation_report(EVALUATION, [made]).subjects[0].facts["Local graph"] == "wikidata-2026"


def test_search_finds_items_not_shown_on_page(tmp_path: Path) -> None:
    report = make_evaluation_report(EVALUATION, [make_evaluated("m", ["gold"] * (MAX_ITEM_ENTRIES + 50))])
    assert report.all_rows and report.all_rows.rows == MAX_ITEM_ENTRIES + 50
    assert report.all_rows.headings == ("row", "question", "gold", "answer")
    assert "packed" not in render_report_json(report)
    page = render_report_html(report)
    dumped = open_filtered(page, tmp_path, search="question 549?")
    assert "1 of 550 rows found" in dumped
    assert '<dd dir="auto">Question 549?</dd>' in dumped


def test_verdict_filter_covers_rows_not_shown_on_page(tmp_path: Path) -> None:
    answers = [*["no"] * 30, *["gold"] * (MAX_ITEM_ENTRIES + 50)]
    report = make_evaluation_report(EVALUATION, [make_evaluated("m", answers)])
    assert "30 of 580 rows found" in open_filtered(render_report_html(report), tmp_path, verdict="wrong")


def test_codes_of_groups_have_labels_on_page_and_keep_codes_in_filters() -> None:
    def items(answers: pa.Table) -> list[AnswerShownInReport]:
        codes = ["P19", "P20"] * 10
        return [
            dataclasses.replace(each, groups={"relation": code})
            for each, code in zip(list_items(answers), codes, strict=True)
        ]

    measured = dataclasses.replace(
        EVALUATION.benchmark, value_labels=lambda: {"relation": {"P19": "place of birth <i>"}}
    )
    evaluation = dataclasses.replace(EVALUATION, benchmark=measured, list_report_items=items)
    report = make_evaluation_report(evaluation, [make_evaluated("m", GOOD)])
    page = render_report_html(report)
    assert '<option value="P19">place of birth &lt;i&gt; (P19)</option><option value="P20">P20</option>' in page
    assert "<bdi>place of birth &lt;i&gt; (P19)</bdi>" in page
    assert "place of birth &lt;i&gt; (P19)" in render_report_markdown(report).replace("\\", "")


@pytest.mark.parametrize(
    ("p", "shown"), [(None, "–"), (1.0, "1.0000"), (0.00017, "0.0002"), (0.00009999, "≤ 0.0001"), (1e-9, "≤ 0.0001")]
)
def test_p_values_have_four_decimals(p: float | None, shown: str) -> None:
    assert format_p_value(p) == shown


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("one cluster: nothing to draw an interval from", "one group of related questions: nothing to draw an interval from"),
        ("an interval from 9 clusters is too narrow", "an interval from 9 groups of related questions is too narrow"),
        (format_interval_warning(9, 0), "all groups of related questions have the same mean, so the interval cannot show the spread"),
    ],
)  # fmt: skip
def test_notes_say_what_a_cluster_is(stored: str, shown: str) -> None:
    assert replace_cluster_term_in_note(stored) == shown


def test_options_and_commands_in_notes_are_code() -> None:
    made = make_evaluated("m", GOOD)
    made.record.report["notes"].append("no <i>: --nli names none (factmill models add x --help)")
    page = render_report_html(make_evaluation_report(EVALUATION, [made]))
    option = '<code><span class="word">--nli</span></code>'
    command = " ".join(f'<span class="word">{word}</span>' for word in ["factmill", "models", "add", "x", "--help"])
    assert f"<p>m: no &lt;i&gt;: {option} names none (<code>{command}</code>).</p>" in page


def test_better_value_comes_first_with_its_sign(report: EvaluationReport) -> None:
    one = (
        report.rankings[0]
        .comparisons[1]
        .model_copy(update={"first": "a", "second": "b", "value_first": 0.25, "value_second": 1.0, "difference": -0.75})
    )
    one = one.model_copy(update={"ci_low": -1.0, "ci_high": 0.0})
    turned = put_better_value_first(one, lower_is_better=False)
    assert (turned.first, turned.value_first, turned.difference) == ("b", 1.0, 0.75)
    assert (turned.ci_low, turned.ci_high) == (0.0, 1.0)
    assert put_better_value_first(one, lower_is_better=True) == one


def test_metric_without_item_scores_says_why_it_ranks_nobody() -> None:
    evaluation = dataclasses.replace(EVALUATION, main_metric="micro_f1", headline_metrics=("micro_f1", "accuracy"))
    report = make_evaluation_report(evaluation, [make_evaluated("a", GOOD), make_evaluated("bb", GOOD)])
    assert report.not_ranked.startswith("Models are not ranked by micro F1: it has no score for each item")
    assert report.not_ranked in render_report_html(report)


def test_paper_results_of_the_same_models_share_a_table() -> None:
    rows = [
        PaperComparisonRow(metric, "ask", "", "", {}, dict.fromkeys(models, 0.5))
        for metric, models in (("x", "ab"), ("y", "c"), ("z", "ab"))
    ]
    tables = group_comparison_rows_by_paper_models(rows)
    assert [(models, [row.metric for row in of]) for models, of in tables] == [
        (("a", "b"), ["x", "z"]),
        (("c",), ["y"]),
    ]
