"""Measure time and memory of MultiHal builds from graph load to judged paths, with thousands of questions.

    python bench speed.builds.multihal_builds --graph-from DUMP.nt.gz [--questions 5000]

Questions come from the dump's own facts ("What is the <property> of <item>?"), so nearly all of them link and have
paths. They are written as a file in HaluEval's format. The judge is not a language model and scores all paths equally;
a build from cached responses costs the same with any judge. Builds twice in English, each time in a new process: first
to record the responses, then with --force from the cached responses alone. Exits 1 when the second build sends a
request or publishes different bytes.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from scripts import read_options
from speed.builds.whole_builds import run

from factmill.tasks.core.digests import derive_seed
from factmill.tasks.graph.lookup import open_graph
from factmill.tasks.settings import graphs_folder


def write_questions(home: Path, count: int, file: Path) -> None:
    """Write questions about facts of the graph `real`, chosen by digest."""
    with open_graph("real", graphs_folder(home)) as graph:
        facts = graph.query("SELECT DISTINCT subject, property, object FROM graph.edges WHERE subject <> object", {})
        facts.sort(key=lambda fact: derive_seed("multihal-benchmark", *map(str, fact)))
        labels = graph.find_labels(
            [f"{kind}{number}" for fact in facts for kind, number in zip("QPQ", fact, strict=True)]
        )
    rows: dict[str, dict[str, str]] = {}
    for subject, prop, thing in facts:
        if len(rows) == count:
            break
        lines = [labels.get(f"Q{subject}"), labels.get(f"P{prop}"), labels.get(f"Q{thing}")]
        if all(lines):
            question = f"What is the {lines[1]} of {lines[0]}?"
            row = {"knowledge": "", "question": question, "right_answer": str(lines[2]), "hallucinated_answer": ""}
            rows.setdefault(question, row)
    if len(rows) < count:
        sys.exit(f"the graph gives {len(rows)} questions, not {count}: give --questions {len(rows)}")
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows.values()), "utf-8")


def print_stages(report: dict[str, Any]) -> None:
    """Print the rows in and out of each stage, and the total seconds of its batches."""
    for stage in report["stages"]:
        print(f"    {stage['stage']:16} {stage['rows_in']:>7} in {stage['rows_out']:>7} out {stage['seconds']:>8.1f} s")
    print(f"    {json.dumps(report['facts'])}")


def main() -> int:
    """Load the dump, make the questions, and build twice."""
    options = read_options(
        __doc__, graph_from={"type": Path, "required": True, "help": "N-Triples to load as a graph"}, questions=5_000
    )
    with tempfile.TemporaryDirectory() as scratch:
        home, questions = Path(scratch) / "home", Path(scratch) / "qa_data.json"
        run("graph load", ["graph", "load", str(options.graph_from.resolve()), "--name", "real"], home)
        write_questions(home, options.questions, questions)
        arguments = ["build", "multihal", "--graph", "real", "--source", str(questions), "--languages", "eng"]
        first = run("multihal, first build", arguments, home)
        print_stages(first)
        again = run("multihal, from recorded calls", [*arguments, "--force"], home)
        print_stages(again)
        same = first["tables"] == again["tables"]
        print(f"bytes {'identical' if same else 'DIFFER'}; calls of the second build: {again['calls_sent']}")
        return 0 if same and again["calls_sent"] == 0 else 1
