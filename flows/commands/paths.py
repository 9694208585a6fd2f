"""`factmill paths`: find and write the paths between given pairs, through a local graph or a world's SPARQL endpoint.

A subject is a QID or a name; an object is a QID, a date, a number or a name, recognised by its form unless the user
states the kind. Names are looked up as in a benchmark: label before alias, then the smallest QID.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import typer

from factmill.flows.cli.options import print_json, print_lines_escaping_control_characters, print_result
from factmill.tasks import progress
from factmill.tasks.assets import load_property_numbers, load_unit_qid_numbers_by_name
from factmill.tasks.core.calls.call import Call, CallService
from factmill.tasks.core.calls.path_calls import make_uncached_sender
from factmill.tasks.core.calls.wikidata import (
    choose_item_by_label_then_smallest_qid,
    make_find_items_call,
    make_label_call,
    parse_item_candidates,
)
from factmill.tasks.core.rows import MAX_SETTING_NUMBER
from factmill.tasks.core.wikidata_paths import (
    PathFinder,
    PathSearchOptions,
    PathsFoundForPairs,
    make_start_to_end_id_lists,
)
from factmill.tasks.engine.services import WorldServices
from factmill.tasks.errors import OutputError, ServiceError, SourceError, UsageError
from factmill.tasks.settings import factmill_home
from factmill.tasks.storage.source_files import (
    find_row_problem,
    iterate_numbered_csv_rows,
    iterate_numbered_json_values,
    iterate_numbered_parquet_rows,
    make_source_file_without_digest,
)
from factmill.tasks.text.values.dates_and_numbers import parse_written_date, parse_written_number, resolve_number_unit
from factmill.tasks.text.values.wikidata_literals import format_wikidata_literal
from factmill.tasks.text.wikidata_ids import get_wikidata_id_number, is_pid, is_qid


def paths(
    subject: str | None = typer.Argument(None, help="Item where paths start: a QID or a name.", metavar="SUBJECT"),
    target: str | None = typer.Argument(
        None, help="End of the paths: a QID, a name, a date, or a number with its unit.", metavar="OBJECT"
    ),
    pairs: Path | None = typer.Option(
        None,
        help="File with many pairs: CSV, JSON Lines or Parquet with the columns subject and object.",
        metavar="FILE",
    ),
    to: Path | None = typer.Option(
        None,
        help="Write the paths to this file (.parquet, .csv or .jsonl). A second file, NAME.pairs.SUFFIX, lists all pairs with their status.",
        metavar="FILE",
    ),
    graph: str | None = typer.Option(None, help="Search this local graph.", metavar="NAME"),
    world: str = typer.Option(
        "embedded", help="Without --graph: search this world's Wikidata by SPARQL.", metavar="WORLD"
    ),
    kind: Literal["item", "date", "number", "rank"] | None = typer.Option(
        None, "--as", help="Kind of every object in this run. Default: detected for each object."
    ),
    all_hops: bool = typer.Option(False, "--all-hops", help="Search two hops even if one hop finds a path."),
    all_properties: bool = typer.Option(
        False, "--all-properties", help="Also follow properties for identifiers and web addresses."
    ),
    most: int = typer.Option(
        1000,
        min=1,
        max=MAX_SETTING_NUMBER,
        help="Maximum number of paths to keep per pair. The first ones in sort order are kept.",
    ),
    language: str = typer.Option("en", help="Language of names and labels, such as en.", metavar="TAG"),
    limit: int = typer.Option(10, min=0, max=MAX_SETTING_NUMBER, help="Maximum number of paths to print per pair."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object per pair."),
) -> None:
    """Find paths of 1 or 2 hops from items to items or values.

    \b
    Examples:
      factmill paths "Albert Einstein" "Max Planck"
      factmill paths Q937 "14 March 1879" --graph mine
      factmill paths --pairs pairs.csv --to paths.parquet --graph mine --all-hops
    """
    if bool(pairs) == bool(subject) or bool(subject) != bool(target):
        raise UsageError("expected SUBJECT and OBJECT, or --pairs FILE; see factmill paths --help")

    progress.set_progress_style()
    ignored = frozenset() if all_properties else load_property_numbers("ignored_properties")
    options = PathSearchOptions(always_two_hops=all_hops, ignored_properties=ignored, max_paths=most)
    asked = iterate_subject_object_pairs(pairs) if pairs else [(str(subject), str(target))]
    counts: Counter[str] = Counter()
    with (
        closing(WorldServices.open(world, graph, factmill_home())) as services,
        PathAndPairFilesWriter(to) if to else nullcontext() as files,
    ):
        services.world.require_services("wikidata")
        for found, statuses in iterate_path_and_pair_tables_by_batch(asked, services, kind, options, language):
            counts.update(statuses["status"].to_pylist())
            counts["paths"] += len(found)
            if files:
                files.write(found, statuses)
                progress.print_and_log(f"{counts.total() - counts['paths']:,} pairs, {counts['paths']:,} paths")
            elif as_json:
                by_pair = _group_paths_by_pair(found)
                for pair in statuses.to_pylist():
                    shown = [
                        {name: each for name, each in row.items() if name != "pair"} for row in by_pair[pair["pair"]]
                    ]
                    print_json({**pair, "paths": shown})
            else:
                print_lines_escaping_control_characters(format_paths_of_pairs(found, statuses, limit))
    if files:
        summary = {"files": [str(file) for file in files.files], **dict(sorted(counts.items()))}
        count = counts.pop("paths")
        came = ", ".join(f"{each:,} {status.replace('_', ' ')}" for status, each in sorted(counts.items()))
        line = f"{to}: {count:,} paths of {counts.total():,} pairs ({came or 'none'})"
        print_result(as_json, summary, [line])


OBJECT_KINDS = ("item", "date", "number", "rank")
"""The kinds of objects."""
_KIND_PROPERTY_LISTS = {"date": "time_properties", "number": "number_properties", "rank": "rank_properties"}
_OPTIONAL_COLUMNS = ("backward", "statement", "value", "precision", "unit")
"""Columns that only paths of some kinds have."""
PAIRS_PER_BATCH = 10_000
PATHS_SCHEMA = pa.schema(
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
"""One row per path: number and texts of its pair; the path as ids and labels; statement and value of its end."""
PAIRS_SCHEMA = pa.schema(
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
"""One row per pair: how it was understood, its status, and the numbers of paths found and kept."""


@dataclass(frozen=True, slots=True)
class _ResolvedSubjectObjectPair:
    """One pair, as understood."""

    subject: int | None
    kind: str
    target: Any
    """Number of an item, Date or Number; None for an unknown name."""

    @property
    def status(self) -> str | None:
        """Reason why the pair cannot be searched, or None."""
        if self.subject is None:
            return "unknown_subject"
        return "unknown_object" if self.target is None else None

    def format_target(self) -> str | None:
        """Return the object as text: QID, date, or number with unit; None for an unknown name."""
        if self.target is None:
            return None
        if self.kind == "item":
            return f"Q{self.target}"
        if self.kind == "date":
            return str(self.target)
        return f"{self.target.number}{'' if self.target.unit is None else f' Q{self.target.unit}'}"


def iterate_path_and_pair_tables_by_batch(
    pairs: Iterable[tuple[str, str]],
    services: WorldServices,
    kind: str | None,
    options: PathSearchOptions,
    language: str = "en",
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield tables (PATHS, PAIRS) of each batch of (subject, object) texts, in order.

    `kind`: the kind of all objects; None: recognised for each. Raises ServiceError if names or labels cannot be looked
    up; a pair whose paths cannot be found has the reason in its row.
    """
    service = services.wikidata
    finder = services.make_path_finder(make_uncached_sender(service))
    left, start = iter(pairs), 0
    while texts := list(islice(left, PAIRS_PER_BATCH)):
        units = load_unit_qid_numbers_by_name()
        read: list[tuple[str, str, Any]] = [
            (subject, *_infer_object_kind_and_parse_value(text, kind, units)) for subject, text in texts
        ]
        names = {subject for subject, _, _ in read} | {target for _, what, target in read if what == "item"}
        numbers = _find_qid_numbers_by_text(sorted(names), service, language)
        wanted = [
            _ResolvedSubjectObjectPair(numbers[subject], what, numbers[target] if what == "item" else target)
            for subject, what, target in read
        ]
        yield _find_paths_of_batch(start, texts, wanted, finder, service, options, language)
        start += len(texts)


