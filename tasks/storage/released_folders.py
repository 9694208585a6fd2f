"""Load a release's folder and verify all of it before a row is used, since anybody may have created or changed its files.

SHA256SUMS lists every file; release.json has the digest of each table's rows. The content digest that identifies a release
is computed from the rows read, as for a build when it is published (storage/builds.py), so altered rows are never taken
for the released ones.
"""

import json
import os
import re
import stat
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ValidationError

from factmill.tasks.core.digests import combine_digests, digest_json
from factmill.tasks.core.publishing.release_index import (
    RELEASE_FORMAT_VERSION,
    ReleaseContents,
    ReleasedBuildLockContents,
    ReleasedTable,
)
from factmill.tasks.core.publishing.release_spec import CANARY_COLUMN, REJECT_DETAILS_OMISSION
from factmill.tasks.core.rows import arrow_schema
from factmill.tasks.errors import BuildFormatTooOld, SourceError
from factmill.tasks.files import open_regular_file
from factmill.tasks.storage.builds import BuildRecord
from factmill.tasks.storage.shards import digest_table_as_parquet, make_nullable_schema
from factmill.tasks.text.sanitize import MAX_JSON_DEPTH, exceeds_json_depth

M = TypeVar("M", bound=BaseModel)

INDEX_FILE = "release.json"
"""File of a release that describes the folder's contents (tasks/release/write.py)."""
MANIFEST_FILE = "lock.json"
"""File of a release with the build's manifest."""
CHECKSUMS_FILE = "SHA256SUMS"
"""File of a release with the digests of all other files."""
REJECTS_FILE = "rejects.parquet"
REJECT_COLUMNS = ("stage", "id", "reason", "detail")

_MOST_FILES = 10_000
_MAX_TEXT_BYTES = 64 << 20
"""Maximum bytes of an index, a manifest or a list of digests."""
_MAX_TOTAL_BYTES = 4 << 30
"""Maximum bytes of all files together, and of all rows in memory."""
_MAX_TABLE_BYTES = 1 << 30
"""Maximum bytes of one file's rows in memory."""
_CHUNK = 1 << 20
_ROWS_PER_BATCH = 1024
_SUM = re.compile(r"([0-9a-f]{64})  (.+)")
_REFETCH_ADVICE = "fetch the whole release again from its publisher, or release the build again"


@dataclass(frozen=True, slots=True)
class VerifiedRelease:
    """A release whose files are complete and agree with each other."""

    path: Path
    index: ReleaseContents
    record: BuildRecord
    """Its build; `content_digest` covers the released rows, and equals the build's if none are left out."""
    tables: Mapping[str, pa.Table]
    """Published tables in the release: rows sorted by id, columns as published."""
    rejects: pa.Table
    """Columns stage, id, reason, detail."""


@dataclass(frozen=True, slots=True)
class _FileStat:
    path: str
    """Path below the folder, with slashes."""
    size: int
    state: tuple[int, int]
    """Inode and modification time in ns."""


def _make_altered_release_error(where: object, problem: str) -> SourceError:
    """Return the error for a release that differs from what was released, with advice."""
    return SourceError(f"{where}: {problem}; {_REFETCH_ADVICE}")


def is_release(folder: Path) -> bool:
    """Return whether a folder is a release, judged by its file names."""
    return os.path.lexists(folder / INDEX_FILE)


def load_verified_release(folder: Path) -> VerifiedRelease:
    """Return a verified release; its contents are cached as long as no file changes.

    SourceError names a file that differs from what was released; BuildFormatTooOld means that an earlier factmill made it. Names
    that begin with a dot, and __pycache__, are skipped: hubs, version control and Python create them.
    """
    place = Path(os.path.realpath(folder))
    try:
        return _load_and_verify_release(place, tuple(_list_files(place)))
    except OSError as error:
        raise _make_altered_release_error(
            error.filename or place, f"cannot be read: {error.strerror or error}"
        ) from error


