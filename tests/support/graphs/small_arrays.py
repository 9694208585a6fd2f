"""Make small graphs as arrays, from edges and literals written in the test, and search them in plain Python."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from factmill.tasks.core.wikidata_paths import PathSearchOptions, PathsFoundForPairs
from factmill.tasks.graph.arrays import GraphArrays, Ints, open_mapped_graph_arrays, write_graph_arrays
from factmill.tasks.graph.paths import find_item_paths, find_literal_paths
from factmill.tasks.text.values.wikidata_literals import (
    DAY_PRECISION,
    PartialDate,
    WantedNumberWithUnit,
    canonical_number,
    compute_xsd_datetime_day_key,
    hash_canonical_number,
)

Edge = tuple[int, int, int]
"""Subject, property, object."""
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A row of table `literals` without its derived columns."""

    item: int
    property: int
    qualifier: int | None
    statement: str | None
    value: str
    precision: int | None = None
    unit: int | None = None
    main: str | None = None

    @property
    def number(self) -> str | None:
        return None if "T" in self.value else canonical_number(self.value)

    @property
    def key(self) -> int:
        key = compute_xsd_datetime_day_key(self.value) if self.number is None else hash_canonical_number(self.number)
        assert key is not None
        return key

    def fits(self, wanted: PartialDate | WantedNumberWithUnit) -> bool:
        if isinstance(wanted, WantedNumberWithUnit):
            return self.number is not None and wanted.is_satisfied_by(self.number, self.unit)
        return self.number is None and wanted.is_satisfied_by(
            self.key, DAY_PRECISION if self.precision is None else self.precision
        )


def null_first(row: Iterable[Any]) -> list[tuple[bool, Any]]:
    """Return a sort key for rows with nulls."""
    return [(value is not None, value) for value in row]


@dataclass
class SmallGraph:
    """A graph in a folder, with its edges and literals."""

    folder: Path
    edges: Collection[Edge]
    literals: Sequence[Literal] = ()
    others: Collection[int] = ()
    """Items without edges and literals."""
    keys: dict[int, int] = field(default_factory=dict)
    """Position of a literal → a wrong key."""
    arrays: GraphArrays = field(init=False)
    connection: duckdb.DuckDBPyConnection = field(init=False)

    def __post_init__(self) -> None:
        # as in the tables: numbers in their canonical spelling
        spelled = {replace(each, value=each.number or each.value) for each in self.literals}
        self.literals = sorted(spelled, key=lambda each: null_first(astuple(each)))
        self.connection = duckdb.connect(config={"python_enable_replacements": False, "threads": 1})
        self.store_tables()
        write_graph_arrays(self.connection, self.folder)
        self.arrays = open_mapped_graph_arrays(self.folder)

    def store_tables(self) -> None:
        edges = pa.table(
            {name: pa.array([edge[at] for edge in self.edges], kind) for at, (name, kind) in enumerate(EDGE_TYPES)}
        )
        rows = [
            (position, *astuple(each), each.number, self.keys.get(position, each.key))
            for position, each in enumerate(self.literals)
        ]
        literals = pa.table(
            {name: pa.array([row[at] for row in rows], kind) for at, (name, kind) in enumerate(LITERAL_TYPES)}
        )
        items = {item for subject, _, target in self.edges for item in (subject, target)}
        items |= {each.item for each in self.literals} | set(self.others)
        for name, table in {"edges": edges, "literals": literals, "items": pa.table({"item": sorted(items)})}.items():
            self.connection.register("rows", table)
            cast = "item::BIGINT AS item" if name == "items" else "*"
            self.connection.execute(f"CREATE TABLE {name} AS SELECT {cast} FROM rows")
            self.connection.unregister("rows")

    def read_literals(self, ids: Ints) -> pa.Table:
        assert ids.tolist() == sorted(set(ids.tolist()))
        rows = self.arrays.read_literals(ids)
        assert rows is not None
        return rows

    def knows(self, item: int) -> bool:
        return bool(self.arrays.items.find_places(np.array([item]))[0] >= 0)

    def find_items(self, pairs: Sequence[tuple[int, int]], options: PathSearchOptions) -> PathsFoundForPairs:
        subjects, objects = (np.array([pair[at] for pair in pairs], np.int64) for at in (0, 1))
        return find_item_paths(self.arrays, subjects, objects, options)

    def find_literals(
        self,
        pairs: Sequence[tuple[int, PartialDate]] | Sequence[tuple[int, WantedNumberWithUnit]],
        properties: set[int],
        options: PathSearchOptions,
    ) -> PathsFoundForPairs:
        subjects, wanted = np.array([pair[0] for pair in pairs], np.int64), [pair[1] for pair in pairs]
        return find_literal_paths(
            self.arrays,
            self.read_literals,
            subjects,
            wanted,
            frozenset(properties),
            options,  # type: ignore[arg-type]
        )


