"""What `factmill paths` reads and prints: files of pairs, files of paths, and lines to read."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from tasks.errors import OutputError, SourceError, UsageError
from tasks.storage.source_files import SourceFile, iterate_csv, iterate_json, iterate_parquet, name_source
from tasks.storage.source_rows import find_problem

COLUMNS = ("subject", "object")
FORMATS = (".parquet", ".csv", ".jsonl")


def read_pairs(file: Path) -> Iterator[tuple[str, str]]:
    """Yield (subject, object) of a CSV, JSON Lines or Parquet file; SourceError names the row that has none."""
    if not file.is_file():
        raise SourceError(f"{file}: no such file; give a CSV, JSON Lines or Parquet file with subject and object")
    row_no = 0
    for row_no, row in _read_rows(name_source(file)):
        if problem := find_problem(row, COLUMNS):
            raise SourceError(f"{file}, row {row_no}: {problem}; expected texts in subject and object")
        yield row["subject"].strip(), row["object"].strip()
    if not row_no:
        raise SourceError(f"{file}: no pairs; expected rows with subject and object")


def _read_rows(source: SourceFile) -> Iterator[tuple[int, Any]]:
    match source.path.suffix.lower():
        case ".parquet":
            return iterate_parquet(source, COLUMNS)
        case ".json" | ".jsonl" | ".ndjson":
            return iterate_json(source, "objects with subject and object")
        case _:
            return iterate_csv(source, COLUMNS)


class PathFiles(AbstractContextManager["PathFiles"]):
    """A file of paths and, beside it, one of the pairs (`x.parquet`, `x.pairs.parquet`), written batch by batch."""

    def __init__(self, file: Path) -> None:
        if file.suffix not in FORMATS:
            raise UsageError(f"{file}: expected a name that ends in one of {', '.join(FORMATS)}")
        self.files = (file, file.with_suffix(f".pairs{file.suffix}"))
        self._writers: list[Any] = []
        self._stack = ExitStack()

    def write(self, paths: pa.Table, pairs: pa.Table) -> None:
        """Append one batch to both files."""
        try:
            tables = [_flatten(table) if self.files[0].suffix == ".csv" else table for table in (paths, pairs)]
            if not self._writers:
                self._writers = [self._open(file, table.schema) for file, table in zip(self.files, tables, strict=True)]
            for writer, table in zip(self._writers, tables, strict=True):
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
                return _JsonLines(self._stack.enter_context(file.open("w", encoding="utf-8")))


class _JsonLines:
    """Writes tables as one JSON object a line."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, table: pa.Table) -> None:
        self._stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist())


def _flatten(table: pa.Table) -> pa.Table:
    """Return the table with lists joined by "; ", since CSV has none."""
    columns = [
        pa.array([None if parts is None else "; ".join(parts) for parts in column.to_pylist()], pa.string())
        if pa.types.is_list(column.type)
        else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.schema.names)


def format_pairs(paths: pa.Table, pairs: pa.Table, limit: int) -> Iterator[str]:
    """Yield lines to read: each pair with what came of it, then its first paths as labels and ids."""
    by_pair: dict[int, list[dict[str, Any]]] = {}
    for row in paths.to_pylist():
        by_pair.setdefault(row["pair"], []).append(row)
    for pair in pairs.to_pylist():
        found = by_pair.get(pair["pair"], [])
        yield f"{_name(pair['subject'], pair['subject_qid'])} → {_name(pair['object'], pair['object_found'])}: {_format_outcome(pair)}"
        for row in found[:limit]:
            yield f"  {'; '.join(row['labels'])}"
            yield f"    {' '.join(row['path'])}" + (f"  ({row['statement']})" if row["statement"] else "")
        if len(found) > limit:
            yield f"  … and {len(found) - limit:,} more (--limit, or --to FILE for all)"


def _name(text: str, found: str | None) -> str:
    return text if found in (None, text) else f"{text} ({found})"


def _format_outcome(pair: dict[str, Any]) -> str:
    total, kept = pair["total"], pair["kept"]
    return {
        "found": f"{total:,} path{'s' if total != 1 else ''}",
        "capped": f"{total:,} paths, of which the first {kept:,} were kept (--most)",
        "none": "no path of one or two hops",
        "identical": "subject and object are the same item",
        "unknown_subject": "the subject is not known here",
        "unknown_object": "the object is not known here",
        "failed": f"not found out: {pair['problem']}",
    }[pair["status"]]
