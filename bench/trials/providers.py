"""Run `factmill evaluate` and `factmill build` against servers that imitate model providers' behaviours.

    python bench trials.providers [--habits account "reach: only streams"] [--runs granola …]
    python bench trials.providers --planted [--seeds 20]
    python bench trials.providers --equal
    … --factmill OTHER/.venv/bin/factmill      measures another checkout with the same servers

Prints a line per behaviour and run (an evaluation of 40 questions of GRANOLA-EQ, an evaluation of SLAQ with a judge, or
a small build). Columns: exit codes of a run and of its repetition; n or rows; items without a score by reason; items
with a score other than the planted one; requests of the last run; the provider's charge for the first run; the reported
cost; the charge for all questions under a budget in US$. Settings unknown to a checkout are omitted from its world
file. A line ends with what is not as expected; then the script exits 1.

`--planted`: the model is right with p = 0.7; 25 % of requests fail, 20 % of prompts are blocked and 20 % of answers
are cut off. Measures the share of right answers among scored items, which are neither blocked nor cut off, with the
interval used for all shares. GRANOLA-EQ publishes this share as selective accuracy; SLAQ's accuracy counts refusals
as wrong. The interval contains p in at least 17 of 20 runs.
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from scripts import folder_on_prefect, read_options
from support.commands.command import Ran
from support.commands.other_command import OtherCommand
from support.habits.planted import Planted, read_gold
from support.habits.provider_habits import REFUSALS, ProviderHabit, fail_block_and_cut, make_habits
from support.habits.provider_server import PRICES, Book, ProviderServer
from support.habits.runs import read_tables
from support.worlds.with_models import write_world_with_model

from factmill.tasks.core.measures.metrics import MetricScores, measure_mean_metrics

RUNS: dict[str, tuple[str, ...]] = {
    "granola": ("evaluate", "granola", "--setting", "greedy", "--limit", "40", "--build", "latest:granola"),
    "slaq": ("evaluate", "slaq", "--setting", "short", "--limit", "8", "--build", "latest:slaq"),
    "build granola": ("build", "granola", "--limit", "8", "--samples", "3"),
    "build slaq": ("build", "slaq", "--categories", "Astronomy", "--per-half", "2", "--candidates", "16"),
}
_UNSCORED = {"blocked": "refused", "cut": "cut_off", "failed": "model_failed"}
"""Effect of a behaviour on a model under test → reason why the item has no score."""
_WELL_SPENT = 0.85
"""Minimum share of a budget that must buy responses."""
SHARE, FAILING, BLOCKED, CUT = 0.7, 0.25, 0.2, 0.2
_EQUAL_USD = 1e-6


@dataclass
class Outcome:
    """The result of a run."""

    ran: Ran
    report: dict[str, Any] = field(default_factory=dict)
    rows: int = 0
    """Published rows, or scored items."""
    unscored: Counter[str] = field(default_factory=Counter)
    misread: int = 0
    """Scored items whose score differs from the planted one."""
    tables: Any = None

    @property
    def last_line(self) -> str:
        lines = [line for line in self.ran.err.splitlines() if line.strip()]
        return lines[-1][:160] if lines else ""


@dataclass
class Trial:
    """A checkout's command, a warehouse with the builds to evaluate, and the planted answers."""

    command: OtherCommand
    folder: Path
    builds: dict[str, str]
    planted: Planted
    plain: dict[str, Outcome] = field(default_factory=dict)

    def run(self, name: str, url: str, habit: ProviderHabit, run: str, warehouse: Path, *more: str) -> Outcome:
        """Run a command against the server at a URL."""
        world = write_provider_world(self.folder, name, url, PRICES | habit.settings, habit.attempts, self.command)
        arguments = [*RUNS[run], *more, "--world", str(world), "--warehouse", str(warehouse), "--json"]
        if run in self.builds:
            arguments += ["--build", self.builds[run], "--reports", str(self.folder / "reports")]
        ran = self.command(*arguments, **habit.environment)
        printed = [line for line in ran.out.splitlines() if line.startswith("{")]
        outcome = Outcome(ran, json.loads(printed[-1]) if printed else {})
        if outcome.report and not ran.code:
            read_outcome(outcome, warehouse, run, self.planted)
        return outcome

    def copy_warehouse(self, name: str) -> Path:
        """Return the path of a copy of the warehouse."""
        path = self.folder / f"{name}.duckdb"
        shutil.copy(self.folder / "measured.duckdb", path)
        return path


