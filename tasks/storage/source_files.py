"""Read source files as streams of rows (JSON, JSON Lines, CSV, Parquet), and turn each row into a row model or a reject.

A file is read once in full, to check its SHA-256 and encoding, before its first row is yielded, and is then streamed, so
its size does not matter. A problem with the whole file (missing, unreadable, empty, not UTF-8, broken, cut off, other
columns) is a SourceError that names file, row and column.

Rows are numbered from 1 in `source_row` and from 0 in ids, as in the paper (its tqa_gen_38 is the 39th row of
TruthfulQA; Table 6 and Appendix I). A file without a single readable row is a SourceError, since it must be of another kind.
"""

import codecs
import csv
import hashlib
import io
import json
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from factmill.tasks.assets import load_source_names_and_licences_by_digest
from factmill.tasks.core.rows import NO_LICENCE_STATED, Reject, Row
from factmill.tasks.errors import SourceError
from factmill.tasks.files import open_regular_file
from factmill.tasks.text.sanitize import MAX_JSON_DEPTH, exceeds_json_depth

_BLOCK = 1 << 20
_MAX_ROW_CHARS = 1 << 24
"""Maximum characters of a row; a longer one without an end counts as broken."""
_DIGIT_LIMIT_ERROR = "Exceeds the limit"
"""Beginning of Python's error for an integer with too many digits."""
_MAX_LISTED_FILES = 8
"""Maximum number of a folder's files named in a message."""
DATA_SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".gz", ".bz2", ".xz", ".zst", ".zip")
"""Suffixes of files that may be meant as a source."""
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
"""What may separate the cells of a CSV file → its name."""
_SAMPLE_BYTES, _SAMPLE_ROWS = 1 << 18, 100
"""Beginning of a CSV file that shows what separates its cells."""
_JSON_GAP = re.compile(r"[\s,]*")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A source file as a build identifies it."""

    path: Path
    name: str
    """Name of the file in rows; ids may contain a part of it."""
    sha256: str | None = None
    """Digest in the build's manifest; None if any content is accepted."""
    licence: str = NO_LICENCE_STATED
    """Licence of its rows, if its content is that of a known file."""


def make_source_file_with_digest(path: Path, name: str | None = None) -> SourceFile:
    """Return a file under a name (default: its own), with the digest of its current content and the licence if known.

    SourceError if it has no rows.
    """
    source = make_source_file_without_digest(path)
    digest = hashlib.sha256()
    with _open_source_file_as_stored(source) as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    if path.suffix.lower() in _READERS and next(_READERS[path.suffix.lower()](source), None) is None:
        raise SourceError(f"{path}: no rows; remove the file from the source, or name another")
    _, licence = load_source_names_and_licences_by_digest().get(digest.hexdigest(), ("", NO_LICENCE_STATED))
    return SourceFile(path, name or path.name, digest.hexdigest(), licence)


def list_source_files(path: Path, deep: bool = False) -> list[Path]:
    """Return the path itself if it is a file, or the data files in the folder, sorted by name.

    `deep`: also those in its subfolders. SourceError if the path is missing, unreadable, or neither file nor folder.
    """
    try:
        files = [path]
        if stat.S_ISDIR(path.stat().st_mode):
            inside = sorted(path.iterdir())
            if deep:
                inside += [file for each in inside if each.is_dir() for file in sorted(each.iterdir())]
            files = [file for file in inside if file.suffix.lower() in DATA_SUFFIXES]
    except FileNotFoundError as error:
        looked_in = "" if path.is_absolute() else f" in {Path.cwd()}"
        raise SourceError(
            f"{path}: no such file or folder{looked_in}; expected a file, or a folder of files, ending in "
            f"{', '.join(DATA_SUFFIXES)}"
        ) from error
    except OSError as error:
        raise SourceError(f"{error.filename or path}: cannot be read: {error.strerror}") from error
    for file in files:
        try:
            mode = file.stat().st_mode
        except OSError as error:
            raise SourceError(f"{file}: cannot be read: {error.strerror}") from error
        if not stat.S_ISREG(mode):
            what = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
            raise SourceError(f"{file}: {what}; expected a file")
    return files


