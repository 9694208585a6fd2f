"""`factmill diff`: print what changed from one build or release to another."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import typer

from factmill.flows.cli.options import JsonOption, WarehouseOption, print_result, write_text_file
from factmill.flows.evaluate.evaluations import get_benchmark_or_evaluation
from factmill.tasks.core.rows import MAX_SETTING_NUMBER
from factmill.tasks.diff.compare import check_same_benchmark, compare_builds
from factmill.tasks.diff.core.changes import (
    CAUSE_KIND_MEANINGS,
    ROW_CHANGE_KINDS,
    BuildDiff,
    ChangeCauseKind,
    RowChange,
    count_unexplained_rows,
    format_change_in_lines,
    format_value_in_line,
)
from factmill.tasks.errors import UsageError
from factmill.tasks.options import RunOptions, resolve_warehouse_path
from factmill.tasks.storage.builds import resolve_build
from factmill.tasks.storage.released_folders import is_release
from factmill.tasks.text.sanitize import escape_control_characters, format_did_you_mean


def diff(
    before: str = typer.Argument(
        ...,
        help="Earlier build: its id, the start of its id, or latest:BENCHMARK; or the folder of a release.",
        metavar="A",
    ),
    after: str = typer.Argument(..., help="Later build or release, given like A.", metavar="B"),
    to: list[Path] | None = typer.Option(
        None,
        help="Also write the diff to this file: .html, .md, .json or .jsonl (one row per line, complete values). Repeatable.",
        metavar="FILE",
    ),
    cause: list[str] | None = typer.Option(
        None,
        help="Show only rows with this cause (repeatable): source, world, epoch, prompt, query, list, model, parameter, decision, code, reply, 'other rows', 'one of', 'left out', 'not told', unexplained.",
        metavar="KIND",
    ),
    limit: int = typer.Option(20, min=0, max=MAX_SETTING_NUMBER, help="Maximum number of rows to print."),
    with_answers: bool = typer.Option(
        False, "--with-answers", help="Also show the hidden answers of the test split, which exports leave out."
    ),
    exit_code: bool = typer.Option(
        False, "--exit-code", help="Exit with code 1 if a row was added, removed or changed, for checks in CI."
    ),
    warehouse: WarehouseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two builds row by row, with the cause of each change.

    --cause lists the possible causes. Releases hold no recorded calls, so their diff shows only causes that appear in their
    manifests. The exit code is 0 even if rows differ, unless --exit-code is given; it is 2 if A and B cannot be compared.

    \b
    Examples:
      factmill diff granola-7c571a65e7b7 latest:granola
      factmill diff slaq-33 slaq-9a --cause world --limit 5
      factmill diff old/granola/ granola-eq/
      factmill diff multihal-5a multihal-b1 --to changes.html --to CHANGELOG.md --exit-code
    """
    from factmill.flows.commands.report import check_report_suffixes
    from factmill.tasks.reports.diff_page import CHANGES_RENDERERS, make_diff_json

    files = to or []
    check_report_suffixes(files, CHANGES_RENDERERS)
    causes, known = cause or [], get_args(ChangeCauseKind)
    if unknown := [kind for kind in causes if kind not in known]:
        raise UsageError(
            f"--cause {unknown[0]}: unknown cause{format_did_you_mean(unknown[0], known)}; expected one of {', '.join(known)}"
        )
    found = _compare_builds_or_releases(
        resolve_warehouse_path(RunOptions(warehouse=warehouse)), before, after, with_answers
    )
    kept = [row for row in found.rows if not causes or any(each.kind in causes for each in row.causes)]
    shown = replace(found, rows=kept)
    written = [write_text_file(CHANGES_RENDERERS[file.suffix](shown), file, "--to") for file in files]
    files_written = list(map(str, written))
    changes = make_diff_json(shown) | ({"files": files_written} if written else {})
    print_result(as_json, changes, [*_format_diff(shown, limit, len(found.rows)), *files_written])
    if exit_code and found.has_row_changes:
        raise typer.Exit(1)


_MAX_VALUE_CHARACTERS = 70
"""Maximum characters of a value."""
_MAX_CAUSE_CHARACTERS = 160


def _compare_builds_or_releases(warehouse: Path, before: str, after: str, with_answers: bool) -> BuildDiff:
    """Return the diff of builds (id, beginning of an id, or latest:BENCHMARK), releases, or one of each."""
    from factmill.flows.commands.release import compare_releases

    if any(is_release(Path(name)) or "/" in name for name in (before, after)):  # no build has a slash in its name
        return compare_releases(warehouse, before, after, with_answers)
    old, new = (resolve_build(warehouse, name) for name in (before, after))
    check_same_benchmark(old, new)
    return compare_builds(warehouse, get_benchmark_or_evaluation(old.benchmark), old, new, with_answers)


