"""The main text of a Wikipedia article out of the HTML that MediaWiki renders (SLAQ Appendix A.1; BioKaLMA's leads).

What is no main text is told by data/lists/removed_from_articles.txt: tags, classes, ids, styles and titles of
elements, and headings, which take with them all that stands below. The rest is read in document order as paragraphs: a
`<p>`, an item of a list, a term and its explanation, a quotation, and loose text between blocks are one each. Formulas
are given as their TeX, raised numbers as Unicode has them (10⁵, km²), other exponents behind a caret (10^5.5, 2^n). All white space becomes single spaces, and what a
removed part leaves behind is mended in its place: the brackets or the label of a pronunciation, the space before a
comma.

The parser (libxml2) follows nesting down to 2,048 elements and leaves out what lies deeper; rendered pages have some
dozens.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from lxml import etree, html

from factmill.tasks.errors import SettingsError

_BLOCK_NAMES = (
    "address article aside blockquote body caption center dd details div dl dt fieldset figcaption figure footer form "
    "header hr html li main nav ol p pre section summary table tbody td tfoot th thead tr ul"
)
_BLOCKS = frozenset(_BLOCK_NAMES.split())
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_RAISED = str.maketrans("0123456789+-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻")
_RAISED_NUMBER = re.compile(r"[+\-−]?[0-9]+[+\-−]?|[+\-−]")
_EXPONENT = re.compile(
    r"(?![aeo]\Z)[+\-−]?(?:[0-9]+[.,/][0-9]+|[0-9]*[a-zA-Zα-ω]|[0-9a-zA-Zα-ω]+(?: ?[+\-−/] ?[0-9a-zA-Zα-ω]+)+)"
)
"""What is raised and Unicode has no letters for: a fraction, a variable, a sum. An ordinal's th or e is none."""
_BASE = re.compile(r"[0-9)\]]$|(?<![^\W_])[^\W\d_]$")
"""What can have an exponent: a number, a bracket, a single letter."""
_NEAR = 6
"""Among so many pieces a base is looked for: one in two elements leaves three, with the empty ends."""
_TEX = re.compile(r"\{\\(?:displaystyle|textstyle)\b(.*)\}", re.DOTALL)

_GAP = "\0"
"""Stands where a part was removed, until the paragraph is mended; no parsed text holds this character."""
_BRACKETS = re.compile(r"\([^()]*\)")
_PART = re.compile(r"([;,]?)([^;,]*)")
_LABEL = re.compile(r"(?:.*:|(?:.*\s)?pronounced(?:\s+as)?|(?:.*\s)?pronunciation|and|or|also)?", re.DOTALL)
"""What a removed pronunciation leaves of its part of a bracket."""
_GAP_BEFORE_MARK = re.compile(rf"(?<![ {_GAP}])[ {_GAP}]++(?=[,;:!?)]|\.(?: |$))")
_SPACE_BEFORE_MARK = re.compile(r"(?<!\.) (?!\. \.)(?=[,.](?: |$))")
"""Space before a comma or a full stop, but not in an ellipsis written with spaces."""


@dataclass(frozen=True, slots=True)
class Removed:
    """What is left out of an article's text."""

    tags: frozenset[str]
    classes: frozenset[str]
    ids: frozenset[str]
    styles: tuple[str, ...]
    """Declarations without white space, such as `display:none`."""
    titles: frozenset[str]
    """Words that an element shows when it is pointed at."""
    headings: frozenset[str]
    """Case-folded."""


@dataclass(frozen=True, slots=True)
class Section:
    """What stands between one heading and the next."""

    path: tuple[str, ...]
    """The heading, behind those it is subordinate to; empty for the lead."""
    level: int
    """1 to 6 as in h1 to h6; 0 for the lead."""
    paragraphs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Article:
    """The main text of an article; sections without paragraphs of their own are left out."""

    sections: tuple[Section, ...]

    @property
    def lead(self) -> tuple[str, ...]:
        """The paragraphs before the first heading."""
        return self.sections[0].paragraphs if self.sections and not self.sections[0].path else ()

    @property
    def text(self) -> str:
        """All paragraphs, without the headings, separated by blank lines."""
        return "\n\n".join(paragraph for section in self.sections for paragraph in section.paragraphs)


def read_removed(entries: Iterable[str]) -> Removed:
    """Read the entries of a list like removed_from_articles.txt: a kind, a value, and perhaps a comment behind #."""
    found: dict[str, list[str]] = {"tag": [], "class": [], "id": [], "style": [], "title": [], "heading": []}
    for entry in entries:
        kind, _, value = entry.partition("#")[0].strip().partition(" ")
        if kind not in found or not value.strip():
            raise SettingsError(
                f"list of what articles leave out: expected one of {', '.join(found)} and a value, found {entry!r}"
            )
        found[kind].append(value.strip())
    return Removed(
        tags=frozenset(found["tag"]),
        classes=frozenset(found["class"]),
        ids=frozenset(found["id"]),
        styles=tuple(found["style"]),
        titles=frozenset(found["title"]),
        headings=frozenset(heading.casefold() for heading in found["heading"]),
    )


def read_article(source: str, removed: Removed) -> Article:
    """Return the main text of a page, given as the HTML of action=parse; no HTML is too broken to be read.

    Takes time in proportion to the length.
    """
    parser = html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    # the parser refuses an empty document; within a div nothing is empty
    root = html.document_fromstring(b"<div>" + source.encode("utf-8", "replace") + b"</div>", parser=parser)
    reader = _Reader(removed)
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        if event == "end":
            reader.leave(element)
        elif not reader.enter(element):
            walk.skip_subtree()
    return reader.finish()


