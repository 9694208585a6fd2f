"""Check that a Dask cluster gives the same bytes as one process while workers die and join, and measure its speed.

    python bench speed.machines.cluster [builds] [translate] [killed] [--sentences 20000] [--seed 7] [--home FOLDER]
                                            [--benchmark NAME]

builds     builds MultiHal and BioKaLMA in the embedded world with models on the cluster; after the first stage, kills
           one worker and starts another. Compares with builds without a cluster and with data/world/digests.json.
translate  translates sentences of the embedded world: in this process on all cores, and on two workers of one core
           each. Compares the translations.
killed     the same, but kills one worker and starts another after a quarter of the responses.

Needs the extra `dask`. The cluster has two worker processes on this machine. One process with a thread per core does
the work of two workers of one core, so on two cores equal speed is the best possible result; the gap is the cost of
communication. CPU s covers the models' processes except killed ones. Exits 1 when bytes or translations differ.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
from scripts import read_options
from support.processes.cluster import ROOT, LoopbackCluster
from translator_corpus import draw_taught, read_corpus

from factmill.flows.published_digests import load_published_digests
from factmill.tasks.compute_settings import CLUSTER_VARIABLE, ComputeSettings
from factmill.tasks.core.calls.call import Call, CallResponse
from factmill.tasks.core.calls.translation_and_perplexity import make_translate_text_call
from factmill.tasks.core.digests import digest_json
from factmill.tasks.engine.cluster.driver import DaskClusterClient
from factmill.tasks.engine.cluster.protocol import RequiredModelOrGraph
from factmill.tasks.engine.cluster.remote_models import LocalModelOnClusterService
from factmill.tasks.models.model_services import make_translator_service
from factmill.tasks.models.translator import (
    EMBEDDED_TRANSLATOR,
    EMBEDDED_TRANSLATOR_FOLDER,
    Translator,
    get_translator_identity,
)
from factmill.tasks.processes import find_free_port

LANGUAGES = ("de", "fr", "it", "es", "pt")
BENCHMARKS = ("multihal", "biokalma")


@contextmanager
def running_cluster(home: Path) -> Iterator[LoopbackCluster]:
    """Yield a cluster of a scheduler and two workers, each its own process."""
    port = find_free_port()
    options = ["--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", *options]
    scheduler = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    cluster = LoopbackCluster(f"tcp://127.0.0.1:{port}", home)
    try:
        for worker in [cluster.start(), cluster.start()]:
            cluster.wait_joined(worker)
        yield cluster
    finally:
        for process in [*cluster.workers, scheduler]:
            process.kill()
            process.wait()


def compare_builds(cluster: LoopbackCluster, home: Path, benchmarks: Sequence[str]) -> bool:
    """Run each build here and on the cluster, with separate homes; return whether they are the same."""
    right = True
    for name in benchmarks:
        here, _ = build(name, home / "here", {}, lambda: None)
        there, changes = build(
            name, home / "there", {CLUSTER_VARIABLE: cluster.address}, lambda: replace_worker(cluster)
        )
        same = [table for table in here if here[table] == there[table]]
        published = {table: each["sha256"] for table, each in load_published_digests().get(name, {}).items()}
        right &= changes == 1 and here == there
        print(
            f"{name}: {len(same)} of {len(here)} tables the same with a cluster (of which one worker was killed, and one added), "
            f"{sum(here[table] == sha256 for table, sha256 in published.items())} as published",
            flush=True,
        )
    return right


def build(name: str, home: Path, environment: dict[str, str], change: Callable[[], None]) -> tuple[dict[str, str], int]:
    """Run a build; return its tables' digests and how often `change` was called (at the end of the first stage)."""
    started, changes, said = time.monotonic(), 0, ""
    process = subprocess.Popen(
        [sys.executable, "-c", "from factmill.flows.cli.main import main; main()", "build", name, "--json"],
        env={**os.environ, "FACTMILL_HOME": str(home), "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None and process.stdout is not None
    for line in process.stderr:
        said += line
        # the first stage's line, "read_…: N rows, …"
        if not changes and line.startswith(("read_", "draw_")):
            change()
            changes += 1
    report = process.stdout.read()
    if process.wait() != 0:
        sys.exit(f"{name} failed:\n{said}")
    print(f"{name:10} {time.monotonic() - started:6.1f} s {'on the cluster' if environment else 'here'}", flush=True)
    tables = json.loads(report.strip().splitlines()[-1])["tables"]
    return {table: str(each["sha256"]) for table, each in tables.items()}, changes


def replace_worker(cluster: LoopbackCluster) -> None:
    """Kill the oldest living worker and start another, which joins while the work continues."""
    living = next(worker for worker in cluster.workers if worker.poll() is None)
    cluster.kill(living)
    cluster.start()


def translate_all(cluster: LoopbackCluster, options: argparse.Namespace) -> bool:
    """Translate in two or three ways and print the speed; return whether all translations agree."""
    identity = get_translator_identity(EMBEDDED_TRANSLATOR, Path())
    calls = [
        make_translate_text_call(identity, text, LANGUAGES[number % len(LANGUAGES)])
        for number, text in enumerate(draw_texts(options.sentences, options.seed))
    ]
    here = make_translator_service(identity, lambda: Translator(EMBEDDED_TRANSLATOR_FOLDER))
    here.send(calls[:1], lambda call, reply: None)
    said = [time_it("one process", here.send, calls, [psutil.Process()])]
    with closing(DaskClusterClient(ComputeSettings(engine="dask", address=cluster.address))) as connected:
        there = LocalModelOnClusterService(connected, RequiredModelOrGraph("translator", identity))
        # each worker loads its model with the first group
        there.send(calls[:500], lambda call, reply: None)
        workers = [psutil.Process(worker.pid) for worker in cluster.workers]
        if "translate" in options.sections:
            said.append(time_it("two workers", there.send, calls, workers))

        def send(asked: list[Call], deliver: Callable[[Call, CallResponse], None]) -> None:
            come = 0

            def take(call: Call, reply: CallResponse) -> None:
                nonlocal come
                deliver(call, reply)
                come += 1
                if come == len(asked) // 4:
                    replace_worker(cluster)

            there.send(asked, take)

        if "killed" in options.sections:
            said.append(time_it("one killed, one added", send, calls, []))
    print(f"{len(calls)} translations, replies {'identical' if len(set(said)) == 1 else 'DIFFER'}: {said}")
    return len(set(said)) == 1


def draw_texts(count: int, seed: int) -> list[str]:
    """Return distinct texts of the embedded world: sentences, labels and paths."""
    texts: dict[str, None] = {}
    for example in draw_taught(read_corpus(), seed):
        texts[example.source] = None
        if len(texts) == count:
            break
    return list(texts)


def time_it(what: str, send: Any, calls: list[Call], processes: list[psutil.Process]) -> str:
    """Send calls, check that each response arrives once, print the speed, and return a digest of the responses."""
    replies: dict[str, Any] = {}

    def take(call: Call, reply: CallResponse) -> None:
        assert call.key not in replies, "delivered twice"
        replies[call.key] = [reply.body, reply.status, reply.error]

    before, started = cpu_s(processes), time.monotonic()
    send(calls, take)
    wall_s, used_s = time.monotonic() - started, cpu_s(processes) - before
    used = f"{used_s:7.1f} CPU s, {len(calls) / used_s:6.0f} a CPU s" if processes else ""
    print(f"{what:22} {wall_s:7.1f} s, {len(calls) / wall_s:6.0f} a second  {used}", flush=True)
    return digest_json([replies[call.key] for call in calls])[:16]


def cpu_s(processes: list[psutil.Process]) -> float:
    """Return the CPU seconds that the processes have used."""
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def main() -> int:
    options = read_options(
        __doc__,
        sections=["builds", "translate", "killed"],
        sentences=20_000,
        benchmark={"choices": BENCHMARKS, "action": "append", "help": "of builds; both unless named"},
        seed=7,
        home=(Path, "where builds are made; a new folder unless named"),
    )
    right = True
    with tempfile.TemporaryDirectory() as scratch:
        home = options.home or Path(scratch)
        with running_cluster(home) as cluster:
            if {"translate", "killed"} & set(options.sections):
                right &= translate_all(cluster, options)
            if "builds" in options.sections:
                right &= compare_builds(cluster, home, options.benchmark or BENCHMARKS)
    return 0 if right else 1
