"""What a build is told, and what it says of itself afterwards."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from tasks.core.calls import Mode
from tasks.settings import SHIPPED_WORLDS, default_warehouse


class RunOptions(BaseModel):
    """How a build is made; none of it changes what is built."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    world: str = "embedded"
    """`embedded`, `live` or the path of a world's TOML file."""
    graph: str | None = None
    """A local graph that takes the place of the world's Wikidata."""
    warehouse: Path | None = None
    """The DuckDB file; None: factmill.duckdb in factmill's home."""
    mode: Mode = "record"
    concurrency: int = 4
    """Batches worked on at once."""
    batch_size: int = 500
    """Rows a batch."""
    pinned_build: str | None = None
    """With mode replay: serve the very replies of this build, and publish nothing."""

    def absolute_world(self) -> str:
        """Return the world's name, or its path as it holds from any working directory."""
        return self.world if self.world in SHIPPED_WORLDS else str(Path(self.world).resolve())


class BuildReport(BaseModel):
    """What a build says of itself."""

    build_id: str
    benchmark: str
    world: str
    author: str
    inputs: int
    opened: int = 0
    """Rows that stages made beyond those handed to them: a question's paths, a path's translations."""
    rows: int
    rejects: int
    merged: int
    calls_sent: int
    calls_replayed: int
    tokens_in: int
    tokens_out: int
    cost_usd: float
    seconds: float
    warehouse: str
    up_to_date: bool = False
    """True when the build was there already and nothing had to be done."""
    unsettled: int = 0
    """Rows lost to passing failures of a service; the same command tries them again."""
    stages: list[dict[str, Any]] = []
    reasons: dict[str, dict[str, int]] = {}
    """Stage → reason → rejected rows."""
    tables: dict[str, dict[str, Any]] = {}
    """Published table → rows and SHA-256 of its Parquet bytes."""
    facts: dict[str, Any] = {}
    """What this benchmark reports beside (ambiguous names, levels)."""


def warehouse_of(options: RunOptions) -> Path:
    """Return the warehouse that the options name."""
    return (options.warehouse or default_warehouse()).expanduser().resolve()
