"""Files of a release: writes the data files and their digests in a draft folder, and moves the complete draft to its
target.

Leftovers of crashed runs are removed first. If two runs finish at the same time, one of them fails with an error.

Parquet files have the columns of their config in every split; JSON Lines and CSV have those of the split's own table.
The bytes depend on the rows only.
"""

import errno
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import file_digest
from pathlib import Path

import pyarrow as pa

from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.core.publishing.release_spec import CANARY_COLUMN
from factmill.tasks.errors import BuildFormatTooOld, OutputError, SourceError
from factmill.tasks.files import resolve_absolute_path
from factmill.tasks.release.contents import Release, ReleaseDataFile, ReleaseDatasetConfig, ReleaseSplit
from factmill.tasks.storage.export import csv_bytes, jsonl_bytes
from factmill.tasks.storage.housekeeping.reclaimed_space import is_file_with_pid_left_by_dead_process
from factmill.tasks.storage.released_folders import CHECKSUMS_FILE, is_release, load_verified_release
from factmill.tasks.storage.shards import parquet_bytes


def write_release_file(path: Path, data: bytes) -> None:
    """Write a file and create its folder if necessary; OutputError if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}; choose another place with --to") from error


def list_release_files(folder: Path) -> list[str]:
    """List the files below a folder, without the checksum file itself: paths with slashes, sorted."""
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in found if path != CHECKSUMS_FILE)


def make_checksums_file_content(folder: Path, canary: str) -> bytes:
    """Return the checksum file for `sha256sum -c`: a comment with the canary, then a digest and a path per line."""
    lines = [f"# {canary}\n", *(f"{_hash_file(folder / path)}  {path}\n" for path in list_release_files(folder))]
    return "".join(lines).encode("utf-8")


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def write_data_files(release: Release, folder: Path) -> Release:
    """Write the data files of every split below a folder; return the release with their paths and digests."""
    metadata = make_parquet_metadata(release)
    configs = [
        replace(
            config,
            splits=tuple(
                replace(split, files=_write_split_files(release, config, split, folder, metadata))
                for split in config.splits
            ),
        )
        for config in release.configs
    ]
    return replace(release, configs=tuple(configs))


def make_parquet_metadata(release: Release) -> dict[str, str]:
    """Return the metadata of each Parquet file: build, licence, canary and notice."""
    texts = {
        "build": release.build.build_id,
        "licence": " AND ".join(licence.id for licence in release.licences),
        "canary": release.forms.canary_line,
        "notice": release.notice,
    }
    return {f"factmill.{name}": text for name, text in texts.items() if text}


def _write_split_files(
    release: Release, config: ReleaseDatasetConfig, split: ReleaseSplit, folder: Path, metadata: Mapping[str, str]
) -> tuple[ReleaseDataFile, ...]:
    forms, own = release.benchmark.forms, split.rows.select([*split.own_columns, CANARY_COLUMN])

    def make() -> Iterator[tuple[str, str, bytes]]:
        yield "data", "parquet", parquet_bytes(split.rows, metadata)
        yield "jsonl", "jsonl", jsonl_bytes(own, forms.json_columns.get(split.table, ()))
        yield "csv", "csv", csv_bytes(own, forms)

    files = []
    for place, form, data in make():
        path = f"{place}/{config.name}/{split.name}.{form}"
        write_release_file(folder / path, data)
        files.append(ReleaseDataFile(path, form, len(data), digest_bytes(data)))
    return tuple(files)


def encode_rejects_as_parquet(release: Release) -> bytes:
    """Return the rejects as the bytes of a Parquet file."""
    rows = release.rejects
    canary = pa.array([release.forms.canary_line] * rows.num_rows, pa.string())
    return parquet_bytes(rows.append_column(CANARY_COLUMN, canary), make_parquet_metadata(release))


_LEFTOVER_NAME = re.compile(r"\.(?P<name>.+)\.(?P<process>\d+)\.(?P<kind>draft|old)")


@contextmanager
def open_release_draft(target: Path, force: bool) -> Iterator[Path]:
    """Yield an empty draft folder that is renamed to `target` at the end, or removed on an error.

    OutputError if `target` cannot be written, holds anything but a release, or holds a release and `force` is false.
    """
    release = ReplaceableFolderKind(
        name="a release",
        advice="replace it with --force",
        may_replace=lambda folder: force and is_release(folder),
        check=lambda folder: _check_replaceable(folder, force),
    )
    with open_folder_draft(target, release) as draft:
        yield draft


@dataclass(frozen=True, slots=True)
class ReplaceableFolderKind:
    """A kind of folder that a draft may replace."""

    name: str
    """For messages: `a release`."""
    advice: str
    """What to do if another process has written such a folder meanwhile."""
    may_replace: Callable[[Path], bool]
    """Whether a folder is one that the draft replaces, judged by its file names."""
    check: Callable[[Path], None]
    """Raises OutputError unless the target is absent, empty or intact and to be replaced."""


@contextmanager
def open_folder_draft(target: Path, kind: ReplaceableFolderKind) -> Iterator[Path]:
    """Yield an empty draft folder that is renamed to `target` at the end, or removed on an error; OutputError."""
    target = resolve_absolute_path(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_or_restore_leftovers(target)
        kind.check(target)
        draft = target.with_name(f".{target.name}.{os.getpid()}.draft")
        draft.mkdir()
    except OSError as error:
        raise OutputError(
            f"{target}: the folder cannot be created: {error.strerror}; choose another with --to"
        ) from error
    try:
        yield draft
        _replace_target_by_draft(draft, target, kind)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _check_replaceable(target: Path, force: bool) -> None:
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not target.is_dir():
        raise OutputError(f"{target}: this is a file; expected a folder. Choose another with --to")
    if not is_release(target):
        raise OutputError(
            f"{target}: the folder contains something other than a release and is not replaced; choose another with --to"
        )
    if not force:
        raise OutputError(
            f"{target}: the folder contains a release already; replace it with --force, or choose another folder with --to"
        )
    try:
        with suppress(BuildFormatTooOld):  # its files are intact, and about to be replaced
            load_verified_release(target)
    except SourceError as error:
        raise OutputError(
            f"{target}: not replaced, because the release there is not intact. {error}. To write there, remove the folder "
            "yourself; or choose another with --to"
        ) from error


def _replace_target_by_draft(draft: Path, target: Path, kind: ReplaceableFolderKind) -> None:
    """Rename the draft to its target, replacing a folder there if its kind allows it."""
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    try:
        if kind.may_replace(target):
            kind.check(target)  # again: files may have appeared there while the draft was written
            target.rename(old)
        draft.rename(target)
    except OSError as error:
        if old.exists() and not target.exists():
            old.rename(target)
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise OutputError(
                f"{target}: another process has written {kind.name} there meanwhile; {kind.advice}"
            ) from error
        raise OutputError(f"{target}: cannot be written: {error.strerror}; choose another with --to") from error
    _remove_replaced_but_keep_hidden_files(old, target)


def _remove_replaced_but_keep_hidden_files(old: Path, target: Path) -> None:
    """Remove a replaced release; move the user's hidden files at its top level (.git) into the new one."""
    for hidden in old.glob(".*"):
        if not os.path.lexists(target / hidden.name):
            hidden.rename(target / hidden.name)
    shutil.rmtree(old, ignore_errors=True)


def _remove_or_restore_leftovers(target: Path) -> None:
    """Remove the leftovers of crashed runs next to `target`; restore a release that such a run had just moved away."""
    for left in sorted(target.parent.iterdir()):
        found = _LEFTOVER_NAME.fullmatch(left.name)
        if not found or found["name"] != target.name or not is_file_with_pid_left_by_dead_process(found["process"]):
            continue
        if found["kind"] == "draft":
            shutil.rmtree(left, ignore_errors=True)
        elif target.exists():
            _remove_replaced_but_keep_hidden_files(left, target)
        else:
            left.rename(target)
