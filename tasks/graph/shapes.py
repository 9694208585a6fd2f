"""Which triples of a Wikidata dump a graph keeps, found by the shape of their line, a block at a time.

Kept are direct edges from item to item; labels, aliases and descriptions of items and labels of properties, in chosen
languages; English Wikipedia articles (schema:about) with their names; and when items were last changed. Every other
well-formed triple is counted by kind, every malformed line is set aside. Whole blocks of lines are matched against
one regular expression after the other by Arrow, with no Python per line; only lines in unusual spelling pass through
`canonical_line` one by one.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tasks.graph.ntriples import QUOTED, TRIPLE, canonical_line, unescape
from tasks.graph.streams import Block

LABEL = b"http://www.w3.org/2000/01/rdf-schema#label"
ALIAS = b"http://www.w3.org/2004/02/skos/core#altLabel"
DESCRIPTION = b"http://schema.org/description"
DIRECT = b"http://www.wikidata.org/prop/direct/"
ANY_LANGUAGE = "mul"
"""Tag of names that stand in all languages (in Wikidata since 2024); used where a language has none of its own."""
DUMP = 0
"""Stands in `changes` for the dump itself (wikibase:Dump); no item has this number."""

TABLES = {
    "edges": pa.schema({"subject": pa.int64(), "property": pa.int32(), "object": pa.int64()}),
    "labels": pa.schema({"item": pa.int64(), "language": pa.string(), "text": pa.string()}),
    "aliases": pa.schema({"item": pa.int64(), "language": pa.string(), "text": pa.string()}),
    "descriptions": pa.schema({"item": pa.int64(), "language": pa.string(), "text": pa.string()}),
    "property_labels": pa.schema({"property": pa.int64(), "language": pa.string(), "text": pa.string()}),
    "articles": pa.schema({"page": pa.string(), "item": pa.int64()}),
    "article_names": pa.schema({"page": pa.string(), "name": pa.string()}),
    "changes": pa.schema({"item": pa.int64(), "modified": pa.string()}),
    "malformed": pa.schema({"file": pa.string(), "line_no": pa.int64(), "reason": pa.string(), "text": pa.string()}),
}
"""The rows that lines are sorted into."""
MALFORMED_BYTES_AT_MOST = 10_000
"""So much of a malformed line is set aside."""

_ITEM = rb"<http://www\.wikidata\.org/entity/Q[1-9][0-9]{0,17}>"
_PROPERTY = rb"<http://www\.wikidata\.org/entity/P[1-9][0-9]{0,8}>"
_ARTICLE = rb"<https://en\.wikipedia\.org/wiki/[^\x00-\x20<>\"{}|^`\\]+>"
_CHANGED = (
    rb"<(?:http://www\.wikidata\.org/entity/Q[1-9][0-9]{0,17}|http://wikiba\.se/ontology#Dump"
    rb"|https?://www\.wikidata\.org/wiki/Special:EntityData/Q[1-9][0-9]{0,17})>"
)
_MOMENT = rb'"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+\-][0-9]{2}:[0-9]{2})?"'
_UNKNOWN_VALUES = b"<http://www.wikidata.org/.well-known/genid/"
_ENTITY_START = len(b"<http://www.wikidata.org/entity/Q")
_PID_START = len(b"<http://www.wikidata.org/prop/direct/P")
_LINE_END = len(b" .\n")
# Arrow multiplies the stop by the number of rows when it makes room: an open end overflows and fails (seen in 26.0)
_END = 2**31 - 1
_TEXT_TABLES = {LABEL: "labels", ALIAS: "aliases", DESCRIPTION: "descriptions"}
_PAGE_PREDICATES = {b"http://schema.org/" + name for name in (b"about", b"name", b"isPartOf", b"inLanguage")}
_STATEMENT_NAMESPACES = (
    b"http://www.wikidata.org/prop/",
    b"http://www.w3.org/ns/prov#",
    b"http://wikiba.se/ontology#rank",
    b"http://wikiba.se/ontology-beta#rank",
)


@dataclass(slots=True)
class Sorted:
    """What lines were sorted into."""

    lines: int = 0
    blank: int = 0
    """Blank lines and comments."""
    tables: dict[str, list[pa.Table]] = field(default_factory=dict)
    """Rows by table, in the schemas of TABLES."""
    not_kept: Counter[str] = field(default_factory=Counter)
    """Well-formed triples that a graph has no use for, by kind (`name_unkept`)."""

    def add(self, name: str, *columns: pa.Array) -> None:
        """Add rows to a table."""
        if len(columns[0]):
            self.tables.setdefault(name, []).append(pa.Table.from_arrays(columns, schema=TABLES[name]))

    def count_rows(self, name: str) -> int:
        """Count the rows of a table."""
        return sum(table.num_rows for table in self.tables.get(name, []))


Shape = tuple[bytes, Callable[[pa.BinaryArray, Sorted], None]]


def make_shapes(languages: Sequence[str]) -> list[Shape]:
    """Return the shapes of lines, the first that fits counts: a regular expression and what takes the lines.

    Languages are lower-case tags; `en` does not stand for `en-gb`, but `mul` is always kept with them.
    """
    tags = b"|".join(re.escape(language).encode() for language in {*languages, ANY_LANGUAGE})
    texts = b"|".join(re.escape(predicate) for predicate in _TEXT_TABLES)
    named = _ITEM + rb" <(?:" + texts + rb")>|" + _PROPERTY + rb" <" + re.escape(LABEL) + rb">"
    moment = _MOMENT + rb"\^\^<http://www\.w3\.org/2001/XMLSchema#dateTime>"
    shapes: list[Shape] = [
        (_ITEM + rb" <http://www\.wikidata\.org/prop/direct/P[1-9][0-9]{0,8}> " + _ITEM, _take_edges),
        (rb"(?:" + named + rb") " + QUOTED + rb"@(?i:" + tags + rb")", _take_texts),
        (_ARTICLE + rb" <http://schema\.org/about> " + _ITEM, _take_articles),
        (_ARTICLE + rb" <http://schema\.org/name> " + QUOTED + rb"@en", _take_article_names),
        (_CHANGED + rb" <http://schema\.org/dateModified> " + moment, _take_changes),
        (TRIPLE, _count_unkept),
    ]
    return [(rb"\A" + pattern + rb" \.\n\z", take) for pattern, take in shapes]


def sort_block(block: Block, shapes: Sequence[Shape]) -> Sorted:
    """Sort the lines of a block into what is kept, what is only counted and what is malformed."""
    out = Sorted()
    lines = _split_lines(block.data)
    out.lines = len(lines)
    unlike = _sort_lines(lines, shapes, out) if _is_utf8(lines) else np.arange(len(lines))
    respelled = b"".join(_respell(block, lines, unlike, out))
    if respelled and len(_sort_lines(_split_lines(respelled), shapes, out)):
        raise AssertionError("a line in canonical form fits no shape")
    return out


def name_unkept(predicate: bytes, mark: bytes) -> str:
    """Return the kind of a triple that is not kept, from its predicate and the first byte of its object.

    `text`: texts in other languages or of other things; `direct_literal`; `direct_unknown` (a blank node: some value);
    `direct_other`: direct claims between things that are no items; `statement`: statements with their qualifiers,
    ranks and references; `page`: what is said of wiki pages; `other`.
    """
    if predicate in _TEXT_TABLES and mark == b'"':
        return "text"
    if predicate.startswith(DIRECT):
        return {b'"': "direct_literal", b"_": "direct_unknown"}.get(mark, "direct_other")
    if predicate.startswith(_STATEMENT_NAMESPACES):
        return "statement"
    return "page" if predicate in _PAGE_PREDICATES else "other"


def _sort_lines(lines: pa.BinaryArray, shapes: Sequence[Shape], out: Sorted) -> npt.NDArray[np.intp]:
    """Sort the lines of known shapes into `out`; return the positions of all others."""
    places = np.arange(len(lines))
    for pattern, take in shapes:
        fits = pc.match_substring_regex(lines, pattern=pattern)
        if fits.true_count:
            take(lines.filter(fits), out)
            left = pc.invert(fits)
            lines, places = lines.filter(left), places[left.to_numpy(zero_copy_only=False)]
        if not len(lines):
            break
    return places


def _respell(block: Block, lines: pa.BinaryArray, places: npt.NDArray[np.intp], out: Sorted) -> Iterator[bytes]:
    """Yield lines in canonical form; set aside the malformed ones."""
    aside: list[tuple[str, int, str, str]] = []
    for place, line in zip(places.tolist(), lines.take(pa.array(places)).to_pylist(), strict=True):
        try:
            line.decode()
        except UnicodeDecodeError:
            spelled, reason = None, "not UTF-8"
        else:
            spelled, reason = canonical_line(line), "not a triple"
        if spelled:
            yield spelled
        elif spelled is None:
            text = line[:MALFORMED_BYTES_AT_MOST].decode(errors="backslashreplace").removesuffix("\n")
            aside.append((block.source, block.first_line + place, reason, text))
        else:
            out.blank += 1
    if aside:
        out.add("malformed", *(pa.array(column) for column in zip(*aside, strict=True)))


def _split_lines(data: bytes) -> pa.BinaryArray:
    """Return the lines, each with its newline, without copying them."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _is_utf8(lines: pa.BinaryArray) -> bool:
    try:
        lines.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _split_each(values: pa.BinaryArray, by: bytes, into: int, *, reverse: bool = False) -> list[pa.BinaryArray]:
    """Split each value into a fixed number of pieces; return the columns."""
    pieces = pc.split_pattern(values, pattern=by, max_splits=into - 1, reverse=reverse).flatten()
    return [pieces.take(np.arange(nth, len(pieces), into)) for nth in range(into)]


