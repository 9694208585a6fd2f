"""Compare forecasts with actual requests, cost and time, with a chat server that plays all models.

    python bench speed.forecast [--benchmarks granola …] [--share 0.25] [--seeds 1 2] [--habit "slow tokens"]
    python bench speed.forecast --evaluations [slaq …] [--share 0.25] [--seeds 1 2]

For each benchmark, runs a pilot on that share of its rows and forecasts the whole. Then builds the whole in another
warehouse, where nothing is cached: its requests and time are the actual figures. Last, builds it in the pilot's
warehouse, where no request of the pilot may be sent again. A seed draws 70 % of the source's rows, and anything else
that the benchmark draws by a seed; seed 0 is the whole embedded world. With `--evaluations`, evaluates models on the
embedded builds, with a model as judge. Prints one line each for requests to models, requests to Wikimedia's services,
money and hours: forecast, its 90 % interval where there is one, actual, and relative error. Exits 1 when requests or
money are off by more than 15 %, or when a request was sent twice. Hours depend on the load of this machine and do not
affect the exit code.
"""

import csv
import io
import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from scripts import folder_on_prefect, read_options
from support.commands.command import Factmill, Ran
from support.habits.measured import Measured
from support.habits.server import HabitsServer, write_habit_world
from support.habits.table import HABITS

from factmill.flows.benchmarks import BENCHMARKS
from factmill.tasks.assets import ASSETS_ROOT

PRICES = "usd_per_million_in = 1.1\nusd_per_million_out = 4.4"
PILOTED = {"granola": 296, "multihal": 120, "biokalma": 42, "slaq": 58, "fanoutqa": 95}
"""Rows of each embedded build that a pilot draws from."""
SOURCES = {"granola": ("entityquestions",), "biokalma": ("biokalma",), "fanoutqa": ("fanoutqa",)}
FOUNDATIONS = ("simpleqa", "defan", "shroom2024", "halueval", "halubench", "felm", "truthfulqa")
WHOLE = "defan"
"""The source whose rows form groups and are not sampled."""
DRAWN = 0.7
"""Share of the source's rows that a seed draws."""
MOST_OFF = 0.15
JUDGED = ("model_requests", "wikimedia_requests", "usd")


@dataclass(frozen=True)
class Trial:
    """The server, habit and share that a forecast is compared with."""

    factmill: Factmill
    server: HabitsServer
    habit: str
    folder: Path
    share: float

    def write_world(self) -> Path:
        """Write the world; models under test and judges are served by the same server."""
        roles = ("author", "judge", "mine")
        world = write_habit_world(self.folder, self.server, self.habit, roles)
        result = world.read_text("utf-8").replace('name = "habits"', f'name = "habits"\n{PRICES}')
        world.write_text(result, "utf-8")
        return world

    def run(self, *arguments: str | Path) -> Ran:
        ran = self.factmill(*arguments)
        if ran.code:
            raise SystemExit(f"{' '.join(map(str, arguments))} ends with {ran.code}: {ran.err[-2000:]}")
        return ran

    @property
    def answered(self) -> int:
        return self.server.answered[self.habit]


def compare_build(trial: Trial, name: str, seed: int) -> bool:
    """Print the forecast and the actual figures of a build; return True when they agree."""
    given = (name, "--world", trial.write_world(), *_draw_sources(trial.folder, name, seed), "--json")
    wanted = trial.share * PILOTED[name] * (DRAWN if seed else 1)
    one, other = (trial.folder / f"{name}-{seed}-{which}.duckdb" for which in ("pilot", "fresh"))
    before = trial.answered
    result = trial.run("build", *given, "--forecast", "--warehouse", one, "--pilot", str(max(1, round(wanted)))).json
    piloted = trial.answered - before
    report = trial.run("build", *given, "--warehouse", other).json
    fresh = trial.answered - before - piloted
    trial.run("build", *given, "--warehouse", one)
    return _compare(
        trial, f"{name} {seed}", result, report, (piloted, fresh, trial.answered - before - piloted - fresh)
    )


def compare_evaluation(trial: Trial, name: str, seed: int) -> bool:
    """Print the forecast and the actual figures of an evaluation; return True when they agree."""
    trial.run("build", name)
    one, other = (trial.folder / f"{name}-{seed}-{which}.duckdb" for which in ("pilot", "fresh"))
    for warehouse in (one, other):
        shutil.copy(trial.factmill.home / "factmill.duckdb", warehouse)
    build = ("--build", f"latest:{name}")
    given = ("--world", trial.write_world(), "--model", "mine", "--seed", str(seed), *build, "--json")
    questions = trial.folder / "questions.jsonl"
    trial.run("evaluate", name, "--model", "mine", "--world", given[1], *build, "--questions", questions)
    asked = len(questions.read_text("utf-8").splitlines())
    limit = ("--limit", str(round(DRAWN * asked))) if seed else ()
    wanted = str(max(1, round(trial.share * asked * (DRAWN if seed else 1))))
    before = trial.answered
    result = trial.run("evaluate", name, "--forecast", *given, *limit, "--warehouse", one, "--pilot", wanted).json
    piloted = trial.answered - before
    evaluate = ("evaluate", name, *given, *limit, "--reports", trial.folder)
    trial.run(*evaluate, "--warehouse", other)
    fresh = trial.answered - before - piloted
    report = trial.run("builds", "--warehouse", other, "--json").json[-1]
    trial.run(*evaluate, "--warehouse", one)
    left = trial.answered - before - piloted - fresh
    return _compare(trial, f"{name} evaluated {seed}", result, report, (piloted, fresh, left))


