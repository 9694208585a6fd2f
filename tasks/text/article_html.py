"""Extraction of a Wikipedia article's main text from MediaWiki's HTML (SLAQ Appendix A.1; BioKaLMA's leads).

data/lists/removed_from_articles.txt lists what is not main text: tags, classes, ids, styles and titles of elements, and
headings, which are removed with everything below them. The rest is read in document order as paragraphs: a `<p>`, a
list item, a term and its explanation, a quotation, and loose text between blocks are one each. Formulas become their
TeX, superscript numbers Unicode (10⁵, km²), other exponents follow a caret (10^5.5, 2^n). All white space becomes
single spaces, and what a removed part leaves behind is repaired: the brackets or the label of a pronunciation, the
space before a comma.

The parser (libxml2) follows nesting down to 2,048 elements and leaves out what lies deeper; rendered pages have some
dozens.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from lxml import etree, html

from factmill.tasks.errors import SettingsError

_BLOCK_TAG_NAMES = (
    "address article aside blockquote body caption center dd details div dl dt fieldset figcaption figure footer form "
    "header hr html li main nav ol p pre section summary table tbody td tfoot th thead tr ul"
)
_BLOCK_TAGS = frozenset(_BLOCK_TAG_NAMES.split())
_HEADING_LEVELS = {f"h{level}": level for level in range(1, 7)}
_SUPERSCRIPT_CHARACTERS = str.maketrans("0123456789+-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻")
_RAISED_NUMBER = re.compile(r"[+\-−]?[0-9]+[+\-−]?|[+\-−]")
_EXPONENT = re.compile(
    r"(?![aeo]\Z)[+\-−]?(?:[0-9]+[.,/][0-9]+|[0-9]*[a-zA-Zα-ω]|[0-9a-zA-Zα-ω]+(?: ?[+\-−/] ?[0-9a-zA-Zα-ω]+)+)"
)
"""Superscripts without Unicode characters: a fraction, a variable, a sum; not an ordinal's th or e."""
_EXPONENT_BASE = re.compile(r"[0-9)\]]$|(?<![^\W_])[^\W\d_]$")
"""What can have an exponent: a number, a bracket, a single letter."""
_BASE_SEARCH_PIECES = 6
"""Number of last pieces searched for a base: one in two elements leaves three, with the empty ends."""
_TEX = re.compile(r"\{\\(?:displaystyle|textstyle)\b(.*)\}", re.DOTALL)

_REMOVED_MARK = "\0"
"""Marks a removed part until the paragraph is repaired; parsed text never contains this character."""
_INNERMOST_BRACKETS = re.compile(r"\([^()]*\)")
_BRACKET_PART = re.compile(r"([;,]?)([^;,]*)")
_PRONUNCIATION_LABEL = re.compile(
    r"(?:.*:|(?:.*\s)?pronounced(?:\s+as)?|(?:.*\s)?pronunciation|and|or|also)?", re.DOTALL
)
"""What a removed pronunciation leaves of its part of a bracket."""
_REMOVED_BEFORE_PUNCTUATION = re.compile(rf"(?<![ {_REMOVED_MARK}])[ {_REMOVED_MARK}]++(?=[,;:!?)]|\.(?: |$))")
_SPACE_BEFORE_PUNCTUATION = re.compile(r"(?<!\.) (?!\. \.)(?=[,.](?: |$))")
"""Space before a comma or a full stop, but not in an ellipsis written with spaces."""


@dataclass(frozen=True, slots=True)
class RemovalRules:
    """Rules for what an article's text leaves out."""

    tags: frozenset[str]
    classes: frozenset[str]
    ids: frozenset[str]
    styles: tuple[str, ...]
    """Declarations without white space, such as `display:none`."""
    titles: frozenset[str]
    """Tooltips of elements."""
    headings: frozenset[str]
    """Case-folded."""


