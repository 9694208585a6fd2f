"""`factmill audit`: a sample of a build's rows as a reader sees them, verdicts, and the figures that come of them."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import typer

from flows.commands.explain import trace_row
from tasks.core.measures.audits import (
    AuditFigure,
    AuditKind,
    Verdict,
    describe_figure,
    describe_marks,
    draw_sample,
    measure,
    read_mark,
)
from tasks.engine.benchmark import Benchmark
from tasks.storage.audits import load_verdicts, save_verdicts
from tasks.storage.warehouse import Connection, open_warehouse
from tasks.text.whole import clean


@dataclass(frozen=True)
class Sample:
    """Rows of a build to be audited."""

    build_id: str
    shown: Mapping[str, str]
    """Row id → what a reader sees of it: the row, what belongs to it, and what its facts rest on."""
    verdicts: Mapping[str, Verdict]
    """Those given before, of all rows of the build."""


def draw_rows(warehouse: Path, benchmark: Benchmark, build_id: str, rows: int, seed: int) -> Sample:
    """Return a sample of a build."""
    with open_warehouse(warehouse) as db:
        ids = db.execute(f"SELECT id FROM {benchmark.main_table} WHERE build_id = ?", [build_id]).fetchall()
        drawn = draw_sample((row_id for (row_id,) in ids), rows, seed)
        shown = {row_id: "\n".join(_show_row(db, benchmark, build_id, row_id)) for row_id in drawn}
        return Sample(build_id, shown, load_verdicts(db, build_id))


def _show_row(db: Connection, benchmark: Benchmark, build_id: str, row_id: str) -> Iterator[str]:
    trace = trace_row(db, benchmark, build_id, row_id)
    row = benchmark.row.model_validate(trace["row"])
    yield row_id
    yield from benchmark.explain(row)
    for side in benchmark.beside:
        if found := [benchmark.tables[side.table].model_validate(each) for each in trace["beside"][side.table]]:
            yield from side.explain(found, trace["services"])
    yield from benchmark.audit.evidence(row, trace["calls"])


def take_verdicts(warehouse: Path, benchmark: Benchmark, sample: Sample, reviewer: str) -> int:
    """Ask in the terminal about the rows without a verdict, keep each at once, and return how many were given.

    Ends when all are done, or at `q`; a mark that is none is asked for again.
    """
    todo = [row_id for row_id in sample.shown if row_id not in sample.verdicts]
    for number, row_id in enumerate(todo, 1):
        typer.echo(f"\n[{number} of {len(todo)}] {clean(sample.shown[row_id])}\n")
        marks = {}
        for kind in benchmark.audit.kinds:
            if (mark := _ask(kind)) is None:
                return number - 1
            marks[kind.code] = mark
        with open_warehouse(warehouse) as db:
            save_verdicts(db, sample.build_id, [Verdict(row_id=row_id, marks=marks, reviewer=reviewer)])
    return len(todo)


def _ask(kind: AuditKind) -> int | None:
    while True:
        typer.echo(f"{kind.asks} [{describe_marks(kind)}; q stops] ", nl=False)
        given = sys.stdin.readline()
        if not given or given.strip().lower() == "q":
            return None
        if (mark := read_mark(kind, given)) is not None:
            return mark


def measure_build(warehouse: Path, benchmark: Benchmark, build_id: str) -> list[AuditFigure]:
    """Return the figures of a build's audit."""
    with open_warehouse(warehouse) as db:
        return measure(benchmark.audit, list(load_verdicts(db, build_id).values()))


def format_figures(benchmark: Benchmark, figures: list[AuditFigure]) -> list[str]:
    """Return the figures of a build's audit as lines to read; none where no row has a verdict."""
    if not any(figure.rows for figure in figures):
        return []
    kinds = {kind.code: kind for kind in benchmark.audit.kinds}
    return [f"audit by readers ({benchmark.audit.source}):"] + [
        f"  {describe_figure(kinds[figure.kind], figure)}" for figure in figures
    ]
