"""Renders the diff of two builds as a self-contained HTML page, Markdown, JSON or JSON Lines."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic_core import to_jsonable_python

from factmill.tasks.diff.core.changelog import render_changelog
from factmill.tasks.diff.core.changes import (
    CAUSE_KIND_MEANINGS,
    ROW_CHANGE_KINDS,
    BuildDiff,
    ChangeCause,
    ComparedBuild,
    RowChange,
    count_unexplained_rows,
    excerpt_change_keeping_line_breaks,
    format_change_in_lines,
    format_value_in_line,
)
from factmill.tasks.reports.formatting import (
    MAX_NAME_CHARACTERS,
    format_column_value,
    format_parameter_value,
    shorten_line,
)
from factmill.tasks.reports.page_frame import (
    MAX_INDEXED_ROWS,
    CitationAndCommands,
    KeyFigure,
    SearchablePageRows,
    format_bibtex,
    pack_rows_for_page_search,
)
from factmill.tasks.reports.rendering import list_filters, load_filter_script_variables, render_html_template
from factmill.tasks.text.sanitize import replace_surrogates_in_json

_MAX_DIFF_ROWS = 2000
"""Maximum number of rows on a page."""
_MAX_DIFF_VALUE_CHARACTERS = 2000
"""Maximum characters of a value on a page."""
_MAX_CAUSE_CHARACTERS = 300
"""Maximum characters of a row's cause; the page's first tables show the inputs that differ."""
_MAX_SEARCHED_CHARACTERS = 80
"""Maximum characters of a changed value in a page's search."""


@dataclass(frozen=True, slots=True)
class _ChangedCell:
    name: str
    before: str
    after: str
    withheld: bool


def render_changes_html(diff: BuildDiff, trail: Sequence[tuple[str, str]] = ()) -> str:
    """Return a diff as one HTML page, with rows filterable by kind, cause and column, and long values shortened.

    `trail`: address and name of the pages of a site that lead to it, the outermost first.
    """
    counts, unexplained = diff.count_rows_by_kind(), count_unexplained_rows(diff)
    facts = {
        "before": f"{diff.before.build_id}, {diff.before.published}, {diff.before.rows:,} rows",
        "after": f"{diff.after.build_id}, {diff.after.published}, {diff.after.rows:,} rows",
        **({"the same, with other provenance": f"{diff.remade:,} rows"} if diff.remade else {}),
        **{
            f"table {name}": ", ".join(f"{count:,} {kind}" for kind, count in found.items() if count)
            for name, found in diff.tables.items()
        },
        **({"columns in one build only": ", ".join(diff.new_columns)} if diff.new_columns else {}),
    }
    kinds = {row.main_cause.label: row.main_cause.kind for row in diff.rows}
    kinds_told = ", ".join(f"{counts[kind]:,} {kind}" for kind in ROW_CHANGE_KINDS)
    of_each_kind = [f"{counts[kind]:,} {kind}" for kind in ROW_CHANGE_KINDS if counts[kind]]
    causes = diff.count_rows_by_cause()
    main = next(iter(causes), "")
    page = {
        "title": f"{diff.before.build_id} → {diff.after.build_id}",
        "headline": f"{diff.title.partition(':')[0]}: "
        + (f"{', '.join(of_each_kind)} row{'' if len(diff.rows) == 1 else 's'}" if of_each_kind else "no row differs"),
        "key_figures": (
            KeyFigure("rows that differ", f"{len(diff.rows):,}", kinds_told),
            KeyFigure(
                "rows that are the same",
                f"{diff.same:,}",
                f"of {diff.after.rows:,} rows now, {diff.before.rows:,} before",
            ),
            KeyFigure(
                "rows without a known cause",
                f"{unexplained:,}",
                f"most differ by {_shorten_name_on_diff_page(main)}: {sum(causes[main].values()):,}"
                if main
                else "no row differs",
            ),
        ),
        "reference": CitationAndCommands(
            format_bibtex(
                diff.benchmark,
                f"{diff.title.partition(':')[0]}, rebuilt by factmill",
                f"build {diff.after.build_id}, after {diff.before.build_id}",
                int(diff.after.published[:4]),
                None,
            ),
            "The command compares the published rows of both builds, and finds causes in their manifests and recorded calls.",
            (f"factmill diff {diff.before.build_id} {diff.after.build_id} --to changes.html",),
        ),
        "subtitle": f"{diff.title}. From {diff.before.build_id} to {diff.after.build_id}.",
        "warnings": _list_warnings(diff.before, diff.after),
        "facts": facts,
        "inputs": [
            {
                "label": _format_cause_label(each.cause),
                "before": format_value_in_line(format_parameter_value(each.before), 100),
                "after": format_value_in_line(format_parameter_value(each.after), 100),
            }
            for each in diff.inputs
        ],
        "causes": [
            {"label": _shorten_name_on_diff_page(label), "counts": of, "meaning": CAUSE_KIND_MEANINGS[kinds[label]]}
            for label, of in causes.items()
        ],
        "rows": len(diff.rows),
        "command": f"factmill diff {diff.before.build_id} {diff.after.build_id} --to rows.jsonl",
        "filters": list_filters(map(_list_change_filter_values, diff.rows[:MAX_INDEXED_ROWS])),
        "entries": [
            _make_changed_row_page_entry(row, {each.cause for each in diff.inputs})
            for row in diff.rows[:_MAX_DIFF_ROWS]
        ],
    }
    all_rows = _pack_changed_rows_for_search(diff.rows[:MAX_INDEXED_ROWS]) if len(diff.rows) > _MAX_DIFF_ROWS else None
    return render_html_template(
        "changes.html", **load_filter_script_variables(), page=page, all_rows=all_rows, trail=trail
    )


