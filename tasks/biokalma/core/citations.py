"""Parse citations out of a text: an answer, or an annotated paragraph (BioKaLMA, §2.1, §3.3, Table 9).

    citation = "[" qid ["," name] ("," property ":" value)+ ("," qid ("," property ":" value)+)* "]"
    qid      = ["qid:"] "Q" number
    name     = ["name:"] text
    mark     = "[NA]"

A bracket is a citation or mark if it opens with a QID, `qid:` or NA, or contains a property of the graph before a
colon; any other bracket ([1], [sic]) is text. Parts that the graph has are matched with its labels (or their ids),
letter for letter, the longest label first, whatever commas, colons and brackets labels contain. Matching goes on to the
citation's own closing bracket and backtracks where the next part does not match. Labels are looked up by length, so
time grows with the answer's length and the number of distinct lengths. Other parts follow the grammar: a part ends
before a comma or semicolon that is followed by a property of the graph (in any case) or by words that begin in lower
case, and a colon. So "place of birth: Paris, Texas" is one value, unless the graph has Paris and the rest also matches.
Each property with its value is a separate citation, also within one bracket; further values after one property are
citations too, where the graph has them.

A bracket that opens like a citation but is none is malformed, with a reason, and counts as an incorrect citation: §4.2
requires one "complete with all three parts". It is never repaired by guessing. A citation belongs to the sentence
before it, also after its full stop. Reading takes time linear in the answer.
"""

import html
import re
import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from factmill.tasks.core.authoring.knowledge_pieces import PersonKnowledgePiece, replace_square_brackets_if_unpaired
from factmill.tasks.core.rows import StrictModel
from factmill.tasks.text.sentences import split_sentences

TripleKey = tuple[str, str, str]
"""A piece in compared form: QID, property label, value label."""

_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u2060\ufeff\u202a-\u202e\u2066-\u2069]")
_TO_PLAIN_BRACKETS = str.maketrans("［］【】〔〕", "[][][]")
_TO_ROUND_BRACKETS = str.maketrans("[]", "()")
_ESCAPED_BRACKET = re.compile(r"\\([\[\]])")
_SPACES, _LINES = re.compile(r"[^\S\n]+"), re.compile(r" ?\n\s*")
_FULL_WIDTH_MARKS = str.maketrans("\n：，；Ｑ０１２３４５６７８９", " :,;Q0123456789")
"""Puts a folded text on one line in ASCII; every character keeps its offset."""

LABEL_WRAPPER = '["“”*_`]{0,40}+'
"""Quotes and emphasis that may wrap a label; bounded, since a search starts at each character."""
_WRAPPER_PATTERN, _COLON = re.compile(LABEL_WRAPPER), re.compile(rf"{LABEL_WRAPPER} ?: ?")
_BRACKET_CLOSE, _PART_SEPARATOR = re.compile(rf"{LABEL_WRAPPER} ?[.,;]? ?\]"), re.compile(rf"{LABEL_WRAPPER} ?[,;] ?")
_NEXT_QID, _NA_PART = re.compile(r"(?:qid ?: ?)?(Q[1-9][0-9]*) ?[,;:] ?", re.IGNORECASE), re.compile(r"NA(?= ?[\],;])")
_NAME_AFTER_QID, _COMMA = re.compile(r"(?:name ?: ?)?[^:\[\]]*", re.IGNORECASE), re.compile("[,;] ?")


def normalise_entities_brackets_and_spaces(text: str) -> str:
    """Normalise a text: entities resolved, no invisible characters, ASCII brackets, single spaces and newlines."""
    shown = _INVISIBLE.sub("", html.unescape(text)).translate(_TO_PLAIN_BRACKETS)
    shown = unicodedata.normalize("NFC", _ESCAPED_BRACKET.sub(r"\1", shown))
    return _LINES.sub("\n", _SPACES.sub(" ", shown))


def normalise_label_characters_keeping_case(label: str) -> str:
    """Return a label's compared form: folded, on one line, case kept."""
    return normalise_entities_brackets_and_spaces(label).translate(_FULL_WIDTH_MARKS).strip()


