"""Audits: human checks of a sample of rows, as in the papers, and their figures.

A reader marks each row of a seeded sample for each kind of fault, or quality, that the paper checked. The sample depends
on the ids and the seed alone, and a larger sample contains the smaller.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from factmill.tasks.core.digests import digest_json
from factmill.tasks.core.measures.counts_and_bins import divide_rounded
from factmill.tasks.core.measures.intervals import bootstrap_cluster_mean_interval, compute_wilson_interval
from factmill.tasks.core.rows import StrictModel
from factmill.tasks.core.sheets.sheet import FilledSheetRow, Sheet, SheetLayout, SheetQuestion
from factmill.tasks.errors import SourceError

DEFAULT_AUDIT_ROWS = 60
"""Rows that an audit draws; the papers checked 50 to 124."""


@dataclass(frozen=True, slots=True)
class AuditCriterion:
    """One criterion that a reader checks."""

    code: str
    instruction: str
    """Instruction to the reader, one line."""
    scale: Literal["faults", "score"] = "faults"
    """faults: number of wrong parts of a row; score: a mark, higher is better."""
    maximum: int = 1
    """Number of parts that can be wrong, or the best mark."""
    paper_value: float | None = None
    """The paper's share of faulty parts, or mean mark; None if it gives none."""


@dataclass(frozen=True, slots=True)
class AuditProtocol:
    """How people check rows of a benchmark."""

    criteria: tuple[AuditCriterion, ...]
    paper_section: str
    """Place in the paper that describes its own check."""
    list_evidence: Callable[[Any, Sequence[Mapping[str, Any]]], Iterable[str]] = lambda _row, _calls: ()
    """A row (its model) and the recorded calls that it depends on → lines with the evidence for its facts."""


class AuditMarksOfRow(StrictModel):
    """A reader's marks of a row."""

    row_id: str
    marks: dict[str, int]
    """Kind → faulty parts, or mark."""
    reviewer: str = ""
    note: str = ""


class AuditCriterionResult(StrictModel):
    """One figure of an audit."""

    kind: str
    here: float | None
    """Share of faulty parts, or mean mark; null if no row has a verdict."""
    low: float | None
    high: float | None
    """95 % interval: Wilson's if a row has one part, else a bootstrap over rows."""
    rows: int
    paper: float | None


def draw_audit_sample_ids(ids: Iterable[str], sample_size: int, seed: int) -> list[str]:
    """Return the ids of a sample, in drawing order."""
    return sorted(ids, key=lambda each: digest_json([seed, each]))[:sample_size]


def compute_audit_criterion_results(
    audit: AuditProtocol, verdicts: Sequence[AuditMarksOfRow]
) -> list[AuditCriterionResult]:
    """Return one figure per kind, in order."""
    figures = []
    for kind in audit.criteria:
        marks = [verdict.marks[kind.code] for verdict in verdicts]
        low = high = None
        parts = kind.maximum if kind.scale == "faults" else 1
        if marks and kind.scale == "faults" and kind.maximum == 1:
            low, high = compute_wilson_interval(sum(marks), len(marks))
        elif marks:
            low, high = bootstrap_cluster_mean_interval(marks, [parts] * len(marks))
        here = divide_rounded(sum(marks), parts * len(marks), 4)
        figures.append(
            AuditCriterionResult(kind=kind.code, here=here, low=low, high=high, rows=len(marks), paper=kind.paper_value)
        )
    return figures


def format_audit_figure_beside_paper(criterion: AuditCriterion, result: AuditCriterionResult) -> str:
    """Format a figure and the paper's as one line."""
    if result.here is None:
        return f"{criterion.code}: no verdicts"
    form = ".1%" if criterion.scale == "faults" else ".2f"
    here, low, high = (format(value or 0, form) for value in (result.here, result.low, result.high))
    paper = "the paper reports none" if result.paper is None else f"paper {result.paper:{form}}"
    return f"{criterion.code}: {here} ({low} to {high}; {result.rows} rows; {paper})"


