"""Select the triples of a Wikidata dump that a graph keeps, by regular expressions over blocks of lines.

Kept are direct edges from item to item; dates and numbers of direct claims, statements and qualifiers; labels, aliases
and descriptions of items and labels of properties, in chosen languages; English Wikipedia articles (schema:about) with
their names; redirects of merged items; and times of items' last changes. Every other well-formed triple is counted by
kind; every malformed line, and every line with an invalid date or number, is set aside. Arrow matches whole blocks
against one regular expression after the other, with no Python per line; only unusually spelled and invalid lines pass
through `canonicalise_line` one by one. Lines are first grouped by their beginning, which costs next to nothing and spares
each line most expressions; most lines of large blocks are handled before that (tasks/graph/loading/scanning.py).

Wikidata's RDF spreads one date over many lines. An item points to a statement (p:); the statement has a rank, a plain
value (ps:), qualifiers (pq:), and for each date and number a value node (psv:, pqv:) with precision or unit. Direct
claims (wdt:) have the plain value only. All of these may come in any order, from any file, so they are staged and
joined later (tasks/graph/loading/tables.py). Everything is staged that may prove useful:

- of ranks, only the deprecated one, since the others have no effect;
- of qualifiers, only dates and numbers;
- of statements' own values, all, since a date in a qualifier may apply to any of them. External ids are the bulk of the
  texts, but their lines do not differ from those of titles and names. They are dropped when tables are made, with
  every statement that has neither date nor number; statements whose value is an item stay, for the claims.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from factmill.tasks.graph.loading.ntriples import (
    DATE_TIME_IRI,
    DECIMAL_IRI,
    IRI,
    LANGUAGE_TAG,
    QUOTED_TEXT,
    TRIPLE,
    canonicalise_line,
    unescape_literal,
)
from factmill.tasks.graph.loading.sources.streams import LineBlock
from factmill.tasks.graph.loading.staging_rows import DUMP_ITEM, StagedRowsAndCounts

LABEL_IRI = b"http://www.w3.org/2000/01/rdf-schema#label"
SAME_AS_IRI = b"http://www.w3.org/2002/07/owl#sameAs"
ANY_LANGUAGE = "mul"
"""Tag of names valid in all languages (in Wikidata since 2024); used if a language has no name of its own."""
MIN_SCANNED_BLOCK_BYTES = 1 << 20
"""Least size of blocks to scan first (tasks/graph/loading/scanning.py); for smaller ones, loading that costs more."""
MAX_MALFORMED_LINE_BYTES = 10_000
"""Largest number of a malformed line's bytes that are stored."""

_TEXT_TABLES = {
    LABEL_IRI: "labels",
    b"http://www.w3.org/2004/02/skos/core#altLabel": "aliases",
    b"http://schema.org/description": "descriptions",
}
_LINE_END_BYTES = len(b" .\n")
# Arrow multiplies the stop by the number of rows when it allocates: an open end overflows and fails (seen in 26.0)
_OPEN_END = 2**31 - 1

