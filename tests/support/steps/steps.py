"""Run one step of a recipe over rows written in a test, without Prefect and without a build."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prefect import Task
from support.steps.warehouses import empty_warehouse

from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.core.rows import Row, make_arrow_table
from factmill.tasks.engine import runs
from factmill.tasks.engine.benchmark import BuildInputs
from factmill.tasks.engine.runs import BuildRun
from factmill.tasks.storage.recording.call_cache import CallCache
from factmill.tasks.storage.shards import has_shard_table, load_shard_table, write_shard_and_digest_rows_file
from factmill.tasks.storage.source_files import SourceFile


@dataclass(frozen=True)
class Left:
    """The result of a step on its rows."""

    rows: dict[str, dict[str, Any]]
    """Row id → row."""
    rejects: dict[str, tuple[str, str]]
    """Row id → reason, detail."""
    merged: dict[str, str]
    """Row id → id of the row into which it was merged."""
    extras: list[dict[str, Any]]
    receipt: BatchReceipt

    @property
    def reasons(self) -> dict[str, str]:
        """Return row id → reason of its reject."""
        return {row_id: reason for row_id, (reason, _) in self.rejects.items()}


def run_step(
    step: Task[..., BatchReceipt],
    rows: Sequence[Row],
    services: Any,
    folder: Path,
    patch: pytest.MonkeyPatch,
    inputs: BuildInputs | None = None,
    files: Mapping[str, Sequence[SourceFile]] | None = None,
) -> Left:
    """Run a step on a batch of rows with these services; its calls are recorded in `folder` and replayed from it."""
    folder.mkdir(parents=True, exist_ok=True)
    came_in = folder / "came-in"
    write_shard_and_digest_rows_file(came_in, {"rows": make_arrow_table(type(rows[0]), rows)})
    batch = StageBatch(run=str(folder), stage=step.name, index=0, key="k" * 40, files=(str(came_in),), stop=len(rows))
    return _run(step, batch, inputs, files or {}, services, patch)


def read_unit(
    step: Task[..., BatchReceipt],
    unit: str,
    services: Any,
    folder: Path,
    patch: pytest.MonkeyPatch,
    inputs: BuildInputs,
    files: Sequence[Path] = (),
) -> Left:
    """Run the first step of a recipe on one unit of its source: a relation, or `files`."""
    folder.mkdir(parents=True, exist_ok=True)
    batch = StageBatch(run=str(folder), stage=step.name, index=0, key="k" * 40, unit=unit)
    found = [SourceFile(path, path.name, digest_bytes(path.read_bytes())) for path in files]
    return _run(step, batch, inputs, {unit: found}, services, patch)


def _run(
    step: Task[..., BatchReceipt],
    batch: StageBatch,
    inputs: BuildInputs | None,
    files: Mapping[str, Sequence[SourceFile]],
    services: Any,
    patch: pytest.MonkeyPatch,
) -> Left:
    folder = Path(batch.run)
    recorder = CallCache(empty_warehouse(folder / "w.duckdb"), "record")
    world = getattr(services, "world", None)  # most steps' services are exactly those that they call
    models = {role: model.name for role, model in getattr(world, "models", {}).items()}
    lock = {"params": inputs.model_dump(mode="json") if inputs else {}, "models": models}
    origin = {
        "files": {
            unit: [[str(file.path), file.name, file.sha256, file.licence] for file in found]
            for unit, found in files.items()
        }
    }
    try:
        patch.setitem(runs._open_runs, batch.run, BuildRun(folder, lock, origin, {}, services, recorder))
        receipt = step.fn(batch)
    finally:
        recorder.close()
    assert receipt.rows_in == receipt.rows + receipt.rejects + receipt.merged
    return Left(
        {row["id"]: row for row in load_shard_table(receipt.shard, "rows").to_pylist()},
        {
            line["id"]: (line["reason"], line["detail"])
            for line in load_shard_table(receipt.shard, "rejects").to_pylist()
        },
        {line["id"]: line["into_id"] for line in load_shard_table(receipt.shard, "merged").to_pylist()},
        load_shard_table(receipt.shard, "extras").to_pylist() if has_shard_table(receipt.shard, "extras") else [],
        receipt,
    )
