"""Source files as streams of rows: JSON arrays, JSON Lines, CSV and Parquet, whole or not at all.

A file is gone through once before its first row is handed out, for its SHA-256 and its encoding, and is then read bit
by bit, so that a foundation of any size fits. What is wrong with a file as a whole (missing, empty, not UTF-8, broken,
cut off, other columns) is a SourceError that names file, row and column.
"""

import codecs
import csv
import hashlib
import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.core.fingerprints import digest_bytes
from tasks.errors import SourceError

_BLOCK = 1 << 20
_LONGEST_ROW = 1 << 24
"""Characters after which a row that still does not end is taken for a broken one."""
_GAP = re.compile(r"[\s,]*")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a foundation, as a build knows it."""

    path: Path
    name: str
    """What the rows call their file; ids may hold a part of it."""
    sha256: str | None = None
    """Digest that the build was locked with; None where any content will do."""
    licence: str | None = None
    """Licence of this file's rows where it is another than the foundation's, as with rows written after its pattern."""


def lock_source(path: Path, name: str | None = None, licence: str | None = None) -> SourceFile:
    """Return a file under a name (default: its own), with the content that it has now."""
    return SourceFile(path, name or path.name, digest_bytes(path.read_bytes()), licence)


def name_source(path: Path) -> SourceFile:
    """Return a file under its own name, with any content."""
    return SourceFile(path, path.name)


def iterate_json(source: SourceFile, expected: str) -> Iterator[tuple[int, Any]]:
    """Yield (number from 1, value) for each value of a JSON array or of JSON Lines."""
    with _opened_text(source, expected) as stream:
        yield from _split_json(source.path, stream)


def iterate_csv(source: SourceFile, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (number from 1, column → text) for each row of a CSV file with at least these columns."""
    with _opened_text(source, f"a CSV file with the columns {', '.join(columns)}") as stream:
        reader = csv.reader(stream, strict=True)
        number = 0
        try:
            header = next(reader)
            _check_columns(source.path, header, columns)
            for cells in reader:
                if not cells:
                    continue
                number += 1
                if len(cells) != len(header):
                    at = header[min(len(cells), len(header) - 1)]
                    raise SourceError(
                        f"{source.path}: row {number} (line {reader.line_num}) has {len(cells)} cells instead of "
                        f"{len(header)}, column {at}; the file is cut off or a quotation mark is missing"
                    )
                yield number, dict(zip(header, cells, strict=True))
        except csv.Error as error:
            raise SourceError(
                f"{source.path}: broken CSV in row {number + 1} (line {reader.line_num}), columns "
                f"{', '.join(columns)}: {error}; the file is cut off or a quotation mark is missing"
            ) from error


