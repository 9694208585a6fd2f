"""Renders the diff of two builds as a self-contained HTML page, Markdown, JSON or JSON Lines."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from markupsafe import Markup
from pydantic_core import to_jsonable_python

from factmill.tasks.diff.core.changelog import render_changelog
from factmill.tasks.diff.core.changes import (
    CAUSE_KIND_MEANINGS,
    ROW_CHANGE_KINDS,
    BenchmarkRowLabels,
    BuildDiff,
    ChangeCause,
    ColumnValueChange,
    ComparedBuild,
    InputChange,
    RowChange,
    RowDropInOneBuild,
    count_unexplained_rows,
    excerpt_change_keeping_line_breaks,
    format_change_in_lines,
    format_row_count,
    format_value_in_line,
)
from factmill.tasks.reports.evaluation_report import SCRIPTED_ROWS_WARNING
from factmill.tasks.reports.formatting import (
    MAX_NAME_CHARACTERS,
    format_column_value_without_ids,
    format_group_value,
    format_parameter_value,
    format_snake_case_as_words,
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
from factmill.tasks.reports.rendering import list_filters, load_filter_script_and_its_digest, render_html_template
from factmill.tasks.text.sanitize import replace_surrogates_in_json

_MAX_DIFF_ROWS = 2000
"""Maximum number of rows on a page."""
_MAX_DIFF_VALUE_CHARACTERS = 2000
"""Maximum characters of a value on a page."""
_MAX_CAUSE_CHARACTERS = 300
"""Maximum characters of a row's cause; the page's first tables show the inputs that differ."""
_MAX_INPUT_CHARACTERS = 300
"""Maximum characters of an input, or of an entry of it."""
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
    sides = {"build": diff.before} if diff.before == diff.after else {"before": diff.before, "after": diff.after}
    before_id, after_id = (_format_build_id(each) for each in (diff.before, diff.after))
    new_columns = ", ".join(_format_column_name(diff.display, each) for each in diff.new_columns)
    facts = {
        **{
            name: Markup("{}, {}, {} rows").format(_format_build_id(each), each.published, f"{each.rows:,}")
            for name, each in sides.items()
        },
        **({"the same, with other provenance": f"{diff.remade:,} rows"} if diff.remade else {}),
        **{
            f"{format_snake_case_as_words(name.removeprefix(f'{diff.benchmark}_'))} (companion table)": ", ".join(
                f"{format_row_count(count)} {kind}" for kind, count in found.items() if count
            )
            for name, found in diff.tables.items()
        },
        **({"columns in one build only": new_columns} if new_columns else {}),
    }
    kinds = {row.main_cause.label: row.main_cause.kind for row in diff.rows}
    kinds_told = ", ".join(f"{counts[kind]:,} {kind}" for kind in ROW_CHANGE_KINDS)
    of_each_kind = [f"{counts[kind]:,} {kind}" for kind in ROW_CHANGE_KINDS if counts[kind]]
    causes = diff.count_rows_by_cause()
    main = next((label for label in causes if kinds[label] != "unexplained"), "")
    is_shared = len(diff.rows) > 1 and len({row.causes for row in diff.rows}) == 1
    listed = {each.cause for each in diff.inputs}
    page = {
        "title": " → ".join(each.build_id for each in sides.values()),
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
                f"commonest cause: {_shorten_name_on_diff_page(main).replace(': ', ' ', 1)} ({format_row_count(sum(causes[main].values()))})"
                if main
                else CAUSE_KIND_MEANINGS["unexplained"]
                if unexplained
                else "no row differs",
            ),
        ),
        "reference": CitationAndCommands(
            format_bibtex(
                diff.benchmark,
                f"{diff.title.partition(':')[0]}, rebuilt by factmill",
                f"build {diff.after.build_id}" + (f", after {diff.before.build_id}" if len(sides) == 2 else ""),
                int(diff.after.published[:4]),
                None,
            ),
            "The command compares the published rows of both builds, and finds causes in their manifests and recorded calls.",
            (f"factmill diff {diff.before.build_id} {diff.after.build_id} --to changes.html",),
        ),
        "subtitle": Markup("{}. From {} to {}." if len(sides) == 2 else "{}. Build {} is compared with itself.").format(
            diff.title, before_id, after_id
        ),
        "warnings": _list_warnings(diff.before, diff.after),
        "facts": facts,
        "inputs": [_make_input_change_page_entry(each, diff.display) for each in diff.inputs],
        "causes": [
            {"label": _shorten_name_on_diff_page(label), "counts": of, "meaning": CAUSE_KIND_MEANINGS[kinds[label]]}
            for label, of in causes.items()
        ],
        "shared_causes": _list_cause_page_entries(diff.rows[0], listed) if is_shared else [],
        "rows": len(diff.rows),
        "command": f"factmill diff {diff.before.build_id} {diff.after.build_id} --to rows.jsonl",
        "filters": list_filters(_list_change_filter_values(row, diff.display) for row in diff.rows[:MAX_INDEXED_ROWS]),
        "entries": [
            {
                **_make_changed_row_page_entry(row, diff.display),
                "causes": [] if is_shared else _list_cause_page_entries(row, listed),
            }
            for row in diff.rows[:_MAX_DIFF_ROWS]
        ],
    }
    all_rows = (
        _pack_changed_rows_for_search(diff.rows[:MAX_INDEXED_ROWS], diff.display)
        if len(diff.rows) > _MAX_DIFF_ROWS
        else None
    )
    return render_html_template(
        "changes.html", **load_filter_script_and_its_digest(), page=page, all_rows=all_rows, trail=trail
    )


def _pack_changed_rows_for_search(rows: Sequence[RowChange], display: BenchmarkRowLabels) -> SearchablePageRows:
    """Return changed rows for the page's search, with the values before and after of all their columns in a line each."""
    names = list(dict.fromkeys(name for row in rows for name in row.shown if name != "id"))

    def list_values(row: RowChange) -> list[str | Sequence[str]]:
        changed = [
            (
                _format_column_name(display, each.name, each.table),
                *format_change_in_lines(*_format_display_change(display, each), _MAX_SEARCHED_CHARACTERS),
            )
            for each in row.columns
            if not each.withheld
        ]
        return [
            row.id,
            row.kind,
            "; ".join(_format_cause_label(each) for each in row.causes),
            *(_format_display_value(display, name, row.shown.get(name)) for name in names),
            "; ".join(f"{name}: {before}" for name, before, _ in changed),
            "; ".join(f"{name}: {after}" for name, _, after in changed),
            f"{format_snake_case_as_words(row.fate.stage)}: {format_snake_case_as_words(row.fate.reason)}: {_get_drop_detail_without_reason(row.fate)}"
            if row.fate
            else "",
            *_list_change_filter_values(row, display).values(),
        ]

    shown = [_format_column_name(display, name) for name in names]
    headings = ["row", "change", "cause", *shown, "before", "after", "rejected"]
    return pack_rows_for_page_search(
        headings, list(_list_change_filter_values(rows[0], display)), map(list_values, rows)
    )


