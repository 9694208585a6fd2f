"""A benchmark that is nowhere but in a folder of its own is built, shown, explained, verified and exported by its record."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.work.command import ROOT, Factmill, Ran

WITH_THE_RECORD = """
import json, sys
from pathlib import Path
from flows.benchmarks import BENCHMARKS
from toy_benchmark import COUNTRIES
BENCHMARKS[COUNTRIES.name] = COUNTRIES
from support.work.command import Factmill
factmill = Factmill(Path(sys.argv[1]), sys.argv[2])
for line in sys.stdin:
    ran = factmill(*json.loads(line))
    print(json.dumps([ran.code, ran.out, ran.err]), flush=True)
"""
"""A process that runs commands, a line of JSON each."""
Command = Callable[..., Ran]


@pytest.fixture
def command(factmill: Factmill, tmp_path: Path) -> Iterator[Command]:
    """Run `factmill` where the benchmark's module lies in a temporary folder and its record is in the list."""
    shutil.copy(ROOT / "tests" / "support" / "toy_benchmark.py", tmp_path)
    path = os.pathsep.join(map(str, (ROOT, ROOT / "tests", tmp_path)))
    given = [sys.executable, "-c", WITH_THE_RECORD, str(factmill.home), factmill.prefect_api]
    process = subprocess.Popen(
        given,
        env=os.environ | {"PYTHONPATH": path},
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    assert process.stdout

    def run(*arguments: str | Path, code: int = 0) -> Ran:
        process.stdin.write(json.dumps([*map(str, arguments), "--warehouse", str(tmp_path / "w.duckdb")]) + "\n")
        process.stdin.flush()
        ran = Ran(*json.loads(process.stdout.readline()))
        assert ran.code == code, ran
        return ran

    yield run
    process.stdin.close()
    assert process.wait() == 0


def test_a_new_benchmark_needs_its_record_alone(command: Command, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("Germany\nAtlantis of the tests\nFrance\n", "utf-8")
    build = ("build", "countries", "--file", "names.txt", "--most-others", "1")
    report = json.loads(command(*build, "--json").out)
    assert (report["inputs"], report["rows"], report["reasons"]) == (3, 2, {"ask_countries": {"no_such_item": 1}})
    assert "already built from the same inputs" in command(*build).out

    assert "Which number has Germany?" in command("show", "countries").out
    told = command("explain", "countries", "c-Ger").out
    assert "  answer      Q183\n" in told
    assert "ask_countries: find_items of embedded-" in told
    assert "no item is called 'Atlantis of the tests'" in command("explain", "countries", "c-Atl").out

    assert "rebuilt byte for byte" in command("verify", "latest:countries").out
    command("export", "latest:countries", "--to", tmp_path / "out")
    rows = [json.loads(line) for line in (tmp_path / "out" / "countries.jsonl").read_text("utf-8").splitlines()]
    assert [(row["id"], row["qid"]) for row in rows] == [("c-France", "Q142"), ("c-Germany", "Q183")]

    assert "Other items of the name that are listed. [default: 3; from 0 to 9]" in " ".join(
        command("build", "countries", "--help").out.split()
    )
    refused = command(*build[:-1], "10", code=2).err
    assert "Invalid value for '--most-others': '10': Input should be less than or equal to 9" in refused
