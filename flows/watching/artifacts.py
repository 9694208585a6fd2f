"""What a flow run leaves in Prefect's UI: the funnel, sample rows, cost, and where to look at what was made."""

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa
from prefect.artifacts import create_image_artifact, create_markdown_artifact, create_table_artifact

from tasks import progress
from tasks.assets import asset_path
from tasks.core.evaluation.rows import EvaluationMetric
from tasks.core.receipts import describe_reasons
from tasks.engine.benchmark import Benchmark
from tasks.evaluation.record import Evaluation, pick_worst
from tasks.options import BuildReport
from tasks.settings import home

SAMPLE_ROWS = 20


def leave_artifacts(benchmark: Benchmark, report: BuildReport, rows: pa.Table) -> None:
    """Create the artifacts of one build, and tell its end in the run's log."""
    key = report.benchmark.replace("_", "-")
    create_table_artifact(table=list_funnel(report), key=f"{key}-funnel", description=f"Funnel of {report.build_id}")
    create_table_artifact(
        table=list_sample(benchmark, rows),
        key=f"{key}-sample",
        description=f"First rows of {report.build_id}",
    )
    _leave_cost(report, f"factmill show {report.benchmark} --build {report.build_id}")


def list_funnel(report: BuildReport) -> list[dict[str, Any]]:
    """Return what each stage did, as a table whose columns stand in the order in which they are read."""
    return [
        {
            "stage": stage["stage"],
            "rows in": stage["rows_in"],
            "rows out": stage["rows_out"],
            "rejected": stage["rejects"],
            "reasons": describe_reasons(report.reasons.get(stage["stage"], {})),
            "merged": stage["merged"],
            "calls sent": stage["calls_sent"],
            "replayed": stage["calls_replayed"],
            "US dollars": round(stage["cost_usd"], 4),
            "seconds": round(stage["seconds"], 1),
        }
        for stage in report.stages
    ]


def list_sample(benchmark: Benchmark, rows: pa.Table) -> list[dict[str, Any]]:
    """Return the first rows as a table: what `show` prints comes first, then the other columns, ids last."""
    first = [name for name in benchmark.shown if name in rows.column_names and name != "id"]
    others = [name for name in rows.column_names if name not in first and name != "id"]
    return [_plain(row) for row in rows.slice(0, SAMPLE_ROWS).select([*first, *others, "id"]).to_pylist()]


def leave_evaluation(
    report: BuildReport, evaluation: Evaluation, answers: pa.Table, metrics: Sequence[EvaluationMetric]
) -> None:
    """Create the artifacts of one evaluation: its metrics over all items, figures, the worst answers, cost."""
    # what draws is imported by evaluations alone
    from tasks.reports.drawing import draw_picture, tell_legend

    style = asset_path("data/reports", "style.css").read_text("utf-8")
    key = report.benchmark.replace("_", "-")
    create_table_artifact(
        table=[metric.model_dump() for metric in metrics if not metric.group_by],
        key=f"{key}-metrics",
        description=f"{report.author} on {report.facts['measured']}: metrics of {report.build_id}",
    )
    for figure in evaluation.figures(metrics):
        picture = b64encode(draw_picture(figure, style).encode()).decode()
        create_image_artifact(
            image_url=f"data:image/svg+xml;base64,{picture}",
            key=re.sub(r"[^a-z0-9]+", "-", f"{key}-{figure.name}".lower()).strip("-"),
            description=f"{figure.title}. {tell_legend(figure)}. {figure.note}",
        )
    create_table_artifact(
        table=[_plain(asdict(item)) for item in pick_worst(evaluation.items(answers))[:SAMPLE_ROWS]],
        key=f"{key}-worst",
        description=f"Worst answers of {report.build_id}; all of them: factmill report {report.build_id} --to FILE.html",
    )
    _leave_cost(report, f"report page {home() / 'reports' / report.build_id}.html")


def _leave_cost(report: BuildReport, look: str) -> None:
    """Leave what a build cost and where to look at it; `look`: its page, or the command that shows it."""
    create_markdown_artifact(
        markdown=describe_cost(report, look),
        key=f"{report.benchmark.replace('_', '-')}-cost",
        description=f"Cost of {report.build_id}",
    )
    for note in list_notes(report):
        progress.log(f"note: {note}", "warning")
    progress.log(
        f"done: {report.build_id}, {report.rows:,} rows, {report.rejects:,} rejected, {report.merged:,} merged, "
        f"US$ {report.cost_usd:.4f}, in {report.warehouse}; look at it: {look}"
    )


def list_notes(report: BuildReport) -> list[str]:
    """Return what should be known of a build beside its counts."""
    notes = list(report.notes)
    notes += [report.caution] if report.caution else []
    notes += [report.nothing_published] if report.nothing_published else []
    if report.unsettled:
        notes.append(f"{report.unsettled} rows were lost to passing failures; the same run tries them again")
    return notes


def describe_cost(report: BuildReport, look: str) -> str:
    """Return calls, tokens, cost and time of a build as Markdown; `look`: where to look at it."""
    note = ""
    if report.author.startswith("rules"):
        note = "\n\nThe author is the rules author of the embedded world, no language model."
    note += "".join(f"\n\nNote: {each}." for each in list_notes(report))
    return (
        f"**{report.build_id}** in world `{report.world}`, author `{report.author}`{note}\n\nLook at it: `{look}`\n\n"
        f"| calls sent | calls replayed | tokens in | tokens out | US dollars | seconds |\n|---|---|---|---|---|---|\n"
        f"| {report.calls_sent} | {report.calls_replayed} | {report.tokens_in} | {report.tokens_out} | {report.cost_usd:.4f} | {report.seconds:.1f} |"
    )


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _tell(value) for name, value in row.items()}


def _tell(value: Any) -> Any:
    """Return a value as a cell of a table: a list of texts as these, everything nested as JSON."""
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return " | ".join(value)
    return json.dumps(value, ensure_ascii=False, default=str)
