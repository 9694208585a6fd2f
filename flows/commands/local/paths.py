"""`factmill paths`: paths between pairs that a user names, through a local graph or a world's SPARQL endpoint.

A subject is a QID or a name; an object a QID, a date, a number or a name, told apart by how it is written unless the
user says what it is. Names are looked up like those of a benchmark: label before alias, then the smallest number.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.assets import load_properties, load_units
from tasks.core.calls.call import Call, Service
from tasks.core.calls.knowledge import call_find_items, call_label, choose_candidate, read_candidates
from tasks.core.calls.paths import ask_service
from tasks.core.paths import FoundPaths, PathFinder, PathOptions, list_path_ids
from tasks.engine.services import Services
from tasks.errors import ServiceError, UsageError
from tasks.text.ids import id_number, is_pid, is_qid
from tasks.text.values.literals import format_value
from tasks.text.values.written import look_for, read_date, read_number

KINDS = ("item", "date", "number", "rank")
"""What an object can be."""
_PROPERTIES = {"date": "time_properties", "number": "number_properties", "rank": "rank_properties"}
BATCH = 10_000

PATHS = pa.schema(
    {
        "pair": pa.int64(),
        "subject": pa.string(),
        "object": pa.string(),
        "hops": pa.int8(),
        "backward": pa.bool_(),
        "path": pa.list_(pa.string()),
        "labels": pa.list_(pa.string()),
        "statement": pa.string(),
        "value": pa.string(),
        "precision": pa.int8(),
        "unit": pa.string(),
    }
)
"""One row a path: the pair's number and texts as given; the path as ids and as labels; where its value stands."""
PAIRS = pa.schema(
    {
        "pair": pa.int64(),
        "subject": pa.string(),
        "object": pa.string(),
        "kind": pa.string(),
        "subject_qid": pa.string(),
        "object_found": pa.string(),
        "status": pa.string(),
        "total": pa.int64(),
        "kept": pa.int64(),
        "problem": pa.string(),
    }
)
"""One row a pair: what it was taken for, what came of it, how many paths there are and how many were kept."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What one pair was taken for."""

    subject: int | None
    kind: str
    target: Any
    """Number of an item, Date or Number; None when a name is unknown."""

    @property
    def status(self) -> str | None:
        """Why the pair cannot be asked for, or None."""
        if self.subject is None:
            return "unknown_subject"
        return "unknown_object" if self.target is None else None


