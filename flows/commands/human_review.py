"""`factmill label`, `review` and `audit`: give answers and rows to people; take in labels, decisions, verdicts."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
    resolve_benchmark_and_build_name,
)
from factmill.flows.commands.provenance import trace_row_by_id_prefix
from factmill.flows.labelling.label_draws import (
    DrawnAnswersToLabel,
    draw_label_items,
    list_label_schemes,
    load_label_file_with_digest,
)
from factmill.flows.labelling.page_server import PortOption, ServeOption, collect_decisions_on_page
from factmill.flows.labelling.sheet_files import (
    FormOption,
    format_labelling_tool_setup_note,
    format_sheet_problems,
    load_filled_sheet_and_digest,
    write_sheet_files,
)
from factmill.tasks.core.evaluation.human_labels import (
    ParsedLabelFile,
    count_drawn_and_all_by_stratum,
    make_label_sheet,
    parse_label_rows,
)
from factmill.tasks.core.evaluation.judge_cards import format_rater_agreement
from factmill.tasks.core.measures.agreement import measure_rater_agreement
from factmill.tasks.core.measures.audits import (
    DEFAULT_AUDIT_ROWS,
    AuditCriterionResult,
    AuditMarksOfRow,
    compute_audit_criterion_results,
    draw_audit_sample_ids,
    format_allowed_marks,
    format_audit_figure_beside_paper,
    make_audit_layout,
    make_audit_sheet,
    parse_audit_rows,
    read_audit_mark,
)
from factmill.tasks.core.review import REVIEW_LAYOUT, make_review_sheet, parse_review_queue_csv, parse_review_row
from factmill.tasks.core.rows import MAX_SETTING_NUMBER
from factmill.tasks.core.sheets.forms import parse_sheet_csv
from factmill.tasks.core.sheets.sheet import (
    HARMLESS_PROBLEMS,
    FilledSheetRow,
    ParsedSheet,
    Sheet,
    SheetLayout,
    SheetProblem,
)
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.errors import OutputError, UsageError
from factmill.tasks.options import RunOptions, resolve_warehouse_path
from factmill.tasks.reports.builds.tracing import validate_traced_row
from factmill.tasks.storage.builds import resolve_build
from factmill.tasks.storage.human_judgments import (
    list_label_draw_item_ids,
    load_audit_verdicts_by_row_id,
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
            help="Evaluation to label (with --to or --serve): its id, the start of its id, or latest:NAME_evaluation.",
            metavar="[EVALUATION]",
        ),
    ] = None,
    to: Path | None = typer.Option(
        None, help="Draw a sample of judged answers and write it to this new file.", metavar="FILE"
    ),
    taken_from: Path | None = typer.Option(
        None, "--from", help="Import the labels from a file that --to wrote and people filled in.", metavar="FILE"
    ),
    serve: ServeOption = False,
    form: FormOption = "",
    n: int = typer.Option(
        100, "--n", min=1, max=MAX_SETTING_NUMBER, help="With --to or --serve: number of answers to draw."
    ),
    seed: int = typer.Option(
        0,
        min=-MAX_SETTING_NUMBER,
        max=MAX_SETTING_NUMBER,
        help="With --to or --serve: seed for drawing and shuffling the answers.",
    ),
    by: list[str] | None = typer.Option(
        None,
        help="With --to or --serve: stratify the sample by this column of the answers too (repeatable).",
        metavar="COLUMN",
    ),
    labeller: str = typer.Option(
        "",
        help="Name of the person who labels. Required with --serve, and with --from if a JSON file names no labeller. Default for a CSV: the file's name.",
        metavar="NAME",
    ),
    port: PortOption = 0,
    warehouse: WarehouseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Export answers for people to label, and import their labels.

    --to draws a sample of judged answers, in equal numbers from each setting and verdict if possible. The file shows
    neither the model nor the verdict. Fill in the column `label` (`note` is optional), or label in Label Studio
    or Argilla (--form). --from imports the valid labels and shows how far several people agree. It lists rows
    whose label is missing, invalid or contradictory; the exit code is 1 if some labels are invalid. --serve draws the
    sample and takes the labels on one page.

    \b
    Examples:
      factmill label latest:slaq_evaluation --to labels.csv
      factmill label slaq_evaluation-3f2 --to more.csv --n 300 --seed 1 --by category
      factmill label --from labels.csv --labeller ada && factmill judge-card --judge exact
      factmill label latest:slaq_evaluation --serve --n 60 --labeller ada
      factmill label latest:slaq_evaluation --to tasks.json --form label-studio
    """
    _check_export_or_import_options("label", "EVALUATION", evaluation, to, taken_from, serve)
    path = resolve_warehouse_path(RunOptions(warehouse=warehouse))
    if taken_from is not None:
        # the user's own questions belong to no evaluation
        found, digest = load_label_file_with_digest(path, taken_from, labeller, None, form)
        _save_labels_and_print_rater_agreement(path, str(taken_from), found, digest, as_json)
        return
    drawn = draw_label_items(path, str(evaluation), n, seed, by or [])
    sheet, build_id = make_label_sheet(drawn.scheme, drawn.items), drawn.record.build_id
    if to is not None:
        _export_record_and_print_label_sheet(path, drawn, sheet, to, form, as_json)
        return
    with open_warehouse(path) as db:
        save_label_items(db, drawn.items)
    title = f"{_get_short_title(drawn.items[0].benchmark)}: answers to label"
    made = collect_decisions_on_page(sheet, f"label-{build_id}", title, labeller, port)
    if not made.rows:
        line = f"no row was decided; {made.open} rows are open"
        print_result(as_json, {"labels": 0, "open": made.open}, [line])
        return
    items = {item.id: item for item in drawn.items}
    found = parse_label_rows(made.rows, "the page", items, list_label_schemes(), labeller, None)
    _save_labels_and_print_rater_agreement(path, str(made.journal), found, made.digest, as_json)


