"""Measure CPU time per item of an evaluation apart from waiting for the model, against Inspect AI on the same items.

    python bench speed.evaluate --inspect OTHER/bin/python      OTHER: an environment with inspect_ai, matching our lock
    python bench speed.evaluate                                 factmill alone, and a file of 100,000 answers

Both use a model that runs in the process and answers immediately: factmill's is a stand-in for the chat client,
behind the recorder and its journal; Inspect's is its own mock model. Both score GRANOLA's rows with the same
functions. The cost per item is the difference of a run with many items and one with few, divided by the difference
in items. This leaves out the start, which is printed separately. CPU is the user and system time of the command and
of the processes it starts, with Prefect's server for factmill. The file of answers is scored whole, and the peak
memory of the command is printed. Run nothing else on the machine.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts import ROOT, read_options

FEW, MANY, FILED = 1_000, 5_000, 100_000

OURS = """
import sys
from pathlib import Path
from factmill.tasks.clients import chat
from factmill.tasks.core.calls.call import CallResponse

class Instant:
    def __init__(self, identity, *_):
        self.identity, self.is_outside = identity, True
    def send(self, calls, deliver):
        for call in calls:
            texts = ["Paris"] * int(call.parts["samples"])
            deliver(call, CallResponse({"texts": texts, "finish": ["stop"] * len(texts), "fingerprint": None}, tokens_in=20, tokens_out=2))
    def notes(self):
        return []

chat.ChatClient = Instant
from factmill.flows.cli.main import main
main()
"""
THEIRS = """
import json, sys
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, mean, scorer
from inspect_ai.solver import generate
from factmill.tasks.granola.core.evaluation.scoring import find_finest_matched_levels, compute_best_f1_by_level

rows = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")][: int(sys.argv[2])]

@scorer(metrics={"accuracy": [mean()], "granola_accuracy": [mean()]})
def levels():
    async def score(state, target):
        f1 = compute_best_f1_by_level([state.output.completion], [[[each] for each in target.target]])
        level = int(find_finest_matched_levels(f1, 0.5)[0])
        return Score(value={"accuracy": float(level == 1), "granola_accuracy": float(level > 0)}, answer=state.output.completion)
    return score

samples = [Sample(id=row["id"], input=row["question"], target=row["granola_answers"]) for row in rows]
paris = ModelOutput.from_content("mockllm/model", "Paris")
paris.usage = ModelUsage(input_tokens=20, output_tokens=2, total_tokens=22)
model = get_model("mockllm/model", custom_outputs=lambda *_, **__: paris)
task = Task(dataset=MemoryDataset(samples), solver=generate(), scorer=levels())
(log,) = eval(task, model=model, display="none", log_dir=sys.argv[3])
if log.status != "success":
    sys.exit(f"Inspect: {log.status}: {log.error.message if log.error else ''}")
"""


def run(command: list[str], home: Path) -> tuple[float, float, float, str]:
    """Run a command; return its CPU seconds, wall seconds, peak resident set in MiB, and output."""
    environment = {**os.environ, "FACTMILL_HOME": str(home), "PYTHONPATH": str(ROOT), "TEST_KEY": "k"}
    started = os.times().elapsed
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    out = process.stdout.read() if process.stdout else b""
    _, status, usage = os.wait4(process.pid, 0)
    if code := os.waitstatus_to_exitcode(status):
        sys.exit(f"{' '.join(command[:3])[:80]} …: exit code {code}; run it by hand to see why")
    return usage.ru_utime + usage.ru_stime, os.times().elapsed - started, usage.ru_maxrss / 1024, out.decode()


def show(name: str, few: tuple[float, float, float, str], many: tuple[float, float, float, str]) -> float:
    """Print the line of an engine and return its CPU milliseconds per item."""
    each = (many[0] - few[0]) / (MANY - FEW) * 1000
    start = few[0] - each * FEW / 1000
    print(
        f"{name:12} {each:8.2f} ms an item   {start:6.1f} s to start   {many[0]:7.1f} s of CPU for {MANY:,} items, {many[1]:.1f} s of wall",
        flush=True,
    )
    return each


def main() -> None:
    """Print a line per engine, their ratio, and the line of the file of answers."""
    from support.builds.copies import publish_copies
    from support.models.scripted_chat import write_chat_world

    from factmill.tasks.storage.builds import load_published_table, resolve_build
    from factmill.tasks.storage.warehouse import open_warehouse

    options = read_options(__doc__, inspect=(str, "Python of an environment that has inspect_ai"))
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        run([sys.executable, "-c", "from factmill.flows.cli.main import main; main()", "build", "granola"], home)
        warehouse = home / "factmill.duckdb"
        world = write_chat_world(home, "http://127.0.0.1:9/v1", ["answerer"])
        origin = resolve_build(warehouse, "latest:granola").build_id
        builds = {rows: publish_copies(warehouse, origin, "granola_eq", rows) for rows in (FEW, MANY, FILED)}
        evaluate = [
            "evaluate",
            "granola",
            "--setting",
            "greedy",
            "--similarity",
            "0",
            "--reports",
            str(home / "reports"),
        ]
        ours = {
            rows: run([sys.executable, "-c", OURS, *evaluate, "--world", str(world), "--build", builds[rows]], home)
            for rows in (FEW, MANY)
        }
        mine = show("factmill", ours[FEW], ours[MANY])
        with open_warehouse(warehouse) as db:
            rows = load_published_table(db, builds[MANY], "granola_eq").to_pylist()
            filed = load_published_table(db, builds[FILED], "granola_eq").select(["id", "granola_answers"]).to_pylist()
        if options.inspect:
            items = home / "items.jsonl"
            items.write_text(
                "".join(json.dumps({k: row[k] for k in ("id", "question", "granola_answers")}) + "\n" for row in rows)
            )
            theirs = {
                rows: run([options.inspect, "-c", THEIRS, str(items), str(rows), str(home / f"logs{rows}")], home)
                for rows in (FEW, MANY)
            }
            print(f"ratio        {show('inspect_ai', theirs[FEW], theirs[MANY]) / mine:8.1f} times ours, an item")
        else:
            print("inspect_ai   not measured: no --inspect")
        answers = home / "answers.jsonl"
        answers.write_text(
            "".join(
                json.dumps({"id": row["id"], "answer": row["granola_answers"][at % len(row["granola_answers"])]}) + "\n"
                for at, row in enumerate(filed)
            )
        )
        cpu, wall, memory, out = run(
            [sys.executable, "-c", OURS, *evaluate, "--answers", str(answers), "--build", builds[FILED], "--json"], home
        )
        seconds = json.loads(out.splitlines()[-1])["seconds"]
        print(
            f"a file of {FILED:,} answers: scored in {seconds:.1f} s; the whole command, Prefect's start and the report with "
            f"it: {wall:.1f} s, {cpu:.1f} s of CPU, {memory:,.0f} MiB"
        )