def _slice_text(values: pa.BinaryArray, start: int, stop: int = _END) -> pa.StringArray:
    return pc.binary_slice(values, start, stop).cast(pa.string())


def _slice_number(values: pa.BinaryArray, start: int, stop: int = _END) -> pa.Array:
    return _slice_text(values, start, stop).cast(pa.int64())


def _resolve_escapes(texts: pa.StringArray) -> pa.StringArray:
    escaped = pc.match_substring(texts, pattern="\\")
    if not escaped.true_count:
        return texts
    plain = pa.array([unescape(text) for text in texts.filter(escaped).to_pylist()], pa.string())
    return pc.replace_with_mask(texts, escaped, plain)


def _take_edges(lines: pa.BinaryArray, out: Sorted) -> None:
    subjects, properties, objects = _split_each(lines, b"> ", 3)
    out.add(
        "edges",
        _slice_number(subjects, _ENTITY_START),
        _slice_number(properties, _PID_START).cast(pa.int32()),
        _slice_number(objects, _ENTITY_START, -_LINE_END - 1),
    )


def _take_texts(lines: pa.BinaryArray, out: Sorted) -> None:
    things, predicates, literals = _split_each(lines, b"> ", 3)
    is_item = pc.starts_with(things, pattern=b"<http://www.wikidata.org/entity/Q")
    numbers = _slice_number(things, _ENTITY_START)
    quoted, tags = _split_each(literals, b'"@', 2, reverse=True)
    languages = pc.ascii_lower(_slice_text(tags, 0, -_LINE_END))
    texts = _resolve_escapes(_slice_text(quoted, 1))
    for predicate, table in _TEXT_TABLES.items():
        mine = pc.and_(pc.equal(predicates, b"<" + predicate), is_item)
        out.add(table, numbers.filter(mine), languages.filter(mine), texts.filter(mine))
    other = pc.invert(is_item)
    out.add("property_labels", numbers.filter(other), languages.filter(other), texts.filter(other))


