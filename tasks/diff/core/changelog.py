"""Render a dataset's changelog in Markdown: rows added, removed and changed since an earlier release, by cause."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from factmill.tasks.diff.core.changes import (
    CAUSE_KIND_MEANINGS,
    ROW_CHANGE_KINDS,
    BuildDiff,
    ColumnValueChange,
    RowChange,
    count_unexplained_rows,
    format_change_in_lines,
    format_row_count,
    format_value_in_line,
)
from factmill.tasks.text.sanitize import escape_control_characters, escape_markdown

_EXAMPLES_PER_CAUSE = 3
"""Example rows per cause."""
_MAX_COLUMNS_PER_EXAMPLE = 3
"""Columns shown per example row."""
_MAX_VALUE_CHARACTERS = 160


def render_changelog(diff: BuildDiff, previous_version: str) -> str:
    """Return as Markdown what changed since the release called `previous_version`.

    It shows rows, columns and the beginnings of their values, but no values of held-out tables.
    """
    counts = diff.count_rows_by_kind()
    lines = [f"# Changes since {escape_markdown(previous_version)}", ""]
    lines += [_format_summary(diff), ""]
    if diff.inputs:
        lines += [
            "## Inputs",
            *(_format_input_change(each.cause.label, each.cause.change_description) for each in diff.inputs),
            "",
        ]
    for kind in ROW_CHANGE_KINDS:
        if counts[kind]:
            rows = [row for row in diff.rows if row.kind == kind]
            lines += [f"## {kind.capitalize()}: {format_row_count(counts[kind])}", *_format_rows_by_cause(rows), ""]
    if not diff.has_row_changes:
        lines += ["No row was added, removed or changed.", ""]
    if diff.tables or diff.new_columns:
        lines += ["## Other tables and columns", *_format_table_counts_and_new_columns(diff), ""]
    return "\n".join(lines).strip() + "\n"


def _format_summary(diff: BuildDiff) -> str:
    counts = diff.count_rows_by_kind()
    parts = ", ".join(f"{counts[kind]:,} {kind}" for kind in ROW_CHANGE_KINDS)
    remade = f" ({diff.remade:,} of them with other provenance)" if diff.remade else ""
    unexplained = count_unexplained_rows(diff)
    lost = f" Nothing that was recorded explains the change of {format_row_count(unexplained)}." if unexplained else ""
    return (
        f"{escape_markdown(diff.title)}. From `{diff.before.build_id}` ({diff.before.published}, {format_row_count(diff.before.rows)}) to "
        f"`{diff.after.build_id}` ({diff.after.published}, {format_row_count(diff.after.rows)}): {diff.same:,} the same{remade}, "
        f"{parts}.{lost}"
    )


def _format_input_change(label: str, description: str) -> str:
    return f"- {escape_markdown(label)}: {escape_markdown(format_value_in_line(description, _MAX_VALUE_CHARACTERS))}"


def _format_rows_by_cause(rows: Sequence[RowChange]) -> Iterator[str]:
    by_cause: dict[str, list[RowChange]] = defaultdict(list)
    for row in rows:
        by_cause[row.main_cause.label].append(row)
    for label, of_cause in sorted(by_cause.items(), key=lambda each: (-len(each[1]), each[0])):
        yield f"- **{escape_markdown(label)}**: {format_row_count(len(of_cause))}, since {CAUSE_KIND_MEANINGS[of_cause[0].main_cause.kind]}"
        for row in of_cause[:_EXAMPLES_PER_CAUSE]:
            yield f"  - {_format_row_change(row)}"
        if len(of_cause) > _EXAMPLES_PER_CAUSE:
            yield f"  - and {len(of_cause) - _EXAMPLES_PER_CAUSE:,} more"


def _format_row_change(row: RowChange) -> str:
    moved = f" (was {_format_id_as_code(row.id_before)})" if row.kind == "changed" and row.id_before != row.id else ""
    shown = next((str(value) for name, value in row.shown.items() if name != "id" and isinstance(value, str)), "")
    row_line = f"{_format_id_as_code(row.id)}{moved} {escape_markdown(format_value_in_line(shown, _MAX_VALUE_CHARACTERS))}".rstrip()
    if row.fate:
        verb = "merged" if row.fate.reason == "merged" else f"rejected ({row.fate.reason})"
        where = "now" if row.fate.build == "after" else "before"
        return f"{row_line}: {where} {verb} at {row.fate.stage}"
    columns = [_format_column_change(each) for each in row.columns[:_MAX_COLUMNS_PER_EXAMPLE]]
    more = (
        [f"{len(row.columns) - _MAX_COLUMNS_PER_EXAMPLE} more columns"]
        if len(row.columns) > _MAX_COLUMNS_PER_EXAMPLE
        else []
    )
    return ": ".join(filter(None, (row_line, "; ".join([*columns, *more]))))


def _format_column_change(column: ColumnValueChange) -> str:
    name = f"{column.table}.{column.name}" if column.table else column.name
    if column.withheld:
        return f"`{name}` changed (values held out)"
    before, after = (
        escape_markdown(each) for each in format_change_in_lines(column.before, column.after, _MAX_VALUE_CHARACTERS)
    )
    return f"`{name}` {before} → {after}"


def _format_table_counts_and_new_columns(diff: BuildDiff) -> Iterator[str]:
    for table, counts in diff.tables.items():
        yield f"- table `{table}`: {', '.join(f'{count:,} {kind}' for kind, count in counts.items() if count)}"
    if diff.new_columns:
        yield f"- columns that only one of the builds has: {', '.join(f'`{name}`' for name in diff.new_columns)}"


def _format_id_as_code(row_id: str) -> str:
    """Return an id as Markdown code; a category or file name in it may hold any character."""
    return f"`{escape_control_characters(' '.join(row_id.split())).replace('`', chr(39))}`"