def mine_pairs(
    pairs: Iterable[tuple[str, str]],
    services: Services,
    kind: str | None,
    options: PathOptions,
    language: str = "en",
    batch: int = BATCH,
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield PATHS and PAIRS of each batch of (subject, object) texts, in order.

    `kind` says what all objects are; None reads it from each. Raises ServiceError when names or labels cannot be
    looked up; a pair whose paths cannot be had says so in its row.
    """
    service = services.wikidata
    finder = services.paths(ask_service(service))
    for start, texts in _batches(pairs, batch):
        wanted = _read_wanted(texts, kind, service, language)
        yield _mine_batch(start, texts, wanted, finder, service, options, language)


def _batches(pairs: Iterable[tuple[str, str]], size: int) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    start, texts = 0, []
    for pair in pairs:
        texts.append(pair)
        if len(texts) == size:
            yield start, texts
            start, texts = start + size, []
    if texts:
        yield start, texts


def _read_wanted(texts: Sequence[tuple[str, str]], kind: str | None, service: Service, language: str) -> list[_Wanted]:
    units = load_units()
    read: list[tuple[str, str, Any]] = [(subject, *_read_object(text, kind, units)) for subject, text in texts]
    names = {subject for subject, _, _ in read} | {target for _, what, target in read if what == "item"}
    numbers = _find_items(sorted(names), service, language)
    return [
        _Wanted(numbers[subject], what, numbers[target] if what == "item" else target) for subject, what, target in read
    ]


def _read_object(text: str, kind: str | None, units: dict[str, int]) -> tuple[str, Any]:
    """Return what an object is taken for, and its text (an item), Date or Number."""
    if kind == "item" or (kind is None and is_qid(text)):
        return "item", text
    date, number = read_date(text), read_number(text)
    if kind in (None, "date") and date:
        return "date", date
    if kind in (None, "number", "rank") and number:
        return kind or "number", look_for(number, units)
    if kind:
        raise UsageError(f"the object {text!r} is no {kind}; write dates like 11 March 1952, numbers like 1,234.5 km")
    return "item", text


def _find_items(texts: Sequence[str], service: Service, language: str) -> dict[str, int | None]:
    found: dict[str, int | None] = {text: id_number(text) for text in texts if is_qid(text)}
    names = [text for text in texts if text not in found]
    replies = ask_all(service, [call_find_items(service.identity, name, language) for name in names])
    for name, body in zip(names, replies, strict=True):
        candidates = read_candidates(body)
        found[name] = id_number(choose_candidate(candidates).qid) if candidates else None
    return found


def ask_all(service: Service, calls: Sequence[Call]) -> list[Any]:
    """Return the bodies of the replies to calls, in order; ServiceError names the first that failed."""
    bodies = []
    for call, reply in zip(calls, ask_service(service)(calls) if calls else (), strict=True):
        if reply.status != "ok":
            raise ServiceError(f"{service.identity}: {call.operation} {dict(call.parts)}: {reply.error}")
        bodies.append(reply.body)
    return bodies


def _mine_batch(
    start: int,
    texts: Sequence[tuple[str, str]],
    wanted: Sequence[_Wanted],
    finder: PathFinder,
    service: Service,
    options: PathOptions,
    language: str,
) -> tuple[pa.Table, pa.Table]:
    statuses: dict[int, dict[str, Any]] = {
        at: {"status": each.status, "total": 0, "kept": 0} for at, each in enumerate(wanted) if each.status
    }
    tables = []
    for kind in KINDS:
        rows = np.array([at for at, each in enumerate(wanted) if each.kind == kind and not each.status], np.int64)
        if len(rows):
            found, told = _find(kind, [wanted[at] for at in rows], finder, options)
            tables.append(_shape_paths(found.paths, told, rows))
            for line in found.pairs.to_pylist():
                problem = found.problems.get(line["pair"])
                statuses[int(rows[line["pair"]])] = {**line, "problem": problem}
    paths = pa.concat_tables(tables, promote_options="default") if tables else None
    return (
        _finish_paths(paths, texts, start, service, language),
        _finish_pairs(texts, wanted, statuses, start),
    )


def _find(
    kind: str, wanted: Sequence[_Wanted], finder: PathFinder, options: PathOptions
) -> tuple[FoundPaths, pa.ListArray]:
    subjects = np.array([each.subject for each in wanted], np.int64)
    if kind == "item":
        objects = np.array([each.target for each in wanted], np.int64)
        found = finder.find_item_paths(subjects, objects, options)
        return found, list_path_ids(found.paths, subjects, objects)
    properties = load_properties(_PROPERTIES[kind])
    found = finder.find_literal_paths(subjects, [each.target for each in wanted], properties, options)
    return found, list_path_ids(found.paths, subjects)


def _shape_paths(paths: pa.Table, told: pa.ListArray, rows: np.ndarray[Any, Any]) -> pa.Table:
    columns = {"row": pa.array(rows[paths["pair"].to_numpy()]), "hops": paths["hops"], "path": told}
    kept = ("backward", "statement", "value", "precision", "unit")
    return pa.table(columns | {name: paths[name] for name in kept if name in paths.schema.names})


def _finish_paths(
    paths: pa.Table | None, texts: Sequence[tuple[str, str]], start: int, service: Service, language: str
) -> pa.Table:
    if paths is None or not len(paths):
        return PATHS.empty_table()
    paths = paths.take(pc.sort_indices(paths["row"]))  # stable: the order within a pair stays
    columns = {name: paths[name] for name in paths.schema.names}
    at = paths["row"].to_numpy()
    columns["pair"] = pa.array(at + start)
    columns["subject"] = pa.array([texts[row][0] for row in at])
    columns["object"] = pa.array([texts[row][1] for row in at])
    for name in ("backward", "statement", "value", "precision", "unit"):
        columns.setdefault(name, pa.nulls(len(at), PATHS.field(name).type))
    units = pc.binary_join_element_wise("Q", pc.cast(columns["unit"], pa.string()), "")
    columns["unit"] = units
    columns["labels"] = _label_paths(columns, service, language)
    return pa.table({name: columns[name] for name in PATHS.names}).cast(PATHS)


def _label_paths(columns: dict[str, Any], service: Service, language: str) -> list[list[str]]:
    """Return the paths as labels; an id without one stands for itself, values as a reader writes them."""
    paths, units = columns["path"].to_pylist(), columns["unit"].to_pylist()
    ids = {part for path in paths for part in path if is_qid(part) or is_pid(part)} | {unit for unit in units if unit}
    asked = sorted(ids)
    found = ask_all(service, [call_label(service.identity, each, language) for each in asked])
    labels = {each: label for each, label in zip(asked, found, strict=True) if label is not None}
    told = []
    for path, value, precision, unit in zip(
        paths, columns["value"].to_pylist(), columns["precision"].to_pylist(), units, strict=True
    ):
        named = [labels.get(part, part) for part in path]
        if value is not None:
            named[-1] = format_value(value, precision, labels.get(unit, unit) if unit else None)
        told.append(named)
    return told


def _finish_pairs(
    texts: Sequence[tuple[str, str]], wanted: Sequence[_Wanted], statuses: dict[int, dict[str, Any]], start: int
) -> pa.Table:
    lines = [
        {
            "subject": subject,
            "object": target,
            "kind": each.kind,
            "subject_qid": None if each.subject is None else f"Q{each.subject}",
            "object_found": _format_target(each),
            **statuses[at],
            "pair": start + at,
        }
        for at, ((subject, target), each) in enumerate(zip(texts, wanted, strict=True))
    ]
    return pa.Table.from_pylist(lines, PAIRS)


def _format_target(wanted: _Wanted) -> str | None:
    if wanted.target is None:
        return None
    if wanted.kind == "item":
        return f"Q{wanted.target}"
    if wanted.kind == "date":
        return str(wanted.target)
    unit = "" if wanted.target.unit is None else f" Q{wanted.target.unit}"
    return f"{wanted.target.number}{unit}"
