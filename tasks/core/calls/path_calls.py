"""Find paths by calls to a Wikidata over the network: the calls, their responses, and the tables of paths.

A call is for the paths of one pair with one number of hops, so that its response is reusable for any bundling of calls,
ignored properties, maximum number of paths, and search depth: these choices are applied to the responses. Bodies
hold ids as Wikidata writes them (Q64, P17), null for absent values, and each path once, in the order of core/wikidata_paths.py.

| operation | parts | body of the response |
|---|---|---|
| item_paths | subject, object, hops | `[{"backward", "path"}]`; path: the property at one hop; property, item, property at two |
| date_paths | subject, date (1952-03-11, 1952-03 or 1952), properties (sorted), hops | `[{"path", "qualifier", "statement", "value", "precision", "unit", "main"}]`; path ends in the statement's property |
| number_paths | subject, number (canonical), unit (null for any), properties (sorted), hops | as of date_paths |

Numbers are canonical in `value` and `main`, since endpoints store their value and not their spelling. Endpoints are trusted
to return all matches, but not only matches: dates and numbers are compared again from their text, so that an engine's
equality of numbers does not matter, and calls about one item may share a query.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from factmill.tasks.core.calls.call import Call, CallResponse, CallService
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
    make_list_check,
    make_optional_check,
)
from factmill.tasks.core.digests import JsonValue
from factmill.tasks.core.sparql import (
    DIRECT_CLAIM_NAMESPACE,
    ENTITY_NAMESPACE,
    XSD_NAMESPACE,
    RdfTerm,
    SparqlSolution,
    SparqlTerm,
    decimal_term,
    find_item_number,
    find_property_number,
    is_date_or_number_literal,
    item_term,
    literal_term,
    normalise_utc_suffix,
)
from factmill.tasks.core.wikidata_paths import (
    ITEM_PATHS_SCHEMA,
    LITERAL_PATHS_SCHEMA,
    PAIR_STATUS_SCHEMA,
    PairStatus,
    PathSearchOptions,
    PathsFoundForPairs,
)
from factmill.tasks.text.values.wikidata_literals import (
    DAY_PRECISION,
    UNITLESS_QID_NUMBER,
    PartialDate,
    WantedNumberWithUnit,
    canonical_number,
    compute_xsd_datetime_day_key,
    parse_iso_partial_date,
)
from factmill.tasks.text.wikidata_ids import get_wikidata_id_number, is_pid

CallSender = Callable[[Sequence[Call]], Sequence[CallResponse]]
"""Sends calls and returns their responses in order; a call cache may be behind it."""
PathRow = tuple[Any, ...]
"""A row of ITEM_PATHS_SCHEMA or LITERAL_PATHS_SCHEMA without its pair."""

_ITEM_PATH_COLUMNS, _LITERAL_PATH_COLUMNS = ITEM_PATHS_SCHEMA.names[1:], LITERAL_PATHS_SCHEMA.names[1:]
_PROPERTY_COLUMNS = ("property_1", "property_2", "qualifier")
_PROPERTY_NAMESPACE = "http://www.wikidata.org/prop/"
_UNKNOWN_VALUE_NAMESPACE = "http://www.wikidata.org/.well-known/genid/"
_PathSteps = tuple[int | None, int, int | None]


def make_fixed_hops_item_paths_call(service: str, subject: int, target: int, hops: int) -> Call:
    """Make the call for the paths of `hops` hops between two items, in both directions."""
    return ITEM_PATHS_OPERATION.make_call(service, subject=f"Q{subject}", object=f"Q{target}", hops=hops)


def make_literal_paths_call(
    service: str, subject: int, target: PartialDate | WantedNumberWithUnit, properties: Iterable[int], hops: int
) -> Call:
    """Make the call for the paths of `hops` hops from an item to a date or number in values of these properties."""
    parts: dict[str, JsonValue] = {"subject": f"Q{subject}", "properties": [f"P{pid}" for pid in sorted(properties)]}
    if isinstance(target, PartialDate):
        return DATE_PATHS_OPERATION.make_call(service, **parts, date=str(target), hops=hops)
    return NUMBER_PATHS_OPERATION.make_call(
        service, **parts, number=target.number, unit=_format_entity_id("Q", target.unit), hops=hops
    )


def format_deduplicated_item_paths(rows: Iterable[PathRow]) -> JsonValue:
    """Format rows of ITEM_PATHS_SCHEMA, in any order and possibly repeated, as a body of item_paths."""
    fields = (dict(zip(_ITEM_PATH_COLUMNS, row, strict=True)) for row in _sort_distinct_path_rows(rows))
    return [{"backward": row["backward"], "path": _format_path_step_ids(row)} for row in fields]


def parse_item_paths(body: Any) -> list[PathRow]:
    """Parse a body of item_paths to rows of ITEM_PATHS_SCHEMA."""
    rows = []
    for fields in body:
        hops, *walk = _parse_hops_middle_and_properties(fields["path"])
        rows.append((hops, fields["backward"], *walk))
    return rows


def format_distinct_literal_paths(rows: Iterable[PathRow]) -> JsonValue:
    """Format rows of LITERAL_PATHS_SCHEMA, in any order and possibly repeated, as a body of date_paths or number_paths."""
    fields = (dict(zip(_LITERAL_PATH_COLUMNS, row, strict=True)) for row in _sort_distinct_path_rows(rows))
    return [
        {
            "path": _format_path_step_ids(row),
            "qualifier": _format_entity_id("P", row["qualifier"]),
            "unit": _format_entity_id("Q", row["unit"]),
            **{name: row[name] for name in ("statement", "value", "precision", "main")},
        }
        for row in fields
    ]


def parse_literal_paths(body: Any) -> list[PathRow]:
    """Parse a body of date_paths or number_paths to rows of LITERAL_PATHS_SCHEMA."""
    return [
        (
            *_parse_hops_middle_and_properties(fields["path"]),
            _parse_entity_number(fields["qualifier"]),
            fields["statement"],
            fields["value"],
            fields["precision"],
            _parse_entity_number(fields["unit"]),
            fields["main"],
        )
        for fields in body
    ]


def make_uncached_sender(service: CallService) -> CallSender:
    """Return a function that sends calls to a service without recording them."""

    def ask(calls: Sequence[Call]) -> list[CallResponse]:
        replies: dict[str, CallResponse] = {}
        service.send(calls, lambda call, reply: replies.__setitem__(call.key, reply))
        return [replies[call.key] for call in calls]

    return ask


class WikidataCallPathFinder:
    """Finds paths by calls to a Wikidata: one hop for all pairs first, then two where needed (core.wikidata_paths.PathFinder).

    If a call of a pair fails, the pair has status `failed` and no paths, and the reason is in `failures`. No pair is ever
    `unknown_subject` or `unknown_object`: for an endpoint, a missing item is one without claims.
    """

    def __init__(self, ask: CallSender, service: str) -> None:
        """Store the function that sends calls, and the identity of the service to call."""
        self._ask = ask
        self._service = service

    def find_item_paths(
        self, subjects: npt.NDArray[np.int64], objects: npt.NDArray[np.int64], options: PathSearchOptions
    ) -> PathsFoundForPairs:
        """Find the paths between items."""
        pairs = list(zip(subjects.tolist(), objects.tolist(), strict=True))
        return self._find(
            ITEM_PATHS_SCHEMA,
            len(pairs),
            options,
            lambda pair, hops: make_fixed_hops_item_paths_call(self._service, *pairs[pair], hops),
            parse_item_paths,
            {pair for pair, (subject, target) in enumerate(pairs) if subject == target},
        )

    def find_literal_paths(
        self,
        subjects: npt.NDArray[np.int64],
        objects: Sequence[PartialDate] | Sequence[WantedNumberWithUnit],
        properties: frozenset[int],
        options: PathSearchOptions,
    ) -> PathsFoundForPairs:
        """Find the paths from items to dates or numbers."""
        pairs: list[tuple[int, PartialDate | WantedNumberWithUnit]] = list(zip(subjects.tolist(), objects, strict=True))
        return self._find(
            LITERAL_PATHS_SCHEMA,
            len(pairs),
            options,
            lambda pair, hops: make_literal_paths_call(self._service, *pairs[pair], properties, hops),
            parse_literal_paths,
        )

    def _find(
        self,
        schema: pa.Schema,
        pairs: int,
        options: PathSearchOptions,
        make_call: Callable[[int, int], Call],
        parse: Callable[[Any], list[PathRow]],
        identical: Set[int] = frozenset(),
    ) -> PathsFoundForPairs:
        """Search all pairs; `make_call`: pair, hops → call; `identical`: pairs of one item, which are not searched."""
        properties = [at for at, name in enumerate(schema.names[1:]) if name in _PROPERTY_COLUMNS]
        found: list[list[PathRow]] = [[] for _ in range(pairs)]
        failures: dict[int, str] = {}
        for hops in (1, 2):
            calls = {
                pair: make_call(pair, hops)
                for pair, rows in enumerate(found)
                if pair not in identical and pair not in failures and (options.always_two_hops or not rows)
            }
            unique = {call.key: call for call in calls.values()}
            replies = dict(zip(unique, self._ask(list(unique.values())), strict=True)) if unique else {}
            parsed = {key: parse(reply.body) for key, reply in replies.items() if reply.status == "ok"}
            for pair, call in calls.items():
                rows = parsed.get(call.key, [])
                found[pair] += [
                    row for row in rows if options.ignored_properties.isdisjoint(row[at] for at in properties)
                ]
                if call.key not in parsed:
                    failures[pair] = f"{call.operation}, hops {hops}: {replies[call.key].error}"
                    found[pair] = []  # a partial result would look complete
        paths, statuses = [], []
        for pair, rows in enumerate(found):
            kept = rows[: options.max_paths]
            status: PairStatus = "found" if len(kept) == len(rows) else "capped"
            if not rows:
                status = "identical" if pair in identical else "failed" if pair in failures else "none"
            paths += [(pair, *row) for row in kept]
            statuses.append((pair, status, len(rows), len(kept)))
        return PathsFoundForPairs(
            _make_typed_table(paths, schema), _make_typed_table(statuses, PAIR_STATUS_SCHEMA), failures
        )


def _make_typed_table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return pa.table([pa.array(column, each.type) for column, each in zip(columns, schema, strict=True)], schema=schema)


def _sort_distinct_path_rows(rows: Iterable[PathRow]) -> list[PathRow]:
    """Return distinct rows in the order of core/wikidata_paths.py, null first."""
    return sorted(set(rows), key=lambda row: [(value is not None, value) for value in row])


def _format_path_step_ids(row: dict[str, Any]) -> list[str]:
    first = f"P{row['property_1']}"
    return [first] if row["middle"] is None else [first, f"Q{row['middle']}", f"P{row['property_2']}"]


def _parse_hops_middle_and_properties(path: Sequence[str]) -> tuple[int, int | None, int, int | None]:
    """Return hops, middle, property_1 and property_2 of a path in a body."""
    if len(path) == 1:
        return 1, None, get_wikidata_id_number(path[0]), None
    first, middle, second = path
    return 2, get_wikidata_id_number(middle), get_wikidata_id_number(first), get_wikidata_id_number(second)


def _format_entity_id(letter: str, number: int | None) -> str | None:
    return None if number is None else f"{letter}{number}"


def _parse_entity_number(entity_id: str | None) -> int | None:
    return None if entity_id is None else get_wikidata_id_number(entity_id)


def _make_item_pair_terms(calls: Sequence[Call]) -> ValuesBlocks:
    _check_hops(calls[0])
    ends = [(item_term(call.parts["subject"]), item_term(call.parts["object"])) for call in calls]
    return {("start", "end"): list(dict.fromkeys(pair for one, other in ends for pair in ((one, other), (other, one))))}


def _make_date_path_terms(calls: Sequence[Call]) -> ValuesBlocks:
    # in the text of a date and time, a T follows the day, a hyphen the year and month
    dates = [
        (item_term(call.parts["subject"]), literal_term(f"{date}{'-' if date.day is None else 'T'}"))
        for call in calls
        if (date := parse_iso_partial_date(call.parts["date"]))
    ]
    return {"properties": _make_space_joined_pids_term(calls[0]), ("subject", "date"): list(dict.fromkeys(dates))}


def _make_number_path_terms(calls: Sequence[Call]) -> ValuesBlocks:
    numbers = [(item_term(call.parts["subject"]), decimal_term(call.parts["number"])) for call in calls]
    return {"properties": _make_space_joined_pids_term(calls[0]), ("subject", "number"): list(dict.fromkeys(numbers))}


def _check_hops(call: Call) -> None:
    if call.parts["hops"] not in (1, 2):
        raise ValueError(f"{call.operation}: hops is {call.parts['hops']!r}; expected 1 or 2")


def _make_space_joined_pids_term(call: Call) -> list[SparqlTerm]:
    """Return a call's properties as one text, the only row of their VALUES block; empty if there are none."""
    _check_hops(call)
    pids: list[str] = call.parts["properties"]
    if wrong := [pid for pid in pids if not is_pid(pid)]:
        raise ValueError(f"{wrong[0]!r} is not a property id; expected P and a number, like P19")
    return [literal_term(f" {' '.join(pids)} ")] if pids else []


