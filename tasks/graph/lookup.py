"""Batched look-ups in a local graph, which serves as a build's Wikidata.

Edges come from the arrays: numpy gathers the rows of all items at once. Texts, literals and the statements of claims,
which paths do not need, come from DuckDB: one query answers all look-ups of a kind, joined with an Arrow table of the
keys. All values reach DuckDB in that table or as parameters, none in the query's text. The files are opened read-only,
so processes can share them; every query has its own cursor, so threads can too.

All calls of one operation and language are one look-up. A call that cannot be answered fails on its own, with a reason.
"""

import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from factmill.tasks.core.calls.call import Call, CallResponse, ResponseHandler, make_failed_response
from factmill.tasks.core.calls.item_facts import ItemFact
from factmill.tasks.core.calls.operation import find_operation, list_operations
from factmill.tasks.core.calls.wikidata import ItemDescription, ItemMatchedByName, ItemNeighbour, Pid, Qid
from factmill.tasks.core.wikidata_paths import PathSearchOptions, PathsFoundForPairs
from factmill.tasks.errors import LocalGraphError
from factmill.tasks.graph.arrays import EdgesByItem, GraphArrays, Ints, find_places_in_sorted, open_mapped_graph_arrays
from factmill.tasks.graph.folders import (
    GRAPH_DATABASE_FILE,
    GraphManifest,
    format_reload_advice,
    get_graph_folder,
    load_manifest_and_check_files,
)
from factmill.tasks.graph.loading.line_patterns import ANY_LANGUAGE
from factmill.tasks.graph.loading.tables import attach_database, connect_in_memory
from factmill.tasks.text.values.wikidata_literals import PartialDate, WantedNumberWithUnit
from factmill.tasks.text.wikidata_ids import get_wikidata_id_number

_HIGHEST_ITEM = 2**63 - 1
_HIGHEST_PROPERTY = 2**31 - 1
_ROWS_PER_SUBJECT = 4
_MAX_ITEM_REDIRECTS = 10

_ITEMS_BY_NAME_QUERY = """
    SELECT key, item, max(via) AS best FROM keys JOIN graph.names n ON n.text = keys.name
    WHERE language IN ($language, $any_language) GROUP BY key, item ORDER BY key, best DESC, item
"""
_DESCRIPTIONS_QUERY = """
    SELECT item, CASE WHEN language = $language THEN 'label' ELSE 'shared' END AS what, text
        FROM keys JOIN graph.labels USING (item) WHERE language IN ($language, $any_language)
    UNION ALL SELECT item, 'description', text FROM keys JOIN graph.descriptions USING (item) WHERE language = $language
    UNION ALL SELECT item, 'title', title FROM keys JOIN graph.titles USING (item)
    UNION ALL SELECT item, 'modified', coalesce(modified, $dump_date) FROM keys JOIN graph.items USING (item)
        LEFT JOIN graph.modified USING (item)
"""
_PROPERTY_FACTS_QUERY = """
    SELECT subject, object FROM graph.edges WHERE property = $property AND subject > $after
    ORDER BY subject, object LIMIT $rows
"""
_ITEM_LABELS_QUERY = """
    SELECT item, coalesce(max(text) FILTER (language = $language), max(text)) FROM keys JOIN graph.labels USING (item)
    WHERE language IN ($language, $any_language) GROUP BY item
"""
_ALIASES_QUERY = """
    SELECT DISTINCT item, text FROM keys JOIN graph.names USING (item)
    WHERE via = 'alias' AND language IN ($language, $any_language) ORDER BY item
"""
_PROPERTY_LABELS_QUERY = """
    SELECT item, coalesce(max(text) FILTER (language = $language), max(text))
    FROM keys JOIN graph.property_labels ON property = item
    WHERE language IN ($language, $any_language) GROUP BY item
"""
_REDIRECTS_QUERY = "SELECT item, target FROM keys JOIN graph.redirects USING (item)"
_MALFORMED_LINES_QUERY = "SELECT file, line_no, reason, text FROM graph.malformed ORDER BY file, line_no LIMIT $limit"
_LITERALS_BY_ID_QUERY = """
    SELECT property, qualifier, statement, value, precision, unit, main, number FROM graph.literals
    WHERE id IN (SELECT id FROM keys) ORDER BY id
"""
_ITEM_VALUES_QUERY = """
    SELECT position, property, value, precision, unit, statement
    FROM keys JOIN graph.literals USING (item) WHERE qualifier IS NULL ORDER BY position, id
"""
_ITEM_CLAIMS_QUERY = (
    "SELECT position, property, object, min(statement) FROM keys JOIN graph.claims USING (item) GROUP BY ALL"
)


