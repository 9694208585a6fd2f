"""Look-ups in a local graph, in batches: the graph as the Wikidata of a build.

One query answers all look-ups of a kind, joined with an Arrow table of what is asked; all values reach DuckDB in that
table or as parameters, none in the query's text. The file is opened read-only, so several processes can share it, and
every query runs on a cursor of its own, so several threads can.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb
import pyarrow as pa

from tasks.core.calls import Call, Deliver, Reply
from tasks.core.fingerprints import Json
from tasks.core.knowledge import Candidate, Description, Neighbour, Pid, Qid, id_number, is_pid, is_qid
from tasks.errors import GraphError
from tasks.graph.manifest import DATABASE, GraphManifest, graph_path, read_manifest
from tasks.graph.shapes import ANY_LANGUAGE
from tasks.graph.tables import attach_database, connect_memory

_HIGHEST_ITEM = 2**63 - 1
_HIGHEST_PROPERTY = 2**31 - 1
_FACTS_A_SUBJECT = 4
_NEIGHBOUR_KEYS = pa.schema({"key": pa.int64(), "subject": pa.int64(), "list": pa.int32()})
_WANTED_PROPERTIES = pa.schema({"list": pa.int32(), "property": pa.int32()})

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
_NEIGHBOURS = """
    SELECT key, e.property, e.object, coalesce(own.text, shared.text)
    FROM keys JOIN graph.edges e USING (subject) JOIN wanted ON wanted.list = keys.list AND wanted.property = e.property
    LEFT JOIN graph.labels own ON own.item = e.object AND own.language = $language
    LEFT JOIN graph.labels shared ON shared.item = e.object AND shared.language = $any_language
    ORDER BY key, e.property, e.object
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
_MALFORMED = "SELECT file, line_no, reason, text FROM graph.malformed ORDER BY file, line_no LIMIT $limit"
_DEGREES = "SELECT item, out_degree, in_degree FROM keys JOIN graph.items USING (item)"


Parts = Mapping[str, Any]


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