def _infer_object_kind_and_parse_value(text: str, kind: str | None, units: dict[str, int]) -> tuple[str, Any]:
    """Return the kind of an object, and its text (for an item), Date or Number."""
    if kind == "item" or (kind is None and is_qid(text)):
        return "item", text
    date, number = parse_written_date(text), parse_written_number(text)
    if kind in (None, "date") and date:
        return "date", date
    if kind in (None, "number", "rank") and number:
        return kind or "number", resolve_number_unit(number, units)
    if kind:
        raise UsageError(
            f"the object {text!r} is not a {kind}; expected a date like 11 March 1952, or a number like 1,234.5 km"
        )
    return "item", text


def _find_qid_numbers_by_text(texts: Sequence[str], service: CallService, language: str) -> dict[str, int | None]:
    found: dict[str, int | None] = {text: get_wikidata_id_number(text) for text in texts if is_qid(text)}
    names = [text for text in texts if text not in found]
    replies = fetch_reply_bodies(service, [make_find_items_call(service.identity, name, language) for name in names])
    for name, body in zip(names, replies, strict=True):
        candidates = parse_item_candidates(body)
        found[name] = (
            get_wikidata_id_number(choose_item_by_label_then_smallest_qid(candidates).qid) if candidates else None
        )
    return found


