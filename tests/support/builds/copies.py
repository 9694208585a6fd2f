"""Publish a build with any number of rows, copied from another build."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from factmill.tasks.storage.builds import load_published_table, publish_build_tables, resolve_build
from factmill.tasks.storage.warehouse import open_warehouse


def publish_copies(warehouse: Path, build: str, table: str, rows: int) -> str:
    """Publish a build of repeated rows of another build (by its id, or latest:NAME), each copy with its own id."""
    origin = resolve_build(warehouse, build)
    with open_warehouse(warehouse) as db:
        found = load_published_table(db, origin.build_id, table)
        times = -(-rows // found.num_rows)
        numbers = pa.array([str(number) for number in range(times) for _ in range(found.num_rows)], pa.string())
        copies = pa.concat_tables([found] * times)
        ids = pc.binary_join_element_wise(copies["id"].combine_chunks(), numbers, "-")
        copies = copies.set_column(0, "id", ids).slice(0, rows)
        report = origin.report | {"rows": rows}
        lock = origin.lock | {"copies": rows}
        record = publish_build_tables(
            db, "no-run", origin.benchmark, lock, origin.origin, {table: copies}, report, datetime.now(UTC)
        )
    return record.build_id