_WIKIDATA = b"<http://www.wikidata.org/"
_ITEM_IRI_START, _STATEMENT_IRI_START, _NODE_IRI_START = (
    _WIKIDATA + rest for rest in (b"entity/Q", b"entity/statement/", b"value/")
)
_GENID_IRI_START = _WIKIDATA + b".well-known/genid/"
"""Prefix of the IRIs that replace blank nodes on Wikidata's query service."""
_LOCAL_NAME = rb"[^\x00-\x20<>\"{}|^`\\]+>"
_PID = rb"P[1-9][0-9]{0,8}>"
_ITEM = re.escape(_ITEM_IRI_START) + rb"[1-9][0-9]{0,17}>"
_PROPERTY = re.escape(_WIKIDATA + b"entity/") + _PID
_STATEMENT, _NODE = re.escape(_STATEMENT_IRI_START) + _LOCAL_NAME, re.escape(_NODE_IRI_START) + _LOCAL_NAME
_ARTICLE = rb"<https://en\.wikipedia\.org/wiki/" + _LOCAL_NAME
_DATED_SUBJECT = (
    rb"<(?:http://www\.wikidata\.org/entity/Q[1-9][0-9]{0,17}|http://wikiba\.se/ontology(?:-beta)?#Dump"
    rb"|https?://www\.wikidata\.org/wiki/Special:EntityData/Q[1-9][0-9]{0,17})>"
)
_TIMESTAMP_LITERAL = (
    rb'"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+\-][0-9]{2}:[0-9]{2})?"\^\^<'
    + re.escape(DATE_TIME_IRI) + rb">"
)  # fmt: skip
# a year is 10^14 at most, as in text.values.literals
_DATE_LITERAL_PATTERN = (
    rb'"[+\-]?(?:[0-9]{4,14}|0+[0-9]{14}|0*10{14})-(?:0[0-9]|1[0-2])-(?:[0-2][0-9]|3[01])T[0-9]{2}:[0-9]{2}:[0-9]{2}'
    rb'(?:\.[0-9]+)?(?:Z|[+\-][0-9]{2}:[0-9]{2})?"\^\^<http://www\.w3\.org/2001/XMLSchema#dateTime>'
)
"""Dates that text.values.literals.date_key accepts."""
_NUMBER_LITERAL_PATTERN = rb'"[+\-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"\^\^<http://www\.w3\.org/2001/XMLSchema#decimal>'
"""Numbers that text.values.literals.canonical_number accepts."""
_DATE_OR_NUMBER = rb"(?:" + _DATE_LITERAL_PATTERN + rb"|" + _NUMBER_LITERAL_PATTERN + rb")"
_PRECISION = rb'"(?:[0-9]|1[0-4])"\^\^<http://www\.w3\.org/2001/XMLSchema#integer>'
_ONTOLOGY = rb"<http://wikiba\.se/ontology(?:-beta)?#"
"""Namespace of Wikibase's ontology, the present one and that used until 2018."""
_CHECKED_DATATYPES = {
    DATE_TIME_IRI: (_DATE_LITERAL_PATTERN, "not a date"),
    DECIMAL_IRI: (_NUMBER_LITERAL_PATTERN, "not a decimal number"),
}
"""Datatype whose literals are checked → pattern of valid literals, and the reason given for others."""

_PROP_NAMESPACE = b"http://www.wikidata.org/prop/"
_PAGE_PREDICATES = {b"http://schema.org/" + name for name in (b"about", b"name", b"isPartOf", b"inLanguage")}
_ONTOLOGIES = (b"http://wikiba.se/ontology#", b"http://wikiba.se/ontology-beta#")
_VALUE_NODE_PROPERTIES = (b"time", b"quantity", b"geo")
_UNKEPT_KINDS = {
    b"direct/": "direct_literal",
    b"direct-normalized/": "direct_other",
    b"qualifier/P": "qualifier",
    b"reference/": "reference",
}
"""Namespace of a predicate → kind of its triples."""

ColumnReader = Callable[[pa.BinaryArray], pa.Array]
"""Terms → a table's column."""
LineHandler = Callable[[pa.BinaryArray, StagedRowsAndCounts], None]
LinePattern = tuple[bytes, LineHandler]
"""Regular expression of a canonical triple without its full stop, and the function that stores matching lines."""


class LinePatterns(NamedTuple):
    """Patterns by which lines are sorted."""

    languages: tuple[str, ...]
    """Tags of the texts kept."""
    groups: list[tuple[bytes, list[LinePattern]]]
    """Prefixes of lines, each with the patterns of lines that begin so. The first matching prefix decides, then the
    first matching pattern."""


