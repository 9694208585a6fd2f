"""One warehouse with an embedded build, made once a session by the command itself, and a way to run the command."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from flows.prefect_server import prefect_server

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out.strip().splitlines()[-1])


Command = Callable[..., Ran]


@pytest.fixture(scope="session")
def session_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def prefect_api(session_home: Path) -> Iterator[str]:
    """Start one Prefect server for all tests of the session, as a standing one is."""
    with prefect_server(session_home) as server:
        server.wait_ready()
        yield os.environ["PREFECT_API_URL"]


@pytest.fixture(scope="session")
def factmill(session_home: Path, prefect_api: str) -> Command:
    """Run `factmill` as a process of its own."""

    def run(*arguments: str | Path, **environment: str) -> Ran:
        env = {
            **os.environ,
            "FACTMILL_HOME": str(session_home),
            "PYTHONPATH": str(ROOT),
            "COLUMNS": "200",
            **environment,
        }
        command = [sys.executable, "-c", "from flows.cli import main; main()", *map(str, arguments)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=ROOT, timeout=240, check=False)
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture(scope="session")
def embedded_build(factmill: Command) -> Any:
    """Build GRANOLA-EQ in the embedded world, with a Prefect server of its own, and return the report."""
    ran = factmill("build", "granola", "--json", PREFECT_API_URL="")
    assert ran.code == 0, ran.err
    return ran.json