def validate_and_conform_to_row_model(
    table: pa.Table, model: type[BaseModel], where: str, allow_missing: bool = False, json_columns: Collection[str] = ()
) -> pa.Table:
    """Return a table with exactly the columns of a row model.

    SourceError if a column is missing or of another type, or the model rejects a row.

    `allow_missing`: fill columns that another factmill did not write with null. `json_columns`: columns whose texts are JSON.
    """
    schema = arrow_schema(model)
    kinds = {field.name: field.type for field in make_nullable_schema(table.schema)}
    missing = [name for name in schema.names if name not in kinds]
    if missing and not allow_missing:
        raise SourceError(
            f"{where}: column {missing[0]} is missing; expected the columns of this factmill version: {', '.join(schema.names)}. "
            "If an earlier version made it, rebuild it with the same command (recorded replies are reused) and release it again"
        )
    for field in make_nullable_schema(schema):
        if (kind := kinds.get(field.name, field.type)) != field.type:
            raise SourceError(f"{where}: column {field.name} has type {kind}; expected {field.type}")
    if missing:
        columns = [
            table[field.name] if field.name in kinds else pa.nulls(table.num_rows, field.type) for field in schema
        ]
        return pa.table(columns, schema=make_nullable_schema(schema))
    table = table.select(schema.names)
    for batch in table.to_batches(max_chunksize=_ROWS_PER_BATCH):
        for row in batch.to_pylist():
            try:
                model.model_validate(row)
                for name in json_columns:
                    json.loads(row[name] or "null")
            except ValidationError as error:
                raise SourceError(f"{where}: row {row['id']!r:.80}: {_format_first_validation_error(error)}") from error
            except (ValueError, RecursionError) as error:
                raise SourceError(f"{where}: row {row['id']!r:.80}: expected JSON in {name}: {error}") from error
    return table.cast(schema)


def _list_files(folder: Path) -> Iterator[_FileStat]:
    """Yield the files of a folder and its subfolders; SourceError for anything that is neither file nor folder."""
    waiting, count = [""], 0
    while waiting:
        inner = waiting.pop()
        with os.scandir(folder / inner) as entries:
            for entry in sorted(entries, key=lambda each: each.name):
                count += 1
                if entry.name.startswith(".") or entry.name == "__pycache__":
                    continue
                path, found = f"{inner}{entry.name}", entry.stat(follow_symlinks=False)
                if count > _MOST_FILES:
                    raise SourceError(f"{folder}: more than {_MOST_FILES:,} files; a release has a few dozen")
                if stat.S_ISDIR(found.st_mode):
                    waiting.append(f"{path}/")
                elif stat.S_ISREG(found.st_mode):
                    yield _FileStat(path, found.st_size, (found.st_ino, found.st_mtime_ns))
                elif stat.S_ISLNK(found.st_mode):
                    raise SourceError(
                        f"{folder / path}: a symbolic link; a release has only files and folders. Copy the folder with the targets of its "
                        "links (cp -rL), and read the copy"
                    )
                else:
                    raise _make_altered_release_error(folder / path, "a pipe, a device or a socket; expected a file")


@lru_cache(maxsize=2)
def _load_and_verify_release(folder: Path, found: tuple[_FileStat, ...]) -> VerifiedRelease:
    """Return the release made of these files of a folder; each file is opened once."""
    files = {file.path: file for file in found}
    for name in (CHECKSUMS_FILE, INDEX_FILE, MANIFEST_FILE, REJECTS_FILE):
        if name not in files:
            raise _make_altered_release_error(folder, f"the release lacks the file {name}")
    if (size := sum(file.size for file in found)) > _MAX_TOTAL_BYTES:
        raise _make_altered_release_error(folder, f"{size:,} bytes of files; expected at most {_MAX_TOTAL_BYTES:,}")
    sums = _parse_checksums(folder, _read_and_hash(folder, files[CHECKSUMS_FILE], keep=True)[0])
    contents = _verify_all_and_read_main_files(folder, files, sums)
    index = _read_index(folder, contents[INDEX_FILE])
    parsed = _parse_json(folder / MANIFEST_FILE, contents[MANIFEST_FILE])
    lock_file, lock = _validate(ReleasedBuildLockContents, folder / MANIFEST_FILE, parsed), parsed["lock"]
    _check_index_matches_manifest(folder, index, lock_file, lock)
    _check_index_matches_files(folder, index, files, sums)
    tables = _read_tables(folder, index, contents)
    content = _combine_and_check_table_digests(folder, index, set(tables))
    columns = [*REJECT_COLUMNS, CANARY_COLUMN]
    rejects = _read_parquet(folder / REJECTS_FILE, contents[REJECTS_FILE], columns).select(REJECT_COLUMNS)
    if any(kind != pa.string() for kind in rejects.schema.types):
        raise _make_altered_release_error(
            folder / REJECTS_FILE, f"expected text in the columns {', '.join(REJECT_COLUMNS)}"
        )
    record = BuildRecord(
        build_id=index.build_id,
        benchmark=index.benchmark,
        lock_digest=lock_file.lock_digest,
        lock=lock,
        origin={},
        content_digest=content,
        report={"build_id": index.build_id, "rows": index.rows},
        started_at=index.published_at,
        published_at=index.published_at,
    )
    return VerifiedRelease(folder, index, record, tables, rejects)


