"""Stop a build at random moments, run the same command again: the bytes of a build that was left alone.

    python bench trials.kills [--kills 20] [--terms 5] [--seed 1] [-- build all]

Moments are told by what happened: a line of a stage, and how many replies stand in the journals after it. Prints a line a
moment; exits 1 when bytes differ, a call was asked twice, a process lives on or a file is left.
"""

import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from scripts import read_options
from trials.trial import Trial, count_calls, count_journalled, read_tables

STOPPED = "factmill: stopped; what was done is kept, the same command goes on from here"
_MOST_JOURNALLED = 120
"""Replies after a stage's line that a moment waits for at most."""
_PATIENCE_S = 10.0
"""How long a moment waits for replies that may never come."""
_ENDS_S = 5.0
"""Within which SIGTERM ends a build."""


def stop_at_random(trial: Trial, arguments: Sequence[str], signals: Sequence[signal.Signals], seed: int) -> list[str]:
    """Stop a build once for each signal, each time in a warehouse of its own; return what is wrong."""
    draw, wrong = random.Random(seed), []
    command = [*arguments, "--json", "--warehouse"]
    alone = trial.folder / "alone.duckdb"
    code, expected, err = trial.run("alone", [*command, str(alone)])
    if code:
        return [f"the build that nobody stops ends with {code}: {err[-500:]}"]
    lines, (calls, _) = [line for line in err.splitlines() if not line.startswith("/")], count_calls(alone)
    for number, how in enumerate(signals):
        warehouse = trial.folder / f"{number}.duckdb"
        line, journalled = draw.randrange(len(lines)), draw.randrange(_MOST_JOURNALLED)
        process = trial.start(f"{number}-stopped", [*command, str(warehouse)])
        problems = stop(process, how, line, journalled, warehouse)
        problems += [f"lives on: {each}" for each in trial.find_orphans()]
        kept = count_journalled(warehouse) + count_calls(warehouse)[0]
        code, tables, err = trial.run(f"{number}-again", [*command, str(warehouse)])
        total, twice = count_calls(warehouse)
        problems += [f"the second run ends with {code}: {err[-500:]}"] * bool(code)
        problems += ["other bytes"] * (tables != expected)
        problems += [f"{total} calls, {twice} of them twice; alone {calls}"] * (total != calls or twice > 0)
        problems += [f"left: {each}" for each in [*trial.find_orphans(), *trial.find_litter(warehouse)]]
        print(
            f"{how.name} {number}, after line {line} of {len(lines)} and {journalled} replies: {kept} of {calls} calls "
            f"kept, {twice} twice; {'; '.join(problems) or 'same bytes'}",
            flush=True,
        )
        wrong += problems
    return wrong


def stop(
    process: "subprocess.Popen[str]", how: signal.Signals, line: int, journalled: int, warehouse: Path
) -> list[str]:
    """Stop a build after a line of what it says and some replies; return what is wrong about its end."""
    assert process.stderr
    for _ in range(line + 1):
        process.stderr.readline()
    deadline = time.monotonic() + _PATIENCE_S
    while count_journalled(warehouse) < journalled and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    was_done = process.poll() is not None
    process.send_signal(how)
    started = time.monotonic()
    out, err = process.communicate()
    seconds = time.monotonic() - started
    if how is signal.SIGKILL or was_done or (process.returncode == 0 and read_tables(out)):
        return []
    problems = [f"{how.name} took {seconds:.1f} s"] * (seconds > _ENDS_S)
    if process.returncode != 128 + how or not err.rstrip().endswith(STOPPED):
        problems.append(f"{how.name} ended it with {process.returncode}: {err[-300:]}")
    return problems


def main() -> int:
    """Kill and stop."""
    given = read_options(__doc__, kills=20, terms=5, seed=1, arguments=["build", "all"])
    signals = [signal.SIGKILL] * given.kills + [signal.SIGTERM] * given.terms
    with tempfile.TemporaryDirectory() as folder:
        return 1 if stop_at_random(Trial(Path(folder)), given.arguments, signals, given.seed) else 0
