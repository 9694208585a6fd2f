"""Tables that users bring as a source: find their files, check them in full before a build starts, and stream their rows.

A table is a CSV (with tabs: TSV), JSON, JSON Lines or Parquet file with a row per question. In a folder, as of a data set
of the Hugging Face Hub, file names tell the split. What a column means is in core/table_columns.py.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow.parquet as pq
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.licenses._spdx import LICENSES

from factmill.tasks.core.rows import NO_LICENCE_STATED
from factmill.tasks.core.table_columns import (
    TableForm,
    UserSourceSettings,
    parse_columns_by_field,
    read_table_fields,
    resolve_table_columns,
)
from factmill.tasks.errors import SourceError, UsageError
from factmill.tasks.options import LICENCE_ADDRESS_STARTS, UserSourceParams, UserTableParams
from factmill.tasks.storage.source_files import (
    DELIMITERS,
    SourceFile,
    choose_csv_delimiter,
    format_source_paths_and_their_files,
    iterate_numbered_csv_rows,
    iterate_numbered_json_values,
    iterate_numbered_parquet_rows,
    list_source_files,
    make_source_file_with_digest,
    peek_columns,
)

TABLE_SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet")
USER_TABLE_UNIT = "own tables"
"""Source unit of all tables of a build."""
_SPLITS = frozenset(
    {"train", "training", "validation", "valid", "val", "dev", "development", "test", "testing", "eval"}
)
_SHARD_NUMBER = re.compile(r"-[0-9]+-of-[0-9]+$")
_HUB_METADATA = frozenset({"dataset_infos.json", "dataset_info.json", "dataset_dict.json", "state.json"})


@dataclass(frozen=True, slots=True)
class CheckedUserTables:
    """The files of a source of tables, checked and pinned."""

    files: list[SourceFile]
    own: UserSourceSettings
    counts: Mapping[str | None, int]
    """Value of the counted field → rows with it; None: rows without."""
    notes: list[str]
    row_count: int
    """Rows of all files, those that cannot be read too."""


@dataclass(frozen=True, slots=True)
class UserTableRow:
    """One row of a table."""

    number: int
    """From 1."""
    raw: Any
    """As it stands in the file."""
    fields: dict[str, Any] | str
    """Field → value, or what is wrong with the row."""


def make_user_source(params: UserTableParams, from_files: bool) -> UserSourceSettings:
    """Return what the parameters say about the source; UsageError for some of it without a source of the user's own."""
    given = [name for name in UserSourceParams.model_fields if name != "source" and getattr(params, name, None)]
    if given and not from_files:
        raise UsageError(
            f"--{given[0].replace('_', '-')} is about files of your own; name them with --source, or leave it out"
        )
    separator = params.list_separator if isinstance(params, UserSourceParams) else None
    return UserSourceSettings(
        separator=separator or "", name=params.source_name or "", licence=normalise_licence(params.source_licence or "")
    )


def normalise_licence(licence: str) -> str:
    """Return a licence that a user states as SPDX writes it (`cc-by-4.0`: CC-BY-4.0); any other text unchanged."""
    if licence.startswith(LICENCE_ADDRESS_STARTS) or licence == NO_LICENCE_STATED:
        return licence
    try:
        return str(canonicalize_license_expression(licence))
    except InvalidLicenseExpression:
        return licence


def find_licence_problem(licence: str) -> str:
    """Return why a licence that a user states is no SPDX expression, address or LicenseRef, with the nearest ids; empty if it
    is one."""
    if licence.startswith(LICENCE_ADDRESS_STARTS) or licence == NO_LICENCE_STATED:
        return ""
    try:
        canonicalize_license_expression(licence)
    except InvalidLicenseExpression:
        nearest = list_nearest_licences(licence)
        hint = f"; did you mean {' or '.join(nearest)}?" if nearest else ""
        return f"--source-licence {licence}: no SPDX id, address or LicenseRef-NAME, so rows and cards state it as it is{hint}"
    return ""


