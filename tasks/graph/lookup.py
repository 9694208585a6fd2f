"""Look-ups in a local graph, in batches: the graph as the Wikidata of a build.

What stands around items is read from the arrays, texts and literals from DuckDB: one query answers all look-ups of a
kind, joined with an Arrow table of what is asked; all values reach DuckDB in that table or as parameters, none in the
query's text. The files are opened read-only, so several processes can share them, and every query runs on a cursor of
its own, so several threads can.
"""

import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from tasks.core.calls.call import Call, Deliver
from tasks.core.calls.knowledge import Candidate, Description, Fact, Neighbour, Qid, write_description, write_facts
from tasks.core.fingerprints import Json
from tasks.core.paths import FoundPaths, PathOptions
from tasks.errors import GraphError
from tasks.graph.answers import Answer, Parts, answer_calls
from tasks.graph.arrays import Ints, open_arrays
from tasks.graph.literal_texts import open_literal_texts
from tasks.graph.loading.shapes import ANY_LANGUAGE
from tasks.graph.loading.tables import attach_database, connect_memory
from tasks.graph.manifest import DATABASE, GraphManifest, format_load_advice, graph_path, read_manifest
from tasks.graph.neighbourhoods import read_degrees, read_facts, read_neighbours, read_numbers
from tasks.text.ids import id_number
from tasks.text.values.literals import Date, Number

_HIGHEST_ITEM = 2**63 - 1
_HIGHEST_PROPERTY = 2**31 - 1
_FACTS_A_SUBJECT = 4
_REDIRECTS_AT_MOST = 10

_FIND = """
    SELECT key, item, max(via) AS best FROM keys JOIN graph.names n ON n.text = keys.name
    WHERE language IN ($language, $any_language) GROUP BY key, item ORDER BY key, best DESC, item
"""
_DESCRIBE = """
    SELECT item, CASE WHEN language = $language THEN 'label' ELSE 'shared' END AS what, text
        FROM keys JOIN graph.labels USING (item) WHERE language IN ($language, $any_language)
    UNION ALL SELECT item, 'description', text FROM keys JOIN graph.descriptions USING (item) WHERE language = $language
    UNION ALL SELECT item, 'title', title FROM keys JOIN graph.titles USING (item)
    UNION ALL SELECT item, 'modified', coalesce(modified, $dump_date) FROM keys JOIN graph.items USING (item)
        LEFT JOIN graph.modified USING (item)
"""
_FACTS = """
    SELECT subject, object FROM graph.edges WHERE property = $property AND subject > $after
    ORDER BY subject, object LIMIT $rows
"""
_ITEM_LABELS = """
    SELECT item, coalesce(max(text) FILTER (language = $language), max(text)) FROM keys JOIN graph.labels USING (item)
    WHERE language IN ($language, $any_language) GROUP BY item
"""
_PROPERTY_LABELS = """
    SELECT item, coalesce(max(text) FILTER (language = $language), max(text))
    FROM keys JOIN graph.property_labels ON property = item
    WHERE language IN ($language, $any_language) GROUP BY item
"""
_REDIRECTS = "SELECT item, target FROM keys JOIN graph.redirects USING (item)"
_MALFORMED = "SELECT file, line_no, reason, text FROM graph.malformed ORDER BY file, line_no LIMIT $limit"
_LITERALS = """
    SELECT property, qualifier, statement, value, precision, unit, main, number FROM graph.literals
    WHERE id IN (SELECT id FROM keys) ORDER BY id
"""


