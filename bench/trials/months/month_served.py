"""Run a month of scheduled rebuilds with `factmill serve --interval`, a Prefect server and a world that changes daily.

    python bench trials.months.month_served [--days 24] [--every 30] [--seed 1] [--gc-from 16] [--keep 3]
        [--folder FOLDER]

Each scheduled rebuild covers one day. Between rebuilds the schedule is paused, cached responses and published builds
age by a day, the world file gets the next epoch, its Wikidata changes some people, and pages get new revisions
(month_world.py). The world's services have their own loopback addresses, so their responses age: Wikidata's are
valid for two and a half days, Wikipedia's for one and a half. Each rebuild must request what is too old and what the
changes require, and nothing else; published rows must follow. Prints a line per day; exits 1 on any problem. From
day --gc-from on, `factmill gc` runs after each rebuild, so the disk usage is visible with and without it.
"""

import tempfile
import time
import tomllib
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts import read_options
from support.commands.command import Factmill
from support.processes.standing import ENDED, Standing, standing_server
from trials.months.month_asked import Asked, count_asked
from trials.months.month_chat import MonthChat, read_questions
from trials.months.month_rows import find_wrong_rows
from trials.months.month_world import MODEL, SOURCE, ChangingWorld, add_gauges, day_of, describe_world, rewrite_articles

from factmill.flows.deployment_flows import LEFT_ALONE_STATE
from factmill.tasks.processes import find_free_port
from factmill.tasks.storage.warehouse import open_warehouse
from factmill.tasks.world.serving import running_world

AGES_H = {"wikidata": 60, "wikipedia": 36, "pageviews": 12}
"""Half days are farthest from the start times of rebuilds."""
_UNCOUNTED = 2
"""Calls that check SLAQ's categories: one each, before any stage counts calls."""
_SERVE = """benchmarks = ["granola", "slaq", "fanoutqa"]
world = "{world}"
interval = "{every}s"
[granola]
source = ["{source}"]
[slaq]
categories = ["Aesthetics", "Astronomy"]
per_half = 3
spares = 1
[fanoutqa]
source = ["{gauges}"]
epoch = "{epoch}"
"""


@dataclass
class Disk:
    """Disk usage in bytes."""

    warehouse: int
    runs: int
    """Journals, claims and folders of runs."""
    prefect: int
    """Prefect's files in factmill's home: results of batches, logs, files of runs."""
    history: int
    """Database of the Prefect server."""

    def __str__(self) -> str:
        result = (self.warehouse, self.runs, self.prefect, self.history)
        return " ".join(f"{each / 1e6:7.2f}" for each in result)