def fetch_reply_bodies(service: CallService, calls: Sequence[Call]) -> list[Any]:
    """Return the reply bodies of calls, in order; ServiceError names the first call that failed."""
    bodies = []
    for call, reply in zip(calls, make_uncached_sender(service)(calls) if calls else (), strict=True):
        if reply.status != "ok":
            raise ServiceError(f"{service.identity}: {call.operation} {dict(call.parts)}: {reply.error}")
        bodies.append(reply.body)
    return bodies


def _find_paths_of_batch(
    start: int,
    texts: Sequence[tuple[str, str]],
    wanted: Sequence[_ResolvedSubjectObjectPair],
    finder: PathFinder,
    service: CallService,
    options: PathSearchOptions,
    language: str,
) -> tuple[pa.Table, pa.Table]:
    statuses: dict[int, dict[str, Any]] = {
        at: {"status": each.status, "total": 0, "kept": 0} for at, each in enumerate(wanted) if each.status
    }
    tables = []
    for kind in OBJECT_KINDS:
        rows = np.array([at for at, each in enumerate(wanted) if each.kind == kind and not each.status], np.int64)
        if len(rows):
            found, ids = _find_paths_and_ids_of_each_path(kind, [wanted[at] for at in rows], finder, options)
            of_kind = found.paths
            columns = {"row": pa.array(rows[of_kind["pair"].to_numpy()]), "hops": of_kind["hops"], "path": ids}
            tables.append(
                pa.table(columns | {name: of_kind[name] for name in _OPTIONAL_COLUMNS if name in of_kind.schema.names})
            )
            for line in found.pairs.to_pylist():
                problem = found.failures.get(line["pair"])
                statuses[int(rows[line["pair"]])] = {**line, "problem": problem}
    paths = pa.concat_tables(tables, promote_options="default") if tables else None
    lines = [
        {
            "subject": subject,
            "object": target,
            "kind": each.kind,
            "subject_qid": None if each.subject is None else f"Q{each.subject}",
            "object_found": each.format_target(),
            **statuses[at],
            "pair": start + at,
        }
        for at, ((subject, target), each) in enumerate(zip(texts, wanted, strict=True))
    ]
    return _make_labelled_paths_table(paths, texts, start, service, language), pa.Table.from_pylist(lines, PAIRS_SCHEMA)