def write_provider_world(
    folder: Path,
    name: str,
    url: str,
    settings: Mapping[str, Any],
    attempts: int,
    command: OtherCommand,
    roles: Sequence[str] = ("author", "judge", "answerer"),
) -> Path:
    """Write the embedded world with a server's model in some roles, without settings unknown to the checkout."""
    said = {"kind": "openai", "name": "provider", "url": url, **settings}
    lines = [f"{key} = {_format_toml(value)}" for key, value in said.items() if key in command.model_settings]
    limits = f"limits = {{ parallel = 4, timeout_s = 60, attempts = {attempts}, backoff_s = 0 }}"
    return write_world_with_model(folder / f"{name}.toml", roles, "\n".join([*lines, limits]), name)


def _format_toml(value: Any) -> str:
    """Return a value in TOML syntax."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_format_toml(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)


def read_outcome(outcome: Outcome, warehouse: Path, run: str, planted: Planted) -> None:
    """Read a run's published rows or scores into `outcome`."""
    if "evaluation_id" not in outcome.report:
        outcome.rows, outcome.tables = outcome.report["rows"], read_tables(warehouse, outcome.report)
        for reasons in outcome.report["reasons"].values():
            outcome.unscored.update(reasons)
        return
    for _, question, unscored, value in read_scores(warehouse, run, outcome.report["evaluation_id"]):
        if unscored:
            outcome.unscored["judge" if unscored.startswith("judge_") else unscored] += 1
        else:
            outcome.rows += 1
            outcome.misread += value != planted.is_right(question)


def read_scores(warehouse: Path, benchmark: str, build_id: str) -> list[tuple[str, str, str, float | None]]:
    """Return (cluster, question, reason for no score, accuracy) of each answer."""
    with duckdb.connect(str(warehouse), read_only=True) as db:
        return db.execute(
            f"SELECT a.cluster, a.question, a.unscored, s.value FROM {benchmark}_answers a LEFT JOIN {benchmark}_scores s "
            "ON s.build_id = a.build_id AND s.setting = a.setting AND s.question_id = a.question_id AND s.metric = 'accuracy' "
            "WHERE a.build_id = ?",
            [build_id],
        ).fetchall()


def count_expected(book: Book) -> Counter[str]:
    """Return the expected number of unscored items by reason, from the server's notes."""
    found: Counter[str] = Counter()
    for kind, contents in book.noted.items():
        role, _, what = kind.partition(" ")
        found["judge" if role == "judge" else _UNSCORED[what]] += len(contents)
    return found


@dataclass(frozen=True)
class Tried:
    """Repeated runs of one command against one behaviour."""

    habit: ProviderHabit
    run: str
    book: Book
    outcomes: Sequence[Outcome]
    asked_again: Sequence[str]
    """Prompts in the requests of the last run."""
    owed_usd: float
    """The provider's charge for the first run."""


def try_habit(trial: Trial, server: ProviderServer, name: str, habit: ProviderHabit, run: str) -> bool:
    """Run a command against a behaviour, repeat it, and print a line; return True when all is as expected."""
    address = f"{name} {run}"
    book, url, warehouse = server.books[address], server.url(address), trial.copy_warehouse("tried")
    outcomes = [trial.run("tried", url, habit, run, warehouse)]
    owed = book.owed_usd
    if habit.recovers:
        book.is_recovered = True
        outcomes.append(trial.run("tried", url, habit, run, warehouse))
    before = len(book.asked)
    outcomes.append(trial.run("tried", url, habit, run, warehouse))
    warehouse.unlink()
    tried = Tried(habit, run, book, outcomes, book.asked[before:], owed)
    faults, last = [*find_faults(trial, tried), *find_money_faults(tried)], outcomes[-1]
    bounded = "-"
    if habit.bound_usd:
        bounded, fault = try_bound(trial, server, name, habit, run)
        faults += [fault] if fault else []
    cost = outcomes[0].report.get("cost_usd", 0.0)
    codes = " ".join(str(outcome.ran.code) for outcome in outcomes)
    reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(last.unscored.items())) or "-"
    if run.startswith("build") and last.rows == trial.plain[run].rows:
        reasons = "-"
    print(
        f"{name:44} {run:13} {codes:5} {last.rows:4} {reasons:34} {last.misread:4} {len(tried.asked_again):5} "
        f"{owed:8.4f} {cost:8.4f} {bounded:6} {'; '.join(faults)}",
        flush=True,
    )
    return not faults