def format_unused_files_note(paths: Sequence[Path], used: Sequence[Path], why: str) -> list[str]:
    """Return a note on the files in a source's folders that are not used; empty if all are."""
    unused = [file for path in paths if path.is_dir() for file in list_source_files(path) if file not in used]
    return [f"not used, {why}: {_format_file_names(unused)}"] if unused else []


def format_source_paths_and_their_files(paths: Sequence[Path]) -> str:
    """Return a source's paths and the files in its folders, as text for the error that no file is usable."""
    return "; ".join(
        f"{path} (holds {_format_file_names(list_source_files(path)) or 'no data'})" if path.is_dir() else str(path)
        for path in paths
    )


def _format_file_names(files: Sequence[Path]) -> str:
    more = f" and {len(files) - _MAX_LISTED_FILES} more" if len(files) > _MAX_LISTED_FILES else ""
    return ", ".join(file.name for file in files[:_MAX_LISTED_FILES]) + more


def make_source_file_without_digest(path: Path) -> SourceFile:
    """Return a file under its own name, without a digest to check."""
    return SourceFile(path, path.name)


def load_source_text(source: SourceFile, expected: str) -> str:
    """Return a file's text without a byte order mark; SourceError if it is unreadable, empty, not UTF-8, or has changed."""
    with _open_verified_text(source, expected) as stream:
        return stream.read()


def iterate_numbered_json_values(source: SourceFile, expected: str) -> Iterator[tuple[int, Any]]:
    """Yield (number from 1, value) for each value of a JSON array or of JSON Lines."""
    with _open_verified_text(source, expected) as stream:
        yield from _iterate_row_numbered_json_values(source.path, stream)


def choose_csv_delimiter(path: Path, name: str = "") -> str:
    """Return what separates the cells of a CSV file: a comma (a tab if its name ends in .tsv), unless another mark alone
    divides the header and all first rows into equally many cells, two or more (as spreadsheets of many countries write).

    `name`: the file's name, where its path has another; OSError if it cannot be read.
    """
    usual = "\t" if Path(name or path.name).suffix.lower() == ".tsv" else ","
    csv.field_size_limit(_MAX_ROW_CHARS)
    with open_regular_file(path) as stream:
        start = stream.read(_SAMPLE_BYTES)
    text = start.decode("utf-8-sig", errors="replace")
    whole = len(start) < _SAMPLE_BYTES
    fitting = [mark for mark in DELIMITERS if _is_cell_delimiter_of_csv_text(text, mark, whole)]
    return fitting[0] if len(fitting) == 1 else usual


def _is_cell_delimiter_of_csv_text(text: str, mark: str, whole: bool) -> bool:
    """True if a mark divides the header of a file's beginning into named cells, and its other rows into equally many."""
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=mark) if row]
    except csv.Error:
        return False
    header, *others = (rows if whole else rows[:-1])[:_SAMPLE_ROWS] or [[]]
    return len(header) > 1 and all(map(str.strip, header)) and all(len(row) == len(header) for row in others)


def iterate_numbered_csv_rows(
    source: SourceFile, columns: Sequence[str], delimiter: str = ""
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (number from 1, column → text) for each row of a CSV file with at least these columns.

    `delimiter`: what separates cells; empty: that of the file (`choose_csv_delimiter`).
    """
    csv.field_size_limit(_MAX_ROW_CHARS)
    with _open_verified_text(
        source, f"a CSV file with the columns {', '.join(columns)}" if columns else "a CSV file"
    ) as stream:
        reader = csv.reader(stream, delimiter=delimiter or choose_csv_delimiter(source.path, source.name), strict=True)
        number = 0
        try:
            header = next(reader)
            _check_expected_columns_occur_once(source.path, header, columns)
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
                f"{source.path}: broken CSV in row {number + 1} (line {reader.line_num})"
                f"{', columns ' if columns else ''}{', '.join(columns)}: {error}; the file is cut off or a quotation mark is missing"
            ) from error


def iterate_numbered_parquet_rows(source: SourceFile, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (number from 1, column → value) for each row of a Parquet file with at least these columns."""
    with _open_source_file_as_stored(source) as stream:
        for _ in _iterate_verified_blocks(source, stream):
            pass  # for the digest alone
        try:
            file = pq.ParquetFile(stream)
            _check_expected_columns_occur_once(source.path, file.schema_arrow.names, columns)
            batches = file.iter_batches(batch_size=1024, columns=list(columns) or None)
            yield from enumerate((row for batch in batches for row in batch.to_pylist()), start=1)
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"{source.path}: damaged or incomplete Parquet file: {error}; fetch it again") from error


