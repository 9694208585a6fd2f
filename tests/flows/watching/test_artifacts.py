"""Test what runs leave in Prefect: distinct names, tables with the most important rows first, the build's page."""

from pathlib import Path
from typing import Any

import pytest
from support.builds.published import publish_rows
from support.builds.released import multihal_row

from factmill.flows.serve_options import RebuildParams
from factmill.flows.watching import artifacts as pages
from factmill.flows.watching.artifacts import make_metrics_table, make_worst_answers_table
from factmill.flows.watching.flow_runs import make_run_name, make_run_tags
from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.evaluation.definition import AnswerShownInReport
from factmill.tasks.granola.evaluation.questions import GranolaEvaluationParams
from factmill.tasks.granola.params import GranolaParams
from factmill.tasks.multihal.benchmark import MULTIHAL
from factmill.tasks.options import BenchmarkParams, BuildReport, RunOptions
from factmill.tasks.slaq.params import SlaqParams


def make_metric(name: str, group_by: str = "") -> EvaluationMetric:
    about = {"benchmark": "toy", "model": "m", "judge": "", "setting": "plain", "metric": name, "group_by": group_by}
    found = {"value": 0.51234, "n": 40, "n_unscored": 2, "clusters": 40, "coverage": 40 / 42, "unit": "", "note": ""}
    ends = {"bound_low": None, "bound_high": None, "ci_low": 0.4, "ci_high": 0.6, "interval": "wilson"}
    return EvaluationMetric.model_validate({"id": f"plain/{name}/{group_by}", "group": "", **about, **found, **ends})


def test_overall_metrics_table_starts_with_setting_metric_and_value() -> None:
    (row,) = make_metrics_table([make_metric("accuracy"), make_metric("accuracy", "relation")])
    assert list(row.items())[:5] == [
        ("setting", "plain"),
        ("metric", "accuracy"),
        ("value", "0.512"),
        ("95 % interval", "0.400 to 0.600"),
        ("items", 40),
    ]


def test_worst_answers_table_starts_with_question_and_ends_with_ids() -> None:
    items = [
        AnswerShownInReport(
            "plain/1", "plain", "Who?", "Ada", said, "right" if score else "wrong", score, "1", {"relation": "P50"}
        )
        for said, score in (("Ada", 1.0), ("Eve", 0.0))
    ]
    worst = make_worst_answers_table(items)
    assert [each["answer"] for each in worst] == ["Eve", "Ada"]
    assert list(worst[0]) == [
        "question",
        "answer",
        "verdict",
        "gold",
        "score",
        "setting",
        "answer_id",
        "row_id",
        "groups",
    ]


_NOTHING = dict.fromkeys(
    ("merged", "calls_sent", "calls_replayed", "tokens_in", "tokens_out", "cost_usd", "seconds"), 0
)


def test_page_is_written_to_reports_and_page_failure_is_not_build_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, Any]] = []
    monkeypatch.setenv("FACTMILL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(pages, "create_markdown_artifact", lambda **expected: made.append(expected))
    build = publish_rows(tmp_path / "w.duckdb", MULTIHAL, {"multihal": [multihal_row("felm_1")]})
    result = {**_NOTHING, **build.report, "benchmark": "multihal", "warehouse": str(tmp_path / "w.duckdb")}
    report = BuildReport.model_validate(result)
    pages.write_page_and_create_artifacts(report)
    path = tmp_path / "home/reports" / f"{build.build_id}.html"
    assert "Where was Kepler born?" in path.read_text("utf-8")
    assert (made[0]["key"], path.as_uri() in made[0]["markdown"]) == ("multihal-page", True)
    assert made[1]["key"] == "multihal-figures"
    assert made[1]["markdown"].startswith(
        "### Rows of each stage, the greatest loss first\n\n![Rows of each stage, the greatest loss first](data:image/svg+xml;base64,"
    )
    pages.write_page_and_create_artifacts(report.model_copy(update={"build_id": "multihal-gone"}))
    assert len(made) == 2
    pages.write_page_and_create_artifacts(report.model_copy(update={"benchmark": "multihal_evaluation"}))
    assert len(made) == 2


def test_page_is_linked_by_url_when_reports_folder_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACTMILL_REPORTS_URL", "http://reports.example:8080/pages/")
    link = pages.format_page_link(Path("/home/reports/a b.html"))
    assert link == "[a b.html](http://reports.example:8080/pages/a%20b.html)"
    monkeypatch.delenv("FACTMILL_REPORTS_URL")
    assert pages.format_page_link(Path("/r/a.html")).startswith(
        "[/r/a.html](file:///r/a.html)\n\nBrowsers open no files"
    )


@pytest.mark.parametrize(
    ("flow", "world", "tags"),
    [
        ("granola", "embedded", ["factmill", "benchmark:granola", "world:embedded"]),
        ("granola_evaluation", "/w/mine.toml", ["factmill", "benchmark:granola", "world:mine", "evaluation"]),
        ("slaq_mechanism", "live", ["factmill", "benchmark:slaq", "world:live", "mechanism"]),
        ("rebuild", "live", ["factmill", "world:live"]),
    ],
)
def test_tags_name_benchmark_and_world(flow: str, world: str, tags: list[str]) -> None:
    assert make_run_tags(flow, RunOptions(world=world)) == tags


@pytest.mark.parametrize(
    ("flow", "params", "run", "name"),
    [
        ("granola", GranolaParams(), {}, "granola · embedded"),
        (
            "granola",
            GranolaParams(relations=("P19", "P26"), limit=500),
            {"world": "live"},
            "granola · live · P19,P26 · 500",
        ),
        (
            "granola",
            GranolaParams(source=("/a/b.json",), relations=tuple("abcdef"), samples=2),
            {"world": "/etc/worlds/ours.toml", "mode": "refresh"},
            "granola · ours · b · a,b,c,d +2 · samples 2 · refresh",
        ),
        ("granola", GranolaParams(limit=500), {"pilot": 20}, "granola · embedded · 500 · pilot of 20"),
        ("slaq", SlaqParams(per_half=3, review="ask"), {}, "slaq · embedded · per half 3 · review ask"),
        (
            "rebuild",
            RebuildParams(benchmarks=("slaq",), evaluate=("oracle",), slaq=SlaqParams(per_half=3)),
            {},
            "rebuild · embedded · slaq · oracle",
        ),
        (
            "granola_evaluation",
            GranolaEvaluationParams(model="oracle", build="granola-1"),
            {"pinned_build": "granola_evaluation-2", "mode": "replay"},
            "granola evaluation · embedded · oracle · granola-1 · verify granola_evaluation-2",
        ),
    ],
)
def test_run_name_contains_benchmark_world_source_and_limit(
    flow: str, params: BenchmarkParams, run: dict[str, Any], name: str
) -> None:
    assert make_run_name(flow, params, RunOptions(**run)) == name