def split_lines(data: bytes) -> pa.BinaryArray:
    """Split data into lines, each with its newline, without copying."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def split_column(values: pa.BinaryArray, by: bytes, into: int, *, reverse: bool = False) -> list[pa.BinaryArray]:
    """Split each value into `into` pieces; return one column per piece."""
    pieces = pc.split_pattern(values, pattern=by, max_splits=into - 1, reverse=reverse).flatten()
    return [pieces.take(np.arange(nth, len(pieces), into)) for nth in range(into)]


def _split_terms(lines: pa.BinaryArray) -> list[pa.BinaryArray]:
    """Split lines with IRI subjects into subjects and predicates, without their `>`, and objects with the line end."""
    return split_column(lines, b"> ", 3)


def _slice_text(values: pa.BinaryArray, start: int, stop: int = _OPEN_END) -> pa.StringArray:
    return pc.binary_slice(values, start, stop).cast(pa.string())


def _make_iri_reader(begin: bytes, *, ends_line: bool = False, number: pa.DataType | None = None) -> ColumnReader:
    """Return a function that reads the part after `begin` in each IRI, as text or as `number`."""
    start, stop = len(begin), -_LINE_END_BYTES - 1 if ends_line else _OPEN_END

    def read(iris: pa.BinaryArray) -> pa.Array:
        texts = _slice_text(iris, start, stop)
        return texts.cast(pa.int64()).cast(number) if number else texts

    return read


_read_item, _read_last_item = (
    _make_iri_reader(_ITEM_IRI_START, ends_line=last, number=pa.int64()) for last in (False, True)
)
_read_statement, _read_last_statement = (
    _make_iri_reader(_STATEMENT_IRI_START, ends_line=last) for last in (False, True)
)
_read_node, _read_last_node = (_make_iri_reader(_NODE_IRI_START, ends_line=last) for last in (False, True))
_read_page = _make_iri_reader(b"<")


def _make_property_reader(namespace: bytes) -> ColumnReader:
    return _make_iri_reader(_WIKIDATA + namespace + b"/P", number=pa.int32())


def _read_typed_literal_text(literals: pa.BinaryArray) -> pa.StringArray:
    """Return the quoted texts of literals that have a datatype and no escapes."""
    return _slice_text(split_column(literals, b'"^^', 2)[0], 1)


def _read_precision_literals(literals: pa.BinaryArray) -> pa.Int32Array:
    return _read_typed_literal_text(literals).cast(pa.int32())


def _read_unescaped_literal_text(literals: pa.BinaryArray) -> pa.StringArray:
    """Return the texts of literals of any language or datatype, with escapes resolved."""
    return _resolve_escapes(_slice_text(split_column(literals, b'"', 2, reverse=True)[0], 1))


def _resolve_escapes(texts: pa.StringArray) -> pa.StringArray:
    escaped = pc.match_substring(texts, pattern="\\")
    if not escaped.true_count:
        return texts
    plain = pa.array([unescape_literal(text) for text in texts.filter(escaped).to_pylist()], pa.string())
    return pc.replace_with_mask(texts, escaped, plain)


def _make_row_handler(table: str, *reads: ColumnReader | None) -> LineHandler:
    """Return a function that adds lines to a table; `reads` make columns from the three terms, None skips a term."""

    def take(lines: pa.BinaryArray, out: StagedRowsAndCounts) -> None:
        terms = _split_terms(lines)
        out.add_rows(table, *(read(each) for read, each in zip(reads, terms, strict=False) if read))

    return take


def _make_statement_value_row_writer(tables: Mapping[str, bytes], read: ColumnReader) -> LineHandler:
    """Return a function that adds statements' values to the table given by their predicate's namespace."""

    def take(lines: pa.BinaryArray, out: StagedRowsAndCounts) -> None:
        statements, predicates, objects = _split_terms(lines)
        statements, values = _read_statement(statements), read(objects)
        for table, namespace in tables.items():
            is_in_namespace = pc.starts_with(predicates, pattern=_WIKIDATA + namespace + b"/P")
            properties = _make_property_reader(namespace)(predicates.filter(is_in_namespace))
            out.add_rows(table, statements.filter(is_in_namespace), properties, values.filter(is_in_namespace))

    return take


def _add_statement_items_texts_and_iris(lines: pa.BinaryArray, out: StagedRowsAndCounts) -> None:
    statements, predicates, objects = _split_terms(lines)
    statements, properties = _read_statement(statements), _make_property_reader(b"prop/statement")(predicates)
    is_quoted = pc.starts_with(objects, pattern=b'"')
    is_unknown = pc.starts_with(objects, pattern=_GENID_IRI_START)
    is_item = pc.match_substring_regex(objects, pattern=rb"\A" + _ITEM + rb" \.\n\z")
    is_iri = pc.invert(pc.or_(pc.or_(is_quoted, is_unknown), is_item))
    for table, is_kind, read in (
        ("item_values", is_item, _read_last_item),
        ("other_values", is_quoted, _read_unescaped_literal_text),
        ("other_values", is_iri, _make_iri_reader(b"<", ends_line=True)),
    ):
        out.add_rows(table, statements.filter(is_kind), properties.filter(is_kind), read(objects.filter(is_kind)))
    if is_unknown.true_count:
        out.not_kept["unknown_value"] += is_unknown.true_count


def _add_label_alias_description_rows(lines: pa.BinaryArray, out: StagedRowsAndCounts) -> None:
    things, predicates, literals = _split_terms(lines)
    is_item = pc.starts_with(things, pattern=_ITEM_IRI_START)
    numbers = _read_item(things)
    quoted, tags = split_column(literals, b'"@', 2, reverse=True)
    languages = pc.ascii_lower(_slice_text(tags, 0, -_LINE_END_BYTES))
    texts = _resolve_escapes(_slice_text(quoted, 1))
    for predicate, table in _TEXT_TABLES.items():
        is_selected = pc.and_(pc.equal(predicates, b"<" + predicate), is_item)
        out.add_rows(table, numbers.filter(is_selected), languages.filter(is_selected), texts.filter(is_selected))
    other = pc.invert(is_item)
    out.add_rows("property_labels", numbers.filter(other), languages.filter(other), texts.filter(other))


def _add_modification_times(lines: pa.BinaryArray, out: StagedRowsAndCounts) -> None:
    things, _, literals = _split_terms(lines)
    ids = pc.replace_substring_regex(_slice_text(things, 1), pattern=r"^.*(?:/Q|#Dump)", replacement="")
    numbers = pc.if_else(pc.equal(ids, ""), str(DUMP_ITEM), ids).cast(pa.int64())
    out.add_rows("changes", numbers, _read_typed_literal_text(literals))


def _count_unkept_triples(lines: pa.BinaryArray, out: StagedRowsAndCounts) -> None:
    behind_subjects = split_column(lines, b" <", 2)[1]
    predicates, objects = split_column(behind_subjects, b"> ", 2)
    marks = pc.if_else(pc.starts_with(objects, pattern=_GENID_IRI_START), b"_", pc.binary_slice(objects, 0, 1))
    pairs = pa.table({"predicate": predicates, "mark": marks}).group_by(["predicate", "mark"])
    for group in pairs.aggregate([([], "count_all")]).to_pylist():
        out.not_kept[classify_unkept_triple(group["predicate"], group["mark"])] += group["count_all"]


def _make_predicate_pattern(*namespaces: bytes) -> bytes:
    """Return the regular expression of a property's predicate in any of the given Wikidata namespaces."""
    return re.escape(_WIKIDATA) + rb"(?:" + rb"|".join(map(re.escape, namespaces)) + rb")/" + _PID


