"""A batch at work outside a build, for look-ups that are recorded as in one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from support.steps.warehouses import empty_warehouse

from tasks.core.receipts import Batch
from tasks.engine.batches import Work
from tasks.engine.runs import Run
from tasks.storage.recording.recorder import Recorder


@contextmanager
def working(folder: Path, wikipedia: Any, mode: Any = "record") -> Iterator[Work]:
    """Yield work whose calls to this Wikipedia are recorded in a folder, and served from there the next time."""
    folder.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(empty_warehouse(folder / "w.duckdb"), mode)
    services: Any = SimpleNamespace(wikipedia=wikipedia)
    run = Run(folder, {"params": {}}, {}, {}, services, recorder)
    try:
        yield Work(Batch(run=str(folder), stage="evidence", index=0, key="k" * 40), run)
    finally:
        recorder.close()
