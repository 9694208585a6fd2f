"""Find paths by calls to a Wikidata over the network: the calls, their responses, and the tables of paths.

A call is for the paths of one pair with one number of hops, so that its response is reusable for any bundling of calls,
ignored properties, maximum number of paths, and search depth: these choices are applied here, to the responses. Bodies
hold ids as Wikidata writes them (Q64, P17), null for absent values, and each path once, in the order of core/paths.py.

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
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from factmill.tasks.core.calls.call import Call, Reply, Service
from factmill.tasks.core.calls.operation import (
    Dependency,
    Operation,
    Parts,
    Sparql,
    Terms,
    Thing,
    is_item,
    is_list_of,
    is_none_or,
    is_property,
    is_text,
)
from factmill.tasks.core.fingerprints import Json
from factmill.tasks.core.paths import ITEM_PATHS, LITERAL_PATHS, PAIRS, FoundPaths, PathOptions, Status
from factmill.tasks.core.sparql import (
    DIRECT,
    ENTITY,
    XSD,
    Cell,
    Solution,
    Term,
    decimal_term,
    is_typed,
    item_number,
    item_term,
    literal_term,
    property_number,
    tidy_date,
)
from factmill.tasks.text.ids import id_number, is_pid
from factmill.tasks.text.values.literals import DAY, UNITLESS, Date, Number, canonical_number, date_key, read_plain_date

Ask = Callable[[Sequence[Call]], Sequence[Reply]]
"""Sends calls and returns their responses in order; a call cache may be behind it."""
PathRow = tuple[Any, ...]
"""A row of ITEM_PATHS or LITERAL_PATHS without its pair."""

_ITEM_COLUMNS, _LITERAL_COLUMNS = ITEM_PATHS.names[1:], LITERAL_PATHS.names[1:]
_PROPERTY_COLUMNS = ("property_1", "property_2", "qualifier")
_PROP = "http://www.wikidata.org/prop/"
_STATEMENT = f"{ENTITY}statement/"
_UNKNOWN = "http://www.wikidata.org/.well-known/genid/"
_Walk = tuple[int | None, int, int | None]


def call_item_paths(service: str, subject: int, target: int, hops: int) -> Call:
    """Make the call for the paths of `hops` hops between two items, in both directions."""
    return FIND_ITEM_PATHS.call(service, subject=f"Q{subject}", object=f"Q{target}", hops=hops)


def call_literal_paths(service: str, subject: int, wanted: Date | Number, properties: Iterable[int], hops: int) -> Call:
    """Make the call for the paths of `hops` hops from an item to a date or number in values of these properties."""
    parts: dict[str, Json] = {"subject": f"Q{subject}", "properties": [f"P{pid}" for pid in sorted(properties)]}
    if isinstance(wanted, Date):
        return FIND_DATE_PATHS.call(service, **parts, date=str(wanted), hops=hops)
    return FIND_NUMBER_PATHS.call(service, **parts, number=wanted.number, unit=_id("Q", wanted.unit), hops=hops)


def write_item_rows(rows: Iterable[PathRow]) -> Json:
    """Format rows of ITEM_PATHS, in any order and possibly repeated, as a body of item_paths."""
    told = (dict(zip(_ITEM_COLUMNS, row, strict=True)) for row in _sort_rows(rows))
    return [{"backward": row["backward"], "path": _list_walk(row)} for row in told]


def read_item_rows(body: Any) -> list[PathRow]:
    """Parse a body of item_paths to rows of ITEM_PATHS."""
    rows = []
    for told in body:
        hops, *walk = _read_walk(told["path"])
        rows.append((hops, told["backward"], *walk))
    return rows


def write_literal_rows(rows: Iterable[PathRow]) -> Json:
    """Format rows of LITERAL_PATHS, in any order and possibly repeated, as a body of date_paths or number_paths."""
    told = (dict(zip(_LITERAL_COLUMNS, row, strict=True)) for row in _sort_rows(rows))
    return [
        {
            "path": _list_walk(row),
            "qualifier": _id("P", row["qualifier"]),
            "unit": _id("Q", row["unit"]),
            **{name: row[name] for name in ("statement", "value", "precision", "main")},
        }
        for row in told
    ]


def read_literal_rows(body: Any) -> list[PathRow]:
    """Parse a body of date_paths or number_paths to rows of LITERAL_PATHS."""
    return [
        (
            *_read_walk(told["path"]),
            _number(told["qualifier"]),
            told["statement"],
            told["value"],
            told["precision"],
            _number(told["unit"]),
            told["main"],
        )
        for told in body
    ]


def ask_service(service: Service) -> Ask:
    """Return a function that sends calls to a service without recording them."""

    def ask(calls: Sequence[Call]) -> list[Reply]:
        replies: dict[str, Reply] = {}
        service.send(calls, lambda call, reply: replies.__setitem__(call.key, reply))
        return [replies[call.key] for call in calls]

    return ask


class PathsByCalls:
    """Finds paths by calls to a Wikidata: one hop for all pairs first, then two where needed (core.paths.PathFinder).

    If a call of a pair fails, the pair has status `failed` and no paths, and the reason is in `problems`. No pair is ever
    `unknown_subject` or `unknown_object`: for an endpoint, a missing item is one without claims.
    """

    def __init__(self, ask: Ask, service: str) -> None:
        """Store the function that sends calls, and the identity of the service to call."""
        self._ask = ask
        self._service = service

    def find_item_paths(
        self, subjects: npt.NDArray[np.int64], objects: npt.NDArray[np.int64], options: PathOptions
    ) -> FoundPaths:
        """Find the paths between items (see core.paths.PathFinder)."""
        pairs = list(zip(subjects.tolist(), objects.tolist(), strict=True))
        identical = {pair for pair, (subject, target) in enumerate(pairs) if subject == target}
        found = _Findings(ITEM_PATHS, len(pairs), options, identical)
        self._find(found, lambda pair, hops: call_item_paths(self._service, *pairs[pair], hops), read_item_rows)
        return found.collect()

    def find_literal_paths(
        self,
        subjects: npt.NDArray[np.int64],
        objects: Sequence[Date] | Sequence[Number],
        properties: frozenset[int],
        options: PathOptions,
    ) -> FoundPaths:
        """Find the paths from items to dates or numbers (see core.paths.PathFinder)."""
        pairs: list[tuple[int, Date | Number]] = list(zip(subjects.tolist(), objects, strict=True))
        found = _Findings(LITERAL_PATHS, len(pairs), options)
        self._find(
            found,
            lambda pair, hops: call_literal_paths(self._service, *pairs[pair], properties, hops),
            read_literal_rows,
        )
        return found.collect()

    def _find(
        self, found: "_Findings", make_call: Callable[[int, int], Call], read: Callable[[Any], list[PathRow]]
    ) -> None:
        for hops in (1, 2):
            calls = {pair: make_call(pair, hops) for pair in found.list_open()}
            unique = list({call.key: call for call in calls.values()}.values())
            answered = zip(unique, self._ask(unique), strict=True) if unique else ()
            replies = {call.key: reply for call, reply in answered}
            rows = {key: read(reply.body) for key, reply in replies.items() if reply.status == "ok"}
            for pair, call in calls.items():
                if call.key in rows:
                    found.add(pair, rows[call.key])
                else:
                    found.fail(pair, f"{call.operation}, hops {hops}: {replies[call.key].error}")


class _Findings:
    """Collector of the paths found so far for a batch of pairs."""

    def __init__(self, schema: pa.Schema, pairs: int, options: PathOptions, identical: Iterable[int] = ()) -> None:
        self._schema = schema
        self._options = options
        self._identical = frozenset(identical)
        self._rows: list[list[PathRow]] = [[] for _ in range(pairs)]
        self._problems: dict[int, str] = {}
        self._properties = [at for at, name in enumerate(schema.names[1:]) if name in _PROPERTY_COLUMNS]

    def list_open(self) -> list[int]:
        """Return the pairs that need a search with the next number of hops."""
        closed = self._identical.union(self._problems)
        return [
            pair for pair, rows in enumerate(self._rows) if pair not in closed and (self._options.all_hops or not rows)
        ]

    def add(self, pair: int, rows: Sequence[PathRow]) -> None:
        """Add the rows of a pair that use no ignored property."""
        ignored = self._options.ignored
        self._rows[pair] += [row for row in rows if not any(row[at] in ignored for at in self._properties)]

    def fail(self, pair: int, reason: str) -> None:
        """Record a pair's failure, and drop its rows: a partial result would look complete."""
        self._rows[pair] = []
        self._problems[pair] = reason

    def collect(self) -> FoundPaths:
        """Return the collected paths and the status of each pair as tables."""
        kept = [rows[: self._options.most_paths] for rows in self._rows]
        paths = [(pair, *row) for pair, rows in enumerate(kept) for row in rows]
        statuses = [
            (pair, self._status(pair, len(kept[pair])), len(rows), len(kept[pair]))
            for pair, rows in enumerate(self._rows)
        ]
        return FoundPaths(_make_table(paths, self._schema), _make_table(statuses, PAIRS), dict(self._problems))

    def _status(self, pair: int, kept: int) -> Status:
        if pair in self._identical:
            return "identical"
        if pair in self._problems:
            return "failed"
        if not self._rows[pair]:
            return "none"
        return "found" if kept == len(self._rows[pair]) else "capped"


