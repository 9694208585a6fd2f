"""The command, in a home where every benchmark is built: made once a session, by the command itself."""

import fcntl
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from command import Factmill, Ran, clone_home

from flows.prefect_server import prefect_server


@pytest.fixture(scope="session")
def prefect_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start one Prefect server for all tests of the session, as a standing one is."""
    with prefect_server(tmp_path_factory.mktemp("prefect")) as server:
        server.wait_ready()
        yield os.environ["PREFECT_API_URL"]


@pytest.fixture(scope="session")
def build_of_all(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Path]:
    """Return what `factmill build all` did, and its home, in which nothing may be written.

    It is a process of its own with a Prefect server of its own, run by the worker that comes first.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    home, done = shared / "built", shared / "built.json"
    with (shared / "built.lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not done.exists():
            ran = Factmill(home, "").run_process("build", "all", "--json")
            done.write_text(json.dumps([ran.code, ran.out, ran.err]), "utf-8")
    return Ran(*json.loads(done.read_text("utf-8"))), home


@pytest.fixture(scope="session")
def session_home(build_of_all: tuple[Ran, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with the five embedded builds, for the tests of one worker to write in."""
    ran, built = build_of_all
    assert ran.code == 0, ran.err
    home = tmp_path_factory.mktemp("home")
    clone_home(built, home)
    return home


@pytest.fixture(scope="session")
def factmill(session_home: Path, prefect_api: str) -> Factmill:
    return Factmill(session_home, prefect_api)


@pytest.fixture(scope="session")
def embedded_builds(build_of_all: tuple[Ran, Path], session_home: Path) -> dict[str, Any]:
    """Return benchmark → report of its build in the session's home."""
    reports = map(json.loads, build_of_all[0].out.splitlines())
    return {report["benchmark"]: {**report, "warehouse": str(session_home / "factmill.duckdb")} for report in reports}


@pytest.fixture(scope="session")
def embedded_build(embedded_builds: dict[str, Any]) -> Any:
    """Return the report of GRANOLA-EQ."""
    return embedded_builds["granola"]