def make_triple_key(qid: str, property_label: str, value: str) -> TripleKey:
    """Return the key that all spellings of a triple share."""
    return (
        qid.upper(),
        normalise_label_characters_keeping_case(property_label),
        normalise_label_characters_keeping_case(value),
    )


@dataclass(frozen=True, slots=True)
class CitedPropertyValue:
    """One part of a bracket: a property with its value, or a mark of missing knowledge (no property)."""

    qid: str
    property: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class _CitationReadPosition:
    """A position of the reader."""

    at: int
    qid: str
    property: str = ""
    """Property of the last part: another of its values may follow."""
    is_head: bool = False
    """True right after the first QID, where a name may follow."""


class _LabelsBySpelling:
    """Names by their possible spellings, the longest first."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.lengths: list[int] = []

    def add(self, written: str, name: str) -> None:
        if written and written not in self.names:
            self.names[written] = name
            if len(written) not in self.lengths:
                self.lengths = sorted([*self.lengths, len(written)], reverse=True)

    def find_names_at(self, flat: str, at: int) -> Iterator[tuple[str, int]]:
        """Yield names at an offset with their ends, first without, then after quotes or emphasis."""
        for start in sorted({at, _get_match_end_or_offset(_WRAPPER_PATTERN, flat, at)}):
            for length in self.lengths:
                name = self.names.get(flat[start : start + length])
                if name is not None:
                    yield name, start + length


class KnowledgeSpellingIndex:
    """Index of pieces by person, property and value."""

    def __init__(self, pieces: Sequence[PersonKnowledgePiece]) -> None:
        """Index pieces; of pieces with the same spelling the first counts."""
        self._properties: defaultdict[str, _LabelsBySpelling] = defaultdict(_LabelsBySpelling)
        self._values: defaultdict[tuple[str, str], _LabelsBySpelling] = defaultdict(_LabelsBySpelling)
        for piece in pieces:
            for names, label, item_id in (
                (self._properties[piece.qid], piece.property, piece.pid),
                (self._values[piece.qid, piece.property], piece.value, piece.value_qid or ""),
            ):
                for written in (label, replace_square_brackets_if_unpaired(label)):
                    names.add(normalise_label_characters_keeping_case(written), label)
                names.add(item_id, label)
        self._labels = frozenset(
            normalise_label_characters_keeping_case(piece.property).lower() for piece in pieces
        ) - {""}
        self._lengths = sorted({len(label) for label in self._labels}, reverse=True)

    def find_label_start(self, flat: str, end: int, least: int = 0) -> int | None:
        """Return the start of the longest known label that ends at `end` and follows a bracket, comma or semicolon.

        Case does not matter. None: no label ends there, or it begins before `least`.
        """
        for length in self._lengths:
            start = end - length
            if start >= least and flat[start:end].lower() in self._labels:
                before = flat[max(least, start - 4) : start].rstrip(' "“”*_`')
                if start == least or before[-1:] in ("[", ",", ";"):
                    return start
        return None

    def read_known_parts(
        self,
        flat: str,
        at: int,
        qid: str,
        *,
        is_head: bool = False,
        stops: Collection[int] = (),
        limit: int | None = None,
    ) -> tuple[list[CitedPropertyValue], int] | None:
        """Read known parts from an offset to the end of their bracket; None where something else follows.

        `stops`: offsets after a comma where reading may also end; `limit`: last offset to read, None: the text's end.
        Returns the parts, and the offset after the closing bracket or the stop.
        """
        end_of_all = len(flat) if limit is None else limit
        first = _CitationReadPosition(at, qid, is_head=is_head)
        seen, path = {first}, list[CitedPropertyValue | None]()
        turns = [self._list_next_parts(flat, first)]
        while turns:
            step = next(turns[-1], None)
            if step is None:
                turns.pop()
                continue
            part, place = step
            if place.at > end_of_all:
                continue
            del path[len(turns) - 1 :]
            path.append(part)
            if part and (closed := _BRACKET_CLOSE.match(flat, place.at, end_of_all)):
                return [each for each in path if each], closed.end()
            more = _PART_SEPARATOR.match(flat, place.at, end_of_all) if part else None
            place = _CitationReadPosition(more.end() if more else place.at, place.qid, place.property)
            if more and place.at in stops:
                return [each for each in path if each], place.at
            if (more or not part) and place not in seen:
                seen.add(place)
                turns.append(self._list_next_parts(flat, place))
        return None

    def _list_next_parts(
        self, flat: str, place: _CitationReadPosition
    ) -> Iterator[tuple[CitedPropertyValue | None, _CitationReadPosition]]:
        """Yield each part that may start at a position (None: text that cites nothing) and its end."""
        named = [
            (name, colon.end())
            for name, end in self._properties[place.qid].find_names_at(flat, place.at)
            if (colon := _COLON.match(flat, end))
        ]
        if place.property:
            named.append((place.property, place.at))
        for name, start in named:
            for value, stop in self._values[place.qid, name].find_names_at(flat, start):
                yield CitedPropertyValue(place.qid, name, value), _CitationReadPosition(stop, place.qid, name)
        if missing := _NA_PART.match(flat, place.at):
            yield CitedPropertyValue(place.qid), _CitationReadPosition(missing.end(), place.qid, place.property)
        if other := _NEXT_QID.match(flat, place.at):
            yield None, _CitationReadPosition(other.end(), other[1].upper())
        if place.is_head:
            for comma in _COMMA.finditer(flat, place.at, _get_match_end_or_offset(_NAME_AFTER_QID, flat, place.at)):
                yield None, _CitationReadPosition(comma.end(), place.qid)


def _get_match_end_or_offset(pattern: re.Pattern[str], flat: str, at: int) -> int:
    """Return the end of a pattern's match at an offset, or the offset where it does not match."""
    found = pattern.match(flat, at)
    return found.end() if found else at