_READERS: dict[str, Callable[[SourceFile], Iterator[Any]]] = {
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), lambda source: iterate_numbered_json_values(source, "rows")),
    **dict.fromkeys((".csv", ".tsv"), lambda source: iterate_numbered_csv_rows(source, ())),
    ".parquet": lambda source: iterate_numbered_parquet_rows(source, ()),
}
"""Suffix → reader that accepts any columns."""


def peek_columns(path: Path) -> tuple[str, ...]:
    """Return the columns of a file: CSV or Parquet header, or keys of the first JSON row; () if they cannot be determined."""
    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            return tuple(pq.read_schema(path).names)
        with io.TextIOWrapper(open_regular_file(path), encoding="utf-8-sig", newline="") as stream:
            if suffix in (".csv", ".tsv"):
                return tuple(next(csv.reader(stream, delimiter=choose_csv_delimiter(path)), ()))
            _, first = next(_iterate_row_numbered_json_values(path, stream), (0, None))
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (SourceError, csv.Error, UnicodeDecodeError, pa.ArrowException):
        return ()
    return tuple(first) if isinstance(first, dict) else ()


def _open_source_file_as_stored(source: SourceFile) -> BinaryIO:
    try:
        return open_regular_file(source.path)
    except OSError as error:
        raise SourceError(f"{source.path}: cannot be read: {error.strerror}") from error


@contextmanager
def _open_verified_text(source: SourceFile, expected: str) -> Iterator[io.TextIOWrapper]:
    with _open_source_file_as_stored(source) as stream:
        if not _check_utf8_and_has_text(source.path, _iterate_verified_blocks(source, stream)):
            raise SourceError(f"{source.path}: the file is empty; expected {expected}")
        stream.seek(0)
        yield io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")


def _check_utf8_and_has_text(path: Path, blocks: Iterator[bytes]) -> bool:
    """Read all blocks of a file; True if it holds more than white space, SourceError if it is not UTF-8."""
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


def _iterate_verified_blocks(source: SourceFile, stream: BinaryIO) -> Iterator[bytes]:
    """Yield a file's blocks, then raise SourceError if its digest is not the expected one; leaves the stream at its end."""
    digest = hashlib.sha256()
    while block := stream.read(_BLOCK):
        digest.update(block)
        yield block
    if source.sha256 is not None and digest.hexdigest() != source.sha256:
        raise SourceError(f"{source.path}: the file has changed since the build began; start the build again")


def _check_expected_columns_occur_once(path: Path, found: Sequence[str], expected: Sequence[str]) -> None:
    if missing := [column for column in expected if column not in found]:
        raise SourceError(
            f"{path}: row 1: the column {missing[0]} is missing (found: {', '.join(found)[:300] or 'none'}); "
            f"expected the columns {', '.join(expected)}"
        )
    if twice := [column for column in expected if list(found).count(column) > 1]:
        raise SourceError(f"{path}: row 1: the column {twice[0]} appears twice")


