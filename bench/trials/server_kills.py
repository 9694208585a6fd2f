"""Kill factmill's own Prefect server during a command, and check that the bytes equal an undisturbed run's.

    python bench trials.server_kills [--kills 10] [--together 1] [--seed 1] [--builds FILE] [-- build all]

Kills are spread over the lines that the command prints for its stages; the first is at the start of its server.
`--together`: kills per run, at most two per flow. `--builds`: a warehouse that each run starts from, for `evaluate
all`. Prints a line per run; exits 1 when a run fails, bytes differ, a call repeats, a process survives, a message
names PREFECT_API_URL, or there was no server to kill.
"""

import os
import random
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from scripts import read_options
from trials.trial import Trial, count_calls, count_repeated

from factmill.tasks.storage.builds import list_builds, load_table_digests
from factmill.tasks.storage.warehouse import open_warehouse

_MOST_LATER_S = 0.5
"""Maximum delay between a line and the kill."""
_FOUND_WITHIN_S = 60.0


def kill_servers(
    trial: Trial, arguments: Sequence[str], kills: int, together: int, seed: int, builds: Path | None
) -> list[str]:
    """Run a command until its server was killed `kills` times, `together` times per run; return the problems.

    `builds`: a warehouse that each run starts with a copy of.
    """
    draw = random.Random(seed)
    begun = time.monotonic()
    code, expected, err = _run(trial, "alone", arguments, [], builds)
    if code:
        return [f"the command that nobody disturbs ends with {code}: {err[-500:]}"]
    lines, alone_s = len(_stage_lines(err)), time.monotonic() - begun
    calls, repeated = count_calls(_warehouse(trial, "alone"))[0], count_repeated(trial.requests("alone"))
    print(f"alone: {lines} lines, {calls} calls, {repeated} requests repeated, {alone_s:.1f} s", flush=True)
    moments = [(lines * number // kills, draw.random() * _MOST_LATER_S * bool(number)) for number in range(kills)]
    wrong = []
    for number, first in enumerate(range(0, kills, together)):
        # with one kill per run, the runs step through the moments; with several, a run spreads them over its length
        at = moments[first : first + together] if together < kills else moments
        name, begun = f"{number}-killed", time.monotonic()
        code, tables, err = _run(trial, name, arguments, at, builds)
        seconds = time.monotonic() - begun
        total, twice = count_calls(_warehouse(trial, name))
        again = count_repeated(trial.requests(name))
        problems = [f"exit code {code}: {err[-800:]}"] * bool(code)
        problems += ["other bytes"] * (tables != expected or not tables)
        problems += [f"{total} calls, {twice} of them twice; alone {calls}"] * (total != calls or twice > 0)
        problems += [f"{again} requests repeated; alone {repeated}"] * (again > repeated)
        problems += ["a message names PREFECT_API_URL"] * ("PREFECT_API_URL" in err)
        problems += [f"lives on: {each}" for each in trial.find_orphans()]
        noted = err.count("another is started in its place")
        problems += ["no ending is reported"] * (not noted)
        print(
            f"killed after lines {', '.join(str(line) for line, _ in at)} of {lines}: {seconds:.1f} s, servers started again: "
            f"{noted}, flows: {err.count('the flow begins again')}; {'; '.join(problems) or 'same bytes, nothing asked twice'}",
            flush=True,
        )
        wrong += problems
    return wrong


def _warehouse(trial: Trial, name: str) -> Path:
    return trial.folder / f"{name}.duckdb"


def _run(
    trial: Trial, name: str, arguments: Sequence[str], moments: Sequence[tuple[int, float]], builds: Path | None
) -> tuple[int, dict[str, object], str]:
    """Run a command in its own warehouse, and kill its server at moments (number of lines, delay in seconds).

    Returns the exit code, the published digests (benchmark → table → digest), and the messages.
    """
    warehouse = _warehouse(trial, name)
    if builds:
        shutil.copy(builds, warehouse)
    process = trial.start(name, [*arguments, "--json", "--warehouse", str(warehouse)])
    assert process.stderr and process.stdout
    reader = threading.Thread(target=process.stdout.read)
    reader.start()
    left, err = list(moments), ""
    for line in process.stderr:
        err += line
        while left and len(_stage_lines(err)) > left[0][0]:
            time.sleep(left.pop(0)[1])
            kill_server(process.pid)
    reader.join()
    code, builds_made = process.wait(), list_builds(warehouse)
    with open_warehouse(warehouse) as db:
        return code, {each.benchmark: load_table_digests(db, each.build_id) for each in builds_made}, err


def _stage_lines(err: str) -> list[str]:
    """Return the lines that a command prints with or without kills."""
    return [line for line in err.splitlines() if not line.startswith(("/", "note: "))]


def kill_server(parent: int) -> None:
    """Kill the Prefect server of a process, once it has started."""
    deadline = time.monotonic() + _FOUND_WITHIN_S
    while time.monotonic() < deadline:
        if found := find_servers(parent):
            os.kill(found[0], signal.SIGKILL)
            return
        time.sleep(0.02)


def find_servers(parent: int) -> list[int]:
    """Return the ids of the processes that serve Prefect for a command."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_child = int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == parent
            if is_child and b"prefect.server" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def main() -> int:
    """Kill servers and return the exit code."""
    given = read_options(__doc__, kills=10, together=1, seed=1, builds=Path, arguments=["build", "all"])
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Path(folder))
        wrong = kill_servers(trial, given.arguments, given.kills, given.together, given.seed, given.builds)
        return 1 if wrong else 0
