"""What a flow run leaves in Prefect's UI: the funnel, sample rows, cost."""

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa
from prefect.artifacts import create_image_artifact, create_markdown_artifact, create_table_artifact

from tasks.assets import asset_path
from tasks.core.evaluation.rows import EvaluationMetric
from tasks.evaluation.record import Evaluation, pick_worst
from tasks.options import BuildReport

SAMPLE_ROWS = 20


def leave_artifacts(report: BuildReport, rows: pa.Table) -> None:
    """Create the artifacts of one build."""
    key = report.benchmark.replace("_", "-")
    create_table_artifact(
        table=[_plain(stage) for stage in report.stages],
        key=f"{key}-funnel",
        description=f"Funnel of {report.build_id}",
    )
    create_table_artifact(
        table=[_plain(row) for row in rows.slice(0, SAMPLE_ROWS).to_pylist()],
        key=f"{key}-sample",
        description=f"First rows of {report.build_id}",
    )
    create_markdown_artifact(
        markdown=describe_cost(report), key=f"{key}-cost", description=f"Cost of {report.build_id}"
    )


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
    create_markdown_artifact(
        markdown=describe_cost(report), key=f"{key}-cost", description=f"Cost of {report.build_id}"
    )


def describe_cost(report: BuildReport) -> str:
    """Return calls, tokens, cost and time of a build as Markdown."""
    note = ""
    if report.author.startswith("rules"):
        note = "\n\nThe author is the rules author of the embedded world, no language model."
    if report.caution:
        note += f"\n\nNote: {report.caution}."
    return (
        f"**{report.build_id}** in world `{report.world}`, author `{report.author}`{note}\n\n"
        f"| calls sent | calls replayed | tokens in | tokens out | US dollars | seconds |\n|---|---|---|---|---|---|\n"
        f"| {report.calls_sent} | {report.calls_replayed} | {report.tokens_in} | {report.tokens_out} | {report.cost_usd:.4f} | {report.seconds:.1f} |"
    )


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value if isinstance(value, str | int | float | bool | None) else str(value) for name, value in row.items()
    }