def try_bound(trial: Trial, server: ProviderServer, name: str, habit: ProviderHabit, run: str) -> tuple[str, str]:
    """Run with a budget; return the provider's charge and the problem with it, if any."""
    address = f"{name} {run} bound"
    warehouse = trial.copy_warehouse("bounded")
    more = ("--limit", "1000", "--max-cost", str(habit.bound_usd))
    outcome = trial.run("bounded", server.url(address), habit, run, warehouse, *more)
    warehouse.unlink()
    owed = server.books[address].owed_usd
    fault = ""
    if owed > habit.bound_usd:
        fault = f"BOUND of {habit.bound_usd} CROSSED"
    elif outcome.ran.code not in (0, 3):
        fault = f"EXIT {outcome.ran.code} under a bound: {outcome.last_line}"
    elif outcome.ran.code and habit.is_cost_told and owed < _WELL_SPENT * habit.bound_usd:
        fault = f"BOUND of {habit.bound_usd}: little of it buys replies"
    return f"{owed:.4f}", fault


def find_faults(trial: Trial, tried: Tried) -> Iterator[str]:
    """Yield the unexpected exit codes, rows and requests of runs."""
    expected, last = [1, 0, 0] if tried.habit.recovers else [0, 0], tried.outcomes[-1]
    if [outcome.ran.code for outcome in tried.outcomes] != expected:
        failed = next((outcome for outcome in tried.outcomes if outcome.ran.code), last)
        yield f"EXIT, expected {expected}: {failed.last_line}"
    if any("Traceback" in outcome.ran.err for outcome in tried.outcomes):
        yield "TRACEBACK"
    if tried.book.faults:
        yield f"THE SERVER FAILED: {tried.book.faults[0]}"
    if not tried.run.startswith("build"):
        yield from find_unscored_faults(tried, last)
    elif last.tables != trial.plain[tried.run].tables:
        yield f"ROWS, expected those of the plain server ({trial.plain[tried.run].rows})"
    noted = tried.book.noted.items()
    failing = {content for kind, contents in noted if kind.endswith("failed") for content in contents}
    if set(tried.asked_again) != failing:
        yield f"ASKED AGAIN, expected {len(failing)} prompts"


def find_unscored_faults(tried: Tried, last: Outcome) -> Iterator[str]:
    """Yield the differences between an evaluation's answers and the server's notes."""
    expected = count_expected(tried.book)
    if last.misread:
        yield "MISREAD"
    if not last.ran.code and last.unscored != expected:
        yield f"UNSCORED, expected {dict(expected)}"
    if twice := sum(count > 1 for count in tried.book.answered.values()):
        yield f"ASKED TWICE: {twice} answers"


def find_money_faults(tried: Tried) -> Iterator[str]:
    """Yield the errors and omissions in the first run's reported cost."""
    first, habit = tried.outcomes[0], tried.habit
    if first.ran.code:
        return
    said = first.ran.out + first.ran.err
    if habit.is_cost_told and abs(first.report["cost_usd"] - tried.owed_usd) > _EQUAL_USD:
        yield "COST"
    if not habit.is_cost_told and "unknown" not in said:
        yield "COST UNKNOWN is not reported"
    if habit.says_in_report not in said:
        yield f"NOT TOLD: {habit.says_in_report}"


def try_all(trial: Trial, names: Sequence[str], runs: Sequence[str]) -> bool:
    """Try the named behaviours; return True when all is as expected."""
    habits = make_habits()
    if not REFUSALS.is_file():
        print(f"no refusals of providers are tried: {REFUSALS} is not there")
    chosen = {
        name: habit for name, habit in habits.items() if name == "plain" or not names or name.startswith(tuple(names))
    }
    addresses = {
        f"{name} {run}{more}": habit for name, habit in chosen.items() for run in RUNS for more in ("", " bound")
    }
    server = ProviderServer(addresses, trial.planted)
    print(f"{'behaviour':44} {'run':13} exit  rows {'unscored':34} mis- asked  charged reported bound ", flush=True)
    url, plain = server.url("plain granola bound"), habits["plain"]
    for run in RUNS:
        trial.plain[run] = trial.run("plain", url, plain, run, trial.copy_warehouse("plain"))
    good = []
    for name, habit in chosen.items():
        if name == "plain" and names and not "plain".startswith(tuple(names)):
            continue
        good += [try_habit(trial, server, name, habit, run) for run in habit.runs if not runs or run in runs]
    server.close()
    print(f"{sum(good)} of {len(good)} lines are as expected")
    return all(good)


