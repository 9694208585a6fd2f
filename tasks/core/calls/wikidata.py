"""Calls to a Wikidata: items with a name, labels, descriptions, redirects, neighbours and aliases, and facts of a property.

Every Wikidata (SPARQL endpoint or local graph) answers the same calls with the same JSON bodies; a parity test checks
that. All lists have a fixed order, so that responses can be compared and recorded byte for byte. See item_facts.py for the
facts of an item, and path_calls.py for paths.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, NewType, Protocol

from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.operation import (
    CallParts,
    Operation,
    OperationSparqlMapping,
    ResponseDependency,
    ValuesBlocks,
    WikiItemLabelOrPageDependency,
    is_item_id,
    is_positive_count,
    is_property_id,
    is_string_value,
    list_item_dependency,
    list_label_dependencies,
    make_list_check,
    make_optional_check,
)
from factmill.tasks.core.digests import JsonValue
from factmill.tasks.core.sparql import (
    DIRECT_CLAIM_NAMESPACE,
    ENTITY_NAMESPACE,
    SolutionValues,
    adapt_value_reader_to_solutions,
    check_language_tag,
    direct_property_term,
    entity_term,
    find_smallest_value,
    group_rows_by_item,
    integer_term,
    item_term,
    literal_term,
)
from factmill.tasks.text.wikidata_ids import get_wikidata_id_number, is_pid, is_qid

if TYPE_CHECKING:
    from factmill.tasks.core.calls.item_facts import ItemFact

Qid = NewType("Qid", str)
Pid = NewType("Pid", str)

HUMAN_QID = Qid("Q5")
"""The class that people are instances of."""


@dataclass(frozen=True, slots=True)
class ItemMatchedByName:
    """One item with a given name."""

    qid: Qid
    matched_by: Literal["label", "alias"]
    """Whether the name is the item's label or an alias."""


@dataclass(frozen=True, slots=True)
class ItemDescription:
    """Label, description and article of an item, in one language."""

    label: str | None
    description: str | None
    title: str | None
    """Title of the English Wikipedia article."""
    modified: str | None
    """Last change of the item (ISO 8601), or date of the dump; None if the source lacks it."""


@dataclass(frozen=True, slots=True)
class ItemNeighbour:
    """One direct claim of an item whose value is an item."""

    pid: Pid
    qid: Qid
    label: str | None


class LocalGraph(Protocol):
    """Look-ups of a local graph (tasks/graph/lookup.py) for answering calls."""

    def find_items_by_name(self, names: Iterable[str], language: str) -> dict[str, list[ItemMatchedByName]]: ...
    def load_descriptions(self, qids: Iterable[str], language: str) -> dict[Qid, ItemDescription]: ...
    def find_labels(self, ids: Iterable[str], language: str) -> dict[str, str]: ...
    def list_aliases(self, qids: Iterable[str], language: str) -> dict[Qid, list[str]]: ...
    def resolve_redirects(self, qids: Iterable[str]) -> dict[Qid, Qid]: ...
    def list_neighbours(
        self, asked: Sequence[tuple[str, Sequence[str]]], language: str
    ) -> list[list[ItemNeighbour]]: ...
    def list_facts(self, pid: str, after: str | None, limit: int) -> list[tuple[Qid, Qid]]: ...
    def list_item_facts(self, qids: Iterable[str], language: str) -> dict[Qid, "list[ItemFact]"]: ...


def make_find_items_call(service: str, name: str, language: str = "en") -> Call:
    """Make the call for the items whose label or alias is exactly a name."""
    return FIND_ITEMS_OPERATION.make_call(service, name=name, language=language)


def make_describe_item_call(service: str, qid: str, language: str = "en") -> Call:
    """Make the call for an item's label, description and English article."""
    return DESCRIBE_ITEMS_OPERATION.make_call(service, qid=qid, language=language)


def make_resolve_item_redirect_call(service: str, qid: str, language: str = "en") -> Call:
    """Make the call for the current item of a QID: merged items become redirects."""
    return RESOLVE_ITEM_OPERATION.make_call(service, qid=qid, language=language)


def make_neighbours_call(service: str, qid: str, pids: Sequence[str], language: str = "en") -> Call:
    """Make the call for an item's direct claims of some properties."""
    return NEIGHBOURS_OPERATION.make_call(
        service, qid=qid, pids=sorted(pids, key=get_wikidata_id_number), language=language
    )


