"""Where published tables are read from: a warehouse, a folder that builds were exported to, or a release."""

import json
from dataclasses import dataclass
from datetime import datetime
from hashlib import file_digest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.core.fingerprints import combine_digests, digest_bytes
from tasks.errors import SourceError, UnknownBuild, UsageError
from tasks.storage.builds import BuildRecord, find_build, list_builds, published_names, published_table
from tasks.storage.warehouse import open_warehouse
from tasks.text.suggestions import suggest_name

INDEX = "release.json"
"""File of a release that says what the folder holds (tasks/release/write.py)."""
LOCK = "lock.json"
"""File of a release that has the build's lock."""
FORM = 1
"""Of a release's folder; a reader refuses what it does not know."""
SUMS = "SHA256SUMS"
"""File of a release that lists the digests of all others."""


@dataclass(frozen=True, slots=True)
class Store:
    """A warehouse file, or a folder of Parquet files as `factmill export` and `factmill release` write them."""

    path: Path
    build: str = ""
    """The build that is read where none is named; empty: the newest that has the table."""

    def builds(self) -> pa.Table:
        """Return the published builds, oldest first: build_id, benchmark, author, world, rows, published_at, caution."""
        if self.path.is_dir():
            raise UsageError(
                f"{self.path} is a folder of tables; a warehouse lists builds. Tables: {self._name_tables()}"
            )
        found = list_builds(self.path)
        return pa.table(
            {
                "build_id": [build.build_id for build in found],
                "benchmark": [build.benchmark for build in found],
                **{name: [build.report[name] for build in found] for name in ("author", "world", "rows")},
                "published_at": [build.published_at for build in found],
                "caution": [build.caution for build in found],
            }
        )

    def table(self, name: str, build: str = "") -> pa.Table:
        """Return a published table, by id; UnknownBuild or SourceError say what there is.

        `build`: its id, the beginning of one, or latest:BENCHMARK; by default the newest that has the table.
        """
        return self.read(name, build)[0]

    def read(self, name: str, build: str = "") -> tuple[pa.Table, str, str]:
        """Return a published table, where it was found (the build's id, or the file), and a digest of the content."""
        return self._read_file(name) if self.path.is_dir() else self._read_published(name, build or self.build)

    def is_without(self, name: str) -> bool:
        """Return whether this is a release that was made without a table."""
        return self._is_release() and name not in {split["table"] for split in self._list_splits()}

    def _is_release(self) -> bool:
        return is_release(self.path)

    def _read_published(self, name: str, build: str) -> tuple[pa.Table, str, str]:
        builds = [find_build(self.path, build)] if build else list_builds(self.path)[::-1]
        known: set[str] = set()
        with open_warehouse(self.path) as db:
            for each in builds:
                names = published_names(db, each.build_id)
                if name in names:
                    return published_table(db, each.build_id, name), each.build_id, each.content_digest
                known |= names.keys()
        told = f"; there are: {', '.join(sorted(known)) or 'none'}{suggest_name(name, known)}"
        raise UnknownBuild(f"{builds[0].build_id if build else self.path} has no table {name}{told}")

    def _read_file(self, name: str) -> tuple[pa.Table, str, str]:
        if self._is_release():
            return self._read_released(name)
        found = sorted(self.path.rglob(f"{name}.parquet"))
        if len(found) != 1:
            what = f"{len(found)} files {name}.parquet" if found else f"no file {name}.parquet"
            raise SourceError(f"{self.path}: {what}; expected one. Tables: {self._name_tables()}")
        try:
            return pq.read_table(found[0]), str(found[0]), digest_bytes(found[0].read_bytes())
        except (pa.ArrowInvalid, OSError) as error:
            raise SourceError(f"{found[0]}: cannot be read as Parquet: {error}") from error

    def _read_released(self, name: str) -> tuple[pa.Table, str, str]:
        """Return a table of a release: its splits' rows together, as they were published."""
        parts, digests = [], []
        for split in self._list_splits():
            if split["table"] == name:
                (file,) = (each for each in split["files"] if each["format"] == "parquet")
                parts.append(_read_whole(self.path / file["path"], file["sha256"]).select(split["columns"]))
                digests.append(file["sha256"])
        if not parts:
            there = sorted({split["table"] for split in self._list_splits()})
            raise SourceError(f"{self.path}: the release has no table {name}; it has: {', '.join(there)}")
        return pa.concat_tables(parts).sort_by("id"), str(self.path), combine_digests(digests)

    def _list_splits(self) -> list[dict[str, Any]]:
        try:
            return [split for config in read_told(self.path, INDEX)["configs"] for split in config["splits"]]
        except (KeyError, TypeError) as error:
            raise _damaged(self.path / INDEX, error) from error

    def _name_tables(self) -> str:
        if self._is_release():
            return ", ".join(sorted({split["table"] for split in self._list_splits()}))
        return ", ".join(sorted(path.stem for path in self.path.rglob("*.parquet"))) or "none"


def is_release(folder: Path) -> bool:
    """Return whether a folder is a release, as far as its files are named like one's."""
    return (folder / INDEX).is_file()


def read_told(folder: Path, name: str) -> dict[str, Any]:
    """Return what a file of a release, its index or its lock, says; SourceError where it is not there, or no such file."""
    try:
        told = json.loads((folder / name).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(folder / name, error) from error
    if not isinstance(told, dict):
        raise _damaged(folder / name, "no JSON object")
    return told


def read_released_build(folder: Path) -> BuildRecord:
    """Return the build that a release is of, as far as the folder tells of it: all but where its sources lay; of its report
    the rows. SourceError for what is no release."""
    index, told = read_told(folder, INDEX), read_told(folder, LOCK)
    try:
        if index["factmill_release"] != FORM:
            raise SourceError(
                f"{folder}: a release of form {index['factmill_release']}; this factmill reads form {FORM}: install a newer one"
            )
        moment = datetime.fromisoformat(index["published_at"])
        return BuildRecord(
            index["build_id"],
            index["benchmark"],
            told["lock_digest"],
            told["lock"],
            {},
            index["content_digest"],
            {"build_id": index["build_id"], "rows": index["rows"]},
            moment,
            moment,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(folder / INDEX, error) from error


def check_sums(folder: Path) -> None:
    """SourceError unless all files of a release that are there are those that were released, by its list of digests."""
    try:
        lines = (folder / SUMS).read_text("utf-8").splitlines()
        listed = [line.split("  ", 1) for line in lines if line and not line.startswith("#")]
        other = [name for digest, name in listed if (folder / name).is_file() and _digest_file(folder / name) != digest]
    except (OSError, ValueError) as error:
        raise _damaged(folder / SUMS, error) from error
    if other:
        raise SourceError(
            f"{folder}: not the files that were released: {', '.join(other[:5])}{' and more' if other[5:] else ''}; fetch "
            f"the release again (sha256sum -c {SUMS} tells all)"
        )


def _digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _damaged(path: Path, why: object) -> SourceError:
    return SourceError(f"{path}: not what factmill writes into a release: {why}; release the build again")


def _read_whole(path: Path, expected: str) -> pa.Table:
    """Return the rows of a file of a release; SourceError unless it is the very file that was released."""
    try:
        data = path.read_bytes()
        if digest_bytes(data) != expected:
            raise SourceError(f"{path}: not the file that was released; see: sha256sum -c SHA256SUMS")
        return pq.read_table(pa.BufferReader(data))
    except (pa.ArrowInvalid, OSError) as error:
        raise SourceError(f"{path}: cannot be read as Parquet: {error}") from error
