"""Which triples of a Wikidata dump a graph keeps, found by the shape of their line, a block at a time.

Kept are direct edges from item to item; dates and numbers of direct claims, statements and qualifiers
(tasks/graph/loading/statement_shapes.py); labels, aliases and descriptions of items and labels of properties, in chosen
languages; English Wikipedia articles (schema:about) with their names; redirects of items that were merged into others;
and when items were last changed. Every other well-formed triple is counted by kind; every malformed line, and every
line with a date or number that is none, is set aside. Whole blocks of lines are matched against one regular expression
after the other by Arrow, with no Python per line; only lines in unusual spelling and wrong ones pass through
`canonical_line` one by one. Lines are first told apart by how they begin, which costs next to nothing and spares each
most of the expressions; of large blocks most lines are taken before that (tasks/graph/loading/scanning).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tasks.graph.loading.columns import (
    ENTITY_START,
    ITEM,
    LINE_END,
    PID,
    resolve_escapes,
    slice_number,
    slice_pid,
    slice_text,
    spell_predicate,
    split_each,
    split_lines,
    split_terms,
)
from tasks.graph.loading.ntriples import DATE_TIME, DECIMAL, QUOTED, TRIPLE, canonical_line
from tasks.graph.loading.rows import DUMP, Sorted
from tasks.graph.loading.sources.streams import Block
from tasks.graph.loading.statement_shapes import (
    DATE,
    ITEM_SHAPES,
    NODE_SHAPES,
    NUMBER,
    STATEMENT_SHAPES,
    UNKNOWN_VALUES,
    Shape,
)

LABEL = b"http://www.w3.org/2000/01/rdf-schema#label"
ALIAS = b"http://www.w3.org/2004/02/skos/core#altLabel"
DESCRIPTION = b"http://schema.org/description"
SAME_AS = b"http://www.w3.org/2002/07/owl#sameAs"
ANY_LANGUAGE = "mul"
"""Tag of names that stand in all languages (in Wikidata since 2024); used where a language has none of its own."""
SCANNED_BYTES = 1 << 20
"""Blocks of so many bytes are scanned first (tasks/graph/loading/scanning), smaller ones not worth loading that for."""
MALFORMED_BYTES_AT_MOST = 10_000
"""So much of a malformed line is set aside."""

_PROPERTY = rb"<http://www\.wikidata\.org/entity/" + PID + rb">"
_ARTICLE = rb"<https://en\.wikipedia\.org/wiki/[^\x00-\x20<>\"{}|^`\\]+>"
_CHANGED = (
    rb"<(?:http://www\.wikidata\.org/entity/Q[1-9][0-9]{0,17}|http://wikiba\.se/ontology(?:-beta)?#Dump"
    rb"|https?://www\.wikidata\.org/wiki/Special:EntityData/Q[1-9][0-9]{0,17})>"
)
_MOMENT = rb'"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+\-][0-9]{2}:[0-9]{2})?"'
_TEXT_TABLES = {LABEL: "labels", ALIAS: "aliases", DESCRIPTION: "descriptions"}
_CLAIMS = {
    DATE_TIME: (DATE, "not a date"),
    DECIMAL: (NUMBER, "not a decimal number"),
}
"""Datatypes whose literals are checked: what they look like, and what to say of those that do not."""

_PROP = b"http://www.wikidata.org/prop/"
_PAGE_PREDICATES = {b"http://schema.org/" + name for name in (b"about", b"name", b"isPartOf", b"inLanguage")}
_ONTOLOGIES = (b"http://wikiba.se/ontology#", b"http://wikiba.se/ontology-beta#")
_NODE_WORDS = (b"time", b"quantity", b"geo")
_KINDS = {
    b"direct/": "direct_literal",
    b"direct-normalized/": "direct_other",
    b"qualifier/P": "qualifier",
    b"reference/": "reference",
}
"""Kinds of triples by namespace of their predicate."""


@dataclass(frozen=True, slots=True)
class Group:
    """Lines that begin alike, and the shapes they may have: the first that fits counts."""

    start: bytes
    shapes: list[Shape]


@dataclass(frozen=True, slots=True)
class Shapes:
    """What lines are told apart by."""

    languages: tuple[str, ...]
    """Tags of texts that are kept."""
    groups: list[Group]
    """A line is of the first that it begins like."""


def make_shapes(languages: Sequence[str]) -> Shapes:
    """Return the shapes of lines by the groups they are in.

    Languages are lower-case tags; `en` does not stand for `en-gb`, but `mul` is always kept with them.
    """
    kept = tuple(sorted({*languages, ANY_LANGUAGE}))
    tags = b"|".join(re.escape(language).encode() for language in kept)
    texts = b"|".join(re.escape(predicate) for predicate in _TEXT_TABLES)
    words = rb" " + QUOTED + rb"@(?i:" + tags + rb")"
    changed: Shape = (
        _CHANGED + rb" <http://schema\.org/dateModified> " + _MOMENT + rb"\^\^<" + re.escape(DATE_TIME) + rb">",
        _take_changes,
    )
    groups = [
        Group(
            b"<http://www.wikidata.org/entity/Q",
            [
                (ITEM + rb" " + spell_predicate(b"prop/direct") + rb" " + ITEM, _take_edges),
                (ITEM + rb" <(?:" + texts + rb")>" + words, _take_texts),
                *ITEM_SHAPES,
                changed,
                (ITEM + rb" <" + re.escape(SAME_AS) + rb"> " + ITEM, _take_redirects),
            ],
        ),
        Group(b"<http://www.wikidata.org/entity/s", STATEMENT_SHAPES),
        Group(b"<http://www.wikidata.org/value/", NODE_SHAPES),
        Group(
            b"<http://www.wikidata.org/entity/P", [(_PROPERTY + rb" <" + re.escape(LABEL) + rb">" + words, _take_texts)]
        ),
        Group(
            b"<https://en.wikipedia.org/wiki/",
            [
                (_ARTICLE + rb" <http://schema\.org/about> " + ITEM, _take_articles),
                (_ARTICLE + rb" <http://schema\.org/name> " + QUOTED + rb"@en", _take_article_names),
            ],
        ),
        Group(b"<http", [changed]),
    ]
    return Shapes(kept, groups)


def sort_block(block: Block, shapes: Shapes) -> Sorted:
    """Sort the lines of a block into what is kept, what is only counted and what is malformed."""
    out = Sorted()
    lines = split_lines(block.data)
    out.lines = len(lines)
    unlike = np.arange(len(lines))
    if _is_utf8(lines):
        left = _scan_lines(block.data, lines, shapes, out) if len(block.data) >= SCANNED_BYTES else unlike
        unlike = left[_sort_lines(lines.take(pa.array(left)), shapes.groups, out)]
    respelled = b"".join(_respell(block, lines, unlike, out))
    if respelled and len(_sort_lines(split_lines(respelled), shapes.groups, out)):
        raise AssertionError("a line in canonical form fits no shape")
    return out


def _scan_lines(data: bytes, lines: pa.BinaryArray, shapes: Shapes, out: Sorted) -> npt.NDArray[np.intp]:
    # what is compiled takes half a second to load
    from tasks.graph.loading.scanning.lines import scan_lines

    ends = np.frombuffer(lines.buffers()[1], np.int32)[1:]
    return scan_lines(data, ends, shapes.languages, name_unkept, out)


@lru_cache(1 << 16)
def name_unkept(predicate: bytes, mark: bytes) -> str:
    """Return the kind of a triple that is not kept, from its predicate and the first byte of its object.

    `text`: texts in other languages or of other things; `direct_literal`: direct claims to texts (external ids are
    among them), and all literals of things that are no items; `direct_other`: other direct claims between things that
    are no items, and normalised ones; `unknown_value`: a blank node as the value of a direct claim, statement or
    qualifier; `qualifier`: qualifiers that are neither date nor number; `statement`: what else is said of statements;
    `rank`: ranks that are not deprecated; `reference`; `value_node`: coordinates, bounds, calendars, and what else value
    nodes hold; `type`: rdf:type, the statements that say "no value" among them; `page`: of wiki pages; `other`.
    """
    if predicate in _TEXT_TABLES and mark == b'"':
        return "text"
    if predicate.startswith(_PROP):
        return _name_claim(predicate.removeprefix(_PROP), mark)
    for ontology in _ONTOLOGIES:
        if predicate.startswith(ontology):
            word = predicate.removeprefix(ontology)
            return "value_node" if word.startswith(_NODE_WORDS) else "rank" if word == b"rank" else "other"
    if predicate == b"http://www.w3.org/1999/02/22-rdf-syntax-ns#type":
        return "type"
    if predicate == b"http://www.w3.org/ns/prov#wasDerivedFrom":
        return "reference"
    return "page" if predicate in _PAGE_PREDICATES else "other"


def _name_claim(name: bytes, mark: bytes) -> str:
    kind = next((kind for namespace, kind in _KINDS.items() if name.startswith(namespace)), "statement")
    if mark == b"_" and kind != "reference":
        return "unknown_value"
    return "direct_other" if kind == "direct_literal" and mark != b'"' else kind


@dataclass(frozen=True, slots=True)
class _Lines:
    """Some lines of a block and their positions in it."""

    lines: pa.BinaryArray
    places: npt.NDArray[np.intp]

    def divide(self, mask: pa.BooleanArray) -> tuple["_Lines", "_Lines"]:
        """Return the lines for which the mask is true, and the others."""
        if mask.true_count in (0, len(mask)):
            nothing = _Lines(self.lines[:0], self.places[:0])
            return (self, nothing) if mask.true_count else (nothing, self)
        is_in = mask.to_numpy(zero_copy_only=False)
        inside = _Lines(self.lines.filter(mask), self.places[is_in])
        return inside, _Lines(self.lines.filter(pc.invert(mask)), self.places[~is_in])


def _sort_lines(lines: pa.BinaryArray, groups: Sequence[Group], out: Sorted) -> npt.NDArray[np.intp]:
    """Sort the lines of known shapes into `out`; return the positions of all others."""
    wrong, left = _Lines(lines, np.arange(len(lines))).divide(_find_wrong_literals(lines))
    unlike = [wrong.places]
    for group in groups:
        mine, left = left.divide(pc.starts_with(left.lines, pattern=group.start))
        unlike.append(_sort_group(mine, group.shapes, out))
    unlike.append(_sort_group(left, [], out))
    return np.sort(np.concatenate(unlike))


def _sort_group(left: _Lines, shapes: Sequence[Shape], out: Sorted) -> npt.NDArray[np.intp]:
    for pattern, take in [*shapes, (TRIPLE, _count_unkept)]:
        if not len(left.lines):
            break
        fits = pc.match_substring_regex(left.lines, pattern=rb"\A" + pattern + rb" \.\n\z")
        mine, left = left.divide(fits)
        if len(mine.lines):
            take(mine.lines, out)
    return left.places


def _find_wrong_literals(lines: pa.BinaryArray) -> pa.BooleanArray:
    """Return which lines end in a literal that is not what its datatype says, as far as can be told unread."""
    wrong = pa.array(np.zeros(len(lines), bool))
    for datatype, (shape, _) in _CLAIMS.items():
        claims = pc.ends_with(lines, pattern=b'"^^<' + datatype + b"> .\n")
        if claims.true_count:
            # a quote behind a space can only be the first of a literal
            fits = pc.match_substring_regex(lines.filter(claims), pattern=rb" " + shape + rb" \.\n\z")
            wrong = pc.replace_with_mask(wrong, claims, pc.invert(fits))
    return wrong


def _find_flaw(line: bytes) -> str | None:
    """Return what is wrong with the literal of a line in canonical form, if anything is."""
    for datatype, (shape, reason) in _CLAIMS.items():
        if line.endswith(b'"^^<' + datatype + b"> .\n") and not re.search(rb" " + shape + rb" \.\n\Z", line):
            return reason
    return None


def _respell(block: Block, lines: pa.BinaryArray, places: npt.NDArray[np.intp], out: Sorted) -> Iterator[bytes]:
    """Yield lines in canonical form; set aside the malformed ones."""
    aside: list[tuple[str, int, str, str]] = []
    for place, line in zip(places.tolist(), lines.take(pa.array(places)).to_pylist(), strict=True):
        spelled, reason = _read_line(line)
        if reason:
            text = line[:MALFORMED_BYTES_AT_MOST].decode(errors="backslashreplace").removesuffix("\n")
            aside.append((block.source, block.first_line + place, reason, text))
        elif spelled:
            yield spelled
        else:
            out.blank += 1
    if aside:
        out.add("malformed", *(pa.array(column) for column in zip(*aside, strict=True)))


def _read_line(line: bytes) -> tuple[bytes, str | None]:
    """Return a line in canonical form (empty for a blank one) and what is wrong with it, if anything is."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return b"", "not UTF-8"
    spelled = canonical_line(line)
    if spelled is None:
        return b"", "not a triple"
    return spelled, _find_flaw(spelled)