@dataclass(frozen=True, slots=True)
class ArticleSection:
    """Paragraphs between one heading and the next."""

    path: tuple[str, ...]
    """The heading, after its superior ones; empty for the lead."""
    level: int
    """1 to 6 as in h1 to h6; 0 for the lead."""
    paragraphs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ArticleMainText:
    """Main text of an article, without sections that have no paragraphs of their own."""

    sections: tuple[ArticleSection, ...]

    @property
    def lead(self) -> tuple[str, ...]:
        """The paragraphs before the first heading."""
        return self.sections[0].paragraphs if self.sections and not self.sections[0].path else ()

    @property
    def text(self) -> str:
        """All paragraphs, without the headings, separated by blank lines."""
        return "\n\n".join(paragraph for section in self.sections for paragraph in section.paragraphs)


def parse_removal_rules(entries: Iterable[str]) -> RemovalRules:
    """Parse a list like removed_from_articles.txt; each entry is a kind, a value, and an optional comment after #."""
    found: dict[str, list[str]] = {"tag": [], "class": [], "id": [], "style": [], "title": [], "heading": []}
    for entry in entries:
        kind, _, value = entry.partition("#")[0].strip().partition(" ")
        if kind not in found or not value.strip():
            raise SettingsError(
                f"list of what articles leave out: expected one of {', '.join(found)} and a value, found {entry!r}"
            )
        found[kind].append(value.strip())
    return RemovalRules(
        tags=frozenset(found["tag"]),
        classes=frozenset(found["class"]),
        ids=frozenset(found["id"]),
        styles=tuple(found["style"]),
        titles=frozenset(found["title"]),
        headings=frozenset(heading.casefold() for heading in found["heading"]),
    )


def extract_article_text(source: str, removed: RemovalRules) -> ArticleMainText:
    """Return the main text of a page from the HTML of action=parse, even broken, in time proportional to its length."""
    parser = html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    # the parser refuses an empty document; within a div nothing is empty
    root = html.document_fromstring(b"<div>" + source.encode("utf-8", "replace") + b"</div>", parser=parser)
    reader = _ArticleTextExtractor(removed)
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        if event == "end":
            reader.leave(element)
        elif not reader.enter(element):
            walk.skip_subtree()
    return reader.finish()


