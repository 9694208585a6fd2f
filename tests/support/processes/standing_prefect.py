"""Run one Prefect server for all processes that share the tests."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from factmill.flows import prefect_server
from factmill.flows.prefect_server import find_server_problem, standing_or_own_prefect_server

PREPARED = Path(__file__).resolve().parents[3] / "data"
"""Output of `factmill doctor --prepare` in the checkout."""
QUIET = {
    f"PREFECT_SERVER_SERVICES_{service}_ENABLED": "false"
    for service in ("TASK_RUN_RECORDER", "EVENT_PERSISTER", "EVENT_LOGGER")
}
"""Settings that stop a server's records of events and task runs, which no test reads and which take most of its time.
"""

_STARTS_WITHIN_S = 90.0


def copy_history(home: Path) -> None:
    """Copy Prefect's database with its tables into a home, if the checkout has one: making them takes seconds."""
    made = PREPARED / "prefect" / "prefect.db"
    if made.is_file():
        (home / "prefect").mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(made)) as there, closing(sqlite3.connect(home / "prefect/prefect.db")) as here:
            there.backup(here)


@contextmanager
def standing_server() -> Iterator[str]:
    """Start a server in the home that this process's Prefect settings name, and yield its address at once."""
    home = Path(os.environ["PREFECT_HOME"]).parent
    copy_history(home)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUIET.items():
            patch.setenv(name, value)
        with standing_or_own_prefect_server(home):
            patch.undo()
            patch.setattr(prefect_server, "_own_servers", {})  # for runs in this process it is a standing server
            yield os.environ["PREFECT_API_URL"]
            patch.undo()


def wait_ready(api: str) -> None:
    """Wait until the server answers, even if another process started it."""
    deadline = time.monotonic() + _STARTS_WITHIN_S
    while trouble := find_server_problem(api):
        assert time.monotonic() < deadline, trouble
        time.sleep(0.05)


def ask_server() -> requests.Session:
    """Return a function that queries the server, and retries while its database is busy."""
    session = requests.Session()
    busy = Retry(total=10, backoff_factor=0.5, status_forcelist=[503], allowed_methods=None)
    session.mount("http://", HTTPAdapter(max_retries=busy))
    return session
