"""A build with the command to measure models on it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.builds.small_builds import SmallBuilds
from support.commands.command import Factmill

from factmill.tasks.storage.builds import load_published_table
from factmill.tasks.storage.warehouse import open_warehouse


@dataclass(frozen=True)
class Measured:
    """A build of one benchmark, in a warehouse of its own."""

    factmill: Factmill
    benchmark: str
    warehouse: Path
    build_id: str

    @classmethod
    def small(cls, small_builds: SmallBuilds, benchmark: str, folder: Path) -> "Measured":
        warehouse = folder / "w.duckdb"
        return cls(small_builds.factmill, benchmark, warehouse, small_builds.copy(benchmark, warehouse))

    def __call__(self, *options: str | Path, **environment: str) -> Any:
        """Evaluate, and return what --json prints."""
        place = ("--build", self.build_id, "--warehouse", self.warehouse, "--json")
        ran = self.factmill("evaluate", self.benchmark, *options, *place, **environment)
        assert ran.code == 0, ran.err
        return ran.json

    def read(self, table: str, build_id: str) -> list[dict[str, Any]]:
        with open_warehouse(self.warehouse) as db:
            rows: list[dict[str, Any]] = load_published_table(db, build_id, table).to_pylist()
        return rows


def list_overall(told: Any) -> dict[tuple[str, str], Any]:
    """Return (setting, metric) → the metric over all items."""
    return {(each["setting"], each["metric"]): each for each in told["metrics"] if not each["group_by"]}
