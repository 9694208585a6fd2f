"""Test the Prefect server: recognising a standing one, reporting a lost one, and restarting our own."""

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from httpx import ConnectError
from prefect.settings import PREFECT_API_AUTH_STRING, temporary_settings
from support.commands.command import Factmill
from support.processes.standing_prefect import copy_history
from support.webs.loopback import Loopback, Seen

from factmill.flows.build_runner import retry_on_lost_server
from factmill.flows.prefect_server import (
    MAX_SERVER_EXITS,
    OwnServer,
    check_prefect_server_usable,
    find_server_problem,
    find_standing_server_url,
    raising_prefect_lost,
    sharing_one_prefect_server,
    standing_or_own_prefect_server,
)
from factmill.tasks.errors import NoRowsPublished, PrefectServerLost, ServiceUnreachable
from factmill.tasks.storage.housekeeping.prefect_history import find_prefect_database_problem, prefect_database_path


@pytest.mark.parametrize(
    ("status", "trouble"),
    [(200, ""), (401, ""), (404, ""), (500, "it answers 500"), (503, "it answers 503, as without its database")],
)
def test_server_counts_as_available_unless_it_reports_own_problem(status: int, trouble: str) -> None:
    web = Loopback()
    web.script({"status": status, "json": {}})
    try:
        assert find_server_problem(f"{web.url}/api").startswith(trouble)
        assert bool(find_server_problem(f"{web.url}/api")) == bool(trouble)
    finally:
        web.close()


@pytest.mark.parametrize(
    ("given", "why"), [(None, "is not set"), ("admin:wrong", "has another user and password"), ("admin:right", "")]
)
def test_password_protected_server_requires_password(given: str | None, why: str) -> None:
    def answer(seen: Seen) -> dict[str, Any]:
        is_let_in = seen.path.endswith("/ready") or seen.headers.get("authorization") == "Basic YWRtaW46cmlnaHQ="
        return {"json": {}} if is_let_in else {"status": 401, "json": {"exception_message": "Unauthorized"}}

    web = Loopback()
    web.handle = answer
    try:
        with temporary_settings({PREFECT_API_AUTH_STRING: given}):
            if not why:
                check_prefect_server_usable(f"{web.url}/api")
                return
            with pytest.raises(
                ServiceUnreachable, match=f"PREFECT_API_AUTH_STRING {why}.*; set it to the USER:PASSWORD"
            ):
                check_prefect_server_usable(f"{web.url}/api")
    finally:
        web.close()


def test_connection_error_with_restarted_server_raises_server_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    web = Loopback()
    web.script({"json": {}})
    monkeypatch.setenv("PREFECT_API_URL", f"{web.url}/api")
    try:
        with pytest.raises(PrefectServerLost, match="All connection attempts failed"), raising_prefect_lost():
            raise ConnectError("All connection attempts failed")
        with pytest.raises(KeyError), raising_prefect_lost():
            raise KeyError("a fault of ours")
    finally:
        web.close()


@pytest.mark.parametrize(
    ("named", "standing"),
    [("", ""), ("http://127.0.0.1:1/api", ""), ("http://127.0.0.1:2/api", "http://127.0.0.1:2/api")],
    ids=["none", "our own", "another next to our own"],
)
def test_server_not_started_by_factmill_counts_as_standing_server(
    monkeypatch: pytest.MonkeyPatch, named: str, standing: str
) -> None:
    monkeypatch.setattr("factmill.flows.prefect_server._own_servers", ["http://127.0.0.1:1/api"])
    monkeypatch.setenv("PREFECT_API_URL", named)
    assert find_standing_server_url() == standing


def test_server_failure_during_serve_start_prints_one_line(tmp_path: Path) -> None:
    def answer(seen: Seen) -> dict[str, Any]:
        status = 404 if "/name/" in seen.path or "csrf" in seen.path else 500
        return {"json": True} if seen.path.endswith("/ready") else {"status": status, "json": {}}

    with closing(Loopback()) as web:
        web.handle = answer
        serve = Factmill(tmp_path, f"{web.url}/api").run_process
        ran = serve("serve", "--benchmarks", "granola", "--mode", "replay", PREFECT_CLIENT_MAX_RETRIES="0")
        assert (ran.code, "Traceback" in ran.err) == (1, False), ran.err
        assert f"{web.url}/api has gone away while serve ran (it answers 500)" in ran.err.splitlines()[-1]


@pytest.fixture
def alone(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home with Prefect's database and no running server."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    copy_history(own_home)
    return own_home


def test_repeatedly_exiting_server_is_abandoned_and_next_flow_gets_new_one(alone: Path) -> None:
    with sharing_one_prefect_server():
        with standing_or_own_prefect_server(alone) as server:
            assert server
            while len(server.unexpected_exits) < MAX_SERVER_EXITS:
                server._process.kill()
                time.sleep(0.01)
            with pytest.raises(
                ServiceUnreachable, match=r"killed by SIGKILL.*3 times by now; the end of its log"
            ) as error:
                server.wait_ready()
            assert "PREFECT_API_URL" not in str(error.value)
            server._log.unlink()
            server._log.mkdir()
        with pytest.raises(OSError, match="Is a directory"), standing_or_own_prefect_server(alone):
            pass
        server._log.rmdir()
        with standing_or_own_prefect_server(alone) as again:
            assert again is server
            again.wait_ready()
            assert find_standing_server_url() == ""


def test_history_damaged_while_server_runs_is_renamed_and_server_restarts(alone: Path) -> None:
    with standing_or_own_prefect_server(alone) as server:
        assert server
        server.wait_ready()
        path = prefect_database_path(alone)
        with closing(sqlite3.connect(path)) as db:
            # otherwise SQLite would restore the damaged part from its journal
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with path.open("r+b") as file:
            file.seek(8_192)
            file.write(os.urandom(path.stat().st_size - 8_192))
        assert find_prefect_database_problem(path)
        server.recover()
        assert not find_server_problem(server.url)
        assert find_prefect_database_problem(path) == ""
        assert len(list(path.parent.glob("prefect-damaged-*.db"))) == 1


@pytest.mark.parametrize("error", [None, NoRowsPublished("no row came through")], ids=["under way", "over"])
def test_flow_losing_its_server_restarts_unless_finished(alone: Path, error: Exception | None) -> None:
    begun = list[OwnServer]()

    def make() -> str:
        begun.append(server)
        if len(begun) > 1:
            return httpx.get(f"{server.url}/health").text
        server._process.kill()
        server._process.wait()
        try:
            if error:
                raise error
        finally:
            httpx.get(f"{server.url}/health")
        return "a server that was killed has answered"

    with standing_or_own_prefect_server(alone) as own:
        assert own
        server = own
        server.wait_ready()
        if error:
            with pytest.raises(NoRowsPublished):
                retry_on_lost_server(make, server, lambda: None)
        else:
            assert retry_on_lost_server(make, server, lambda: None) == "true"
        assert len(begun) == (1 if error else 2)