def make_line_patterns(languages: Sequence[str]) -> LinePatterns:
    """Make the patterns of lines, in groups by prefix.

    `languages`: lower-case tags; `en` does not include `en-gb`, but `mul` is always kept too.
    """
    kept = tuple(sorted({*languages, ANY_LANGUAGE}))
    words = QUOTED_TEXT + rb"@(?i:" + b"|".join(re.escape(language).encode() for language in kept) + rb")"
    texts = rb"<(?:" + b"|".join(map(re.escape, _TEXT_TABLES)) + rb")>"
    simple_values = {"statement_values": b"prop/statement", "qualifier_values": b"prop/qualifier"}
    pointed = {"statement_nodes": b"prop/statement/value", "qualifier_nodes": b"prop/qualifier/value"}
    any_value = rb"(?:" + IRI + rb"|" + QUOTED_TEXT + rb"(?:@" + LANGUAGE_TAG + rb"|\^\^" + IRI + rb")?)"
    direct = _make_property_reader(b"prop/direct")
    changed = (_DATED_SUBJECT, rb"<http://schema\.org/dateModified>", _TIMESTAMP_LITERAL, _add_modification_times)
    groups: list[tuple[bytes, list[tuple[bytes, bytes, bytes, LineHandler]]]] = [
        (_ITEM_IRI_START, [
            (_ITEM, _make_predicate_pattern(b"prop/direct"), _ITEM, _make_row_handler("edges", _read_item, direct, _read_last_item)),
            (_ITEM, texts, words, _add_label_alias_description_rows),
            (_ITEM, _make_predicate_pattern(b"prop"), _STATEMENT,
             _make_row_handler("statements", _read_item, _make_property_reader(b"prop"), _read_last_statement)),
            (_ITEM, _make_predicate_pattern(b"prop/direct"), _DATE_OR_NUMBER, _make_row_handler("direct_values", _read_item, direct, _read_typed_literal_text)),
            changed,
            (_ITEM, rb"<" + re.escape(SAME_AS_IRI) + rb">", _ITEM, _make_row_handler("redirects", _read_item, None, _read_last_item)),
        ]),
        (_WIKIDATA + b"entity/s", [
            (_STATEMENT, _make_predicate_pattern(*simple_values.values()), _DATE_OR_NUMBER, _make_statement_value_row_writer(simple_values, _read_typed_literal_text)),
            (_STATEMENT, _make_predicate_pattern(b"prop/statement"), any_value, _add_statement_items_texts_and_iris),
            (_STATEMENT, _make_predicate_pattern(*pointed.values()), _NODE, _make_statement_value_row_writer(pointed, _read_last_node)),
            (_STATEMENT, _ONTOLOGY + rb"rank>", _ONTOLOGY + rb"DeprecatedRank>", _make_row_handler("deprecated", _read_statement)),
        ]),
        (_NODE_IRI_START, [
            (_NODE, _ONTOLOGY + rb"timeValue>", _DATE_LITERAL_PATTERN, _make_row_handler("times", _read_node, None, _read_typed_literal_text)),
            (_NODE, _ONTOLOGY + rb"timePrecision>", _PRECISION,
             _make_row_handler("precisions", _read_node, None, _read_precision_literals)),
            (_NODE, _ONTOLOGY + rb"quantityAmount>", _NUMBER_LITERAL_PATTERN, _make_row_handler("amounts", _read_node, None, _read_typed_literal_text)),
            (_NODE, _ONTOLOGY + rb"quantityUnit>", _ITEM, _make_row_handler("units", _read_node, None, _read_last_item)),
        ]),
        (_WIKIDATA + b"entity/P", [(_PROPERTY, rb"<" + re.escape(LABEL_IRI) + rb">", words, _add_label_alias_description_rows)]),
        (b"<https://en.wikipedia.org/wiki/", [
            (_ARTICLE, rb"<http://schema\.org/about>", _ITEM, _make_row_handler("articles", _read_page, None, _read_last_item)),
            (_ARTICLE, rb"<http://schema\.org/name>", QUOTED_TEXT + rb"@en",
             _make_row_handler("article_names", _read_page, None, _read_unescaped_literal_text)),
        ]),
        (b"<http", [changed]),
    ]  # fmt: skip
    return LinePatterns(
        kept, [(start, [(b" ".join(terms), take) for *terms, take in shapes]) for start, shapes in groups]
    )


