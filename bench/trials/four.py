"""Run several builds at once on one warehouse and check that bytes match separate builds and no call repeats.

    python bench trials.four [--whole] [--kills 2] [--seed 1]

Each build is its own process. Without --whole: four builds of GRANOLA-EQ with overlapping questions. With --whole also
one process per benchmark. Then repeats each group, with some builds killed at random moments and restarted while the
others run. Prints a line per group; exits 1 when anything differs.
"""

import random
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from scripts import read_options
from trials.kills import stop
from trials.trial import Trial, count_calls, count_repeated, read_tables

OVERLAPPING = [["granola", "--limit", str(limit)] for limit in (400, 401, 402, 403)]
_LINES, _MOST_JOURNALLED = 5, 60
"""Maximum lines of a build, and journalled responses after them, before it is killed."""
ALL = [["granola"], ["multihal"], ["biokalma"], ["slaq"], ["fanoutqa"]]


def build_at_once(trial: Trial, builds: Sequence[Sequence[str]], kills: int = 0, seed: int = 1) -> list[str]:
    """Run builds at once in one warehouse, then each alone in another; return the problems.

    The first `kills` builds are killed at moments drawn from `seed` and restarted immediately. If the trial runs
    commands in this process, the last build runs here.
    """
    wrong: list[str] = []
    shared, alone = trial.folder / "shared.duckdb", trial.folder / "alone.duckdb"
    command = [["build", *build, "--json", "--warehouse"] for build in builds]
    started = time.monotonic()
    given = [[*each, str(shared)] for each in command]
    here = given[-1:] if trial.inside else []
    processes = [trial.start(f"shared-{at}", each) for at, each in enumerate(given[: len(given) - len(here)])]
    killer = threading.Thread(target=_kill, args=(processes[:kills], random.Random(seed), shared))
    killer.start()
    told_here = [trial.tell("shared-here", each) for each in here]
    killer.join()
    lines = [trial.tell("shared-again", each) for each in given[:kills]]
    for process in processes[kills:]:
        out, err = process.communicate()
        lines.append((process.returncode, out, err))
    lines += told_here
    seconds = time.monotonic() - started
    wrong += [f"{build}: {err[-500:]}" for build, (code, _, err) in zip(builds, lines, strict=True) if code]
    requests = trial.requests()
    total, twice = count_calls(shared)
    single = [trial.run("alone", [*each, str(alone)])[1] for each in command]
    once, _ = count_calls(alone)
    wrong += [
        f"{build}: other bytes than alone"
        for build, (_, out, _), tables in zip(builds, lines, single, strict=True)
        if read_tables(out) != tables
    ]
    repeated = count_repeated(requests)
    if twice or total != once:
        wrong.append(f"{twice} calls asked twice; {total} were asked at once, {once} one after the other")
    wrong += [f"left behind: {each}" for each in [*trial.find_orphans(), *trial.find_litter(shared)]]
    print(
        f"{len(builds)} at once, {kills} killed: {total} calls, {twice} twice; {len(requests)} requests, {repeated} repeated; "
        f"{seconds:.0f} s; {'; '.join(wrong) or 'same bytes'}",
        flush=True,
    )
    return wrong


def _kill(processes: Sequence["subprocess.Popen[str]"], draw: random.Random, warehouse: Path) -> None:
    for process in processes:
        stop(process, signal.SIGKILL, draw.randrange(_LINES), draw.randrange(_MOST_JOURNALLED), warehouse)


def main() -> int:
    """Run both groups, without and with kills."""
    given = read_options(__doc__, whole=False, kills=2, seed=1)
    wrong: list[str] = []
    for kills in (0, given.kills):
        for builds in [OVERLAPPING, ALL] if given.whole else [OVERLAPPING]:
            with tempfile.TemporaryDirectory() as folder:
                wrong += build_at_once(Trial(Path(folder)), builds, kills, given.seed)
    return 1 if wrong else 0