def _take_articles(lines: pa.BinaryArray, out: Sorted) -> None:
    pages, _, items = _split_each(lines, b"> ", 3)
    out.add("articles", _slice_text(pages, 1), _slice_number(items, _ENTITY_START, -_LINE_END - 1))


def _take_article_names(lines: pa.BinaryArray, out: Sorted) -> None:
    pages, _, literals = _split_each(lines, b"> ", 3)
    names = _slice_text(literals, 1, -_LINE_END - len('"@en'))
    out.add("article_names", _slice_text(pages, 1), _resolve_escapes(names))


def _take_changes(lines: pa.BinaryArray, out: Sorted) -> None:
    things, _, literals = _split_each(lines, b"> ", 3)
    moments = _split_each(literals, b'"^^', 2)[0]
    ids = pc.replace_substring_regex(_slice_text(things, 1), pattern=r"^.*(?:/Q|#Dump)", replacement="")
    items = pc.if_else(pc.equal(ids, ""), str(DUMP), ids).cast(pa.int64())
    out.add("changes", items, _slice_text(moments, 1))


def _count_unkept(lines: pa.BinaryArray, out: Sorted) -> None:
    behind_subjects = _split_each(lines, b" <", 2)[1]
    predicates, objects = _split_each(behind_subjects, b"> ", 2)
    marks = pc.if_else(pc.starts_with(objects, pattern=_UNKNOWN_VALUES), b"_", pc.binary_slice(objects, 0, 1))
    pairs = pa.table({"predicate": predicates, "mark": marks}).group_by(["predicate", "mark"])
    for group in pairs.aggregate([([], "count_all")]).to_pylist():
        out.not_kept[name_unkept(group["predicate"], group["mark"])] += group["count_all"]