def _make_item_paths_response_bodies(calls: Sequence[Call], solutions: Sequence[SparqlSolution]) -> list[JsonValue]:
    hops = calls[0].parts["hops"]
    walks: dict[tuple[int | None, int | None], list[_PathSteps]] = defaultdict(list)
    for solution in solutions:
        if walk := _find_steps(solution, hops):
            walks[find_item_number(solution["start"]), find_item_number(solution["end"])].append(walk)
    bodies: list[JsonValue] = []
    for call in calls:
        subject, target = (get_wikidata_id_number(call.parts[name]) for name in ("subject", "object"))
        forth = [(hops, False, *walk) for walk in walks[subject, target]]
        back = [(hops, True, *walk) for walk in walks[target, subject]]
        bodies.append(format_deduplicated_item_paths([*forth, *back]))
    return bodies


def _find_steps(solution: SparqlSolution, hops: JsonValue) -> _PathSteps | None:
    """Return middle, property_1 and property_2 of a solution; None if one is missing."""
    first = find_property_number(solution["property_1"], DIRECT_CLAIM_NAMESPACE)
    if hops == 1:
        return None if first is None else (None, first, None)
    middle = find_item_number(solution["middle"])
    second = find_property_number(solution["property_2"], DIRECT_CLAIM_NAMESPACE)
    return None if first is None or middle is None or second is None else (middle, first, second)