def sort_block_lines_into_rows(block: LineBlock, patterns: LinePatterns) -> StagedRowsAndCounts:
    """Sort a block's lines into rows to keep, counts of triples not kept, and malformed lines."""
    out = StagedRowsAndCounts()
    lines = split_lines(block.data)
    out.lines = len(lines)
    unlike = np.arange(len(lines))
    if _is_utf8(lines):
        left = unlike
        if len(block.data) >= MIN_SCANNED_BLOCK_BYTES:
            # compiled code takes half a second to load
            from factmill.tasks.graph.loading.scanning import scan_lines_or_list_unrecognised

            ends = np.frombuffer(lines.buffers()[1], np.int32)[1:]
            left = scan_lines_or_list_unrecognised(block.data, ends, patterns.languages, classify_unkept_triple, out)
        unlike = left[_sort_by_pattern_or_list_unmatched(lines.take(pa.array(left)), patterns, out)]
    respelled = _canonicalise_lines_or_set_aside(block, lines, unlike, out)
    if respelled and len(_sort_by_pattern_or_list_unmatched(split_lines(respelled), patterns, out)):
        raise AssertionError("a line in canonical form fits no shape")
    return out


@lru_cache(1 << 16)
def classify_unkept_triple(predicate: bytes, object_start: bytes) -> str:
    """Return the kind of a triple that is not kept, from its predicate and the first byte of its object.

    `text`: texts in other languages or about other entities; `direct_literal`: direct claims with texts (including
    external ids), and all direct literals of entities that are not items; `direct_other`: other direct claims between
    entities that are not items, and normalised ones; `unknown_value`: a blank node as the value of a direct claim,
    statement or qualifier; `qualifier`: qualifiers that are neither date nor number; `statement`: other triples about
    statements; `rank`: ranks other than deprecated; `reference`; `value_node`: coordinates, bounds, calendars and other
    content of value nodes; `type`: rdf:type, including "no value" statements; `page`: triples about wiki pages;
    `other`.
    """
    if predicate in _TEXT_TABLES and object_start == b'"':
        return "text"
    if predicate.startswith(_PROP_NAMESPACE):
        name = predicate.removeprefix(_PROP_NAMESPACE)
        kind = next((kind for namespace, kind in _UNKEPT_KINDS.items() if name.startswith(namespace)), "statement")
        is_other = kind == "direct_literal" and object_start != b'"'
        return "unknown_value" if object_start == b"_" and kind != "reference" else "direct_other" if is_other else kind
    for ontology in _ONTOLOGIES:
        if predicate.startswith(ontology):
            word = predicate.removeprefix(ontology)
            return "value_node" if word.startswith(_VALUE_NODE_PROPERTIES) else "rank" if word == b"rank" else "other"
    if predicate == b"http://www.w3.org/1999/02/22-rdf-syntax-ns#type":
        return "type"
    if predicate == b"http://www.w3.org/ns/prov#wasDerivedFrom":
        return "reference"
    return "page" if predicate in _PAGE_PREDICATES else "other"


