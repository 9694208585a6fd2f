"""Creates the artifacts of a flow run in Prefect's UI: funnel, sample rows, cost, and the page of the build."""

import json
import os
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from prefect.artifacts import create_markdown_artifact, create_table_artifact

from factmill.flows.benchmarks import BENCHMARKS
from factmill.tasks import progress
from factmill.tasks.assets import asset_path
from factmill.tasks.core.batch_receipts import format_reason_counts
from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.measures.report_figures import ReportFigure
from factmill.tasks.core.service_settings import SCRIPTED_MODEL_NAME
from factmill.tasks.engine.benchmark import Benchmark, load_named_object
from factmill.tasks.errors import FactmillError
from factmill.tasks.evaluation.definition import AnswerShownInReport, Evaluation, sort_answers_worst_first
from factmill.tasks.options import BuildReport
from factmill.tasks.reports.formatting import format_interval, format_number, format_row_balance, shorten_line
from factmill.tasks.settings import factmill_home
from factmill.tasks.storage.builds import format_faulty_scripted_reply_shares, load_first_reject_details

ARTIFACT_SAMPLE_ROWS = 20
_MAX_REJECT_CHARACTERS = 300
"""Maximum characters of a reject's detail."""


def create_build_artifacts(benchmark: Benchmark, report: BuildReport, rows: pa.Table) -> None:
    """Create the artifacts of one build, and write its result into the run's log."""
    create_funnel_and_reject_artifacts(report)
    if report.rows:
        # the columns of `show` come first, then the others, ids last
        first = [name for name in benchmark.display_columns if name in rows.column_names and name != "id"]
        others = [name for name in rows.column_names if name not in first and name != "id"]
        sample = rows.slice(0, ARTIFACT_SAMPLE_ROWS).select([*first, *others, "id"]).to_pylist()
        create_table_artifact(
            table=[format_artifact_row(row) for row in sample],
            key=f"{_format_benchmark_as_key_prefix(report)}-sample",
            description=f"{min(ARTIFACT_SAMPLE_ROWS, report.rows)} of {report.rows:,} rows of {report.build_id}",
        )
    command = f"factmill report {report.build_id} --to {report.build_id}.html"
    _create_and_log_result_and_cost_artifact(report, command, f"`{command}`")


def create_funnel_and_reject_artifacts(report: BuildReport) -> None:
    """Create the artifacts of a build's stages and of its reject reasons."""
    benchmark = BENCHMARKS.get(report.benchmark)
    steps = load_named_object(benchmark.release).card.steps if benchmark and benchmark.release else {}
    # columns in reading order
    funnel = [
        {
            "stage": stage["stage"],
            "rows in": stage["rows_in"],
            "rows out": stage["rows_out"],
            "rejected": stage["rejects"],
            "merged": stage["merged"],
            "calls sent": stage["calls_sent"],
            "replayed": stage["calls_replayed"],
            "US$": round(stage["cost_usd"], 4),
            "seconds": round(stage["seconds"], 1),
            "why rejected": format_reason_counts(report.reasons.get(stage["stage"], {})),
            "what it does": steps.get(stage["stage"], ""),
        }
        for stage in report.stages
    ]
    create_table_artifact(
        table=funnel,
        key=f"{_format_benchmark_as_key_prefix(report)}-funnel",
        description=f"What each stage of {report.build_id} did. {format_row_balance(report.model_dump())}",
    )
    if report.rejects:
        command = f"factmill show {report.benchmark} --rejects --build {report.build_id}"
        details = load_first_reject_details(Path(report.warehouse), report.build_id)
        rejects = [
            {
                "stage": stage,
                "reason": reason,
                "rows": rows,
                "the first": shorten_line(details.get((stage, reason), ""), _MAX_REJECT_CHARACTERS),
            }
            for stage, reasons in report.reasons.items()
            for reason, rows in reasons.items()
        ]
        create_table_artifact(
            table=rejects,
            key=f"{_format_benchmark_as_key_prefix(report)}-rejects",
            description=f"Why {report.rejects:,} rows were rejected. All of them: `{command}`",
        )


def _format_benchmark_as_key_prefix(report: BuildReport) -> str:
    return report.benchmark.replace("_", "-")


def create_evaluation_artifacts(
    report: BuildReport, evaluation: Evaluation, answers: pa.Table, metrics: Sequence[EvaluationMetric]
) -> None:
    """Create the artifacts of one evaluation: metrics over all items, figures, worst answers, cost."""
    key = _format_benchmark_as_key_prefix(report)
    create_table_artifact(
        table=make_metrics_table(metrics),
        key=f"{key}-metrics",
        description=f"{report.author} on {report.facts['measured']}: metrics of {report.build_id}, over all items",
    )
    # one artifact for all figures: below an image artifact, Prefect prints its address, here all of its bytes
    create_markdown_artifact(
        markdown="\n\n".join(map(format_figure_markdown, evaluation.draw_figures(metrics))),
        key=f"{key}-figures",
        description=f"Figures of {report.build_id}",
    )
    create_table_artifact(
        table=make_worst_answers_table(evaluation.list_report_items(answers)),
        key=f"{key}-worst",
        description=f"Worst answers of {report.build_id}; all of them: `factmill report {report.build_id} --to FILE.html`",
    )
    page = factmill_home() / "reports" / f"{report.build_id}.html"
    _create_and_log_result_and_cost_artifact(report, str(page), format_page_link(page))