def try_planted(trial: Trial, seeds: int) -> bool:
    """Evaluate a model that is right with p = 0.7; return True when at least 85 % of the intervals contain p."""
    respond = partial(fail_block_and_cut, FAILING, BLOCKED, CUT)
    habit = ProviderHabit(respond, "fails, blocks and cuts")
    held: Counter[str] = Counter()
    for seed in range(1, seeds + 1):
        seeded = replace(trial, planted=Planted(trial.planted.gold, SHARE, seed))
        server = ProviderServer({"planted": habit}, seeded.planted, seed)
        warehouse = trial.copy_warehouse("planted")
        for run in ("granola", "slaq"):
            judged = ("--judge", "exact") if run == "slaq" else ()
            outcome = seeded.run("planted", server.url("planted"), habit, run, warehouse, "--limit", "1000", *judged)
            if outcome.ran.code:
                print(f"{run:8} seed {seed:2}: exit {outcome.ran.code}: {outcome.last_line}", flush=True)
                continue
            scored = [
                (cluster, value)
                for cluster, _, unscored, value in read_scores(warehouse, run, outcome.report["evaluation_id"])
                if not unscored and value is not None
            ]
            clusters, values = [cluster for cluster, _ in scored], np.array([value for _, value in scored], float)
            [metric] = measure_mean_metrics(
                [MetricScores("", "share", clusters, clusters, values, unit="share", is_share=True)]
            )
            holds = (
                metric.ci_low is not None and metric.ci_high is not None and metric.ci_low <= SHARE <= metric.ci_high
            )
            held[run] += holds
            reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(outcome.unscored.items()))
            print(
                f"{run:8} seed {seed:2}: {metric.value} [{metric.ci_low}, {metric.ci_high}] of {metric.n} "
                f"{'' if holds else 'MISSES 0.7 '} unscored: {reasons}; read otherwise: {outcome.misread}",
                flush=True,
            )
        server.close()
        warehouse.unlink()
    for run in ("granola", "slaq"):
        print(f"{run}: {held[run]} of {seeds} intervals hold {SHARE}")
    return all(held[run] >= 0.85 * seeds for run in ("granola", "slaq"))


def main() -> int:
    """Run the trials that the options select."""
    given = read_options(
        __doc__,
        habits=([str], "behaviours, by the beginnings of their names"),
        runs=([str], None, list(RUNS)),
        factmill=(Path, "the command of another checkout's virtual environment"),
        planted=False,
        seeds=20,
        equal=(False, "builds by other ways to a server, next to the plain ones"),
        list=(False, "list the behaviours"),
    )
    if given.list:
        for name, habit in make_habits().items():
            print(f"{name:44} {habit.says}")
        return 0
    with folder_on_prefect() as (folder, home, api):
        command = OtherCommand(given.factmill, home, api)
        print(f"factmill of {command.root}", flush=True)
        if given.equal:
            from trials.provider_ways import compare_ways

            good = compare_ways(command, folder, given.habits)
        else:
            trial = prepare(command, folder)
            good = try_planted(trial, given.seeds) if given.planted else try_all(trial, given.habits, given.runs)
        command.close()
    return 0 if good else 1


def prepare(command: OtherCommand, folder: Path) -> Trial:
    """Publish the builds to evaluate."""
    warehouse = folder / "measured.duckdb"
    builds = {}
    for benchmark in ("granola", "slaq"):
        ran = command("build", benchmark, "--warehouse", warehouse, "--json")
        if ran.code:
            raise SystemExit(f"{benchmark}: the build ends with {ran.code}: {ran.err[-1000:]}")
        builds[benchmark] = ran.json["build_id"]
    return Trial(command, folder, builds, Planted(read_gold(warehouse), SHARE))