class _LinesWithPositions(NamedTuple):
    """Lines of a block with their positions in it."""

    lines: pa.BinaryArray
    places: npt.NDArray[np.intp]

    def split_by_mask(self, mask: pa.BooleanArray) -> tuple["_LinesWithPositions", "_LinesWithPositions"]:
        """Split into the lines for which the mask is true, and the others."""
        if mask.true_count in (0, len(mask)):
            nothing = _LinesWithPositions(self.lines[:0], self.places[:0])
            return (self, nothing) if mask.true_count else (nothing, self)
        is_in = mask.to_numpy(zero_copy_only=False)
        inside = _LinesWithPositions(self.lines.filter(mask), self.places[is_in])
        return inside, _LinesWithPositions(self.lines.filter(pc.invert(mask)), self.places[~is_in])


def _sort_by_pattern_or_list_unmatched(
    lines: pa.BinaryArray, patterns: LinePatterns, out: StagedRowsAndCounts
) -> npt.NDArray[np.intp]:
    """Sort the lines that match a pattern into `out`; return the positions of all others."""
    wrong, left = _LinesWithPositions(lines, np.arange(len(lines))).split_by_mask(_find_invalid_literals(lines))
    unlike = [wrong.places]
    for start, group in [*patterns.groups, (b"", [])]:
        candidates, left = left.split_by_mask(pc.starts_with(left.lines, pattern=start))
        for pattern, take in [*group, (TRIPLE, _count_unkept_triples)]:
            if not len(candidates.lines):
                break
            fitting, candidates = candidates.split_by_mask(
                pc.match_substring_regex(candidates.lines, pattern=rb"\A" + pattern + rb" \.\n\z")
            )
            if len(fitting.lines):
                take(fitting.lines, out)
        unlike.append(candidates.places)
    return np.sort(np.concatenate(unlike))


def _find_invalid_literals(lines: pa.BinaryArray) -> pa.BooleanArray:
    """Return which lines end in a literal that is invalid for its datatype, as far as can be seen without parsing."""
    wrong = pa.array(np.zeros(len(lines), bool))
    for datatype, (shape, _) in _CHECKED_DATATYPES.items():
        claims = pc.ends_with(lines, pattern=b'"^^<' + datatype + b"> .\n")
        if claims.true_count:
            # a quote after a space can only be a literal's first
            fits = pc.match_substring_regex(lines.filter(claims), pattern=rb" " + shape + rb" \.\n\z")
            wrong = pc.replace_with_mask(wrong, claims, pc.invert(fits))
    return wrong


def _canonicalise_lines_or_set_aside(
    block: LineBlock, lines: pa.BinaryArray, places: npt.NDArray[np.intp], out: StagedRowsAndCounts
) -> bytes:
    """Return lines in canonical form; add the malformed ones to table `malformed`."""
    spelled: list[bytes] = []
    aside: list[tuple[str, int, str, str]] = []
    for place, line in zip(places.tolist(), lines.take(pa.array(places)).to_pylist(), strict=True):
        canonical, reason = _canonicalise_or_reject(line)
        if reason:
            text = line[:MAX_MALFORMED_LINE_BYTES].decode(errors="backslashreplace").removesuffix("\n")
            aside.append((block.source, block.first_line + place, reason, text))
        elif canonical:
            spelled.append(canonical)
        else:
            out.blank += 1
    if aside:
        out.add_rows("malformed", *(pa.array(column) for column in zip(*aside, strict=True)))
    return b"".join(spelled)


def _canonicalise_or_reject(line: bytes) -> tuple[bytes, str | None]:
    """Return a line in canonical form (empty for a blank one) and its problem, or None."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return b"", "not UTF-8"
    spelled = canonicalise_line(line)
    if spelled is None:
        return b"", "not a triple"
    for datatype, (shape, reason) in _CHECKED_DATATYPES.items():
        if spelled.endswith(b'"^^<' + datatype + b"> .\n") and not re.search(rb" " + shape + rb" \.\n\Z", spelled):
            return spelled, reason
    return spelled, None


def _is_utf8(lines: pa.BinaryArray) -> bool:
    try:
        lines.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True