def format_figure_markdown(figure: ReportFigure) -> str:
    """Return a figure as Markdown: picture, colour legend and note."""
    # only evaluations import the drawing code
    from factmill.tasks.reports.svg_figures import draw_standalone_svg, format_colour_legend_as_text

    style = asset_path("data/templates", "style.css").read_text("utf-8")
    picture = b64encode(draw_standalone_svg(figure, style).encode()).decode()
    shown = f"![{figure.title}](data:image/svg+xml;base64,{picture})"
    legend = format_colour_legend_as_text(figure)
    return f"### {figure.title}\n\n{shown}\n\n{legend and f'{legend}. '}{figure.note}"


def make_metrics_table(metrics: Iterable[EvaluationMetric]) -> list[dict[str, Any]]:
    """Return the metrics over all items as rows of a table: setting, metric, value, interval, counts, judge, note."""
    return [
        {
            "setting": each.setting,
            "metric": each.metric,
            "value": format_number(each.value),
            "95 % interval": format_interval(each.ci_low, each.ci_high),
            "items": each.n,
            "unscored": each.n_unscored,
            "judge": each.judge,
            "note": each.note,
        }
        for each in metrics
        if not each.group_by
    ]


def make_worst_answers_table(items: Iterable[AnswerShownInReport]) -> list[dict[str, Any]]:
    """Return the worst answers as rows of a table, ids last."""
    first = ("question", "answer", "verdict", "gold", "score", "setting")
    return [format_artifact_row(asdict(item), first) for item in sort_answers_worst_first(items)[:ARTIFACT_SAMPLE_ROWS]]


def _create_and_log_result_and_cost_artifact(report: BuildReport, page_or_command: str, link: str) -> None:
    """Create the artifact with a build's result and cost; `page_or_command`: its page, or the command that writes it;
    `link`: the same as Markdown."""
    notes = list(report.notes)
    notes += [report.caution] if report.caution else []
    notes += [format_faulty_scripted_reply_shares(report.scripted)] if report.scripted else []
    notes += [report.nothing_published] if report.nothing_published else []
    if report.unsettled:
        notes.append(f"{report.unsettled} rows were lost to passing failures; the same run tries them again")
    text = ""
    if report.author.startswith(SCRIPTED_MODEL_NAME):
        text = "\n\nAnswers and scores are scripted replies of the embedded world; no model was asked."
    text += "".join(f"\n\nNote: {each}." for each in notes)
    author = f", author `{report.author}`" if report.author else ""
    create_markdown_artifact(
        markdown=f"**{report.build_id}** in world `{report.world}`{author}: {format_row_balance(report.model_dump())}.{text}\n\n"
        f"Look at it: {link}\n\nIt is in `{report.warehouse}`.\n\n"
        f"| calls sent | calls replayed | tokens in | tokens out | cost | seconds |\n|---|---|---|---|---|---|\n"
        f"| {report.calls_sent:,} | {report.calls_replayed:,} | {report.tokens_in:,} | {report.tokens_out:,} | {report.format_cost()} | {report.seconds:.1f} |",
        key=f"{_format_benchmark_as_key_prefix(report)}-cost",
        description=f"What {report.build_id} came to, where it is, and what it cost",
    )
    for note in notes:
        progress.log_to_current_run(f"note: {note}", "warning")
    progress.log_to_current_run(
        f"{'nothing published yet' if report.nothing_published else 'done'}: {report.build_id}, {report.rows:,} rows, {report.rejects:,} rejected, {report.merged:,} merged, "
        f"{report.format_cost()}, in {report.warehouse}; look at it: {page_or_command}"
    )


def format_artifact_row(row: Mapping[str, Any], first: Sequence[str] = ()) -> dict[str, Any]:
    """Return a row as a row of a table artifact, with the columns in `first` in front."""
    return {name: _format_artifact_cell(row[name]) for name in dict.fromkeys([*first, *row])}


def _format_artifact_cell(value: Any) -> Any:
    """Return a value as a cell of a table: a list of texts joined by bars, other nested values as JSON."""
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return " | ".join(value)
    return json.dumps(value, ensure_ascii=False, default=str)


REPORTS_URL_VARIABLE = "FACTMILL_REPORTS_URL"
"""Environment variable with the address at which the folder of reports is served, for links that browsers open."""


def write_page_and_create_artifacts(report: BuildReport) -> None:
    """Write the page of a build, link it as an artifact and show its figures as another; a failure is logged, and the
    build stays. Evaluations write their reports themselves."""
    if not report.rows or report.benchmark not in BENCHMARKS:
        return
    # the drawing code takes a second to import, and no run needs it earlier
    from factmill.flows.commands.report import write_build_page

    command = f"factmill report {report.build_id} --to {report.build_id}.html"
    try:
        page, path = write_build_page(Path(report.warehouse), report.build_id)
    except FactmillError as error:
        progress.log_to_current_run(f"no report page of {report.build_id}: {error}; make it: {command}", "warning")
        return
    key = _format_benchmark_as_key_prefix(report)
    create_markdown_artifact(
        markdown=f"{format_page_link(path)}\n\nOn another machine, write it again: `{command}`",
        key=f"{key}-page",
        description=f"Report page of {report.build_id}: funnel, rejects, cost, what its rows are like, where each comes from",
    )
    create_markdown_artifact(
        markdown="\n\n".join(map(format_figure_markdown, page.figures)),
        key=f"{key}-figures",
        description=f"Figures of {report.build_id}: rows and time of each stage, and what its rows are like",
    )


def format_page_link(path: Path) -> str:
    """Return a Markdown link to a page in the folder of reports, by the address at which that is served, else to its file."""
    if base := os.environ.get(REPORTS_URL_VARIABLE, "").rstrip("/"):
        return f"[{path.name}]({base}/{quote(path.name)})"
    return (
        f"[{path}]({path.as_uri()})\n\nBrowsers open no files from this page: copy the address, or serve the folder and name "
        f"its address in `{REPORTS_URL_VARIABLE}`."
    )
