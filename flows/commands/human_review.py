"""`factmill label`, `review` and `audit`: export answers and rows to people; import labels, decisions, verdicts."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from factmill.flows.benchmarks import get_benchmark
from factmill.flows.cli.options import (
    BenchmarkArgument,
    BuildOption,
    JsonOption,
    NewWarehouseOption,
    WarehouseOption,
    check_warehouse_exists,
    print_result,
    write_text_file,
)
from factmill.flows.commands.explain import trace_row_by_id_prefix
from factmill.flows.evaluate.evaluations import EVALUATIONS
from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.core.evaluation.human_labels import (
    LabelScheme,
    ParsedLabelFile,
    count_drawn_and_all_by_stratum,
    draw_stratified_label_items,
    format_label_csv,
    list_label_item_ids,
    parse_label_csv,
)
from factmill.tasks.core.evaluation.judge_cards import format_rater_agreement
from factmill.tasks.core.measures.agreement import measure_rater_agreement
from factmill.tasks.core.measures.audits import (
    DEFAULT_AUDIT_ROWS,
    AuditCriterionResult,
    AuditVerdict,
    compute_audit_criterion_results,
    draw_audit_sample_ids,
    format_allowed_marks,
    format_audit_criterion_result,
    format_audit_sheet_csv,
    parse_audit_sheet_csv,
    read_audit_mark,
)
from factmill.tasks.core.review import format_review_queue_csv, parse_review_queue_csv
from factmill.tasks.core.rows import MAX_SETTING_NUMBER
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.errors import OutputError, UsageError
from factmill.tasks.evaluation.definition import Evaluation
from factmill.tasks.files import load_file_bytes
from factmill.tasks.options import RunOptions, resolve_warehouse_path
from factmill.tasks.storage.builds import BuildRecord, load_published_table, resolve_build
from factmill.tasks.storage.human_judgments import (
    list_draw_item_ids,
    load_audit_verdicts,
    load_label_items,
    load_labels,
    load_review_queue,
    save_audit_verdicts,
    save_decisions,
    save_label_items,
    save_labels_and_count_changed,
)
from factmill.tasks.storage.warehouse import Connection, open_warehouse
from factmill.tasks.text.sanitize import escape_control_characters


def label(
    evaluation: Annotated[
        str | None,
        typer.Argument(
            help="With --to: id of the evaluation, the start of its id, or latest:NAME_evaluation.",
            metavar="[EVALUATION]",
        ),
    ] = None,
    to: Path | None = typer.Option(
        None, help="Draw a sample of judged answers and write it to this new CSV file.", metavar="FILE"
    ),
    taken_from: Path | None = typer.Option(
        None, "--from", help="Import the labels from a CSV file that --to wrote and people filled in.", metavar="FILE"
    ),
    n: int = typer.Option(100, "--n", min=1, max=MAX_SETTING_NUMBER, help="With --to: number of answers to draw."),
    seed: int = typer.Option(
        0,
        min=-MAX_SETTING_NUMBER,
        max=MAX_SETTING_NUMBER,
        help="With --to: seed for drawing and shuffling the answers.",
    ),
    by: list[str] | None = typer.Option(
        None,
        help="With --to: stratify by this column of the answers (repeatable), in addition to setting and verdict.",
        metavar="COLUMN",
    ),
    labeller: str = typer.Option(
        "",
        help="With --from: name of the person who labelled, if the file has no column labeller. Default: the file's name.",
        metavar="NAME",
    ),
    warehouse: WarehouseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Export answers for people to label, and import the labels.

    --to draws judged answers, equally many of each setting and verdict where possible. The file shows neither the model nor
    the verdict. Fill in the column label, and note if you like. --from imports the valid labels, lists rows whose label is
    missing, invalid or given several times, and shows the agreement of several people. The exit code is 1 if a label is
    invalid.

    \b
    Examples:
      factmill label latest:slaq_evaluation --to labels.csv
      factmill label slaq_evaluation-3f2 --to more.csv --n 300 --seed 1 --by category
      factmill label --from labels.csv --labeller ada && factmill judge-card --judge exact
    """
    _check_export_or_import_options("label", "EVALUATION", evaluation, to, taken_from)
    path = resolve_warehouse_path(RunOptions(warehouse=warehouse))
    if to is not None:
        _export_and_print_label_sheet(path, str(evaluation), to, n, seed, by or [], as_json)
    elif taken_from is not None:
        _import_and_print_labels(path, taken_from, labeller, as_json)


