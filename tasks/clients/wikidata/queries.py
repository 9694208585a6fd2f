"""How Wikidata calls become SPARQL queries, and how the solutions become bodies of core/calls/knowledge.py. Pure.

Calls for paths are the matter of paths.py.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tasks.clients.sparql.solutions import DIRECT as _DIRECT
from tasks.clients.sparql.solutions import ENTITY as _ENTITY
from tasks.clients.sparql.solutions import Solution, tidy_date
from tasks.clients.sparql.terms import (
    Term,
    check_language,
    direct_property_term,
    entity_term,
    fill_limit,
    fill_values,
    item_term,
    literal_term,
    number_term,
)
from tasks.clients.wikidata import paths
from tasks.core.calls.call import Call
from tasks.core.calls.knowledge import Fact, Pid, Qid, write_facts
from tasks.core.calls.paths import OPERATIONS as PATH_OPERATIONS
from tasks.core.fingerprints import Json, canonical_json
from tasks.text.ids import id_number, is_pid, is_qid
from tasks.text.values.literals import UNITLESS, canonical_number, date_key

OPERATIONS = ("find_items", "describe_items", "label", "resolve_item", "neighbours", "list_facts", "item_facts")
QUERY_IDS = {
    **{operation: f"wikidata/{operation}" for operation in (*OPERATIONS, "item_states")},
    **{name: f"multihal/{name}" for name in paths.QUERIES},
}
"""Name of each query → its file below sparql/. A query is named like its operation, one for paths with its hops as well."""

Row = Mapping[str, str]
"""One solution: variable → value; a variable without a value is absent."""

_STATEMENT = f"{_ENTITY}statement/"
_OWN_PARTS = frozenset({"name", "qid", "id", "subject", "object", "date", "number", "unit"})
_DESCRIPTION = ("label", "description", "title", "modified")


def name_query(call: Call) -> str:
    """Return the name of the query that answers a call."""
    return paths.name_query(call) if call.operation in PATH_OPERATIONS else call.operation


def can_be_answered(call: Call) -> bool:
    """Return False when the answer is empty whatever the endpoint holds; ValueError for a value that is none."""
    return paths.is_askable(call) if call.operation in PATH_OPERATIONS else all(list_terms([call]).values())


def likeness(call: Call) -> str:
    """Return what calls must share to go out in one query; list_facts shares nothing, its LIMIT is its own, nor does
    item_states, which is for many items as it is."""
    if call.operation in ("list_facts", "item_states"):
        return call.key
    shared = {name: value for name, value in call.parts.items() if name not in _OWN_PARTS}
    return f"{call.operation} {canonical_json(shared)}"


def list_terms(calls: Sequence[Call]) -> dict[str, list[Term]]:
    """Return variable → terms for the VALUES blocks of calls that are alike; ValueError for a value that is none."""
    parts = calls[0].parts
    language = str(parts["language"])
    match calls[0].operation:
        case "find_items":
            names = dict.fromkeys(str(call.parts["name"]) for call in calls)
            return {"name": [literal_term(name, tag) for name in names for tag in dict.fromkeys((language, "mul"))]}
        case "label":
            tags = [literal_term(check_language(tag)) for tag in dict.fromkeys((language, "mul"))]
            return {"language": tags, "entity": [entity_term(str(call.parts["id"])) for call in calls]}
        case "item_states":
            tags = [literal_term(check_language(tag)) for tag in dict.fromkeys((language, "mul"))]
            return {"language": tags, "entity": [entity_term(str(each)) for each in parts["ids"]]}  # type: ignore[union-attr]
        case "list_facts":
            after = number_term(id_number(_check_qid(parts["after"])) if parts["after"] else 0)
            return {"property": [direct_property_term(str(parts["pid"]))], "after": [after]}
        case "resolve_item":
            return {"item": [item_term(qid) for qid in dict.fromkeys(str(call.parts["qid"]) for call in calls)]}
        case operation:
            items = [item_term(qid) for qid in dict.fromkeys(str(call.parts["qid"]) for call in calls)]
            terms = {"language": [literal_term(check_language(language))], "item": items}
            if operation == "neighbours":
                terms["property"] = [direct_property_term(pid) for pid in parts["pids"]]  # type: ignore[union-attr]
            return terms


def fill_query(query: str, calls: Sequence[Call]) -> str:
    """Return the query of an operation with the values of calls that are alike."""
    if calls[0].operation in PATH_OPERATIONS:
        return paths.fill_query(query, calls)
    for variable, terms in list_terms(calls).items():
        query = fill_values(query, variable, terms)
    if calls[0].operation == "list_facts":
        query = fill_limit(query, int(calls[0].parts["limit"]))  # type: ignore[arg-type]
    return query


def read_solutions(calls: Sequence[Call], solutions: Sequence[Solution]) -> list[Json]:
    """Return the body of each call, whatever order the endpoint gave its solutions in."""
    if calls[0].operation in PATH_OPERATIONS:
        return paths.read_solutions(calls, solutions)
    return read_rows(calls, [{name: cell["value"] for name, cell in solution.items()} for solution in solutions])


def read_rows(calls: Sequence[Call], rows: Sequence[Row]) -> list[Json]:
    """Return the body of each call of OPERATIONS from the texts of the solutions."""
    return _READERS[calls[0].operation](calls, rows)


def _read_found(calls: Sequence[Call], rows: Sequence[Row]) -> list[Json]:
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for row in rows:
        qid = _id_of(row["item"], _ENTITY)
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
    by_qid = _by_item(rows)
    return [
        {name: _first(row.get(name) for row in by_qid[str(call.parts["qid"])]) for name in _DESCRIPTION}
        for call in calls
    ]


def _read_labels(calls: Sequence[Call], rows: Sequence[Row]) -> list[Json]:
    found: dict[tuple[str, bool], list[str]] = defaultdict(list)
    language = str(calls[0].parts["language"])
    for row in rows:
        found[_id_of(row["entity"], _ENTITY), row["language"] == language].append(row["label"])
    return [_first(found[str(call.parts["id"]), True] or found[str(call.parts["id"]), False]) for call in calls]


def _read_states(calls: Sequence[Call], rows: Sequence[Row]) -> list[Json]:
    labels = [row for row in rows if "label" in row]
    bodies: list[Json] = []
    for call in calls:
        ids = [str(each) for each in call.parts["ids"]]  # type: ignore[union-attr]
        state: dict[str, Json] = {}
        for each in ids:
            found = [row for row in rows if _id_of(row["entity"], _ENTITY) == each]
            own = {name: _first(row.get(name) for row in found) for name in ("modified", "version")}
            state[each] = {**own, "label": _choose_label(labels, each, str(call.parts["language"]))}
        bodies.append(state)
    return bodies


def _choose_label(rows: Sequence[Row], entity: str, language: str) -> str | None:
    """Return a label in the language, or the one for all languages where there is none."""
    found = [row for row in rows if _id_of(row["entity"], _ENTITY) == entity]
    return _first(row["label"] for row in found if row["language"] == language) or _first(row["label"] for row in found)


def _read_resolved(calls: Sequence[Call], rows: Sequence[Row]) -> list[Json]:
    by_qid = _by_item(rows)
    targets = {qid: _first(_id_of(row["target"], _ENTITY) for row in found) for qid, found in by_qid.items()}
    return [targets.get(str(call.parts["qid"]), str(call.parts["qid"])) for call in calls]


def _read_neighbours(calls: Sequence[Call], rows: Sequence[Row]) -> list[Json]:
    by_qid = _by_item(rows)
    bodies: list[Json] = []
    for call in calls:
        labels: dict[tuple[str, str], list[str | None]] = defaultdict(list)
        for row in by_qid[str(call.parts["qid"])]:
            pid, qid = _id_of(row["property"], _DIRECT), _id_of(row["value"], _ENTITY)
            if is_pid(pid) and is_qid(qid):
                labels[pid, qid].append(row.get("label"))
        ordered = sorted(labels.items(), key=lambda edge: (id_number(edge[0][0]), id_number(edge[0][1])))
        bodies.append([{"pid": pid, "qid": qid, "label": _first(given)} for (pid, qid), given in ordered])
    return bodies


def _read_facts(calls: Sequence[Call], rows: Sequence[Row]) -> list[Json]:
    facts = {(_id_of(row["subject"], _ENTITY), _id_of(row["object"], _ENTITY)) for row in rows}
    kept = [fact for fact in facts if is_qid(fact[0]) and is_qid(fact[1])]
    kept.sort(key=lambda fact: (id_number(fact[0]), id_number(fact[1])))
    return [[{"subject": subject, "object": found} for subject, found in kept] for _ in calls]


def _read_item_facts(calls: Sequence[Call], rows: Sequence[Row]) -> list[Json]:
    labels = _read_tagged_labels([row for row in rows if "thing" in row], str(calls[0].parts["language"]))
    by_qid = _by_item(row for row in rows if "item" in row and is_pid(_pid_of(row["property"])))
    facts = {qid: [*_list_claims(found, labels), *_list_literals(found, labels)] for qid, found in by_qid.items()}
    return [write_facts(facts.get(str(call.parts["qid"]), [])) for call in calls]


def _read_tagged_labels(rows: Iterable[Row], language: str) -> dict[str, str]:
    """Return id → label: in the language, or the one for all languages where it has none."""
    found: dict[str, list[tuple[bool, str]]] = defaultdict(list)
    for row in rows:
        found[_id_of(row["thing"], _ENTITY)].append((row["tag"] != language, row["label"]))
    return {each: min(given)[1] for each, given in found.items()}


def _list_claims(rows: Iterable[Row], labels: Mapping[str, str]) -> Iterator[Fact]:
    """Yield the direct claims of one item to items, each with the first of the statements that say it."""
    claims: set[tuple[str, str]] = set()
    statements: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        claim = _pid_of(row["property"]), _id_of(row["value"], _ENTITY)
        if not is_qid(claim[1]):
            continue
        if "statement" in row:
            statements[claim].append(_id_of(row["statement"], _STATEMENT))
        else:
            claims.add(claim)
    for pid, qid in claims:
        said_by = _first(statements[pid, qid])
        yield Fact(Pid(pid), labels.get(pid), Qid(qid), labels.get(qid), None, None, said_by)


def _list_literals(rows: Iterable[Row], labels: Mapping[str, str]) -> Iterator[Fact]:
    """Yield the dates and numbers of one item, each with what its value nodes say of it."""
    meanings: dict[tuple[str, str, str | None], set[tuple[int | None, Qid | None]]] = defaultdict(set)
    for row in rows:
        value = _read_literal(row["value"])
        if value is None:
            continue
        statement = _id_of(row["statement"], _STATEMENT) if "statement" in row else None
        said = meanings[_pid_of(row["property"]), value, statement]
        if value == _read_literal(row.get("time", "")):
            said.add((int(row["precision"]) if "precision" in row else None, None))
        if value == _read_literal(row.get("amount", "")):
            said.add((None, _read_unit(row)))
    for (pid, value, statement), said in meanings.items():
        for precision, unit in said or {(None, None)}:
            yield Fact(Pid(pid), labels.get(pid), None, value, precision, unit, statement)


def _read_literal(text: str) -> str | None:
    """Return a date (tidy_date), or a number in canonical form."""
    return canonical_number(text) if date_key(text) is None else tidy_date(text)


def _read_unit(row: Row) -> Qid | None:
    unit = _id_of(row.get("unit", ""), _ENTITY)
    return Qid(unit) if is_qid(unit) and id_number(unit) != UNITLESS else None


_READERS: dict[str, Callable[[Sequence[Call], Sequence[Row]], list[Json]]] = {
    "find_items": _read_found,
    "describe_items": _read_descriptions,
    "label": _read_labels,
    "item_states": _read_states,
    "resolve_item": _read_resolved,
    "neighbours": _read_neighbours,
    "list_facts": _read_facts,
    "item_facts": _read_item_facts,
}


def _by_item(rows: Iterable[Row]) -> dict[str, list[Row]]:
    by_qid: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_qid[_id_of(row["item"], _ENTITY)].append(row)
    return by_qid


def _first(values: Iterable[str | None]) -> str | None:
    """Return the smallest value there is: the same one however often and in whatever order an endpoint repeats it."""
    return min((value for value in values if value is not None), default=None)


def _id_of(uri: str, prefix: str) -> str:
    return uri.removeprefix(prefix)


def _pid_of(predicate: str) -> str:
    """Return the property of a predicate that leads to values or to statements."""
    return predicate.rpartition("/")[2]


def _check_qid(qid: object) -> str:
    return item_term(str(qid)).removeprefix("wd:")
