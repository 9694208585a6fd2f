"""Citations inside annotated text: how knowledge is told to a model, and how its citations are read (BioKaLMA, Table 9, §3.3).

    citation   = "[" ["qid:"] QID ["," "name:" text] ("," property ":" value)+ "]"
    missing    = "[NA]"

Labels may hold commas, colons and brackets, so nothing is split at those: a value ends where a comma, the label of a
known property and a colon follow, the longest label first, or where the citation's own bracket closes. Brackets are
paired over the whole text; a label whose own brackets do not pair is told with round ones (`format_label`), and compared
so. A value that holds ", ", a known label and ": " in a row cannot be told apart from two values and is found in no pool.

A bracket that opens like a citation and is none is malformed, with a reason, and never mended by guessing; any other
bracket ([1], [sic]) is text. All of this takes time linear in the text.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tasks.core.authoring.pieces import Piece
from tasks.text.values.dates import is_same_date

MalformedReason = Literal["not_closed", "no_qid", "no_property", "no_value", "stray_text"]
"""Its bracket is not closed; it does not open with a QID and a comma; no known property follows; a property has no value;
text that belongs to no known property stands behind the QID."""

Part = tuple[str, str]
"""A property's label and a value's."""

_HEAD = re.compile(r"(?:qid ?: ?)?(Q[1-9][0-9]*) ?(?=,|$)", re.IGNORECASE)
_NAME = re.compile(r", ?name ?: ?", re.IGNORECASE)
_MISSING = re.compile(r"\s*NA\s*")
_BRACKET = re.compile(r"[\[\]]")
_BETWEEN = re.compile(r"[\s,;]*")
_NO_SPACE_BEFORE = frozenset(".,;:!?)]}…")
_OPENING = ("(", "[", "{")
_ROUND = str.maketrans("[]", "()")


@dataclass(frozen=True, slots=True)
class Citation:
    """Knowledge of one item that the text before it rests on."""

    start: int
    """Place in the text without citations."""
    qid: str
    parts: tuple[Part, ...]
    """One at least."""


@dataclass(frozen=True, slots=True)
class MissingKnowledge:
    """[NA]: what stands before it needs knowledge that was not given (§2.1, "conscious incompetence")."""

    start: int


@dataclass(frozen=True, slots=True)
class Malformed:
    """What opens like a citation and is none."""

    start: int
    reason: MalformedReason
    text: str
    """As it was written, bracket and all."""


AnyCitation = Citation | MissingKnowledge | Malformed


@dataclass(frozen=True, slots=True)
class AnnotatedText:
    """A text and its citations, told apart."""

    text: str
    """Without citations, and without the spaces that these leave before punctuation."""
    citations: tuple[AnyCitation, ...]
    """In the order of the text."""


@dataclass(frozen=True, slots=True)
class MatchedCitations:
    """What of the citations is in a pool."""

    pieces: tuple[Piece, ...]
    """Cited pieces in the order of the text, each once."""
    removed: int
    """Properties with values that are in no pool, and malformed citations but for those that name an item alone."""


def format_label(label: str) -> str:
    """Return a label as citations hold it: on one line, brackets that do not pair made round."""
    line = " ".join(label.split())
    return line if _is_paired(line) else line.translate(_ROUND)


def format_citation(qid: str, name: str, parts: Iterable[Part]) -> str:
    """Return `[qid: Q1, name: Ada Lovelace, place of birth: London]`."""
    return f"[{_format_parts(qid, name, parts)}]"


def format_knowledge(name: str, pieces: Sequence[Piece]) -> str:
    """Return one person's pieces, one at least, as a line `{qid: Q1, name: Ada Lovelace, place of birth: London}`."""
    return f"{{{_format_parts(pieces[0].qid, name, ((piece.property, piece.value) for piece in pieces))}}}"


def parse_citations(text: str, properties: Collection[str]) -> AnnotatedText:
    """Tell a text from its citations; `properties` are the labels that a citation can name."""
    known = sorted(map(format_label, properties), key=lambda label: (-len(label), label))
    any_label = "|".join(map(re.escape, known)) or "(?!)"
    splits = re.compile(rf", ?({any_label}) ?:(?: |$)")
    opens = re.compile(rf"\[\s*(?:NA\s*\]|Q[1-9][0-9]*\s*[,:\]]|(?i:qid|name)\s*:|(?:{any_label})\s*:)")
    kept: list[str] = []
    length = end = 0
    citations: list[AnyCitation] = []
    for start, stop, is_closed in _find_brackets(text, opens):
        stretch = text[end:start]
        # what only parts two citations goes with them
        if not (citations and _BETWEEN.fullmatch(stretch)):
            kept.append((_join(kept, stretch) if citations else stretch).rstrip())
            length += len(kept[-1])
        citations.append(_read_citation(text[start:stop], is_closed, length, splits))
        end = stop
    kept.append(_join(kept, text[end:]) if citations else text[end:])
    return AnnotatedText("".join(kept), tuple(citations))


