"""Compare rebuilds since an earlier build with full rebuilds, after changing a share of articles and items.

    python bench trials.since [--share 0.05] [--seed 1] [--rows 0] [--benchmark NAME …] [--embedded]

For each benchmark, builds it, changes the share, rebuilds with `--since last` in the same warehouse and in full in a
new one, and compares the tables byte for byte. Prints the number of calls that each rebuild sent; exits 1 when
tables differ. The world is a copy of the embedded one with its own addresses and with models on a server. With
`--embedded` it is the embedded world itself with its own author; the identities of its services change with every
change of its files.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from scripts import ROOT, read_options
from support.commands.command import Factmill
from support.habits.runs import small_arguments
from support.habits.server import HabitsServer
from support.processes.standing_prefect import standing_server, wait_ready
from support.worlds.planted_world import PlantedWorld, describe_models, stand_in
from support.worlds.replies import replying

from factmill.flows.prefect_server import make_prefect_environment
from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.engine.naming.identities import embedded_world_identity

BENCHMARKS = ("granola", "multihal", "biokalma", "slaq", "fanoutqa")


@dataclass(frozen=True)
class Beside:
    """A rebuild since an earlier build, and a full rebuild of the same world."""

    benchmark: str
    since: dict[str, Any]
    full: dict[str, Any]

    def __str__(self) -> str:
        result = self.since["since"]
        sent, of_all = self.since["calls_sent"], self.full["calls_sent"]
        undecidable = sum(result["undecidable"].values())
        same = "same bytes" if self.since["tables"] == self.full["tables"] else "OTHER BYTES"
        return (
            f"{self.benchmark:9} {of_all:6} {sent:6} {100 * sent / max(of_all, 1):6.1f} %  {result['changed']:6} {undecidable:6} "
            f"{result['kept']:6} {result['lasting']:6} {result['requests']:6}   {same}"
        )


def main() -> int:
    """Compare the benchmarks that the options name."""
    given = read_options(
        __doc__,
        share=0.05,
        seed=1,
        rows=(0, "Size of the sources, about; 0: all of them."),
        benchmark={"action": "append", "choices": BENCHMARKS},
        embedded=(False, "The embedded world itself and its author."),
    )
    if "PREFECT_HOME" not in os.environ:  # Prefect reads its settings at import, and it is already imported
        with tempfile.TemporaryDirectory() as folder:
            settings = {**os.environ, **make_prefect_environment(Path(folder) / "home")}
            return subprocess.run(
                [sys.executable, str(ROOT / "bench"), *sys.argv], env=settings, check=False
            ).returncode
    wrong = 0
    print("benchmark   full  since          changed undec.   kept   last  looks")
    with tempfile.TemporaryDirectory() as folder, standing_server() as api:
        wait_ready(api)
        home = Path(os.environ.get("FACTMILL_HOME") or f"{folder}/home")
        compare = compare_embedded if given.embedded else compare_served
        size = Size(given.rows, given.share, given.seed)
        for found in compare(Path(folder), Factmill(home, api), given.benchmark or BENCHMARKS, size):
            print(found, flush=True)
            wrong += found.since["tables"] != found.full["tables"]
    return 1 if wrong else 0


@dataclass(frozen=True)
class Size:
    """The number of rows to build and the share to change."""

    rows: int
    share: float
    seed: int


def compare_served(folder: Path, factmill: Factmill, benchmarks: Sequence[str], size: Size) -> Iterator[Beside]:
    """Build, change a share, rebuild since then and in full; yield each benchmark's two rebuilds."""
    planted = PlantedWorld(folder, factmill.home)
    world = folder / "planted.toml"

    def build(name: str, benchmark: str, *more: str) -> dict[str, Any]:
        options = ["--world", world, *name_sources(benchmark), *more]
        return _build(factmill, folder, name, benchmark, size, options)

    with closing(HabitsServer()) as server:
        with planted.served() as urls:
            world.write_text(planted.describe(urls, describe_models(server)), "utf-8")
            for each in benchmarks:
                build("w", each)
        planted.plant(size.share, size.seed)
        with planted.served():
            for each in benchmarks:
                yield Beside(each, build("w", each, "--since", "last"), build("full", each))


def compare_embedded(folder: Path, factmill: Factmill, benchmarks: Sequence[str], size: Size) -> Iterator[Beside]:
    """Do the same with the embedded world, whose services' identities change with any of its files."""
    planted = PlantedWorld(folder, factmill.home)
    for each in benchmarks:
        _build(factmill, folder, "w", each, size, [])
    # before the day of its builds, so that they read the changed articles
    planted.plant(size.share, size.seed, datetime(2025, 12, 20, tzinfo=UTC))
    with pytest.MonkeyPatch.context() as patch, replying():
        stand_in(patch, planted.files)
        try:
            for each in benchmarks:
                since = _build(factmill, folder, "w", each, size, ["--since", "last"])
                yield Beside(each, since, _build(factmill, folder, "full", each, size, []))
        finally:
            patch.undo()
            embedded_world_identity.cache_clear()


def _build(
    factmill: Factmill, folder: Path, name: str, benchmark: str, size: Size, options: Sequence[str | Path]
) -> dict[str, Any]:
    arguments = [*(small_arguments(benchmark, size.rows, folder) if size.rows else []), *options]
    ran = factmill("build", benchmark, *arguments, "--warehouse", folder / f"{name}.duckdb", "--json")
    if ran.code:
        raise RuntimeError(f"{benchmark}, {name} ends with {ran.code}: {ran.err[-3000:]}")
    report: dict[str, Any] = ran.json
    return report


def name_sources(benchmark: str) -> list[str]:
    """Return the options for another world to read the embedded world's sources."""
    sources = ASSETS_ROOT / "data" / "world" / "sources"
    if benchmark == "granola":
        return ["--source", str(sources / "entityquestions")]
    if benchmark == "biokalma":
        return ["--source", str(sources / "biokalma" / "pairs.jsonl")]
    if benchmark == "multihal":
        return ["--linker", "falcon"]
    return []