CitationKind = Literal["triple", "not_available", "malformed"]
MalformedReason = Literal["", "not_closed", "no_qid", "no_property", "no_value"]
"""The bracket is not closed, or another citation opens in it; it does not open with a QID and a comma; no property
follows the QID; a property has no value."""

_MAX_BRACKET_CHARACTERS = 200
_CITATION_HEAD = re.compile(
    rf"\[ ?{LABEL_WRAPPER}(?:(?:qid|wd) ?: ?)?{LABEL_WRAPPER}(Q[1-9][0-9]*){LABEL_WRAPPER} ?(?:[,;:] ?|(?=\]))",
    re.IGNORECASE,
)
_NA_BRACKET = re.compile(
    rf"\[ ?{LABEL_WRAPPER}(?:NA|N/A|not (?:applicable|available)){LABEL_WRAPPER} ?[\],;:]", re.IGNORECASE
)
_QID_LABEL = re.compile(rf"\[ ?{LABEL_WRAPPER}(?:(?:qid|wd) ?:|Q[1-9][0-9]* [^\[\]:]{{1,80}}:)", re.IGNORECASE)
_BRACKET_TOKEN = re.compile(r"[\[\]:]")
_VALUE_COLON = re.compile(rf"{LABEL_WRAPPER} ?:")
_MARKDOWN_LINK = re.compile(r"\(https?://[^\s()]*\)")
_WRAPPING_PAIRS = frozenset({("(", ")"), ("[", "]"), ("*", "*"), ("_", "_"), ("`", "`")})
_VALUE_EDGES = ' "“”*_`'
_QID_ALONE = re.compile(r"(?:qid ?: ?)?(Q[1-9][0-9]*)", re.IGNORECASE)
_NON_PROPERTY_LABELS = frozenset({"name", "qid"})
"""Labels that identify the cited item."""
_MAX_LABEL_LENGTH = 80


class AnswerCitation(StrictModel):
    """A cited property with its value, a mark of missing knowledge, or a malformed bracket."""

    sentence: int
    """Index of the sentence that it belongs to."""
    text: str
    """Its bracket as written, up to 200 characters; several citations may share one."""
    kind: CitationKind
    qid: str
    """QID of a triple; else empty, as are property and value."""
    property: str
    """The graph's label where the graph has the triple, else as written; the same holds for the value."""
    value: str
    why: MalformedReason
    """What is wrong with a malformed citation."""


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """An answer, split into sentences and citations."""

    answer: str
    sentences: list[str]
    """Without brackets; one empty sentence where the answer has no other text."""
    citations: list[AnswerCitation]
    """In the order of the answer."""


