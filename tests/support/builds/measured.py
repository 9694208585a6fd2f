"""Bundle a build with the command that evaluates models on it."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.builds.small_builds import SmallBuilds
from support.commands.command import Factmill, Ran

from factmill.tasks.storage.builds import load_published_table
from factmill.tasks.storage.warehouse import open_warehouse


@dataclass(frozen=True)
class Measured:
    """A build of one benchmark, in its own warehouse."""

    factmill: Factmill
    benchmark: str
    warehouse: Path
    build_id: str

    @classmethod
    def small(cls, small_builds: SmallBuilds, benchmark: str, folder: Path) -> "Measured":
        warehouse = folder / "w.duckdb"
        return cls(small_builds.factmill, benchmark, warehouse, small_builds.copy(benchmark, warehouse))

    @property
    def place(self) -> tuple[str | Path, ...]:
        return ("--build", self.build_id, "--warehouse", self.warehouse, "--json")

    def run(self, *options: str | Path, **environment: str) -> Ran:
        return self.factmill("evaluate", self.benchmark, *options, *self.place, **environment)

    def __call__(self, *options: str | Path, **environment: str) -> Any:
        """Evaluate and return the --json output."""
        ran = self.run(*options, **environment)
        assert ran.code == 0, ran.err
        return ran.json

    def start_and_kill(self, is_due: Callable[[], bool], *options: str | Path, **environment: str) -> None:
        """Start an evaluation, and kill it when it is due and has been nearly idle for 1 s."""
        process = self.factmill.start("evaluate", self.benchmark, *options, *self.place, **environment)
        try:
            while not is_due():
                assert process.poll() is None, process.communicate()[1]
                time.sleep(0.05)
            _wait_idle(process.pid)
        finally:
            process.kill()
            process.communicate()

    def verify(self, expected: Any, **environment: str) -> None:
        """Check that an evaluation is rebuilt byte for byte."""
        ran = self.factmill("verify", expected["evaluation_id"], "--warehouse", self.warehouse, "--json", **environment)
        assert ran.json["agrees"], ran.err

    def read(self, table: str, build_id: str) -> list[dict[str, Any]]:
        with open_warehouse(self.warehouse) as db:
            rows: list[dict[str, Any]] = load_published_table(db, build_id, table).to_pylist()
        return rows


def _wait_idle(pid: int, quiet_s: float = 1.0) -> None:
    """Wait, at most a minute, until a process is nearly idle: by then its responses are recorded."""
    begun = since = time.monotonic()
    computed = -1.0
    while since + quiet_s > (now := time.monotonic()) < begun + 60:
        ticks = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[11:13]
        if (seconds := sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")) > computed + 0.05:
            computed, since = seconds, now
        time.sleep(0.05)


def list_overall(expected: Any) -> dict[tuple[str, str], Any]:
    """Return (setting, metric) → the metric over all items."""
    return {(each["setting"], each["metric"]): each for each in expected["metrics"] if not each["group_by"]}
