"""Damage files of a stopped build, or a release, and check that the next command recovers or names the file.

    python bench trials.damaged [--places 20] [--seed 1] [--only journal release] [-- build granola --limit 5]

After damage to a file of a stopped build, the same command must publish the bytes of an undisturbed build, or fail
with an error that names the file. A release is damaged in each way of support.builds.damaged_releases, and each
command that reads it runs. Files: journals, Parquet shards, receipts, the run's description, claims. Damage: a
flipped bit, a truncated end, a page of zeros, appended bytes, a duplicated line or chunk, an empty file. Prints a
line per place; exits 1 when rows differ, a build hangs, or a traceback is printed.
"""

import random
import shutil
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts import read_options
from support.builds.damaged_releases import COMMANDS, DAMAGES, copy_damaged, make_released, run_commands
from support.commands.command import Factmill
from support.damage import WAYS, damage
from trials.kills import stop
from trials.trial import Trial, read_tables

KINDS = {
    "journal": "journal/*.journal",
    "shard": "*/*/*.parquet",
    "receipt": "*/*/*.receipt.json",
    "run": "*/run.json",
    "claim": "claims/*.claim",
}


def damage_and_rebuild(
    trial: Trial, arguments: Sequence[str], places: int, seed: int, kinds: Sequence[str] = tuple(KINDS)
) -> list[str]:
    """Stop a build and damage `places` places of each kind of file, one at a time; return the problems."""
    warehouse = trial.folder / "stopped" / "w.duckdb"
    warehouse.parent.mkdir()
    command = [*arguments, "--json", "--warehouse"]
    code, expected, err = trial.run("alone", [*command, str(trial.folder / "alone.duckdb")])
    if code:
        return [f"the build that nothing happens to ends with {code}: {err[-500:]}"]
    stop(trial.start("stopped", [*command, str(warehouse)]), signal.SIGKILL, 5, 3, warehouse)
    state = trial.folder / "state"
    warehouse.parent.rename(state)
    runs, wrong = warehouse.with_name(f"{warehouse.name}.runs"), []
    # a process that died during a request leaves a claim
    (state / runs.name / "claims" / "4194305-00000000.claim").write_bytes(bytes(64))
    for kind in kinds:
        draw = random.Random(f"{seed} {kind}")
        for number in range(places):
            shutil.rmtree(warehouse.parent, ignore_errors=True)
            shutil.copytree(state, warehouse.parent)
            path = draw.choice(sorted(runs.glob(KINDS[kind])))
            how = WAYS[number % len(WAYS)]
            path.write_bytes(damage(path.read_bytes(), how, draw))
            code, out, err = trial.tell(f"{kind}-{number}", [*command, str(warehouse)])
            problems = ["a traceback"] * ("Traceback" in err)
            problems += ["other rows"] * (code == 0 and read_tables(out) != expected)
            problems += [f"ends with {code}: {err[-300:]}"] * (code != 0 and path.name not in err)
            result = next((line for line in err.splitlines() if "damaged" in line or line.startswith("factmill")), "")
            print(f"{kind} {number}, {how}: {'; '.join(problems) or 'same bytes'} {result[:160]}", flush=True)
            wrong += problems
    return wrong


def damage_releases(trial: Trial, factmill: Factmill) -> list[str]:
    """Damage a release in each way and run all commands on it; return the problems."""
    released, wrong = make_released(factmill, trial.folder), []
    for number, name in enumerate(DAMAGES):
        try:
            folder = copy_damaged(released, trial.folder / f"copy-{number}", name)
            run_commands(factmill, released, folder, name, COMMANDS)
        except AssertionError as error:
            wrong.append(f"{name}: {error}")
    return wrong


def main() -> int:
    """Run the selected trials and print the problems."""
    given = read_options(
        __doc__,
        places=20,
        seed=1,
        only=([*KINDS, "release"], None, (*KINDS, "release")),
        arguments=["build", "granola", "--limit", "5"],
    )
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Path(folder))
        trial.inside = Factmill(trial.home, on_prefect=False)
        wrong = damage_releases(trial, trial.inside) if "release" in given.only else []
        if kinds := [kind for kind in KINDS if kind in given.only]:
            wrong += damage_and_rebuild(trial, given.arguments, given.places, given.seed, kinds)
        print(*wrong, sep="\n")
        return 1 if wrong else 0