def make_label_call(service: str, entity_id: str, language: str = "en") -> Call:
    """Make the call for the label of an item or property."""
    return LABEL_OPERATION.make_call(service, id=entity_id, language=language)


def make_aliases_call(service: str, qid: str, language: str = "en") -> Call:
    """Make the call for the aliases of an item."""
    return ALIASES_OPERATION.make_call(service, qid=qid, language=language)


def make_list_facts_call(service: str, pid: str, after: str | None, limit: int, language: str = "en") -> Call:
    """Make the call for the next facts of a property, up to `limit` subjects after `after`."""
    return LIST_FACTS_OPERATION.make_call(service, pid=pid, after=after, limit=limit, language=language)


def make_entity_last_changes_and_labels_call(service: str, ids: Iterable[str], language: str, checked_on: str) -> Call:
    """Make the call for last changes and labels of items and properties; `checked_on` makes each check a call of its own."""
    return ITEM_STATES_OPERATION.make_call(service, ids=sorted(ids), language=language, on=checked_on)


def parse_item_candidates(body: Any) -> list[ItemMatchedByName]:
    """Parse the body of find_items."""
    return [ItemMatchedByName(Qid(found["qid"]), found["via"]) for found in body]


def parse_item_description(body: Any) -> ItemDescription:
    """Parse the body of describe_items."""
    return ItemDescription(body["label"], body["description"], body["title"], body["modified"])


def parse_neighbour_edges(body: Any) -> list[ItemNeighbour]:
    """Parse the body of neighbours."""
    return [ItemNeighbour(Pid(edge["pid"]), Qid(edge["qid"]), edge["label"]) for edge in body]


def parse_fact_pairs(body: Any) -> list[tuple[Qid, Qid]]:
    """Parse the body of list_facts to (subject, value) pairs."""
    return [(Qid(fact["subject"]), Qid(fact["object"])) for fact in body]


def parse_label_call_body(body: Any) -> str | None:
    """Parse the body of label."""
    return None if body is None else str(body)


def parse_aliases(body: Any) -> list[str]:
    """Parse the body of aliases."""
    return [str(alias) for alias in body]


def choose_item_by_label_then_smallest_qid(candidates: Sequence[ItemMatchedByName]) -> ItemMatchedByName:
    """Return the candidate with the smallest QID number, matches by label before those by alias.

    The paper's rule (Appendix B, "QID disambiguation"): small numbers were assigned early, to widely known entities.
    """
    return min(candidates, key=lambda each: (each.matched_by != "label", get_wikidata_id_number(each.qid)))


def make_item_and_language_terms(calls: Sequence[Call]) -> ValuesBlocks:
    """Return the VALUES blocks of calls about items, in one language."""
    language = literal_term(check_language_tag(calls[0].parts["language"]))
    return {"language": [language], **_make_item_terms(calls)}


def _make_item_terms(calls: Sequence[Call]) -> ValuesBlocks:
    return {"item": [item_term(qid) for qid in dict.fromkeys(call.parts["qid"] for call in calls)]}


def _make_name_terms(calls: Sequence[Call]) -> ValuesBlocks:
    tags = dict.fromkeys((calls[0].parts["language"], "mul"))
    names = dict.fromkeys(call.parts["name"] for call in calls)
    return {"name": [literal_term(name, tag) for name in names for tag in tags]}


def _make_entity_terms(ids: Iterable[str], language: str) -> ValuesBlocks:
    tags = [literal_term(check_language_tag(tag)) for tag in dict.fromkeys((language, "mul"))]
    return {"language": tags, "entity": [entity_term(each) for each in ids]}


def _make_property_fact_page_terms(calls: Sequence[Call]) -> ValuesBlocks:
    parts = calls[0].parts
    after = 0 if parts["after"] is None else get_wikidata_id_number(item_term(parts["after"]).removeprefix("wd:"))
    return {"property": [direct_property_term(parts["pid"])], "after": [integer_term(after)]}


def _make_neighbour_terms(calls: Sequence[Call]) -> ValuesBlocks:
    pids: Any = calls[0].parts["pids"]
    return {**make_item_and_language_terms(calls), "property": [direct_property_term(pid) for pid in pids]}