def _is_utf8(lines: pa.BinaryArray) -> bool:
    try:
        lines.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _take_edges(lines: pa.BinaryArray, out: Sorted) -> None:
    subjects, properties, objects = split_terms(lines)
    out.add(
        "edges",
        slice_number(subjects, ENTITY_START),
        slice_pid(properties, b"prop/direct"),
        slice_number(objects, ENTITY_START, -LINE_END - 1),
    )


def _take_texts(lines: pa.BinaryArray, out: Sorted) -> None:
    things, predicates, literals = split_terms(lines)
    is_item = pc.starts_with(things, pattern=b"<http://www.wikidata.org/entity/Q")
    numbers = slice_number(things, ENTITY_START)
    quoted, tags = split_each(literals, b'"@', 2, reverse=True)
    languages = pc.ascii_lower(slice_text(tags, 0, -LINE_END))
    texts = resolve_escapes(slice_text(quoted, 1))
    for predicate, table in _TEXT_TABLES.items():
        mine = pc.and_(pc.equal(predicates, b"<" + predicate), is_item)
        out.add(table, numbers.filter(mine), languages.filter(mine), texts.filter(mine))
    other = pc.invert(is_item)
    out.add("property_labels", numbers.filter(other), languages.filter(other), texts.filter(other))


def _take_articles(lines: pa.BinaryArray, out: Sorted) -> None:
    pages, _, items = split_terms(lines)
    out.add("articles", slice_text(pages, 1), slice_number(items, ENTITY_START, -LINE_END - 1))