def _check_export_or_import_options(
    command: str, argument: str, name: str | None, to: Path | None, taken_from: Path | None, serve: bool
) -> None:
    """Raise UsageError unless NAME --to FILE, NAME --serve or --from FILE is given."""
    if [to is None, taken_from is None, not serve].count(False) != 1 or (taken_from is None) != (name is not None):
        raise UsageError(
            f"expected factmill {command} {argument} --to FILE to export, factmill {command} {argument} --serve to decide on a page, or "
            f"factmill {command} --from FILE to import"
        )


def _export_record_and_print_label_sheet(
    warehouse: Path, drawn: DrawnAnswersToLabel, sheet: Sheet, to: Path, form: str, as_json: bool
) -> None:
    if to.exists():
        raise OutputError(f"{to}: the file exists and may hold labels; name another file, or remove this one")
    files = write_sheet_files(sheet, to, form)
    with open_warehouse(warehouse) as db:
        save_label_items(db, drawn.items)
    model = str(drawn.record.lock["author"])
    result: dict[str, Any] = {
        "file": str(to),
        "files": [str(file) for file in files],
        "evaluation_id": drawn.record.build_id,
        "items": len(drawn.items),
        "judged": drawn.judged,
        "strata": {stratum: list(counts) for stratum, counts in count_drawn_and_all_by_stratum(drawn.items).items()},
        "labels": dict(drawn.scheme.classes),
        "naming_the_model": sum(model.casefold() in item.answer.casefold() for item in drawn.items),
    }
    lines = [
        f"{to}: {result['items']} of {result['judged']} judged answers of {result['evaluation_id']}; fill in the column label "
        f"({', '.join(result['labels'])}), then run factmill label --from {to} --labeller NAME"
    ]
    lines += format_labelling_tool_setup_note(files)
    lines += [f"  {count:5} of {size:6}  {stratum}" for stratum, (count, size) in result["strata"].items()]
    if left := result["judged"] - sum(size for _, size in result["strata"].values()):
        lines.append(f"  note: {left} answers are in strata from which none was drawn; increase --n to include them")
    if result["naming_the_model"]:
        lines.append(f"  note: {result['naming_the_model']} answers contain the model's name")
    print_result(as_json, result, lines)


