"""Several builds at once on one warehouse, each a process: the bytes of builds alone, and no call asked twice.

    PYTHONPATH=tests python -m trials.four [--whole] [--folder DIR]

Without --whole: four builds of GRANOLA-EQ whose questions overlap. With it also one process a benchmark. Prints a line a
group; exits 1 when anything differs.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from trials.trial import Trial, count_calls, count_repeated, read_tables

OVERLAPPING = [["granola", "--limit", str(limit)] for limit in (400, 401, 402, 403)]
ALL = [["granola"], ["multihal"], ["biokalma"], ["slaq"], ["fanoutqa"]]


def build_at_once(trial: Trial, builds: Sequence[Sequence[str]]) -> list[str]:
    """Build at once in one warehouse, then each alone in another; return what is wrong."""
    wrong: list[str] = []
    shared, alone = trial.folder / "shared.duckdb", trial.folder / "alone.duckdb"
    command = [["build", *build, "--json", "--warehouse"] for build in builds]
    started = time.monotonic()
    processes = [trial.start(f"shared-{at}", [*each, str(shared)]) for at, each in enumerate(command)]
    told = [process.communicate() for process in processes]
    seconds = time.monotonic() - started
    wrong += [
        f"{build}: {err[-500:]}" for build, p, (_, err) in zip(builds, processes, told, strict=True) if p.returncode
    ]
    requests = trial.requests()
    total, twice = count_calls(shared)
    single = [trial.run("alone", [*each, str(alone)])[1] for each in command]
    once, _ = count_calls(alone)
    wrong += [
        f"{build}: other bytes than alone"
        for build, (out, _), tables in zip(builds, told, single, strict=True)
        if read_tables(out) != tables
    ]
    repeated = count_repeated(requests)
    if twice or total != once:
        wrong.append(f"{twice} calls asked twice; {total} were asked at once, {once} one after the other")
    wrong += [f"left behind: {each}" for each in [*trial.find_orphans(), *trial.find_litter(shared)]]
    print(
        f"{len(builds)} at once: {total} calls, {twice} twice; {len(requests)} requests, {repeated} repeated; "
        f"{seconds:.0f} s; {'; '.join(wrong) or 'same bytes'}",
        flush=True,
    )
    return wrong


def main() -> int:
    """Try both groups."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--whole", action="store_true")
    whole = parser.parse_args().whole
    wrong: list[str] = []
    for builds in [OVERLAPPING, ALL] if whole else [OVERLAPPING]:
        with tempfile.TemporaryDirectory() as folder:
            wrong += build_at_once(Trial(Path(folder)), builds)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