@dataclass(frozen=True, slots=True)
class EdgeCounts:
    """Number of an item's direct edges to and from items."""

    out: int
    """Edges that start at it."""
    into: int
    """Edges that end at it."""


@dataclass(frozen=True, slots=True)
class MalformedLine:
    """A source line that was not a valid triple."""

    file: str
    line_no: int
    reason: str
    text: str


def open_graph(name: str, folder: Path) -> "WikidataGraph":
    """Open a loaded graph; LocalGraphError if it is missing, damaged or of another version."""
    return WikidataGraph(get_graph_folder(name, folder), load_manifest_and_check_files(name, folder))


class WikidataGraph(AbstractContextManager["WikidataGraph"]):
    """A graph open for reading: answers calls as a Service, and has look-up methods with typed results.

    A language that was not loaded raises LocalGraphError, since an empty result would look like a real one. Unknown ids are
    left out or have empty results, as each method states.
    """

    is_outside = False

    def __init__(self, path: Path, manifest: GraphManifest) -> None:
        self.path = path
        self.manifest = manifest
        self.identity = f"graph-{manifest.digest[:16]}"
        self.arrays = open_mapped_graph_arrays(path)
        self._lock = threading.Lock()
        try:
            # attached, not connected to: DuckDB would return an older file still open under this path
            self._connection = connect_in_memory(Path(tempfile.gettempdir()) / "factmill-spill")
            attach_database(self._connection, path / GRAPH_DATABASE_FILE, "graph", read_only=True)
        except duckdb.Error as error:
            raise LocalGraphError(
                f"{path / GRAPH_DATABASE_FILE}: cannot be opened: {error}; {format_reload_advice(path.name)}"
            ) from error

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        """Answer calls with one look-up per operation and language; see Service.send."""
        groups: dict[tuple[str, str], list[Call]] = {}
        for call in calls:
            if problem := self._find_call_problem(call):
                deliver(call, problem)
            else:
                groups.setdefault((call.operation, str(call.parts.get("language"))), []).append(call)
        for (name, language), group in groups.items():
            operation, started = find_operation(name), time.perf_counter()
            assert operation
            assert callable(operation.load_from_graph)
            bodies = operation.load_from_graph(self, [call.parts for call in group], language)
            latency_s = (time.perf_counter() - started) / len(group)
            for call, body in zip(group, bodies, strict=True):
                deliver(call, CallResponse(body, latency_s=latency_s))

    def _find_call_problem(self, call: Call) -> CallResponse | None:
        """Return a failed reply for a call that cannot be answered, else None."""
        operation = find_operation(call.operation)
        if operation is None or not callable(operation.load_from_graph):
            why = operation.load_from_graph if operation else ""
            answered = ", ".join(sorted(each.name for each in list_operations() if callable(each.load_from_graph)))
            return make_failed_response(
                "unknown_operation", f"{call.operation}: {why or f'a graph answers {answered}'}"
            )
        if problem := operation.find_wrong_part(call.parts):
            return make_failed_response("bad_call", f"{call.operation}: {problem}")
        language = str(call.parts.get("language", ""))
        problem = self.find_language_problem(language) if operation.depends_on_language and language else None
        return make_failed_response("language_missing", problem) if problem else None

    def find_items_by_name(self, names: Iterable[str], language: str = "en") -> dict[str, list[ItemMatchedByName]]:
        """Return name → items with exactly that label or alias: labels first, then by number; may be empty."""
        self._check_language(language)
        found: dict[str, list[ItemMatchedByName]] = {name: [] for name in names}
        # a lone surrogate cannot be encoded in UTF-8, so no dump holds one
        asked = [name for name in found if not any("\ud800" <= character <= "\udfff" for character in name)]
        keys = pa.table({"key": range(len(asked)), "name": pa.array(asked, pa.string())})
        for key, item, via in self.query(_ITEMS_BY_NAME_QUERY, {"keys": keys}, **_make_language_parameters(language)):
            found[asked[key]].append(ItemMatchedByName(Qid(f"Q{item}"), via))
        return found

    def load_descriptions(self, qids: Iterable[str], language: str = "en") -> dict[Qid, ItemDescription]:
        """Return each item's label, description, article title and time of change; all None for an unknown item."""
        self._check_language(language)
        numbers = {Qid(qid): get_wikidata_id_number(qid) for qid in qids}
        known: dict[int, dict[str, str]] = {}
        parameters = {**_make_language_parameters(language), "dump_date": self.manifest.dump_date}
        for item, what, text in self.query(_DESCRIPTIONS_QUERY, _make_item_keys(numbers.values()), **parameters):
            known.setdefault(item, {})[what] = text
        described = {}
        for qid, number in numbers.items():
            of_item = known.get(number, {})
            label = of_item.get("label", of_item.get("shared"))
            others = (of_item.get(what) for what in ("description", "title", "modified"))
            described[qid] = ItemDescription(label, *others)
        return described

    def resolve_redirects(self, qids: Iterable[str]) -> dict[Qid, Qid]:
        """Return QID → the item at the end of its redirects, or itself."""
        numbers = {Qid(qid): get_wikidata_id_number(qid) for qid in qids}
        for _ in range(_MAX_ITEM_REDIRECTS):
            targets = dict(self.query(_REDIRECTS_QUERY, _make_item_keys(numbers.values())))
            if not targets:
                break
            numbers = {qid: targets.get(number, number) for qid, number in numbers.items()}
        return {qid: Qid(f"Q{number}") for qid, number in numbers.items()}

    def list_neighbours(
        self, asked: Sequence[tuple[str, Sequence[str]]], language: str = "en"
    ) -> list[list[ItemNeighbour]]:
        """Return each (qid, pids) item's direct claims with these properties, sorted by property and item number."""
        self._check_language(language)
        arrays, count = self.arrays, len(self.arrays.properties)
        lists = {pids: position for position, pids in enumerate(dict.fromkeys(tuple(pids) for _, pids in asked))}
        list_of = np.array([lists[tuple(pids)] for _, pids in asked], np.int64)
        # for each list of properties, the places of those that the graph uses
        places = [find_places_in_sorted(arrays.properties, _parse_id_numbers(pids)) for pids in lists]
        wanted = [nth * count + each[each >= 0] for nth, each in enumerate(places)]
        edges = _gather_edges(arrays.out, arrays.items.find_places(_parse_id_numbers(qid for qid, _ in asked)))
        is_wanted = np.isin(
            list_of[edges.owners] * count + edges.properties, np.concatenate([np.empty(0, np.int64), *wanted])
        )
        named = _list_owner_places_pids_and_qids(
            arrays, _ClaimsOfRequestedItems._make(column[is_wanted] for column in edges)
        )
        labels = self.find_labels({qid for _, _, qid in named}, language)
        found: list[list[ItemNeighbour]] = [[] for _ in asked]
        for owner, pid, qid in named:
            found[owner].append(ItemNeighbour(pid, qid, labels.get(qid)))
        return found

    def list_item_facts(self, qids: Iterable[str], language: str = "en") -> dict[Qid, list[ItemFact]]:
        """Return QID → its one-hop facts with labels and statements: dates and numbers first, then claims to items.

        Each part is sorted by property number; an unknown item has no facts. A date or number comes from a statement,
        or from a direct claim if the graph has no statement with that property. If several statements make one claim,
        the smallest id is returned, so that the result does not depend on order.
        """
        self._check_language(language)
        asked = list(dict.fromkeys(Qid(qid) for qid in qids))
        numbers = _parse_id_numbers(asked)
        keys = {"keys": pa.table({"position": pa.array(np.arange(len(numbers))), "item": pa.array(numbers)})}
        literals = self.query(_ITEM_VALUES_QUERY, keys)
        statements = {(at, f"P{pid}", f"Q{qid}"): text for at, pid, qid, text in self.query(_ITEM_CLAIMS_QUERY, keys)}
        claims = _list_owner_places_pids_and_qids(
            self.arrays, _gather_edges(self.arrays.out, self.arrays.items.find_places(numbers))
        )
        ids = {each for _, *both in claims for each in both} | {f"P{pid}" for _, pid, *_ in literals}
        labels = self.find_labels(ids, language)
        found: list[list[ItemFact]] = [[] for _ in asked]
        for at, number, value, precision, unit, statement in literals:
            pid, unit_qid = Pid(f"P{number}"), None if unit is None else Qid(f"Q{unit}")
            found[at].append(ItemFact(pid, labels.get(pid), None, value, precision, unit_qid, statement))
        for at, pid, qid in claims:
            statement = statements.get((at, pid, qid))
            found[at].append(ItemFact(pid, labels.get(pid), qid, labels.get(qid), None, None, statement))
        return dict(zip(asked, found, strict=True))

    def find_item_paths(self, subjects: Ints, objects: Ints, options: PathSearchOptions) -> PathsFoundForPairs:
        """Find the paths between items; see core.paths.PathFinder."""
        # compiled kernels take half a second to load, and look-ups do not need them
        from factmill.tasks.graph.paths import find_item_paths

        return find_item_paths(self.arrays, subjects, objects, options)

    def find_literal_paths(
        self,
        subjects: Ints,
        objects: Sequence[PartialDate] | Sequence[WantedNumberWithUnit],
        properties: frozenset[int],
        options: PathSearchOptions,
    ) -> PathsFoundForPairs:
        """Find the paths from items to dates or numbers; see core.paths.PathFinder."""
        from factmill.tasks.graph.paths import find_literal_paths

        return find_literal_paths(self.arrays, self.read_literals, subjects, objects, properties, options)

    def read_literals(self, ids: Ints) -> pa.Table:
        """Return the rows of table `literals` with these ascending ids, in order."""
        if (rows := self.arrays.read_literals(ids)) is not None:
            return rows
        with self._connect({"keys": pa.table({"id": ids})}) as cursor:
            return cursor.sql(_LITERALS_BY_ID_QUERY).to_arrow_table()

    def list_facts(self, pid: str, after: str | None, limit: int) -> list[tuple[Qid, Qid]]:
        """Return a property's (subject, object) pairs by number, for the first `limit` subjects after `after`."""
        number, start = get_wikidata_id_number(pid), get_wikidata_id_number(after) if after else 0
        if number > _HIGHEST_PROPERTY or start >= _HIGHEST_ITEM:
            return []
        # the row count of `limit` subjects is unknown: query more rows until one further subject appears
        rows = limit * _ROWS_PER_SUBJECT + 1
        while True:
            facts = self.query(_PROPERTY_FACTS_QUERY, {}, property=number, after=start, rows=rows)
            subjects = list(dict.fromkeys(subject for subject, _ in facts))
            if len(facts) < rows or len(subjects) > limit:
                kept = set(subjects[:limit])
                return [(Qid(f"Q{subject}"), Qid(f"Q{thing}")) for subject, thing in facts if subject in kept]
            rows *= 4

    def find_labels(self, ids: Iterable[str], language: str = "en") -> dict[str, str]:
        """Return id → label of items and properties; ids without a label are left out."""
        self._check_language(language)
        found = {}
        asked = list(ids)
        for letter, query in (("Q", _ITEM_LABELS_QUERY), ("P", _PROPERTY_LABELS_QUERY)):
            keys = _make_item_keys(get_wikidata_id_number(each) for each in asked if each.startswith(letter))
            for number, text in self.query(query, keys, **_make_language_parameters(language)):
                found[f"{letter}{number}"] = text
        return found

    def list_aliases(self, qids: Iterable[str], language: str = "en") -> dict[Qid, list[str]]:
        """Return QID → its sorted aliases; may be empty."""
        self._check_language(language)
        numbers = {Qid(qid): get_wikidata_id_number(qid) for qid in qids}
        texts: dict[int, list[str]] = defaultdict(list)
        parameters = _make_language_parameters(language)
        for item, text in self.query(_ALIASES_QUERY, _make_item_keys(numbers.values()), **parameters):
            texts[item].append(text)
        return {qid: sorted(texts[number]) for qid, number in numbers.items()}

    def count_edges(self, qids: Iterable[str]) -> dict[Qid, EdgeCounts]:
        """Return QID → its number of outgoing and incoming edges; 0 and 0 for an unknown item."""
        asked = list(dict.fromkeys(Qid(qid) for qid in qids))
        places = self.arrays.items.find_places(_parse_id_numbers(asked))
        counts = (_get_row_starts_and_lengths(rows, places)[1].tolist() for rows in (self.arrays.out, self.arrays.into))
        return {qid: EdgeCounts(out, into) for qid, out, into in zip(asked, *counts, strict=True)}

    def list_malformed(self, limit: int) -> list[MalformedLine]:
        """Return the first `limit` malformed lines, sorted by file and line number."""
        return [MalformedLine(*row) for row in self.query(_MALFORMED_LINES_QUERY, {}, limit=limit)]

    def query(self, query: str, tables: Mapping[str, pa.Table], **parameters: Any) -> list[tuple[Any, ...]]:
        """Return a query's rows from database `graph` joined with the given tables; none if one of these is empty."""
        if any(not len(table) for table in tables.values()):
            return []
        with self._connect(tables) as cursor:
            return cursor.execute(query, parameters).fetchall()

    @contextmanager
    def _connect(self, tables: Mapping[str, pa.Table]) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a cursor on the database with the given tables registered."""
        try:
            with self._lock:
                cursor = self._connection.cursor()
            with cursor:
                for name, table in tables.items():
                    cursor.register(name, table)
                yield cursor
        except duckdb.Error as error:
            raise LocalGraphError(
                f"{self.path / GRAPH_DATABASE_FILE}: cannot be read: {error}; {format_reload_advice(self.path.name)}"
            ) from error

    def _check_language(self, language: str) -> None:
        if problem := self.find_language_problem(language):
            raise LocalGraphError(problem)

    def find_language_problem(self, language: str) -> str | None:
        """Return an error message if a language was not loaded, else None."""
        if language in self.manifest.languages:
            return None
        return f"graph {self.manifest.name} was loaded in {', '.join(self.manifest.languages)}, not in {language}"


def _make_language_parameters(language: str) -> dict[str, str]:
    """Return a text query's parameters: the language, and the tag of names valid in all languages as fallback."""
    return {"language": language, "any_language": ANY_LANGUAGE}