def render_changes_markdown(diff: BuildDiff) -> str:
    """Return a diff as the Markdown changelog of a release that follows the earlier build."""
    return render_changelog(diff, diff.before.build_id)


def render_changes_json(diff: BuildDiff) -> str:
    """Return a diff as one JSON object, with full values."""
    return json.dumps(make_diff_json(diff), ensure_ascii=False) + "\n"


def render_changed_rows_jsonl(diff: BuildDiff) -> str:
    """Return the changed rows as JSON Lines, with full values."""
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in make_diff_json(diff)["rows"])


CHANGES_RENDERERS: Mapping[str, Callable[[BuildDiff], str]] = {
    ".html": render_changes_html,
    ".md": render_changes_markdown,
    ".json": render_changes_json,
    ".jsonl": render_changed_rows_jsonl,
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
    rows = content.pop("rows")
    del content["display"]
    return {**content, **counted, "rows": rows}


def _make_dict_with_published_keys(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {"told" if name == "change_description" else name: value for name, value in fields}  # the published key


def _list_warnings(*builds: ComparedBuild) -> list[str]:
    cautions = dict.fromkeys(f"{each.caution[0].upper()}{each.caution[1:]}." for each in builds if each.caution)
    ids = Markup(" and ").join(dict.fromkeys(_format_build_id(each) for each in builds if each.scripted))
    scripted = Markup("{} {}: the changes demonstrate the pipeline.").format(SCRIPTED_ROWS_WARNING, ids)
    return [*cautions, *([scripted] if ids else [])]


def _format_build_id(build: ComparedBuild) -> Markup:
    return Markup('<span class="id">{}</span>').format(build.build_id)


def _make_input_change_page_entry(change: InputChange, display: BenchmarkRowLabels) -> dict[str, Any]:
    """Return an input for the template; of a mapping only the entries that differ."""
    before, after = change.before, change.after
    label = _format_cause_label(change.cause)
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        old, new = (
            format_value_in_line(format_parameter_value(each), _MAX_INPUT_CHARACTERS) for each in (before, after)
        )
        return {"label": label, "before": old, "after": new, "entries": []}
    entries = [
        f"{format_group_value(key, '', {'': display.group_labels})}: "
        f"{format_parameter_value(before.get(key))} → {format_parameter_value(after.get(key))}"
        for key in dict.fromkeys([*before, *after])
        if before.get(key) != after.get(key)
    ]
    return {"label": label, "entries": [format_value_in_line(each, _MAX_INPUT_CHARACTERS) for each in entries]}


def _list_cause_page_entries(row: RowChange, inputs: Collection[ChangeCause]) -> list[dict[str, str]]:
    """Return a row's causes for the template; one among the inputs that differ, which the page lists, has no description."""
    return [
        {
            "label": _format_cause_label(each),
            "change_description": ""
            if each in inputs
            else format_value_in_line(each.change_description, _MAX_CAUSE_CHARACTERS),
            "stage": each.stage,
        }
        for each in row.causes
    ]


def _make_changed_row_page_entry(row: RowChange, display: BenchmarkRowLabels) -> dict[str, Any]:
    """Return a row for the template, without its causes."""
    columns = [
        _ChangedCell(
            _format_column_name(display, each.name, each.table),
            *excerpt_change_keeping_line_breaks(*_format_display_change(display, each), _MAX_DIFF_VALUE_CHARACTERS),
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
        "fate": row.fate
        and {
            **asdict(row.fate),
            "reason": _shorten_name_on_diff_page(row.fate.reason),
            "detail": format_value_in_line(_get_drop_detail_without_reason(row.fate), _MAX_DIFF_VALUE_CHARACTERS),
        },
        "shown": {
            _format_column_name(display, name): format_value_in_line(
                _format_display_value(display, name, value), _MAX_DIFF_VALUE_CHARACTERS
            )
            for name, value in row.shown.items()
            if name != "id" and name not in changed
        },
        "columns": columns,
        "groups": _list_change_filter_values(row, display),
    }


def _get_drop_detail_without_reason(fate: RowDropInOneBuild) -> str:
    """Return a reject's detail without its reason, which some details repeat."""
    return fate.detail.removeprefix(f"{fate.reason}: ")


def _format_column_name(display: BenchmarkRowLabels, name: str, table: str = "") -> str:
    heading = display.headings.get(name) or format_snake_case_as_words(name)
    return f"{heading} ({format_snake_case_as_words(table)})" if table else heading


def _format_display_value(display: BenchmarkRowLabels, name: str, value: Any) -> str:
    return format_column_value_without_ids(value, " → " if name in display.ordered_lists else " · ")


def _format_display_change(display: BenchmarkRowLabels, change: ColumnValueChange) -> tuple[Any, Any]:
    """Return both values as `show` has them; as they are where that shows no difference, or not the column."""
    old, new = (_format_display_value(display, change.name, each) or None for each in (change.before, change.after))
    return (old, new) if change.name in display.headings and old != new else (change.before, change.after)


def _list_change_filter_values(row: RowChange, display: BenchmarkRowLabels) -> dict[str, list[str]]:
    """Return filter → values by which the page finds a row."""
    return {
        "kind": [row.kind],
        "cause": [_format_cause_label(each) for each in row.causes],
        "column": [_format_column_name(display, each.name) for each in row.columns],
        "rejected": [_shorten_name_on_diff_page(row.fate.reason)] if row.fate else [],
    }


def _format_cause_label(cause: ChangeCause) -> str:
    return _shorten_name_on_diff_page(cause.label)


def _shorten_name_on_diff_page(name: str) -> str:
    return shorten_line(name, MAX_NAME_CHARACTERS)