@dataclass(slots=True)
class _CitationBracket:
    """A citation's bracket in the folded answer."""

    start: int
    end: int
    parts: list[tuple[CitedPropertyValue, MalformedReason]] = field(default_factory=list)
    offset: int = 0
    """Offset in the text without brackets."""


def read_sentences_and_citations(
    answer: str, pieces: Sequence[PersonKnowledgePiece], *, is_nested: bool = False
) -> CitedAnswer:
    """Split an answer into sentences and citations; `pieces` are those of the graph shown to the model.

    `is_nested`: a citation inside another one is part of its text, as in annotated paragraphs; else it is malformed.
    """
    shown = normalise_entities_brackets_and_spaces(answer)
    brackets = list(_read_citation_brackets(shown, KnowledgeSpellingIndex(pieces), is_nested))
    text = _remove_brackets_and_set_offsets(shown, brackets)
    # no sentence spans a line break
    sentences = [sentence for line in text.split("\n") for sentence in split_sentences(line)]
    starts, end = list[int](), 0
    for sentence in sentences:
        starts.append(text.index(sentence, end))
        end = starts[-1] + len(sentence)
    citations = [
        AnswerCitation(
            # a bracket after a full stop still precedes the next sentence
            sentence=max(0, bisect_left(starts, bracket.offset) - 1),
            text=shown[bracket.start : bracket.end][:_MAX_BRACKET_CHARACTERS],
            kind="malformed" if why else "triple" if part.property else "not_available",
            qid=part.qid if part.property and not why else "",
            property="" if why else part.property,
            value="" if why else part.value,
            why=why,
        )
        for bracket in brackets
        for part, why in bracket.parts
    ]
    return CitedAnswer(answer, sentences or [""], citations)


def _read_citation_brackets(shown: str, known: KnowledgeSpellingIndex, is_nested: bool) -> Iterator[_CitationBracket]:
    """Yield the brackets of a folded answer that open like a citation, without those inside another."""
    flat = shown.translate(_FULL_WIDTH_MARKS)
    closing: dict[int, int] = {}
    openers: set[int] = set()
    opened: list[int] = []
    for token in _BRACKET_TOKEN.finditer(flat):
        at = token.start()
        if token[0] == "[":
            opened.append(at)
            if any(each.match(flat, at) for each in (_CITATION_HEAD, _NA_BRACKET, _QID_LABEL)):
                openers.add(at)
        elif token[0] == "]" and opened:
            closing[opened.pop()] = at + 1
        elif token[0] == ":" and opened and opened[-1] not in openers:
            label_end = len(flat[max(0, at - 4) : at].rstrip(_VALUE_EDGES)) + max(0, at - 4)
            if known.find_label_start(flat, label_end, opened[-1] + 1) is not None:
                openers.add(opened[-1])
    end = 0
    for start, following in pairwise([*sorted(openers), len(flat)]):
        if start < end:
            continue
        closed = closing.get(start)
        if is_nested and closed and following < closed:
            inner = flat[start + 1 : closed - 1].translate(_TO_ROUND_BRACKETS)
            outer = f"{flat[: start + 1]}{inner}{flat[closed - 1 :]}"
            bracket = _read_citation_bracket(outer, start, closed, closed, known)
        else:
            bracket = _read_citation_bracket(flat, start, closed, following, known)
        if bracket.parts[0][1] == "not_closed":
            line_end = shown.find("\n", start, bracket.end)
            bracket.end = bracket.end if line_end < 0 else line_end
        end = bracket.end
        yield bracket


def _read_citation_bracket(
    flat: str, start: int, closed: int | None, following: int, known: KnowledgeSpellingIndex
) -> _CitationBracket:
    """Read a bracket that opens like a citation; `closed`: end of its partner, `following`: start of the next."""
    head = _CITATION_HEAD.match(flat, start)
    if head and (parts_and_end := known.read_known_parts(flat, head.end(), head[1].upper(), is_head=True)):
        return _CitationBracket(start, parts_and_end[1], [(part, "") for part in parts_and_end[0]])
    if closed is None or following < closed:
        # up to where it closes or another one opens
        stop = flat.find("]", start, following) + 1
        return _CitationBracket(start, stop or following, [(CitedPropertyValue(""), "not_closed")])
    if _NA_BRACKET.match(flat, start):
        return _CitationBracket(start, closed, [(CitedPropertyValue(""), "")])
    if not head:
        return _CitationBracket(start, closed, [(CitedPropertyValue(""), "no_qid")])
    parts = _iterate_all_bracket_parts_and_faults(flat, head.end(), closed, head[1].upper(), known)
    return _CitationBracket(start, closed, list(parts))