class _ArticleTextExtractor:
    """Collects paragraphs and sections during a walk over the tree; each instance serves one walk."""

    def __init__(self, removed: RemovalRules) -> None:
        self.rules = removed
        self.sections: list[ArticleSection] = []
        self.path: list[tuple[int, str]] = []
        self.paragraphs: list[str] = []
        self.pieces: list[str] = []
        self.heading_level = 0
        """Level of the heading that is being read; 0 outside headings."""
        self.removed_level = 0
        """Level of the heading below which everything is removed; 0: nothing is."""

    def enter(self, element: html.HtmlElement) -> bool:
        """Process the start of an element; False when its content is to be skipped."""
        tag = element.tag
        formula = _find_formula_tex_or_gap(element)
        if formula is not None:
            self.pieces.append(formula)
            return False
        if tag in _BLOCK_TAGS or tag in _HEADING_LEVELS:
            self._end_paragraph()
        if self._is_removed(element):
            self.pieces.append(_REMOVED_MARK)
            return False
        self.heading_level = _HEADING_LEVELS.get(tag, self.heading_level)
        if tag == "sup" and (raised := self._read_superscript(element)):
            self.pieces.append(raised)
            return False
        if tag == "br":
            self.pieces.append("\n")
        self.pieces.append(element.text or "")
        return True

    def leave(self, element: html.HtmlElement) -> None:
        """Process the end of an element and the text after it."""
        if element.tag in _BLOCK_TAGS or element.tag in _HEADING_LEVELS:
            self._end_paragraph()
        self.pieces.append(element.tail or "")

    def finish(self) -> ArticleMainText:
        """Return the collected sections."""
        self._end_paragraph()
        self._end_section()
        return ArticleMainText(tuple(self.sections))

    def _read_superscript(self, element: html.HtmlElement) -> str | None:
        """Return a superscript as plain text; None where it is neither an exponent nor a number."""
        holds_removed = any(self._is_removed(inner) for inner in element.iterdescendants())
        text = "" if holds_removed else element.text_content().strip()
        if _RAISED_NUMBER.fullmatch(text):
            return text.translate(_SUPERSCRIPT_CHARACTERS)
        if _EXPONENT.fullmatch(text) and _EXPONENT_BASE.search("".join(self.pieces[-_BASE_SEARCH_PIECES:])):
            return f"^{text}" if re.fullmatch(r"\W?[\w.,]+", text) else f"^({text})"
        return None

    def _is_removed(self, element: html.HtmlElement) -> bool:
        removed = self.rules
        if element.tag in removed.tags or element.get("id") in removed.ids or element.get("title") in removed.titles:
            return True
        classes = element.get("class")
        if classes and not removed.classes.isdisjoint(classes.split()):
            return True
        style = "".join(element.get("style", "").split()).lower()
        return bool(style) and any(one in style for one in removed.styles)

    def _end_paragraph(self) -> None:
        """End the current paragraph or heading; a block inside a heading ends it too."""
        text = _mend_text_around_removed_parts("".join(self.pieces))
        self.pieces.clear()
        if self.heading_level:
            level, self.heading_level = self.heading_level, 0
            if text:
                self._end_section()
                self.path = [(above, name) for above, name in self.path if above < level] + [(level, text)]
                if not self.removed_level or level <= self.removed_level:
                    is_removed = text.rstrip(" :").casefold() in self.rules.headings
                    self.removed_level = level if is_removed else 0
        elif text and not self.removed_level:
            self.paragraphs.append(text)

    def _end_section(self) -> None:
        if self.paragraphs:
            level = self.path[-1][0] if self.path else 0
            self.sections.append(ArticleSection(tuple(name for _, name in self.path), level, tuple(self.paragraphs)))
            self.paragraphs.clear()


def _find_formula_tex_or_gap(element: html.HtmlElement) -> str | None:
    """Return the TeX of a formula (an attribute, MathML or an image), or a gap without any; None: not a formula."""
    if element.tag != "math" and "mwe-math-element" not in element.get("class", "").split():
        return None
    for one in element.iter("math", "annotation", "img"):
        tex = one.get("alttext") or one.get("alt") or (one.text if one.tag == "annotation" else None)
        if tex and tex.strip():
            match = _TEX.fullmatch(tex.strip())
            return (match[1] if match else tex).strip()
    return _REMOVED_MARK


def _mend_bracket_with_removed_parts(match: re.Match[str]) -> str:
    """Return a bracket without the parts that contained only removed text; a gap when no part is left."""
    if _REMOVED_MARK not in match[0]:
        return match[0]
    kept: list[str] = []
    for separator, part in _BRACKET_PART.findall(match[0][1:-1]):
        is_label = _PRONUNCIATION_LABEL.fullmatch(part.replace(_REMOVED_MARK, "").strip())
        if (separator or part) and not (_REMOVED_MARK in part and is_label):
            kept.append(separator + part if kept else part)
    text = "".join(kept).strip(f" {_REMOVED_MARK}")
    return f"({text})" if text.strip(" ;,") else _REMOVED_MARK


def _mend_text_around_removed_parts(text: str) -> str:
    """Return text with single spaces, repaired where parts were removed."""
    text = " ".join(text.split())
    if _REMOVED_MARK in text:
        # inner brackets first; removed pronunciations leave none nested deeper than this
        for _ in range(3):
            text = _INNERMOST_BRACKETS.sub(_mend_bracket_with_removed_parts, text)
        text = _REMOVED_BEFORE_PUNCTUATION.sub(
            lambda match: "" if _REMOVED_MARK in match[0] else match[0], text
        ).replace(_REMOVED_MARK, "")
        text = " ".join(text.split())
    return _SPACE_BEFORE_PUNCTUATION.sub("", text)
