"""`factmill label`, `review` and `audit`: export answers and rows to people; import labels, decisions, verdicts."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from factmill.flows.benchmarks import find_benchmark
from factmill.flows.cli.options import (
    AsJson,
    BenchmarkName,
    BuildName,
    NewWarehouse,
    OneBuild,
    Warehouse,
    print_result,
    write_file,
)
from factmill.flows.commands.explain import trace_row
from factmill.flows.evaluate.evaluations import EVALUATIONS
from factmill.tasks.core.evaluation.judge_cards import tell_among
from factmill.tasks.core.evaluation.labels import (
    LabelFile,
    LabelScheme,
    count_strata,
    draw_items,
    name_items,
    read_labels,
    write_labels,
)
from factmill.tasks.core.fingerprints import digest_bytes
from factmill.tasks.core.measures.agreement import compare_people
from factmill.tasks.core.measures.audits import (
    PAPER_ROWS,
    AuditFigure,
    Verdict,
    describe_figure,
    describe_marks,
    draw_sample,
    measure,
    read_mark,
    read_sheet,
    write_sheet,
)
from factmill.tasks.core.review import read_queue, write_queue
from factmill.tasks.core.rows import MOST
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.errors import OutputError, UsageError
from factmill.tasks.evaluation.record import Evaluation
from factmill.tasks.files import read_regular
from factmill.tasks.options import RunOptions, warehouse_of
from factmill.tasks.storage.builds import BuildRecord, find_build, published_table
from factmill.tasks.storage.reviews import (
    find_draw,
    find_items,
    load_labels,
    load_verdicts,
    read_queue_of,
    save_decisions,
    save_items,
    save_labels,
    save_verdicts,
)
from factmill.tasks.storage.warehouse import Connection, open_warehouse
from factmill.tasks.text.whole import clean

label_app = typer.Typer(help="Answers for people to label, by which judges are checked.", no_args_is_help=True)


@label_app.command("export")
def export_answers(
    evaluation: str = typer.Argument(
        ..., help="An evaluation: its id, the beginning of one, or latest:NAME_evaluation.", metavar="EVAL"
    ),
    to: Path = typer.Option(..., help="CSV file to write; one that is there is never overwritten.", metavar="FILE"),
    n: int = typer.Option(100, "--n", min=1, max=MOST, help="Answers to draw."),
    seed: int = typer.Option(0, min=-MOST, max=MOST, help="Draws and shuffles otherwise."),
    by: list[str] | None = typer.Option(
        None,
        help="Stratify by this column of the answers too (repeatable), beside setting and verdict.",
        metavar="COLUMN",
    ),
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """Draw judged answers for people to label, as many of each setting and verdict as there are or as fit. The file says
    neither whose answers they are nor what the judge said. Fill in the column label (and note, if you like).

    \b
    Examples:
      factmill label export latest:slaq_evaluation --to labels.csv
      factmill label export slaq_evaluation-3f2 --to more.csv --n 300 --seed 1 --by category
    """
    told = _export_labels(warehouse_of(RunOptions(warehouse=warehouse)), evaluation, to, n, seed, by or [])
    lines = [
        f"{to}: {told['items']} of {told['judged']} judged answers of {told['evaluation_id']}; fill in label "
        f"({', '.join(told['labels'])}), then factmill label import {to} --labeller NAME"
    ]
    lines += [f"  {drawn:5} of {size:6}  {stratum}" for stratum, (drawn, size) in told["strata"].items()]
    if left := told["judged"] - sum(size for _, size in told["strata"].values()):
        lines.append(f"  note: none was drawn of {left} answers, which are in other strata; with a larger --n they are")
    if told["naming_the_model"]:
        lines.append(f"  note: {told['naming_the_model']} answers hold the model's name themselves")
    print_result(as_json, told, lines)


@label_app.command("import")
def import_answers(
    file: Path = typer.Argument(..., help="CSV file that `label export` wrote and somebody filled in.", metavar="FILE"),
    labeller: str = typer.Option(
        "", help="Who labelled, where the file has no column labeller. Default: the file's name.", metavar="NAME"
    ),
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """Take labels in, and tell rows without a label, with one that is none, and with several; of several people, how far
    they agree. What can be used is; exit code 1 where something could not.

    \b
    Examples:
      factmill label import labels.csv --labeller ada
      factmill label import labels.csv && factmill judge-card --judge exact
    """
    path = warehouse_of(RunOptions(warehouse=warehouse))
    # the user's own questions belong to no evaluation
    found, digest = read_label_file(path, file, labeller, None)
    benchmarks = {item.draw: item.benchmark for item in found.items.values()}
    with open_warehouse(path) as db:
        changed = save_labels(db, found.labels, digest)
        drawn = {draw: find_draw(db, draw) for draw in benchmarks}
        labels = {draw: load_labels(db, items) for draw, items in drawn.items()}
    unlabelled = sum(len(items) - len(labels[draw]) for draw, items in drawn.items())
    labellers = sorted({label.labeller for label in found.labels})
    schemes, given = list_schemes(), dict[str, dict[str, Mapping[str, str]]]()
    for draw, of_draw in labels.items():
        given.setdefault(benchmarks[draw], {}).update(of_draw)
    among = {name: compare_people(said, list(schemes[name].classes)) for name, said in sorted(given.items())}
    told = {
        "file": str(file),
        "labels": len(found.labels),
        "changed": changed,
        "unlabelled": unlabelled,
        "labellers": labellers,
        "troubles": [{"kind": trouble.kind, "told": trouble.told} for trouble in found.troubles],
        "among_people": {name: each.model_dump() for name, each in among.items()},
    }
    lines = [f"{file}: {len(found.labels)} labels of {', '.join(labellers)} taken in"]
    lines[0] += f", {changed} of them changed" if changed else ""
    lines += format_troubles(found)
    lines += [f"  {unlabelled} drawn items have no label yet"] if unlabelled else []
    lines += [f"  {name}: {tell_among(each)}" for name, each in among.items() if each.labellers > 1]
    print_result(as_json, told, lines)
    if found.count_troubles().keys() - {"missing", "doubled"}:
        raise typer.Exit(1)


_MOST_NAMED = 20
"""Maximum number of problem rows that are listed; the rest are counted."""


def list_schemes() -> dict[str, LabelScheme]:
    """Return benchmark → label scheme, for the benchmarks whose answers a judge marks."""
    return {name: each.labels for name, each in EVALUATIONS.items() if each.labels is not None}


def find_judged(warehouse: Path, name: str) -> tuple[Evaluation, LabelScheme, BuildRecord]:
    """Return the judged evaluation of a build, its label scheme and record; UsageError for any other build."""
    record = find_build(warehouse, name)
    evaluation = next((each for each in EVALUATIONS.values() if each.name == record.benchmark), None)
    if evaluation is None or evaluation.labels is None:
        known = ", ".join(EVALUATIONS[each].name for each in list_schemes())
        raise UsageError(f"{record.build_id} holds no verdicts of a judge; expected a build of {known}")
    return evaluation, evaluation.labels, record


def read_rows(warehouse: Path, evaluation: Evaluation, record: BuildRecord) -> list[dict[str, Any]]:
    """Return the answer rows of an evaluation, which include the verdicts."""
    with open_warehouse(warehouse) as db:
        rows: list[dict[str, Any]] = published_table(db, record.build_id, evaluation.main_table).to_pylist()
    return rows


def _export_labels(warehouse: Path, name: str, to: Path, n: int, seed: int, by: Sequence[str]) -> dict[str, Any]:
    """Draw answers of an evaluation, write them to a CSV for labelling, and return a summary."""
    evaluation, scheme, record = find_judged(warehouse, name)
    if to.exists():
        raise OutputError(f"{to}: is there already and may hold labels; name another file, or remove it")
    rows = read_rows(warehouse, evaluation, record)
    unknown = [column for column in by if rows and column not in rows[0]]
    if unknown:
        raise UsageError(f"--by {unknown[0]}: expected a column of {evaluation.main_table}: {', '.join(rows[0])}")
    items = draw_items(scheme, rows, record.build_id, evaluation.of.name, n, seed, by)
    if not items:
        raise UsageError(f"{record.build_id} has no answer with a verdict: there is nothing to label")
    write_file(write_labels(scheme, items), to)
    with open_warehouse(warehouse) as db:
        save_items(db, items)
    model = str(record.lock["author"])
    judged = sum(bool(part.verdict) for row in rows for part in scheme.of(row))
    return {
        "file": str(to),
        "evaluation_id": record.build_id,
        "items": len(items),
        "judged": judged,
        "strata": {stratum: list(counts) for stratum, counts in count_strata(items).items()},
        "labels": dict(scheme.classes),
        "naming_the_model": sum(model.casefold() in item.answer.casefold() for item in items),
    }


def read_file(path: Path, export: str = "label export EVAL") -> tuple[str, str]:
    """Return a file's text and the SHA-256 of its bytes; UTF-8, with or without a BOM, or a spreadsheet's UTF-16.

    `export`: the command that writes such a file. UsageError if the file cannot be read.
    """
    try:
        data = read_regular(path)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file; factmill {export} --to {path} writes one") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"), digest_bytes(data)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text: {error}; save it as CSV in UTF-8") from error


def read_label_file(warehouse: Path, path: Path, labeller: str, benchmark: str | None = "") -> tuple[LabelFile, str]:
    """Return the content of a label file and its digest; without a named labeller, the file's name is used."""
    text, digest = read_file(path)
    ids = name_items(text, path.name)
    with open_warehouse(warehouse) as db:
        known = find_items(db, ids)
    return read_labels(text, path.name, known, list_schemes(), labeller or path.stem, benchmark), digest


