"""Which triples about statements a graph keeps: dates and numbers, and what tells whose they are and what they mean.

Wikidata's RDF spreads one date over many lines. An item points to a statement (p:); the statement has a rank, a plain
value (ps:), qualifiers (pq:), and for each date and number a value node (psv:, pqv:) that gives precision or unit.
Direct claims (wdt:) give the plain value alone. All of these may come in any order, from any file, so they are staged
here and put together later, by tables (tasks/graph/loading/literal_tables.py).

Staged is what cannot be told to be useless when its line is read:

- of ranks only the deprecated one, since the others change nothing;
- of qualifiers only dates and numbers;
- of statements' own values all, since any of them may be what a date in a qualifier is said of. External ids are the
  bulk of the texts, but nothing in their lines tells them from titles and names. They go when tables are made, with
  every statement that has neither date nor number; those that say an item stay as the claims' statements.
"""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from tasks.graph.loading.columns import (
    ENTITY_START,
    ITEM,
    LINE_END,
    slice_number,
    slice_pid,
    slice_quoted,
    slice_text,
    spell_predicate,
    split_each,
    split_terms,
)
from tasks.graph.loading.ntriples import IRI, LANGUAGE, QUOTED
from tasks.graph.loading.rows import Sorted

UNKNOWN_VALUES = b"<http://www.wikidata.org/.well-known/genid/"
"""Begins the stand-ins for blank nodes on Wikidata's query service."""
ONTOLOGY = rb"http://wikiba\.se/ontology(?:-beta)?#"
"""The name of Wikibase's ontology, now and until 2018."""

# a year is 10^14 at most, as in text.values.literals
_YEAR = rb"(?:[0-9]{4,14}|0+[0-9]{14}|0*10{14})"
DATE = (
    rb'"[+\-]?' + _YEAR + rb"-(?:0[0-9]|1[0-2])-(?:[0-2][0-9]|3[01])T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?"
    rb'(?:Z|[+\-][0-9]{2}:[0-9]{2})?"\^\^<http://www\.w3\.org/2001/XMLSchema#dateTime>'
)
"""What text.values.literals.date_key takes for a date."""
NUMBER = rb'"[+\-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"\^\^<http://www\.w3\.org/2001/XMLSchema#decimal>'
"""What text.values.literals.canonical_number takes for a number."""

_DATE_OR_NUMBER = rb"(?:" + DATE + rb"|" + NUMBER + rb")"
_LOCAL = rb"[^\x00-\x20<>\"{}|^`\\]+>"
_STATEMENT_START = b"<http://www.wikidata.org/entity/statement/"
_NODE_START = b"<http://www.wikidata.org/value/"
_STATEMENT = rb"<http://www\.wikidata\.org/entity/statement/" + _LOCAL
_NODE = rb"<http://www\.wikidata\.org/value/" + _LOCAL
_SAID_BY = {"statement_values": b"prop/statement", "qualifier_values": b"prop/qualifier"}
_POINTED_BY = {"statement_nodes": b"prop/statement/value", "qualifier_nodes": b"prop/qualifier/value"}

Shape = tuple[bytes, Callable[[pa.BinaryArray, Sorted], None]]
"""A regular expression of a triple in canonical form, without its full stop, and what takes the lines it fits."""


def _either(namespaces: dict[str, bytes]) -> bytes:
    return rb"(?:" + rb"|".join(map(spell_predicate, namespaces.values())) + rb")"


def _take_direct_values(lines: pa.BinaryArray, out: Sorted) -> None:
    items, predicates, literals = split_terms(lines)
    out.add(
        "direct_values",
        slice_number(items, ENTITY_START),
        slice_pid(predicates, b"prop/direct"),
        _slice_value(literals),
    )


def _take_statements(lines: pa.BinaryArray, out: Sorted) -> None:
    items, predicates, statements = split_terms(lines)
    out.add(
        "statements",
        slice_number(items, ENTITY_START),
        slice_pid(predicates, b"prop"),
        slice_text(statements, len(_STATEMENT_START), -LINE_END - 1),
    )


def _take_deprecated(lines: pa.BinaryArray, out: Sorted) -> None:
    out.add("deprecated", slice_text(split_terms(lines)[0], len(_STATEMENT_START)))


def _take_values(lines: pa.BinaryArray, out: Sorted) -> None:
    _take_said(lines, out, _SAID_BY, _slice_value)


def _take_nodes(lines: pa.BinaryArray, out: Sorted) -> None:
    _take_said(lines, out, _POINTED_BY, lambda nodes: slice_text(nodes, len(_NODE_START), -LINE_END - 1))


