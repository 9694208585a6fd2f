"""`factmill diff`: what changed from one build to another, as lines to read."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from flows.evaluate.evaluations import find_record
from flows.releases.comparing import compare_releases
from tasks.diff.compare import compare_builds, require_comparable
from tasks.diff.core.changes import KINDS, MEANINGS, CauseKind, ColumnChange, Diff, RowChange, count_unexplained
from tasks.diff.core.texts import tell_line, tell_pair
from tasks.errors import UsageError
from tasks.storage.builds import find_build
from tasks.storage.released_folders import is_release
from tasks.text.suggestions import suggest_name
from tasks.text.whole import clean

_LONGEST = 70
"""Characters of a value."""
_LONGEST_CAUSE = 160


def check_causes(kinds: Sequence[str]) -> None:
    """UsageError for a kind of cause that there is not."""
    known = get_args(CauseKind)
    if unknown := [kind for kind in kinds if kind not in known]:
        raise UsageError(
            f"--cause {unknown[0]}: no such kind of cause{suggest_name(unknown[0], known)}; there are {', '.join(known)}"
        )


def read_diff(warehouse: Path, before: str, after: str, with_answers: bool) -> Diff:
    """Return what changed between two builds, by id, the beginning of one, or as latest:BENCHMARK; or between two releases,
    or a release and a build."""
    if any(is_release(Path(name)) or "/" in name for name in (before, after)):  # no build has a slash in its name
        return compare_releases(warehouse, before, after, with_answers)
    old, new = (find_build(warehouse, name) for name in (before, after))
    require_comparable(old, new)
    return compare_builds(warehouse, find_record(old.benchmark), old, new, with_answers)


def keep_causes(diff: Diff, kinds: Sequence[str]) -> Diff:
    """Return a diff with the rows that have one of these kinds of causes; of no kind: all."""
    if not kinds:
        return diff
    return replace(diff, rows=[row for row in diff.rows if any(cause.kind in kinds for cause in row.causes)])


def format_diff(diff: Diff, limit: int, among: int) -> list[str]:
    """Return a diff as lines to read, the first rows of it one by one; `among`: rows that differ, whatever their cause."""
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
    lines += _format_beside(diff)
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


def _format_beside(diff: Diff) -> Iterator[str]:
    if diff.tables or diff.new_columns:
        yield from ("", "beside")
    for table, counts in diff.tables.items():
        yield f"  table {table}: {', '.join(f'{count:,} {kind}' for kind, count in counts.items() if count)}"
    if diff.new_columns:
        yield f"  columns that one of the two is without: {', '.join(diff.new_columns)}"


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
    yield from map(_format_column, row.columns)


def _format_column(column: ColumnChange) -> str:
    name = f"{column.table}.{column.name}" if column.table else column.name
    if column.withheld:
        return f"  {name}: otherwise (held out; --with-answers tells it)"
    before, after = tell_pair(column.before, column.after, _LONGEST)
    return f"  {name}: {before} → {after}"