class _Reader:
    """Collects paragraphs and sections while the tree is walked; a reader serves once."""

    def __init__(self, removed: Removed) -> None:
        self.removed = removed
        self.sections: list[Section] = []
        self.path: list[tuple[int, str]] = []
        self.paragraphs: list[str] = []
        self.pieces: list[str] = []
        self.heading_level = 0
        """Level of the heading that is being read; 0 outside headings."""
        self.removed_level = 0
        """Level of the heading below which all is left out; 0 when nothing is."""

    def enter(self, element: html.HtmlElement) -> bool:
        """Take in the start of an element; False when nothing within it is to be read."""
        tag = element.tag
        formula = _find_formula(element)
        if formula is not None:
            self.pieces.append(formula)
            return False
        if tag in _BLOCKS or tag in _HEADINGS:
            self._end_paragraph()
        if self._is_removed(element):
            self.pieces.append(_GAP)
            return False
        self.heading_level = _HEADINGS.get(tag, self.heading_level)
        if tag == "sup" and (raised := self._read_raised(element)):
            self.pieces.append(raised)
            return False
        if tag == "br":
            self.pieces.append("\n")
        self.pieces.append(element.text or "")
        return True

    def leave(self, element: html.HtmlElement) -> None:
        """Take in the end of an element and the text behind it."""
        if element.tag in _BLOCKS or element.tag in _HEADINGS:
            self._end_paragraph()
        self.pieces.append(element.tail or "")

    def finish(self) -> Article:
        """Return what was collected."""
        self._end_paragraph()
        self._end_section()
        return Article(tuple(self.sections))

    def _read_raised(self, element: html.HtmlElement) -> str | None:
        """Return what is raised as plain text has it; None where it is no exponent and no raised number."""
        text = (
            ""
            if any(self._is_removed(inner) for inner in element.iterdescendants())
            else element.text_content().strip()
        )
        if _RAISED_NUMBER.fullmatch(text):
            return text.translate(_RAISED)
        if _EXPONENT.fullmatch(text) and _BASE.search("".join(self.pieces[-_NEAR:])):
            return f"^{text}" if re.fullmatch(r"\W?[\w.,]+", text) else f"^({text})"
        return None

    def _is_removed(self, element: html.HtmlElement) -> bool:
        removed = self.removed
        if element.tag in removed.tags or element.get("id") in removed.ids or element.get("title") in removed.titles:
            return True
        classes = element.get("class")
        if classes and not removed.classes.isdisjoint(classes.split()):
            return True
        style = "".join(element.get("style", "").split()).lower()
        return bool(style) and any(one in style for one in removed.styles)

    def _end_paragraph(self) -> None:
        """Make what was collected a paragraph, or the heading that was being read: a block within ends that too."""
        text = _mend("".join(self.pieces))
        self.pieces.clear()
        if self.heading_level:
            level, self.heading_level = self.heading_level, 0
            if text:
                self._end_section()
                self.path = [(above, name) for above, name in self.path if above < level] + [(level, text)]
                if not self.removed_level or level <= self.removed_level:
                    is_removed = text.rstrip(" :").casefold() in self.removed.headings
                    self.removed_level = level if is_removed else 0
        elif text and not self.removed_level:
            self.paragraphs.append(text)

    def _end_section(self) -> None:
        if self.paragraphs:
            level = self.path[-1][0] if self.path else 0
            self.sections.append(Section(tuple(name for _, name in self.path), level, tuple(self.paragraphs)))
            self.paragraphs.clear()


def _find_formula(element: html.HtmlElement) -> str | None:
    """Return a formula's TeX, a gap when it has none; None when the element is no formula.

    The extension Math gives the TeX with hidden MathML, as an attribute or within, and with an image beside it.
    """
    if element.tag != "math" and "mwe-math-element" not in element.get("class", "").split():
        return None
    for one in element.iter("math", "annotation", "img"):
        tex = one.get("alttext") or one.get("alt") or (one.text if one.tag == "annotation" else None)
        if tex and tex.strip():
            match = _TEX.fullmatch(tex.strip())
            return (match[1] if match else tex).strip()
    return _GAP


def _mend(text: str) -> str:
    """Return text with single spaces, mended where parts were removed."""
    text = " ".join(text.split())
    if _GAP in text:
        # brackets within brackets first; deeper ones than these are not made by leaving out pronunciations
        for _ in range(3):
            text = _BRACKETS.sub(_mend_bracket, text)
        text = _GAP_BEFORE_MARK.sub(lambda match: "" if _GAP in match[0] else match[0], text).replace(_GAP, "")
        text = " ".join(text.split())
    return _SPACE_BEFORE_MARK.sub("", text)


def _mend_bracket(match: re.Match[str]) -> str:
    """Return a bracket without the parts of it that were nothing but what was removed; a gap when no other is left."""
    if _GAP not in match[0]:
        return match[0]
    kept = [
        (separator, part)
        for separator, part in _PART.findall(match[0][1:-1])
        if _GAP not in part or not _LABEL.fullmatch(part.replace(_GAP, "").strip())
    ]
    kept = [(separator, part) for separator, part in kept if separator or part]
    text = "".join(separator + part if place else part for place, (separator, part) in enumerate(kept))
    text = text.strip(f" {_GAP}")
    return f"({text})" if text.strip(" ;,") else _GAP