def _format_diff(diff: BuildDiff, limit: int, differing_rows: int) -> list[str]:
    """Return a diff as lines of text, with its first `limit` rows; `differing_rows`: rows that differ, for any cause."""
    counts = diff.count_rows_by_kind()
    remade = f" ({diff.remade:,} of them from other calls or source rows)" if diff.remade else ""
    lines = [
        f"{diff.before.build_id} ({diff.before.published}) → {diff.after.build_id} ({diff.after.published})",
        f"  {diff.before.rows:,} rows before, {diff.after.rows:,} after: {diff.same:,} the same{remade}, "
        + ", ".join(f"{counts[kind]:,} {kind}" for kind in ROW_CHANGE_KINDS),
    ]
    lines += [f"  note: {each}" for each in dict.fromkeys([diff.before.caution, diff.after.caution]) if each]
    lines += ["", "inputs that differ" if diff.inputs else "inputs: the same in both manifests"]
    lines += [
        f"  {escape_control_characters(each.cause.label)}: {format_value_in_line(each.cause.told, _MAX_CAUSE_CHARACTERS)}"
        for each in diff.inputs
    ]
    lines += ["", "other differences"] if diff.tables or diff.new_columns else []
    for table, of_table in diff.tables.items():
        lines.append(f"  table {table}: {', '.join(f'{count:,} {kind}' for kind, count in of_table.items() if count)}")
    if diff.new_columns:
        lines.append(f"  columns in only one of the two: {', '.join(diff.new_columns)}")
    if not diff.has_row_changes:
        summary = (
            f"none of the {differing_rows:,} rows that differ has such a cause"
            if differing_rows
            else "no row was added, removed or changed"
        )
        return [*lines, "", summary]
    lines += ["", f"{'added':>9} {'removed':>9} {'changed':>9}  cause"]
    kinds = {row.main_cause.label: row.main_cause.kind for row in diff.rows}
    for label, of in diff.count_rows_by_cause().items():
        numbers = " ".join(f"{of[kind]:>9,}" for kind in ROW_CHANGE_KINDS)
        lines.append(
            f"{numbers}  {format_value_in_line(label, _MAX_CAUSE_CHARACTERS)}  ({CAUSE_KIND_MEANINGS[kinds[label]]})"
        )
    if unexplained := count_unexplained_rows(diff):
        lines.append(f"note: no recorded input or call explains the change of {unexplained:,} rows")
    for row in diff.rows[:limit]:
        lines += ["", *_format_row(row)]
    if len(diff.rows) > limit:
        lines += [
            "",
            f"… and {len(diff.rows) - limit:,} more rows; --limit {len(diff.rows)} or --to FILE.html shows all",
        ]
    return lines


def _format_row(row: RowChange) -> Iterator[str]:
    moved = f" (was {row.id_before})" if row.kind == "changed" and row.id_before != row.id else ""
    yield f"{row.kind} {escape_control_characters(row.id)}{escape_control_characters(moved)}"
    for cause in row.causes:
        where = f" at {cause.stage}" if cause.stage else ""
        yield f"  cause   {escape_control_characters(cause.label)}{where}: {format_value_in_line(cause.told, _MAX_CAUSE_CHARACTERS)}"
    if row.fate:
        when = "now    " if row.fate.build == "after" else "before "
        what = "merged" if row.fate.reason == "merged" else "rejected"
        reason = "" if row.fate.reason == "merged" else f" {row.fate.reason}:"
        yield f"  {when} {what} at {row.fate.stage}:{reason} {format_value_in_line(row.fate.detail, _MAX_CAUSE_CHARACTERS)}"
    changed = {each.name for each in row.columns}
    for name, value in row.shown.items():
        if name != "id" and name not in changed:
            yield f"  {name}: {format_value_in_line(value, 2 * _MAX_VALUE_CHARACTERS)}"
    for column in row.columns:
        name = f"{column.table}.{column.name}" if column.table else column.name
        if column.withheld:
            yield f"  {name}: changed (hidden answer; --with-answers shows it)"
        else:
            before, after = format_change_in_lines(column.before, column.after, _MAX_VALUE_CHARACTERS)
            yield f"  {name}: {before} → {after}"
