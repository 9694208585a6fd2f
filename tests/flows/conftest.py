"""The command, in a home where every benchmark is built: made once a session, by the command itself."""

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.work.command import ROOT, Factmill, Ran

from flows.prefect_server import prefect_server

PREPARED = ROOT / "data"


@pytest.fixture(scope="session")
def session_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a home, with what `factmill prepare` makes where the checkout has it."""
    home = tmp_path_factory.mktemp("home")
    for name in ("world-cache", "world-graphs"):
        if (PREPARED / name).is_dir():
            shutil.copytree(PREPARED / name, home / name, symlinks=True)
    if (history := PREPARED / "prefect" / "prefect.db").is_file():
        (home / "prefect").mkdir()
        with closing(sqlite3.connect(history)) as there, closing(sqlite3.connect(home / "prefect/prefect.db")) as here:
            there.backup(here)
    return home


@pytest.fixture(scope="session")
def prefect_api(session_home: Path) -> Iterator[str]:
    """Start one Prefect server for all tests of the session, as a standing one is.

    It notes down no events and no runs of tasks, which no test reads and which take most of its time; the servers that
    builds start for themselves do.
    """
    with pytest.MonkeyPatch.context() as patch:
        for service in ("TASK_RUN_RECORDER", "EVENT_PERSISTER", "EVENT_LOGGER"):
            patch.setenv(f"PREFECT_SERVER_SERVICES_{service}_ENABLED", "false")
        with prefect_server(session_home) as server:
            patch.undo()
            server.wait_ready()
            yield os.environ["PREFECT_API_URL"]


@pytest.fixture(scope="session")
def build_of_all(session_home: Path) -> Ran:
    """Build every benchmark by `factmill build all`, as a process of its own with a Prefect server of its own."""
    ran = Factmill(session_home).run_process("build", "all", "--json")
    assert ran.code == 0, ran.err
    return ran


@pytest.fixture(scope="session")
def embedded_builds(build_of_all: Ran) -> dict[str, Any]:
    """Return benchmark → report of its build in the session's home."""
    return {report["benchmark"]: report for report in map(json.loads, build_of_all.out.splitlines())}


@pytest.fixture(scope="session")
def embedded_build(embedded_builds: dict[str, Any]) -> Any:
    """Return the report of GRANOLA-EQ."""
    return embedded_builds["granola"]


@pytest.fixture(scope="session")
def factmill(session_home: Path, prefect_api: str) -> Factmill:
    return Factmill(session_home, prefect_api)
