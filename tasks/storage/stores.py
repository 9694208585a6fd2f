"""Where published tables are read from: a warehouse, a folder that builds were exported to, or a release."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.core.fingerprints import combine_digests, digest_bytes
from tasks.errors import SourceError, UnknownBuild, UsageError
from tasks.storage.builds import find_build, list_builds, published_names, published_table
from tasks.storage.warehouse import open_warehouse
from tasks.text.suggestions import suggest_name

INDEX = "release.json"
"""File of a release that says what the folder holds (tasks/release/write.py)."""


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
        return (self.path / INDEX).is_file()

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
        index = self.path / INDEX
        try:
            told = json.loads(index.read_bytes())
            return [split for config in told["configs"] for split in config["splits"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SourceError(
                f"{index}: not what factmill writes into a release: {error}; release the build again"
            ) from error

    def _name_tables(self) -> str:
        if self._is_release():
            return ", ".join(sorted({split["table"] for split in self._list_splits()}))
        return ", ".join(sorted(path.stem for path in self.path.rglob("*.parquet"))) or "none"


def _read_whole(path: Path, expected: str) -> pa.Table:
    """Return the rows of a file of a release; SourceError unless it is the very file that was released."""
    try:
        data = path.read_bytes()
        if digest_bytes(data) != expected:
            raise SourceError(f"{path}: not the file that was released; see: sha256sum -c SHA256SUMS")
        return pq.read_table(pa.BufferReader(data))
    except (pa.ArrowInvalid, OSError) as error:
        raise SourceError(f"{path}: cannot be read as Parquet: {error}") from error
