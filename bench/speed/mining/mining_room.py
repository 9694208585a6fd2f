"""Where a run of the mining benchmark works, and what it has measured."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from speed.mining.mining_tasks import Result, run_task


@dataclass(slots=True)
class Room:
    """Where one run of the benchmark works, and what it has measured."""

    folder: Path
    seed: int
    report: dict[str, Any] = field(default_factory=dict)
    bad: int = 0
    """How many comparisons failed."""

    def make_graph(self, edges: int) -> tuple[Path, Result]:
        """Make a graph unless it is there; return its folder and what it is like."""
        folder = self.folder / f"edges-{edges}-seed-{self.seed}"
        result = folder / "made.json"
        if not result.exists():
            made = run_task("make_graph", edges=edges, seed=self.seed, folder=folder)
            result.write_text(json.dumps(made))
        found: Result = json.loads(result.read_text())
        return folder, found

    def load_graph(self, edges: int) -> tuple[str, Result]:
        """Load a graph into ours, once in a run; return its name and what that took."""
        name = f"edges-{edges}"
        loads = self.report.setdefault("loads", {})
        if name not in loads:
            triples = self.write_triples(edges)
            loads[name] = run_task("load_ours", path=triples, name=name, home=self.home)
            triples.unlink()
            self.check(loads[name]["stored"]["edges"] == edges, f"{name}: stored edges are not those written")
        return name, loads[name]

    def write_triples(self, edges: int) -> Path:
        """Write the edges of a graph as N-Triples."""
        path = self.folder / f"edges-{edges}.nt"
        folder, _ = self.make_graph(edges)
        run_task("write_file", folder=folder, out=path, kind="edges", lines=0, seed=self.seed)
        return path

    @property
    def home(self) -> Path:
        """Folder of our graphs."""
        return self.folder / "graphs"

    def check(self, is_right: bool, what: str) -> None:
        """Take note of a comparison that failed."""
        if not is_right:
            self.bad += 1
            print(f"WRONG  {what}", flush=True)


def rate_of(result: Result, pairs: int) -> float:
    """Return pairs a second, the median of all runs."""
    return pairs / median(result["seconds"])