def _make_found_items_response_bodies(calls: Sequence[Call], rows: Sequence[SolutionValues]) -> list[JsonValue]:
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for row in rows:
        qid = row["item"].removeprefix(ENTITY_NAMESPACE)
        if is_qid(qid) and found[row["name"]].get(qid) != "label":
            found[row["name"]][qid] = row["via"]
    return [
        [
            {"qid": qid, "via": via}
            for qid, via in sorted(
                found[call.parts["name"]].items(),
                key=lambda pair: (pair[1] != "label", get_wikidata_id_number(pair[0])),
            )
        ]
        for call in calls
    ]


def _make_description_response_bodies(calls: Sequence[Call], rows: Sequence[SolutionValues]) -> list[JsonValue]:
    by_qid = group_rows_by_item(rows)
    return [
        {
            name: find_smallest_value(row.get(name) for row in by_qid[call.parts["qid"]])
            for name in ("label", "description", "title", "modified")
        }
        for call in calls
    ]


def _make_label_response_bodies(calls: Sequence[Call], rows: Sequence[SolutionValues]) -> list[JsonValue]:
    found: dict[tuple[str, bool], list[str]] = defaultdict(list)
    language = calls[0].parts["language"]
    for row in rows:
        found[row["entity"].removeprefix(ENTITY_NAMESPACE), row["language"] == language].append(row["label"])
    return [find_smallest_value(found[call.parts["id"], True] or found[call.parts["id"], False]) for call in calls]


def _make_alias_response_bodies(calls: Sequence[Call], rows: Sequence[SolutionValues]) -> list[JsonValue]:
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        found[row["entity"].removeprefix(ENTITY_NAMESPACE)].add(row["alias"])
    return [list[JsonValue](sorted(found[call.parts["qid"]])) for call in calls]


def _make_last_changes_and_labels_bodies(calls: Sequence[Call], rows: Sequence[SolutionValues]) -> list[JsonValue]:
    bodies: list[JsonValue] = []
    for call in calls:
        state: dict[str, JsonValue] = {}
        for each in call.parts["ids"]:
            found = [row for row in rows if row["entity"].removeprefix(ENTITY_NAMESPACE) == each]
            labels = [row for row in found if "label" in row]
            own_labels = [row["label"] for row in labels if row["language"] == call.parts["language"]]
            state[each] = {
                **{name: find_smallest_value(row.get(name) for row in found) for name in ("modified", "version")},
                "label": find_smallest_value(own_labels or (row["label"] for row in labels)),
            }
        bodies.append(state)
    return bodies


def _make_redirect_target_response_bodies(calls: Sequence[Call], rows: Sequence[SolutionValues]) -> list[JsonValue]:
    by_qid = group_rows_by_item(rows)
    targets = {
        qid: find_smallest_value(row["target"].removeprefix(ENTITY_NAMESPACE) for row in found)
        for qid, found in by_qid.items()
    }
    return [targets.get(call.parts["qid"], call.parts["qid"]) for call in calls]


def _make_neighbours_response_bodies(calls: Sequence[Call], rows: Sequence[SolutionValues]) -> list[JsonValue]:
    by_qid = group_rows_by_item(rows)
    bodies: list[JsonValue] = []
    for call in calls:
        labels: dict[tuple[str, str], list[str | None]] = defaultdict(list)
        for row in by_qid[call.parts["qid"]]:
            pid, qid = row["property"].removeprefix(DIRECT_CLAIM_NAMESPACE), row["value"].removeprefix(ENTITY_NAMESPACE)
            if is_pid(pid) and is_qid(qid):
                labels[pid, qid].append(row.get("label"))
        bodies.append(
            [
                {"pid": pid, "qid": qid, "label": find_smallest_value(labels[pid, qid])}
                for pid, qid in sorted(labels, key=_get_id_numbers)
            ]
        )
    return bodies


def _make_subject_object_response_bodies(calls: Sequence[Call], rows: Sequence[SolutionValues]) -> list[JsonValue]:
    facts = {
        (row["subject"].removeprefix(ENTITY_NAMESPACE), row["object"].removeprefix(ENTITY_NAMESPACE)) for row in rows
    }
    kept = sorted((fact for fact in facts if all(map(is_qid, fact))), key=_get_id_numbers)
    return [[{"subject": subject, "object": found} for subject, found in kept] for _ in calls]


def _get_id_numbers(ids: Iterable[str]) -> tuple[int, ...]:
    return tuple(map(get_wikidata_id_number, ids))


