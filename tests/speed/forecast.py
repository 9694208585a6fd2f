"""Forecast against actual on all benchmarks, with a chat server that plays the models of the embedded world.

    python tests/speed/forecast.py [--benchmarks granola …] [--share 0.25]

For each benchmark a pilot of that share of its rows is asked and the whole forecast of it; then the whole build is made, in
the same warehouse. What it came to is what the server counted, pilot included, which the build must not ask again, and what
its report tells. Printed is a line each for requests to the model, tokens and money: forecast, its 90 % interval, actual, how
far it is off. Exit code 1 when requests or money are off by more than 15 %, or when the build asked anything twice.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from support.habits.server import HabitsServer, write_habit_world
from support.work.command import Factmill

from flows.benchmarks import BENCHMARKS
from flows.prefect_server import prefect_server, prefect_settings
from tasks.engine.services import embedded_graph

HABIT = "well-formed"
PRICES = "usd_per_million_in = 1.1\nusd_per_million_out = 4.4"
PILOTED = {"granola": 253, "multihal": 51, "biokalma": 48, "slaq": 58, "fanoutqa": 56}
"""Rows that the embedded builds have where a pilot draws."""
MOST_OFF = 0.15


def compare(factmill: Factmill, server: HabitsServer, folder: Path, name: str, share: float) -> bool:
    """Print what was forecast of a benchmark and what it came to; True when it agrees."""
    world = write_habit_world(folder, server, HABIT)
    world.write_text(world.read_text("utf-8").replace('name = "habits"', f'name = "habits"\n{PRICES}'), "utf-8")
    given = (name, "--world", world, "--warehouse", folder / f"{name}.duckdb", "--json")
    before = server.answered[HABIT]
    piloted = factmill("forecast", *given, "--pilot", str(max(1, round(share * PILOTED[name]))))
    if piloted.code:
        print(f"{name}: {piloted.err}")
        return False
    told: dict[str, Any] = piloted.json
    asked_by_pilot = server.answered[HABIT] - before
    built = factmill("build", *given)
    if built.code:
        print(f"{name}: {built.err}")
        return False
    report: dict[str, Any] = json.loads(built.out.strip().splitlines()[-1])
    actual = {**report["forecast"]["actual"], "model_requests": server.answered[HABIT] - before}
    good = True
    for what in ("model_requests", "tokens_in", "tokens_out", "usd"):
        forecast, low, high = told["total"][what], told["low"][what], told["high"][what]
        off = forecast / actual[what] - 1
        good &= abs(off) <= MOST_OFF or what.startswith("tokens")
        print(
            f"{name:9} {what:15} forecast {forecast:12,.4f} ({low:,.4f} to {high:,.4f})  actual {actual[what]:12,.4f}  {off:+7.1%}"
            f"{'' if abs(off) <= MOST_OFF else '  OFF'}",
            flush=True,
        )
    print(
        f"{name:9} {asked_by_pilot} of {actual['model_requests']} requests by the pilot; {told['total']['hours']:.4f} hours forecast"
    )
    return good


def main() -> int:
    """Compare the benchmarks that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmarks", nargs="+", choices=list(BENCHMARKS), default=list(BENCHMARKS))
    parser.add_argument("--share", type=float, default=0.25, help="of the rows, for the pilot")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        home = Path(os.environ.get("FACTMILL_HOME", folder / "home"))
        os.environ.update(prefect_settings(home))
        with prefect_server(home) as prefect, embedded_graph(home) as graph:
            prefect.wait_ready()
            server = HabitsServer(graph)
            factmill = Factmill(home, os.environ["PREFECT_API_URL"])
            good = [compare(factmill, server, folder, name, options.share) for name in options.benchmarks]
            server.close()
    return 0 if all(good) and not server.faults else 1


if __name__ == "__main__":
    sys.exit(main())