def _read_and_hash(folder: Path, file: _FileStat, keep: bool) -> tuple[bytes, str]:
    """Return a file's bytes (empty unless `keep`) and its SHA-256."""
    path = folder / file.path
    if file.path in (CHECKSUMS_FILE, INDEX_FILE, MANIFEST_FILE) and file.size > _MAX_TEXT_BYTES:
        raise _make_altered_release_error(path, f"{file.size:,} bytes; expected at most {_MAX_TEXT_BYTES:,}")
    digest, parts = sha256(), []
    # another process may have replaced the file with a link
    with open_regular_file(path, follow_symlink=False) as opened:
        left = file.size + 1
        while left > 0 and (part := opened.read(min(left, _CHUNK))):
            digest.update(part)
            left -= len(part)
            if keep:
                parts.append(part)
    return b"".join(parts), digest.hexdigest()


def _parse_checksums(folder: Path, data: bytes) -> dict[str, str]:
    """Return path → SHA-256 of every file of a release except the list itself."""
    path, sums = folder / CHECKSUMS_FILE, dict[str, str]()
    plain: dict[str, str] = {}
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise _make_altered_release_error(
            path, f"not UTF-8: {error}; expected a digest and a path on each line"
        ) from error
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        found = _SUM.fullmatch(line)
        if not found or not _is_plain_relative_path(found[2]):
            raise _make_altered_release_error(
                f"{path}, line {number}", f"{line[:120]!r}; expected a SHA-256, two spaces and a path inside the folder"
            )
        same = unicodedata.normalize("NFC", found[2]).casefold()
        if same in plain:
            raise _make_altered_release_error(
                f"{path}, line {number}",
                f"{found[2]!r} and {plain[same]!r} are the same name on some machines; expected each once",
            )
        plain[same], sums[found[2]] = found[2], found[1]
    return sums


def _is_plain_relative_path(path: str) -> bool:
    """Return whether a path is relative, normalized, printable and stays inside the folder."""
    return (
        0 < len(path) <= 1000
        and path.isprintable()
        and "\\" not in path
        and str(PurePosixPath(path)) == path
        and not any(part.startswith((".", "/")) for part in PurePosixPath(path).parts)
    )


def _verify_all_and_read_main_files(
    folder: Path, files: Mapping[str, _FileStat], sums: Mapping[str, str]
) -> dict[str, bytes]:
    """Return the contents of index, manifest and Parquet files; SourceError unless exactly the listed files exist."""
    if missing := [path for path in sums if path not in files]:
        raise _make_altered_release_error(
            folder, f"files listed in {CHECKSUMS_FILE} are missing: {_format_paths(missing)}"
        )
    if more := [path for path in files if path not in sums and path != CHECKSUMS_FILE]:
        raise SourceError(
            f"{folder}: files that {CHECKSUMS_FILE} does not list: {_format_paths(more)}; expected only those of the release. Move your own files "
            f"elsewhere, or {_REFETCH_ADVICE}"
        )
    contents, other = {}, []
    for path, expected in sums.items():
        keep = path in (INDEX_FILE, MANIFEST_FILE) or path.endswith(".parquet")
        data, digest = _read_and_hash(folder, files[path], keep)
        if digest != expected:
            other.append(path)
        elif keep:
            contents[path] = data
    if other:
        raise _make_altered_release_error(
            folder,
            f"files differ from the released ones: {_format_paths(other)} (sha256sum -c {CHECKSUMS_FILE} lists all)",
        )
    return contents


def _format_paths(paths: Sequence[str]) -> str:
    return f"{', '.join(map(repr, paths[:5]))}{f' and {len(paths) - 5} more' if paths[5:] else ''}"


def _parse_json(path: Path, data: bytes) -> dict[str, Any]:
    """Return the object in a JSON file; SourceError for anything else, a duplicate key, or deep nesting."""

    def check_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        ((name, count),) = Counter(name for name, _ in pairs).most_common(1) or [("", 1)]
        if count > 1:
            raise ValueError(f"the key {name[:60]!r} appears twice")
        return dict(pairs)

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not a number")

    try:
        parsed = json.loads(data.decode("utf-8"), object_pairs_hook=check_keys, parse_constant=refuse)
        is_deep = exceeds_json_depth(parsed)
    except RecursionError:
        is_deep = True
    except ValueError as error:
        raise _make_altered_release_error(path, f"not valid JSON: {error}") from error
    if is_deep:
        raise _make_altered_release_error(
            path, f"lists and objects are nested too deeply; expected {MAX_JSON_DEPTH} levels at most"
        )
    if not isinstance(parsed, dict):
        raise _make_altered_release_error(path, "expected a JSON object")
    return parsed


