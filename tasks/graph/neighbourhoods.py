"""What stands around items: their claims to items from the arrays, their dates and numbers from table `literals`.

Everything is read for all items at once: rows are gathered by numpy, labels and literals come from one query each.
Nothing here is compiled, so that a look-up does not wait for numba.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.core.calls.knowledge import Neighbour, Pid, Qid
from tasks.graph.arrays import Arrays, Ints, Rows, search_places
from tasks.text.ids import id_number

if TYPE_CHECKING:
    from tasks.graph.lookup import Graph

_HIGHEST = 2**63 - 1
_NOTHING = np.empty(0, np.int64)
_LITERALS = """
    SELECT position, property, value, precision, unit, statement
    FROM keys JOIN graph.literals USING (item) JOIN chosen USING (property) WHERE qualifier IS NULL ORDER BY position, id
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """A direct claim between items."""

    pid: Pid
    property_label: str | None
    qid: Qid
    """The value; in a claim that leads to the item that is looked at, the subject."""
    label: str | None
    """Of that item."""


@dataclass(frozen=True, slots=True)
class LiteralClaim:
    """A date or number that a statement gives, or a direct claim where the graph has no statement of the property."""

    pid: Pid
    property_label: str | None
    value: str
    """A date as written in the RDF, a number in canonical spelling (text/values/literals.py)."""
    precision: int | None
    """Of a date, as Wikidata counts it (text/values/literals.py); None where the data do not say it, and for numbers."""
    unit: Qid | None
    """Of a number; None for none."""
    unit_label: str | None
    statement: str | None
    """Its id as in the RDF; None for a direct claim."""


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The graph of one hop around an item."""

    claims: tuple[Claim, ...]
    """By number of property, then of value."""
    literals: tuple[LiteralClaim, ...]
    """By number of property, then by statement."""
    incoming: tuple[Claim, ...]
    """Claims that lead to the item, by number of subject, then of property: the first as many as were asked for."""
    incoming_total: int | None
    """How many claims lead to the item; None when they were not asked for."""


class _Edges(NamedTuple):
    """Claims of several items, row by row."""

    owners: Ints
    """Position of the item in what was asked."""
    properties: Ints
    """Places of the properties."""
    others: Ints
    """Places of the items at the other end."""


def read_numbers(ids: Iterable[str]) -> Ints:
    """Return the numbers of ids; -1, which nothing has, for those beyond what a graph can hold."""
    return np.array([number if number <= _HIGHEST else -1 for number in map(id_number, ids)], np.int64)


def read_degrees(arrays: Arrays, numbers: Ints) -> tuple[Ints, Ints]:
    """Return how many claims leave, and how many reach, each item; 0 for one that the graph does not know."""
    places = arrays.items.find_places(numbers)
    return _measure_rows(arrays.out, places)[1], _measure_rows(arrays.into, places)[1]


def read_neighbours(graph: "Graph", asked: Sequence[tuple[str, Sequence[str]]], language: str) -> list[list[Neighbour]]:
    """Return for each (qid, pids) the item's direct claims of these properties, by number of pid and qid."""
    arrays, count = graph.arrays, len(graph.arrays.properties)
    lists = {pids: position for position, pids in enumerate(dict.fromkeys(tuple(pids) for _, pids in asked))}
    list_of = np.array([lists[tuple(pids)] for _, pids in asked], np.int64)
    wanted = [_NOTHING, *(position * count + _place_properties(arrays, pids) for pids, position in lists.items())]
    edges = _gather_rows(arrays.out, arrays.items.find_places(read_numbers(qid for qid, _ in asked)))
    edges = _pick(edges, np.isin(list_of[edges.owners] * count + edges.properties, np.concatenate(wanted)))
    named = list(_name_edges(arrays, edges))
    labels = graph.labels({qid for _, _, qid in named}, language)
    found: list[list[Neighbour]] = [[] for _ in asked]
    for owner, pid, qid in named:
        found[owner].append(Neighbour(pid, qid, labels.get(qid)))
    return found


def read_neighbourhoods(
    graph: "Graph",
    qids: Sequence[str],
    language: str,
    *,
    only: Iterable[str] | None,
    without: Iterable[str],
    most_incoming: int,
) -> list[Neighbourhood]:
    """Return what stands around each item; see Graph.neighbourhoods."""
    arrays, numbers = graph.arrays, read_numbers(qids)
    chosen = _choose_properties(arrays, only, without)
    places = arrays.items.find_places(numbers)
    edges = _gather_rows(arrays.out, places)
    claims = list(_name_edges(arrays, _pick(edges, chosen[edges.properties])))
    incoming, totals = _read_incoming(arrays.into, places, chosen, most_incoming)
    leading = list(_name_edges(arrays, incoming))
    literals = graph.query(
        _LITERALS,
        {
            "keys": pa.table({"position": pa.array(np.arange(len(numbers))), "item": pa.array(numbers)}),
            "chosen": pa.table({"property": pa.array(arrays.properties[chosen])}),
        },
    )
    labels = graph.labels(_list_ids([*claims, *leading], literals), language)
    literals_of: list[list[LiteralClaim]] = [[] for _ in qids]
    for position, *row in literals:
        literals_of[position].append(_read_literal(row, labels))
    claims_of, leading_of = _share_out(claims, labels, len(qids)), _share_out(leading, labels, len(qids))
    return [
        Neighbourhood(tuple(claims_of[at]), tuple(literals_of[at]), tuple(leading_of[at]), total)
        for at, total in enumerate(totals)
    ]


