"""Read published tables from a warehouse, a folder of exported builds, or a release."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.errors import SourceError, UnknownBuild, UsageError
from factmill.tasks.storage.builds import (
    list_builds,
    load_published_table,
    load_table_digests,
    rank_builds_for_latest,
    resolve_build,
)
from factmill.tasks.storage.released_folders import is_release, load_verified_release
from factmill.tasks.storage.warehouse import open_warehouse
from factmill.tasks.text.sanitize import format_did_you_mean


@dataclass(frozen=True, slots=True)
class TableStore:
    """A warehouse file, or a folder of Parquet files as `factmill export` and `factmill release` write them."""

    path: Path
    build: str = ""
    """Default build to read; empty: the latest that has the table (`rank_builds_for_latest`)."""

    def builds(self) -> pa.Table:
        """Return the published builds, oldest first: build_id, benchmark, author, world, rows, published_at, caution."""
        if self.path.is_dir():
            raise UsageError(
                f"{self.path} is a folder of tables; only a warehouse has builds. Tables: {self._format_table_names()}"
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
        """Return a published table, sorted by id; UnknownBuild or SourceError list what exists.

        `build`: its id, a prefix of one, or latest:BENCHMARK; by default the latest that has the table: the newest whole
        build of the default source, else the newest of all.
        """
        return self.read_with_digest(name, build)[0]

    def read_with_digest(self, name: str, build: str = "") -> tuple[pa.Table, str, str]:
        """Return a published table, its location (the build's id, or the file), and a digest of the content."""
        return self._read_file(name) if self.path.is_dir() else self._read_published(name, build or self.build)

    def lacks_released_table(self, name: str) -> bool:
        """Return whether this is a release without this table."""
        return is_release(self.path) and name not in load_verified_release(self.path).tables

    def _read_published(self, name: str, build: str) -> tuple[pa.Table, str, str]:
        builds = [resolve_build(self.path, build)] if build else rank_builds_for_latest(list_builds(self.path))
        known: set[str] = set()
        with open_warehouse(self.path) as db:
            for each in builds:
                names = load_table_digests(db, each.build_id)
                if name in names:
                    return load_published_table(db, each.build_id, name), each.build_id, each.content_digest
                known |= names.keys()
        known_tables = f"; tables: {', '.join(sorted(known)) or 'none'}{format_did_you_mean(name, known)}"
        raise UnknownBuild(f"{builds[0].build_id if build else self.path} has no table {name}{known_tables}")

    def _read_file(self, name: str) -> tuple[pa.Table, str, str]:
        if is_release(self.path):
            released = load_verified_release(self.path)
            if name not in released.tables:
                raise SourceError(f"{self.path}: the release has no table {name}; it has: {self._format_table_names()}")
            return released.tables[name], str(self.path), released.index.tables[name].sha256
        found = sorted(self.path.rglob(f"{name}.parquet"))
        if len(found) != 1:
            what = f"{len(found)} files {name}.parquet" if found else f"no file {name}.parquet"
            raise SourceError(f"{self.path}: {what}; expected one. Tables: {self._format_table_names()}")
        try:
            return pq.read_table(found[0]), str(found[0]), digest_bytes(found[0].read_bytes())
        except (pa.ArrowInvalid, OSError) as error:
            raise SourceError(f"{found[0]}: cannot be read as Parquet: {error}") from error

    def _format_table_names(self) -> str:
        if is_release(self.path):
            return ", ".join(sorted(load_verified_release(self.path).tables))
        return ", ".join(sorted(path.stem for path in self.path.rglob("*.parquet"))) or "none"
