"""What stands within a line of wikitext, as HTML: links, bold and italic, notes, a few templates.

The text comes HTML-escaped already, so only the markup of wikitext is left to read.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from html import unescape
from urllib.parse import quote

from tasks.world.wiki.pages import CATEGORY, FILE, BadTitleError, Title, Wiki, parse_title

NOTE_MARK = re.compile("\x01(\\d+)\x01")
_LINK = re.compile(r"\[\[([^\[\]|]+)(?:\|([^\[\]]*))?\]\]([a-z]*)")
_EXTERNAL = re.compile(r"\[(https?://[^\s\]]+)(?:\s+([^\]]+))?\]")
_BARE_URL = re.compile(r"(?<![\"=>/\w])(https?://[^\s<>\[\]\"]+[\w/])")
_ALLOWED_TAG = re.compile(
    r"&lt;(/?(?:sub|sup|small|big|b|i|em|strong|s|u|code|kbd|var|cite|q|abbr|blockquote|br|wbr|div|span|p|center|del|ins)"
    r"(?:\s+(?:class|id|style|title|lang|dir)\s*=\s*\"[^\"<>\x02\x03]*\")*\s*/?)&gt;",
    re.IGNORECASE,
)
_ENTITY = re.compile(r"&amp;(#\d+|#x[0-9a-fA-F]+|[a-zA-Z][a-zA-Z0-9]*);")


@dataclass(slots=True)
class Note:
    """One footnote."""

    text: str
    """Wikitext, HTML-escaped."""
    name: str
    uses: int = 0


@dataclass(slots=True)
class Found:
    """What a text refers to, gathered while it is rendered; dictionaries keep the order."""

    links: dict[str, Title] = field(default_factory=dict)
    files: dict[str, None] = field(default_factory=dict)
    templates: dict[str, None] = field(default_factory=dict)
    external: dict[str, None] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)


class InlineRenderer:
    """Renders runs of text within one page."""

    def __init__(self, wiki: Wiki, found: Found) -> None:
        self.wiki = wiki
        self.found = found
        self.numbered = 0
        """How many links outside without words of their own there have been."""

    def render(self, text: str) -> str:
        """Return escaped wikitext as HTML."""
        kept: list[str] = []

        def keep(html: str) -> str:
            kept.append(html)
            return f"\x03{len(kept) - 1}\x03"

        text = _EXTERNAL.sub(lambda m: keep(self._external(m[1], m[2] or self._next_number())), text)
        # innermost first, so that a link within a caption is there before the caption's file
        while (changed := _LINK.sub(lambda m: keep(self._link(m[1], m[2], m[3])), text)) != text:
            text = changed
        text = _BARE_URL.sub(lambda m: keep(self._external(m[1], None)), text)
        text = _ALLOWED_TAG.sub(lambda m: f"<{m[1]}>", _ENTITY.sub(r"&\1;", _render_quotes(text)))
        text = NOTE_MARK.sub(lambda m: self._note_mark(int(m[1])), text)
        while "\x03" in text:
            text = re.sub("\x03(\\d+)\x03", lambda m: kept[int(m[1])], text)
        return text

    def link_to(self, title: Title, label: str) -> str:
        """Return an HTML link to a page, red when there is none."""
        name = title.full
        self.found.links.setdefault(name, title)
        page = self.wiki.by_title.get(name)
        anchor = f"#{quote(title.fragment.replace(' ', '_'))}" if title.fragment else ""
        if page is None and title.namespace not in {FILE, -1}:
            href = f"/w/index.php?title={page_path(name)}&amp;action=edit&amp;redlink=1"
            return f'<a href="{href}" class="new" title="{_attribute(name)} (page does not exist)">{label}</a>'
        css = ' class="mw-redirect"' if page and page.redirect_to else ""
        return f'<a href="/wiki/{page_path(name)}{anchor}"{css} title="{_attribute(name)}">{label}</a>'

    def _link(self, target: str, label: str | None, tail: str) -> str:
        if target.startswith("#") and target[1:].strip():
            anchor = quote(unescape(target[1:]).strip().replace(" ", "_"))
            return f'<a href="#{anchor}">{_render_quotes(target if label is None else label)}{tail}</a>'
        try:
            title = parse_title(unescape(target))
        except BadTitleError:
            return f"[[{target}{'' if label is None else '|' + label}]]{tail}"
        if title.namespace == FILE and not target.lstrip().startswith(":"):
            return self._file(title, label or "") + tail
        if title.namespace == CATEGORY and not target.lstrip().startswith(":"):
            return tail
        shown = label if label is not None else target.lstrip(" :")
        return self.link_to(title, _render_quotes(shown) + tail)

    def _file(self, title: Title, options: str) -> str:
        self.found.files[title.name.replace(" ", "_")] = None
        *settings, caption = options.split("|")
        if caption.strip() in {"thumb", "thumbnail", "frame", "left", "right", "center", "none"}:
            settings, caption = [*settings, caption], ""
        href = f"/wiki/{page_path(title.full)}"
        image = f'<img alt="" src="//upload.wikimedia.org/{page_path(title.name)}" class="mw-file-element" />'
        link = f'<a href="{href}" class="mw-file-description">{image}</a>'
        if not {"thumb", "thumbnail", "frame"} & {setting.strip() for setting in settings}:
            return f'<span class="mw-default-size" typeof="mw:File">{link}</span>'
        shown = _render_quotes(caption.strip())
        return f'<figure class="mw-default-size" typeof="mw:File/Thumb">{link}<figcaption>{shown}</figcaption></figure>'

    def _next_number(self) -> str:
        self.numbered += 1
        return f"[{self.numbered}]"

    def _external(self, url: str, label: str | None) -> str:
        self.found.external[unescape(url)] = None
        kind = "text" if label else "free"
        shown = _render_quotes(label) if label else url
        return f'<a rel="nofollow" class="external {kind}" href="{url}">{shown}</a>'

    def _note_mark(self, number: int) -> str:
        note = self.found.notes[number]
        mark = note_anchor(note, number, note.uses)
        note.uses += 1
        bracket = '<span class="cite-bracket">&#91;</span>{}<span class="cite-bracket">&#93;</span>'
        link = f'<a href="#{list_anchor(note, number)}">{bracket.format(number + 1)}</a>'
        return f'<sup id="{mark}" class="reference">{link}</sup>'


def note_anchor(note: Note, number: int, use: int) -> str:
    """Return the id of a note's mark in the text."""
    return f"cite_ref-{note.name}_{number + 1}-{use}" if note.name else f"cite_ref-{number + 1}"


