"""Run a batch outside a build, with lookups recorded as in one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from support.steps.warehouses import empty_warehouse

from factmill.tasks.core.batch_receipts import StageBatch
from factmill.tasks.engine.batches import BatchInProgress
from factmill.tasks.engine.runs import BuildRun
from factmill.tasks.storage.recording.call_cache import CallCache


@contextmanager
def working(folder: Path, wikipedia: Any = None, mode: Any = "record", **others: Any) -> Iterator[BatchInProgress]:
    """Yield work whose calls to this Wikipedia and other services are recorded in a folder and served from it later."""
    folder.mkdir(parents=True, exist_ok=True)
    recorder = CallCache(empty_warehouse(folder / "w.duckdb"), mode)
    services: Any = SimpleNamespace(wikipedia=wikipedia, **others)
    run = BuildRun(folder, {"params": {}}, {}, {}, services, recorder)
    try:
        yield BatchInProgress(StageBatch(run=str(folder), stage="evidence", index=0, key="k" * 40), run)
    finally:
        recorder.close()
