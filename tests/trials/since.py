"""A rebuild since an earlier build beside a full one: a share of articles and items is changed, in all five benchmarks.

    PYTHONPATH=tests python -m trials.since [--share 0.05] [--seed 1] [--rows 8] [--benchmark NAME …] [--folder FOLDER]

Builds each benchmark, changes the share, rebuilds with `--since last` in the same warehouse and in full in a new one, and
holds the tables to each other, byte for byte. Prints how many calls each of the two sent; exits 1 when anything is wrong.
The world is a copy of the embedded one behind addresses of its own, with models on a server.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.habits.runs import small_arguments
from support.habits.server import HabitsServer
from support.work.planted_world import PlantedWorld, describe_models
from trials.trial import Trial

from tasks.assets import ROOT
from tasks.engine.services import embedded_graph

BENCHMARKS = ("granola", "multihal", "biokalma", "slaq", "fanoutqa")


@dataclass(frozen=True)
class Beside:
    """A rebuild since an earlier build, and a full one of the same world."""

    benchmark: str
    since: dict[str, Any]
    full: dict[str, Any]

    def __str__(self) -> str:
        told = self.since["since"]
        sent, of_all = self.since["calls_sent"], self.full["calls_sent"]
        undecidable = sum(told["undecidable"].values())
        same = "same bytes" if self.since["tables"] == self.full["tables"] else "OTHER BYTES"
        return (
            f"{self.benchmark:9} {of_all:6} {sent:6} {100 * sent / max(of_all, 1):6.1f} %  {told['changed']:6} {undecidable:6} "
            f"{told['kept']:6} {told['lasting']:6} {told['requests']:6}   {same}"
        )


def main() -> int:
    """Compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--benchmark", action="append", choices=BENCHMARKS)
    parser.add_argument("--folder", help="A folder, which stays.")
    given = parser.parse_args()
    wrong = 0
    print("benchmark   full  since          changed undec.   kept   last  looks")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(given.folder or temporary)
        for found in compare(Trial(folder), given.benchmark or BENCHMARKS, given.rows, given.share, given.seed):
            print(found, flush=True)
            wrong += found.since["tables"] != found.full["tables"]
    return 1 if wrong else 0


def compare(trial: Trial, benchmarks: Sequence[str], rows: int, share: float, seed: int) -> Iterator[Beside]:
    """Build, change a share, rebuild since then and in full; yield what each benchmark came to."""
    folder = trial.folder
    planted = PlantedWorld(folder, trial.home)
    world = folder / "planted.toml"

    def build(name: str, benchmark: str, *more: str) -> dict[str, Any]:
        arguments = [*small_arguments(benchmark, rows, folder), *name_sources(benchmark)]
        command = ["build", benchmark, "--world", str(world), "--warehouse", str(folder / f"{name}.duckdb"), "--json"]
        code, out, err = trial.tell(f"{benchmark}-{more}", [*command, *arguments, *more])
        if code:
            raise RuntimeError(f"{benchmark}, {name} ends with {code}: {err[-3000:]}")
        report: dict[str, Any] = json.loads(out.splitlines()[-1])
        return report

    with embedded_graph(trial.home) as graph:
        server = HabitsServer(graph)
        try:
            with planted.served() as urls:
                world.write_text(planted.describe(urls, describe_models(server)), "utf-8")
                for each in benchmarks:
                    build("w", each)
            planted.plant(share, seed)
            with planted.served():
                for each in benchmarks:
                    yield Beside(each, build("w", each, "--since", "last"), build("full", each))
        finally:
            server.close()


def name_sources(benchmark: str) -> list[str]:
    """Return the options by which a world that is not the embedded one reads that one's sources."""
    sources = ROOT / "data" / "world" / "sources"
    if benchmark == "granola":
        return ["--source", str(sources / "entityquestions")]
    if benchmark == "biokalma":
        return ["--source", str(sources / "biokalma" / "pairs.jsonl")]
    if benchmark == "multihal":
        return ["--linker", "falcon"]
    return []


if __name__ == "__main__":
    sys.exit(main())
