"""Wikitext as the HTML that MediaWiki's parser emits inside div.mw-parser-output.

Read are the plain kinds the embedded articles are written in (data/world/README.md) and some that real articles hold
and a client must be able to leave out: hatnotes, infoboxes, navigation boxes, thumbnails, notes with their list.
An unknown template becomes a red link to it, as in a real wiki.
"""

import re
from dataclasses import dataclass
from html import escape, unescape

from tasks.text.wikipedia_addresses import find_redirect
from tasks.world.data import Revision
from tasks.world.files.articles import CATEGORY_LINK
from tasks.world.wiki.inline import Found, InlineRenderer, Note, list_anchor, note_anchor
from tasks.world.wiki.pages import Page, Wiki, parse_title
from tasks.world.wiki.tables import render_table
from tasks.world.wiki.templates import BLOCK_MARK, render_template

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_NOTE = re.compile(r"<ref(?P<name>\s+name\s*=\s*[^>/]+?)?\s*(?:/>|>(?P<text>.*?)</ref>)", re.DOTALL | re.IGNORECASE)
_REFERENCES = re.compile(r"<references\s*/>", re.IGNORECASE)
_TEMPLATE = re.compile(r"\{\{((?:(?!\{\{|\}\}).)*)\}\}", re.DOTALL)
_HEADING = re.compile(r"(={2,6})\s*(.+?)\s*\1\s*")
_BLOCK_TAG = re.compile(r"</?(?:blockquote|div|center|pre)\b", re.IGNORECASE)
_FIGURE = re.compile(r"<figure.*?</figure>", re.DOTALL)
_BOX_MARK = re.compile("\x02(\\d+)\x02\x05?")
_VERBATIM = re.compile(r"<(nowiki|pre)>(.*?)</\1>", re.DOTALL | re.IGNORECASE)
_RULE = re.compile(r"-{4,}(.*)")
_LIST_TAGS = {"*": ("ul", "li"), "#": ("ol", "li"), ";": ("dl", "dt"), ":": ("dl", "dd")}
_NOTES_PLACE = "\x04notes\x04"


@dataclass(frozen=True, slots=True)
class Section:
    """One heading."""

    level: int
    line: str
    """HTML of the heading."""
    anchor: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """A revision as HTML, and what it refers to."""

    html: str
    sections: tuple[Section, ...]
    found: Found


def render_revision(wiki: Wiki, page: Page, revision: Revision, with_edit_links: bool = True) -> Rendered:
    """Return a revision of a page as MediaWiki would show it."""
    redirect = find_redirect(revision.text)
    target, text = redirect or (None, revision.text)
    renderer = _PageRenderer(wiki, page.title, with_edit_links)
    return renderer.render(text, _render_redirect(renderer.inline, target) if target else "")


def _render_redirect(inline: InlineRenderer, target: str) -> str:
    link = inline.link_to(parse_title(target), escape(target, quote=False))
    return f'<div class="redirectMsg"><p>Redirect to:</p><ul class="redirectText"><li>{link}</li></ul></div>'


def _wrap(html: str) -> str:
    return f'<div class="mw-content-ltr mw-parser-output" lang="en" dir="ltr">{html}\n</div>'


