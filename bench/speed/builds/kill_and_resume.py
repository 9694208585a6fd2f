"""Kill a build with SIGKILL at several moments, run the same command again, and compare with an undisturbed build.

    python bench speed.builds.kill_and_resume [--graph-from DUMP.nt.gz] [-- more arguments of factmill build granola]

For each moment a new home and warehouse. Prints a line a moment: what had been recorded when it was killed, what the
second run asked, whether any recorded call was asked twice, and whether the table is the same. Exits 1 on a difference.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
from scripts import ROOT, read_options
from support.worlds.replies import COMMAND as REPLYING

COMMAND = [sys.executable, "-c", REPLYING]
MOMENTS = [
    ("before the first stage", "starting Prefect", 0),
    ("while names are looked up", "extract_question_entities", 150),
    ("while items are described", "link_question_entities", 1),
    ("while views are counted", "describe_entities", 150),
    ("while the author answers", "measure_popularity", 50),
    ("while the judge scores", "generate_granular_answers", 50),
    ("at publishing", "remove_trivial_answers", 0),
]
"""(name, progress line to wait for, replies that must stand in the journal then); a local graph is asked nothing, so with
--graph-from the first moments come before any reply"""
PATIENCE_S = 5.0


def start(arguments: list[str], home: Path, warehouse: Path) -> "subprocess.Popen[str]":
    """Start a build."""
    environment = {**os.environ, "FACTMILL_HOME": str(home), "PYTHONPATH": f"{ROOT}:{ROOT}/tests"}
    command = [*COMMAND, "build", "granola", *arguments, "--warehouse", str(warehouse), "--json"]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )


def finish(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """Wait for a build and return its report."""
    out, err = process.communicate()
    if process.returncode:
        sys.exit(f"the build ended with {process.returncode}:\n{err[-3000:]}")
    result: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    return result


def count_journalled(warehouse: Path) -> int:
    """Return how many replies stand in journals that were not merged."""
    folder = warehouse.with_name(warehouse.name + ".runs") / "journal"
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("*.journal"))


def count_calls(warehouse: Path) -> tuple[int, int]:
    """Return the number of recorded calls and how many of them are repeats of another."""
    if not warehouse.exists():
        return 0, 0
    db = duckdb.connect(str(warehouse), read_only=True)
    total, distinct = db.execute("SELECT count(*), count(DISTINCT key) FROM calls").fetchone() or (0, 0)
    db.close()
    return total, total - distinct


def main() -> int:
    """Kill at every moment."""
    options = read_options(__doc__, graph_from=Path, arguments=[str])
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        home, arguments = Path(scratch) / "home", list(options.arguments)
        if options.graph_from:
            environment = {**os.environ, "FACTMILL_HOME": str(home), "PYTHONPATH": f"{ROOT}:{ROOT}/tests"}
            load = [*COMMAND, "graph", "load", str(options.graph_from.resolve()), "--name", "real"]
            subprocess.run(load, env=environment, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
            arguments += ["--graph", "real"]
        undisturbed = finish(start(arguments, home, Path(scratch) / "undisturbed.duckdb"))
        for number, (name, marker, least) in enumerate(MOMENTS):
            warehouse = Path(scratch) / f"{number}.duckdb"
            process = start(arguments, home, warehouse)
            assert process.stderr is not None
            while not (line := process.stderr.readline()).startswith(marker):
                if not line:
                    sys.exit(f"{name}: the build ended before {marker!r}")
            deadline = time.monotonic() + (0.0 if options.graph_from and least > 50 else PATIENCE_S)
            while count_journalled(warehouse) < least and time.monotonic() < deadline:
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
            process.wait()
            journalled, (merged, _) = count_journalled(warehouse), count_calls(warehouse)
            again = finish(start(arguments, home, warehouse))
            total, repeats = count_calls(warehouse)
            same = again["tables"] == undisturbed["tables"]
            bad += not same or repeats > 0 or total != journalled + merged + again["calls_sent"]
            print(
                f"{name:28} recorded then {merged + journalled:>6} (of them {journalled:>6} only in the journal), asked again "
                f"{again['calls_sent']:>6}, in all {total:>6}, twice {repeats}, table {'the same' if same else 'DIFFERENT'}",
                flush=True,
            )
    return 1 if bad else 0
