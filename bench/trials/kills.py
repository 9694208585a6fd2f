"""Stop a build at random moments, rerun the command, and check that the bytes equal an undisturbed build's.

    python bench trials.kills [--kills 20] [--terms 5] [--seed 1] [-- build all]

A moment is defined by progress: a stage's line, and a number of journalled responses after it. Prints a line per
moment; exits 1 when bytes differ, a call repeats, a process survives or a file is left behind.
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

from factmill.flows.cli.entry import STOPPED_MESSAGE

_MOST_JOURNALLED = 120
"""Maximum responses after a stage's line that a moment waits for."""
_PATIENCE_S = 10.0
"""How long a moment waits for responses that may never arrive."""
_ENDS_S = 5.0
"""Time limit for a build to end after SIGTERM."""


def stop_at_random(trial: Trial, arguments: Sequence[str], signals: Sequence[signal.Signals], seed: int) -> list[str]:
    """Stop a build once per signal, each time in a new warehouse; return the problems."""
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
    """Stop a build after a line of output and a number of responses; return the problems of its end."""
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
    if process.returncode != 128 + how or not err.rstrip().endswith(STOPPED_MESSAGE):
        problems.append(f"{how.name} ended it with {process.returncode}: {err[-300:]}")
    return problems


def main() -> int:
    """Kill and terminate builds."""
    given = read_options(__doc__, kills=20, terms=5, seed=1, arguments=["build", "all"])
    signals = [signal.SIGKILL] * given.kills + [signal.SIGTERM] * given.terms
    with tempfile.TemporaryDirectory() as folder:
        return 1 if stop_at_random(Trial(Path(folder)), given.arguments, signals, given.seed) else 0
