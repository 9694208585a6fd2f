"""Fixtures for batch job tests: a batch server, and the messages logged while jobs run."""

import pytest
from support.batches.asking import answer
from support.batches.server import BatchServer

from factmill.tasks import progress


@pytest.fixture
def make_server(tmp_path):
    servers = []

    def make(answer=answer, **options) -> BatchServer:
        servers.append(BatchServer(tmp_path / f"server-{len(servers)}", answer, **options))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def messages(monkeypatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(progress, "print_and_log", lines.append)
    return lines