def _make_item_keys(numbers: Iterable[int]) -> dict[str, pa.Table]:
    fitting = [number for number in dict.fromkeys(numbers) if number <= _HIGHEST_ITEM]
    return {"keys": pa.table({"item": pa.array(fitting, pa.int64())})}


class _ClaimsOfRequestedItems(NamedTuple):
    """Claims of several items, one entry per claim."""

    owners: Ints
    """Position of the item among those requested."""
    properties: Ints
    """Place of the property."""
    others: Ints
    """Place of the item at the other end."""


def _parse_id_numbers(ids: Iterable[str]) -> Ints:
    """Parse ids into numbers; -1, which no item has, for numbers beyond a graph's range."""
    numbers = map(get_wikidata_id_number, ids)
    return np.array([number if number <= _HIGHEST_ITEM else -1 for number in numbers], np.int64)


def _get_row_starts_and_lengths(rows: EdgesByItem, places: Ints) -> tuple[Ints, Ints]:
    """Return each item's row start and length; length 0 for a place of -1."""
    if len(rows.offsets) == 1:
        return np.zeros_like(places), np.zeros_like(places)
    known = np.maximum(places, 0)
    begins = rows.offsets[known]
    return begins, np.where(places < 0, 0, rows.offsets[known + 1] - begins)


def _gather_edges(rows: EdgesByItem, places: Ints) -> _ClaimsOfRequestedItems:
    """Return the edges of the items at the given places (-1: none), concatenated, each item's sorted by property."""
    begins, counts = _get_row_starts_and_lengths(rows, places)
    owners = np.repeat(np.arange(len(places)), counts)
    at = np.arange(len(owners)) + np.repeat(begins - np.cumsum(counts) + counts, counts)
    properties, others = rows.properties[at].astype(np.int64), rows.items[at].astype(np.int64)
    order = np.lexsort((properties, owners))
    return _ClaimsOfRequestedItems(owners, properties[order], others[order])


def _list_owner_places_pids_and_qids(arrays: GraphArrays, edges: _ClaimsOfRequestedItems) -> list[tuple[int, Pid, Qid]]:
    """Return (position of the owner, PID, QID of the other item) of each claim."""
    pids, qids = arrays.properties[edges.properties].tolist(), arrays.items.numbers[edges.others].tolist()
    rows = zip(edges.owners.tolist(), pids, qids, strict=True)
    return [(owner, Pid(f"P{pid}"), Qid(f"Q{qid}")) for owner, pid, qid in rows]
