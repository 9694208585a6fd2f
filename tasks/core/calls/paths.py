"""Paths by calls to a Wikidata that answers over the network: the questions, their answers, and what is made of them.

One call asks for the paths of one pair with one number of hops, so that its answer serves again however calls are
bundled, whatever properties are ignored, however many paths are kept, and whether all hops are wanted: these choices
are made here, from the answers. Bodies hold ids as Wikidata writes them (Q64, P17) and null for what there is none of,
each path once, in the order of core/paths.py.

| operation | parts | body of the reply |
|---|---|---|
| item_paths | subject, object, hops | `[{"backward", "path"}]`; path: the property at one hop; property, item, property at two |
| date_paths | subject, date (1952-03-11, 1952-03 or 1952), properties (sorted), hops | `[{"path", "qualifier", "statement", "value", "precision", "unit", "main"}]`; path ends in the statement's property |
| number_paths | subject, number (canonical), unit (null for any), properties (sorted), hops | as of date_paths |

Numbers are canonical in `value` and `main`, since endpoints keep them by value and not as they were written.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.core.calls.call import Call, Reply, Service
from tasks.core.fingerprints import Json
from tasks.core.paths import ITEM_PATHS, LITERAL_PATHS, PAIRS, FoundPaths, PathOptions, Status
from tasks.text.ids import id_number
from tasks.text.values.literals import Date, Number

OPERATIONS = ("item_paths", "date_paths", "number_paths")

Ask = Callable[[Sequence[Call]], Sequence[Reply]]
"""Answers calls, in their order; a recorder may stand behind it."""
PathRow = tuple[Any, ...]
"""A row of ITEM_PATHS or LITERAL_PATHS without its pair."""

_ITEM_COLUMNS, _LITERAL_COLUMNS = ITEM_PATHS.names[1:], LITERAL_PATHS.names[1:]
_PROPERTY_COLUMNS = ("property_1", "property_2", "qualifier")


def call_item_paths(service: str, subject: int, target: int, hops: int) -> Call:
    """Ask for the paths of so many hops between two items, in both directions."""
    return Call(service, "item_paths", {"subject": f"Q{subject}", "object": f"Q{target}", "hops": hops})


def call_literal_paths(service: str, subject: int, wanted: Date | Number, properties: Iterable[int], hops: int) -> Call:
    """Ask for the paths of so many hops from an item to a date or number in values of these properties."""
    parts: dict[str, Json] = {"subject": f"Q{subject}", "properties": [f"P{pid}" for pid in sorted(properties)]}
    if isinstance(wanted, Date):
        return Call(service, "date_paths", {**parts, "date": str(wanted), "hops": hops})
    return Call(
        service, "number_paths", {**parts, "number": wanted.number, "unit": _id("Q", wanted.unit), "hops": hops}
    )


def write_item_rows(rows: Iterable[PathRow]) -> Json:
    """Return rows of ITEM_PATHS, in any order and however often, as a body of item_paths."""
    told = (dict(zip(_ITEM_COLUMNS, row, strict=True)) for row in _sort_rows(rows))
    return [{"backward": row["backward"], "path": _list_walk(row)} for row in told]


def read_item_rows(body: Any) -> list[PathRow]:
    """Return the rows of ITEM_PATHS in a body of item_paths."""
    rows = []
    for told in body:
        hops, *walk = _read_walk(told["path"])
        rows.append((hops, told["backward"], *walk))
    return rows


def write_literal_rows(rows: Iterable[PathRow]) -> Json:
    """Return rows of LITERAL_PATHS, in any order and however often, as a body of date_paths or number_paths."""
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
    """Return the rows of LITERAL_PATHS in a body of date_paths or number_paths."""
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
    """Return what asks a service without recording."""

    def ask(calls: Sequence[Call]) -> list[Reply]:
        replies: dict[str, Reply] = {}
        service.send(calls, lambda call, reply: replies.__setitem__(call.key, reply))
        return [replies[call.key] for call in calls]

    return ask


class PathsByCalls:
    """Finds paths by asking a Wikidata, one hop for all pairs first, then two where they are wanted (core.paths.PathFinder).

    A pair one of whose calls failed has status `failed` and no paths, with the reason among the problems. No pair is
    ever `unknown_subject` or `unknown_object`: to an endpoint an item that is not there is one without claims.
    """

    def __init__(self, ask: Ask, service: str) -> None:
        """Keep what answers, and the identity of the service the calls are meant for."""
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
    """What has been found so far for a batch of pairs."""

    def __init__(self, schema: pa.Schema, pairs: int, options: PathOptions, identical: Iterable[int] = ()) -> None:
        self._schema = schema
        self._options = options
        self._identical = frozenset(identical)
        self._rows: list[list[PathRow]] = [[] for _ in range(pairs)]
        self._problems: dict[int, str] = {}
        self._properties = [at for at, name in enumerate(schema.names[1:]) if name in _PROPERTY_COLUMNS]

    def list_open(self) -> list[int]:
        """Return the pairs for which the next number of hops is to be asked."""
        closed = self._identical.union(self._problems)
        return [
            pair for pair, rows in enumerate(self._rows) if pair not in closed and (self._options.all_hops or not rows)
        ]

    def add(self, pair: int, rows: Sequence[PathRow]) -> None:
        """Take in the rows of a pair that use no ignored property."""
        ignored = self._options.ignored
        self._rows[pair] += [row for row in rows if not any(row[at] in ignored for at in self._properties)]

    def fail(self, pair: int, reason: str) -> None:
        """Note that a pair got no answer; half an answer would look like a whole one."""
        self._rows[pair] = []
        self._problems[pair] = reason

    def collect(self) -> FoundPaths:
        """Return everything in the agreed form."""
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
    """Return rows in the order of core/paths.py, null first, each once."""
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