class Graph:
    """A graph that is open for reading; answers calls as a Service and look-ups of other code as typed values.

    Languages that were not loaded are refused, since an empty answer would look like one. Ids that are unknown are
    left out, or have empty answers, as each method says.
    """

    is_outside = False

    def __init__(self, path: Path, manifest: GraphManifest) -> None:
        self.path = path
        self.manifest = manifest
        self.identity = f"graph-{manifest.digest[:16]}"
        self._lock = threading.Lock()
        try:
            # not connected to directly: DuckDB would hand out an older file still open under this path
            self._connection = connect_memory(Path(tempfile.gettempdir()) / "factmill-spill")
            attach_database(self._connection, path / DATABASE, "graph", read_only=True)
        except duckdb.Error as error:
            raise GraphError(f"{path / DATABASE}: cannot be opened: {error}; load graph {path.name} again") from error

    def __enter__(self) -> "Graph":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        """Answer calls of core/knowledge.py, one query an operation and language; see Service.send."""
        groups: dict[tuple[str, str], list[Call]] = {}
        for call in calls:
            problem = self._find_problem(call)
            if problem:
                deliver(call, Reply(None, "failed", problem))
            else:
                groups.setdefault((call.operation, str(call.parts["language"])), []).append(call)
        for (operation, language), group in groups.items():
            started = time.perf_counter()
            bodies = _ANSWERS[operation](self, [call.parts for call in group], language)
            latency_s = (time.perf_counter() - started) / len(group)
            for call, body in zip(group, bodies, strict=True):
                deliver(call, Reply(body, latency_s=latency_s))

    def find(self, names: Iterable[str], language: str = "en") -> dict[str, list[Candidate]]:
        """Return the items that bear each name exactly: labels first, then by number; an empty list when none does."""
        self._check_language(language)
        found: dict[str, list[Candidate]] = {name: [] for name in names}
        asked = [name for name in found if _is_text(name)]
        keys = pa.table({"key": range(len(asked)), "name": pa.array(asked, pa.string())})
        for key, item, via in self._query(_FIND, {"keys": keys}, **_speak(language)):
            found[asked[key]].append(Candidate(Qid(f"Q{item}"), via))
        return found

    def describe(self, qids: Iterable[str], language: str = "en") -> dict[Qid, Description]:
        """Return what is known of each item; all fields are None for an item the graph does not know."""
        self._check_language(language)
        numbers = {Qid(qid): id_number(qid) for qid in qids}
        known: dict[int, dict[str, str]] = {}
        parameters = {**_speak(language), "dump_date": self.manifest.dump_date}
        for item, what, text in self._query(_DESCRIBE, _item_keys(numbers.values()), **parameters):
            known.setdefault(item, {})[what] = text
        described = {}
        for qid, number in numbers.items():
            of_item = known.get(number, {})
            label = of_item.get("label", of_item.get("shared"))
            described[qid] = Description(
                label, of_item.get("description"), of_item.get("title"), of_item.get("modified")
            )
        return described

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
        lists: dict[tuple[str, ...], int] = {}
        keys = [
            {"key": key, "subject": id_number(qid), "list": lists.setdefault(tuple(pids), len(lists))}
            for key, (qid, pids) in enumerate(asked)
            if id_number(qid) <= _HIGHEST_ITEM
        ]
        wanted = [
            {"list": number, "property": id_number(pid)}
            for pids, number in lists.items()
            for pid in dict.fromkeys(pids)
            if id_number(pid) <= _HIGHEST_PROPERTY
        ]
        tables = {
            "keys": pa.Table.from_pylist(keys, _NEIGHBOUR_KEYS),
            "wanted": pa.Table.from_pylist(wanted, _WANTED_PROPERTIES),
        }
        found: list[list[Neighbour]] = [[] for _ in asked]
        for key, pid, qid, label in self._query(_NEIGHBOURS, tables, **_speak(language)):
            found[key].append(Neighbour(Pid(f"P{pid}"), Qid(f"Q{qid}"), label))
        return found

    def list_facts(self, pid: str, after: str | None, limit: int) -> list[tuple[Qid, Qid]]:
        """Return (subject, object) of a property by number, of the first `limit` subjects behind `after`."""
        number, start = id_number(pid), id_number(after) if after else 0
        if number > _HIGHEST_PROPERTY or start >= _HIGHEST_ITEM:
            return []
        # the rows of `limit` subjects are not known beforehand: ask for more until one subject more is in sight
        rows = limit * _FACTS_A_SUBJECT + 1
        while True:
            facts = self._query(_FACTS, {}, property=number, after=start, rows=rows)
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
            for number, text in self._query(query, keys, **_speak(language)):
                found[f"{letter}{number}"] = text
        return found

    def degrees(self, qids: Iterable[str]) -> dict[Qid, Degree]:
        """Return how many edges each item has; 0 and 0 for an item the graph does not know."""
        numbers = {Qid(qid): id_number(qid) for qid in qids}
        known = {item: Degree(out, into) for item, out, into in self._query(_DEGREES, _item_keys(numbers.values()))}
        return {qid: known.get(number, Degree(0, 0)) for qid, number in numbers.items()}

    def list_malformed(self, limit: int) -> list[Malformed]:
        """Return the first lines that were set aside as malformed, by file and line number."""
        return [Malformed(*row) for row in self._query(_MALFORMED, {}, limit=limit)]

    def _query(self, query: str, tables: dict[str, pa.Table], **parameters: Any) -> list[tuple[Any, ...]]:
        if any(not len(table) for table in tables.values()):
            return []
        try:
            with self._lock:
                cursor = self._connection.cursor()
            with cursor:
                for name, table in tables.items():
                    cursor.register(name, table)
                return cursor.execute(query, parameters).fetchall()
        except duckdb.Error as error:
            raise GraphError(
                f"{self.path / DATABASE}: cannot be read: {error}; load graph {self.path.name} again"
            ) from error

    def _check_language(self, language: str) -> None:
        if problem := self._find_language_problem(language):
            raise GraphError(problem)

    def _find_language_problem(self, language: str) -> str | None:
        if language in self.manifest.languages:
            return None
        return f"graph {self.manifest.name} was loaded in {', '.join(self.manifest.languages)}, not in {language}"

    def _find_problem(self, call: Call) -> str | None:
        """Return why a call cannot be answered, as a code and what was wrong, or None."""
        if call.operation not in _ANSWERS:
            return f"unknown_operation: {call.operation}: a graph answers {', '.join(sorted(_ANSWERS))}"
        if problem := _find_wrong_part(call):
            return f"bad_call: {call.operation}: {problem}"
        problem = self._find_language_problem(str(call.parts["language"]))
        if problem and call.operation != "list_facts":
            return f"language_missing: {problem}"
        return None


