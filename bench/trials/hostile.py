"""Run thousands of hostile commands, worlds, sources and warehouses, and check that each ends with a clear message.

    python bench trials.hostile [--cases 2000] [--seed 1] [--only 17 …]

Prints each case that ends with a traceback, hangs, or exceeds the limits on exit code or message length; then the
number of cases by command and exit code. Exits 1 when a case fails. `--only` runs single cases and prints their
messages.
"""

import tempfile
from collections import Counter
from pathlib import Path

from scripts import read_options
from support.commands.command import Factmill
from support.hostile import Cases, describe, list_named, run_case
from support.webs.loopback import Loopback
from support.webs.prepared import copy_prepared

PATIENCE_S = 120.0


def main() -> int:
    """Run the trial."""
    given = read_options(__doc__, cases=2000, seed=1, only=[int])
    web, wrong = Loopback(), 0
    web.script({"json": True})  # acts as a Prefect server that is ready
    codes: Counter[tuple[str, int]] = Counter()
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        cases = Cases(Path(folder))
        factmill = Factmill(copy_prepared(Path(folder) / "home"), f"{web.url}/api", on_prefect=False)
        for name, arguments in list_named(cases).items():
            ran, trouble = run_case(factmill, arguments, PATIENCE_S)
            wrong += bool(trouble)
            print(f"{name}: {trouble or (ran and ran.code)}", flush=True)
        for number in range(given.cases):
            case = cases.draw(given.seed, number)
            if given.only and number not in given.only:
                continue
            ran, trouble = run_case(factmill, case.all, PATIENCE_S)
            codes[case.words, ran.code if ran else -1] += 1
            wrong += bool(trouble)
            if trouble or given.only:
                print(f"case {number}: {trouble}: {describe(case.all)}", flush=True)
                print(f"  {(ran.err if ran else '')[-3000 if given.only else -300 :].strip()}", flush=True)
    for (words, code), count in sorted(codes.items()):
        print(f"{count:6} {code:4} {words}")
    print(f"seed {given.seed}: {given.cases} cases, {wrong} wrong")
    web.close()
    return 1 if wrong else 0