def _make_table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return pa.table([pa.array(column, each.type) for column, each in zip(columns, schema, strict=True)], schema=schema)


def _sort_rows(rows: Iterable[PathRow]) -> list[PathRow]:
    """Return distinct rows in the order of core/paths.py, null first."""
    return sorted(set(rows), key=lambda row: [(value is not None, value) for value in row])


def _list_walk(row: dict[str, Any]) -> list[str]:
    first = f"P{row['property_1']}"
    return [first] if row["middle"] is None else [first, f"Q{row['middle']}", f"P{row['property_2']}"]


def _read_walk(path: Sequence[str]) -> tuple[int, int | None, int, int | None]:
    """Return hops, middle, property_1 and property_2 of a path in a body."""
    if len(path) == 1:
        return 1, None, id_number(path[0]), None
    first, middle, second = path
    return 2, id_number(middle), id_number(first), id_number(second)


def _id(letter: str, number: int | None) -> str | None:
    return None if number is None else f"{letter}{number}"


def _number(entity_id: str | None) -> int | None:
    return None if entity_id is None else id_number(entity_id)


def _list_item_terms(calls: Sequence[Call]) -> Terms:
    _check_hops(calls[0])
    ends = [(item_term(str(call.parts["subject"])), item_term(str(call.parts["object"]))) for call in calls]
    return {("start", "end"): list(dict.fromkeys(pair for one, other in ends for pair in ((one, other), (other, one))))}