def _iterate_all_bracket_parts_and_faults(
    flat: str, at: int, end: int, qid: str, known: KnowledgeSpellingIndex
) -> Iterator[tuple[CitedPropertyValue, MalformedReason]]:
    """Yield the parts of a bracket that the graph does not have as a whole; `end`: after its closing bracket."""
    labels = list(_iterate_label_spans_and_value_starts(flat, at, end, known))
    if all(flat[start:stop].lower() in _NON_PROPERTY_LABELS for start, stop, _ in labels):
        yield CitedPropertyValue(""), "no_property"
    stops = frozenset(start for start, _, _ in labels)
    read_to = at
    for (start, stop, value_at), (following, _, _) in pairwise([*labels, (end - 1, 0, 0)]):
        if start < read_to:
            continue
        if found := known.read_known_parts(flat, start, qid, stops=stops, limit=end):
            yield from ((part, "") for part in found[0])
            qid, read_to = found[0][-1].qid, found[1]
            continue
        label, value = flat[start:stop], flat[value_at:following].rstrip(f",;{_VALUE_EDGES}")
        before, comma, last = value.rpartition(",")
        # a QID after a comma begins the next item's parts; alone it is the value
        other = _QID_ALONE.fullmatch(last.strip(_VALUE_EDGES)) if comma else None
        value = (before if other else value).strip(f",;{_VALUE_EDGES}")
        if label.lower() not in _NON_PROPERTY_LABELS:
            yield (CitedPropertyValue(qid, label, value), "") if value else (CitedPropertyValue(""), "no_value")
        qid = other[1].upper() if other else qid


def _iterate_label_spans_and_value_starts(
    flat: str, at: int, end: int, known: KnowledgeSpellingIndex
) -> Iterator[tuple[int, int, int]]:
    """Yield the start and end of each property's label, and the start of its value."""
    last = at
    for colon in _VALUE_COLON.finditer(flat, at, end):
        start = known.find_label_start(flat, colon.start(), last)
        if start is None:
            comma = max(flat.rfind(",", last, colon.start()), flat.rfind(";", last, colon.start()))
            start = last if comma < 0 else comma + 1
            words = flat[start : colon.start()].lstrip(_VALUE_EDGES)
            start = colon.start() - len(words)
            is_first = comma < 0 and last == at
            if not words or len(words) > _MAX_LABEL_LENGTH or flat[colon.end()] not in " ]":
                continue
            if not is_first and (comma < 0 or not words[0].islower()):
                continue
        yield start, colon.start(), colon.end()
        last = colon.end()


def _remove_brackets_and_set_offsets(shown: str, brackets: Sequence[_CitationBracket]) -> str:
    """Return a text without its brackets, and set each bracket's offset in it."""
    kept: list[str] = []
    before, length, end = "", 0, 0
    for bracket in brackets:
        start, stop = bracket.start, bracket.end
        while start > end and stop < len(shown) and (shown[start - 1], shown[stop]) in _WRAPPING_PAIRS:
            start, stop = start - 1, stop + 1
        link = _MARKDOWN_LINK.match(shown, stop)
        if stretch := _fix_spaces_after_bracket(before, shown[end:start]).rstrip(" "):
            kept.append(stretch)
            before = stretch[-1]
            length += len(stretch)
        bracket.offset, end = length, link.end() if link else stop
    kept.append(_fix_spaces_after_bracket(before, shown[end:]))
    return "".join(kept)


def _fix_spaces_after_bracket(before: str, stretch: str) -> str:
    """Return the text after a bracket with fitting spaces; `before`: the last character kept."""
    if before.isalnum() and stretch[:1].isalnum():
        return f" {stretch}"
    return stretch.lstrip(" ") if before in ("", "\n", "(") else stretch
