"""Measure the full cost of a GRANOLA-EQ row on a local graph: CPU, memory, disk, Prefect's server and database.

    python bench speed.builds.rows                                    100,000 rows of this checkout
    python bench speed.builds.rows --rows 10000 --before FOLDER       compared with another checkout of the project
    python bench speed.builds.rows --peer OTHER/bin/python            compared with distilabel and datatrove
    python bench speed.builds.rows --rows 1000 --peer … --peer-rows 20000     with another number of rows for the peers

The graph is synthetic (fact_maker.py) and loaded beforehand; the author's completions are scripted. CPU is the user
and system time of the command and of the processes it starts, Prefect's server among them. The cost per row is the
difference of two builds, of all rows and of 500, divided by the difference in rows. This leaves out the start, which
is printed separately. Memory is the largest resident set of one process. With --before, both checkouts run under
this Python, and the script exits 1 when their published bytes differ. A peer receives the same prompts for the same
number of rows. Its model runs in the process and answers immediately; it looks up, checks and caches nothing. The
script prints its CPU, memory and rows per second next to factmill's. The peer's environment also needs requests,
which distilabel 1.5.3 imports without declaring it.
"""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts import ROOT, read_options
from speed.builds.fact_maker import make_lines

COMMAND = """
from factmill.tasks.memory import configure_allocators_and_gc
configure_allocators_and_gc()  # before what follows imports Arrow
from support.worlds.replies import replying
from factmill.flows.cli.entry import main
with replying():
    main()
"""
FEW = 500
PEERS = ("distilabel", "datatrove")
SAMPLE_S = 0.2
TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Cost:
    """The resources that a command used, split into its own process and the ones it started."""

    own_s: float
    started_s: float
    own_mb: float
    started_mb: float
    """The largest of the started processes."""
    wall_s: float
    out: str

    @property
    def cpu_s(self) -> float:
        """Total CPU seconds."""
        return self.own_s + self.started_s


def run(command: Sequence[str], folder: Path, checkout: Path = ROOT, **environment: str) -> Cost:
    """Run a command in a checkout, with that checkout's factmill, and measure it."""
    with (folder / "out.txt").open("w+b") as out, (folder / "err.txt").open("w+b") as err:
        started = os.times().elapsed
        environment |= {"PYTHONPATH": f"{checkout}:{checkout}/tests"}
        process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=out, stderr=err, cwd=checkout)
        seen: dict[int, tuple[float, float]] = {}
        done = threading.Event()
        watcher = threading.Thread(target=_watch, args=(process.pid, seen, done))
        watcher.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall = os.times().elapsed - started
        done.set()
        watcher.join()
    if code := os.waitstatus_to_exitcode(status):
        sys.exit(f"{' '.join(command[-5:])}: exit code {code}\n{(folder / 'err.txt').read_text('utf-8')[-3000:]}")
    _, own_mb = seen.pop(process.pid, (0.0, 0.0))
    started_s = sum(cpu for cpu, _ in seen.values())
    own_s = usage.ru_utime + usage.ru_stime - started_s
    started_mb = max((memory for _, memory in seen.values()), default=0.0)
    return Cost(own_s, started_s, own_mb, started_mb, wall, (folder / "out.txt").read_text("utf-8"))


def _watch(pid: int, seen: dict[int, tuple[float, float]], done: threading.Event) -> None:
    """Record CPU (s) and peak memory (MB) of a process and its descendants while they run."""
    while not done.wait(SAMPLE_S):
        for each in _list_tree(pid):
            try:
                result = dict(line.split(":", 1) for line in Path(f"/proc/{each}/status").read_text().splitlines())
                times = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            except (OSError, ValueError):
                continue  # the process has ended
            if "VmHWM" in result:
                seen[each] = ((int(times[11]) + int(times[12])) / TICK, int(result["VmHWM"].split()[0]) / 1024)


def _list_tree(pid: int) -> list[int]:
    found = [pid]
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [each for child in path.read_text().split() for each in _list_tree(int(child))]
        except OSError:
            continue
    return found


def build(checkout: Path, home: Path, *more: str) -> tuple[Cost, dict[str, Any]]:
    """Delete the warehouse and Prefect's database, build GRANOLA-EQ from the graph, and return cost and report."""
    for path in (home / "factmill.duckdb", home / "prefect"):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    command = [sys.executable, "-c", COMMAND, "build", "granola", "--graph", "facts", "--source", "wikidata", "--json"]
    cost = run([*command, *more], home, checkout, FACTMILL_HOME=str(home))
    return cost, json.loads(cost.out.splitlines()[-1])


def measure(name: str, checkout: Path, home: Path, rows: int) -> tuple[dict[str, Any], Cost]:
    """Print the lines of a checkout; return its published tables and the cost of the build of all rows."""
    few, _ = build(checkout, home, "--limit", str(FEW))
    many, report = build(checkout, home)
    history = home / "prefect" / "prefect.db"
    with closing(sqlite3.connect(history)) as db:
        (runs,) = db.execute("SELECT count(*) FROM task_run").fetchone()
    _show(name, few, many, rows, FEW)
    print(
        f"{'':11} {report['rows']:,} of {report['inputs']:,} rows published, {report['calls_sent']:,} calls; warehouse "
        f"{_megabytes(home / 'factmill.duckdb'):.1f} MB; Prefect: {many.started_s:.1f} s of CPU, {many.started_mb:.0f} MB, "
        f"{runs:,} task runs, database {_megabytes(history):.1f} MB",
        flush=True,
    )
    tables: dict[str, Any] = report["tables"]
    return tables, many