def _find_paths_and_ids_of_each_path(
    kind: str, wanted: Sequence[_ResolvedSubjectObjectPair], finder: PathFinder, options: PathSearchOptions
) -> tuple[PathsFoundForPairs, pa.ListArray]:
    subjects = np.array([each.subject for each in wanted], np.int64)
    if kind == "item":
        objects = np.array([each.target for each in wanted], np.int64)
        found = finder.find_item_paths(subjects, objects, options)
        return found, make_start_to_end_id_lists(found.paths, subjects, objects)
    properties = load_property_numbers(_KIND_PROPERTY_LISTS[kind])
    found = finder.find_literal_paths(subjects, [each.target for each in wanted], properties, options)
    return found, make_start_to_end_id_lists(found.paths, subjects)


def _make_labelled_paths_table(
    paths: pa.Table | None, texts: Sequence[tuple[str, str]], start: int, service: CallService, language: str
) -> pa.Table:
    if paths is None or not len(paths):
        return PATHS_SCHEMA.empty_table()
    paths = paths.take(pc.sort_indices(paths["row"]))  # stable: the order within a pair stays
    columns = {name: paths[name] for name in paths.schema.names}
    at = paths["row"].to_numpy()
    columns["pair"] = pa.array(at + start)
    columns["subject"] = pa.array([texts[row][0] for row in at])
    columns["object"] = pa.array([texts[row][1] for row in at])
    for name in _OPTIONAL_COLUMNS:
        columns.setdefault(name, pa.nulls(len(at), PATHS_SCHEMA.field(name).type))
    units = pc.binary_join_element_wise("Q", pc.cast(columns["unit"], pa.string()), "")
    columns["unit"] = units
    path_ids, unit_qids = columns["path"].to_pylist(), units.to_pylist()
    ids = {part for path in path_ids for part in path if is_qid(part) or is_pid(part)} | {*filter(None, unit_qids)}
    asked = sorted(ids)
    found = fetch_reply_bodies(service, [make_label_call(service.identity, each, language) for each in asked])
    # an id without a label stays as it is, and a value is formatted for readers
    labels = {each: label for each, label in zip(asked, found, strict=True) if label is not None}
    labelled = []
    values, precisions = columns["value"].to_pylist(), columns["precision"].to_pylist()
    for path, value, precision, unit in zip(path_ids, values, precisions, unit_qids, strict=True):
        named = [labels.get(part, part) for part in path]
        if value is not None:
            named[-1] = format_wikidata_literal(value, precision, labels.get(unit, unit) if unit else None)
        labelled.append(named)
    columns["labels"] = labelled
    return pa.table({name: columns[name] for name in PATHS_SCHEMA.names}).cast(PATHS_SCHEMA)


SUBJECT_OBJECT_COLUMNS = ("subject", "object")
PATH_FILE_SUFFIXES = (".parquet", ".csv", ".jsonl")


def iterate_subject_object_pairs(file: Path) -> Iterator[tuple[str, str]]:
    """Yield (subject, object) from a CSV, JSON Lines or Parquet file; SourceError names a row without them."""
    if not file.is_file():
        raise SourceError(
            f"{file}: no such file; expected a CSV, JSON Lines or Parquet file with the columns subject and object"
        )
    row_no = 0
    source = make_source_file_without_digest(file)
    match file.suffix.lower():
        case ".parquet":
            rows = iterate_numbered_parquet_rows(source, SUBJECT_OBJECT_COLUMNS)
        case ".json" | ".jsonl" | ".ndjson":
            rows = iterate_numbered_json_values(source, "objects with subject and object")
        case _:
            rows = iterate_numbered_csv_rows(source, SUBJECT_OBJECT_COLUMNS)
    for row_no, row in rows:
        if problem := find_row_problem(row, SUBJECT_OBJECT_COLUMNS):
            raise SourceError(f"{file}, row {row_no}: {problem}; expected texts in subject and object")
        yield row["subject"].strip(), row["object"].strip()
    if not row_no:
        raise SourceError(f"{file}: the file has no pairs; expected rows with subject and object")