def _format_first_validation_error(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))[:120]}: {first['msg']}"


def _read_index(folder: Path, data: bytes) -> ReleaseContents:
    parsed = _parse_json(folder / INDEX_FILE, data)
    form = parsed.get("factmill_release")
    if type(form) is int and form < RELEASE_FORMAT_VERSION:
        raise BuildFormatTooOld(
            f"{folder}: a release of format {form}, made by an earlier factmill; this one reads format {RELEASE_FORMAT_VERSION}: release the build again, "
            "or read it with the version that its lock.json names"
        )
    if type(form) is int and form > RELEASE_FORMAT_VERSION:
        raise SourceError(
            f"{folder}: a release of format {str(form)[:20]}, made by a newer factmill; this one reads format {RELEASE_FORMAT_VERSION}: install a newer factmill"
        )
    return _validate(ReleaseContents, folder / INDEX_FILE, parsed)


def _validate(model: type[M], path: Path, parsed: Mapping[str, Any]) -> M:
    try:
        return model.model_validate(parsed)
    except ValidationError as error:
        raise _make_altered_release_error(path, _format_first_validation_error(error)) from error


def _check_index_matches_manifest(
    folder: Path, index: ReleaseContents, manifest_file: ReleasedBuildLockContents, manifest: Mapping[str, Any]
) -> None:
    """Raise SourceError unless index and manifest describe one build, whose id follows from the manifest."""
    for name in ("build_id", "benchmark", "published_at", "content_digest"):
        if getattr(index, name) != getattr(manifest_file, name):
            raise _make_altered_release_error(
                folder / MANIFEST_FILE,
                f"{name} is {getattr(manifest_file, name)}; expected {getattr(index, name)}, as in {INDEX_FILE}",
            )
    if manifest_file.lock.benchmark != index.benchmark:
        raise _make_altered_release_error(
            folder / MANIFEST_FILE,
            f"the manifest belongs to a build of {manifest_file.lock.benchmark}; expected {index.benchmark}",
        )
    if not manifest_file.withheld and digest_json(manifest) != manifest_file.lock_digest:
        raise _make_altered_release_error(
            folder / MANIFEST_FILE, "the manifest was changed after the release: its digest differs"
        )
    plain = f"{index.benchmark}-{manifest_file.lock_digest[:12]}"
    if not re.fullmatch(rf"{plain}(\.\d{{1,9}})?", index.build_id):
        raise _make_altered_release_error(
            folder / INDEX_FILE,
            f"build_id is {index.build_id[:80]!r}; expected {plain}, which follows from the manifest",
        )


def _check_index_matches_files(
    folder: Path, index: ReleaseContents, files: Mapping[str, _FileStat], sums: Mapping[str, str]
) -> None:
    """Raise SourceError unless the index names each data file once, with its size and digest, and for each split one Parquet
    file and each column once."""
    seen = set[str]()
    for split in index.splits:
        if sum(file.format == "parquet" for file in split.files) != 1:
            raise _make_altered_release_error(
                folder / INDEX_FILE, f"split {split.name[:80]!r}: expected one Parquet file"
            )
        if len({*split.columns, CANARY_COLUMN}) <= len(split.columns):
            raise _make_altered_release_error(
                folder / INDEX_FILE, f"split {split.name[:80]!r}: expected each column once"
            )
        for file in split.files:
            if file.path not in sums or file.path in seen or not file.path.endswith(f".{file.format}"):
                raise _make_altered_release_error(
                    folder / INDEX_FILE,
                    f"{file.path[:120]!r} of split {split.name[:80]!r}; expected the path of a file "
                    f"that {CHECKSUMS_FILE} lists, that ends in .{file.format} and belongs to no other split",
                )
            seen.add(file.path)
            if (file.size, file.sha256) != (files[file.path].size, sums[file.path]):
                raise _make_altered_release_error(folder / file.path, f"size or digest differ from {INDEX_FILE}")