def _list_date_terms(calls: Sequence[Call]) -> Terms:
    def write(date: Date) -> Term:
        # in the text of a date and time, a T follows the day, a hyphen the year and month
        return literal_term(f"{date}{'-' if date.day is None else 'T'}")

    dates = [(item_term(str(call.parts["subject"])), write(read_plain_date(str(call.parts["date"])))) for call in calls]
    return {"properties": _list_properties(calls[0]), ("subject", "date"): list(dict.fromkeys(dates))}


def _list_number_terms(calls: Sequence[Call]) -> Terms:
    numbers = [(item_term(str(call.parts["subject"])), decimal_term(str(call.parts["number"]))) for call in calls]
    return {"properties": _list_properties(calls[0]), ("subject", "number"): list(dict.fromkeys(numbers))}


def _check_hops(call: Call) -> None:
    if call.parts["hops"] not in (1, 2):
        raise ValueError(f"no paths of {call.parts['hops']!r} hops can be asked for; expected 1 or 2")


def _list_properties(call: Call) -> list[Term]:
    """Return a call's properties as one text, the only row of their VALUES block; empty if there are none."""
    _check_hops(call)
    pids = [str(pid) for pid in call.parts["properties"]]  # type: ignore[union-attr]
    if wrong := [pid for pid in pids if not is_pid(pid)]:
        raise ValueError(f"{wrong[0]!r} is not the id of a property; expected P and a number, like P19")
    return [literal_term(f" {' '.join(pids)} ")] if pids else []