def _check_export_or_import_options(
    command: str, argument: str, name: str | None, to: Path | None, taken_from: Path | None
) -> None:
    """Raise UsageError unless NAME --to FILE or --from FILE is given."""
    if (to is None) == (taken_from is None) or (to is not None) != (name is not None):
        raise UsageError(
            f"expected `factmill {command} {argument} --to FILE` to export, or `factmill {command} --from FILE` to import"
        )


def _export_and_print_label_sheet(
    warehouse: Path, evaluation: str, to: Path, n: int, seed: int, by: Sequence[str], as_json: bool
) -> None:
    """Draw answers into a CSV file and print how many of each stratum."""
    sheet = _draw_and_write_label_sheet(warehouse, evaluation, to, n, seed, by)
    lines = [
        f"{to}: {sheet['items']} of {sheet['judged']} judged answers of {sheet['evaluation_id']}; fill in the column label "
        f"({', '.join(sheet['labels'])}), then run factmill label --from {to} --labeller NAME"
    ]
    lines += [f"  {drawn:5} of {size:6}  {stratum}" for stratum, (drawn, size) in sheet["strata"].items()]
    if left := sheet["judged"] - sum(size for _, size in sheet["strata"].values()):
        lines.append(
            f"  note: {left} answers are in strata from which none was drawn; a larger --n draws from them too"
        )
    if sheet["naming_the_model"]:
        lines.append(f"  note: {sheet['naming_the_model']} answers contain the model's name")
    print_result(as_json, sheet, lines)


def _import_and_print_labels(warehouse: Path, file: Path, labeller: str, as_json: bool) -> None:
    """Store the labels of a CSV file and print problems and agreement; exit code 1 if labels are invalid."""
    # the user's own questions belong to no evaluation
    found, digest = load_label_file_with_digest(warehouse, file, labeller, None)
    benchmarks = {item.draw: item.benchmark for item in found.items.values()}
    with open_warehouse(warehouse) as db:
        changed = save_labels_and_count_changed(db, found.labels, digest)
        drawn = {draw: list_draw_item_ids(db, draw) for draw in benchmarks}
        labels = {draw: load_labels(db, items) for draw, items in drawn.items()}
    unlabelled = sum(len(items) - len(labels[draw]) for draw, items in drawn.items())
    labellers = sorted({label.labeller for label in found.labels})
    schemes, given = list_label_schemes(), dict[str, dict[str, Mapping[str, str]]]()
    for draw, of_draw in labels.items():
        given.setdefault(benchmarks[draw], {}).update(of_draw)
    among = {
        name: measure_rater_agreement(labels_by_item, list(schemes[name].classes))
        for name, labels_by_item in sorted(given.items())
    }
    result = {
        "file": str(file),
        "labels": len(found.labels),
        "changed": changed,
        "unlabelled": unlabelled,
        "labellers": labellers,
        "troubles": [{"kind": trouble.kind, "told": trouble.message} for trouble in found.problems],
        "among_people": {name: each.model_dump() for name, each in among.items()},
    }
    lines = [f"{file}: {len(found.labels)} labels of {', '.join(labellers)} imported"]
    lines[0] += f", {changed} of them changed" if changed else ""
    lines += format_label_problems(found)
    lines += [f"  {unlabelled} drawn answers have no label yet"] if unlabelled else []
    lines += [f"  {name}: {format_rater_agreement(each)}" for name, each in among.items() if each.labellers > 1]
    print_result(as_json, result, lines)
    if found.count_problems().keys() - {"missing", "doubled"}:
        raise typer.Exit(1)


_MAX_PROBLEM_ROWS = 20
"""Maximum number of problem rows that are listed; the rest are counted."""


def list_label_schemes() -> dict[str, LabelScheme]:
    """Return benchmark → label scheme, for the benchmarks whose answers a judge marks."""
    return {name: each.label_scheme for name, each in EVALUATIONS.items() if each.label_scheme is not None}


