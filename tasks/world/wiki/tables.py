"""Tables of wikitext, `{| … |}`, as HTML."""

import re
from dataclasses import dataclass, field

from tasks.world.wiki.inline import InlineRenderer

_ATTRIBUTES = re.compile(r"(?:\s*[\w-]+\s*=\s*(?:\"[^\"]*\"|'[^']*'|[\w%#.-]+))+\s*")


@dataclass(slots=True)
class _Cell:
    tag: str
    attributes: str
    lines: list[str]


@dataclass(slots=True)
class _Row:
    attributes: str
    cells: list[_Cell] = field(default_factory=list)


def render_table(lines: list[str], inline: InlineRenderer) -> str:
    """Return the HTML of a table from its `{|` line to its `|}` line; text is HTML-escaped already."""
    attributes, caption, rows = _read_table(lines)
    html = f"<table{_attributes(attributes)}>\n"
    if caption is not None:
        html += f"<caption>{inline.render(caption)}\n</caption>\n"
    html += "<tbody>"
    for row in rows:
        if row.cells:
            cells = [
                f"<{cell.tag}{_attributes(cell.attributes)}>{_render_cell(cell, inline)}\n</{cell.tag}>"
                for cell in row.cells
            ]
            html += f"<tr{_attributes(row.attributes)}>\n" + "\n".join(cells) + "</tr>\n"
    return html.rstrip("\n") + "</tbody></table>"


def _render_cell(cell: _Cell, inline: InlineRenderer) -> str:
    if any(line.startswith("{|") for line in cell.lines):
        start = next(number for number, line in enumerate(cell.lines) if line.startswith("{|"))
        return inline.render("\n".join(cell.lines[:start])) + "\n" + render_table(cell.lines[start:], inline)
    return inline.render("\n".join(cell.lines).strip())


def _read_table(lines: list[str]) -> tuple[str, str | None, list[_Row]]:
    caption: str | None = None
    rows = [_Row("")]
    depth = 0
    for line in (line.strip() for line in lines[1:]):
        if line.startswith("{|") or depth:
            depth += line.startswith("{|") - line.startswith("|}")
            if rows[-1].cells:
                rows[-1].cells[-1].lines.append(line)
        elif line.startswith("|}"):
            break
        elif line.startswith("|+"):
            caption = _split_attributes(line[2:])[1]
        elif line.startswith("|-"):
            rows.append(_Row(line.lstrip("|-")))
        elif line.startswith(("|", "!")):
            rows[-1].cells.extend(_read_cells(line))
        elif rows[-1].cells:
            rows[-1].cells[-1].lines.append(line)
    return lines[0][2:], caption, rows


def _read_cells(line: str) -> list[_Cell]:
    tag = "th" if line.startswith("!") else "td"
    parts = re.split(r"\|\||!!", line[1:]) if tag == "th" else line[1:].split("||")
    return [_Cell(tag, *_as_cell(part)) for part in parts]


def _as_cell(part: str) -> tuple[str, list[str]]:
    attributes, text = _split_attributes(part)
    return attributes, [text.strip()]


def _split_attributes(text: str) -> tuple[str, str]:
    """Split `style="…" | text`; a bar within a link is no border."""
    before, bar, after = text.partition("|")
    if bar and "[[" not in before and _ATTRIBUTES.fullmatch(before):
        return before, after.strip()
    return "", text.strip()


def _attributes(text: str) -> str:
    text = text.strip()
    return f" {text}" if text and _ATTRIBUTES.fullmatch(text) else ""