def _make_literal_paths_response_bodies(calls: Sequence[Call], solutions: Sequence[SparqlSolution]) -> list[JsonValue]:
    by_subject: dict[int | None, list[SparqlSolution]] = defaultdict(list)
    for solution in solutions:
        by_subject[find_item_number(solution["subject"])].append(solution)
    rows = {subject: list(_iterate_literal_rows(calls[0], given)) for subject, given in by_subject.items()}
    bodies: list[JsonValue] = []
    for call in calls:
        wanted: PartialDate | WantedNumberWithUnit
        if call.operation == "date_paths":
            wanted = parse_iso_partial_date(call.parts["date"])
        else:
            wanted = WantedNumberWithUnit(call.parts["number"], _parse_entity_number(call.parts["unit"]))
        subject_rows = rows.get(get_wikidata_id_number(call.parts["subject"]), [])
        bodies.append(format_distinct_literal_paths(row for row in subject_rows if _matches_target(wanted, row)))
    return bodies


def _matches_target(wanted: PartialDate | WantedNumberWithUnit, row: PathRow) -> bool:
    value, precision, unit = row[6], row[7], row[8]
    if isinstance(wanted, WantedNumberWithUnit):
        return wanted.is_satisfied_by(value, unit)
    key = compute_xsd_datetime_day_key(value)
    return key is not None and wanted.is_satisfied_by(key, DAY_PRECISION if precision is None else precision)