def resolve_judged_evaluation(warehouse: Path, name: str) -> tuple[Evaluation, LabelScheme, BuildRecord]:
    """Return the judged evaluation of a build, its label scheme and record; UsageError for any other build."""
    record = resolve_build(warehouse, name)
    evaluation = next((each for each in EVALUATIONS.values() if each.name == record.benchmark), None)
    if evaluation is None or evaluation.label_scheme is None:
        known = ", ".join(EVALUATIONS[each].name for each in list_label_schemes())
        raise UsageError(f"{record.build_id} has no verdicts of a judge; expected an evaluation of the kind {known}")
    return evaluation, evaluation.label_scheme, record


def load_judged_answers(warehouse: Path, evaluation: Evaluation, record: BuildRecord) -> list[dict[str, Any]]:
    """Return the answer rows of an evaluation, which include the verdicts."""
    with open_warehouse(warehouse) as db:
        rows: list[dict[str, Any]] = load_published_table(db, record.build_id, evaluation.main_table).to_pylist()
    return rows


def _draw_and_write_label_sheet(
    warehouse: Path, name: str, to: Path, n: int, seed: int, by: Sequence[str]
) -> dict[str, Any]:
    """Draw answers of an evaluation, write them to a CSV for labelling, and return a summary."""
    evaluation, scheme, record = resolve_judged_evaluation(warehouse, name)
    if to.exists():
        raise OutputError(f"{to}: the file exists and may hold labels; give another file, or remove it")
    rows = load_judged_answers(warehouse, evaluation, record)
    unknown = [column for column in by if rows and column not in rows[0]]
    if unknown:
        raise UsageError(f"--by {unknown[0]}: expected a column of {evaluation.main_table}: {', '.join(rows[0])}")
    items = draw_stratified_label_items(scheme, rows, record.build_id, evaluation.benchmark.name, n, seed, by)
    if not items:
        raise UsageError(f"{record.build_id} has no answer with a verdict, so there is nothing to label")
    write_text_file(format_label_csv(scheme, items), to)
    with open_warehouse(warehouse) as db:
        save_label_items(db, items)
    model = str(record.lock["author"])
    judged = sum(bool(part.verdict) for row in rows for part in scheme.list_judged_parts(row))
    return {
        "file": str(to),
        "evaluation_id": record.build_id,
        "items": len(items),
        "judged": judged,
        "strata": {stratum: list(counts) for stratum, counts in count_drawn_and_all_by_stratum(items).items()},
        "labels": dict(scheme.classes),
        "naming_the_model": sum(model.casefold() in item.answer.casefold() for item in items),
    }


def load_sheet_text_and_digest(path: Path, export: str = "label EVALUATION") -> tuple[str, str]:
    """Return a file's text and the SHA-256 of its bytes; UTF-8, with or without a BOM, or a spreadsheet's UTF-16.

    `export`: the command that writes such a file. UsageError if the file cannot be read.
    """
    try:
        data = load_file_bytes(path)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file; to write one: factmill {export} --to {path}") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"), digest_bytes(data)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text: {error}; save it as CSV in UTF-8") from error


def load_label_file_with_digest(
    warehouse: Path, path: Path, labeller: str, benchmark: str | None = ""
) -> tuple[ParsedLabelFile, str]:
    """Return the content of a label file and its digest; without a named labeller, the file's name is used."""
    text, digest = load_sheet_text_and_digest(path)
    ids = list_label_item_ids(text, path.name)
    with open_warehouse(warehouse) as db:
        known = load_label_items(db, ids)
    return parse_label_csv(text, path.name, known, list_label_schemes(), labeller or path.stem, benchmark), digest


def format_label_problems(file: ParsedLabelFile) -> list[str]:
    """Return the problems of a label file, row by row; rows without a label share one line."""
    missing = [trouble for trouble in file.problems if trouble.kind == "missing"]
    others = [trouble for trouble in file.problems if trouble.kind != "missing"]
    rows = [trouble.message.partition(":")[0].removeprefix("row ") for trouble in missing]
    more = f" and {len(rows) - _MAX_PROBLEM_ROWS} more" if len(rows) > _MAX_PROBLEM_ROWS else ""
    lines = [f"  {trouble.kind}: {trouble.message}" for trouble in others[:_MAX_PROBLEM_ROWS]]
    lines += [f"  … and {len(others) - _MAX_PROBLEM_ROWS} more"] if len(others) > _MAX_PROBLEM_ROWS else []
    lines += [f"  missing: {len(rows)} rows have no label: {', '.join(rows[:_MAX_PROBLEM_ROWS])}{more}"] if rows else []
    return lines