def _compare(
    trial: Trial, title: str, messages: Mapping[str, Any], report: Mapping[str, Any], asked: tuple[int, int, int]
) -> bool:
    """Print a forecast and the actual figures; return True when they agree.

    `asked`: requests to models by the pilot, by a build without cache, and by the build after the pilot."""
    piloted, fresh, left = asked
    services = Counter[str]()
    for stage in messages["stages"]:
        for each in stage["asked"]:
            services[each["service"]] += 0 if each["model"] else each["requests"]
    sent = report["spent"].get("by_service", {})
    model = trial.server.url(trial.habit)
    actual = {
        "model_requests": fresh,
        "wikimedia_requests": sum(count for service, count in sent.items() if service != model),
        "usd": report["cost_usd"],
        "hours": report["seconds"] / 3600,
    }
    total = {**messages["total"], "wikimedia_requests": sum(services.values())}
    good = piloted + left == fresh
    for what, came in actual.items():
        low, high = messages["low"].get(what), messages["high"].get(what)
        between = "" if low is None else f" ({low:,.4f} to {high:,.4f})"
        off = total[what] / came - 1 if came else 0.0
        is_off = what in JUDGED and abs(off) > MOST_OFF
        good &= not is_off
        print(
            f"{title:24} {what:18} forecast {total[what]:12,.4f}{between}  actual {came:12,.4f}  {off:+7.1%}{'  OFF' if is_off else ''}"
        )
    twice = "" if piloted + left == fresh else "  NOT THE SAME: asked twice, or not at all"
    print(f"{title:24} {fresh} requests; {piloted} by the pilot, {left} by the build behind it{twice}", flush=True)
    return good


def _draw_sources(folder: Path, name: str, seed: int) -> list[str]:
    """Return the options that select a seed's rows."""
    if not seed:
        return []
    if name == "slaq":
        return ["--seed", str(seed)]
    given = []
    for source in SOURCES.get(name, FOUNDATIONS):
        to = folder / f"sources-{seed}" / source
        to.mkdir(parents=True, exist_ok=True)
        for path in sorted((ASSETS_ROOT / "data" / "world" / "sources" / source).iterdir()):
            some = path.read_text("utf-8") if source == WHOLE else _draw_rows(path, Random(f"{seed} {path.name}"))
            (to / path.name).write_text(some, "utf-8")
        given += ["--source", str(to)]
    return [*given, "--source", "wikidata", "--sets-a-kind", str(6 + seed)] if name == "fanoutqa" else given


def _draw_rows(path: Path, random: Random) -> str:
    """Return the text of a file with a sample of its rows, in their order; at least one row."""
    text = path.read_text("utf-8")
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            head, *rows = list(csv.reader(file))
        out = io.StringIO()
        csv.writer(out).writerows([head, *_draw(rows, random)])
        return out.getvalue()
    try:
        return json.dumps(_draw(json.loads(text), random), ensure_ascii=False)
    except json.JSONDecodeError:
        return "\n".join(_draw(text.splitlines(), random)) + "\n"


def _draw(rows: Sequence[Any], random: Random) -> list[Any]:
    places = sorted(random.sample(range(len(rows)), max(1, round(DRAWN * len(rows)))))
    return [rows[at] for at in places]


def main() -> int:
    """Compare the benchmarks that the options name."""
    options = read_options(
        __doc__,
        benchmarks=(list(BENCHMARKS), None, list(BENCHMARKS)),
        evaluations={"nargs": "*", "choices": list(BENCHMARKS), "help": "instead; none named: all five"},
        share=(0.25, "of the rows, for the pilot"),
        seeds=[0],
        habit=("well-formed", "of the models", list(HABITS)),
    )
    with folder_on_prefect() as (folder, home, api):
        server = HabitsServer(contents=Measured)
        factmill = Factmill(home, api, on_prefect=False)
        trial = Trial(factmill, server, options.habit, folder, options.share)
        if options.evaluations is None:
            good = [compare_build(trial, name, seed) for seed in options.seeds for name in options.benchmarks]
        else:
            names = options.evaluations or list(BENCHMARKS)
            good = [compare_evaluation(trial, name, seed) for seed in options.seeds for name in names]
        server.close()
    return 0 if all(good) and not server.faults else 1
