"""Run a Prefect server with its scheduler, as users start one, and query its API."""

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
from support.commands.command import inherited
from support.processes.standing_prefect import QUIET, wait_ready

from factmill.tasks.processes import LOOPBACK_HOST, find_free_port, start_child_process, stop_child_process

_LIMIT_S = 400
"""Time limit for runs that never start or never end; nothing else comes near it."""
_LOOK_AGAIN_S = 0.4
"""Pause between polls, each of which costs the server as much computing as a short test."""
ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


class Standing:
    """The server and its API."""

    def __init__(self, api: str, launch: Callable[[], "subprocess.Popen[bytes]"]) -> None:
        self.api = api
        self._client = httpx.Client(base_url=api, timeout=_LIMIT_S)
        self._launch = launch
        self.start_server()

    def start_server(self) -> None:
        """Start the server with its existing database."""
        self._process = self._launch()

    def stop_server(self) -> None:
        """Stop the server as a restart does."""
        stop_child_process(self._process)

    def ask(self, path: str, **body: Any) -> Any:
        """POST, or GET without a body; return the reply as JSON."""
        reply = self._send(path, body)
        reply.raise_for_status()
        return reply.json() if reply.content else None

    def _send(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        """Send a request, and again while the database is busy, as clients do."""

        def send() -> httpx.Response | None:
            reply = self._client.post(path, json=body) if body else self._client.get(path)
            return None if reply.status_code == httpx.codes.SERVICE_UNAVAILABLE else reply

        reply: httpx.Response = self.wait(send)
        return reply

    def deployment(self, name: str) -> Any:
        return self.ask(f"/deployments/name/{name}")

    def start(self, name: str, enforce: bool = True, **parameters: Any) -> httpx.Response:
        """Start a run of a deployment as its form does; `enforce`: the server validates the parameters."""
        result = {"state": {"type": "SCHEDULED"}, "parameters": parameters, "enforce_parameter_schema": enforce}
        return self._send(f"/deployments/{self.deployment(name)['id']}/create_flow_run", result)

    def cancel(self, run_id: str) -> None:
        """Cancel a run as the UI does."""
        self.ask(f"/flow_runs/{run_id}/set_state", state={"type": "CANCELLING"})

    def end_of(self, run_id: str) -> Any:
        """Wait for the end of a run, and return its state."""
        return self.wait(lambda: (state := self.ask(f"/flow_runs/{run_id}")["state"])["type"] in ENDED and state)

    def log_of(self, run_id: str) -> str:
        """Return the log of a run so far, one line per entry."""
        lines = self.ask("/logs/filter", logs={"flow_run_id": {"any_": [run_id]}}, sort="TIMESTAMP_ASC")
        return "\n".join(each["message"] for each in lines)

    def runs(self, **chosen: Any) -> list[Any]:
        """Return runs by a filter of flow runs."""
        found: list[Any] = self.ask("/flow_runs/filter", flow_runs=chosen)
        return found

    def wait(self, look: Callable[[], Any]) -> Any:
        """Poll until there is a result, and return it."""
        deadline = time.monotonic() + _LIMIT_S
        while not (seen := look()):
            assert time.monotonic() < deadline, look
            time.sleep(_LOOK_AGAIN_S)
        return seen


@contextmanager
def standing_server(home: Path, history: Path | None) -> Iterator[Standing]:
    """Start a server whose database is a copy of `history`, if there is one, and stop it at the end."""
    folder = home / "standing"
    folder.mkdir()
    if history and history.is_file():
        with closing(sqlite3.connect(history)) as there, closing(sqlite3.connect(folder / "prefect.db")) as here:
            there.backup(here)
    url = f"http://{LOOPBACK_HOST}:{find_free_port()}/api"
    port = url.removesuffix("/api").rpartition(":")[2]
    result = QUIET | {
        "PREFECT_HOME": str(folder),
        "PREFECT_API_URL": url,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_UI_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_SERVICES_SCHEDULER_RECENT_DEPLOYMENTS_LOOP_SECONDS": "1",
    }
    command = [
        "-m",
        "uvicorn",
        "--factory",
        "prefect.server.api.server:create_app",
        "--host",
        LOOPBACK_HOST,
        "--port",
        port,
    ]
    log = folder / "server.log"

    def launch() -> "subprocess.Popen[bytes]":
        process = start_child_process(
            [sys.executable, *command, "--log-level", "error"], log, {**inherited(), **result}
        )
        wait_ready(url)
        return process

    server = Standing(url, launch)
    try:
        yield server
    finally:
        server.stop_server()