def list_anchor(note: Note, number: int) -> str:
    """Return the id of a note in the list of references."""
    return f"cite_note-{note.name}-{number + 1}" if note.name else f"cite_note-{number + 1}"


def page_path(title: str) -> str:
    """Return a title as it stands in an address."""
    return quote(title.replace(" ", "_"), safe=";@$!*(),/:~")


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def _render_quotes(text: str) -> str:
    """Turn runs of apostrophes into bold and italic, line by line, closing at the end of a line as MediaWiki does."""
    return "\n".join(_render_quotes_of_line(line) for line in text.split("\n"))


def _render_quotes_of_line(line: str) -> str:
    if "''" not in line:
        return line
    opened: list[str] = []

    def toggle(tag: str) -> str:
        if tag not in opened:
            opened.append(tag)
            return f"<{tag}>"
        # tags opened later are closed before and opened again, so that the HTML nests
        inner = opened[opened.index(tag) + 1 :]
        opened.remove(tag)
        return "".join(f"</{t}>" for t in reversed(inner)) + f"</{tag}>" + "".join(f"<{t}>" for t in inner)

    marks: dict[int, Callable[[], str]] = {
        2: lambda: toggle("i"),
        3: lambda: toggle("b"),
        5: lambda: toggle(opened[-1]) + toggle(opened[-1]) if len(opened) == 2 else toggle("i") + toggle("b"),
    }

    def replace(match: re.Match[str]) -> str:
        length = len(match[0])
        # four apostrophes are one and bold, six and more are some and both
        plain = 1 if length == 4 else max(length - 5, 0)
        return "'" * plain + marks[length - plain]()

    line = re.sub("'{2,}", replace, line)
    return line + "".join(f"</{tag}>" for tag in reversed(opened))
