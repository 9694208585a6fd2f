"""Answers drawn for people to label, and their labels: what `factmill label` and `judge-card` share."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factmill.flows.evaluate.evaluations import EVALUATIONS
from factmill.flows.labelling.sheet_files import load_filled_sheet_and_digest
from factmill.tasks.core.evaluation.human_labels import (
    ItemToLabel,
    JudgeVerdictLabelScheme,
    ParsedLabelFile,
    draw_stratified_label_items,
    make_label_layout,
    parse_label_csv_rows,
    parse_label_rows,
)
from factmill.tasks.errors import UsageError
from factmill.tasks.evaluation.definition import Evaluation
from factmill.tasks.storage.builds import BuildRecord, load_published_table, resolve_build
from factmill.tasks.storage.human_judgments import load_label_items
from factmill.tasks.storage.warehouse import open_warehouse


@dataclass(frozen=True)
class DrawnAnswersToLabel:
    """Drawn answers of an evaluation."""

    record: BuildRecord
    scheme: JudgeVerdictLabelScheme
    items: Sequence[ItemToLabel]
    judged: int
    """Number of judged answers, drawn or not."""


def list_label_schemes() -> dict[str, JudgeVerdictLabelScheme]:
    """Return benchmark → label scheme, for the benchmarks whose answers a judge marks."""
    return {name: each.label_scheme for name, each in EVALUATIONS.items() if each.label_scheme is not None}


def resolve_judged_evaluation(warehouse: Path, name: str) -> tuple[Evaluation, JudgeVerdictLabelScheme, BuildRecord]:
    """Return the judged evaluation of a build, its label scheme and record; UsageError for any other build."""
    record = resolve_build(warehouse, name)
    evaluation = next((each for each in EVALUATIONS.values() if each.name == record.benchmark), None)
    if evaluation is None or evaluation.label_scheme is None:
        known = ", ".join(EVALUATIONS[each].name for each in list_label_schemes())
        raise UsageError(f"{record.build_id} holds no verdicts of a judge; expected a build of {known}")
    return evaluation, evaluation.label_scheme, record


def load_answers_with_verdicts(warehouse: Path, evaluation: Evaluation, record: BuildRecord) -> list[dict[str, Any]]:
    """Return the answer rows of an evaluation, which include the verdicts."""
    with open_warehouse(warehouse) as db:
        rows: list[dict[str, Any]] = load_published_table(db, record.build_id, evaluation.main_table).to_pylist()
    return rows


def draw_label_items(warehouse: Path, evaluation_id: str, n: int, seed: int, by: Sequence[str]) -> DrawnAnswersToLabel:
    """Draw answers of an evaluation to label."""
    evaluation, scheme, record = resolve_judged_evaluation(warehouse, evaluation_id)
    rows = load_answers_with_verdicts(warehouse, evaluation, record)
    unknown = [column for column in by if rows and column not in rows[0]]
    if unknown:
        raise UsageError(f"--by {unknown[0]}: expected a column of {evaluation.main_table}: {', '.join(rows[0])}")
    items = draw_stratified_label_items(scheme, rows, record.build_id, evaluation.benchmark.name, n, seed, by)
    if not items:
        raise UsageError(f"{record.build_id} has no answer with a verdict: there is nothing to label")
    judged = sum(bool(part.verdict) for row in rows for part in scheme.list_judged_parts(row))
    return DrawnAnswersToLabel(record, scheme, items, judged)


def load_label_file_with_digest(
    warehouse: Path, path: Path, labeller: str, benchmark: str | None = "", form: str = ""
) -> tuple[ParsedLabelFile, str]:
    """Return the content of a label file and its digest; without a named labeller, a CSV's name is used."""
    sheet, digest = load_filled_sheet_and_digest(
        path,
        form,
        make_label_layout(),
        labeller,
        "label EVALUATION",
        lambda _, text, file: parse_label_csv_rows(text, file),
    )
    with open_warehouse(warehouse) as db:
        known = load_label_items(db, [row.get("item") for row in sheet.rows if row.get("item")])
    who, schemes = labeller or path.stem, list_label_schemes()
    return parse_label_rows(sheet.rows, path.name, known, schemes, who, benchmark, sheet.problems), digest
