"""Review queues in the warehouse: what builds flagged, and what reviewers decided about it.

A build publishes its queue as the table `<benchmark>_review`. Decisions belong to no build: they are imported once and
taken into the lock of every later build of the benchmark.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tasks.core.reviewing.review import Policy, Reviewing, ReviewItem
from tasks.errors import UsageError
from tasks.options import RunOptions, warehouse_of
from tasks.storage.builds import BuildRecord, find_build, published_names, published_table
from tasks.storage.warehouse import is_there, open_warehouse, read_model


def read_queue_of(warehouse: Path, build: BuildRecord) -> list[ReviewItem]:
    """Return the review queue of a build, by id; UsageError for a benchmark that has none."""
    table = f"{build.benchmark}_review"
    with open_warehouse(warehouse) as db:
        if table not in published_names(db, build.build_id):
            raise UsageError(f"{build.build_id} has no review queue: {build.benchmark} flags nothing")
        return [ReviewItem.model_validate(row) for row in published_table(db, build.build_id, table).to_pylist()]


def save_decisions(warehouse: Path, items: Sequence[ReviewItem]) -> int:
    """Keep the decisions among items, the newest about each; return how many there were. Open items are passed over."""
    decided = [item for item in items if item.decision != "open"]
    with open_warehouse(warehouse) as db:
        for item in decided:
            db.execute("DELETE FROM review_decisions WHERE id = ?", [item.id])
            db.execute(
                "INSERT INTO review_decisions VALUES (?, ?, ?, ?)",
                [item.id, item.benchmark, json.dumps(item.model_dump(mode="json")), datetime.now(UTC)],
            )
    return len(decided)


def load_decisions(warehouse: Path, benchmark: str) -> list[ReviewItem]:
    """Return all decisions about rows of a benchmark, by id."""
    if not is_there(warehouse):
        return []
    with open_warehouse(warehouse) as db:
        found = db.execute(
            "SELECT id, item FROM review_decisions WHERE benchmark = ? ORDER BY id", [benchmark]
        ).fetchall()
    return [read_model(ReviewItem, item, f"review_decisions.item of {item_id}") for item_id, item in found]


def open_review(benchmark: str, policy: Policy, run: RunOptions) -> Reviewing:
    """Return what a build goes by where it flags rows: the decisions imported so far, or those of the build that it replays."""
    warehouse = warehouse_of(run)
    if run.pinned_build:
        return Reviewing.model_validate(find_build(warehouse, run.pinned_build).lock["params"]["reviewing"])
    decisions = (item.model_copy(update={"file": "", "line": 0}) for item in load_decisions(warehouse, benchmark))
    return Reviewing(policy="auto" if policy == "auto" else "manual", decisions=tuple(decisions))
