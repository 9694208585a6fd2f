"""Calls for the facts within one hop of an item: its direct claims to items, its dates and its numbers."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.operation import (
    CallParts,
    Operation,
    OperationSparqlMapping,
    ResponseDependency,
    is_item_id,
    is_string_value,
    list_item_dependency,
    list_label_dependencies,
)
from factmill.tasks.core.calls.wikidata import LocalGraph, Pid, Qid, make_item_and_language_terms
from factmill.tasks.core.digests import JsonValue
from factmill.tasks.core.sparql import (
    ENTITY_NAMESPACE,
    SolutionValues,
    adapt_value_reader_to_solutions,
    find_smallest_value,
    group_rows_by_item,
    normalise_utc_suffix,
)
from factmill.tasks.text.values.wikidata_literals import (
    UNITLESS_QID_NUMBER,
    canonical_number,
    compute_xsd_datetime_day_key,
)
from factmill.tasks.text.wikidata_ids import get_wikidata_id_number, is_pid, is_qid

_STATEMENT_NAMESPACE = f"{ENTITY_NAMESPACE}statement/"


@dataclass(frozen=True, slots=True)
class ItemFact:
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
    """Label of that item; a date as written in the RDF, a number in canonical form (text/values/wikidata_literals.py)."""
    precision: int | None
    """Precision of a date, Wikidata's code (text/values/wikidata_literals.py); None if the data lack it, and for other values."""
    unit: Qid | None
    """Unit of a number; None for none."""
    statement: str | None
    """Id of the statement as in the RDF; for a claim, the smallest of its statements not deprecated; None without one."""


def make_item_facts_call(service: str, qid: str, language: str = "en") -> Call:
    """Make the call for the facts within one hop of an item: its direct claims to items, its dates and its numbers."""
    return ITEM_FACTS_OPERATION.make_call(service, qid=qid, language=language)


def parse_item_facts(body: Any) -> list[ItemFact]:
    """Parse the body of item_facts."""
    return [ItemFact(**fact) for fact in body]


def format_item_facts(facts: Iterable[ItemFact]) -> list[JsonValue]:
    """Format the body of item_facts: one JSON object per fact.

    Sorted by property number; within a property, first dates and numbers, by text and statement, then claims, by number of
    the item.
    """
    return [asdict(fact) for fact in sorted(facts, key=_fact_sort_key)]


def _fact_sort_key(fact: ItemFact) -> tuple[int, bool, int, str, str, int, int]:
    return (
        get_wikidata_id_number(fact.pid),
        fact.qid is not None,
        get_wikidata_id_number(fact.qid) if fact.qid else 0,
        fact.value or "",
        fact.statement or "",
        -1 if fact.precision is None else fact.precision,
        get_wikidata_id_number(fact.unit) if fact.unit else 0,
    )


def _make_item_facts_response_bodies(calls: Sequence[Call], rows: Sequence[SolutionValues]) -> list[JsonValue]:
    labelled: dict[str, list[tuple[bool, str]]] = defaultdict(list)
    for row in rows:
        if "thing" in row:
            is_other_language = row["tag"] != calls[0].parts["language"]
            labelled[row["thing"].removeprefix(ENTITY_NAMESPACE)].append((is_other_language, row["label"]))
    labels = {each: min(given)[1] for each, given in labelled.items()}
    by_qid = group_rows_by_item(row for row in rows if "item" in row and is_pid(_get_predicate_pid(row["property"])))
    facts = {
        qid: [*_iterate_item_valued_facts(found, labels), *_iterate_date_and_number_facts(found, labels)]
        for qid, found in by_qid.items()
    }
    return [format_item_facts(facts.get(call.parts["qid"], [])) for call in calls]


def _iterate_item_valued_facts(rows: Iterable[SolutionValues], labels: Mapping[str, str]) -> Iterator[ItemFact]:
    """Yield the direct claims of one item to items, each with the first of its statements."""
    claims: set[tuple[str, str]] = set()
    statements: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        claim = _get_predicate_pid(row["property"]), row["value"].removeprefix(ENTITY_NAMESPACE)
        if not is_qid(claim[1]):
            continue
        if "statement" in row:
            statements[claim].append(row["statement"].removeprefix(_STATEMENT_NAMESPACE))
        else:
            claims.add(claim)
    for pid, qid in claims:
        said_by = find_smallest_value(statements[pid, qid])
        yield ItemFact(Pid(pid), labels.get(pid), Qid(qid), labels.get(qid), None, None, said_by)


def _iterate_date_and_number_facts(rows: Iterable[SolutionValues], labels: Mapping[str, str]) -> Iterator[ItemFact]:
    """Yield the dates and numbers of one item, each with precision or unit from its value nodes."""
    meanings: dict[tuple[str, str, str | None], set[tuple[int | None, Qid | None]]] = defaultdict(set)
    for row in rows:
        value = _normalise_date_or_number(row["value"])
        if value is None:
            continue
        statement = row["statement"].removeprefix(_STATEMENT_NAMESPACE) if "statement" in row else None
        found = meanings[_get_predicate_pid(row["property"]), value, statement]
        if value == _normalise_date_or_number(row.get("time", "")):
            found.add((int(row["precision"]) if "precision" in row else None, None))
        if value == _normalise_date_or_number(row.get("amount", "")):
            unit = row.get("unit", "").removeprefix(ENTITY_NAMESPACE)
            is_unit = is_qid(unit) and get_wikidata_id_number(unit) != UNITLESS_QID_NUMBER
            found.add((None, Qid(unit) if is_unit else None))
    for (pid, value, statement), found in meanings.items():
        for precision, unit_qid in found or {(None, None)}:
            yield ItemFact(Pid(pid), labels.get(pid), None, value, precision, unit_qid, statement)


def _normalise_date_or_number(text: str) -> str | None:
    """Return a date (normalise_utc_suffix) or a number in canonical form; None for neither."""
    return canonical_number(text) if compute_xsd_datetime_day_key(text) is None else normalise_utc_suffix(text)


def _get_predicate_pid(predicate: str) -> str:
    """Return the PID at the end of a predicate's IRI."""
    return predicate.rpartition("/")[2]


def _load_item_facts_from_graph(graph: LocalGraph, parts: Sequence[CallParts], language: str) -> list[JsonValue]:
    found = graph.list_item_facts([each["qid"] for each in parts], language)
    return [format_item_facts(found[each["qid"]]) for each in parts]


def _list_item_facts_dependencies(parts: CallParts, body: Any) -> list[ResponseDependency]:
    named = {fact["pid"]: fact["property"] for fact in body}
    named |= {fact["qid"]: fact["value"] for fact in body if fact["qid"] is not None}
    return [*list_item_dependency(parts, body), *list_label_dependencies(named, parts)]


ITEM_FACTS_OPERATION = Operation(
    "item_facts",
    service="wikidata",
    part_checks={"qid": is_item_id, "language": is_string_value},
    parse_body=parse_item_facts,
    sparql=OperationSparqlMapping(
        query_files=("wikidata/item_facts",),
        varying_parts=("qid",),
        make_terms=make_item_and_language_terms,
        make_bodies=adapt_value_reader_to_solutions(_make_item_facts_response_bodies),
    ),
    load_from_graph=_load_item_facts_from_graph,
    list_dependencies=_list_item_facts_dependencies,
)
"""Body: `[{"pid", "property", "qid", "value", "precision", "unit", "statement"}]`, in the order of `format_item_facts`."""
