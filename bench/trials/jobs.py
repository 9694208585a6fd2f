"""Compare batch jobs at a server that restarts, loses lines and reorders responses with the same single requests.

    python bench trials.jobs [--requests 5000] [--most-lines 1000]
    python bench trials.jobs --builds [granola …] [--habit "reasoning model"] [--kill] [--most-lines 200]
    python bench trials.jobs --builds [granola …] --files

Sends --requests requests, or with `--builds` runs whole benchmarks of the embedded world (by default all five). The
server also fails some lines. Repeats each with single requests in another warehouse, and compares all published
tables cell by cell. `--kill` kills a build's process during its first job and reruns the same command. With
`--files`, builds write files of requests, which a stand-in for `vllm run-batch` answers
(support/batches/run_batch.py). Prints the server's counts: jobs, lines, restarts, lost and failed lines, and
requests answered twice, which would be paid twice. Exits 1 when a response is lost or duplicated or a table differs.
"""

import json
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
from scripts import folder_on_prefect, read_options
from support.batches.asking import answer, ask_all, bodies, collect, jobs, open_chat
from support.batches.run_batch import run_batch
from support.batches.server import BatchServer
from support.commands.command import Factmill, Ran
from support.habits.server import HabitsServer, write_model_world
from support.habits.table import HABITS

from factmill.flows.benchmarks import BENCHMARKS
from factmill.tasks.errors import AwaitingReplyFile

LOSES, FAILS, RESTARTS = 50, 41, 37
"""One line in LOSES is lost, one in FAILS fails; one request in RESTARTS meets a restarting server."""
PRICES = "usd_per_million_in = 1.1\nusd_per_million_out = 4.4"


class Counted:
    """A model at a server of batch jobs; `answered` counts its answers by the text of the request."""

    def __init__(self, folder: Path, say: Any) -> None:
        self.answered: Counter[str] = Counter()
        self.singly = 0
        """Answered requests outside jobs."""
        self._say = say
        self.server = BatchServer(
            folder,
            self._answer,
            loses_every=LOSES,
            fails_every=FAILS,
            restarts_at=frozenset(range(RESTARTS, 1_000_000, RESTARTS)),
        )

    def _answer(self, body: dict[str, Any]) -> dict[str, Any]:
        said: dict[str, Any] = self._say(body)
        self.answered[json.dumps(body, sort_keys=True)] += said.get("status", 200) == 200
        return said

    def describe(self) -> str:
        """Return a summary of the server's counts."""
        sizes = [len(self.server.read_input(job)) for job in self.server.jobs]
        listed = ", ".join(map(str, sizes[:30])) + (", …" if len(sizes) > 30 else "")
        return (
            f"{len(sizes)} jobs of {listed} lines; {self.answered.total():,} requests answered, "
            f"{self.answered.total() - sum(self.server.answered.values()):,} of them singly, "
            f"{sum(count > 1 for count in self.answered.values())} twice; {self.server.restarts} restarts, "
            f"{self.server.lost} lines lost, {self.server.failed} failed"
        )

    @property
    def is_doubled(self) -> bool:
        return max(self.answered.values(), default=0) > 1


def try_requests(folder: Path, requests: int, most_lines: int) -> bool:
    """Send requests by jobs and singly; return True when the responses agree and none was answered twice."""
    model = Counted(folder / "server", answer)
    calls = ask_all(requests)
    begun = time.process_time()
    chat = open_chat(model.server, folder, jobs=jobs(requests=most_lines, poll_s=0.02))
    by_jobs = collect(chat, calls)
    spent = time.process_time() - begun
    text, is_doubled = model.describe(), model.is_doubled
    singly = collect(open_chat(model.server, None, mode="single"), calls)
    model.server.close()
    same = bodies(by_jobs) == bodies(singly) and len(by_jobs) == requests
    left = list((folder / "jobs").glob("*"))
    print(f"{requests:,} requests: {text}; {spent:.1f} CPU s, the server's included")
    print(
        f"  {'the same as by single calls' if same else 'OTHER than by single calls'}; {len(left)} files of jobs left"
    )
    return same and not is_doubled and not left