def match_citations(citations: Iterable[AnyCitation], pool: Sequence[Piece]) -> MatchedCitations:
    """Return which pieces of a pool are cited: same item, same labels, dates as dates however they are written.

    Of pieces that are told alike (two places of one name) the first in the pool counts. [NA] cites nothing.
    """
    by_label: dict[tuple[str, str, str], Piece] = {}
    dates: dict[tuple[str, str], list[Piece]] = {}
    for piece in pool:
        property_label = _compared(piece.property)
        by_label.setdefault((piece.qid, property_label, _compared(piece.value)), piece)
        if piece.value_qid is None:
            dates.setdefault((piece.qid, property_label), []).append(piece)
    cited: dict[Piece, None] = {}
    removed = 0
    for citation in citations:
        if isinstance(citation, Malformed):
            # a name alone, as in the paper's demonstration, claims nothing
            removed += citation.reason != "no_property"
        elif isinstance(citation, Citation):
            for property_label, value in citation.parts:
                key = (citation.qid, _compared(property_label))
                found = by_label.get((*key, _compared(value))) or _find_date(dates.get(key, ()), value)
                if found:
                    cited.setdefault(found)
                else:
                    removed += 1
    return MatchedCitations(tuple(cited), removed)


def _format_parts(qid: str, name: str, parts: Iterable[Part]) -> str:
    told = (f"{format_label(label)}: {format_label(value)}" for label, value in parts)
    return ", ".join([f"qid: {qid}", f"name: {format_label(name)}", *told])


def _is_paired(line: str) -> bool:
    depth = 0
    for bracket in _BRACKET.findall(line):
        depth += 1 if bracket == "[" else -1
        if depth < 0:
            return False
    return depth == 0


def _find_brackets(text: str, opens: re.Pattern[str]) -> Iterator[tuple[int, int, bool]]:
    """Yield (start, stop, whether it is closed) of what opens like a citation and lies in no other one.

    What is not closed goes as far as the next bracket that closes or opens a citation, or the end of the line.
    """
    closing: dict[int, int] = {}
    opened: list[int] = []
    for found in _BRACKET.finditer(text):
        if found[0] == "[":
            opened.append(found.start())
        elif opened:
            closing[opened.pop()] = found.end()
    ends = re.compile(rf"\]|(?={opens.pattern})|(?=\n)|$")
    at = 0
    while start := opens.search(text, at):
        closed = closing.get(start.start())
        if closed is None:
            end = ends.search(text, start.start() + 1)
            at = end.end() if end else len(text)
        else:
            at = closed
        yield start.start(), at, closed is not None


def _read_citation(written: str, is_closed: bool, start: int, splits: re.Pattern[str]) -> AnyCitation:
    if is_closed and _MISSING.fullmatch(written[1:-1]):
        return MissingKnowledge(start)
    read = _read_inside(" ".join(written[1:-1].split()), splits) if is_closed else "not_closed"
    return Malformed(start, read, written) if isinstance(read, str) else Citation(start, *read)


def _read_inside(inside: str, splits: re.Pattern[str]) -> tuple[str, tuple[Part, ...]] | MalformedReason:
    """Return QID and parts of what stands in a citation's bracket, or what is wrong with it."""
    head = _HEAD.match(inside)
    if not head:
        return "no_qid"
    name = _NAME.match(inside, head.end())
    before, *labels_and_values = splits.split(inside[(name or head).end() :])
    if before and not name:
        return "stray_text"
    if not labels_and_values:
        return "no_property"
    parts = tuple(zip(labels_and_values[::2], map(str.strip, labels_and_values[1::2]), strict=True))
    return (head[1].upper(), parts) if all(value for _, value in parts) else "no_value"


def _join(kept: Sequence[str], stretch: str) -> str:
    """Return the text behind a citation as it goes on what was kept, without the space that the citation leaves."""
    bare = stretch.lstrip()
    before = kept[-1][-1:] if kept else ""
    if not bare or before in ("", *_OPENING) or bare[0] in _NO_SPACE_BEFORE:
        return bare
    are_words = before.isalnum() and bare[0].isalnum()
    return f" {bare}" if are_words or len(bare) < len(stretch) else bare


def _compared(label: str) -> str:
    return unicodedata.normalize("NFC", format_label(label))


def _find_date(pieces: Iterable[Piece], value: str) -> Piece | None:
    return next((piece for piece in pieces if is_same_date(piece.value, value)), None)
