"""The pieces that an answer may cite, by how they may be written in it (BioKaLMA, §3.3): labels in the graph's own letters, or ids.

Labels may hold commas, colons and brackets, so a bracket is first read by the graph alone: part after part, the longest
label first, and back where what follows makes no sense, until its own bracket closes. Labels are looked up by length, so
that a long answer takes time by its length and by how many lengths there are.
"""

import html
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tasks.core.authoring.pieces import Piece

Key = tuple[str, str, str]
"""A piece as it is compared: QID, label of the property, label of the value."""

_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u2060\ufeff\u202a-\u202e\u2066-\u2069]")
_BRACKETS = str.maketrans("［］【】〔〕", "[][][]")
_ESCAPED = re.compile(r"\\([\[\]])")
_SPACES, _LINES = re.compile(r"[^\S\n]+"), re.compile(r" ?\n\s*")
_WIDE = str.maketrans("\n：，；Ｑ０１２３４５６７８９", " :,;Q0123456789")

DRESS = '["“”*_`]{0,40}+'
"""Quotes and emphasis that may stand around a label; bounded, since a search begins at each of them."""
_DRESSED, _COLON = re.compile(DRESS), re.compile(rf"{DRESS} ?: ?")
_CLOSES, _GOES_ON = re.compile(rf"{DRESS} ?[.,;]? ?\]"), re.compile(rf"{DRESS} ?[,;] ?")
_QID, _MISSING = re.compile(r"(?:qid ?: ?)?(Q[1-9][0-9]*) ?[,;:] ?", re.IGNORECASE), re.compile(r"NA(?= ?[\],;])")
_NAME = re.compile(r"(?:name ?: ?)?[^:\[\]]*", re.IGNORECASE)


def fold_answer(text: str) -> str:
    """Return a text as it is read: entities resolved, nothing invisible, square brackets alone, single spaces and lines."""
    shown = _INVISIBLE.sub("", html.unescape(text)).translate(_BRACKETS)
    shown = unicodedata.normalize("NFC", _ESCAPED.sub(r"\1", shown))
    return _LINES.sub("\n", _SPACES.sub(" ", shown))


def flatten(shown: str) -> str:
    """Return a folded text on one line, full-width marks made plain; every character keeps its place."""
    return shown.translate(_WIDE)


def compare_label(label: str) -> str:
    """Return a label as it is compared: letter for letter, in its own case."""
    return flatten(fold_answer(label)).strip()


def make_key(qid: str, property_label: str, value: str) -> Key:
    """Return what two writings of one triple have in common."""
    return qid.upper(), compare_label(property_label), compare_label(value)


@dataclass(frozen=True, slots=True)
class Part:
    """What one part of a bracket says: a property with its value, or that knowledge is missing (no property)."""

    qid: str
    property: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where reading stands."""

    at: int
    qid: str
    property: str = ""
    """That the last part named: another value may follow."""
    is_head: bool = False
    """Right behind the first QID, where a name may stand."""


class _Spellings:
    """Names by how they may be written, the longest first."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.lengths: list[int] = []

    def add(self, written: str, name: str) -> None:
        if written and written not in self.names:
            self.names[written] = name
            if len(written) not in self.lengths:
                self.lengths = sorted([*self.lengths, len(written)], reverse=True)

    def find(self, flat: str, at: int) -> Iterator[tuple[str, int]]:
        """Yield the names that stand at a place with their ends, first as they are, then behind quotes or emphasis."""
        for start in sorted({at, _end(_DRESSED, flat, at)}):
            for length in self.lengths:
                name = self.names.get(flat[start : start + length])
                if name is not None:
                    yield name, start + length


