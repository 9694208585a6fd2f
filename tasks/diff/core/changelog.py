"""Render a dataset's changelog in Markdown: rows added, removed and changed since an earlier release, by cause."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from factmill.tasks.diff.core.changes import (
    KINDS,
    MEANINGS,
    ColumnChange,
    Diff,
    RowChange,
    count_unexplained,
    tell_line,
    tell_pair,
)
from factmill.tasks.text.whole import clean, escape_markdown

_EXAMPLES = 3
"""Example rows per cause."""
_COLUMNS = 3
"""Columns shown per example row."""
_LONGEST = 160


def render_changelog(diff: Diff, previous_version: str) -> str:
    """Return as Markdown what changed since the release called `previous_version`.

    It shows rows, columns and the beginnings of their values, but no values of held-out tables.
    """
    counts = diff.counts()
    told = [f"# Changes since {escape_markdown(previous_version)}", ""]
    told += [_tell_builds(diff), ""]
    if diff.inputs:
        told += ["## Inputs", *(_tell_input(each.cause.label, each.cause.told) for each in diff.inputs), ""]
    for kind in KINDS:
        if counts[kind]:
            rows = [row for row in diff.rows if row.kind == kind]
            told += [f"## {kind.capitalize()}: {_count(counts[kind])}", *_tell_rows(rows), ""]
    if not diff.differs:
        told += ["No row was added, removed or changed.", ""]
    if diff.tables or diff.new_columns:
        told += ["## Beside", *_tell_beside(diff), ""]
    return "\n".join(told).strip() + "\n"


def _tell_builds(diff: Diff) -> str:
    counts = diff.counts()
    parts = ", ".join(f"{counts[kind]:,} {kind}" for kind in KINDS)
    remade = f" ({diff.remade:,} of them made anew)" if diff.remade else ""
    unexplained = count_unexplained(diff)
    lost = f" Of {_count(unexplained)} nothing that is recorded tells why." if unexplained else ""
    return (
        f"{escape_markdown(diff.title)}. From `{diff.before.build_id}` ({diff.before.published}, {_count(diff.before.rows)}) to "
        f"`{diff.after.build_id}` ({diff.after.published}, {_count(diff.after.rows)}): {diff.same:,} the same{remade}, "
        f"{parts}.{lost}"
    )


def _tell_input(label: str, told: str) -> str:
    return f"- {escape_markdown(label)}: {escape_markdown(tell_line(told, _LONGEST))}"


def _tell_rows(rows: Sequence[RowChange]) -> Iterator[str]:
    by_cause: dict[str, list[RowChange]] = defaultdict(list)
    for row in rows:
        by_cause[row.cause.label].append(row)
    for label, of_cause in sorted(by_cause.items(), key=lambda each: (-len(each[1]), each[0])):
        yield f"- **{escape_markdown(label)}**: {_count(len(of_cause))}, since {MEANINGS[of_cause[0].cause.kind]}"
        for row in of_cause[:_EXAMPLES]:
            yield f"  - {_tell_row(row)}"
        if len(of_cause) > _EXAMPLES:
            yield f"  - and {len(of_cause) - _EXAMPLES:,} more"


def _tell_row(row: RowChange) -> str:
    moved = f" (was {_quote(row.id_before)})" if row.kind == "changed" and row.id_before != row.id else ""
    shown = next((str(value) for name, value in row.shown.items() if name != "id" and isinstance(value, str)), "")
    told = f"{_quote(row.id)}{moved} {escape_markdown(tell_line(shown, _LONGEST))}".rstrip()
    if row.fate:
        verb = "united" if row.fate.reason == "merged" else f"rejected ({row.fate.reason})"
        where = "now" if row.fate.build == "after" else "before"
        return f"{told}: {where} {verb} at {row.fate.stage}"
    columns = [_tell_column(each) for each in row.columns[:_COLUMNS]]
    more = [f"{len(row.columns) - _COLUMNS} more columns"] if len(row.columns) > _COLUMNS else []
    return ": ".join(filter(None, (told, "; ".join([*columns, *more]))))


def _tell_column(column: ColumnChange) -> str:
    name = f"{column.table}.{column.name}" if column.table else column.name
    if column.withheld:
        return f"`{name}` is otherwise (held out)"
    before, after = (escape_markdown(each) for each in tell_pair(column.before, column.after, _LONGEST))
    return f"`{name}` {before} → {after}"


def _tell_beside(diff: Diff) -> Iterator[str]:
    for table, counts in diff.tables.items():
        yield f"- table `{table}`: {', '.join(f'{count:,} {kind}' for kind, count in counts.items() if count)}"
    if diff.new_columns:
        yield f"- columns that one of the two is without: {', '.join(f'`{name}`' for name in diff.new_columns)}"


def _quote(row_id: str) -> str:
    """Return an id as Markdown code; a category or file name in it may hold any character."""
    return f"`{clean(' '.join(row_id.split())).replace('`', chr(39))}`"


def _count(rows: int) -> str:
    return f"{rows:,} row{'' if rows == 1 else 's'}"