@dataclass(frozen=True, slots=True)
class Degree:
    """How many direct edges to items an item has."""

    out: int
    """Edges that start at it."""
    into: int
    """Edges that end at it."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """A line that was no triple when the graph was loaded."""

    file: str
    line_no: int
    reason: str
    text: str


def open_graph(name: str, folder: Path) -> "Graph":
    """Open a graph that was loaded; GraphError when there is none, or when it is damaged or of another version."""
    return Graph(graph_path(name, folder), read_manifest(name, folder))


class Graph(AbstractContextManager["Graph"]):
    """A graph that is open for reading; answers calls as a Service and look-ups of other code as typed values.

    Languages that were not loaded are refused, since an empty answer would look like one. Ids that are unknown are
    left out, or have empty answers, as each method says.
    """

    is_outside = False

    def __init__(self, path: Path, manifest: GraphManifest) -> None:
        self.path = path
        self.manifest = manifest
        self.identity = f"graph-{manifest.digest[:16]}"
        self.arrays = open_arrays(path)
        self._texts = open_literal_texts(path, len(self.arrays.literals.keys))
        self._lock = threading.Lock()
        try:
            # not connected to directly: DuckDB would hand out an older file still open under this path
            self._connection = connect_memory(Path(tempfile.gettempdir()) / "factmill-spill")
            attach_database(self._connection, path / DATABASE, "graph", read_only=True)
        except duckdb.Error as error:
            raise GraphError(
                f"{path / DATABASE}: cannot be opened: {error}; {format_load_advice(path.name)}"
            ) from error

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        """Answer calls of core/calls/knowledge.py, one query an operation and language; see Service.send."""
        answers: dict[str, Answer] = {
            "find_items": self._answer_find_items,
            "describe_items": self._answer_describe_items,
            "label": self._answer_label,
            "resolve_item": self._answer_resolve_item,
            "neighbours": self._answer_neighbours,
            "list_facts": self._answer_list_facts,
            "item_facts": self._answer_item_facts,
        }
        answer_calls(calls, deliver, answers, self.find_language_problem)

    def find(self, names: Iterable[str], language: str = "en") -> dict[str, list[Candidate]]:
        """Return the items that bear each name exactly: labels first, then by number; an empty list when none does."""
        self._check_language(language)
        found: dict[str, list[Candidate]] = {name: [] for name in names}
        asked = [name for name in found if _is_text(name)]
        keys = pa.table({"key": range(len(asked)), "name": pa.array(asked, pa.string())})
        for key, item, via in self.query(_FIND, {"keys": keys}, **_speak(language)):
            found[asked[key]].append(Candidate(Qid(f"Q{item}"), via))
        return found

    def describe(self, qids: Iterable[str], language: str = "en") -> dict[Qid, Description]:
        """Return what is known of each item; all fields are None for an item the graph does not know."""
        self._check_language(language)
        numbers = {Qid(qid): id_number(qid) for qid in qids}
        known: dict[int, dict[str, str]] = {}
        parameters = {**_speak(language), "dump_date": self.manifest.dump_date}
        for item, what, text in self.query(_DESCRIBE, _item_keys(numbers.values()), **parameters):
            known.setdefault(item, {})[what] = text
        described = {}
        for qid, number in numbers.items():
            of_item = known.get(number, {})
            label = of_item.get("label", of_item.get("shared"))
            described[qid] = Description(
                label, of_item.get("description"), of_item.get("title"), of_item.get("modified")
            )
        return described

    def resolve(self, qids: Iterable[str]) -> dict[Qid, Qid]:
        """Return the item that each QID stands for: where its redirects end, or itself."""
        numbers = {Qid(qid): id_number(qid) for qid in qids}
        for _ in range(_REDIRECTS_AT_MOST):
            targets = dict(self.query(_REDIRECTS, _item_keys(numbers.values())))
            if not targets:
                break
            numbers = {qid: targets.get(number, number) for qid, number in numbers.items()}
        return {qid: Qid(f"Q{number}") for qid, number in numbers.items()}

    def neighbours(self, qids: Iterable[str], pids: Iterable[str], language: str = "en") -> dict[Qid, list[Neighbour]]:
        """Return each item's direct claims of some properties, by number of pid and qid; an empty list when none."""
        asked, wanted = list(dict.fromkeys(qids)), list(pids)
        found = self.neighbours_of_each([(qid, wanted) for qid in asked], language)
        return {Qid(qid): edges for qid, edges in zip(asked, found, strict=True)}

    def neighbours_of_each(
        self, asked: Sequence[tuple[str, Sequence[str]]], language: str = "en"
    ) -> list[list[Neighbour]]:
        """Answer as `neighbours` does for many (qid, pids), each item with properties of its own; same length."""
        self._check_language(language)
        return read_neighbours(self.arrays, lambda ids: self.labels(ids, language), asked)

    def item_facts(self, qids: Iterable[str], language: str = "en") -> dict[Qid, list[Fact]]:
        """Return what each item says in one hop, with labels and statements: dates and numbers, then claims.

        Each part is by number of property; an item that the graph does not know says nothing.
        """
        self._check_language(language)
        asked = list(dict.fromkeys(Qid(qid) for qid in qids))
        found = read_facts(self.arrays, lambda ids: self.labels(ids, language), self.query, asked)
        return dict(zip(asked, found, strict=True))

    def find_item_paths(self, subjects: Ints, objects: Ints, options: PathOptions) -> FoundPaths:
        """Find the paths between items; see core.paths.PathFinder."""
        # what is compiled takes half a second to load: look-ups do without
        from tasks.graph.paths import find_item_paths

        return find_item_paths(self.arrays, subjects, objects, options)

    def find_literal_paths(
        self,
        subjects: Ints,
        objects: Sequence[Date] | Sequence[Number],
        properties: frozenset[int],
        options: PathOptions,
    ) -> FoundPaths:
        """Find the paths from items to dates or numbers; see core.paths.PathFinder."""
        from tasks.graph.paths import find_literal_paths

        return find_literal_paths(self.arrays, self.read_literals, subjects, objects, properties, options)

    def read_literals(self, ids: Ints) -> pa.Table:
        """Return the rows of table `literals` with these ids, which ascend, in their order."""
        if self._texts:
            return self._texts.read(self.arrays, ids)
        with self._connect({"keys": pa.table({"id": ids})}) as cursor:
            return cursor.sql(_LITERALS).to_arrow_table()

    def list_facts(self, pid: str, after: str | None, limit: int) -> list[tuple[Qid, Qid]]:
        """Return (subject, object) of a property by number, of the first `limit` subjects behind `after`."""
        number, start = id_number(pid), id_number(after) if after else 0
        if number > _HIGHEST_PROPERTY or start >= _HIGHEST_ITEM:
            return []
        # the rows of `limit` subjects are not known beforehand: ask for more until one subject more is in sight
        rows = limit * _FACTS_A_SUBJECT + 1
        while True:
            facts = self.query(_FACTS, {}, property=number, after=start, rows=rows)
            subjects = list(dict.fromkeys(subject for subject, _ in facts))
            if len(facts) < rows or len(subjects) > limit:
                kept = set(subjects[:limit])
                return [(Qid(f"Q{subject}"), Qid(f"Q{thing}")) for subject, thing in facts if subject in kept]
            rows *= 4

    def labels(self, ids: Iterable[str], language: str = "en") -> dict[str, str]:
        """Return the labels of items and properties by id; ids without one are left out."""
        self._check_language(language)
        found = {}
        asked = list(ids)
        for letter, query in (("Q", _ITEM_LABELS), ("P", _PROPERTY_LABELS)):
            keys = _item_keys(id_number(each) for each in asked if each.startswith(letter))
            for number, text in self.query(query, keys, **_speak(language)):
                found[f"{letter}{number}"] = text
        return found

    def degrees(self, qids: Iterable[str]) -> dict[Qid, Degree]:
        """Return how many edges each item has; 0 and 0 for an item the graph does not know."""
        asked = list(dict.fromkeys(Qid(qid) for qid in qids))
        counts = zip(*read_degrees(self.arrays, read_numbers(asked)), strict=True)
        return {qid: Degree(int(out), int(into)) for qid, (out, into) in zip(asked, counts, strict=True)}

    def list_malformed(self, limit: int) -> list[Malformed]:
        """Return the first lines that were set aside as malformed, by file and line number."""
        return [Malformed(*row) for row in self.query(_MALFORMED, {}, limit=limit)]

    def query(self, query: str, tables: Mapping[str, pa.Table], **parameters: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query on the database `graph` and some tables, none when one of these is empty."""
        if any(not len(table) for table in tables.values()):
            return []
        with self._connect(tables) as cursor:
            return cursor.execute(query, parameters).fetchall()

    def _answer_find_items(self, parts: Sequence[Parts], language: str) -> list[Json]:
        found = self.find([each["name"] for each in parts], language)
        return [[{"qid": item.qid, "via": item.via} for item in found[each["name"]]] for each in parts]

    def _answer_describe_items(self, parts: Sequence[Parts], language: str) -> list[Json]:
        found = self.describe([each["qid"] for each in parts], language)
        return [write_description(found[each["qid"]]) for each in parts]

    def _answer_label(self, parts: Sequence[Parts], language: str) -> list[Json]:
        found = self.labels([each["id"] for each in parts], language)
        return [found.get(each["id"]) for each in parts]

    def _answer_resolve_item(self, parts: Sequence[Parts], _language: str) -> list[Json]:
        found = self.resolve([each["qid"] for each in parts])
        return [found[each["qid"]] for each in parts]

    def _answer_neighbours(self, parts: Sequence[Parts], language: str) -> list[Json]:
        found = self.neighbours_of_each([(each["qid"], each["pids"]) for each in parts], language)
        return [[{"pid": edge.pid, "qid": edge.qid, "label": edge.label} for edge in edges] for edges in found]

    def _answer_list_facts(self, parts: Sequence[Parts], _language: str) -> list[Json]:
        facts = [self.list_facts(each["pid"], each["after"], each["limit"]) for each in parts]
        return [[{"subject": subject, "object": thing} for subject, thing in page] for page in facts]

    def _answer_item_facts(self, parts: Sequence[Parts], language: str) -> list[Json]:
        found = self.item_facts([each["qid"] for each in parts], language)
        return [write_facts(found[each["qid"]]) for each in parts]

    @contextmanager
    def _connect(self, tables: Mapping[str, pa.Table]) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a cursor that sees the database and some tables."""
        try:
            with self._lock:
                cursor = self._connection.cursor()
            with cursor:
                for name, table in tables.items():
                    cursor.register(name, table)
                yield cursor
        except duckdb.Error as error:
            raise GraphError(
                f"{self.path / DATABASE}: cannot be read: {error}; {format_load_advice(self.path.name)}"
            ) from error

    def _check_language(self, language: str) -> None:
        if problem := self.find_language_problem(language):
            raise GraphError(problem)

    def find_language_problem(self, language: str) -> str | None:
        """Return why a language cannot be asked for, or None."""
        if language in self.manifest.languages:
            return None
        return f"graph {self.manifest.name} was loaded in {', '.join(self.manifest.languages)}, not in {language}"


def _speak(language: str) -> dict[str, str]:
    """Return the parameters of a query for texts: a name that stands in all languages is used where one has none."""
    return {"language": language, "any_language": ANY_LANGUAGE}


def _item_keys(numbers: Iterable[int]) -> dict[str, pa.Table]:
    fitting = [number for number in dict.fromkeys(numbers) if number <= _HIGHEST_ITEM]
    return {"keys": pa.table({"item": pa.array(fitting, pa.int64())})}


def _is_text(name: str) -> bool:
    """True unless half a surrogate pair stands in it, which no dump can hold and UTF-8 cannot spell."""
    return not any("\ud800" <= character <= "\udfff" for character in name)
