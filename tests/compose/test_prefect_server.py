"""Test docker-compose.yml's Prefect server on a real PostgreSQL: its command and environment, on loopback."""

import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from support.commands.command import ROOT, Factmill, inherited
from support.processes.postgres import running_postgres

from factmill.tasks.processes import (
    LOOPBACK_HOST,
    find_free_port,
    load_log_tail,
    start_child_process,
    stop_child_process,
)

pytestmark = pytest.mark.slow
PASSWORD = "p@ss:w/r%d#1"
"""A password that a URL must escape."""
_PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the service with an empty database, and return its address once its health check passes."""
    folder, port = tmp_path_factory.mktemp("standing"), find_free_port()
    service = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]["prefect"]
    with running_postgres(PASSWORD) as postgres:
        ours = {
            "PREFECT_HOME": str(folder),
            "PREFECT_SERVER_DATABASE_HOST": LOOPBACK_HOST,
            "PREFECT_SERVER_DATABASE_PORT": str(postgres),
            "PREFECT_SERVER_DATABASE_PASSWORD": PASSWORD,
            "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": "86400",
            "PREFECT_UI_STATIC_DIRECTORY": str(folder / "ui"),
            "PREFECT_UI_API_URL": f"http://{LOOPBACK_HOST}:{port}/api",
        }
        command = shlex.split(service["command"].replace("0.0.0.0", LOOPBACK_HOST))
        command = [sys.executable, "-m", *command, "--port", str(port)]
        # Compose passes a variable without a value only if it is set, which it is not here
        given = {name: value for name, value in service["environment"].items() if value is not None}
        server = start_child_process(command, folder / "log", inherited() | given | ours)
        try:
            deadline = time.monotonic() + _PATIENCE_S
            while not is_ready(f"http://{LOOPBACK_HOST}:{port}/api"):
                assert server.poll() is None and time.monotonic() < deadline, load_log_tail(folder / "log")
                time.sleep(0.2)
            yield f"http://{LOOPBACK_HOST}:{port}/api"
        finally:
            stop_child_process(server)


def is_ready(api: str) -> bool:
    try:
        return requests.get(f"{api}/ready", timeout=5).ok
    except requests.ConnectionError:
        return False


def ask(api: str, path: str, **body: Any) -> Any:
    answer = requests.post(f"{api}/{path}", json=body, timeout=60)
    assert answer.ok, answer.text
    return answer.json()


def test_build_runs_on_standing_server_and_ui_is_served(api: str, tmp_path: Path) -> None:
    ran = Factmill(tmp_path, api).run_process("build", "granola", "--limit", "2", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["rows"] > 0
    runs = ask(api, "flow_runs/filter")
    assert [run["state_type"] for run in runs] == ["COMPLETED"]
    page = requests.get(api.removesuffix("/api"), headers={"Accept": "text/html"}, timeout=60)
    assert page.ok
    assert "<title>Prefect" in page.text


def test_schedule_creates_runs(api: str) -> None:
    flow = ask(api, "flows/", name="scheduled")["id"]
    schedule = {"active": True, "schedule": {"interval": 3600}}
    made = ask(api, "deployments/", name="hourly", flow_id=flow, schedules=[schedule])["id"]
    deadline = time.monotonic() + _PATIENCE_S
    while not ask(api, "flow_runs/count", deployments={"id": {"any_": [made]}}):
        assert time.monotonic() < deadline, "no run was scheduled"
        time.sleep(0.5)


def test_server_accepts_nulls_sent_by_prefect_client(api: str) -> None:
    assert isinstance(ask(api, "flow_runs/filter", sort=None), list)
