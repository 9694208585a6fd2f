"""What stands around items: their claims to items from the arrays, their dates and numbers from table `literals`.

Everything is read for all items at once: rows are gathered by numpy, labels and literals come from one query each.
Nothing here is compiled, so that a look-up does not wait for numba. The arrays hold claims without their statements,
since paths do not need them; these come from table `claims`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.core.calls.knowledge import Fact, Neighbour, Pid, Qid
from tasks.graph.arrays import Arrays, Ints, Rows, search_places
from tasks.text.ids import id_number

Label = Callable[[set[str]], Mapping[str, str]]
"""Ids of items and properties → the labels of those that have one."""
Query = Callable[[str, Mapping[str, pa.Table]], list[tuple[Any, ...]]]
"""SQL and the tables it names beside the database `graph` → rows."""

_HIGHEST = 2**63 - 1
_NOTHING = np.empty(0, np.int64)
_LITERALS = """
    SELECT position, property, value, precision, unit, statement
    FROM keys JOIN graph.literals USING (item) WHERE qualifier IS NULL ORDER BY position, id
"""
_CLAIMS = "SELECT position, property, object, min(statement) FROM keys JOIN graph.claims USING (item) GROUP BY ALL"


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


def read_neighbours(arrays: Arrays, label: Label, asked: Sequence[tuple[str, Sequence[str]]]) -> list[list[Neighbour]]:
    """Return for each (qid, pids) the item's direct claims of these properties, by number of pid and qid."""
    count = len(arrays.properties)
    lists = {pids: position for position, pids in enumerate(dict.fromkeys(tuple(pids) for _, pids in asked))}
    list_of = np.array([lists[tuple(pids)] for _, pids in asked], np.int64)
    wanted = [_NOTHING, *(position * count + _place_properties(arrays, pids) for pids, position in lists.items())]
    edges = _gather_rows(arrays.out, arrays.items.find_places(read_numbers(qid for qid, _ in asked)))
    edges = _pick(edges, np.isin(list_of[edges.owners] * count + edges.properties, np.concatenate(wanted)))
    named = list(_name_edges(arrays, edges))
    labels = label({qid for _, _, qid in named})
    found: list[list[Neighbour]] = [[] for _ in asked]
    for owner, pid, qid in named:
        found[owner].append(Neighbour(pid, qid, labels.get(qid)))
    return found


def read_facts(arrays: Arrays, label: Label, query: Query, qids: Sequence[str]) -> list[list[Fact]]:
    """Return what each item says in one hop: dates and numbers by property and statement, then claims by property and value.

    A date or number is that of a statement, or of a direct claim where the graph has no statement of the property. Of
    the statements that say one claim the smallest id is told, so that the answer is one whatever the order.
    """
    numbers = read_numbers(qids)
    keys = {"keys": pa.table({"position": pa.array(np.arange(len(numbers))), "item": pa.array(numbers)})}
    literals = query(_LITERALS, keys)
    said = {(at, f"P{pid}", f"Q{qid}"): statement for at, pid, qid, statement in query(_CLAIMS, keys)}
    claims = list(_name_edges(arrays, _gather_rows(arrays.out, arrays.items.find_places(numbers))))
    labels = label({each for _, *ids in claims for each in ids} | {f"P{pid}" for _, pid, *_ in literals})
    found: list[list[Fact]] = [[] for _ in qids]
    for at, number, value, precision, unit, statement in literals:
        pid, unit_qid = Pid(f"P{number}"), None if unit is None else Qid(f"Q{unit}")
        found[at].append(Fact(pid, labels.get(pid), None, value, precision, unit_qid, statement))
    for at, pid, qid in claims:
        found[at].append(Fact(pid, labels.get(pid), qid, labels.get(qid), None, None, said.get((at, pid, qid))))
    return found


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


def _name_edges(arrays: Arrays, edges: _Edges) -> Iterator[tuple[int, Pid, Qid]]:
    """Yield the position of the owner, the property and the other item of each claim."""
    pids, qids = arrays.properties[edges.properties], arrays.items.numbers[edges.others]
    for owner, pid, qid in zip(edges.owners.tolist(), pids.tolist(), qids.tolist(), strict=True):
        yield owner, Pid(f"P{pid}"), Qid(f"Q{qid}")
