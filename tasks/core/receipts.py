"""Batches and receipts: the only things that travel between a flow and its tasks, and how they are told. Rows never do."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

SUMMED = (
    "rows_in",
    "rejects",
    "merged",
    "calls_sent",
    "calls_replayed",
    "tokens_in",
    "tokens_out",
    "cost_usd",
)
"""Counts of a receipt that a stage adds up, beside its rows."""
DRAWING = "draw_pilot"
"""Stage in which a pilot draws its rows (engine/building.py)."""


class Batch(BaseModel):
    """A range of a stage's input rows, or one unit of a source (a relation) for the first stage."""

    model_config = ConfigDict(frozen=True)

    run: str
    """Folder of the run's files."""
    stage: str
    index: int
    key: str
    """Digest of the build's lock, the stage and the input rows: the same key gives the same shard."""
    files: tuple[str, ...] = ()
    """Shards of the stage before, in order, that hold the range."""
    start: int = 0
    """First row of the range, counted over `files`."""
    stop: int = 0
    """Row behind the last."""
    unit: str = ""
    """What to read, for a first stage: a relation's PID."""


class Receipt(BaseModel):
    """What a finished batch leaves in the flow's hands."""

    model_config = ConfigDict(frozen=True)

    stage: str
    index: int
    key: str
    shard: str
    """Path of the shard without its endings (.rows.parquet, .rejects.parquet, …)."""
    rows_in: int
    rows: int
    rejects: int
    merged: int
    digest: str
    """SHA-256 of the rows' Parquet bytes."""
    calls_sent: int = 0
    calls_replayed: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0
    drawn: Mapping[str, float] = {}
    """Of a pilot's drawing: row that goes on → its size, in means of all rows."""
    unsettled: int = 0
    """Rows lost to a passing failure of a service; a batch with any is done again by the next run."""

    def found_again(self) -> "Receipt":
        """Return the receipt of a batch that an earlier run finished: this run sent none of its calls."""
        return self.model_copy(
            update={"calls_sent": 0, "calls_replayed": self.calls_sent + self.calls_replayed, "seconds": 0.0}
        )


_MOST_UNITS = 3


def name_batch(batch: Batch, units: Sequence[str], size: int, rows: int) -> str:
    """Return a batch in words: its stage, the units of the source that its rows come from, their range.

    `size`: rows of a full batch, 0 for one that reads a source; `rows`: of all batches.
    """
    named = ",".join(units[:_MOST_UNITS]) + (f" +{len(units) - _MOST_UNITS}" if len(units) > _MOST_UNITS else "")
    start = batch.index * size
    # in ASCII: the graph of a run has no other letters
    told = f"rows {start + 1:,}-{min(start + size, rows):,}" if rows else "no rows"
    return " ".join(filter(None, [batch.stage, named, told if size else ""]))


def describe_stage(summary: Mapping[str, Any], reasons: Mapping[str, int]) -> str:
    """Return what a stage did, in a line; `reasons`: reason → its rejected rows."""
    told = [f"{summary['rows_in']:,} rows in, {summary['rows_out']:,} out"]
    left = f"{name_left(summary['stage'])} ({describe_reasons(reasons)})"
    told += [f"{summary['rejects']:,} {left}"] if summary["rejects"] else []
    told += [f"{summary['merged']:,} merged"] if summary["merged"] else []
    if summary["calls_sent"] or summary["calls_replayed"]:
        told.append(f"calls {summary['calls_sent']:,} sent {summary['calls_replayed']:,} replayed")
    told += [f"US$ {summary['cost_usd']:.4f}"] if summary["cost_usd"] else []
    return f"{summary['stage']}: {', '.join(told)}, {summary['seconds']:.1f} s"


def name_left(stage: str) -> str:
    """Return what the rows are called that a stage does not pass on for a reason: those that a pilot leaves are not lost."""
    return "not drawn" if stage == DRAWING else "rejected"


def describe_reasons(reasons: Mapping[str, int]) -> str:
    """Return reasons of rejects with their counts, as given."""
    return ", ".join(f"{reason} {count:,}" for reason, count in reasons.items())