def _choose_properties(arrays: Arrays, only: Iterable[str] | None, without: Iterable[str]) -> npt.NDArray[np.bool_]:
    """Return by place which properties count."""
    chosen = np.full(len(arrays.properties), only is None)
    if only is not None:
        chosen[_place_properties(arrays, only)] = True
    chosen[_place_properties(arrays, without)] = False
    return chosen


def _place_properties(arrays: Arrays, pids: Iterable[str]) -> Ints:
    """Return the places of those of some properties that the graph uses."""
    places = search_places(arrays.properties, read_numbers(pids))
    return places[places >= 0]


def _measure_rows(rows: Rows, places: Ints) -> tuple[Ints, Ints]:
    """Return where each item's row begins and how long it is; empty for a place of -1."""
    if len(rows.offsets) == 1:
        return np.zeros_like(places), np.zeros_like(places)
    known = np.maximum(places, 0)
    begins = rows.offsets[known]
    return begins, np.where(places < 0, 0, rows.offsets[known + 1] - begins)


def _gather_rows(rows: Rows, places: Ints) -> _Edges:
    """Return the rows of the items at some places (-1: none), one after the other, each sorted by property."""
    begins, counts = _measure_rows(rows, places)
    owners = np.repeat(np.arange(len(places)), counts)
    at = np.arange(len(owners)) + np.repeat(begins - np.cumsum(counts) + counts, counts)
    properties, others = rows.properties[at].astype(np.int64), rows.items[at].astype(np.int64)
    order = np.lexsort((properties, owners))
    return _Edges(owners, properties[order], others[order])


def _pick(edges: _Edges, wanted: npt.NDArray[np.bool_]) -> _Edges:
    return _Edges._make(column[wanted] for column in edges)


def _read_incoming(
    rows: Rows, places: Ints, chosen: npt.NDArray[np.bool_], most: int
) -> tuple[_Edges, list[int | None]]:
    """Return the first so many claims that lead to each item, and how many there are; nothing when `most` is 0."""
    if not most:
        return _Edges(_NOTHING, _NOTHING, _NOTHING), [None] * len(places)
    found = [_Edges(_NOTHING, _NOTHING, _NOTHING)]
    totals: list[int | None] = []
    for owner, (begin, count) in enumerate(zip(*_measure_rows(rows, places), strict=True)):
        properties = rows.properties[begin : begin + count]
        # one item at a time, since the claims that lead to a hub are millions
        hits = np.flatnonzero(chosen[properties])
        first = hits[:most]
        columns = np.full(len(first), owner), properties[first], rows.items[begin + first]
        found.append(_Edges._make(column.astype(np.int64) for column in columns))
        totals.append(len(hits))
    return _Edges._make(np.concatenate(columns) for columns in zip(*found, strict=True)), totals


def _name_edges(arrays: Arrays, edges: _Edges) -> Iterator[tuple[int, Pid, Qid]]:
    """Yield the position of the owner, the property and the other item of each claim."""
    pids, qids = arrays.properties[edges.properties], arrays.items.numbers[edges.others]
    for owner, pid, qid in zip(edges.owners.tolist(), pids.tolist(), qids.tolist(), strict=True):
        yield owner, Pid(f"P{pid}"), Qid(f"Q{qid}")


def _list_ids(edges: Iterable[tuple[int, Pid, Qid]], literals: Iterable[tuple[Any, ...]]) -> set[str]:
    """Return all ids that are to be labelled."""
    ids: set[str] = set()
    for _, pid, qid in edges:
        ids |= {pid, qid}
    for _, pid, _, _, unit, _ in literals:
        ids |= {f"P{pid}", f"Q{unit}"} if unit is not None else {f"P{pid}"}
    return ids


def _share_out(edges: Iterable[tuple[int, Pid, Qid]], labels: Mapping[str, str], count: int) -> list[list[Claim]]:
    """Return the claims of each owner."""
    claims: list[list[Claim]] = [[] for _ in range(count)]
    for owner, pid, qid in edges:
        claims[owner].append(Claim(pid, labels.get(pid), qid, labels.get(qid)))
    return claims


def _read_literal(row: Sequence[Any], labels: Mapping[str, str]) -> LiteralClaim:
    number, value, precision, unit, statement = row
    pid, unit_qid = Pid(f"P{number}"), None if unit is None else Qid(f"Q{unit}")
    return LiteralClaim(
        pid, labels.get(pid), value, precision, unit_qid, labels.get(unit_qid) if unit_qid else None, statement
    )