def _iterate_literal_rows(call: Call, solutions: Iterable[SparqlSolution]) -> Iterable[PathRow]:
    """Yield path rows for the values in solutions of one subject, each with precision or unit from its value nodes."""
    meanings: dict[tuple[PathRow, str | None], set[tuple[int | None, int | None]]] = defaultdict(set)
    listed = {get_wikidata_id_number(pid) for pid in call.parts["properties"]}
    for solution in solutions:
        where, value = _find_path_to_literal(solution, listed), _find_normalised_date_or_number(call, solution["value"])
        if where is None or value is None:
            continue
        qualifier = where[4]
        main = _find_statement_value_text(solution["main"]) if qualifier is not None and "main" in solution else None
        found = meanings[(*where, value), main]
        if "told" in solution and _find_normalised_date_or_number(call, solution["told"]) == value:
            precision = int(solution["precision"]["value"]) if "precision" in solution else None
            unit = find_item_number(solution["unit"]) if "unit" in solution else None
            found.add((precision, None if unit == UNITLESS_QID_NUMBER else unit))
    for (place, main), found in meanings.items():
        for precision, unit in found or {(None, None)}:
            yield (*place, precision, unit, main)


def _find_path_to_literal(solution: SparqlSolution, listed: set[int]) -> PathRow | None:
    """Return hops, middle, property_1, property_2, qualifier and statement of a value; None if it does not count."""
    middle = hop = None
    if "holder" in solution:
        middle = find_item_number(solution["holder"])
        hop = find_property_number(solution["hop"], DIRECT_CLAIM_NAMESPACE)
        if middle is None or hop is None:
            return None
    claim, ending = find_property_number(solution["claim"], _PROPERTY_NAMESPACE), solution["ending"]
    own, qualifier, statement = find_property_number(ending, DIRECT_CLAIM_NAMESPACE), None, None
    if "statement" in solution:
        own = find_property_number(ending, f"{_PROPERTY_NAMESPACE}statement/")
        qualifier = find_property_number(ending, f"{_PROPERTY_NAMESPACE}qualifier/")
        statement = solution["statement"]["value"].removeprefix(f"{ENTITY_NAMESPACE}statement/")
    if claim is None or (qualifier not in listed and (own not in listed or own != claim)):
        return None
    walk = (1, None, claim, None) if hop is None else (2, middle, hop, claim)
    return (*walk, qualifier, statement)


