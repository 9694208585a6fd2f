"""Compare releases with each other or with a build: load their rows into a temporary warehouse.

A release has its build's manifest, rows, rejects and decisions, but no recorded calls. The causes therefore come from the
manifests; where these leave several inputs possible, the cause names them all (`core/causes.py`). Rows that a release was
made without do not count as a change of the benchmark.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.errors import UnknownBuild, UsageError
from factmill.tasks.storage.builds import (
    BuildRecord,
    insert_published_table_rows,
    load_published_table,
    load_table_digests,
    resolve_build,
)
from factmill.tasks.storage.released_folders import (
    INDEX_FILE,
    REJECT_COLUMNS,
    is_release,
    load_verified_release,
    validate_and_conform_to_row_model,
)
from factmill.tasks.storage.warehouse import open_warehouse


@dataclass(frozen=True, slots=True)
class ReleaseOrBuild:
    """One side of a comparison: a release, or a build of the warehouse."""

    name: str
    """Folder of the release, or id of the build."""
    record: BuildRecord
    tables: Mapping[str, pa.Table]
    rejects: pa.Table
    """Columns: stage, id, reason, detail."""
    left_out: Sequence[str] = ()
    """Sources and licences that the release was made without."""


def load_release_or_build(name: str, warehouse: Path) -> ReleaseOrBuild:
    """Load a release where `name` is its folder, else a build; SourceError or UnknownBuild if neither."""
    folder = Path(name)
    if is_release(folder):
        released = load_verified_release(folder)
        left_out = [each.what for each in released.index.left_out]
        return ReleaseOrBuild(name, released.record, released.tables, released.rejects, left_out)
    try:
        return _load_build_side_from_warehouse(name, warehouse)
    except UnknownBuild as error:
        if folder.is_dir():
            raise UsageError(
                f"{name}: the folder has no {INDEX_FILE}, so it is not a release; `factmill release BUILD --to DIR` makes one"
            ) from error
        raise


@contextmanager
def temporary_comparison_warehouse(
    benchmark: Benchmark, sides: Sequence[ReleaseOrBuild]
) -> Iterator[tuple[Path, list[BuildRecord]]]:
    """Yield a temporary warehouse with both sides as builds, without calls, and their build records."""
    records = [each.record for each in sides]
    if records[0].build_id == records[1].build_id:
        records = [
            replace(each, build_id=f"{each.build_id} ({when})")
            for each, when in zip(records, ("before", "after"), strict=True)
        ]
    with tempfile.TemporaryDirectory(prefix=f"factmill-{os.getpid()}-diff-") as folder:
        warehouse = Path(folder) / "factmill.duckdb"
        with open_warehouse(warehouse) as db:
            for side, record in zip(sides, records, strict=True):
                for name, table in side.tables.items():
                    if name in benchmark.tables:
                        where = f"{side.name}: table {name}"
                        rows = validate_and_conform_to_row_model(
                            table, benchmark.tables[name], where, allow_missing=True
                        )
                        insert_published_table_rows(db, record.build_id, name, rows, model=benchmark.tables[name])
                db.register("part", side.rejects)
                db.execute(
                    "INSERT INTO rejects (build_id, stage, id, reason, detail) SELECT ?, * FROM part", [record.build_id]
                )
                db.unregister("part")
        yield warehouse, records


def _load_build_side_from_warehouse(name: str, warehouse: Path) -> ReleaseOrBuild:
    record = resolve_build(warehouse, name)
    with open_warehouse(warehouse) as db:
        tables = {
            name: load_published_table(db, record.build_id, name) for name in load_table_digests(db, record.build_id)
        }
        rejects = db.sql(
            f"SELECT {', '.join(REJECT_COLUMNS)} FROM rejects WHERE build_id = ? ORDER BY ALL", params=[record.build_id]
        ).to_arrow_table()
    return ReleaseOrBuild(record.build_id, record, tables, rejects)
