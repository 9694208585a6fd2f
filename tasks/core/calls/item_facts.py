"""Calls for the facts within one hop of an item: its direct claims to items, its dates and its numbers."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.knowledge import LocalGraph, Pid, Qid, list_item_terms
from factmill.tasks.core.calls.operation import (
    Dependency,
    Operation,
    Parts,
    Sparql,
    is_item,
    is_text,
    rest_on_item,
    rest_on_labels,
)
from factmill.tasks.core.fingerprints import Json
from factmill.tasks.core.sparql import ENTITY, Row, by_texts, find_first, group_by_item, tidy_date
from factmill.tasks.text.ids import id_number, is_pid, is_qid
from factmill.tasks.text.values.literals import UNITLESS, canonical_number, date_key

_STATEMENT = f"{ENTITY}statement/"


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact of an item: a direct claim to an item, or a date or number.

    Dates and numbers come from statements that are not deprecated, or from a direct claim if the item has no statement of
    the property. Texts, external ids, addresses and coordinates are excluded.
    """

    pid: Pid
    property: str | None
    """Label of the property."""
    qid: Qid | None
    """The value, if it is an item."""
    value: str | None
    """Label of that item; a date as written in the RDF, a number in canonical form (text/values/literals.py)."""
    precision: int | None
    """Precision of a date, Wikidata's code (text/values/literals.py); None if the data lack it, and for other values."""
    unit: Qid | None
    """Unit of a number; None for none."""
    statement: str | None
    """Id of the statement as in the RDF; for a claim, the smallest of its statements not deprecated; None without one."""


def call_item_facts(service: str, qid: str, language: str = "en") -> Call:
    """Make the call for the facts within one hop of an item: its direct claims to items, its dates and its numbers."""
    return ITEM_FACTS.call(service, qid=qid, language=language)


def read_facts(body: Any) -> list[Fact]:
    """Parse the body of item_facts."""
    return [Fact(**fact) for fact in body]


def write_facts(facts: Iterable[Fact]) -> list[Json]:
    """Format the body of item_facts: one JSON object per fact.

    Sorted by property number; within a property, first dates and numbers, by text and statement, then claims, by number of
    the item.
    """
    return [asdict(fact) for fact in sorted(facts, key=_order_fact)]


def _order_fact(fact: Fact) -> tuple[int, bool, int, str, str, int, int]:
    return (
        id_number(fact.pid),
        fact.qid is not None,
        id_number(fact.qid) if fact.qid else 0,
        fact.value or "",
        fact.statement or "",
        -1 if fact.precision is None else fact.precision,
        id_number(fact.unit) if fact.unit else 0,
    )


def _read_item_facts(calls: Sequence[Call], rows: Sequence[Row]) -> list[Json]:
    labels = _read_tagged_labels([row for row in rows if "thing" in row], str(calls[0].parts["language"]))
    by_qid = group_by_item(row for row in rows if "item" in row and is_pid(_pid_of(row["property"])))
    facts = {qid: [*_list_claims(found, labels), *_list_literals(found, labels)] for qid, found in by_qid.items()}
    return [write_facts(facts.get(str(call.parts["qid"]), [])) for call in calls]


def _read_tagged_labels(rows: Iterable[Row], language: str) -> dict[str, str]:
    """Return id → label: in the language, else the one for all languages."""
    found: dict[str, list[tuple[bool, str]]] = defaultdict(list)
    for row in rows:
        found[row["thing"].removeprefix(ENTITY)].append((row["tag"] != language, row["label"]))
    return {each: min(given)[1] for each, given in found.items()}


def _list_claims(rows: Iterable[Row], labels: Mapping[str, str]) -> Iterator[Fact]:
    """Yield the direct claims of one item to items, each with the first of its statements."""
    claims: set[tuple[str, str]] = set()
    statements: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        claim = _pid_of(row["property"]), row["value"].removeprefix(ENTITY)
        if not is_qid(claim[1]):
            continue
        if "statement" in row:
            statements[claim].append(row["statement"].removeprefix(_STATEMENT))
        else:
            claims.add(claim)
    for pid, qid in claims:
        said_by = find_first(statements[pid, qid])
        yield Fact(Pid(pid), labels.get(pid), Qid(qid), labels.get(qid), None, None, said_by)


def _list_literals(rows: Iterable[Row], labels: Mapping[str, str]) -> Iterator[Fact]:
    """Yield the dates and numbers of one item, each with precision or unit from its value nodes."""
    meanings: dict[tuple[str, str, str | None], set[tuple[int | None, Qid | None]]] = defaultdict(set)
    for row in rows:
        value = _read_literal(row["value"])
        if value is None:
            continue
        statement = row["statement"].removeprefix(_STATEMENT) if "statement" in row else None
        said = meanings[_pid_of(row["property"]), value, statement]
        if value == _read_literal(row.get("time", "")):
            said.add((int(row["precision"]) if "precision" in row else None, None))
        if value == _read_literal(row.get("amount", "")):
            said.add((None, _read_unit(row)))
    for (pid, value, statement), said in meanings.items():
        for precision, unit in said or {(None, None)}:
            yield Fact(Pid(pid), labels.get(pid), None, value, precision, unit, statement)


def _read_literal(text: str) -> str | None:
    """Return a date (tidy_date) or a number in canonical form; None for neither."""
    return canonical_number(text) if date_key(text) is None else tidy_date(text)


def _read_unit(row: Row) -> Qid | None:
    unit = row.get("unit", "").removeprefix(ENTITY)
    return Qid(unit) if is_qid(unit) and id_number(unit) != UNITLESS else None


def _pid_of(predicate: str) -> str:
    """Return the PID at the end of a predicate's IRI."""
    return predicate.rpartition("/")[2]


def _answer_from_graph(graph: LocalGraph, parts: Sequence[Parts], language: str) -> list[Json]:
    found = graph.item_facts([each["qid"] for each in parts], language)
    return [write_facts(found[each["qid"]]) for each in parts]


def _rest_on(parts: Parts, body: Any) -> list[Dependency]:
    named = {fact["pid"]: fact["property"] for fact in body}
    named |= {fact["qid"]: fact["value"] for fact in body if fact["qid"] is not None}
    return [*rest_on_item(parts, body), *rest_on_labels(named, parts)]


ITEM_FACTS = Operation(
    "item_facts",
    service="wikidata",
    parts={"qid": is_item, "language": is_text},
    read=read_facts,
    sparql=Sparql(files=("wikidata/item_facts",), own=("qid",), terms=list_item_terms, read=by_texts(_read_item_facts)),
    graph=_answer_from_graph,
    rests_on=_rest_on,
)
"""Body: `[{"pid", "property", "qid", "value", "precision", "unit", "statement"}]`, in the order of `write_facts`."""
