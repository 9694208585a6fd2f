"""Renders the diff of two builds as a self-contained HTML page, Markdown, JSON or JSON Lines."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic_core import to_jsonable_python

from factmill.tasks.diff.core.changelog import render_changelog
from factmill.tasks.diff.core.changes import (
    KINDS,
    MEANINGS,
    Cause,
    Diff,
    RowChange,
    count_unexplained,
    cut_pair,
    tell_line,
)
from factmill.tasks.reports.pages import fill_page, read_browser
from factmill.tasks.reports.texts import LONGEST_NAME, shorten_line, tell
from factmill.tasks.text.whole import whole_json

_MOST_ROWS = 2000
"""Maximum number of rows on a page."""
_LONGEST = 2000
"""Maximum characters of a value on a page."""


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    before: str
    after: str
    withheld: bool


def render_changes_html(diff: Diff) -> str:
    """Return a diff as one HTML page, with rows filterable by kind, cause and column, and long values shortened."""
    counts, unexplained = diff.counts(), count_unexplained(diff)
    facts = {
        "before": f"{diff.before.build_id}, {diff.before.published}, {diff.before.rows:,} rows",
        "after": f"{diff.after.build_id}, {diff.after.published}, {diff.after.rows:,} rows",
        "the same": f"{diff.same:,}" + (f", {diff.remade:,} of them made anew" if diff.remade else ""),
        **{kind: f"{counts[kind]:,}" for kind in KINDS},
        **({"unexplained": f"{unexplained:,}"} if unexplained else {}),
        **{f"table {name}": _tell_counts(found) for name, found in diff.tables.items()},
        **({"columns new or gone": ", ".join(diff.new_columns)} if diff.new_columns else {}),
    }
    kinds = {row.cause.label: row.cause.kind for row in diff.rows}
    page = {
        "title": f"{diff.before.build_id} → {diff.after.build_id}",
        "subtitle": diff.title,
        "warnings": list(dict.fromkeys(filter(None, (diff.before.caution, diff.after.caution)))),
        "facts": facts,
        "inputs": [
            {
                "label": _label(each.cause),
                "before": tell_line(tell(each.before), 100),
                "after": tell_line(tell(each.after), 100),
            }
            for each in diff.inputs
        ],
        "causes": [
            {"label": _cut(label), "counts": of, "meaning": MEANINGS[kinds[label]]}
            for label, of in diff.count_causes().items()
        ],
        "rows": len(diff.rows),
        "command": f"factmill diff {diff.before.build_id} {diff.after.build_id} --to rows.jsonl",
        "filters": _list_filters(diff),
        "entries": [_make_entry(row) for row in diff.rows[:_MOST_ROWS]],
    }
    return fill_page("changes.html", **read_browser(), page=page)


def render_changes_markdown(diff: Diff) -> str:
    """Return a diff as the Markdown changelog of a release that follows the earlier build."""
    return render_changelog(diff, diff.before.build_id)


def render_changes_json(diff: Diff) -> str:
    """Return a diff as one JSON object, with full values."""
    return json.dumps(list_changes(diff), ensure_ascii=False) + "\n"


def render_changes_jsonl(diff: Diff) -> str:
    """Return the changed rows as JSON Lines, with full values."""
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in list_changes(diff)["rows"])


CHANGES_RENDERERS: Mapping[str, Callable[[Diff], str]] = {
    ".html": render_changes_html,
    ".md": render_changes_markdown,
    ".json": render_changes_json,
    ".jsonl": render_changes_jsonl,
}
"""File ending → renderer of a diff."""


def list_changes(diff: Diff) -> dict[str, Any]:
    """Return a diff as a JSON-able dict: the fields of its class and counts."""
    told = whole_json(to_jsonable_python(asdict(diff), inf_nan_mode="strings"))
    counted = {
        "differs": diff.differs,
        "counts": diff.counts(),
        "causes": diff.count_causes(),
        "unexplained": count_unexplained(diff),
    }
    return {**{name: told[name] for name in told if name != "rows"}, **counted, "rows": told["rows"]}


def _make_entry(row: RowChange) -> dict[str, Any]:
    columns = [
        _Column(
            f"{each.table}.{each.name}" if each.table else each.name,
            *cut_pair(each.before, each.after, _LONGEST),
            each.withheld,
        )
        for each in row.columns
    ]
    changed = {each.name for each in row.columns}
    return {
        "kind": row.kind,
        "id": _cut(row.id),
        "id_before": _cut(row.id_before) if row.kind == "changed" and row.id_before != row.id else "",
        "causes": [
            {"label": _label(each), "told": tell_line(each.told, _LONGEST), "stage": each.stage} for each in row.causes
        ],
        "fate": row.fate
        and {
            **asdict(row.fate),
            "reason": _cut(row.fate.reason),
            "detail": tell_line(row.fate.detail, _LONGEST),
        },
        "shown": {
            name: tell_line(value, _LONGEST)
            for name, value in row.shown.items()
            if name != "id" and name not in changed
        },
        "columns": columns,
        "groups": json.dumps(_list_groups(row), ensure_ascii=False),
    }


def _list_groups(row: RowChange) -> dict[str, list[str]]:
    """Return filter → values by which the page finds a row."""
    return {
        "kind": [row.kind],
        "cause": [_label(each) for each in row.causes],
        "column": [each.name for each in row.columns],
        "rejected": [_cut(row.fate.reason)] if row.fate else [],
    }


def _list_filters(diff: Diff) -> list[dict[str, Any]]:
    found: dict[str, dict[str, None]] = {}
    for row in diff.rows[:_MOST_ROWS]:
        for by, values in _list_groups(row).items():
            found.setdefault(by, {}).update(dict.fromkeys(values))
    return [{"by": by, "values": sorted(values)} for by, values in found.items() if len(values) > 1]


def _label(cause: Cause) -> str:
    return _cut(cause.label)


def _cut(name: str) -> str:
    return shorten_line(name, LONGEST_NAME)


def _tell_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
