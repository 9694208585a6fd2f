"""Calls to a Wikidata: items with a name, labels, descriptions, redirects, neighbours and aliases of items, and facts of a
property.

Every Wikidata (SPARQL endpoint or local graph) answers the same calls with the same JSON bodies; a parity test checks
that. All lists have a fixed order, so that responses can be compared and recorded byte for byte. See item_facts.py for the
facts of an item, and paths.py for paths.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NewType, Protocol

from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.operation import (
    Dependency,
    Operation,
    Parts,
    Sparql,
    Terms,
    Thing,
    is_count,
    is_item,
    is_list_of,
    is_none_or,
    is_property,
    is_text,
    rest_on_item,
    rest_on_labels,
)
from factmill.tasks.core.fingerprints import Json
from factmill.tasks.core.sparql import (
    DIRECT,
    ENTITY,
    Row,
    by_texts,
    check_language,
    direct_property_term,
    entity_term,
    find_first,
    group_by_item,
    item_term,
    literal_term,
    number_term,
)
from factmill.tasks.text.ids import id_number, is_pid, is_qid

if TYPE_CHECKING:
    from factmill.tasks.core.calls.item_facts import Fact

Qid = NewType("Qid", str)
Pid = NewType("Pid", str)

HUMAN = Qid("Q5")
"""The class that people are instances of."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One item with a given name."""

    qid: Qid
    via: Literal["label", "alias"]
    """Whether the name is the item's label or an alias."""


@dataclass(frozen=True, slots=True)
class Description:
    """Label, description and article of an item, in one language."""

    label: str | None
    description: str | None
    title: str | None
    """Title of the English Wikipedia article."""
    modified: str | None
    """Last change of the item (ISO 8601), or date of the dump; None if the source lacks it."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """One direct claim of an item whose value is an item."""

    pid: Pid
    qid: Qid
    label: str | None


class LocalGraph(Protocol):
    """Look-ups of a local graph (tasks/graph/lookup.py) for answering calls."""

    def find(self, names: Iterable[str], language: str) -> dict[str, list[Candidate]]: ...
    def describe(self, qids: Iterable[str], language: str) -> dict[Qid, Description]: ...
    def labels(self, ids: Iterable[str], language: str) -> dict[str, str]: ...
    def aliases(self, qids: Iterable[str], language: str) -> dict[Qid, list[str]]: ...
    def resolve(self, qids: Iterable[str]) -> dict[Qid, Qid]: ...
    def neighbours_of_each(
        self, asked: Sequence[tuple[str, Sequence[str]]], language: str
    ) -> list[list[Neighbour]]: ...
    def list_facts(self, pid: str, after: str | None, limit: int) -> list[tuple[Qid, Qid]]: ...
    def item_facts(self, qids: Iterable[str], language: str) -> dict[Qid, "list[Fact]"]: ...


def call_find_items(service: str, name: str, language: str = "en") -> Call:
    """Make the call for the items whose label or alias is exactly a name."""
    return FIND_ITEMS.call(service, name=name, language=language)


def call_describe_item(service: str, qid: str, language: str = "en") -> Call:
    """Make the call for an item's label, description and English article."""
    return DESCRIBE_ITEMS.call(service, qid=qid, language=language)


def call_resolve_item(service: str, qid: str, language: str = "en") -> Call:
    """Make the call for the current item of a QID: merged items become redirects."""
    return RESOLVE_ITEM.call(service, qid=qid, language=language)


def call_neighbours(service: str, qid: str, pids: Sequence[str], language: str = "en") -> Call:
    """Make the call for an item's direct claims of some properties."""
    return NEIGHBOURS.call(service, qid=qid, pids=sorted(pids, key=id_number), language=language)


def call_label(service: str, entity_id: str, language: str = "en") -> Call:
    """Make the call for the label of an item or property."""
    return LABEL.call(service, id=entity_id, language=language)


def call_aliases(service: str, qid: str, language: str = "en") -> Call:
    """Make the call for the aliases of an item."""
    return ALIASES.call(service, qid=qid, language=language)


def call_list_facts(service: str, pid: str, after: str | None, limit: int, language: str = "en") -> Call:
    """Make the call for the next facts of a property, up to `limit` subjects after `after`."""
    return LIST_FACTS.call(service, pid=pid, after=after, limit=limit, language=language)


def call_item_states(service: str, ids: Iterable[str], language: str, on: str) -> Call:
    """Make the call for the last changes of items and the labels of items and properties; `on` (ISO 8601, UTC) makes each
    check a separate call."""
    return ITEM_STATES.call(service, ids=sorted(ids), language=language, on=on)


def read_candidates(body: Any) -> list[Candidate]:
    """Parse the body of find_items."""
    return [Candidate(Qid(found["qid"]), found["via"]) for found in body]


