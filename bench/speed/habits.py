"""What comes of builds against models with habits: a line for each benchmark and habit.

    python bench speed.habits                                       all habits, all benchmarks
    python bench speed.habits --benchmarks granola slaq --habits refusing "cut off" --rows 16

Columns: rows asked, rows published, share of what well-formed replies have published, requests answered beyond those of
the well-formed replies, corrections among them (extra calls), requests refused (400, 429), exit code, and why rows were rejected where that is not as with
well-formed replies. The first line of a benchmark holds `same` when its rows are those of the embedded world. Exits 1
when a well-meant habit loses rows, one that says nothing publishes some (but questions of persons, which models only
judge), or a traceback is printed.
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
    """Return what is told of a build beside its counts."""
    more: Counter[str] = Counter(came.reasons)
    more.subtract(plain.reasons)
    lines = [f"{reason} {count:+}" for reason, count in sorted(more.items()) if count]
    if came.code:
        last = [line for line in came.err.splitlines() if line.strip()]
        lines.append(f"| {last[-1][:300] if last else 'nothing said'}")
    return ", ".join(lines)


def find_fault(habit: str, came: Came, plain: Came) -> str:
    """Return in what a build falls short of what is asked of this habit; empty for nothing."""
    if "Traceback" in came.err:
        return "TRACEBACK"
    if not came.published and not came.code:
        return "EXIT 0 OVER NOTHING"
    kind = HABITS[habit].kind
    if kind == "well meant" and came.published < 0.99 * plain.published:
        return "LOSES ROWS"
    return "PUBLISHES" if kind == "no answer" and came.written else ""


def measure(runs: HabitRuns, benchmark: str, habits: list[str]) -> bool:
    """Print the lines of a benchmark; True when nothing falls short."""
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
    """Make the builds that the arguments name."""
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