class _PageRenderer:
    """Renders one text; a renderer serves once."""

    def __init__(self, wiki: Wiki, title: str, with_edit_links: bool) -> None:
        self.title = title
        self.with_edit_links = with_edit_links
        self.found = Found()
        self.inline = InlineRenderer(wiki, self.found)
        self.sections: list[Section] = []
        self.blocks: list[str] = []
        self.boxes: list[str] = []

    def render(self, text: str, above: str = "") -> Rendered:
        text = _COMMENT.sub("", _VERBATIM.sub(self._take_verbatim, text))
        text = _NOTE.sub(self._take_note, text)
        text = _REFERENCES.sub("{{Reflist}}", text)
        text = escape(CATEGORY_LINK.sub("", text), quote=False)
        while (changed := _TEMPLATE.sub(self._take_template, text)) != text:
            text = changed
        self._render_blocks(text.split("\n"))
        html = "\n".join(self.blocks)
        while (changed := _BOX_MARK.sub(lambda match: self.boxes[int(match[1])], html)) != html:
            html = changed
        if self.found.notes and _NOTES_PLACE not in html:
            html += "\n" + _NOTES_PLACE
        if _NOTES_PLACE in html:
            html = html.replace(_NOTES_PLACE, self._render_notes(), 1).replace(_NOTES_PLACE, "")
        if len(self.sections) > 3:
            html = html.replace(
                '<div class="mw-heading', '<meta property="mw:PageProp/toc" />\n<div class="mw-heading', 1
            )
        return Rendered(_wrap(above + html), tuple(self.sections), self.found)

    def _take_note(self, match: re.Match[str]) -> str:
        name = escape((match["name"] or "").partition("=")[2].strip().strip("\"'"), quote=True).replace(" ", "_")
        text = escape((match["text"] or "").strip(), quote=False)
        known = next((number for number, note in enumerate(self.found.notes) if name and note.name == name), None)
        if known is None:
            self.found.notes.append(Note(text, name))
            known = len(self.found.notes) - 1
        elif text:
            self.found.notes[known].text = text
        return f"\x01{known}\x01"

    def _take_verbatim(self, match: re.Match[str]) -> str:
        shown = escape(unescape(match[2]), quote=False)
        is_block = match[1].lower() == "pre"
        self.boxes.append(f"<pre>{shown.removeprefix(chr(10))}</pre>" if is_block else shown)
        return BLOCK_MARK.format(len(self.boxes) - 1) if is_block else f"\x02{len(self.boxes) - 1}\x02"

    def _take_template(self, match: re.Match[str]) -> str:
        html, is_block = render_template(match[1], self.inline, _NOTES_PLACE)
        self.boxes.append(html)
        return BLOCK_MARK.format(len(self.boxes) - 1) if is_block else f"\x02{len(self.boxes) - 1}\x02"

    def _render_blocks(self, lines: list[str]) -> None:
        paragraph: list[str] = []
        place = 0
        while place < len(lines):
            line, taken = lines[place], 1
            heading = _HEADING.fullmatch(line)
            if line.startswith("{|"):
                taken = _table_length(lines[place:])
                self._end_paragraph(paragraph)
                self.blocks.append(render_table(lines[place : place + taken], self.inline))
            elif line[:1] in _LIST_TAGS:
                taken = _run_length(lines[place:])
                self._end_paragraph(paragraph)
                self.blocks.append(self._render_list(lines[place : place + taken]))
            elif heading:
                self._end_paragraph(paragraph)
                self.blocks.append(self._render_heading(len(heading[1]), heading[2]))
            elif rule := _RULE.match(line):
                self._end_paragraph(paragraph)
                self.blocks.append("<hr />")
                paragraph += [rule[1]] if rule[1].strip() else []
            elif line.startswith(" ") and line.strip():
                self._end_paragraph(paragraph)
                taken = _preformatted_length(lines[place:])
                text = "\n".join(line[1:] for line in lines[place : place + taken])
                self.blocks.append(f"<pre>{self.inline.render(text)}\n</pre>")
            elif not line.strip() or re.fullmatch("(?:\x02\\d+\x02\x05)+", line.strip()):
                self._end_paragraph(paragraph)
                if line.strip():
                    self.blocks.append(line.strip().replace("\x05", ""))
            else:
                paragraph.append(line)
            place += taken
        self._end_paragraph(paragraph)

    def _end_paragraph(self, lines: list[str]) -> None:
        if lines:
            html = self.inline.render("\n".join(lines)).replace("\x05", "")
            # a figure is no part of the paragraph that it is written in
            self.blocks.extend(_FIGURE.findall(html))
            html = _FIGURE.sub("", html).strip()
            if html:
                self.blocks.append(html if _BLOCK_TAG.match(html) else f"<p>{html}\n</p>")
            lines.clear()

    def _render_heading(self, level: int, text: str) -> str:
        line = self.inline.render(text)
        anchor = re.sub(r"<[^>]+>", "", line).strip().replace(" ", "_")
        count = sum(
            section.anchor.rpartition("_")[0] == anchor or section.anchor == anchor for section in self.sections
        )
        anchor = f"{anchor}_{count + 1}" if count else anchor
        self.sections.append(Section(level, line, anchor))
        number = len(self.sections)
        href = f"/w/index.php?title={escape(self.title.replace(' ', '_'))}&amp;action=edit&amp;section={number}"
        edit = (
            '<span class="mw-editsection"><span class="mw-editsection-bracket">[</span>'
            f'<a href="{href}" title="Edit section"><span>edit</span></a>'
            '<span class="mw-editsection-bracket">]</span></span>'
            if self.with_edit_links
            else ""
        )
        return f'<div class="mw-heading mw-heading{level}"><h{level} id="{anchor}">{line}</h{level}>{edit}</div>'

    def _render_list(self, lines: list[str], depth: int = 1) -> str:
        """Return lines that begin with the same kind of list marker; deeper markers become lists within."""
        html, place, tag = "", 0, ""
        while place < len(lines):
            outer, inner = _LIST_TAGS[lines[place][depth - 1]]
            if outer != tag:
                html = (html.rstrip("\n") + f"</{tag}>\n" if tag else "") + f"<{outer}>"
                tag = outer
            below = place + 1
            while below < len(lines) and lines[below][depth : depth + 1] in _LIST_TAGS and lines[below][depth:]:
                below += 1
            text, definition = lines[place][depth:].strip(), ""
            if inner == "dt" and " : " in text:
                text, definition = text.split(" : ", 1)
            nested = f"\n{self._render_list(lines[place + 1 : below], depth + 1)}" if below > place + 1 else ""
            html += f"<{inner}>{self.inline.render(text)}{nested}</{inner}>\n"
            html += f"<dd>{self.inline.render(definition)}</dd>\n" if definition else ""
            place = below
        return html.rstrip("\n") + f"</{tag}>"

    def _render_notes(self) -> str:
        entries = []
        # a note may hold marks of its own, so the text comes first and the uses are counted after
        texts = [self.inline.render(note.text) for note in self.found.notes]
        for number, (note, text) in enumerate(zip(self.found.notes, texts, strict=True)):
            marks = [f'<a href="#{note_anchor(note, number, use)}">^</a>' for use in range(max(note.uses, 1))]
            back = f'<span class="mw-cite-backlink"><b>{" ".join(marks)}</b></span>'
            body = f'<span class="reference-text">{text}</span>'
            entries.append(f'<li id="{list_anchor(note, number)}">{back} {body}\n</li>')
        return '<div class="mw-references-wrap"><ol class="references">\n' + "\n".join(entries) + "\n</ol></div>"


def _table_length(lines: list[str]) -> int:
    depth = 0
    for number, line in enumerate(lines, 1):
        depth += line.lstrip().startswith("{|") - line.lstrip().startswith("|}")
        if depth == 0:
            return number
    return len(lines)


def _preformatted_length(lines: list[str]) -> int:
    """Count the leading lines that begin with a space and hold more than white space."""
    return next(
        (number for number, line in enumerate(lines) if not line.startswith(" ") or not line.strip()), len(lines)
    )


def _run_length(lines: list[str]) -> int:
    """Count the leading lines that are list items."""
    return next((number for number, line in enumerate(lines) if line[:1] not in _LIST_TAGS or not line), len(lines))
