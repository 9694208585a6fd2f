"""Publish builds in a warehouse without a flow: rows of any content under any licence."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from factmill.tasks.core.rows import arrow_schema
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.storage.builds import BuildRecord, publish_build_tables
from factmill.tasks.storage.warehouse import open_warehouse

_LOCK = {
    "author": "mine",
    "models": {"author": "mine", "judge": "mine"},
    "scripted": None,
    "prompts": {},
    "lists": {},
    "queries": {},
    "sources": {"files": {}, "wikidata": None},
    "services": {"wikidata": "live/wikidata", "wikipedia": "https://en.wikipedia.org"},
    "world": {"name": "mine", "epoch": "2026-01-01", "digest": "0"},
    "version": "0.1.0",
    "code": "0",
}
_STAGE = {"rows_in": 9, "rows_out": 9, "rejects": 0, "merged": 0, "opened": 0, "seconds": 0.5, "cost_usd": 0.0}


def publish_rows(
    warehouse: Path,
    benchmark: Benchmark,
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    params: Mapping[str, Any] | None = None,
    flow: Mapping[str, Any] | None = None,
    by: str = "mine",
    **lock: Any,
) -> BuildRecord:
    """Publish rows (table → columns by name) as a build by a model, or by none if `by` is empty.

    Tables that are not named are empty.
    """
    made = {
        name: pa.Table.from_pylist(list(tables.get(name, ())), schema=arrow_schema(model))
        for name, model in benchmark.tables.items()
    }
    rows = made[benchmark.main_table].num_rows
    report = {
        "author": by,
        "world": "mine",
        "rows": rows,
        "rejects": 1,
        "inputs": rows + 1,
        "stages": [{**_STAGE, "stage": "read"}],
        "reasons": {"read": {"too_short": 1}},
        "facts": {"shape": {"rows": {"here": rows, "n": rows, "paper": 100}}},
    }
    result = {**_LOCK, "benchmark": benchmark.name, "params": {"params": {}, **(params or {})}, **lock}
    with open_warehouse(warehouse) as db:
        origin = {"flow": {"source": [], **(flow or {})}, "files": {}, "world": "mine", "graph": None}
        build = publish_build_tables(
            db, "run", benchmark.name, result, origin, made, report, datetime(2026, 5, 1, tzinfo=UTC)
        )
        db.execute(
            "INSERT INTO rejects VALUES (?, 'read', 'r-1', 'too_short', 'nothing in it', NULL)", [build.build_id]
        )
    return build
