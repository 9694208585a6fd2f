"""A benchmark that is nowhere but in a folder of its own is built, shown, explained, verified and exported by its record."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WITH_THE_RECORD = (
    "from flows.benchmarks import BENCHMARKS; from toy_benchmark import COUNTRIES\n"
    "BENCHMARKS[COUNTRIES.name] = COUNTRIES\n"
    "from flows.cli.main import main; main()"
)
Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def command(session_home: Path, prefect_api: str, tmp_path: Path) -> Command:
    """Run `factmill` where the benchmark's module lies in a temporary folder and its record is in the list."""
    shutil.copy(ROOT / "tests" / "support" / "toy_benchmark.py", tmp_path)
    environment = {"FACTMILL_HOME": str(session_home), "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}", "COLUMNS": "150"}

    def run(*arguments: str | Path, code: int = 0) -> "subprocess.CompletedProcess[str]":
        given = [sys.executable, "-c", WITH_THE_RECORD, *map(str, arguments), "--warehouse", str(tmp_path / "w.duckdb")]
        done = subprocess.run(
            given, env=os.environ | environment, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        return done

    return run


def test_a_new_benchmark_needs_its_record_alone(command: Command, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("Germany\nAtlantis of the tests\nFrance\n", "utf-8")
    build = ("build", "countries", "--file", "names.txt", "--most-others", "1")
    report = json.loads(command(*build, "--json").stdout)
    assert (report["inputs"], report["rows"], report["reasons"]) == (3, 2, {"ask_countries": {"no_such_item": 1}})
    assert "already built from the same inputs" in command(*build).stdout

    assert "Which number has Germany?" in command("show", "countries").stdout
    told = command("explain", "countries", "c-Ger").stdout
    assert "  answer      Q183\n" in told
    assert "ask_countries: find_items of embedded-" in told
    assert "no item is called 'Atlantis of the tests'" in command("explain", "countries", "c-Atl").stdout

    assert "rebuilt byte for byte" in command("verify", "latest:countries").stdout
    command("export", "latest:countries", "--to", tmp_path / "out")
    rows = [json.loads(line) for line in (tmp_path / "out" / "countries.jsonl").read_text("utf-8").splitlines()]
    assert [(row["id"], row["qid"]) for row in rows] == [("c-France", "Q142"), ("c-Germany", "Q183")]

    assert "Other items of the name that are listed. [default: 3; from 0 to 9]" in " ".join(
        command("build", "countries", "--help").stdout.split()
    )
    refused = command(*build[:-1], "10", code=2).stderr
    assert "Invalid value for '--most-others': '10': Input should be less than or equal to 9" in refused
