"""Helpers that trials share: builds as processes, their leftovers, and the requests they sent."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest
from scripts import ROOT
from support.commands.command import Ran, inherited
from trials.observed import WEIGHTS, watch

_GONE_S = 10.0
"""Time limit for the children of a killed process to end."""


@dataclass
class Trial:
    """A folder with a home, and the processes started in it."""

    folder: Path
    prefect_api: str = ""
    """Address of a running Prefect server; empty: each build starts its own."""
    home: Path = Path()
    """Default: FACTMILL_HOME, or a new folder."""
    inside: Callable[..., Ran] | None = None
    """Runs a command in this process, which saves seconds; commands to be stopped still get a process."""
    seed: int = 0
    rate: float = 0.0
    """Share of requests that meet a fault."""
    kinds: Sequence[str] = tuple(WEIGHTS)
    """Kinds of faults."""
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Environment variable in every process of the trial."""

    def __post_init__(self) -> None:
        if self.home == Path():
            self.home = Path(os.environ.get("FACTMILL_HOME") or self.folder / "home")
        for each in (self.temp, self.folder / "logs"):
            each.mkdir(parents=True, exist_ok=True)

    @property
    def temp(self) -> Path:
        """Folder used instead of /tmp."""
        return self.folder / "tmp"

    def start(self, name: str, arguments: Sequence[str]) -> "subprocess.Popen[str]":
        """Start `factmill` with arguments; log the requests to its services under `name`."""
        self.seed += 1
        log = self.folder / "logs" / name
        observed = ("-m", "trials.observed", str(log), str(self.seed), str(self.rate), ",".join(self.kinds))
        return self.start_program(observed, arguments)

    def start_program(self, program: Sequence[str], arguments: Sequence[str]) -> "subprocess.Popen[str]":
        """Start a Python program that runs `factmill` with arguments."""
        command = [sys.executable, *program, *arguments]
        environment = {
            **inherited(),
            "FACTMILL_HOME": str(self.home),
            "PREFECT_API_URL": self.prefect_api,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'bench'}{os.pathsep}{ROOT / 'tests'}",
            "TMPDIR": str(self.temp),
            "TRIAL": self.mark,
            "TEST_KEY": "x",
        }
        return subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder
        )

    def tell(self, name: str, arguments: Sequence[str]) -> tuple[int, str, str]:
        """Run `factmill`; return its exit code, output and messages."""
        if self.inside:
            self.seed += 1
            with pytest.MonkeyPatch.context() as patch:
                watch(self.folder / "logs" / name, self.seed, self.rate, self.kinds, patch.setattr)
                ran = self.inside(*arguments, TEST_KEY="x")
            return ran.code, ran.out, ran.err
        process = self.start(name, arguments)
        out, err = process.communicate()
        return process.returncode, out, err

    def run(self, name: str, arguments: Sequence[str]) -> tuple[int, dict[str, Any], str]:
        """Run `factmill build … --json`; return its exit code, published tables and messages."""
        code, out, err = self.tell(name, arguments)
        return code, read_tables(out), err

    def requests(self, name: str = "*") -> list[list[str]]:
        """Return the requests of a run (by default of all): fault or -, service, digest of the request."""
        return [line.split() for path in (self.folder / "logs").glob(name) for line in path.read_text().splitlines()]

    def find_orphans(self) -> list[str]:
        """Return the processes of this trial that still run after a wait."""
        deadline = time.monotonic() + _GONE_S
        while (left := self._alive()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left

    def find_litter(self, warehouse: Path) -> list[str]:
        """Return leftover files when no process runs: of runs, of DuckDB, and temporary ones."""
        runs = warehouse.with_name(warehouse.name + ".runs")
        there = [*runs.rglob("*"), *self.temp.rglob("*"), *warehouse.parent.glob(f"{warehouse.name}.wal")]
        return [str(path) for path in there if path.is_file() and path != runs / "claims" / "lock"]

    def _alive(self) -> list[str]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if f"TRIAL={self.mark}".encode() in (process / "environ").read_bytes():
                    found.append(f"{process.name} {(process / 'cmdline').read_bytes()[:200]!r}")
            except OSError:
                continue
        return found


def read_tables(out: str) -> dict[str, Any]:
    """Return benchmark → tables and digests, from the output of builds with --json."""
    reports = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return {report["benchmark"]: report["tables"] for report in reports}


def count_calls(warehouse: Path) -> tuple[int, int]:
    """Return the number of recorded calls, and how many repeat another that did not fail transiently."""
    if not warehouse.exists():
        return 0, 0
    with duckdb.connect(str(warehouse), read_only=True) as db:
        query = (
            "SELECT count(*), count(*) FILTER (NOT transient) - count(DISTINCT key) FILTER (NOT transient) FROM calls"
        )
        total, twice = db.execute(query).fetchone() or (0, 0)
    return total, twice


def count_journalled(warehouse: Path) -> int:
    """Return the number of responses in journals."""
    count = 0
    for path in warehouse.with_name(warehouse.name + ".runs").glob("journal/*.journal"):
        try:
            count += path.read_bytes().count(b"\n")
        except FileNotFoundError:
            continue  # merged meanwhile
    return count


def count_repeated(requests: Sequence[Sequence[str]]) -> int:
    """Return the number of fault-free requests that repeat an earlier identical one."""
    asked = Counter((service, digest) for fault, service, digest in requests if fault == "-")
    return sum(count - 1 for count in asked.values())


def write_world(folder: Path) -> Path:
    """Write the embedded world with short time-outs, so that it gives up quickly on hanging requests."""
    text = (ROOT / "data" / "worlds" / "embedded.toml").read_text("utf-8")
    path = folder / "hasty.toml"
    path.write_text(text.replace("timeout_s = 30", "timeout_s = 3").replace("backoff_s = 0.2", "backoff_s = 0.02"))
    return path