class ServedMonth:
    """The services, world and warehouse of the month."""

    def __init__(self, folder: Path, days: int, seed: int, every_s: int) -> None:
        self.folder, self.days, self.every_s = folder, days, every_s
        self.home = folder / "home"
        self.home.mkdir()
        self.world = ChangingWorld(folder / "world", seed)
        self.revisions = rewrite_articles(self.world.folder, set(read_questions()), days)
        self.gauges, self.turns = add_gauges(self.world.folder, days)
        self.port = find_free_port()
        self.chat = MonthChat()
        self.warehouse = self.home / "factmill.duckdb"
        self.file = folder / "month.toml"
        self.wrong: list[str] = []
        self._seen: set[str] = set()
        self._newest = ""
        self._ever = set[str]()

    def live(self, gc_from: int, keep: int) -> None:
        """Run the month; collect problems in `wrong`."""
        with ExitStack() as stack:
            stack.callback(self.chat.close)
            standing = stack.enter_context(standing_server(self.folder, None))
            factmill = Factmill(self.home, standing.api)
            served = ExitStack()
            stack.push(served)
            self._begin_day(0, served)
            process = factmill.start("serve", "--config", self._write_config(), TEST_KEY="x")
            stack.callback(process.wait)
            stack.callback(process.terminate)
            print(Asked.HEADING, "  rows of granola, slaq, fanoutqa   drift   MB of warehouse, runs, prefect, history")
            for day in range(self.days):
                run = self._wait_for_rebuild(standing)
                self._pause(standing)
                self._look_at(day, run, factmill)
                if day >= gc_from:
                    self._clean(factmill, keep)
                if day + 1 < self.days:
                    self._pass_night(day + 1, served)
                    standing.ask(f"/deployments/{self._rebuild(standing)}/resume_deployment", paused=False)
            freed = factmill.run_process("gc", "--keep", "3", "--older-than", "2d", "--yes")
            print(freed.out, freed.err, sep="")
            print(factmill.run_process("gc", "--compact").out, end="")
            print(f"at the end: MB {self._measure()}")
            for line in factmill.run_process("verify", "latest:granola").out.splitlines()[-1:]:
                print(line)

    def _begin_day(self, day: int, served: ExitStack) -> None:
        running = served.enter_context(running_world(self.folder / "served", self.world.folder, self.port))
        urls = {name: running.endpoints[name] for name in AGES_H}
        text = describe_world(day_of(day), urls, {name: f"{age}h" for name, age in AGES_H.items()})
        draft = self.file.with_suffix(".draft")
        draft.write_text(text + MODEL.format(url=self.chat.url), "utf-8")
        draft.replace(self.file)

    def _write_config(self) -> Path:
        config = self.folder / "serve.toml"
        result = {"world": self.file, "every": self.every_s, "source": SOURCE, "gauges": self.gauges}
        config.write_text(_SERVE.format(**result, epoch=day_of(0)), "utf-8")
        return config

    def _wait_for_rebuild(self, standing: Standing) -> dict[str, Any]:
        """Wait for and return the next finished rebuild; ignore runs that found the previous one still at work."""
        while True:
            runs = [each for each in self._list_rebuilds(standing, *ENDED) if each["id"] not in self._seen]
            if runs := [each for each in runs if each["state"]["name"] != LEFT_ALONE_STATE]:
                first: dict[str, Any] = min(runs, key=lambda each: str(each["start_time"]))
                self._seen.add(first["id"])
                return first
            time.sleep(1)

    def _list_rebuilds(self, standing: Standing, *states: str) -> list[Any]:
        chosen = {"state": {"type": {"any_": list(states)}}}
        found: list[Any] = standing.ask("/flow_runs/filter", flows={"name": {"any_": ["rebuild"]}}, flow_runs=chosen)
        return found

    def _pause(self, standing: Standing) -> None:
        """Pause the schedule, and wait until no rebuild is running."""
        standing.ask(f"/deployments/{self._rebuild(standing)}/pause_deployment", paused=True)
        standing.wait(lambda: not self._list_rebuilds(standing, "RUNNING", "PENDING"))
        self._seen |= {each["id"] for each in self._list_rebuilds(standing, *ENDED)}

    def _rebuild(self, standing: Standing) -> str:
        """Return the id of the deployment."""
        return str(standing.deployment("rebuild/rebuild-month")["id"])

    def _pass_night(self, day: int, served: ExitStack) -> None:
        """Advance the world and all recorded times by a day."""
        served.close()
        self.world.change(day)
        self._begin_day(day, served)
        with open_warehouse(self.warehouse) as db:
            db.execute("UPDATE calls SET asked_at = asked_at - to_days(1)")
            db.execute("UPDATE builds SET published_at = published_at - to_days(1)")

    def _look_at(self, day: int, run: dict[str, Any], factmill: Factmill) -> None:
        """Check a day's rebuild and print its results."""
        before = len(self.wrong)
        if run["state"]["type"] != "COMPLETED":
            self.wrong.append(f"day {day}: the rebuild ended as {run['state']['name']}: {run['state']['message']}")
        world = tomllib.loads(self.file.read_text("utf-8"))
        ages_s = {world[name]["url"]: age * 3600 for name, age in AGES_H.items()}
        asked, self._newest = count_asked(self.warehouse, self._newest, ages_s, run["start_time"], self._ever)
        if not 0 <= asked.total - asked.sent_said(run["state"]["message"]) <= _UNCOUNTED:
            self.wrong.append(f"day {day}: {asked.total} are recorded, the run says {run['state']['message']}")
        self.wrong += [
            f"day {day}: {each}" for each in asked.find_wrong(day_of(day), self._changed_words(day), day == 0)
        ]
        rows, wrong = find_wrong_rows(self.warehouse, day, self.world.history, self.revisions)
        self.wrong += [f"day {day}: {each}" for each in wrong]
        drift = self._measure_drift(day, factmill)
        self._newest = max(self._newest, asked.read_newest(self.warehouse))
        text = f"{rows['granola']:4} {rows['slaq']:4} {rows['fanoutqa']:4}  {drift:5}   {self._measure()}"
        print(f"{day:3} {asked} {run['total_run_time']:5.0f} s  {text}", flush=True)
        for each in self.wrong[before:]:
            print(f"    wrong: {each}", flush=True)

    def _changed_words(self, day: int) -> set[str]:
        """Return old and new names and descriptions of people who have changed in Wikidata."""
        history = self.world.history[: day + 1]
        changed = {name for result in history for name in result if result[name] != history[0][name]}
        return changed | {word for result in history for name in changed for word in result[name]}

    def _measure_drift(self, day: int, factmill: Factmill) -> int:
        """Return how many sub-answers are no longer found on a day, and check them against the changed gauges."""
        ran = factmill.run_process(
            "fanoutqa", "validate", "--drift", "--epoch", str(day_of(day)), "--json", TEST_KEY="x"
        )
        if ran.code:
            self.wrong.append(f"day {day}: drift ends with {ran.code}: {ran.err}")
            return -1
        counts = ran.json["counts"]
        due = sum(turn <= day for turn in self.turns)
        if (counts["no_longer_found"], counts["unchanged"]) != (due, counts["references"] - due):
            self.wrong.append(f"day {day}: {due} gauges have turned, drift says {counts}")
        return int(counts["no_longer_found"])

    def _clean(self, factmill: Factmill, keep: int) -> None:
        ran = factmill.run_process("gc", "--keep", str(keep), "--older-than", "3d", "--yes", "--json")
        left = [each["left"] for each in ran.json["freed"] if each["left"]] if ran.code == 0 else [ran.err]
        if left := [each for each in left if "keeps its own history" not in each]:
            self.wrong.append(f"gc: {left}")

    def _measure(self) -> Disk:
        def size(path: Path) -> int:
            return sum(each.stat().st_size for each in (path, *path.rglob("*")) if each.is_file())

        history = sum(each.stat().st_size for each in (self.folder / "standing").glob("prefect.db*"))
        return Disk(size(self.warehouse), size(self.home / "runs"), size(self.home / "prefect"), history)


def main() -> int:
    """Run the month and print the problems."""
    given = read_options(
        __doc__, days=24, seed=1, every=30, gc_from=16, keep=3, folder=(str, "A new folder, which stays.")
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(given.folder or temporary)
        folder.mkdir(exist_ok=True)
        month = ServedMonth(folder, given.days, given.seed, given.every)
        month.live(given.gc_from, given.keep)
    print("\n".join(month.wrong) or "all as it has to be")
    return 1 if month.wrong else 0