def _read_item_paths(calls: Sequence[Call], solutions: Sequence[Solution]) -> list[Json]:
    hops = calls[0].parts["hops"]
    walks: dict[tuple[int | None, int | None], list[_Walk]] = defaultdict(list)
    for solution in solutions:
        if walk := _read_steps(solution, hops):
            walks[item_number(solution["start"]), item_number(solution["end"])].append(walk)
    bodies: list[Json] = []
    for call in calls:
        subject, target = id_number(str(call.parts["subject"])), id_number(str(call.parts["object"]))
        forth = [(hops, False, *walk) for walk in walks[subject, target]]
        back = [(hops, True, *walk) for walk in walks[target, subject]]
        bodies.append(write_item_rows([*forth, *back]))
    return bodies


def _read_steps(solution: Solution, hops: Json) -> _Walk | None:
    """Return middle, property_1 and property_2 of a solution; None if one is missing."""
    first = property_number(solution["property_1"], DIRECT)
    if hops == 1:
        return None if first is None else (None, first, None)
    middle, second = item_number(solution["middle"]), property_number(solution["property_2"], DIRECT)
    return None if first is None or middle is None or second is None else (middle, first, second)


def _read_literal_paths(calls: Sequence[Call], solutions: Sequence[Solution]) -> list[Json]:
    by_subject: dict[int | None, list[Solution]] = defaultdict(list)
    for solution in solutions:
        by_subject[item_number(solution["subject"])].append(solution)
    rows = {subject: list(_read_values(calls[0], given)) for subject, given in by_subject.items()}
    bodies: list[Json] = []
    for call in calls:
        wanted = _wanted(call)
        mine = rows.get(id_number(str(call.parts["subject"])), [])
        bodies.append(write_literal_rows(row for row in mine if _fits(wanted, row)))
    return bodies


def _wanted(call: Call) -> Date | Number:
    if call.operation == "date_paths":
        return read_plain_date(str(call.parts["date"]))
    unit = call.parts["unit"]
    return Number(str(call.parts["number"]), None if unit is None else id_number(str(unit)))


def _fits(wanted: Date | Number, row: PathRow) -> bool:
    value, precision, unit = row[6], row[7], row[8]
    if isinstance(wanted, Number):
        return wanted.fits(value, unit)
    key = date_key(value)
    return key is not None and wanted.fits(key, DAY if precision is None else precision)


def _read_values(call: Call, solutions: Iterable[Solution]) -> Iterable[PathRow]:
    """Yield path rows for the values in solutions of one subject, each with precision or unit from its value nodes."""
    meanings: dict[tuple[PathRow, str | None], set[tuple[int | None, int | None]]] = defaultdict(set)
    listed = {id_number(str(pid)) for pid in call.parts["properties"]}  # type: ignore[union-attr]
    for solution in solutions:
        where, value = _read_place(solution, listed), _read_value(call, solution["value"])
        if where is None or value is None:
            continue
        qualifier = where[4]
        main = _read_main(solution["main"]) if qualifier is not None and "main" in solution else None
        said = meanings[(*where, value), main]
        if "told" in solution and _read_value(call, solution["told"]) == value:
            said.add(_read_meaning(solution))
    for (place, main), said in meanings.items():
        for precision, unit in said or {(None, None)}:
            yield (*place, precision, unit, main)


def _read_place(solution: Solution, listed: set[int]) -> PathRow | None:
    """Return hops, middle, property_1, property_2, qualifier and statement of a value; None if it does not count."""
    middle = hop = None
    if "holder" in solution:
        middle, hop = item_number(solution["holder"]), property_number(solution["hop"], DIRECT)
        if middle is None or hop is None:
            return None
    claim, ending = property_number(solution["claim"], _PROP), solution["ending"]
    own = property_number(ending, f"{_PROP}statement/" if "statement" in solution else DIRECT)
    qualifier = property_number(ending, f"{_PROP}qualifier/") if "statement" in solution else None
    if claim is None or (qualifier not in listed and (own not in listed or own != claim)):
        return None
    statement = solution["statement"]["value"].removeprefix(_STATEMENT) if "statement" in solution else None
    walk = (1, None, claim, None) if hop is None else (2, middle, hop, claim)
    return (*walk, qualifier, statement)