class PathAndPairFilesWriter(AbstractContextManager["PathAndPairFilesWriter"]):
    """Writes a file of paths and a file of pairs (`x.parquet`, `x.pairs.parquet`), batch by batch."""

    def __init__(self, file: Path) -> None:
        if file.suffix not in PATH_FILE_SUFFIXES:
            raise UsageError(f"{file}: expected a name that ends in one of {', '.join(PATH_FILE_SUFFIXES)}")
        self.files = (file, file.with_suffix(f".pairs{file.suffix}"))
        self._writers: list[Any] = []
        self._stack = ExitStack()

    def write(self, paths: pa.Table, pairs: pa.Table) -> None:
        """Append one batch to both files."""
        try:
            tables = [
                _join_list_columns(table) if self.files[0].suffix == ".csv" else table for table in (paths, pairs)
            ]
            if not self._writers:
                self._writers = [self._open(file, table.schema) for file, table in zip(self.files, tables, strict=True)]
            for writer, table in zip(self._writers, tables, strict=True):
                if isinstance(writer, TextIOWrapper):
                    writer.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist())
                else:
                    writer.write(table)
        except OSError as error:
            raise OutputError(f"{self.files[0]}: cannot be written: {error.strerror or error}") from error

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _open(self, file: Path, schema: pa.Schema) -> Any:
        file.parent.mkdir(parents=True, exist_ok=True)
        match file.suffix:
            case ".parquet":
                return self._stack.enter_context(pq.ParquetWriter(file, schema, compression="zstd"))
            case ".csv":
                return self._stack.enter_context(pa_csv.CSVWriter(str(file), schema))
            case _:
                return self._stack.enter_context(file.open("w", encoding="utf-8"))


def _join_list_columns(table: pa.Table) -> pa.Table:
    """Return the table with lists joined by "; ", since CSV has none."""
    columns = [
        pa.array([None if parts is None else "; ".join(parts) for parts in column.to_pylist()], pa.string())
        if pa.types.is_list(column.type)
        else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.schema.names)


def _group_paths_by_pair(paths: pa.Table) -> defaultdict[int, list[dict[str, Any]]]:
    by_pair: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in paths.to_pylist():
        by_pair[row["pair"]].append(row)
    return by_pair


def format_paths_of_pairs(paths: pa.Table, pairs: pa.Table, limit: int) -> Iterator[str]:
    """Yield lines of text: each pair with its status, then its first paths as labels and ids."""
    by_pair = _group_paths_by_pair(paths)
    for pair in pairs.to_pylist():
        found = by_pair[pair["pair"]]
        subject, target = (
            text if known in (None, text) else f"{text} ({known})"
            for text, known in ((pair["subject"], pair["subject_qid"]), (pair["object"], pair["object_found"]))
        )
        yield f"{subject} → {target}: {_format_pair_status(pair)}"
        for row in found[:limit]:
            yield f"  {'; '.join(row['labels'])}"
            yield f"    {' '.join(row['path'])}" + (f"  ({row['statement']})" if row["statement"] else "")
        if len(found) > limit:
            yield f"  … and {len(found) - limit:,} more (raise --limit, or write all with --to FILE)"


def _format_pair_status(pair: dict[str, Any]) -> str:
    total, kept = pair["total"], pair["kept"]
    return {
        "found": f"{total:,} path{'s' if total != 1 else ''}",
        "capped": f"{total:,} paths; kept the first {kept:,} (--most)",
        "none": "no path of one or two hops",
        "identical": "subject and object are the same item",
        "unknown_subject": "no item with the subject's name was found",
        "unknown_object": "no item with the object's name was found",
        "failed": f"the search failed: {pair['problem']}",
    }[pair["status"]]
