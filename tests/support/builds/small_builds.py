"""Make small builds for evaluations, once for all test processes, and copy them."""

import fcntl
import shutil
from dataclasses import dataclass
from pathlib import Path

from support.commands.command import FEW_QUESTIONS, Factmill
from support.worlds.replies import replying

SMALL = {
    "granola": ("--relations", "P19", "--limit", "12"),
    "multihal": ("--foundations", "simpleqa", "--languages", "eng"),
    "slaq": ("--categories", "Astronomy"),
    "fanoutqa": FEW_QUESTIONS,
    "biokalma": ("--limit", "9"),
}
"""Benchmark → options that make its build small."""


@dataclass(frozen=True)
class SmallBuilds:
    """Makes and copies the builds."""

    factmill: Factmill
    folder: Path
    """Shared by all processes."""

    def copy(self, benchmark: str, warehouse: Path) -> str:
        """Put a warehouse with a benchmark's small build where none exists yet, and return the build's id."""
        self.folder.mkdir(exist_ok=True)
        made, result = self.folder / f"{benchmark}.duckdb", self.folder / f"{benchmark}.id"
        with (self.folder / f"{benchmark}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not result.exists():
                with replying():
                    ran = self.factmill("build", benchmark, *SMALL[benchmark], "--warehouse", made, "--json")
                assert ran.code == 0, ran.err
                result.write_text(ran.json["build_id"], "utf-8")
        assert not warehouse.exists()
        shutil.copy(made, warehouse)
        return result.read_text("utf-8")