def _read_value(call: Call, cell: Cell) -> str | None:
    """Return a date as Wikidata writes it, or a number in canonical form; None for other terms."""
    if not is_typed(cell):
        return None
    if call.operation == "number_paths":
        return canonical_number(cell["value"])
    return tidy_date(cell["value"]) if date_key(cell["value"]) is not None else None


def _read_meaning(solution: Solution) -> tuple[int | None, int | None]:
    """Return the precision (of a date) and the unit (of a number) from a value node."""
    unit = item_number(solution["unit"]) if "unit" in solution else None
    precision = int(solution["precision"]["value"]) if "precision" in solution else None
    return precision, None if unit == UNITLESS else unit


def _read_main(cell: Cell) -> str | None:
    """Return a statement's own value: the QID of an item, any other IRI, or text; None for an unknown value."""
    value = cell["value"]
    if cell["type"] == "bnode" or value.startswith(_UNKNOWN):
        return None
    if item_number(cell) is not None:
        return value.removeprefix(ENTITY)
    if cell.get("datatype") == f"{XSD}decimal":
        return canonical_number(value) or value
    return tidy_date(value) if cell.get("datatype") == f"{XSD}dateTime" else value


def _rest_on_ends(parts: Parts, _body: Any) -> list[Dependency] | None:
    ends = [str(parts[name]) for name in ("subject", "object") if name in parts]
    return [Dependency(Thing("item", each)) for each in ends] if parts["hops"] == 1 else None


def _list_world_ends(parts: Parts) -> list[str]:
    kind = "item" if parts["hops"] == 1 else "near"
    return [f"{kind} {parts[name]}" for name in ("subject", "object") if name in parts]


_BY_A_GRAPH = "a graph finds paths for many pairs at once (core.paths.PathFinder)"


def _is_hops(value: Any) -> bool:
    return value in (1, 2)


FIND_ITEM_PATHS = Operation(
    "item_paths",
    service="wikidata",
    parts={"subject": is_item, "object": is_item, "hops": _is_hops},
    read=read_item_rows,
    sparql=Sparql(
        files=("multihal/item_paths_1", "multihal/item_paths_2"),
        own=("subject", "object"),
        terms=_list_item_terms,
        read=_read_item_paths,
    ),
    graph=_BY_A_GRAPH,
    rests_on=_rest_on_ends,
    world=_list_world_ends,
)
FIND_DATE_PATHS = Operation(
    "date_paths",
    service="wikidata",
    parts={"subject": is_item, "properties": is_list_of(is_property), "date": is_text, "hops": _is_hops},
    read=read_literal_rows,
    sparql=Sparql(
        files=("multihal/date_paths_1", "multihal/date_paths_2"),
        own=("subject", "date"),
        terms=_list_date_terms,
        read=_read_literal_paths,
    ),
    graph=_BY_A_GRAPH,
    rests_on=_rest_on_ends,
    world=_list_world_ends,
)
FIND_NUMBER_PATHS = Operation(
    "number_paths",
    service="wikidata",
    parts={
        "subject": is_item,
        "properties": is_list_of(is_property),
        "number": is_text,
        "unit": is_none_or(is_item),
        "hops": _is_hops,
    },
    read=read_literal_rows,
    sparql=Sparql(
        files=("multihal/number_paths_1", "multihal/number_paths_2"),
        own=("subject", "number", "unit"),
        terms=_list_number_terms,
        read=_read_literal_paths,
    ),
    graph=_BY_A_GRAPH,
    rests_on=_rest_on_ends,
    world=_list_world_ends,
)
OPERATIONS = (FIND_ITEM_PATHS, FIND_DATE_PATHS, FIND_NUMBER_PATHS)
"""All operations for paths."""
