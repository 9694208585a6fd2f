"""Audits: human checks of a sample of rows, as in the papers, and their figures.

A reader marks each row of a seeded sample for each kind of fault, or quality, that the paper checked. The sample depends
on the ids and the seed alone, and a larger sample contains the smaller.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from factmill.tasks.core.fingerprints import digest_json
from factmill.tasks.core.measures.bins import divide
from factmill.tasks.core.measures.intervals import bootstrap, wilson
from factmill.tasks.core.review import read_table, write_table
from factmill.tasks.core.rows import StrictModel
from factmill.tasks.errors import SourceError

PAPER_ROWS = 60
"""Rows that an audit draws; the papers checked 50 to 124."""


@dataclass(frozen=True, slots=True)
class AuditKind:
    """One criterion that a reader checks."""

    code: str
    asks: str
    """Instruction to the reader, one line."""
    scale: Literal["faults", "score"] = "faults"
    """faults: number of wrong parts of a row; score: a mark, higher is better."""
    most: int = 1
    """Number of parts that can be wrong, or the best mark."""
    paper: float | None = None
    """The paper's share of faulty parts, or mean mark; None if it gives none."""


@dataclass(frozen=True, slots=True)
class Audit:
    """How people check rows of a benchmark."""

    kinds: tuple[AuditKind, ...]
    source: str
    """Place in the paper that describes its own check."""
    evidence: Callable[[Any, Sequence[Mapping[str, Any]]], Iterable[str]] = lambda _row, _calls: ()
    """A row (its model) and the recorded calls that it depends on → lines with the evidence for its facts."""


class Verdict(StrictModel):
    """A reader's marks of a row."""

    row_id: str
    marks: dict[str, int]
    """Kind → faulty parts, or mark."""
    reviewer: str = ""
    note: str = ""


class AuditFigure(StrictModel):
    """One figure of an audit."""

    kind: str
    here: float | None
    """Share of faulty parts, or mean mark; null if no row has a verdict."""
    low: float | None
    high: float | None
    """95 % interval: Wilson's if a row has one part, else a bootstrap over rows."""
    rows: int
    paper: float | None


def draw_sample(ids: Iterable[str], rows: int, seed: int) -> list[str]:
    """Return the ids of a sample, in drawing order."""
    return sorted(ids, key=lambda each: digest_json([seed, each]))[:rows]


def measure(audit: Audit, verdicts: Sequence[Verdict]) -> list[AuditFigure]:
    """Return one figure per kind, in order."""
    figures = []
    for kind in audit.kinds:
        marks = [verdict.marks[kind.code] for verdict in verdicts]
        low = high = None
        parts = kind.most if kind.scale == "faults" else 1
        if marks and kind.scale == "faults" and kind.most == 1:
            low, high = wilson(sum(marks), len(marks))
        elif marks:
            low, high = bootstrap(marks, [parts] * len(marks))
        here = divide(sum(marks), parts * len(marks), 4)
        figures.append(AuditFigure(kind=kind.code, here=here, low=low, high=high, rows=len(marks), paper=kind.paper))
    return figures


def describe_figure(kind: AuditKind, figure: AuditFigure) -> str:
    """Format a figure and the paper's as one line."""
    if figure.here is None:
        return f"{kind.code}: no verdicts"
    tell = _tell_share if kind.scale == "faults" else _tell_mark
    paper = "the paper gives none" if figure.paper is None else f"paper {tell(figure.paper)}"
    return f"{kind.code}: {tell(figure.here)} ({tell(figure.low or 0)} to {tell(figure.high or 0)}; {figure.rows} rows; {paper})"


def read_mark(kind: AuditKind, given: str) -> int | None:
    """Read a mark as a person typed it; None if invalid. For faults, an empty text is 0 and x is 1."""
    text = given.strip().lower()
    if kind.scale == "faults" and text in ("", "x"):
        return int(text == "x")
    least = 0 if kind.scale == "faults" or kind.most == 1 else 1
    return int(text) if text.isdecimal() and least <= int(text) <= kind.most else None


def write_sheet(audit: Audit, build_id: str, shown: Mapping[str, str], verdicts: Mapping[str, Verdict]) -> str:
    """Format the sample as CSV, one row per line, with existing verdicts; `shown`: row id → text for the reader."""
    columns = ["build", "row_id", "shown", *(kind.code for kind in audit.kinds), "reviewer", "note"]
    lines = []
    for row_id, text in shown.items():
        known = verdicts.get(row_id)
        marks = {code: str(mark) for code, mark in known.marks.items()} if known else {}
        told = {"reviewer": known.reviewer, "note": known.note} if known else {}
        lines.append(
            {**dict.fromkeys(columns, ""), "build": build_id, "row_id": row_id, "shown": text, **marks, **told}
        )
    return write_table(columns, lines)


def read_sheet(audit: Audit, build_id: str, text: str, file: str) -> list[Verdict]:
    """Parse a filled-in sheet; rows without mark, reviewer and note are skipped as unchecked.

    SourceError names file, line and what was expected.
    """
    columns = ["build", "row_id", "shown", *(kind.code for kind in audit.kinds), "reviewer", "note"]
    verdicts: dict[str, Verdict] = {}
    for line, cells in read_table(text, columns, file):
        if cells["build"] != build_id:
            raise SourceError(f"{file}, line {line}: the row is of build {cells['build']!r}, expected {build_id!r}")
        if not any(cells[name].strip() for name in columns[3:]):
            continue
        marks = {}
        for kind in audit.kinds:
            mark = read_mark(kind, cells[kind.code])
            if mark is None:
                raise SourceError(
                    f"{file}, line {line}: {kind.code} is {cells[kind.code]!r}; expected {describe_marks(kind)}"
                )
            marks[kind.code] = mark
        if cells["row_id"] in verdicts:
            raise SourceError(f"{file}, line {line}: the row {cells['row_id']} stands there twice")
        verdicts[cells["row_id"]] = Verdict(
            row_id=cells["row_id"], marks=marks, reviewer=cells["reviewer"].strip(), note=cells["note"].strip()
        )
    return list(verdicts.values())


def describe_marks(kind: AuditKind) -> str:
    """Format the allowed marks of a kind as text."""
    if kind.scale == "score":
        return f"a mark from {0 if kind.most == 1 else 1} to {kind.most}"
    return "x for a fault, nothing for none" if kind.most == 1 else f"the number of faults, 0 to {kind.most}"


def _tell_share(share: float) -> str:
    return f"{share:.1%}"


def _tell_mark(mark: float) -> str:
    return f"{mark:.2f}"