EDGE_TYPES = [("subject", pa.int64()), ("property", pa.int32()), ("object", pa.int64())]
LITERAL_TYPES = [
    ("id", pa.int64()),
    ("item", pa.int64()),
    ("property", pa.int32()),
    ("qualifier", pa.int32()),
    ("statement", pa.string()),
    ("value", pa.string()),
    ("precision", pa.uint8()),
    ("unit", pa.int64()),
    ("main", pa.string()),
    ("number", pa.string()),
    ("key", pa.int64()),
]


def search_items(
    graph: SmallGraph, pairs: Sequence[tuple[int, int]], options: PathSearchOptions
) -> tuple[list[Row], list[Row]]:
    """Return the rows of ITEM_PATHS_SCHEMA and PAIRS from a search through all edges."""
    edges = [edge for edge in set(graph.edges) if edge[1] not in options.ignored_properties]
    paths: list[Row] = []
    outcomes: list[Row] = []
    for position, (subject, target) in enumerate(pairs):
        found: list[Row] = []
        ways = [(False, subject, target), (True, target, subject)] if subject != target else []
        for backward, start, end in ways:
            found += [(1, backward, None, p, None) for s, p, o in edges if (s, o) == (start, end)]
        if not found or options.always_two_hops:
            for backward, start, end in ways:
                leaving = [(p, o) for s, p, o in edges if s == start]
                leading = [(s, p) for s, p, o in edges if o == end]
                found += [(2, backward, x, p, q) for p, x in leaving for y, q in leading if x == y]
        outcome = "identical" if subject == target else find_unknown(graph, subject, target)
        outcomes.append(make_pair_row(position, outcome, len(found), options))
        paths += [(position, *row) for row in sorted(found, key=null_first)[: options.max_paths]]
    return paths, outcomes


def search_literals(
    graph: SmallGraph,
    pairs: Sequence[tuple[int, PartialDate | WantedNumberWithUnit]],
    properties: set[int],
    options: PathSearchOptions,
) -> tuple[list[Row], list[Row]]:
    """Return the rows of LITERAL_PATHS_SCHEMA and PAIRS from a search through all edges and literals."""
    paths: list[Row] = []
    outcomes: list[Row] = []
    for position, (subject, wanted) in enumerate(pairs):
        hits = [
            each
            for each in graph.literals
            if each.fits(wanted)
            and (each.property if each.qualifier is None else each.qualifier) in properties
            and not options.ignored_properties & {each.property, each.qualifier}
        ]
        found = [
            (1, None, each.property, None, each.qualifier, *astuple(each)[3:]) for each in hits if each.item == subject
        ]
        if not found or options.always_two_hops:
            found += [
                (2, o, p, each.property, each.qualifier, *astuple(each)[3:])
                for s, p, o in set(graph.edges)
                for each in hits
                if s == subject and o == each.item and p not in options.ignored_properties
            ]
        outcomes.append(make_pair_row(position, find_unknown(graph, subject), len(found), options))
        paths += [(position, *row) for row in sorted(found, key=null_first)[: options.max_paths]]
    return paths, outcomes


def find_unknown(graph: SmallGraph, subject: int, target: int | None = None) -> str | None:
    if not graph.knows(subject):
        return "unknown_subject"
    return None if target is None or graph.knows(target) else "unknown_object"


def make_pair_row(position: int, outcome: str | None, total: int, options: PathSearchOptions) -> Row:
    kept = total if options.max_paths is None else min(total, options.max_paths)
    return position, outcome or ("none" if not total else "found" if kept == total else "capped"), total, kept


def rows_of(found: PathsFoundForPairs) -> tuple[list[Row], list[Row]]:
    """Return the rows of paths and of pairs as tuples."""
    return [tuple(row.values()) for row in found.paths.to_pylist()], [
        tuple(row.values()) for row in found.pairs.to_pylist()
    ]