def _pack_changed_rows_for_search(rows: Sequence[RowChange]) -> SearchablePageRows:
    """Return changed rows for the page's search, with the values before and after of all their columns in a line each."""
    names = list(dict.fromkeys(name for row in rows for name in row.shown if name != "id"))

    def list_values(row: RowChange) -> list[str | Sequence[str]]:
        changed = [
            (each.name, *format_change_in_lines(each.before, each.after, _MAX_SEARCHED_CHARACTERS))
            for each in row.columns
            if not each.withheld
        ]
        return [
            row.id,
            row.kind,
            "; ".join(_format_cause_label(each) for each in row.causes),
            *(format_column_value(row.shown.get(name)) for name in names),
            "; ".join(f"{name}: {before}" for name, before, _ in changed),
            "; ".join(f"{name}: {after}" for name, _, after in changed),
            f"{row.fate.stage}: {row.fate.reason} {row.fate.detail}" if row.fate else "",
            *_list_change_filter_values(row).values(),
        ]

    headings = ["row", "change", "cause", *names, "before", "after", "rejected"]
    return pack_rows_for_page_search(headings, list(_list_change_filter_values(rows[0])), map(list_values, rows))


def render_changes_markdown(diff: BuildDiff) -> str:
    """Return a diff as the Markdown changelog of a release that follows the earlier build."""
    return render_changelog(diff, diff.before.build_id)


def render_changes_json(diff: BuildDiff) -> str:
    """Return a diff as one JSON object, with full values."""
    return json.dumps(make_diff_json(diff), ensure_ascii=False) + "\n"


def render_changes_jsonl(diff: BuildDiff) -> str:
    """Return the changed rows as JSON Lines, with full values."""
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in make_diff_json(diff)["rows"])


CHANGES_RENDERERS: Mapping[str, Callable[[BuildDiff], str]] = {
    ".html": render_changes_html,
    ".md": render_changes_markdown,
    ".json": render_changes_json,
    ".jsonl": render_changes_jsonl,
}
"""File ending → renderer of a diff."""


def make_diff_json(diff: BuildDiff) -> dict[str, Any]:
    """Return a diff as a JSON-able dict: the fields of its class and counts."""
    content = replace_surrogates_in_json(
        to_jsonable_python(asdict(diff, dict_factory=_make_dict_with_published_keys), inf_nan_mode="strings")
    )
    counted = {
        "differs": diff.has_row_changes,
        "counts": diff.count_rows_by_kind(),
        "causes": diff.count_rows_by_cause(),
        "unexplained": count_unexplained_rows(diff),
    }
    return {**{name: content[name] for name in content if name != "rows"}, **counted, "rows": content["rows"]}


def _make_dict_with_published_keys(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {"told" if name == "change_description" else name: value for name, value in fields}  # the published key


def _list_warnings(*builds: ComparedBuild) -> list[str]:
    cautions = dict.fromkeys(f"{each.caution[0].upper()}{each.caution[1:]}." for each in builds if each.caution)
    ids = " and ".join(each.build_id for each in builds if each.scripted)
    scripted = f"Scripted replies, not a language model, wrote the rows of {ids}: the changes demonstrate the pipeline."
    return [*cautions, *([scripted] if ids else [])]


def _make_changed_row_page_entry(row: RowChange, inputs: Collection[ChangeCause]) -> dict[str, Any]:
    """Return a row for the template; a cause among the inputs that differ, which the page lists, has no description."""
    columns = [
        _ChangedCell(
            f"{each.table}.{each.name}" if each.table else each.name,
            *excerpt_change_keeping_line_breaks(each.before, each.after, _MAX_DIFF_VALUE_CHARACTERS),
            each.withheld,
        )
        for each in row.columns
    ]
    changed = {each.name for each in row.columns}
    return {
        "kind": row.kind,
        "id": _shorten_name_on_diff_page(row.id),
        "id_before": _shorten_name_on_diff_page(row.id_before)
        if row.kind == "changed" and row.id_before != row.id
        else "",
        "causes": [
            {
                "label": _format_cause_label(each),
                "change_description": ""
                if each in inputs
                else format_value_in_line(each.change_description, _MAX_CAUSE_CHARACTERS),
                "stage": each.stage,
            }
            for each in row.causes
        ],
        "fate": row.fate
        and {
            **asdict(row.fate),
            "reason": _shorten_name_on_diff_page(row.fate.reason),
            "detail": format_value_in_line(row.fate.detail, _MAX_DIFF_VALUE_CHARACTERS),
        },
        "shown": {
            name: format_value_in_line(format_column_value(value), _MAX_DIFF_VALUE_CHARACTERS)
            for name, value in row.shown.items()
            if name != "id" and name not in changed
        },
        "columns": columns,
        "groups": _list_change_filter_values(row),
    }


def _list_change_filter_values(row: RowChange) -> dict[str, list[str]]:
    """Return filter → values by which the page finds a row."""
    return {
        "kind": [row.kind],
        "cause": [_format_cause_label(each) for each in row.causes],
        "column": [each.name for each in row.columns],
        "rejected": [_shorten_name_on_diff_page(row.fate.reason)] if row.fate else [],
    }


def _format_cause_label(cause: ChangeCause) -> str:
    return _shorten_name_on_diff_page(cause.label)


def _shorten_name_on_diff_page(name: str) -> str:
    return shorten_line(name, MAX_NAME_CHARACTERS)