def _take_article_names(lines: pa.BinaryArray, out: Sorted) -> None:
    pages, _, literals = split_terms(lines)
    names = slice_text(literals, 1, -LINE_END - len('"@en'))
    out.add("article_names", slice_text(pages, 1), resolve_escapes(names))


def _take_changes(lines: pa.BinaryArray, out: Sorted) -> None:
    things, _, literals = split_terms(lines)
    moments = split_each(literals, b'"^^', 2)[0]
    ids = pc.replace_substring_regex(slice_text(things, 1), pattern=r"^.*(?:/Q|#Dump)", replacement="")
    items = pc.if_else(pc.equal(ids, ""), str(DUMP), ids).cast(pa.int64())
    out.add("changes", items, slice_text(moments, 1))


def _take_redirects(lines: pa.BinaryArray, out: Sorted) -> None:
    items, _, targets = split_terms(lines)
    out.add("redirects", slice_number(items, ENTITY_START), slice_number(targets, ENTITY_START, -LINE_END - 1))


def _count_unkept(lines: pa.BinaryArray, out: Sorted) -> None:
    behind_subjects = split_each(lines, b" <", 2)[1]
    predicates, objects = split_each(behind_subjects, b"> ", 2)
    marks = pc.if_else(pc.starts_with(objects, pattern=UNKNOWN_VALUES), b"_", pc.binary_slice(objects, 0, 1))
    pairs = pa.table({"predicate": predicates, "mark": marks}).group_by(["predicate", "mark"])
    for group in pairs.aggregate([([], "count_all")]).to_pylist():
        out.not_kept[name_unkept(group["predicate"], group["mark"])] += group["count_all"]