def _find_items_in_graph(graph: LocalGraph, parts: Sequence[CallParts], language: str) -> list[JsonValue]:
    found = graph.find_items_by_name([each["name"] for each in parts], language)
    return [[{"qid": item.qid, "via": item.matched_by} for item in found[each["name"]]] for each in parts]


FIND_ITEMS_OPERATION = Operation(
    "find_items",
    service="wikidata",
    part_checks={"name": is_string_value, "language": is_string_value},
    parse_body=parse_item_candidates,
    sparql=OperationSparqlMapping(
        query_files=("wikidata/find_items",),
        varying_parts=("name",),
        make_terms=_make_name_terms,
        make_bodies=adapt_value_reader_to_solutions(_make_found_items_response_bodies),
    ),
    load_from_graph=_find_items_in_graph,
    list_world_contents=lambda parts: [f"name en {parts['name']}"] if parts["language"] == "en" else None,
)
"""Body: `[{"qid", "via": "label" or "alias"}]`, labels first, then by number of the QID; one entry per QID."""


def _load_descriptions_from_graph(graph: LocalGraph, parts: Sequence[CallParts], language: str) -> list[JsonValue]:
    found = graph.load_descriptions([each["qid"] for each in parts], language)
    return [asdict(found[each["qid"]]) for each in parts]


def _list_described_item_dependency(parts: CallParts, body: Any) -> list[ResponseDependency]:
    says = {} if body["modified"] is None else {"modified": body["modified"]}
    return [ResponseDependency(WikiItemLabelOrPageDependency("item", parts["qid"]), says, must_be_unchanged=not says)]


DESCRIBE_ITEMS_OPERATION = Operation(
    "describe_items",
    service="wikidata",
    part_checks={"qid": is_item_id, "language": is_string_value},
    parse_body=parse_item_description,
    sparql=OperationSparqlMapping(
        query_files=("wikidata/describe_items",),
        varying_parts=("qid",),
        make_terms=make_item_and_language_terms,
        make_bodies=adapt_value_reader_to_solutions(_make_description_response_bodies),
    ),
    load_from_graph=_load_descriptions_from_graph,
    list_dependencies=_list_described_item_dependency,
)
"""Body: `{"label", "description", "title", "modified"}`, each null when unknown; an unknown QID gives nulls."""


def _load_labels_from_graph(graph: LocalGraph, parts: Sequence[CallParts], language: str) -> list[JsonValue]:
    found = graph.find_labels([each["id"] for each in parts], language)
    return [found.get(each["id"]) for each in parts]


LABEL_OPERATION = Operation(
    "label",
    service="wikidata",
    part_checks={"id": lambda value: is_item_id(value) or is_property_id(value), "language": is_string_value},
    parse_body=parse_label_call_body,
    sparql=OperationSparqlMapping(
        query_files=("wikidata/label",),
        varying_parts=("id",),
        make_terms=lambda calls: _make_entity_terms((call.parts["id"] for call in calls), calls[0].parts["language"]),
        make_bodies=adapt_value_reader_to_solutions(_make_label_response_bodies),
    ),
    load_from_graph=_load_labels_from_graph,
    list_dependencies=lambda parts, body: list_label_dependencies({parts["id"]: body}, parts),
)
"""Body: the label of an item or property, or null when it has neither one in the language nor one for all languages."""


def _list_aliases_in_graph(graph: LocalGraph, parts: Sequence[CallParts], language: str) -> list[JsonValue]:
    found = graph.list_aliases([each["qid"] for each in parts], language)
    return [list[JsonValue](found[each["qid"]]) for each in parts]


ALIASES_OPERATION = Operation(
    "aliases",
    service="wikidata",
    part_checks={"qid": is_item_id, "language": is_string_value},
    parse_body=parse_aliases,
    sparql=OperationSparqlMapping(
        query_files=("wikidata/aliases",),
        varying_parts=("qid",),
        make_terms=lambda calls: _make_entity_terms(
            dict.fromkeys(call.parts["qid"] for call in calls), calls[0].parts["language"]
        ),
        make_bodies=adapt_value_reader_to_solutions(_make_alias_response_bodies),
    ),
    load_from_graph=_list_aliases_in_graph,
    list_dependencies=list_item_dependency,
)
"""Body: the aliases of an item in the language and those for all languages, sorted, each once, without labels."""