def read_audit_mark(criterion: AuditCriterion, written_mark: str) -> int | None:
    """Read a mark as a person typed it; None if invalid. For faults, an empty text is 0 and x is 1."""
    text = written_mark.strip().lower()
    if criterion.scale == "faults" and text in ("", "x"):
        return int(text == "x")
    least = 0 if criterion.scale == "faults" or criterion.maximum == 1 else 1
    return int(text) if text.isdecimal() and least <= int(text) <= criterion.maximum else None


def make_audit_layout(audit: AuditProtocol) -> SheetLayout:
    """Return the layout of an audit's sheet."""
    questions = []
    for kind in audit.criteria:
        ends = {"1": "worst", str(kind.maximum): "best"} if kind.scale == "score" else {"0": "none"}
        marks = range(0 if kind.scale == "faults" else 1, kind.maximum + 1)
        choices = (
            {"0": "no", "1": "yes"} if kind.maximum == 1 else {str(mark): ends.get(str(mark), "") for mark in marks}
        )
        questions.append(SheetQuestion(kind.code, kind.instruction, choices))
    return SheetLayout(
        columns=("build", "row_id", "shown", *(kind.code for kind in audit.criteria), "reviewer", "note"),
        key="row_id",
        who="reviewer",
        shown=("shown",),
        questions=(*questions, SheetQuestion("note", "Note")),
        instruction="Check the row against its evidence, and mark each kind of fault or quality.",
    )


def make_audit_sheet(
    audit: AuditProtocol, build_id: str, text_by_row_id: Mapping[str, str], verdicts: Mapping[str, AuditMarksOfRow]
) -> Sheet:
    """Return the sample as a sheet with existing verdicts; `shown`: row id → text for the reader."""
    layout = make_audit_layout(audit)
    lines = []
    for row_id, text in text_by_row_id.items():
        known = verdicts.get(row_id)
        marks = {code: str(mark) for code, mark in known.marks.items()} if known else {}
        verdict = {"reviewer": known.reviewer, "note": known.note} if known else {}
        named = {"build": build_id, "row_id": row_id, "shown": text}
        lines.append({**dict.fromkeys(layout.columns, ""), **named, **marks, **verdict})
    return Sheet(layout, lines)


def parse_audit_rows(
    audit: AuditProtocol, build_id: str, rows: Iterable[FilledSheetRow], file: str
) -> list[AuditMarksOfRow]:
    """Parse the rows of a filled-in sheet, without unchecked ones; SourceError names file, place and what is wrong."""
    verdicts: dict[str, AuditMarksOfRow] = {}
    for row in rows:
        cells = row.cells
        if cells["build"] != build_id:
            raise SourceError(
                f"{file}, {row.place}: the row belongs to build {cells['build']!r}; expected {build_id!r}"
            )
        if not any(row.get(name) for name in (*(kind.code for kind in audit.criteria), "reviewer", "note")):
            continue
        marks = {}
        for kind in audit.criteria:
            mark = read_audit_mark(kind, cells[kind.code])
            if mark is None:
                raise SourceError(
                    f"{file}, {row.place}: {kind.code} is {cells[kind.code]!r}; expected {format_allowed_marks(kind)}"
                )
            marks[kind.code] = mark
        if cells["row_id"] in verdicts:
            raise SourceError(f"{file}, {row.place}: the row {cells['row_id']} appears twice")
        verdicts[cells["row_id"]] = AuditMarksOfRow(
            row_id=cells["row_id"], marks=marks, reviewer=row.get("reviewer"), note=row.get("note")
        )
    return list(verdicts.values())


def format_allowed_marks(criterion: AuditCriterion) -> str:
    """Format the allowed marks of a kind as text."""
    if criterion.scale == "score":
        return f"a mark from {0 if criterion.maximum == 1 else 1} to {criterion.maximum}"
    if criterion.maximum == 1:
        return "x for a fault, an empty cell for none"
    return f"the number of faults, 0 to {criterion.maximum}"
