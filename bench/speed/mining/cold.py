"""Measure the pages fetched and bytes read per pair in a graph that does not fit into memory, as well as the time.

    python bench speed.mining.cold [--edges 2] [--pairs 5000] [--memory 16] [--folder FOLDER]     as root, on Linux

Runs processes limited to --memory MiB (a memory control group, removed at the end), one after the other, each starting
with no page of the graph in memory. Pages are fetched one by one, as for a graph larger than memory, or read ahead, as
otherwise. Pairs are sorted by place, as in batches, or taken in the order drawn. Reading ahead uses few pairs, since
each is slow.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scripts import read_options
from speed.mining.mining_tasks import MIB, drop_pages, run_task
from speed.mining.mining_workspace import Workspace

WAYS = {"one by one": 0.0, "read ahead": float("inf")}
FEW = 50


def find(folder: Path, pairs: Path, way: str, count: int, at_once: int, group: Path) -> None:
    """Find paths in this process, under the control group; print the cost as JSON."""
    from factmill.tasks.core.wikidata_paths import PathSearchOptions
    from factmill.tasks.graph import arrays, paths

    paths.compile_path_kernels()
    arrays._READAHEAD_MEMORY_SHARE = WAYS[way]
    subjects, objects = np.load(pairs)[:, :count].copy()
    drop_pages(folder)
    (group / "cgroup.procs").write_text(str(os.getpid()))
    opened = arrays.open_mapped_graph_arrays(folder)
    faults, size, started = _count_faults(), _count_bytes(), time.perf_counter()
    found = 0
    for first in range(0, count, at_once):
        some = slice(first, first + at_once)
        found += len(
            paths.find_item_paths(opened, subjects[some], objects[some], PathSearchOptions(always_two_hops=True)).paths
        )
    seconds = time.perf_counter() - started
    print(
        json.dumps(
            {"faults": _count_faults() - faults, "bytes": _count_bytes() - size, "seconds": seconds, "paths": found}
        )
    )


def _count_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt


def _count_bytes() -> int:
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["read_bytes"])


def make_group(memory_mib: int) -> Path:
    """Return a new control group limited to `memory_mib` MiB, including file pages."""
    old = Path("/sys/fs/cgroup/memory")
    group = (old if old.is_dir() else old.parent) / f"cold-{os.getpid()}"
    group.mkdir()
    limit = group / ("memory.limit_in_bytes" if old.is_dir() else "memory.max")
    limit.write_text(str(memory_mib * MIB))
    return group


def main() -> int:
    """Print a line for each way of fetching and each order."""
    options = read_options(
        __doc__,
        edges=(2.0, "in millions"),
        pairs=5000,
        memory=(16, "in MiB"),
        seed=7,
        folder=(Path, "work here and use the graph loaded here before"),
    )
    folder = options.folder or Path(tempfile.mkdtemp(prefix="cold-"))
    workspace, edges = Workspace(folder.resolve(), options.seed), round(options.edges * 1_000_000)
    graph = workspace.home / f"edges-{edges}"
    if not graph.exists():
        workspace.load_graph(edges)
    run_task(
        "make_pairs",
        folder=workspace.make_graph(edges)[0],
        count=options.pairs,
        sets=1,
        seed=workspace.seed,
        out=folder,
    )
    size = sum(file.stat().st_size for file in graph.glob("*.npy"))
    print(f"{edges:,} edges, {size / MIB:.0f} MiB of arrays, {options.memory} MiB of memory")
    paths: dict[int, int] = {}
    for way in WAYS:
        count = options.pairs if way == "one by one" else min(FEW, options.pairs)
        for order, at_once in (("by place", count), ("as drawn", 1)):
            group = make_group(options.memory)
            try:
                asked = [str(graph), str(folder / "pairs-0.npy"), way, str(count), str(at_once), str(group)]
                output = subprocess.run([sys.executable, __file__, "--find", *asked], stdout=-1, text=True, check=True)
            finally:
                group.rmdir()
            took = json.loads(output.stdout)
            paths[count] = paths.get(count, took["paths"])
            print(
                f"{way}, {order}: {count:,} pairs, {took['faults'] / count:.1f} pages fetched a pair,"
                f" {took['bytes'] / count / 1024:,.0f} KiB read a pair, {count / took['seconds']:,.0f} pairs/s"
                f"{'' if took['paths'] == paths[count] else ', OTHER PATHS'}",
                flush=True,
            )
    if not options.folder:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--find"]:
        graph_folder, pairs_file, asked_way, asked_count, asked_at_once, its_group = sys.argv[2:]
        find(Path(graph_folder), Path(pairs_file), asked_way, int(asked_count), int(asked_at_once), Path(its_group))
    else:
        sys.exit(main())
