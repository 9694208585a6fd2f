"""Build benchmarks against models with each habit, and print one line per benchmark and habit.

    python bench speed.habits                                       all habits, all benchmarks
    python bench speed.habits --benchmarks granola slaq --habits refusing "cut off" --rows 16

Columns: rows requested; rows published; their share of the rows published with well-formed responses; requests answered
beyond those with well-formed responses; corrections among them (extra calls); requests refused (400, 429); exit code;
differences in reject reasons from the well-formed build. The first line of a benchmark shows `same` when its rows equal
the embedded world's. Exits 1 when a well-meant habit loses rows, when a habit without answers publishes rows (except
questions by people, which models only judge), or when a traceback is printed.
"""

from collections import Counter

from scripts import folder_on_prefect, read_options
from support.commands.command import Factmill
from support.habits.runs import Came, HabitRuns
from support.habits.server import HabitsServer
from support.habits.table import HABITS

BENCHMARKS = ("granola", "multihal", "biokalma", "slaq", "fanoutqa")
PLAIN = "well-formed"


def describe(came: Came, plain: Came) -> str:
    """Return the reject reasons that differ from the well-formed build's, and the last error line."""
    more: Counter[str] = Counter(came.reasons)
    more.subtract(plain.reasons)
    lines = [f"{reason} {count:+}" for reason, count in sorted(more.items()) if count]
    if came.code:
        last = [line for line in came.err.splitlines() if line.strip()]
        lines.append(f"| {last[-1][:300] if last else 'nothing said'}")
    return ", ".join(lines)


def find_fault(habit: str, came: Came, plain: Came) -> str:
    """Return how a build fails this habit's requirement; empty if it does not."""
    if "Traceback" in came.err:
        return "TRACEBACK"
    if not came.published and not came.code:
        return "EXIT 0 OVER NOTHING"
    kind = HABITS[habit].kind
    if kind == "well meant" and came.published < 0.99 * plain.published:
        return "LOSES ROWS"
    return "PUBLISHES" if kind == "no answer" and came.written else ""


def measure(runs: HabitRuns, benchmark: str, habits: list[str]) -> bool:
    """Print the lines of a benchmark; return True when no habit fails."""
    embedded, plain, good = runs.build(benchmark, None), runs.build(benchmark, PLAIN), True
    for habit in habits:
        came = plain if habit == PLAIN else runs.build(benchmark, habit)
        fault = find_fault(habit, came, plain)
        if came.tables and came.tables == embedded.tables:
            fault = f"same {fault}"
        good &= fault in ("", "same ")
        share = came.published / plain.published if plain.published else 0.0
        print(
            f"{benchmark:9} {habit:22} {came.asked:5} {came.published:5} {share:5.0%} {came.answered - plain.answered:+6} "
            f"{came.corrected - plain.corrected:+6} {came.refused:6} {came.code:5}  {fault:20} {describe(came, plain)}",
            flush=True,
        )
    return good


def main() -> int:
    """Run the builds that the options name."""
    options = read_options(
        __doc__,
        benchmarks=(list(BENCHMARKS), None, BENCHMARKS),
        habits=(list(HABITS), None, list(HABITS)),
        rows=(8, "size of the sources, about"),
        seed=1,
    )
    with folder_on_prefect() as (folder, home, api):
        server = HabitsServer(options.seed)
        runs = HabitRuns(Factmill(home, api), server, folder, options.rows)
        print("benchmark habit                  asked  publ share beyond  extra refused code  ", flush=True)
        good = [measure(runs, benchmark, options.habits) for benchmark in options.benchmarks]
        server.close()
    if server.faults:
        print(f"the server with habits failed at {server.faults} requests")
    return 0 if all(good) and not server.faults else 1