def list_nearest_licences(licence: str) -> list[str]:
    """Return at most two SPDX ids that begin with the text, of the newest version, or else resemble it; each shares a word with it.

    Spaces, hyphens, dots and case do not count.
    """
    licence = re.sub(r"(?<=[A-Za-z])v(?=[0-9])", "-", licence)  # GPLv3
    given, words = _casefold_and_drop_separators(licence), _list_licence_words(licence)
    current = sorted(str(each["id"]) for each in LICENSES.values() if not each["deprecated"])
    alike = [
        name for name in current if words & _list_licence_words(name) or _casefold_and_drop_separators(name) == given
    ]
    if begun := [name for name in alike if _casefold_and_drop_separators(name).startswith(given)]:
        families = {name: _LICENCE_VERSION.sub("", name) for name in begun}
        shortest = min(families.values(), key=lambda family: (len(family), family))
        if not given.startswith(_casefold_and_drop_separators(shortest)):
            return []  # BSD: one of many would be arbitrary
        members = [name for name in begun if families[name] == shortest]
        newest = max(map(_parse_licence_version, members))
        return [name for name in members if _parse_licence_version(name) == newest][:2]
    joined = {_casefold_and_drop_separators(name): name for name in alike}
    close = get_close_matches(given, joined, 1, _MIN_LICENCE_SIMILARITY)
    return [joined[each] for each in close]


_LICENCE_VERSION = re.compile(r"-([0-9]+(?:\.[0-9]+)*)(?:-only|-or-later)?$")
_MIN_LICENCE_SIMILARITY = 0.7


def _list_licence_words(licence: str) -> set[str]:
    return {word for word in re.split(r"[^a-z0-9]+", licence.casefold()) if word and not word.isdecimal()}


def _casefold_and_drop_separators(licence: str) -> str:
    return re.sub(r"[\s.-]+", "", licence.casefold())


def _parse_licence_version(licence: str) -> tuple[int, ...]:
    found = _LICENCE_VERSION.search(licence)
    return tuple(map(int, found[1].split("."))) if found else ()


def apply_stated_name_and_licence(source: SourceFile, own: UserSourceSettings) -> SourceFile:
    """Return a file with the name and licence that the user states; UsageError for another licence than a known one."""
    if own.licence and source.licence not in (own.licence, NO_LICENCE_STATED):
        raise UsageError(
            f"--source-licence {own.licence}: {source.path} is a published file under {source.licence}; leave the option out"
        )
    return replace(
        source,
        name=f"{own.name}/{source.name}" if own.name else source.name,
        licence=own.licence or source.licence,
    )


def find_table_files(paths: Sequence[Path], split: str | None = None) -> list[Path]:
    """Return the tables among files and in folders; SourceError where there is none, and for a choice of splits."""
    found: list[Path] = []
    for path in paths:
        inside = list_source_files(path, deep=True)
        if inside == [path]:
            if path.suffix.lower() not in TABLE_SUFFIXES:
                raise SourceError(
                    f"{path}: unknown kind of file; expected a table that ends in {', '.join(TABLE_SUFFIXES)} (packed files: unpack them)"
                )
            files = inside
        else:
            tables = [
                file for file in inside if file.suffix.lower() in TABLE_SUFFIXES and file.name not in _HUB_METADATA
            ]
            files = _choose_split(path, tables, split)
        found += [file for file in files if file not in found]
    if not found:
        raise SourceError(
            f"no table in {format_source_paths_and_their_files(paths)}; expected files that end in {', '.join(TABLE_SUFFIXES)}"
        )
    return found


def _choose_split(folder: Path, files: Sequence[Path], split: str | None) -> list[Path]:
    names = {file: _list_split_name_candidates(folder, file) for file in files}
    if split:
        chosen = [file for file in files if split.casefold() in names[file]]
        if not chosen and files:
            raise SourceError(
                f"--source-split {split}: no file of this name in {folder}; it holds {', '.join(file.relative_to(folder).as_posix() for file in files)[:400]}"
            )
        return chosen
    splits = sorted({name for found in names.values() for name in found & _SPLITS})
    if len(splits) > 1:
        raise SourceError(
            f"{folder}: holds the splits {', '.join(splits)}; choose one, like --source-split {splits[0]}"
        )
    return list(files)


def _list_split_name_candidates(folder: Path, file: Path) -> set[str]:
    """Return the names that may tell a file's split: its own without the number of a shard, parts of that, its folder's."""
    stem = _SHARD_NUMBER.sub("", file.stem.casefold())
    parts = {stem, *re.split(r"[._-]+", stem)}
    return parts | ({file.parent.name.casefold()} if file.parent != folder else set())