class KnownPieces:
    """Pieces by person, property and value."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        """Index pieces; of those that are written alike the first counts."""
        self._properties: dict[str, _Spellings] = {}
        self._values: dict[tuple[str, str], _Spellings] = {}
        labels: set[str] = set()
        for piece in pieces:
            label = compare_label(piece.property)
            labels.add(label.lower())
            properties = self._properties.setdefault(piece.qid, _Spellings())
            for written in (label, piece.pid):
                properties.add(written, piece.property)
            values = self._values.setdefault((piece.qid, piece.property), _Spellings())
            for written in (compare_label(piece.value), piece.value_qid or ""):
                values.add(written, piece.value)
        self._labels = frozenset(labels - {""})
        self._lengths = sorted({len(label) for label in self._labels}, reverse=True)

    def find_label(self, flat: str, end: int, least: int = 0) -> int | None:
        """Return where the longest known label begins that ends at a place and stands behind a bracket, comma or semicolon.

        Case does not matter; None: no label ends there, or it begins before `least`.
        """
        for length in self._lengths:
            start = end - length
            if start >= least and flat[start:end].lower() in self._labels:
                before = flat[max(least, start - 4) : start].rstrip(' "“”*_`')
                if start == least or before[-1:] in ("[", ",", ";"):
                    return start
        return None

    def read(
        self,
        flat: str,
        at: int,
        qid: str,
        *,
        is_head: bool = False,
        stops: Collection[int] = (),
        limit: int | None = None,
    ) -> tuple[list[Part], int] | None:
        """Read known parts from a place to the end of their bracket; None where something else stands there.

        `stops`: places behind a comma at which reading may end as well; `limit`: of reading, the text's end where None.
        Returns the parts with the place behind the closing bracket, or the stop.
        """
        end_of_all = len(flat) if limit is None else limit
        first = _Place(at, qid, is_head=is_head)
        seen, path = {first}, list[Part | None]()
        turns = [self._list_steps(flat, first)]
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
            if part and (closed := _CLOSES.match(flat, place.at, end_of_all)):
                return [each for each in path if each], closed.end()
            more = _GOES_ON.match(flat, place.at, end_of_all) if part else None
            place = _Place(more.end() if more else place.at, place.qid, place.property)
            if more and place.at in stops:
                return [each for each in path if each], place.at
            if (more or not part) and place not in seen:
                seen.add(place)
                turns.append(self._list_steps(flat, place))
        return None

    def _list_steps(self, flat: str, place: _Place) -> Iterator[tuple[Part | None, _Place]]:
        """Yield what may stand at a place (None: what cites nothing) and where it ends."""
        for name, end in self._find_properties(flat, place):
            for value, stop in self._find_values(flat, _end(_COLON, flat, end), place.qid, name):
                yield Part(place.qid, name, value), _Place(stop, place.qid, name)
        for value, stop in self._find_values(flat, place.at, place.qid, place.property):
            yield Part(place.qid, place.property, value), _Place(stop, place.qid, place.property)
        if missing := _MISSING.match(flat, place.at):
            yield Part(place.qid), _Place(missing.end(), place.qid, place.property)
        if other := _QID.match(flat, place.at):
            yield None, _Place(other.end(), other[1].upper())
        if place.is_head:
            name_end = _end(_NAME, flat, place.at)
            for comma in re.compile("[,;] ?").finditer(flat, place.at, name_end):
                yield None, _Place(comma.end(), place.qid)

    def _find_properties(self, flat: str, place: _Place) -> Iterator[tuple[str, int]]:
        known = self._properties.get(place.qid)
        found = known.find(flat, place.at) if known else iter(())
        return ((name, end) for name, end in found if _COLON.match(flat, end))

    def _find_values(self, flat: str, at: int, qid: str, name: str) -> Iterator[tuple[str, int]]:
        known: Mapping[tuple[str, str], _Spellings] = self._values
        values = known.get((qid, name)) if name else None
        return values.find(flat, at) if values else iter(())


def _end(pattern: re.Pattern[str], flat: str, at: int) -> int:
    """Return where a pattern that stands at a place ends; the place itself where it does not."""
    found = pattern.match(flat, at)
    return found.end() if found else at