def _save_labels_and_print_rater_agreement(
    warehouse: Path, file: str, found: ParsedLabelFile, digest: str, as_json: bool
) -> None:
    """Store labels and print problems and agreement; exit code 1 if labels are invalid."""
    benchmarks = {item.draw: item.benchmark for item in found.items.values()}
    with open_warehouse(warehouse) as db:
        changed = save_labels_and_count_changed(db, found.labels, digest)
        drawn = {draw: list_label_draw_item_ids(db, draw) for draw in benchmarks}
        labels = {draw: load_labels(db, items) for draw, items in drawn.items()}
    unlabelled = sum(len(items) - len(labels[draw]) for draw, items in drawn.items())
    labellers = sorted({label.labeller for label in found.labels})
    schemes, given = list_label_schemes(), dict[str, dict[str, Mapping[str, str]]]()
    for draw, of_draw in labels.items():
        given.setdefault(benchmarks[draw], {}).update(of_draw)
    among = {name: measure_rater_agreement(said, list(schemes[name].classes)) for name, said in sorted(given.items())}
    result = {
        "file": file,
        "labels": len(found.labels),
        "changed": changed,
        "unlabelled": unlabelled,
        "labellers": labellers,
        "troubles": [{"kind": trouble.kind, "told": trouble.message} for trouble in found.problems],
        "among_people": {name: each.model_dump() for name, each in among.items()},
    }
    lines = [f"{file}: {len(found.labels)} labels by {', '.join(labellers)} imported"]
    lines[0] += f", {changed} of them changed" if changed else ""
    lines += format_sheet_problems(found.problems)
    lines += [f"  {unlabelled} drawn answers have no label yet"] if unlabelled else []
    lines += [f"  {name}: {format_rater_agreement(each)}" for name, each in among.items() if each.labellers > 1]
    print_result(as_json, result, lines)
    _exit_if_sheet_has_harmful_problems(found.problems)


def _exit_if_sheet_has_harmful_problems(problems: Sequence[SheetProblem]) -> None:
    if {problem.kind for problem in problems} - HARMLESS_PROBLEMS:
        raise typer.Exit(1)


