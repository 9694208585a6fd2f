"""Batches and receipts: the only things that travel between a flow and its tasks. Rows never do."""

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
    unsettled: int = 0
    """Rows lost to a passing failure of a service; a batch with any is done again by the next run."""
