"""What `factmill evaluate` writes and prints of an evaluation."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.core.evaluation.rows import EvaluationMetric
from tasks.core.rows import rows_from_arrow
from tasks.errors import OutputError
from tasks.evaluation.record import METRICS, Evaluation, EvaluationParams
from tasks.options import BuildReport, RunOptions, warehouse_of
from tasks.storage.builds import find_build, published_table
from tasks.storage.warehouse import open_warehouse

_LOW_COVERAGE = 0.95
"""Share of scored items under which the first line says so."""


def read_metrics(warehouse: Path, evaluation_id: str) -> list[EvaluationMetric]:
    """Return the metrics of an evaluation, by id."""
    with open_warehouse(warehouse) as db:
        rows = published_table(db, evaluation_id, METRICS).to_pylist()
    return [EvaluationMetric.model_validate(row) for row in rows]


def describe_evaluation(evaluation: Evaluation, report: BuildReport, written: Sequence[Path]) -> dict[str, Any]:
    """Return an evaluation as the one object that --json ends with."""
    facts = report.facts
    return {
        "evaluation_id": report.build_id,
        "benchmark": evaluation.of.name,
        "model": facts["model"],
        "judge": facts["judge"],
        "build_id": facts["measured"],
        "items": facts["items"],
        "unscored": facts["unscored"],
        "calls_sent": report.calls_sent,
        "calls_replayed": report.calls_replayed,
        "cost_usd": report.cost_usd,
        "seconds": report.seconds,
        "up_to_date": report.up_to_date,
        "answers": {name.removeprefix("answers "): told for name, told in facts.items() if name.startswith("answers ")},
        "notes": [*facts.get("notes", ()), *report.notes],
        "reports": [str(path) for path in written],
        "metrics": [metric.model_dump() for metric in read_metrics(Path(report.warehouse), report.build_id)],
    }


def format_evaluation(evaluation: Evaluation, report: BuildReport, written: Sequence[Path]) -> list[str]:
    """Return an evaluation as lines to read: what was measured, the headline metrics, what is to be known of them."""
    told = describe_evaluation(evaluation, report, written)
    metrics = [EvaluationMetric.model_validate(each) for each in told["metrics"]]
    overall = [metric for metric in metrics if not metric.group_by]
    low = min((metric.coverage for metric in overall if metric.coverage is not None), default=1.0)
    judged = f", judged by {told['judge']}" if told["judge"] else ""
    lines = [f"{told['evaluation_id']}: {told['model']} on {told['build_id']}{judged}"]
    if low < _LOW_COVERAGE:
        lines.append(f"  NOTE: only {low:.1%} of what was asked has a score; mind the bounds")
    order = {name: at for at, name in enumerate(evaluation.headline)}
    shown = sorted(
        (each for each in overall if each.metric in order), key=lambda each: (each.setting, order[each.metric])
    )
    lines += [f"  {metric.setting:22} {metric.metric:26} {describe_value(metric)}" for metric in shown]
    lines += [f"  {kind} in the file of answers: {what}" for kind, what in told["answers"].items()]
    lines.append(
        f"  calls: {report.calls_sent} sent, {report.calls_replayed} replayed; US$ {report.cost_usd:.4f}; {report.seconds:.1f} s"
        + ("; evaluated before from the same inputs" if report.up_to_date else "")
    )
    lines += [f"  note: {note}" for note in told["notes"]]
    if report.unsettled:
        lines.append(
            f"  note: {report.unsettled} answers were lost to passing failures; the same command tries them again"
        )
    lines += [f"  report: {path}" for path in written if path.suffix == ".html"]
    return lines


def describe_value(metric: EvaluationMetric) -> str:
    """Return a metric with its interval, its n and what lacks a score, as one piece of a line."""
    if metric.value is None:
        return f"no value: {metric.note}"
    interval = f" [{metric.ci_low:.3f}, {metric.ci_high:.3f}]" if metric.ci_low is not None else ""
    bounds = f", {metric.n_unscored} unscored" if metric.n_unscored else ""
    if bounds and metric.bound_low is not None:
        bounds += f": {metric.bound_low:.3f} to {metric.bound_high:.3f}"
    return f"{metric.value:.3f}{interval} (n = {metric.n}{bounds})"


def write_questions(evaluation: Evaluation, params: EvaluationParams, run: RunOptions, to: Path) -> str:
    """Write every question with its messages as JSON Lines, and return what was written as a line to read."""
    inputs: Any = evaluation.lock_inputs(params.model_copy(update={"model": "silent"}), run).inputs
    warehouse = warehouse_of(run)
    record = find_build(warehouse, inputs.params.build)
    with open_warehouse(warehouse) as db:
        rows = evaluation.gather_rows(lambda name: published_table(db, record.build_id, name))
    settings = getattr(params, "setting", ()) or evaluation.usual
    lines = [
        _describe_question(asked, evaluation.fill(asked, inputs.params).messages())
        for asked in rows_from_arrow(
            evaluation.asked, evaluation.list_questions(rows, inputs.model_copy(update={"settings": tuple(settings)}))
        )
    ]
    try:
        to.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines), "utf-8", newline="")
    except OSError as error:
        raise OutputError(f"{to}: cannot be written: {error.strerror}") from error
    name = evaluation.of.name
    return (
        f"{to}: {len(lines)} questions of {record.build_id}; answer them as "
        f'{{"id": …, "setting": …, "answer": …}} a line, then factmill evaluate {name} --answers FILE'
    )


def _describe_question(asked: Any, messages: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    return {"id": asked.question_id, "setting": asked.setting, "question": asked.question, "messages": list(messages)}