class Builds:
    """Builds by jobs and by single requests, with one habit of the model."""

    def __init__(self, folder: Path, factmill: Factmill, habits: HabitsServer, habit: str, most_lines: int) -> None:
        self._folder, self._factmill, self._habits = folder, factmill, habits
        self._habit, self._most_lines = habit, most_lines

    def compare(self, name: str, kills: bool) -> bool:
        """Build a benchmark both ways; return True when all tables agree and no request was answered twice."""
        folder = self._folder / name
        folder.mkdir()
        model = Counted(folder / "server", lambda body: self._habits.answer(self._habit, body))
        batch = f'{PRICES}\nmode = "batch"\njobs = {{ poll_s = 0.3, requests = {self._most_lines} }}'
        world = write_model_world(folder, model.server.url, self._habit, settings=batch)
        begun = time.perf_counter()
        if kills:
            self._kill_once(name, world, model)
        by_jobs = self._build(name, world, folder / "jobs.duckdb")
        seconds, text, is_doubled = time.perf_counter() - begun, model.describe(), model.is_doubled
        world.write_text(world.read_text("utf-8").replace(batch, PRICES), "utf-8")
        singly = self._build(name, world, folder / "singly.duckdb")
        model.server.close()
        print(
            f"{name}: {text}; {seconds:.0f} s, US$ {by_jobs.json['cost_usd']:.4f}, singly {singly.json['cost_usd']:.4f}"
        )
        left = list((folder / "jobs.duckdb.runs" / "jobs").rglob("*.job"))
        print(f"  left: {left}" if left else "  no job is left")
        return self._agree(folder, by_jobs, singly) and not is_doubled and not left

    def _agree(self, folder: Path, by_jobs: Ran, singly: Ran) -> bool:
        """Compare the tables of two builds cell by cell, and print the differences."""
        tables = {
            table: _read(folder / "jobs.duckdb", by_jobs, table) == _read(folder / "singly.duckdb", singly, table)
            for table in by_jobs.json["tables"]
        }
        same = tables.keys() == singly.json["tables"].keys() and all(tables.values())
        other = ", ".join(table for table, agrees in tables.items() if not agrees)
        print(
            f"  {sum(tables.values())} of {len(tables)} tables as by single calls, {by_jobs.json['rows']} rows"
            f"{f'; OTHER: {other}' if other else ''}",
            flush=True,
        )
        return same

    def compare_files(self, name: str) -> bool:
        """Build a benchmark by files and directly; return True when all tables agree."""
        folder = self._folder / name
        folder.mkdir()
        url = self._habits.url(self._habit)
        world = write_model_world(folder, url, self._habit, settings=PRICES)
        requests, replies = folder / "requests.jsonl", folder / "replies.jsonl"
        begun, sizes = time.perf_counter(), list[int]()
        ran = self._build(name, world, folder / "jobs.duckdb", "--requests", requests)
        while ran.code:
            sizes.append(run_batch(requests, replies, url))
            ran = self._build(name, world, folder / "jobs.duckdb", "--requests", requests, "--replies", replies)
        print(f"{name}: {len(sizes)} files of {sizes} requests, {time.perf_counter() - begun:.0f} s")
        return self._agree(folder, ran, self._build(name, world, folder / "singly.duckdb"))

    def _build(self, name: str, world: Path, warehouse: Path, *files: str | Path) -> Ran:
        ran = self._factmill("build", name, "--world", world, "--warehouse", warehouse, *files, "--json")
        if ran.code and not (files and ran.code == AwaitingReplyFile.exit_code):
            raise SystemExit(f"{name}: the build ends with {ran.code}: {ran.err[-2000:]}")
        return ran

    def _kill_once(self, name: str, world: Path, model: Counted) -> None:
        """Kill a build during its first job, which continues at the server."""
        model.server.ends[1] = "never"
        process = self._factmill.start(
            "build", name, "--world", world, "--warehouse", self._folder / name / "jobs.duckdb"
        )
        while not any(job["status"] == "in_progress" for job in model.server.jobs) and process.poll() is None:
            time.sleep(0.05)
        process.kill()
        process.communicate()
        model.server.ends.clear()
        print(f"{name}: killed while job 1 was under way, with {model.describe()}", flush=True)


def _read(warehouse: Path, ran: Ran, table: str) -> list[tuple[Any, ...]]:
    """Return the rows of a published table, without the build id."""
    with duckdb.connect(str(warehouse), read_only=True) as db:
        return db.execute(
            f'SELECT * EXCLUDE (build_id) FROM "{table}" WHERE build_id = ? ORDER BY ALL', [ran.json["build_id"]]
        ).fetchall()


def try_builds(names: Sequence[str], habit: str, most_lines: int, kills: bool, files: bool) -> bool:
    """Build benchmarks both ways; return True when all agree."""
    with folder_on_prefect() as (folder, home, api):
        habits = HabitsServer()
        builds = Builds(folder, Factmill(home, api), habits, habit, most_lines)
        good = [builds.compare_files(name) if files else builds.compare(name, kills) for name in names]
        habits.close()
    return all(good)


def main() -> int:
    """Send requests, or run builds."""
    result = read_options(
        __doc__,
        requests=5_000,
        builds={"nargs": "*", "choices": list(BENCHMARKS), "help": "none named: all five"},
        habit=("well-formed", "of the model that builds ask", list(HABITS)),
        kill=(False, "kill each build while a job is under way"),
        files=(False, "builds by files of requests and replies"),
        most_lines=(1_000, "of a job"),
    )
    if result.builds is not None:
        names = result.builds or list(BENCHMARKS)
        return 0 if try_builds(names, result.habit, result.most_lines, result.kill, result.files) else 1
    with tempfile.TemporaryDirectory() as folder:
        return 0 if try_requests(Path(folder), result.requests, result.most_lines) else 1