def format_troubles(file: LabelFile) -> list[str]:
    """Return the problems of a label file, row by row; rows without a label share one line."""
    missing = [trouble for trouble in file.troubles if trouble.kind == "missing"]
    others = [trouble for trouble in file.troubles if trouble.kind != "missing"]
    rows = [trouble.told.partition(":")[0].removeprefix("row ") for trouble in missing]
    more = f" and {len(rows) - _MOST_NAMED} more" if len(rows) > _MOST_NAMED else ""
    lines = [f"  {trouble.kind}: {trouble.told}" for trouble in others[:_MOST_NAMED]]
    lines += [f"  … and {len(others) - _MOST_NAMED} more"] if len(others) > _MOST_NAMED else []
    lines += [f"  missing: no label in {len(rows)} of the rows: {', '.join(rows[:_MOST_NAMED])}{more}"] if rows else []
    return lines


review_app = typer.Typer(help="Rows that checks flagged, for people to decide on.", no_args_is_help=True)


@review_app.command("export")
def export_queue(
    build_name: BuildName,
    to: Path = typer.Option(..., help="CSV file to write.", metavar="FILE"),
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """Write a build's review queue as CSV. Fill in decision (keep, drop, edit), edited, reviewer and note.

    Example: factmill review export latest:slaq --to queue.csv
    """
    path = warehouse_of(RunOptions(warehouse=warehouse))
    items = read_queue_of(path, find_build(path, build_name))
    write_file(write_queue(items), to)
    undecided = sum(item.decision == "open" for item in items)
    told = {"file": str(to), "items": len(items), "open": undecided}
    print_result(as_json, told, [f"{to}: {len(items)} items, {undecided} of them open"])


@review_app.command("import")
def import_decisions(
    file: Path = typer.Argument(..., help="CSV file that `review export` wrote and a reviewer filled in."),
    warehouse: NewWarehouse = None,
    as_json: AsJson = False,
) -> None:
    """Take in reviewers' decisions; the next build of the benchmark carries them in its lock.

    Example: factmill review import queue.csv && factmill build slaq --review manual
    """
    text, _ = read_file(file, "review export BUILD")
    items = read_queue(text, file.name)
    taken = save_decisions(warehouse_of(RunOptions(warehouse=warehouse)), items)
    told = {"file": str(file), "items": len(items), "decisions": taken}
    print_result(as_json, told, [f"{file}: {taken} decisions taken in, {len(items) - taken} items are still open"])


def audit(
    benchmark: BenchmarkName,
    build_name: OneBuild = None,
    rows: int = typer.Option(
        PAPER_ROWS, min=1, max=MOST, help="Rows of the sample; a larger one contains the smaller."
    ),
    seed: int = typer.Option(0, min=-MOST, max=MOST, help="Draws another sample."),
    to: Path | None = typer.Option(None, help="Write the sample as CSV, to be filled in.", metavar="FILE"),
    taken_from: Path | None = typer.Option(
        None, "--from", help="Take in a CSV that was filled in (`reviewer` in each row looked at).", metavar="FILE"
    ),
    reviewer: str = typer.Option("", help="Who gives verdicts in the terminal.", metavar="NAME"),
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """Check rows by reading, as the paper's authors did: a seeded sample with its evidence, verdicts by kind of fault,
    shares with intervals beside the paper's. In a terminal it asks row by row; a CSV does as well.

    \b
    Examples:
      factmill audit granola --reviewer ada
      factmill audit slaq --to slaq.csv && factmill audit slaq --from slaq.csv
    """
    known, path = find_benchmark(benchmark), warehouse_of(RunOptions(warehouse=warehouse))
    build_id = find_build(path, build_name or f"latest:{benchmark}").build_id
    told = ""
    if taken_from:
        text, _ = read_file(taken_from, f"audit {benchmark}")
        verdicts = read_sheet(known.audit, build_id, text, taken_from.name)
        with open_warehouse(path) as db:
            save_verdicts(db, build_id, verdicts)
        told = f"{taken_from}: {len(verdicts)} verdicts taken in"
    else:
        sample = draw_rows(path, known, build_id, rows, seed)
        if to:
            write_file(write_sheet(known.audit, build_id, sample.shown, sample.verdicts), to)
            told = (
                f"{to}: {len(sample.shown)} rows of {build_id}; fill it in, then factmill audit {benchmark} --from {to}"
            )
        elif sys.stdin.isatty() and not as_json:
            told = f"{take_verdicts(path, known, sample, reviewer)} verdicts given"
    figures = measure_build(path, known, build_id)
    nothing = f"no row of {build_id} has a verdict yet; ask in a terminal, or: factmill audit {benchmark} --to FILE.csv"
    lines = [*([told] if told else []), *(format_figures(known, figures) or ([] if to else [nothing]))]
    print_result(as_json, {"build_id": build_id, "figures": [figure.model_dump() for figure in figures]}, lines)


@dataclass(frozen=True)
class Sample:
    """Sample of a build's rows for an audit."""

    build_id: str
    shown: Mapping[str, str]
    """Row id → text for the reader: the row, its companion rows, and the evidence of its facts."""
    verdicts: Mapping[str, Verdict]
    """Row id → earlier verdict, for all rows of the build."""


def draw_rows(warehouse: Path, benchmark: Benchmark, build_id: str, rows: int, seed: int) -> Sample:
    """Return a seeded sample of a build's rows."""
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
    """Ask in the terminal for verdicts on rows without one, store each at once, and return their number.

    Ends when all rows are done, or at `q`; an invalid mark is asked for again.
    """
    todo = [row_id for row_id in sample.shown if row_id not in sample.verdicts]
    for number, row_id in enumerate(todo, 1):
        typer.echo(f"\n[{number} of {len(todo)}] {clean(sample.shown[row_id])}\n")
        marks: dict[str, int] = {}
        for kind in benchmark.audit.kinds:
            while kind.code not in marks:
                typer.echo(f"{kind.asks} [{describe_marks(kind)}; q stops] ", nl=False)
                given = sys.stdin.readline()
                if not given or given.strip().lower() == "q":
                    return number - 1
                if (mark := read_mark(kind, given)) is not None:
                    marks[kind.code] = mark
        with open_warehouse(warehouse) as db:
            save_verdicts(db, sample.build_id, [Verdict(row_id=row_id, marks=marks, reviewer=reviewer)])
    return len(todo)


def measure_build(warehouse: Path, benchmark: Benchmark, build_id: str) -> list[AuditFigure]:
    """Compute the figures of a build's audit."""
    with open_warehouse(warehouse) as db:
        return measure(benchmark.audit, list(load_verdicts(db, build_id).values()))


def format_figures(benchmark: Benchmark, figures: list[AuditFigure]) -> list[str]:
    """Return the figures of a build's audit as lines of text; empty if no row has a verdict."""
    if not any(figure.rows for figure in figures):
        return []
    kinds = {kind.code: kind for kind in benchmark.audit.kinds}
    return [f"audit by readers ({benchmark.audit.source}):"] + [
        f"  {describe_figure(kinds[figure.kind], figure)}" for figure in figures
    ]