def check_and_digest_user_tables(
    params: UserTableParams,
    form: TableForm,
    *,
    count_field: str = "",
    id_field: str = "",
    defaults: Mapping[str, str] = MappingProxyType({}),
) -> CheckedUserTables:
    """Find the tables of a source and read each in full: the digest, the columns of the form, and every row.

    SourceError for an unreadable file, a missing column, a file without any valid row, files with different columns, and
    an id (`id_field`) of two rows; UsageError for an unknown field in the map.
    """
    own = make_user_source(params, from_files=True).model_copy(update={"defaults": {**defaults}})
    column_map = parse_columns_by_field(params.map, form)
    files = find_table_files([Path(path) for path in params.source], params.source_split)
    alike = Counter(file.name for file in files)
    pinned: list[SourceFile] = []
    counts: Counter[str | None] = Counter()
    places: dict[str, str] = {}
    notes: list[str] = []
    row_count = 0
    for file in files:
        name = file.name if alike[file.name] == 1 else f"{file.parent.name}/{file.name}"
        source = apply_stated_name_and_licence(make_source_file_with_digest(file, name), own)
        found = list_table_columns(source)
        columns = resolve_table_columns(str(file), form, column_map, found, defaults)
        if own.columns and columns != own.columns:
            raise SourceError(
                f"{file}: read are its columns {_format_column_read_for_each_field(columns)}, and of {files[0]} {_format_column_read_for_each_field(own.columns)}; "
                "expected tables with the same columns; build the others apart"
            )
        own = own.model_copy(update={"columns": columns})
        pinned.append(source)
        unread = [column for column in found if column not in columns.values()]
        notes.append(
            f"{source.name}: {_format_column_read_for_each_field(columns)}"
            + (f"; not read: {', '.join(unread)[:300]}" if unread else "")
            + _format_unusual_delimiter(source)
        )
        first, valid = "", 0
        for row in iterate_user_table(source, own, form):
            row_count += 1
            if isinstance(row.fields, str):
                first = first or f"row {row.number}: {row.fields}"
                continue
            valid += 1
            if count_field:
                counts[row.fields[count_field]] += 1
            if id_field and (row_id := row.fields[id_field]):
                place = f"{source.name}, row {row.number}"
                if (other := places.setdefault(row_id, place)) != place:
                    raise SourceError(
                        f"{file}: row {row.number} has the {id_field} {row_id!r} of {other}; expected each once"
                    )
        if not valid:
            raise SourceError(f"{file}: {first or 'no rows'}" + (", and no other row is better" if first else ""))
    if isinstance(params, UserSourceParams) and any(each.licence == NO_LICENCE_STATED for each in pinned):
        notes.append(
            "no licence of this source is stated (--source-licence); a release needs --allow-licence 'none stated'"
        )
    return CheckedUserTables(pinned, own, counts, notes, row_count)


def _format_column_read_for_each_field(columns: Mapping[str, str]) -> str:
    return ", ".join(field if field == column else f"{field} = {column}" for field, column in columns.items())


def _format_unusual_delimiter(source: SourceFile) -> str:
    """Return what separates a CSV file's cells, as the end of a note; empty where it is a comma, or a tab in a .tsv."""
    suffix = _get_suffix(source)
    mark = choose_csv_delimiter(source.path, source.name) if suffix in (".csv", ".tsv") else ""
    is_usual = mark in ("", "\t" if suffix == ".tsv" else ",")
    return "" if is_usual else f"; its cells are separated by {DELIMITERS[mark]}"


def list_table_columns(source: SourceFile) -> list[str]:
    """Return a table's columns: its header, or the keys of all its objects."""
    suffix = _get_suffix(source)
    if suffix == ".tsv":
        return list(next((row for _, row in iterate_numbered_csv_rows(source, ())), {}))
    if suffix in (".csv", ".parquet"):
        return list(peek_columns(source.path))
    rows = (row for _, row in iterate_numbered_json_values(source, "rows") if isinstance(row, Mapping))
    return list(dict.fromkeys(str(key) for row in rows for key in row))


def _get_suffix(source: SourceFile) -> str:
    # not of the path: files in the Hub's cache are links to files without one
    return Path(source.name).suffix.lower()


def iterate_user_table(source: SourceFile, own: UserSourceSettings, form: TableForm) -> Iterator[UserTableRow]:
    """Yield the rows of a table; SourceError for a file that cannot be read, or that has changed."""
    suffix, columns = _get_suffix(source), list(own.columns.values())
    rows: Iterator[tuple[int, Any]]
    if suffix == ".parquet":
        known = set(pq.read_schema(source.path).names)
        rows = iterate_numbered_parquet_rows(
            source, sorted({each if each in known else each.partition(".")[0] for each in columns})
        )
    elif suffix in (".csv", ".tsv"):
        rows = iterate_numbered_csv_rows(source, columns)
    else:
        rows = iterate_numbered_json_values(source, f"rows with {', '.join(columns)}")
    for number, raw in rows:
        yield UserTableRow(number, raw, read_table_fields(raw, form, own))