def iterate_parquet(source: SourceFile, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (number from 1, column → value) for each row of a Parquet file with at least these columns."""
    with _opened_bytes(source) as stream:
        for _ in _read_whole(source, stream):
            pass  # for the digest alone
        try:
            file = pq.ParquetFile(stream)
            _check_columns(source.path, file.schema_arrow.names, columns)
            batches = file.iter_batches(batch_size=1024, columns=list(columns))
            yield from enumerate((row for batch in batches for row in batch.to_pylist()), start=1)
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"{source.path}: no whole Parquet file: {error}; fetch it again") from error


def peek_columns(path: Path) -> tuple[str, ...]:
    """Return the columns of a file: CSV or Parquet header, keys of the first JSON row; () where none can be told."""
    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            return tuple(pq.read_schema(path).names)
        with path.open(encoding="utf-8-sig", newline="") as stream:
            if suffix == ".csv":
                return tuple(next(csv.reader(stream), ()))
            _, first = next(_split_json(path, stream), (0, None))
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from error
    except (SourceError, csv.Error, UnicodeDecodeError, pa.ArrowException):
        return ()
    return tuple(first) if isinstance(first, dict) else ()


@contextmanager
def _opened_bytes(source: SourceFile) -> Iterator[BinaryIO]:
    try:
        stream = source.path.open("rb")
    except OSError as error:
        raise SourceError(f"{source.path}: cannot be read: {error.strerror}") from error
    with stream:
        yield stream


@contextmanager
def _opened_text(source: SourceFile, expected: str) -> Iterator[io.TextIOWrapper]:
    with _opened_bytes(source) as stream:
        if not _has_text(source.path, _read_whole(source, stream)):
            raise SourceError(f"{source.path}: the file is empty; expected {expected}")
        stream.seek(0)
        yield io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")


def _has_text(path: Path, blocks: Iterator[bytes]) -> bool:
    """Go through a file; True when it holds more than white space, SourceError when it is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    size, lines, has_text = 0, 1, False
    for block in chain(blocks, (b"",)):
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            at = size + len(block) - len(error.object) + error.start
            line = lines + error.object.count(b"\n", 0, error.start)
            raise SourceError(f"{path}: not UTF-8 at byte {at} (line {line}); save the file as UTF-8") from error
        size += len(block)
        lines += text.count("\n")
        has_text = has_text or bool(text.strip())
    return has_text


def _read_whole(source: SourceFile, stream: BinaryIO) -> Iterator[bytes]:
    """Yield a file's blocks, then refuse it if it is not the expected one; leaves the stream at its end."""
    digest = hashlib.sha256()
    while block := stream.read(_BLOCK):
        digest.update(block)
        yield block
    if source.sha256 is not None and digest.hexdigest() != source.sha256:
        raise SourceError(f"{source.path}: the file has changed since the build was locked; build anew")


def _check_columns(path: Path, found: Sequence[str], expected: Sequence[str]) -> None:
    if missing := [column for column in expected if column not in found]:
        raise SourceError(
            f"{path}: row 1: the column {missing[0]} is missing (found: {', '.join(found)[:300] or 'none'}); "
            f"expected the columns {', '.join(expected)}"
        )
    if twice := [column for column in expected if list(found).count(column) > 1]:
        raise SourceError(f"{path}: row 1: the column {twice[0]} stands twice")


def _split_json(path: Path, stream: io.TextIOBase | io.TextIOWrapper) -> Iterator[tuple[int, Any]]:
    decoder = json.JSONDecoder()
    text, position, line, number = "", 0, 1, 0
    is_array: bool | None = None
    at_end = False
    while True:
        position = _GAP.match(text, position).end()  # type: ignore[union-attr]
        if position == len(text) and not at_end:
            line += text.count("\n")
            text, position = stream.read(_BLOCK), 0
            at_end = not text
            continue
        if is_array is None:
            is_array = text.startswith("[", position)
            position += is_array
            continue
        if position == len(text) or (is_array and text[position] == "]"):
            _check_end(path, text[position + 1 :] + stream.read(40), is_array, position < len(text), number)
            return
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            if at_end or len(text) - position > _LONGEST_ROW:
                raise _broken_json(path, number + 1, line, text, position, error) from error
            end = len(text)
        if end == len(text) and not at_end:
            # what is read may go on in the next block, a number even where it can be read
            more = stream.read(max(_BLOCK, len(text) - position))
            at_end = not more
            line += text.count("\n", 0, position)
            text, position = text[position:] + more, 0
            continue
        number += 1
        yield number, value
        position = end


def _check_end(path: Path, rest: str, is_array: bool, is_closed: bool, rows: int) -> None:
    if is_array and not is_closed:
        raise SourceError(f"{path}: the array is not closed after row {rows}; the file is cut off")
    if is_array and rest.strip():
        raise SourceError(f"{path}: unexpected text behind the array: {rest.strip()[:40]!r}")


def _broken_json(path: Path, row: int, line: int, text: str, position: int, error: Exception) -> SourceError:
    if isinstance(error, json.JSONDecodeError):
        where = f"line {line + error.lineno - 1}, column {error.colno}"
        return SourceError(f"{path}: broken JSON in row {row} ({where}): {error.msg}")
    reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
    return SourceError(f"{path}: broken JSON in row {row} (line {line + text.count(chr(10), 0, position)}): {reason}")
