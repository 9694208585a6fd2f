"""Find paths by scanning every triple, as the reference for the engines.

The code follows the definition alone (core/wikidata_paths.py): no index, no batch, no evaluation order.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import pyoxigraph as ox

from factmill.tasks.text.values.wikidata_literals import (
    DAY_PRECISION,
    PartialDate,
    WantedNumberWithUnit,
    canonical_number,
    compute_xsd_datetime_day_key,
)

WD = "http://www.wikidata.org/entity/"
PROP = "http://www.wikidata.org/prop/"
WIKIBASE = "http://wikiba.se/ontology#"
XSD = "http://www.w3.org/2001/XMLSchema#"


class PlainPaths:
    """A finder over triples in memory.

    Rows are tuples in the order of ITEM_PATHS_SCHEMA or LITERAL_PATHS_SCHEMA without `pair`.
    """

    def __init__(self, triples: Iterable[ox.Triple | ox.Quad]) -> None:
        self.claims: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.literals: dict[int, set[tuple[Any, ...]]] = defaultdict(set)
        """Item → (property, qualifier, statement, value, precision, unit, main)."""
        by_subject: dict[str, list[tuple[str, Any]]] = defaultdict(list)
        for triple in triples:
            by_subject[str(triple.subject)].append((triple.predicate.value, triple.object))
        self._by_subject = by_subject
        for subject, pairs in list(by_subject.items()):
            item = _number(subject.strip("<>"), f"{WD}Q")
            if item is not None:
                for predicate, thing in pairs:
                    self._take(item, subject, predicate, thing)

    def find_item_rows(self, subject: int, target: int, hops: int) -> list[tuple[Any, ...]]:
        """Return the paths between two items, in the defined order."""
        rows = set()
        for backward, (start, end) in enumerate([(subject, target), (target, subject)]):
            for first, middle in self.claims[start]:
                if hops == 1 and middle == end:
                    rows.add((1, bool(backward), None, first, None))
                if hops == 2:
                    rows |= {(2, bool(backward), middle, first, p) for p, last in self.claims[middle] if last == end}
        return sorted(rows, key=_order)

    def find_literal_rows(
        self, subject: int, wanted: PartialDate | WantedNumberWithUnit, properties: frozenset[int], hops: int
    ) -> list[tuple[Any, ...]]:
        """Return the paths from an item to a date or number, in the defined order."""
        walks = [(None, subject)] if hops == 1 else self.claims[subject]
        rows = set()
        for first, holder in walks:
            for own, qualifier, statement, value, precision, unit, main in self.literals[holder]:
                if (qualifier or own) in properties and _says(wanted, value, precision, unit):
                    walk = (1, None, own, None) if hops == 1 else (2, holder, first, own)
                    result = canonical_number(value) if isinstance(wanted, WantedNumberWithUnit) else value
                    rows.add((*walk, qualifier, statement, result, precision, unit, main))
        return sorted(rows, key=_order)

    def _take(self, item: int, subject: str, predicate: str, thing: Any) -> None:
        direct = _number(predicate, f"{PROP}direct/P")
        target = _number(thing.value, f"{WD}Q") if isinstance(thing, ox.NamedNode) else None
        if direct is not None and target is not None:
            self.claims[item].append((direct, target))
        if direct is not None and _is_value(thing):
            predicates = [each for each, _ in self._by_subject[subject]]
            if f"{PROP}P{direct}" not in predicates:
                self.literals[item].add((direct, None, None, thing.value, None, None, None))
        own = _number(predicate, f"{PROP}P")
        if own is not None and isinstance(thing, ox.NamedNode):
            self.literals[item].update(self._read_statement(own, thing))

    def _read_statement(self, own: int, statement: ox.NamedNode) -> Iterator[tuple[Any, ...]]:
        pairs = self._by_subject[str(statement)]
        if (f"{WIKIBASE}rank", ox.NamedNode(f"{WIKIBASE}DeprecatedRank")) in pairs:
            return
        name = statement.value.removeprefix(f"{WD}statement/")
        mains = [_format(thing) for predicate, thing in pairs if predicate == f"{PROP}statement/P{own}"]
        for predicate, thing in pairs:
            if not _is_value(thing):
                continue
            if predicate == f"{PROP}statement/P{own}":
                nodes = [node for each, node in pairs if each == f"{PROP}statement/value/P{own}"]
                yield from ((own, None, name, thing.value, *said, None) for said in self._read_nodes(thing, nodes))
            qualifier = _number(predicate, f"{PROP}qualifier/P")
            if qualifier is not None:
                nodes = [node for each, node in pairs if each == f"{PROP}qualifier/value/P{qualifier}"]
                for said in self._read_nodes(thing, nodes):
                    yield from ((own, qualifier, name, thing.value, *said, main) for main in mains or [None])

    def _read_nodes(self, value: ox.Literal, nodes: list[Any]) -> set[tuple[int | None, int | None]]:
        said = set()
        for node in nodes:
            result = dict(self._by_subject[str(node)])
            if result.get(f"{WIKIBASE}timeValue") == value:
                precision = result.get(f"{WIKIBASE}timePrecision")
                said.add((int(precision.value) if precision else None, None))
            if result.get(f"{WIKIBASE}quantityAmount") == value:
                unit = result.get(f"{WIKIBASE}quantityUnit")
                number = _number(unit.value, f"{WD}Q") if unit else None
                said.add((None, None if number == 199 else number))
        return said or {(None, None)}


def _is_value(thing: Any) -> bool:
    if not isinstance(thing, ox.Literal):
        return False
    kind = thing.datatype.value.removeprefix(XSD)
    return (kind == "dateTime" and compute_xsd_datetime_day_key(thing.value) is not None) or (
        kind == "decimal" and canonical_number(thing.value) is not None
    )


def _says(wanted: PartialDate | WantedNumberWithUnit, value: str, precision: int | None, unit: int | None) -> bool:
    if isinstance(wanted, WantedNumberWithUnit):
        return "T" not in value and wanted.is_satisfied_by(str(canonical_number(value)), unit)
    key = compute_xsd_datetime_day_key(value)
    return key is not None and wanted.is_satisfied_by(key, DAY_PRECISION if precision is None else precision)


def _format(thing: Any) -> str | None:
    if isinstance(thing, ox.BlankNode) or thing.value.startswith("http://www.wikidata.org/.well-known/genid/"):
        return None
    if isinstance(thing, ox.Literal) and thing.datatype.value == f"{XSD}decimal":
        return canonical_number(thing.value)
    return thing.value.removeprefix(WD) if _number(thing.value, f"{WD}Q") is not None else thing.value


def _number(iri: str, prefix: str) -> int | None:
    rest = iri.removeprefix(prefix)
    return int(rest) if rest != iri and rest.isdigit() and not rest.startswith("0") else None


def _order(row: tuple[Any, ...]) -> list[tuple[bool, Any]]:
    return [(value is not None, value) for value in row]
