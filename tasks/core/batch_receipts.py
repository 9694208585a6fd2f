"""Batches and receipts, the only data that pass between a flow and its tasks (rows never do), and their text forms."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

SUMMED_COUNTS = ("rows_in", "rejects", "merged", "calls_sent", "calls_replayed", "tokens_in", "tokens_out", "cost_usd")
"""Counts of a receipt that a stage adds up, in addition to its rows."""
PILOT_DRAW_STAGE = "draw_pilot"
"""Name of the stage in which a pilot draws its rows (engine/building.py)."""


class StageBatch(BaseModel):
    """A range of a stage's input rows, or one unit of a source (a relation) for the first stage."""

    model_config = ConfigDict(frozen=True)

    run: str
    """Folder of the run's files."""
    stage: str
    index: int
    key: str
    """Digest of the build's manifest, the stage and the input rows: the same key gives the same shard."""
    files: tuple[str, ...] = ()
    """Shards of the previous stage that hold the range, in order."""
    start: int = 0
    """First row of the range, counted over `files`."""
    stop: int = 0
    """End of the range, exclusive."""
    unit: str = ""
    """Unit to read, for a first stage: a relation's PID."""


class BatchReceipt(BaseModel):
    """Result of a finished batch, as the flow gets it."""

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
    calls_sent: int
    calls_replayed: int
    tokens_in: int
    tokens_out: int
    cost_usd: float
    seconds: float
    drawn: Mapping[str, float]
    """In a pilot's drawing: drawn row → its size, as a multiple of the mean of all rows."""
    unsettled: int
    """Rows lost to transient failures of a service; the next run repeats a batch with any."""

    def as_replayed(self) -> "BatchReceipt":
        """Return the receipt as that of a batch finished by an earlier run, with its sent calls counted as replayed."""
        return self.model_copy(
            update={"calls_sent": 0, "calls_replayed": self.calls_sent + self.calls_replayed, "seconds": 0.0}
        )


_MAX_UNITS_NAMED = 3


def format_batch_name(batch: StageBatch, units: Sequence[str], size: int, rows: int) -> str:
    """Format a batch by stage, units and range; `size`: rows of a full batch (0: a source), `rows`: of all batches."""
    named = ",".join(units[:_MAX_UNITS_NAMED]) + (
        f" +{len(units) - _MAX_UNITS_NAMED}" if len(units) > _MAX_UNITS_NAMED else ""
    )
    start = batch.index * size
    # in ASCII: the graph of a run has no other letters
    row_range = f"rows {start + 1:,}-{min(start + size, rows):,}" if rows else "no rows"
    return " ".join(filter(None, [batch.stage, named, row_range if size else ""]))


def format_stage_summary(summary: Mapping[str, Any], reasons: Mapping[str, int]) -> str:
    """Format the counts of a stage as one line; `reasons`: reason → number of rejected rows."""
    counts = [f"{summary['rows_in']:,} rows in, {summary['rows_out']:,} out"]
    left = f"{choose_rejected_or_not_drawn_label(summary['stage'])} ({format_reason_counts(reasons)})"
    counts += [f"{summary['rejects']:,} {left}"] if summary["rejects"] else []
    counts += [f"{summary['merged']:,} merged"] if summary["merged"] else []
    if summary["calls_sent"] or summary["calls_replayed"]:
        counts.append(f"calls {summary['calls_sent']:,} sent {summary['calls_replayed']:,} replayed")
    counts += [f"US$ {summary['cost_usd']:.4f}"] if summary["cost_usd"] else []
    return f"{summary['stage']}: {', '.join(counts)}, {summary['seconds']:.1f} s"


def choose_rejected_or_not_drawn_label(stage: str) -> str:
    """Return the word for a stage's rejects: "not drawn" in a pilot's drawing, whose rows are not lost."""
    return "not drawn" if stage == PILOT_DRAW_STAGE else "rejected"


def format_reason_counts(reasons: Mapping[str, int]) -> str:
    """Format reasons of rejects with their counts, in the given order."""
    return ", ".join(f"{reason} {count:,}" for reason, count in reasons.items())