def measure_peers(python: str, folder: Path, rows: int, ours: tuple[int, Cost]) -> None:
    """Print two lines per peer, given the prompts of this checkout's build; `ours` is factmill's (rows, cost)."""
    prompts = folder / "prompts.jsonl"
    sys.path.insert(0, str(ROOT))
    from factmill.tasks.assets import load_prompt
    from factmill.tasks.core.authoring.granular_answers import (
        make_answer_levels_prompt,
        make_description_consistency_prompt,
    )
    from factmill.tasks.granola.params import CONSISTENCY_PROMPT, LEVELS_PROMPT

    levels, consistency = load_prompt(LEVELS_PROMPT), load_prompt(CONSISTENCY_PROMPT)
    with prompts.open("w", encoding="utf-8") as lines:
        for number in range(rows):
            question, answer = f"Where was Balan Mirton {number} born?", f"Gadel {number % 997}"
            asks = {
                "author": make_answer_levels_prompt(levels, question, answer, "painter from Kenya", "city in Kenya"),
                "question": make_description_consistency_prompt(
                    consistency, question, answer, answer, "painter from Kenya", 8
                ),
                "answer": make_description_consistency_prompt(
                    consistency, question, answer, answer, "city in Kenya", 8
                ),
            }
            shown = {
                f"{name}_prompt": "\n".join(each["content"] for each in ask.build_messages())
                for name, ask in asks.items()
            }
            lines.write(json.dumps({"id": f"r{number}", **shown}) + "\n")
    script = str(Path(__file__).with_name("peer_rows.py"))
    for name in PEERS:
        few, many = (
            run([python, script, name, str(prompts), str(count), str(folder / f"{name}{count}")], folder)
            for count in (FEW, rows)
        )
        if (came := json.loads(many.out.splitlines()[-1])["rows"]) != rows:
            sys.exit(f"{name}: {came} of {rows} rows came back")
        _show(name, few, many, rows, FEW)
        own_rows, own = ours
        print(
            f"{'':11} {rows / many.wall_s:,.0f} rows a second of wall, {max(many.own_mb, many.started_mb):.0f} MB in its "
            f"largest process; factmill, {own_rows:,} rows: {own_rows / own.wall_s:,.0f} rows a second, CPU a row "
            f"{own.cpu_s / own_rows / (many.cpu_s / rows):.2f} times its, memory "
            f"{max(own.own_mb, own.started_mb) / max(many.own_mb, many.started_mb):.2f} times",
            flush=True,
        )


def _show(name: str, few: Cost, many: Cost, rows: int, fewer: int) -> None:
    each = (many.cpu_s - few.cpu_s) / (rows - fewer)
    start = few.cpu_s - each * fewer
    print(
        f"{name:11} {each * 1000:6.2f} ms of CPU a row, {start:5.1f} s to start; {rows:,} rows: {many.cpu_s:6.1f} s of CPU "
        f"({many.own_s:.1f} its own), {many.wall_s:6.1f} s of wall, {many.own_mb:5.0f} MB",
        flush=True,
    )


def _megabytes(path: Path) -> float:
    return path.stat().st_size / 1e6


def main() -> int:
    """Print two lines per checkout and per peer."""
    options = read_options(
        __doc__,
        rows=100_000,
        seed=7,
        before=(Path, "another checkout of the project"),
        peer=(str, "Python of an environment that has distilabel, datatrove and requests"),
        peer_rows=(int, "rows that peers are asked; default: as many as --rows"),
    )
    if (options.peer_rows or options.rows) <= FEW or options.rows <= FEW:
        sys.exit(
            f"--rows, --peer-rows: more than {FEW} are needed, since the cost of a row is computed from a difference"
        )
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        dump = home / "facts.nt"
        with dump.open("w", encoding="utf-8") as lines:
            lines.writelines(make_lines(options.rows, options.seed))
        load = [sys.executable, "-c", COMMAND, "graph", "load", str(dump), "--name", "facts"]
        run(load, home, FACTMILL_HOME=str(home))
        dump.unlink()
        checkouts = {"before": options.before.resolve()} if options.before else {}
        measured = [measure(name, path, home, options.rows) for name, path in {**checkouts, "factmill": ROOT}.items()]
        published = [tables for tables, _ in measured]
        if options.before:
            print(f"bytes of the published tables: {'identical' if published[0] == published[1] else 'DIFFER'}")
        if options.peer:
            measure_peers(options.peer, home, options.peer_rows or options.rows, (options.rows, measured[-1][1]))
        else:
            print("distilabel, datatrove: not measured, no --peer")
    return 0 if published[0] == published[-1] else 1