def _resolve_redirects_to_qids_in_graph(
    graph: LocalGraph, parts: Sequence[CallParts], _language: str
) -> list[JsonValue]:
    found = graph.resolve_redirects([each["qid"] for each in parts])
    return [found[each["qid"]] for each in parts]


RESOLVE_ITEM_OPERATION = Operation(
    "resolve_item",
    service="wikidata",
    part_checks={"qid": is_item_id, "language": is_string_value},
    parse_body=str,
    sparql=OperationSparqlMapping(
        query_files=("wikidata/resolve_item",),
        varying_parts=("qid",),
        make_terms=_make_item_terms,
        make_bodies=adapt_value_reader_to_solutions(_make_redirect_target_response_bodies),
    ),
    load_from_graph=_resolve_redirects_to_qids_in_graph,
    depends_on_language=False,
    # a redirect has no date of change of its own
    list_dependencies=lambda parts, body: list_item_dependency(parts, body) if body == parts["qid"] else None,
)
"""Body: the QID at the end of its redirects; itself when it is no redirect."""


def _load_neighbours_from_graph(graph: LocalGraph, parts: Sequence[CallParts], language: str) -> list[JsonValue]:
    found = graph.list_neighbours([(each["qid"], each["pids"]) for each in parts], language)
    return [[{"pid": edge.pid, "qid": edge.qid, "label": edge.label} for edge in edges] for edges in found]


def _list_entities_neighbours_depend_on(parts: CallParts, body: Any) -> list[ResponseDependency]:
    named = {edge["qid"]: edge["label"] for edge in body}
    return [*list_item_dependency(parts, body), *list_label_dependencies(named, parts)]


NEIGHBOURS_OPERATION = Operation(
    "neighbours",
    service="wikidata",
    part_checks={"qid": is_item_id, "pids": make_list_check(is_property_id), "language": is_string_value},
    parse_body=parse_neighbour_edges,
    sparql=OperationSparqlMapping(
        query_files=("wikidata/neighbours",),
        varying_parts=("qid",),
        make_terms=_make_neighbour_terms,
        make_bodies=adapt_value_reader_to_solutions(_make_neighbours_response_bodies),
    ),
    load_from_graph=_load_neighbours_from_graph,
    list_dependencies=_list_entities_neighbours_depend_on,
)
"""`pids` are sorted. Body: `[{"pid", "qid", "label"}]`, direct claims with an item as value, by number of pid and qid."""


def _list_property_facts_in_graph(graph: LocalGraph, parts: Sequence[CallParts], _language: str) -> list[JsonValue]:
    facts = [graph.list_facts(each["pid"], each["after"], each["limit"]) for each in parts]
    return [[{"subject": subject, "object": thing} for subject, thing in page] for page in facts]


LIST_FACTS_OPERATION = Operation(
    "list_facts",
    service="wikidata",
    part_checks={
        "pid": is_property_id,
        "after": make_optional_check(is_item_id),
        "limit": is_positive_count,
        "language": is_string_value,
    },
    parse_body=parse_fact_pairs,
    sparql=OperationSparqlMapping(
        query_files=("wikidata/list_facts",),
        make_terms=_make_property_fact_page_terms,
        limit_part="limit",
        make_bodies=adapt_value_reader_to_solutions(_make_subject_object_response_bodies),
    ),
    load_from_graph=_list_property_facts_in_graph,
    depends_on_language=False,
    list_world_contents=lambda parts: [f"facts {parts['pid']}"],
)
"""Body: `[{"subject", "object"}]`, direct item claims of the property by number of subject, then object; up to `limit`
subjects after `after`, each with all its claims."""

ITEM_STATES_OPERATION = Operation(
    "item_states",
    service="wikidata",
    part_checks={"ids": make_list_check(is_string_value), "language": is_string_value, "on": is_string_value},
    parse_body=dict,
    sparql=OperationSparqlMapping(
        query_files=("wikidata/item_states",),
        make_terms=lambda calls: _make_entity_terms(calls[0].parts["ids"], calls[0].parts["language"]),
        make_bodies=adapt_value_reader_to_solutions(_make_last_changes_and_labels_bodies),
    ),
    load_from_graph="a local graph has no item states to check: its digest identifies its content",
)
"""Body: id → `{"modified", "version", "label"}`, each null when unknown."""
