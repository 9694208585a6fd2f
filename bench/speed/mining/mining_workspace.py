"""The folder, graphs and results of one run of the mining benchmark."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from speed.mining.mining_tasks import Result, run_task


@dataclass(slots=True)
class Workspace:
    """One run of the benchmark: its folder, seed and results."""

    folder: Path
    seed: int
    report: dict[str, Any] = field(default_factory=dict)
    bad: int = 0
    """Number of failed comparisons."""

    def make_graph(self, edges: int) -> tuple[Path, Result]:
        """Return a graph's folder and statistics; make the graph if it is missing."""
        folder = self.folder / f"edges-{edges}-seed-{self.seed}"
        result = folder / "made.json"
        if not result.exists():
            made = run_task("make_graph", edges=edges, seed=self.seed, folder=folder)
            result.write_text(json.dumps(made))
        found: Result = json.loads(result.read_text())
        return folder, found

    def load_graph(self, edges: int) -> tuple[str, Result]:
        """Load a graph into factmill, once per run; return its name and the cost of the load."""
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
        """Folder of factmill's graphs."""
        return self.folder / "graphs"

    def check(self, is_right: bool, what: str) -> None:
        """Count and print a failed comparison."""
        if not is_right:
            self.bad += 1
            print(f"WRONG  {what}", flush=True)


def rate_of(result: Result, pairs: int) -> float:
    """Return the median pairs per second of all runs."""
    return pairs / median(result["seconds"])
