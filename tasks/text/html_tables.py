"""Short HTML tables for notebooks: every cell is escaped, since texts of sources and models may hold HTML.

No colours are set, so that a table is readable on a light and on a dark background.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any

from factmill.tasks.text.sanitize import escape_control_characters

MAX_SHOWN_ROWS = 10
"""Maximum number of rows of a table in a notebook."""
_MAX_CELL_CHARACTERS = 120
_MAX_LIST_ENTRIES = 6
_NOTE_STYLE = "opacity: 0.75; font-size: 90%"
_CELL_STYLE = "text-align: left; vertical-align: top"


def format_html_cell_content(value: Any) -> str:
    """Format a value as the escaped content of a cell, at most 120 characters; empty for None."""
    line = escape_control_characters(" ".join(_format_plain(value).split()))
    return escape(line if len(line) <= _MAX_CELL_CHARACTERS else f"{line[: _MAX_CELL_CHARACTERS - 1]}…")


def _format_plain(value: Any) -> str:
    if value is None or isinstance(value, str):
        return (value or "")[: _MAX_CELL_CHARACTERS * 4]
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    if isinstance(value, list | tuple):
        shown = " · ".join(map(_format_plain, value[:_MAX_LIST_ENTRIES]))
        return shown + (f" · {len(value) - _MAX_LIST_ENTRIES} more" if len(value) > _MAX_LIST_ENTRIES else "")
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def render_titled_html_table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[Any]], notes: Iterable[str] = ()
) -> str:
    """Return a table with a title above and notes below as HTML; title, headings, cells and notes are escaped here."""
    head = "".join(f'<th style="{_CELL_STYLE}">{escape(heading)}</th>' for heading in headings)
    lines = (
        "".join(f'<td style="{_CELL_STYLE}">{format_html_cell_content(cell)}</td>' for cell in row) for row in rows
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if headings else ""
    below = "".join(f'<div style="{_NOTE_STYLE}">{escape(escape_control_characters(note))}</div>' for note in notes)
    return f'<div style="overflow-x: auto"><div><b>{escape(escape_control_characters(title))}</b></div>{table}{below}</div>'


def format_lines_as_html(lines: Iterable[str]) -> str:
    """Return lines of text, with their spaces, as HTML."""
    text = escape(escape_control_characters("\n".join(lines)))
    return f'<pre style="white-space: pre-wrap">{text}</pre>'