def read_description(body: Any) -> Description:
    """Parse the body of describe_items."""
    return Description(body["label"], body["description"], body["title"], body["modified"])


def write_description(known: Description) -> Json:
    """Format the body of describe_items."""
    return {
        "label": known.label,
        "description": known.description,
        "title": known.title,
        "modified": known.modified,
    }


def read_neighbours(body: Any) -> list[Neighbour]:
    """Parse the body of neighbours."""
    return [Neighbour(Pid(edge["pid"]), Qid(edge["qid"]), edge["label"]) for edge in body]


def read_fact_pairs(body: Any) -> list[tuple[Qid, Qid]]:
    """Parse the body of list_facts to (subject, value) pairs."""
    return [(Qid(fact["subject"]), Qid(fact["object"])) for fact in body]


def read_label(body: Any) -> str | None:
    """Parse the body of label."""
    return None if body is None else str(body)


def read_aliases(body: Any) -> list[str]:
    """Parse the body of aliases."""
    return [str(alias) for alias in body]


def choose_candidate(candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate with the smallest QID number, matches by label before those by alias.

    The paper's rule (Appendix B, "QID disambiguation"): small numbers were assigned early, to widely known entities.
    """
    return min(candidates, key=lambda candidate: (candidate.via != "label", id_number(candidate.qid)))


def list_item_terms(calls: Sequence[Call]) -> Terms:
    """Return the VALUES blocks of calls about items, in one language."""
    language = literal_term(check_language(str(calls[0].parts["language"])))
    return {"language": [language], **_list_items(calls)}


def _list_items(calls: Sequence[Call]) -> Terms:
    return {"item": [item_term(qid) for qid in dict.fromkeys(str(call.parts["qid"]) for call in calls)]}


def _list_name_terms(calls: Sequence[Call]) -> Terms:
    tags = dict.fromkeys((str(calls[0].parts["language"]), "mul"))
    names = dict.fromkeys(str(call.parts["name"]) for call in calls)
    return {"name": [literal_term(name, tag) for name in names for tag in tags]}


def _list_entity_terms(ids: Iterable[str], language: str) -> Terms:
    tags = [literal_term(check_language(tag)) for tag in dict.fromkeys((language, "mul"))]
    return {"language": tags, "entity": [entity_term(each) for each in ids]}


def _list_page_terms(calls: Sequence[Call]) -> Terms:
    parts = calls[0].parts
    after = 0 if parts["after"] is None else id_number(item_term(str(parts["after"])).removeprefix("wd:"))
    return {"property": [direct_property_term(str(parts["pid"]))], "after": [number_term(after)]}


def _list_neighbour_terms(calls: Sequence[Call]) -> Terms:
    pids: Any = calls[0].parts["pids"]
    return {**list_item_terms(calls), "property": [direct_property_term(pid) for pid in pids]}


def _read_found(calls: Sequence[Call], rows: Sequence[Row]) -> list[Json]:
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for row in rows:
        qid = row["item"].removeprefix(ENTITY)
        if is_qid(qid) and found[row["name"]].get(qid) != "label":
            found[row["name"]][qid] = row["via"]
    return [
        [
            {"qid": qid, "via": via}
            for qid, via in sorted(
                found[str(call.parts["name"])].items(), key=lambda pair: (pair[1] != "label", id_number(pair[0]))
            )
        ]
        for call in calls
    ]


def _read_descriptions(calls: Sequence[Call], rows: Sequence[Row]) -> list[Json]:
    by_qid = group_by_item(rows)
    return [
        {
            name: find_first(row.get(name) for row in by_qid[str(call.parts["qid"])])
            for name in ("label", "description", "title", "modified")
        }
        for call in calls
    ]


def _read_labels(calls: Sequence[Call], rows: Sequence[Row]) -> list[Json]:
    found: dict[tuple[str, bool], list[str]] = defaultdict(list)
    language = str(calls[0].parts["language"])
    for row in rows:
        found[row["entity"].removeprefix(ENTITY), row["language"] == language].append(row["label"])
    return [find_first(found[str(call.parts["id"]), True] or found[str(call.parts["id"]), False]) for call in calls]


def _read_aliases(calls: Sequence[Call], rows: Sequence[Row]) -> list[Json]:
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        found[row["entity"].removeprefix(ENTITY)].add(row["alias"])
    return [list[Json](sorted(found[str(call.parts["qid"])])) for call in calls]


def _read_states(calls: Sequence[Call], rows: Sequence[Row]) -> list[Json]:
    labels = [row for row in rows if "label" in row]
    bodies: list[Json] = []
    for call in calls:
        ids = [str(each) for each in call.parts["ids"]]  # type: ignore[union-attr]
        state: dict[str, Json] = {}
        for each in ids:
            found = [row for row in rows if row["entity"].removeprefix(ENTITY) == each]
            own = {name: find_first(row.get(name) for row in found) for name in ("modified", "version")}
            state[each] = {**own, "label": _choose_label(labels, each, str(call.parts["language"]))}
        bodies.append(state)
    return bodies


def _choose_label(rows: Sequence[Row], entity: str, language: str) -> str | None:
    """Return a label in the language, else the one for all languages."""
    found = [row for row in rows if row["entity"].removeprefix(ENTITY) == entity]
    return find_first(row["label"] for row in found if row["language"] == language) or find_first(
        row["label"] for row in found
    )


def _read_resolved(calls: Sequence[Call], rows: Sequence[Row]) -> list[Json]:
    by_qid = group_by_item(rows)
    targets = {qid: find_first(row["target"].removeprefix(ENTITY) for row in found) for qid, found in by_qid.items()}
    return [targets.get(str(call.parts["qid"]), str(call.parts["qid"])) for call in calls]


def _read_neighbours(calls: Sequence[Call], rows: Sequence[Row]) -> list[Json]:
    by_qid = group_by_item(rows)
    bodies: list[Json] = []
    for call in calls:
        labels: dict[tuple[str, str], list[str | None]] = defaultdict(list)
        for row in by_qid[str(call.parts["qid"])]:
            pid, qid = row["property"].removeprefix(DIRECT), row["value"].removeprefix(ENTITY)
            if is_pid(pid) and is_qid(qid):
                labels[pid, qid].append(row.get("label"))
        ordered = sorted(labels.items(), key=lambda edge: (id_number(edge[0][0]), id_number(edge[0][1])))
        bodies.append([{"pid": pid, "qid": qid, "label": find_first(given)} for (pid, qid), given in ordered])
    return bodies


def _read_fact_page(calls: Sequence[Call], rows: Sequence[Row]) -> list[Json]:
    facts = {(row["subject"].removeprefix(ENTITY), row["object"].removeprefix(ENTITY)) for row in rows}
    kept = [fact for fact in facts if is_qid(fact[0]) and is_qid(fact[1])]
    kept.sort(key=lambda fact: (id_number(fact[0]), id_number(fact[1])))
    return [[{"subject": subject, "object": found} for subject, found in kept] for _ in calls]


def _find_in_graph(graph: LocalGraph, parts: Sequence[Parts], language: str) -> list[Json]:
    found = graph.find([each["name"] for each in parts], language)
    return [[{"qid": item.qid, "via": item.via} for item in found[each["name"]]] for each in parts]


FIND_ITEMS = Operation(
    "find_items",
    service="wikidata",
    parts={"name": is_text, "language": is_text},
    read=read_candidates,
    sparql=Sparql(files=("wikidata/find_items",), own=("name",), terms=_list_name_terms, read=by_texts(_read_found)),
    graph=_find_in_graph,
    world=lambda parts: [f"name en {parts['name']}"] if parts["language"] == "en" else None,
)
"""Body: `[{"qid", "via": "label" or "alias"}]`, labels first, then by number of the QID; one entry per QID."""


def _describe_from_graph(graph: LocalGraph, parts: Sequence[Parts], language: str) -> list[Json]:
    found = graph.describe([each["qid"] for each in parts], language)
    return [write_description(found[each["qid"]]) for each in parts]


def _rest_on_description(parts: Parts, body: Any) -> list[Dependency]:
    says = {} if body["modified"] is None else {"modified": body["modified"]}
    return [Dependency(Thing("item", str(parts["qid"])), says, by_date=not says)]


DESCRIBE_ITEMS = Operation(
    "describe_items",
    service="wikidata",
    parts={"qid": is_item, "language": is_text},
    read=read_description,
    sparql=Sparql(
        files=("wikidata/describe_items",), own=("qid",), terms=list_item_terms, read=by_texts(_read_descriptions)
    ),
    graph=_describe_from_graph,
    rests_on=_rest_on_description,
)
"""Body: `{"label", "description", "title", "modified"}`, each null when unknown; an unknown QID gives nulls."""


def _label_from_graph(graph: LocalGraph, parts: Sequence[Parts], language: str) -> list[Json]:
    found = graph.labels([each["id"] for each in parts], language)
    return [found.get(each["id"]) for each in parts]


LABEL = Operation(
    "label",
    service="wikidata",
    parts={"id": lambda value: is_item(value) or is_property(value), "language": is_text},
    read=read_label,
    sparql=Sparql(
        files=("wikidata/label",),
        own=("id",),
        terms=lambda calls: _list_entity_terms(
            (str(call.parts["id"]) for call in calls), str(calls[0].parts["language"])
        ),
        read=by_texts(_read_labels),
    ),
    graph=_label_from_graph,
    rests_on=lambda parts, body: rest_on_labels({str(parts["id"]): body}, parts),
)
"""Body: the label of an item or property, or null when it has neither one in the language nor one for all languages."""


def _list_aliases_of_graph(graph: LocalGraph, parts: Sequence[Parts], language: str) -> list[Json]:
    found = graph.aliases([each["qid"] for each in parts], language)
    return [list[Json](found[each["qid"]]) for each in parts]


ALIASES = Operation(
    "aliases",
    service="wikidata",
    parts={"qid": is_item, "language": is_text},
    read=read_aliases,
    sparql=Sparql(
        files=("wikidata/aliases",),
        own=("qid",),
        terms=lambda calls: _list_entity_terms(
            dict.fromkeys(str(call.parts["qid"]) for call in calls), str(calls[0].parts["language"])
        ),
        read=by_texts(_read_aliases),
    ),
    graph=_list_aliases_of_graph,
    rests_on=rest_on_item,
)
"""Body: the aliases of an item in the language and those for all languages, sorted, each once, without labels."""


def _resolve_in_graph(graph: LocalGraph, parts: Sequence[Parts], _language: str) -> list[Json]:
    found = graph.resolve([each["qid"] for each in parts])
    return [found[each["qid"]] for each in parts]


RESOLVE_ITEM = Operation(
    "resolve_item",
    service="wikidata",
    parts={"qid": is_item, "language": is_text},
    read=str,
    sparql=Sparql(files=("wikidata/resolve_item",), own=("qid",), terms=_list_items, read=by_texts(_read_resolved)),
    graph=_resolve_in_graph,
    has_labels=False,
    # a redirect has no date of change of its own
    rests_on=lambda parts, body: rest_on_item(parts, body) if body == parts["qid"] else None,
)
"""Body: the QID at the end of its redirects; itself when it is no redirect."""


def _neighbours_from_graph(graph: LocalGraph, parts: Sequence[Parts], language: str) -> list[Json]:
    found = graph.neighbours_of_each([(each["qid"], each["pids"]) for each in parts], language)
    return [[{"pid": edge.pid, "qid": edge.qid, "label": edge.label} for edge in edges] for edges in found]


def _rest_on_neighbours(parts: Parts, body: Any) -> list[Dependency]:
    named = {edge["qid"]: edge["label"] for edge in body}
    return [*rest_on_item(parts, body), *rest_on_labels(named, parts)]


NEIGHBOURS = Operation(
    "neighbours",
    service="wikidata",
    parts={"qid": is_item, "pids": is_list_of(is_property), "language": is_text},
    read=read_neighbours,
    sparql=Sparql(
        files=("wikidata/neighbours",), own=("qid",), terms=_list_neighbour_terms, read=by_texts(_read_neighbours)
    ),
    graph=_neighbours_from_graph,
    rests_on=_rest_on_neighbours,
)
"""`pids` are sorted. Body: `[{"pid", "qid", "label"}]`, direct claims with an item as value, by number of pid and qid."""


def _list_from_graph(graph: LocalGraph, parts: Sequence[Parts], _language: str) -> list[Json]:
    facts = [graph.list_facts(each["pid"], each["after"], each["limit"]) for each in parts]
    return [[{"subject": subject, "object": thing} for subject, thing in page] for page in facts]


LIST_FACTS = Operation(
    "list_facts",
    service="wikidata",
    parts={"pid": is_property, "after": is_none_or(is_item), "limit": is_count, "language": is_text},
    read=read_fact_pairs,
    sparql=Sparql(
        files=("wikidata/list_facts",), terms=_list_page_terms, limit="limit", read=by_texts(_read_fact_page)
    ),
    graph=_list_from_graph,
    has_labels=False,
    world=lambda parts: [f"facts {parts['pid']}"],
)
"""Body: `[{"subject", "object"}]`, direct item claims of the property by number of subject, then object; up to `limit`
subjects after `after`, each with all its claims."""

ITEM_STATES = Operation(
    "item_states",
    service="wikidata",
    parts={"ids": is_list_of(is_text), "language": is_text, "on": is_text},
    read=dict,
    sparql=Sparql(
        files=("wikidata/item_states",),
        terms=lambda calls: _list_entity_terms(
            map(str, calls[0].parts["ids"]),  # type: ignore[arg-type]
            str(calls[0].parts["language"]),
        ),
        read=by_texts(_read_states),
    ),
    graph="a graph is named by its content, which never changes",
)
"""Body: id → `{"modified", "version", "label"}`, each null when unknown."""
