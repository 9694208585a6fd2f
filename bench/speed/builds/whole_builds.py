"""Measure wall time and peak memory of whole GRANOLA-EQ builds as a user runs them, one line per command.

    python bench speed.builds.whole_builds                              the embedded world
    python bench speed.builds.whole_builds --graph-from DUMP.nt.gz --source FOLDER      and real input

Each command runs in its own process. Memory is the largest resident set of that process; its Prefect server is another
process and is not included. Exits 1 when builds that should be identical have different bytes.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from scripts import ROOT, read_options
from support.worlds.replies import COMMAND as REPLYING

COMMAND = [sys.executable, "-c", REPLYING]


def run(title: str, arguments: list[str], home: Path) -> dict[str, Any]:
    """Run one command, print its figures, and return the last JSON object it printed."""
    environment = {**os.environ, "FACTMILL_HOME": str(home), "PYTHONPATH": f"{ROOT}:{ROOT}/tests"}
    started = time.perf_counter()
    process = subprocess.Popen(
        [*COMMAND, *arguments, "--json"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    out = process.stdout.read() if process.stdout else b""
    err = process.stderr.read() if process.stderr else b""
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    code = os.waitstatus_to_exitcode(status)
    if code:
        sys.exit(f"{title}: exit code {code}\n{err.decode()[-3000:]}")
    result: dict[str, Any] = json.loads(out.decode().strip().splitlines()[-1])
    counts = " ".join(
        f"{key}={result[key]}"
        for key in ("inputs", "opened", "rows", "rejects", "merged", "calls_sent", "calls_replayed", "agrees")
        if key in result
    )
    print(f"{title:46} {seconds:7.1f} s {usage.ru_maxrss / 1024:7.0f} MB  {counts}", flush=True)
    if "rows" in result and result["inputs"] + result["opened"] != (
        result["rows"] + result["rejects"] + result["merged"]
    ):
        sys.exit(f"{title}: rows do not add up")
    return result


def measure(label: str, arguments: list[str], folder: Path) -> bool:
    """Build, build again, verify, and build with other concurrency and batch size; return True when all bytes agree."""
    home = folder / "home"
    first_file, other_file = folder / f"{label}.duckdb", folder / f"{label}-other.duckdb"
    first = run(f"{label}: first build", ["build", "granola", *arguments, "--warehouse", str(first_file)], home)
    second = run(f"{label}: second build", ["build", "granola", *arguments, "--warehouse", str(first_file)], home)
    forced = run(
        f"{label}: again with --force",
        ["build", "granola", *arguments, "--force", "--warehouse", str(first_file)],
        home,
    )
    verified = run(f"{label}: verify", ["verify", "latest:granola", "--warehouse", str(first_file)], home)
    other = run(
        f"{label}: concurrency 1, batches of 97",
        ["build", "granola", *arguments, "--concurrency", "1", "--batch-size", "97", "--warehouse", str(other_file)],
        home,
    )
    same = first["tables"] == second["tables"] == forced["tables"] == other["tables"] and verified["agrees"]
    print(
        f"{label}: bytes {'identical' if same else 'DIFFER'}; calls of the second build and of --force: {second['calls_sent']}, {forced['calls_sent']}"
    )
    print(f"{label}: {json.dumps(first['facts'])}")
    return bool(same and second["calls_sent"] == forced["calls_sent"] == 0)


def main() -> int:
    """Run the builds that the options select."""
    options = read_options(
        __doc__, graph_from=(Path, "N-Triples to load as a graph"), source=(Path, "folder of EntityQuestions files")
    )
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        good = measure("embedded", [], folder)
        if options.graph_from:
            run("graph load", ["graph", "load", str(options.graph_from.resolve()), "--name", "real"], folder / "home")
            good &= measure("facts of the graph", ["--graph", "real"], folder)
            if options.source:
                good &= measure(
                    "EntityQuestions", ["--graph", "real", "--source", str(options.source.resolve())], folder
                )
    return 0 if good else 1