def _read_tables(folder: Path, index: ReleaseContents, contents: Mapping[str, bytes]) -> dict[str, pa.Table]:
    """Return the tables of a release as they were published, each combined from its splits.

    SourceError if they differ from those that were released.
    """
    parts: dict[str, list[pa.Table]] = {}
    size = 0
    for config in index.configs:
        columns = [*dict.fromkeys(column for split in config.splits for column in split.columns), CANARY_COLUMN]
        for split in config.splits:
            (path,) = (file.path for file in split.files if file.format == "parquet")
            table = _read_parquet(folder / path, contents[path], columns, split.rows).select(split.columns)
            size += table.nbytes
            if size > _MAX_TOTAL_BYTES:
                raise _make_altered_release_error(folder, f"more than {_MAX_TOTAL_BYTES:,} bytes of rows")
            parts.setdefault(split.table, []).append(table)
    tables = {}
    for name, found in parts.items():
        try:
            table = _check_unique_ids_and_sort(pa.concat_tables(found), f"{folder}: table {name}")
            released = ReleasedTable(rows=table.num_rows, sha256=digest_table_as_parquet(table))
        except pa.ArrowException as error:
            raise _make_altered_release_error(
                folder, f"table {name}: its splits cannot be combined and sorted: {error}"
            ) from error
        if index.tables.get(name) != released:
            raise _make_altered_release_error(
                folder, f"table {name}: its rows differ from {INDEX_FILE}: this folder was changed after the release"
            )
        tables[name] = table
    return tables


def _check_unique_ids_and_sort(table: pa.Table, where: str) -> pa.Table:
    ids = table["id"] if "id" in table.column_names else pa.chunked_array([], pa.null())
    if ids.type != pa.string() or ids.null_count:
        raise _make_altered_release_error(where, "expected a column id with text in every row")
    counted = pc.value_counts(ids)
    twice = counted.filter(pc.greater(counted.field("counts"), 1)).field("values")
    if len(twice):
        raise _make_altered_release_error(where, f"the id {twice[0].as_py()[:80]!r} appears twice; expected each once")
    return table.sort_by("id")


def _read_parquet(path: Path, data: bytes, columns: Sequence[str], rows: int | None = None) -> pa.Table:
    """Return the rows of a Parquet file; SourceError unless it has these columns, and `rows` rows if given.

    Rows are read in small batches: a small Parquet file can expand to more rows than fit into memory.
    """
    try:
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            if file.schema_arrow.names != list(columns):
                raise _make_altered_release_error(
                    path, f"the columns are {', '.join(file.schema_arrow.names)[:400]}; expected {', '.join(columns)}"
                )
            if rows is not None and file.metadata.num_rows != rows:
                raise _make_altered_release_error(path, f"{file.metadata.num_rows} rows; {INDEX_FILE} has {rows}")
            batches, size = [], 0
            for batch in file.iter_batches(_ROWS_PER_BATCH, use_threads=False):
                size += batch.nbytes
                if size > _MAX_TABLE_BYTES:
                    raise _make_altered_release_error(path, f"more than {_MAX_TABLE_BYTES:,} bytes of rows")
                batches.append(batch)
            table = pa.Table.from_batches(batches, file.schema_arrow)
        table.validate(full=True)
        return table
    # UnicodeDecodeError: from a column's name
    except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError) as error:
        raise _make_altered_release_error(path, f"cannot be read as Parquet: {str(error)[:300]}") from error


def _combine_and_check_table_digests(folder: Path, index: ReleaseContents, table_names: Set[str]) -> str:
    """Return the content digest of a release, computed from the index; SourceError if it differs from the recorded one.

    `table_names`: names of the tables whose rows the release has.
    """
    main = {split.table for split in index.configs[0].splits}
    if index.rows != (count := sum(split.rows for split in index.splits if split.table in main)):
        raise _make_altered_release_error(
            folder / INDEX_FILE, f"{index.rows} rows; the splits of {', '.join(sorted(main))} have {count}"
        )
    is_whole = all(each.what == REJECT_DETAILS_OMISSION for each in index.left_out)
    # releases and evaluations do not use the review queue; all other rows must be present
    unread = {*index.tables} - table_names
    if unread - ({f"{index.benchmark}_review"} if is_whole else set()):
        raise _make_altered_release_error(folder, f"the release has no rows of {', '.join(sorted(unread))}")
    content = combine_digests(f"{name} {table.sha256}" for name, table in sorted(index.tables.items()))
    if is_whole and content != index.content_digest:
        raise _make_altered_release_error(
            folder,
            f"the rows have the content digest {content}; {INDEX_FILE} has {index.content_digest}: this folder was changed "
            f"after the release",
        )
    return content