def _take_said(
    lines: pa.BinaryArray,
    out: Sorted,
    namespaces: dict[str, bytes],
    read: Callable[[pa.BinaryArray], pa.StringArray],
) -> None:
    statements, predicates, objects = split_terms(lines)
    statements, values = slice_text(statements, len(_STATEMENT_START)), read(objects)
    for table, namespace in namespaces.items():
        mine = pc.starts_with(predicates, pattern=b"<http://www.wikidata.org/" + namespace + b"/P")
        out.add(table, statements.filter(mine), slice_pid(predicates.filter(mine), namespace), values.filter(mine))


def _take_other_values(lines: pa.BinaryArray, out: Sorted) -> None:
    statements, predicates, objects = split_terms(lines)
    statements = slice_text(statements, len(_STATEMENT_START))
    properties = slice_pid(predicates, b"prop/statement")
    is_quoted = pc.starts_with(objects, pattern=b'"')
    is_unknown = pc.starts_with(objects, pattern=UNKNOWN_VALUES)
    is_item = pc.match_substring_regex(objects, pattern=rb"\A" + ITEM + rb" \.\n\z")
    is_iri = pc.invert(pc.or_(pc.or_(is_quoted, is_unknown), is_item))
    for table, mine, read in (
        ("item_values", is_item, lambda items: slice_number(items, ENTITY_START, -LINE_END - 1)),
        ("other_values", is_quoted, slice_quoted),
        ("other_values", is_iri, lambda iris: slice_text(iris, 1, -LINE_END - 1)),
    ):
        out.add(table, statements.filter(mine), properties.filter(mine), read(objects.filter(mine)))
    if is_unknown.true_count:
        out.not_kept["unknown_value"] += is_unknown.true_count


def _take_times(lines: pa.BinaryArray, out: Sorted) -> None:
    nodes, _, literals = split_terms(lines)
    out.add("times", slice_text(nodes, len(_NODE_START)), _slice_value(literals))


def _take_amounts(lines: pa.BinaryArray, out: Sorted) -> None:
    nodes, _, literals = split_terms(lines)
    out.add("amounts", slice_text(nodes, len(_NODE_START)), _slice_value(literals))


def _take_precisions(lines: pa.BinaryArray, out: Sorted) -> None:
    nodes, _, literals = split_terms(lines)
    digits = split_each(literals, b'"^^', 2)[0]
    out.add("precisions", slice_text(nodes, len(_NODE_START)), slice_number(digits, 1).cast(pa.int32()))


def _take_units(lines: pa.BinaryArray, out: Sorted) -> None:
    nodes, _, items = split_terms(lines)
    out.add("units", slice_text(nodes, len(_NODE_START)), slice_number(items, ENTITY_START, -LINE_END - 1))


def _slice_value(literals: pa.BinaryArray) -> pa.StringArray:
    return slice_text(split_each(literals, b'"^^', 2)[0], 1)


_DEPRECATED = rb" <" + ONTOLOGY + rb"rank> <" + ONTOLOGY + rb"DeprecatedRank>"
_PRECISION = rb'"(?:[0-9]|1[0-4])"\^\^<http://www\.w3\.org/2001/XMLSchema#integer>'
_WORDS = QUOTED + rb"(?:@" + LANGUAGE + rb"|\^\^" + IRI + rb")?"

ITEM_SHAPES: list[Shape] = [
    (ITEM + rb" " + spell_predicate(b"prop") + rb" " + _STATEMENT, _take_statements),
    (ITEM + rb" " + spell_predicate(b"prop/direct") + rb" " + _DATE_OR_NUMBER, _take_direct_values),
]
"""Of lines that begin with an item."""
STATEMENT_SHAPES: list[Shape] = [
    (_STATEMENT + rb" " + _either(_SAID_BY) + rb" " + _DATE_OR_NUMBER, _take_values),
    (
        _STATEMENT + rb" " + spell_predicate(b"prop/statement") + rb" (?:" + IRI + rb"|" + _WORDS + rb")",
        _take_other_values,
    ),
    (_STATEMENT + rb" " + _either(_POINTED_BY) + rb" " + _NODE, _take_nodes),
    (_STATEMENT + _DEPRECATED, _take_deprecated),
]
"""Of lines that begin with a statement."""
NODE_SHAPES: list[Shape] = [
    (_NODE + rb" <" + ONTOLOGY + rb"timeValue> " + DATE, _take_times),
    (_NODE + rb" <" + ONTOLOGY + rb"timePrecision> " + _PRECISION, _take_precisions),
    (_NODE + rb" <" + ONTOLOGY + rb"quantityAmount> " + NUMBER, _take_amounts),
    (_NODE + rb" <" + ONTOLOGY + rb"quantityUnit> " + ITEM, _take_units),
]
"""Of lines that begin with a value node."""
