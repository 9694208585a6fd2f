"""How calls for paths become SPARQL queries, and how the solutions become bodies of core/calls/paths.py. Pure.

Endpoints are trusted to leave nothing out, not to leave everything else out: dates and numbers are compared once more
from their text, so that an engine's idea of equal numbers does not matter, and calls about one item may share a query.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from tasks.clients.sparql.solutions import (
    DIRECT,
    ENTITY,
    XSD,
    Cell,
    Solution,
    is_typed,
    item_number,
    property_number,
    tidy_date,
)
from tasks.clients.sparql.terms import Term, decimal_term, fill_tuples, fill_values, item_term, literal_term
from tasks.core.calls.call import Call
from tasks.core.calls.paths import OPERATIONS, PathRow, write_item_rows, write_literal_rows
from tasks.core.fingerprints import Json
from tasks.text.ids import id_number, is_pid
from tasks.text.values.literals import DAY, UNITLESS, Date, Number, canonical_number, date_key, read_plain_date

QUERIES = tuple(f"{operation}_{hops}" for operation in OPERATIONS for hops in (1, 2))
"""Names of the queries: an operation and its hops."""

_PROP = "http://www.wikidata.org/prop/"
_STATEMENT = f"{ENTITY}statement/"
_UNKNOWN = "http://www.wikidata.org/.well-known/genid/"
_Walk = tuple[int | None, int, int | None]
_COLUMNS = {"item_paths": ("start", "end"), "date_paths": ("subject", "date"), "number_paths": ("subject", "number")}


def name_query(call: Call) -> str:
    """Return the name of the query that answers a call."""
    return f"{call.operation}_{call.parts['hops']}"


def is_askable(call: Call) -> bool:
    """Return False when a call's answer is empty whatever the endpoint holds; ValueError for a value that is none."""
    if name_query(call) not in QUERIES:
        raise ValueError(f"no paths of {call.parts['hops']!r} hops can be asked for; expected 1 or 2")
    return bool(_list_rows(call)) and (call.operation == "item_paths" or bool(_list_properties(call)))


def fill_query(query: str, calls: Sequence[Call]) -> str:
    """Return the query for calls of one operation that differ in their pairs only."""
    if calls[0].operation != "item_paths":
        query = fill_values(query, "properties", _list_properties(calls[0]))
    rows = dict.fromkeys(row for call in calls for row in _list_rows(call))
    return fill_tuples(query, _COLUMNS[calls[0].operation], rows)


def _list_rows(call: Call) -> list[tuple[Term, Term]]:
    """Return a call's rows in the VALUES block of pairs: where paths start, and where they end."""
    subject = item_term(str(call.parts["subject"]))
    match call.operation:
        case "item_paths":
            target = item_term(str(call.parts["object"]))
            return [(subject, target), (target, subject)]
        case "date_paths":
            date = read_plain_date(str(call.parts["date"]))
            # in the text of a date and time, a T comes behind the day, a hyphen behind year and month
            return [(subject, literal_term(f"{date}{'-' if date.day is None else 'T'}"))]
        case _:
            return [(subject, decimal_term(str(call.parts["number"])))]


def _list_properties(call: Call) -> list[Term]:
    """Return a call's properties as one text, the only row of their VALUES block; nothing when it has none."""
    pids = [str(pid) for pid in call.parts["properties"]]  # type: ignore[union-attr]
    if wrong := [pid for pid in pids if not is_pid(pid)]:
        raise ValueError(f"{wrong[0]!r} is not the id of a property; expected P and a number, like P19")
    return [literal_term(f" {' '.join(pids)} ")] if pids else []


def read_solutions(calls: Sequence[Call], solutions: Sequence[Solution]) -> list[Json]:
    """Return the body of each call, whatever order the endpoint gave its solutions in, and however often."""
    if calls[0].operation == "item_paths":
        return _read_item_paths(calls, solutions)
    return _read_literal_paths(calls, solutions)


def _read_item_paths(calls: Sequence[Call], solutions: Sequence[Solution]) -> list[Json]:
    hops = calls[0].parts["hops"]
    walks: dict[tuple[int | None, int | None], list[_Walk]] = defaultdict(list)
    for solution in solutions:
        if walk := _read_walk(solution, hops):
            walks[item_number(solution["start"]), item_number(solution["end"])].append(walk)
    bodies: list[Json] = []
    for call in calls:
        subject, target = id_number(str(call.parts["subject"])), id_number(str(call.parts["object"]))
        forth = [(hops, False, *walk) for walk in walks[subject, target]]
        back = [(hops, True, *walk) for walk in walks[target, subject]]
        bodies.append(write_item_rows([*forth, *back]))
    return bodies


def _read_walk(solution: Solution, hops: Json) -> _Walk | None:
    """Return middle, property_1 and property_2; None when they are not all there."""
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
    """Yield the values in solutions of one subject, each with what its value nodes say of it."""
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
    """Return hops, middle, property_1, property_2, qualifier and statement of a value; None when it does not count."""
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
    """Return a date as Wikidata writes it, or a number in canonical form; None when the term is neither."""
    if not is_typed(cell):
        return None
    if call.operation == "number_paths":
        return canonical_number(cell["value"])
    return tidy_date(cell["value"]) if date_key(cell["value"]) is not None else None


def _read_meaning(solution: Solution) -> tuple[int | None, int | None]:
    """Return what a value node says: precision of a date, unit of a number."""
    unit = item_number(solution["unit"]) if "unit" in solution else None
    precision = int(solution["precision"]["value"]) if "precision" in solution else None
    return precision, None if unit == UNITLESS else unit


def _read_main(cell: Cell) -> str | None:
    """Return a statement's own value: the QID of an item, any other IRI, or text; None when it is an unknown value."""
    value = cell["value"]
    if cell["type"] == "bnode" or value.startswith(_UNKNOWN):
        return None
    if item_number(cell) is not None:
        return value.removeprefix(ENTITY)
    if cell.get("datatype") == f"{XSD}decimal":
        return canonical_number(value) or value
    return tidy_date(value) if cell.get("datatype") == f"{XSD}dateTime" else value
