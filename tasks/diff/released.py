"""Releases compared with each other, or with a build: their rows are laid into a warehouse that lasts as long as that.

A release has its build's lock, rows, rejects and decisions, and none of its recorded calls. So what the locks tell is told,
and where they do not tell which input it was, that is said (`core/causes.py`). Rows that a release was made without are no
change of the benchmark.
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
from factmill.tasks.storage.builds import BuildRecord, find_build, insert_rows, published_names, published_table
from factmill.tasks.storage.released_folders import INDEX, REJECT_COLUMNS, conform_rows, is_release, open_release
from factmill.tasks.storage.warehouse import open_warehouse


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two that are compared: a release, or a build of the warehouse."""

    name: str
    """The folder of a release, or the id of a build."""
    record: BuildRecord
    tables: Mapping[str, pa.Table]
    rejects: pa.Table
    """stage, id, reason, detail."""
    left_out: Sequence[str] = ()
    """Sources and licences that a release was made without."""


def read_side(name: str, warehouse: Path) -> Side:
    """Return a release, where a folder is named, or a build; SourceError and UnknownBuild say what was expected."""
    folder = Path(name)
    if is_release(folder):
        released = open_release(folder)
        left_out = [each.what for each in released.index.left_out]
        return Side(name, released.record, released.tables, released.rejects, left_out)
    try:
        return _read_build(name, warehouse)
    except UnknownBuild as error:
        if folder.is_dir():
            raise UsageError(
                f"{name}: a folder that is no release: it has no {INDEX}; one is made by factmill release BUILD --to DIR"
            ) from error
        raise


@contextmanager
def laid_out(benchmark: Benchmark, sides: Sequence[Side]) -> Iterator[tuple[Path, list[BuildRecord]]]:
    """Yield a warehouse that holds both sides, without calls, and the builds that they are there."""
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
                        rows = conform_rows(table, benchmark.tables[name], where, lacking=True)
                        insert_rows(db, record.build_id, name, rows, model=benchmark.tables[name])
                db.register("part", side.rejects)
                db.execute(
                    "INSERT INTO rejects (build_id, stage, id, reason, detail) SELECT ?, * FROM part", [record.build_id]
                )
                db.unregister("part")
        yield warehouse, records


def _read_build(name: str, warehouse: Path) -> Side:
    record = find_build(warehouse, name)
    with open_warehouse(warehouse) as db:
        tables = {name: published_table(db, record.build_id, name) for name in published_names(db, record.build_id)}
        rejects = db.sql(
            f"SELECT {', '.join(REJECT_COLUMNS)} FROM rejects WHERE build_id = ? ORDER BY ALL", params=[record.build_id]
        ).to_arrow_table()
    return Side(record.build_id, record, tables, rejects)
