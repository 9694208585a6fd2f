"""Make each start of a thread or process fail in turn, and check that the build ends with a message and can continue.

    python bench trials.starved [--every] [--lasting] [--numbers 3 17] [-- build granola --limit 5]

Counts the starts of an undisturbed build. Then makes the n-th start fail as the system would, alone or (`--lasting`)
with all later ones: the first and last of each code location, or each one (`--every`). Prints a line per start;
exits 1 when a build hangs, ends without a message or with a traceback, or when the same command then publishes other
bytes.
"""

import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts import read_options
from trials.trial import Trial, read_tables

_MOST_S = 90.0
"""Time limit of a build with a failing start; an undisturbed one takes about 15 seconds."""


def starve(trial: Trial, arguments: Sequence[str], way: str, numbers: Sequence[int], every: bool) -> list[str]:
    """Run a build for each failing start; return the problems."""
    expected, _, _ = _build(trial, arguments, "whole", 0, way)
    starts = dict(line.split(" ", 1) for line in (trial.folder / "logs" / "whole").read_text().splitlines())
    places: dict[str, list[int]] = {}
    for number, place in starts.items():
        places.setdefault(place, []).append(int(number))
    chosen = [each for found in places.values() for each in (found if every else {found[0], found[-1]})]
    wrong = []
    for number in numbers or sorted(chosen):
        name = f"{way}-{number}"
        tables, code, err = _build(trial, arguments, name, number, way)
        seconds, place = time.monotonic() - _begun[name], starts.get(str(number), "?")
        problems = [f"does not end within {_MOST_S:g} s"] * (code == -signal.SIGKILL)
        problems += ["a traceback"] * ("Traceback" in err)
        problems += [f"other bytes, exit code {code}"] * (code == 0 and tables != expected)
        problems += ["no words"] * (code != 0 and "factmill: " not in err)
        problems += [f"lives on: {each}" for each in trial.find_orphans()]
        again, code_again, err_again = _build(trial, arguments, name, 0, way)
        problems += [f"the same command then ends with {code_again}: {err_again[-300:]}"] * (again != expected)
        said = next((line for line in err.splitlines() if line.startswith("factmill: ")), err[-200:])
        print(
            f"{name} ({place}): {seconds:.0f} s, exit code {code}: {'; '.join(problems) or 'right'} | {said}",
            flush=True,
        )
        wrong += problems
    return wrong


_begun: dict[str, float] = {}


def _build(trial: Trial, arguments: Sequence[str], name: str, number: int, way: str) -> tuple[dict[str, Any], int, str]:
    """Return a build's published tables, exit code and messages."""
    log = trial.folder / "logs" / name
    program = ("-m", "trials.failing_starts", str(log), str(number), way)
    command = [*arguments, "--json", "--warehouse", str(trial.folder / f"{name}.duckdb")]
    _begun.setdefault(name, time.monotonic())
    process = trial.start_program(program, command)
    try:
        out, err = process.communicate(timeout=_MOST_S)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
    return read_tables(out), process.returncode, err


def main() -> int:
    """Run the builds and return the exit code."""
    given = read_options(
        __doc__, every=False, lasting=False, numbers=[int], arguments=["build", "granola", "--limit", "5"]
    )
    with tempfile.TemporaryDirectory() as folder:
        way = "lasting" if given.lasting else "once"
        return 1 if starve(Trial(Path(folder)), given.arguments, way, given.numbers, given.every) else 0