def _find_normalised_date_or_number(call: Call, cell: RdfTerm) -> str | None:
    """Return a date as Wikidata writes it, or a number in canonical form; None for other terms."""
    if not is_date_or_number_literal(cell):
        return None
    if call.operation == "number_paths":
        return canonical_number(cell["value"])
    return normalise_utc_suffix(cell["value"]) if compute_xsd_datetime_day_key(cell["value"]) is not None else None


def _find_statement_value_text(cell: RdfTerm) -> str | None:
    """Return a statement's own value: the QID of an item, any other IRI, or text; None for an unknown value."""
    value = cell["value"]
    if cell["type"] == "bnode" or value.startswith(_UNKNOWN_VALUE_NAMESPACE):
        return None
    if find_item_number(cell) is not None:
        return value.removeprefix(ENTITY_NAMESPACE)
    if cell.get("datatype") == f"{XSD_NAMESPACE}decimal":
        return canonical_number(value) or value
    return normalise_utc_suffix(value) if cell.get("datatype") == f"{XSD_NAMESPACE}dateTime" else value


def _list_path_response_dependencies(parts: CallParts, _body: Any) -> list[ResponseDependency] | None:
    ends = [str(parts[name]) for name in ("subject", "object") if name in parts]
    return (
        [ResponseDependency(WikiItemLabelOrPageDependency("item", each)) for each in ends]
        if parts["hops"] == 1
        else None
    )


def _list_path_world_contents(parts: CallParts) -> list[str]:
    kind = "item" if parts["hops"] == 1 else "near"
    return [f"{kind} {parts[name]}" for name in ("subject", "object") if name in parts]


_NO_GRAPH_REASON = (
    "a local graph does not answer single path calls; it finds paths for many pairs at once (core.paths.PathFinder)"
)
ITEM_PATHS_OPERATION = Operation(
    "item_paths",
    service="wikidata",
    part_checks={"subject": is_item_id, "object": is_item_id, "hops": is_positive_count},
    parse_body=parse_item_paths,
    sparql=OperationSparqlMapping(
        query_files=("multihal/item_paths_1", "multihal/item_paths_2"),
        varying_parts=("subject", "object"),
        make_terms=_make_item_pair_terms,
        make_bodies=_make_item_paths_response_bodies,
    ),
    load_from_graph=_NO_GRAPH_REASON,
    list_dependencies=_list_path_response_dependencies,
    list_world_contents=_list_path_world_contents,
)
DATE_PATHS_OPERATION = Operation(
    "date_paths",
    service="wikidata",
    part_checks={
        "subject": is_item_id,
        "properties": make_list_check(is_property_id),
        "date": is_string_value,
        "hops": is_positive_count,
    },
    parse_body=parse_literal_paths,
    sparql=OperationSparqlMapping(
        query_files=("multihal/date_paths_1", "multihal/date_paths_2"),
        varying_parts=("subject", "date"),
        make_terms=_make_date_path_terms,
        make_bodies=_make_literal_paths_response_bodies,
    ),
    load_from_graph=_NO_GRAPH_REASON,
    list_dependencies=_list_path_response_dependencies,
    list_world_contents=_list_path_world_contents,
)
NUMBER_PATHS_OPERATION = Operation(
    "number_paths",
    service="wikidata",
    part_checks={
        "subject": is_item_id,
        "properties": make_list_check(is_property_id),
        "number": is_string_value,
        "unit": make_optional_check(is_item_id),
        "hops": is_positive_count,
    },
    parse_body=parse_literal_paths,
    sparql=OperationSparqlMapping(
        query_files=("multihal/number_paths_1", "multihal/number_paths_2"),
        varying_parts=("subject", "number", "unit"),
        make_terms=_make_number_path_terms,
        make_bodies=_make_literal_paths_response_bodies,
    ),
    load_from_graph=_NO_GRAPH_REASON,
    list_dependencies=_list_path_response_dependencies,
    list_world_contents=_list_path_world_contents,
)
PATH_OPERATIONS = (ITEM_PATHS_OPERATION, DATE_PATHS_OPERATION, NUMBER_PATHS_OPERATION)
"""All operations for paths."""
