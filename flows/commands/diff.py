"""`factmill diff`: print what changed from one build or release to another."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import typer

from factmill.flows.cli.options import AsJson, Warehouse, print_result, write_file
from factmill.flows.evaluate.evaluations import find_record
from factmill.tasks.core.rows import MOST
from factmill.tasks.diff.compare import compare_builds, require_comparable
from factmill.tasks.diff.core.changes import (
    KINDS,
    MEANINGS,
    CauseKind,
    Diff,
    RowChange,
    count_unexplained,
    tell_line,
    tell_pair,
)
from factmill.tasks.errors import UsageError
from factmill.tasks.options import RunOptions, warehouse_of
from factmill.tasks.storage.builds import find_build
from factmill.tasks.storage.released_folders import is_release
from factmill.tasks.text.whole import clean, suggest_name


def diff(
    before: str = typer.Argument(
        ...,
        help="The earlier build: its id, the beginning of one, or latest:BENCHMARK; or a release's folder.",
        metavar="A",
    ),
    after: str = typer.Argument(..., help="The later build, or release.", metavar="B"),
    to: list[Path] | None = typer.Option(
        None,
        help="Write it too: a file that ends in .html, .md, .json or .jsonl (a row a line, values whole). Repeatable.",
        metavar="FILE",
    ),
    cause: list[str] | None = typer.Option(
        None,
        help="Only rows with this cause: source, world, epoch, prompt, query, list, model, parameter, decision, code, reply, 'other rows', 'one of', 'left out', 'not told', unexplained. Repeatable.",
        metavar="KIND",
    ),
    limit: int = typer.Option(20, min=0, max=MOST, help="Rows to print."),
    with_answers: bool = typer.Option(
        False, "--with-answers", help="Tell answers that exports hold out (a test part's), too."
    ),
    exit_code: bool = typer.Option(
        False, "--exit-code", help="End with 1 where a row is added, removed or changed, as a check in CI wants it."
    ),
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """Tell what changed from one build to another, row by row, and why: source, world, epoch, prompt, query, list, model,
    parameter, decision, code. Of releases, which hold no recorded calls, as far as their locks tell why.

    Ends with 0, also where rows differ, unless --exit-code is given; with 2 where the two cannot be compared.

    \b
    Examples:
      factmill diff granola-7c571a65e7b7 latest:granola
      factmill diff slaq-33 slaq-9a --cause world --limit 5
      factmill diff old/granola/ granola-eq/
      factmill diff multihal-5a multihal-b1 --to changes.html --to CHANGELOG.md --exit-code
    """
    from factmill.flows.commands.report import check_endings
    from factmill.tasks.reports.changes import CHANGES_RENDERERS, list_changes

    files = to or []
    check_endings(files, CHANGES_RENDERERS)
    causes, known = cause or [], get_args(CauseKind)
    if unknown := [kind for kind in causes if kind not in known]:
        raise UsageError(
            f"--cause {unknown[0]}: no such kind of cause{suggest_name(unknown[0], known)}; there are {', '.join(known)}"
        )
    found = _read_diff(warehouse_of(RunOptions(warehouse=warehouse)), before, after, with_answers)
    kept = [row for row in found.rows if not causes or any(each.kind in causes for each in row.causes)]
    told = replace(found, rows=kept)
    written = [write_file(CHANGES_RENDERERS[file.suffix](told), file, "--to") for file in files]
    files_written = list(map(str, written))
    changes = list_changes(told) | ({"files": files_written} if written else {})
    print_result(as_json, changes, [*_format_diff(told, limit, len(found.rows)), *files_written])
    if exit_code and found.differs:
        raise typer.Exit(1)


_LONGEST = 70
"""Maximum characters of a value."""
_LONGEST_CAUSE = 160


def _read_diff(warehouse: Path, before: str, after: str, with_answers: bool) -> Diff:
    """Return the diff of builds (id, beginning of an id, or latest:BENCHMARK), releases, or one of each."""
    from factmill.flows.commands.release import compare_releases

    if any(is_release(Path(name)) or "/" in name for name in (before, after)):  # no build has a slash in its name
        return compare_releases(warehouse, before, after, with_answers)
    old, new = (find_build(warehouse, name) for name in (before, after))
    require_comparable(old, new)
    return compare_builds(warehouse, find_record(old.benchmark), old, new, with_answers)


def _format_diff(diff: Diff, limit: int, among: int) -> list[str]:
    """Return a diff as lines of text, with its first `limit` rows; `among`: rows that differ, for any cause."""
    counts = diff.counts()
    remade = f" ({diff.remade:,} of them made anew)" if diff.remade else ""
    lines = [
        f"{diff.before.build_id} ({diff.before.published}) → {diff.after.build_id} ({diff.after.published})",
        f"  {diff.before.rows:,} rows before, {diff.after.rows:,} after: {diff.same:,} the same{remade}, "
        + ", ".join(f"{counts[kind]:,} {kind}" for kind in KINDS),
    ]
    lines += [f"  note: {each}" for each in dict.fromkeys([diff.before.caution, diff.after.caution]) if each]
    lines += ["", "inputs that differ" if diff.inputs else "inputs: the same in both locks"]
    lines += [f"  {clean(each.cause.label)}: {tell_line(each.cause.told, _LONGEST_CAUSE)}" for each in diff.inputs]
    lines += ["", "beside"] if diff.tables or diff.new_columns else []
    for table, of_table in diff.tables.items():
        lines.append(f"  table {table}: {', '.join(f'{count:,} {kind}' for kind, count in of_table.items() if count)}")
    if diff.new_columns:
        lines.append(f"  columns that one of the two is without: {', '.join(diff.new_columns)}")
    if not diff.differs:
        told = (
            f"none of the {among:,} rows that differ has such a cause"
            if among
            else "no row is added, removed or changed"
        )
        return [*lines, "", told]
    lines += ["", f"{'added':>9} {'removed':>9} {'changed':>9}  cause"]
    kinds = {row.cause.label: row.cause.kind for row in diff.rows}
    for label, of in diff.count_causes().items():
        told = " ".join(f"{of[kind]:>9,}" for kind in KINDS)
        lines.append(f"{told}  {tell_line(label, _LONGEST_CAUSE)}  ({MEANINGS[kinds[label]]})")
    if unexplained := count_unexplained(diff):
        lines.append(f"note: of {unexplained:,} rows nothing that is recorded tells why")
    for row in diff.rows[:limit]:
        lines += ["", *_format_row(row)]
    if len(diff.rows) > limit:
        lines += ["", f"… and {len(diff.rows) - limit:,} more rows; all: --limit {len(diff.rows)}, or --to FILE.html"]
    return lines


def _format_row(row: RowChange) -> Iterator[str]:
    moved = f" (was {row.id_before})" if row.kind == "changed" and row.id_before != row.id else ""
    yield f"{row.kind} {clean(row.id)}{clean(moved)}"
    for cause in row.causes:
        where = f" at {cause.stage}" if cause.stage else ""
        yield f"  cause   {clean(cause.label)}{where}: {tell_line(cause.told, _LONGEST_CAUSE)}"
    if row.fate:
        when = "now    " if row.fate.build == "after" else "before "
        what = "united" if row.fate.reason == "merged" else "rejected"
        reason = "" if row.fate.reason == "merged" else f" {row.fate.reason}:"
        yield f"  {when} {what} at {row.fate.stage}:{reason} {tell_line(row.fate.detail, _LONGEST_CAUSE)}"
    changed = {each.name for each in row.columns}
    for name, value in row.shown.items():
        if name != "id" and name not in changed:
            yield f"  {name}: {tell_line(value, 2 * _LONGEST)}"
    for column in row.columns:
        name = f"{column.table}.{column.name}" if column.table else column.name
        if column.withheld:
            yield f"  {name}: otherwise (held out; --with-answers tells it)"
        else:
            before, after = tell_pair(column.before, column.after, _LONGEST)
            yield f"  {name}: {before} → {after}"