def _iterate_row_numbered_json_values(
    path: Path, stream: io.TextIOBase | io.TextIOWrapper
) -> Iterator[tuple[int, Any]]:
    decoder = json.JSONDecoder()
    text, position, line, number = "", 0, 1, 0
    is_array: bool | None = None
    at_end = False
    while True:
        position = _JSON_GAP.match(text, position).end()  # type: ignore[union-attr]
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
            rest = text[position + 1 :] + stream.read(40)
            if is_array and position == len(text):
                raise SourceError(f"{path}: the array is not closed after row {number}; the file is cut off")
            if is_array and rest.strip():
                raise SourceError(f"{path}: unexpected text after the array: {rest.strip()[:40]!r}")
            return
        try:
            value, end = decoder.raw_decode(text, position)
            if text.count("[", position, end) + text.count("{", position, end) > MAX_JSON_DEPTH and exceeds_json_depth(
                value
            ):
                raise RecursionError
        except (ValueError, RecursionError) as error:
            if at_end or len(text) - position > _MAX_ROW_CHARS:
                raise _make_broken_json_error(path, number + 1, line, text, position, error) from error
            end = len(text)
        if end == len(text) and not at_end:
            # the value may continue in the next block, even a number that parses
            more = stream.read(max(_BLOCK, len(text) - position))
            at_end = not more
            line += text.count("\n", 0, position)
            text, position = text[position:] + more, 0
            continue
        number += 1
        yield number, value
        position = end


def _make_broken_json_error(path: Path, row: int, line: int, text: str, position: int, error: Exception) -> SourceError:
    if isinstance(error, json.JSONDecodeError):
        where = f"line {line + error.lineno - 1}, column {error.colno}"
        return SourceError(f"{path}: broken JSON in row {row} ({where}): {error.msg}; expected JSON or JSON Lines")
    reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
    if reason.startswith(_DIGIT_LIMIT_ERROR):
        reason = "an integer of more than 4,300 digits; write it as text"
    return SourceError(f"{path}: broken JSON in row {row} (line {line + text.count(chr(10), 0, position)}): {reason}")


MALFORMED_ROW = "malformed_row"


@dataclass(frozen=True, slots=True)
class ParsedSourceRow:
    """One row of a file: its raw JSON and the parsed outcome."""

    row_id: str
    raw_json: str
    """The row as JSON."""
    outcome: Row | Reject


def parse_source_rows(
    source: SourceFile,
    prefix: str,
    rows: Iterable[tuple[int, Any]],
    parse_row: Callable[[str, int, Any], Row | Reject],
) -> Iterator[ParsedSourceRow]:
    """Yield the outcome of `parse_row` (id, number from 1, row) for each row; SourceError if no row is well-formed."""
    first = ""
    is_of_this_kind = False
    for number, row in rows:
        row_id = f"{prefix}_{number - 1}"
        outcome = parse_row(row_id, number, row)
        if isinstance(outcome, Reject) and outcome.reason == MALFORMED_ROW:
            first = first or f"row {number}: {outcome.detail}"
        else:
            is_of_this_kind = True
        yield ParsedSourceRow(row_id, dump_row(row).encode("utf-8", "backslashreplace").decode(), outcome)
    if not is_of_this_kind:
        raise SourceError(f"{source.path}: {first or 'no rows'}" + (", and no other row is better" if first else ""))


def find_row_problem(row: Any, text_columns: Sequence[str]) -> str:
    """Return what is wrong with a row that must have these columns as non-blank texts; "" if nothing is."""
    if not isinstance(row, Mapping):
        return "the row is no object"
    for column in text_columns:
        if column not in row:
            return f"the column {column} is missing (found: {', '.join(map(str, row))[:300] or 'none'})"
        if not isinstance(row[column], str) or not row[column].strip():
            return f"the column {column} is no text"
    try:
        dump_row(row).encode()
    except UnicodeEncodeError:
        return "the text holds half a surrogate pair"
    return ""


def split_semicolon_separated_answers(text: str) -> list[str]:
    """Return the distinct parts of a text that semicolons separate."""
    return list_distinct_non_empty_texts(part.strip() for part in text.split(";"))


def list_distinct_non_empty_texts(texts: Iterable[str]) -> list[str]:
    """Return the distinct non-empty texts, in order."""
    return list(dict.fromkeys(filter(None, texts)))


def dump_row(row: Any) -> str:
    """Return a row as JSON; values that JSON lacks become text."""
    return json.dumps(row, ensure_ascii=False, default=str)