def review(
    build_name: Annotated[
        str | None,
        typer.Argument(
            help="Build to review (with --to or --serve): its id, the start of its id, or latest:BENCHMARK.",
            metavar="[BUILD]",
        ),
    ] = None,
    to: Path | None = typer.Option(None, help="Write the build's review queue to this file.", metavar="FILE"),
    taken_from: Path | None = typer.Option(
        None,
        "--from",
        help="Import the decisions from a file that --to wrote and a reviewer filled in.",
        metavar="FILE",
    ),
    serve: ServeOption = False,
    form: FormOption = "",
    reviewer: str = typer.Option(
        "",
        help="Name of the person who decides. Required with --serve, and with --from if the file names no person.",
        metavar="NAME",
    ),
    port: PortOption = 0,
    warehouse: NewWarehouseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Export flagged rows for people to decide on; import decisions.

    In a CSV file, fill in the columns decision (keep, drop or edit), edited (the new text), reviewer and note. You
    can also decide in Label Studio or Argilla (--form), or on a page (--serve). The next build of the benchmark
    applies the decisions and records them in its manifest.

    \b
    Examples:
      factmill review latest:slaq --to queue.csv
      factmill review --from queue.csv && factmill build slaq --review manual
      factmill review latest:slaq --serve --reviewer ada
    """
    _check_export_or_import_options("review", "BUILD", build_name, to, taken_from, serve)
    path = resolve_warehouse_path(RunOptions(warehouse=warehouse))
    if taken_from is not None:
        filled, _ = load_filled_sheet_and_digest(
            taken_from, form, REVIEW_LAYOUT, reviewer, "review BUILD", _parse_review_queue_rows
        )
        items = [parse_review_row(row, taken_from.name) for row in filled.rows]
        taken, count = save_decisions(path, items), len(items) + len(filled.problems)
        shown = {"file": str(taken_from), "items": count, "decisions": taken, **_make_sheet_problems_json(filled)}
        line = f"{taken_from}: {taken} decisions imported, {count - taken} items are still open"
        print_result(as_json, shown, [line, *format_sheet_problems(filled.problems, taken_from.name)])
        _exit_if_sheet_has_harmful_problems(filled.problems)
        return
    check_warehouse_exists(warehouse)
    build = resolve_build(path, str(build_name))
    sheet = make_review_sheet(load_review_queue(path, build))
    if to is not None:
        undecided = sum(not row["decision"] for row in sheet.rows)
        result = {"file": str(to), "items": len(sheet.rows), "open": undecided}
        files = write_sheet_files(sheet, to, form)
        lines = [f"{to}: {len(sheet.rows)} items, {undecided} of them open", *format_labelling_tool_setup_note(files)]
        print_result(as_json, result, lines)
        return
    check = partial(parse_review_row, file="the page")
    title = f"{_get_short_title(build.benchmark)}: flagged rows to decide on"
    made = collect_decisions_on_page(sheet, f"review-{build.build_id}", title, reviewer, port, check)
    taken = save_decisions(path, [parse_review_row(row, "the page") for row in made.rows])
    result = {"file": str(made.journal), "decisions": taken, "open": made.open}
    print_result(as_json, result, [f"{made.journal}: {taken} decisions imported, {made.open} items are still open"])


def _get_short_title(benchmark: str) -> str:
    return get_benchmark(benchmark).title.partition(":")[0]


def _parse_review_queue_rows(layout: SheetLayout, text: str, file: str) -> list[FilledSheetRow]:
    parse_review_queue_csv(text, file)  # refuses an item that is there twice
    return parse_sheet_csv(layout, text, file)


def _make_sheet_problems_json(sheet: ParsedSheet) -> dict[str, list[dict[str, str]]]:
    return {"troubles": [{"kind": problem.kind, "told": problem.message} for problem in sheet.problems]}


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
    to: Path | None = typer.Option(
        None, help="Write the sample to this file, for a reviewer to fill in.", metavar="FILE"
    ),
    taken_from: Path | None = typer.Option(
        None,
        "--from",
        help="Import the verdicts from a file that a reviewer filled in. In a CSV, each checked row needs a name in the column reviewer.",
        metavar="FILE",
    ),
    serve: ServeOption = False,
    form: FormOption = "",
    reviewer: str = typer.Option(
        "",
        help="Name of the person who gives verdicts. Required in the terminal, with --serve, and with --from if the file names no person.",
        metavar="NAME",
    ),
    port: PortOption = 0,
    warehouse: WarehouseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a random sample of rows against their evidence.

    You mark the kinds of fault that each row has, as the paper's authors did. Do this in the terminal, on a page
    (--serve), in a CSV file (--to), or in Label Studio or Argilla (--form). The command then prints the share of rows
    with each kind of fault, its confidence interval, and the share in the paper.

    \b
    Examples:
      factmill audit granola --reviewer ada
      factmill audit slaq --to slaq.csv && factmill audit slaq --from slaq.csv
      factmill audit slaq --serve --reviewer ada
    """
    if [to is None, taken_from is None, not serve].count(False) > 1:
        raise UsageError(
            f"expected one of --to FILE, --from FILE and --serve: `factmill audit {benchmark} --serve --reviewer NAME`"
        )
    benchmark, build_name = resolve_benchmark_and_build_name(benchmark, build_name)
    known, path = get_benchmark(benchmark), resolve_warehouse_path(RunOptions(warehouse=warehouse))
    build_id = resolve_build(path, build_name or f"latest:{benchmark}").build_id
    results, parsed = list[str](), ParsedSheet()
    if taken_from:
        layout = make_audit_layout(known.audit)
        parsed, _ = load_filled_sheet_and_digest(taken_from, form, layout, reviewer, f"audit {benchmark}")
        results = [_save_audit_verdicts_and_format_count(path, known, build_id, parsed.rows, str(taken_from))]
        results += format_sheet_problems(parsed.problems, taken_from.name)
    else:
        sample = load_audit_sample(path, known, build_id, rows, seed)
        sheet = make_audit_sheet(known.audit, build_id, sample.shown, sample.verdicts)
        if to:
            results = [
                f"{to}: {len(sample.shown)} rows of {build_id}; fill it in, then run factmill audit {benchmark} --from {to}",
                *format_labelling_tool_setup_note(write_sheet_files(sheet, to, form)),
            ]
        elif serve:
            title = f"{_get_short_title(known.name)}: rows to audit"
            made = collect_decisions_on_page(sheet, f"audit-{build_id}", title, reviewer, port)
            results = [_save_audit_verdicts_and_format_count(path, known, build_id, made.rows, str(made.journal))]
        elif sys.stdin.isatty() and not as_json:
            results = [f"{ask_and_save_audit_verdicts(path, known, sample, reviewer)} verdicts given"]
    figures = compute_build_audit_results(path, known, build_id)
    nothing = f"no row of {build_id} has a verdict yet; run this command in a terminal, or: `factmill audit {benchmark} --to FILE.csv`"
    lines = [*results, *(format_audit_results(known, figures) or ([] if to else [nothing]))]
    shown = {
        "build_id": build_id,
        "figures": [figure.model_dump() for figure in figures],
        **_make_sheet_problems_json(parsed),
    }
    print_result(as_json, shown, lines)
    _exit_if_sheet_has_harmful_problems(parsed.problems)


def _save_audit_verdicts_and_format_count(
    warehouse: Path, benchmark: Benchmark, build_id: str, rows: Sequence[FilledSheetRow], file: str
) -> str:
    verdicts = parse_audit_rows(benchmark.audit, build_id, rows, Path(file).name)
    with open_warehouse(warehouse) as db:
        save_audit_verdicts(db, build_id, verdicts)
    return f"{file}: {len(verdicts)} verdicts imported"


@dataclass(frozen=True)
class AuditSample:
    """Sample of a build's rows for an audit."""

    build_id: str
    shown: Mapping[str, str]
    """Row id → text for the reader: the row, its companion rows, and the evidence of its facts."""
    verdicts: Mapping[str, AuditMarksOfRow]
    """Row id → earlier verdict, for all rows of the build."""


def load_audit_sample(warehouse: Path, benchmark: Benchmark, build_id: str, rows: int, seed: int) -> AuditSample:
    """Return a seeded sample of a build's rows."""
    with open_warehouse(warehouse) as db:
        ids = db.execute(f"SELECT id FROM {benchmark.main_table} WHERE build_id = ?", [build_id]).fetchall()
        drawn = draw_audit_sample_ids((row_id for (row_id,) in ids), rows, seed)
        shown = {row_id: "\n".join(_format_row_evidence(db, benchmark, build_id, row_id)) for row_id in drawn}
        return AuditSample(build_id, shown, load_audit_verdicts_by_row_id(db, build_id))


def _format_row_evidence(db: Connection, benchmark: Benchmark, build_id: str, row_id: str) -> Iterator[str]:
    trace = trace_row_by_id_prefix(db, benchmark, build_id, row_id)
    row = validate_traced_row(benchmark.main_row_model, trace["row"], build_id)
    yield row_id
    yield from benchmark.explain(row)
    for side in benchmark.companion_tables:
        model = benchmark.tables[side.table]
        if found := [validate_traced_row(model, each, build_id) for each in trace["beside"][side.table]]:
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
            save_audit_verdicts(db, sample.build_id, [AuditMarksOfRow(row_id=row_id, marks=marks, reviewer=reviewer)])
    return len(todo)


def compute_build_audit_results(warehouse: Path, benchmark: Benchmark, build_id: str) -> list[AuditCriterionResult]:
    """Compute the figures of a build's audit."""
    with open_warehouse(warehouse) as db:
        return compute_audit_criterion_results(
            benchmark.audit, list(load_audit_verdicts_by_row_id(db, build_id).values())
        )


def format_audit_results(benchmark: Benchmark, results: list[AuditCriterionResult]) -> list[str]:
    """Return the figures of a build's audit as lines of text; empty if no row has a verdict."""
    if not any(figure.rows for figure in results):
        return []
    kinds = {kind.code: kind for kind in benchmark.audit.criteria}
    return [f"audit by readers ({benchmark.audit.paper_section}):"] + [
        f"  {format_audit_figure_beside_paper(kinds[figure.kind], figure)}" for figure in results
    ]