def review(
    build_name: Annotated[
        str | None,
        typer.Argument(help="With --to: id of the build, the start of its id, or latest:BENCHMARK.", metavar="[BUILD]"),
    ] = None,
    to: Path | None = typer.Option(None, help="Write the build's review queue to this CSV file.", metavar="FILE"),
    taken_from: Path | None = typer.Option(
        None,
        "--from",
        help="Import the decisions from a CSV file that --to wrote and a reviewer filled in.",
        metavar="FILE",
    ),
    warehouse: NewWarehouseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Export flagged rows for people to decide on, and import them.

    Fill in the columns decision (keep, drop, edit), edited, reviewer and note. The next build of the benchmark applies the
    imported decisions.

    \b
    Examples:
      factmill review latest:slaq --to queue.csv
      factmill review --from queue.csv && factmill build slaq --review manual
    """
    _check_export_or_import_options("review", "BUILD", build_name, to, taken_from)
    path = resolve_warehouse_path(RunOptions(warehouse=warehouse))
    if to is not None:
        check_warehouse_exists(warehouse)
        _export_review_queue_csv(path, str(build_name), to, as_json)
    elif taken_from is not None:
        _import_review_decisions(path, taken_from, as_json)


def _export_review_queue_csv(warehouse: Path, build_name: str, to: Path, as_json: bool) -> None:
    """Write a build's review queue to a CSV file and print how many items it has."""
    items = load_review_queue(warehouse, resolve_build(warehouse, build_name))
    write_text_file(format_review_queue_csv(items), to)
    undecided = sum(item.decision == "open" for item in items)
    result = {"file": str(to), "items": len(items), "open": undecided}
    print_result(as_json, result, [f"{to}: {len(items)} items, {undecided} of them open"])


def _import_review_decisions(warehouse: Path, file: Path, as_json: bool) -> None:
    """Store the decisions of a CSV file and print how many."""
    text, _ = load_sheet_text_and_digest(file, "review BUILD")
    items = parse_review_queue_csv(text, file.name)
    taken = save_decisions(warehouse, items)
    result = {"file": str(file), "items": len(items), "decisions": taken}
    print_result(as_json, result, [f"{file}: {taken} decisions imported, {len(items) - taken} items still open"])


def audit(
    benchmark: BenchmarkArgument,
    build_name: BuildOption = None,
    rows: int = typer.Option(
        DEFAULT_AUDIT_ROWS,
        min=1,
        max=MAX_SETTING_NUMBER,
        help="Number of rows in the sample; a larger sample contains the smaller one.",
    ),
    seed: int = typer.Option(0, min=-MAX_SETTING_NUMBER, max=MAX_SETTING_NUMBER, help="Seed for drawing the sample."),
    to: Path | None = typer.Option(None, help="Write the sample to this CSV file, to be filled in.", metavar="FILE"),
    taken_from: Path | None = typer.Option(
        None,
        "--from",
        help="Import a CSV file that was filled in; set `reviewer` in each row that was checked.",
        metavar="FILE",
    ),
    reviewer: str = typer.Option("", help="Name of the person who gives verdicts in the terminal.", metavar="NAME"),
    warehouse: WarehouseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a random sample of rows against their evidence.

    Give a verdict for each kind of fault, as the paper's authors did: row by row in the terminal, or in a CSV file. The
    command prints the share of each kind of fault with its confidence interval, and the paper's share.

    \b
    Examples:
      factmill audit granola --reviewer ada
      factmill audit slaq --to slaq.csv && factmill audit slaq --from slaq.csv
    """
    known, path = get_benchmark(benchmark), resolve_warehouse_path(RunOptions(warehouse=warehouse))
    build_id = resolve_build(path, build_name or f"latest:{benchmark}").build_id
    summary = ""
    if taken_from:
        text, _ = load_sheet_text_and_digest(taken_from, f"audit {benchmark}")
        verdicts = parse_audit_sheet_csv(known.audit, build_id, text, taken_from.name)
        with open_warehouse(path) as db:
            save_audit_verdicts(db, build_id, verdicts)
        summary = f"{taken_from}: {len(verdicts)} verdicts imported"
    else:
        sample = draw_audit_sample(path, known, build_id, rows, seed)
        if to:
            write_text_file(format_audit_sheet_csv(known.audit, build_id, sample.shown, sample.verdicts), to)
            summary = f"{to}: {len(sample.shown)} rows of {build_id}; fill it in, then run factmill audit {benchmark} --from {to}"
        elif sys.stdin.isatty() and not as_json:
            summary = f"{ask_and_save_audit_verdicts(path, known, sample, reviewer)} verdicts given"
    figures = measure_audit(path, known, build_id)
    nothing = f"no row of {build_id} has a verdict yet; run this in a terminal to give some, or: factmill audit {benchmark} --to FILE.csv"
    lines = [*([summary] if summary else []), *(format_audit_figures(known, figures) or ([] if to else [nothing]))]
    print_result(as_json, {"build_id": build_id, "figures": [figure.model_dump() for figure in figures]}, lines)


@dataclass(frozen=True)
class AuditSample:
    """Sample of a build's rows for an audit."""

    build_id: str
    shown: Mapping[str, str]
    """Row id → text for the reader: the row, its companion rows, and the evidence of its facts."""
    verdicts: Mapping[str, AuditVerdict]
    """Row id → earlier verdict, for all rows of the build."""


def draw_audit_sample(warehouse: Path, benchmark: Benchmark, build_id: str, rows: int, seed: int) -> AuditSample:
    """Return a seeded sample of a build's rows."""
    with open_warehouse(warehouse) as db:
        ids = db.execute(f"SELECT id FROM {benchmark.main_table} WHERE build_id = ?", [build_id]).fetchall()
        drawn = draw_audit_sample_ids((row_id for (row_id,) in ids), rows, seed)
        shown = {row_id: "\n".join(_format_row_evidence(db, benchmark, build_id, row_id)) for row_id in drawn}
        return AuditSample(build_id, shown, load_audit_verdicts(db, build_id))


def _format_row_evidence(db: Connection, benchmark: Benchmark, build_id: str, row_id: str) -> Iterator[str]:
    trace = trace_row_by_id_prefix(db, benchmark, build_id, row_id)
    row = benchmark.main_row_model.model_validate(trace["row"])
    yield row_id
    yield from benchmark.explain(row)
    for side in benchmark.companion_tables:
        if found := [benchmark.tables[side.table].model_validate(each) for each in trace["beside"][side.table]]:
            yield from side.explain(found, trace["services"])
    yield from benchmark.audit.list_evidence(row, trace["calls"])


def ask_and_save_audit_verdicts(warehouse: Path, benchmark: Benchmark, sample: AuditSample, reviewer: str) -> int:
    """Ask in the terminal for verdicts on rows without one, store each at once, and return their number.

    Ends when all rows are done, or at `q`; an invalid mark is asked for again.
    """
    todo = [row_id for row_id in sample.shown if row_id not in sample.verdicts]
    for number, row_id in enumerate(todo, 1):
        typer.echo(f"\n[{number} of {len(todo)}] {escape_control_characters(sample.shown[row_id])}\n")
        marks: dict[str, int] = {}
        for kind in benchmark.audit.criteria:
            while kind.code not in marks:
                typer.echo(f"{kind.instruction} [{format_allowed_marks(kind)}; q stops] ", nl=False)
                given = sys.stdin.readline()
                if not given or given.strip().lower() == "q":
                    return number - 1
                if (mark := read_audit_mark(kind, given)) is not None:
                    marks[kind.code] = mark
        with open_warehouse(warehouse) as db:
            save_audit_verdicts(db, sample.build_id, [AuditVerdict(row_id=row_id, marks=marks, reviewer=reviewer)])
    return len(todo)


def measure_audit(warehouse: Path, benchmark: Benchmark, build_id: str) -> list[AuditCriterionResult]:
    """Compute the figures of a build's audit."""
    with open_warehouse(warehouse) as db:
        return compute_audit_criterion_results(benchmark.audit, list(load_audit_verdicts(db, build_id).values()))


def format_audit_figures(benchmark: Benchmark, figures: list[AuditCriterionResult]) -> list[str]:
    """Return the figures of a build's audit as lines of text; empty if no row has a verdict."""
    if not any(figure.rows for figure in figures):
        return []
    kinds = {kind.code: kind for kind in benchmark.audit.criteria}
    return [f"audit by readers ({benchmark.audit.paper_section}):"] + [
        f"  {format_audit_criterion_result(kinds[figure.kind], figure)}" for figure in figures
    ]