def _answer_find_items(graph: Graph, parts: Sequence[Parts], language: str) -> list[Json]:
    found = graph.find([each["name"] for each in parts], language)
    return [[{"qid": item.qid, "via": item.via} for item in found[each["name"]]] for each in parts]


def _answer_describe_items(graph: Graph, parts: Sequence[Parts], language: str) -> list[Json]:
    found = graph.describe([each["qid"] for each in parts], language)
    return [asdict(found[each["qid"]]) for each in parts]


def _answer_neighbours(graph: Graph, parts: Sequence[Parts], language: str) -> list[Json]:
    found = graph.neighbours_of_each([(each["qid"], each["pids"]) for each in parts], language)
    return [[{"pid": edge.pid, "qid": edge.qid, "label": edge.label} for edge in edges] for edges in found]


def _answer_list_facts(graph: Graph, parts: Sequence[Parts], _language: str) -> list[Json]:
    facts = [graph.list_facts(each["pid"], each["after"], each["limit"]) for each in parts]
    return [[{"subject": subject, "object": thing} for subject, thing in page] for page in facts]


_ANSWERS: dict[str, Callable[[Graph, Sequence[Parts], str], list[Json]]] = {
    "find_items": _answer_find_items,
    "describe_items": _answer_describe_items,
    "neighbours": _answer_neighbours,
    "list_facts": _answer_list_facts,
}
_PARTS = {
    "find_items": ("name", "language"),
    "describe_items": ("qid", "language"),
    "neighbours": ("qid", "pids", "language"),
    "list_facts": ("pid", "after", "limit", "language"),
}
_IS_RIGHT: dict[str, Callable[[Any], bool]] = {
    "language": lambda value: isinstance(value, str),
    "name": lambda value: isinstance(value, str),
    "qid": lambda value: isinstance(value, str) and is_qid(value),
    "pid": lambda value: isinstance(value, str) and is_pid(value),
    "pids": lambda value: isinstance(value, list) and all(isinstance(pid, str) and is_pid(pid) for pid in value),
    "after": lambda value: value is None or (isinstance(value, str) and is_qid(value)),
    "limit": lambda value: isinstance(value, int) and value > 0,
}


def _find_wrong_part(call: Call) -> str | None:
    for part in _PARTS[call.operation]:
        if part not in call.parts:
            return f"{part} is missing"
        if not _IS_RIGHT[part](call.parts[part]):
            return f"{part} cannot be {call.parts[part]!r}"
    return None


def _speak(language: str) -> dict[str, str]:
    """Return the parameters of a query for texts: a name that stands in all languages is used where one has none."""
    return {"language": language, "any_language": ANY_LANGUAGE}


def _item_keys(numbers: Iterable[int]) -> dict[str, pa.Table]:
    fitting = [number for number in dict.fromkeys(numbers) if number <= _HIGHEST_ITEM]
    return {"keys": pa.table({"item": pa.array(fitting, pa.int64())})}


def _is_text(name: str) -> bool:
    """True unless half a surrogate pair stands in it, which no dump can hold and UTF-8 cannot spell."""
    return not any("\ud800" <= character <= "\udfff" for character in name)
