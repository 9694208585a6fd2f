"""SLAQ with the policy `ask`: the run pauses in Prefect, takes decisions, and builds again with them."""

import csv
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted_chat import Message, ScriptedChat, write_chat_world

ROOT = Path(__file__).resolve().parents[2]
RESUME = (
    "import sys; from pathlib import Path; from uuid import UUID; from prefect.flow_runs import resume_flow_run\n"
    "resume_flow_run(UUID(sys.argv[1]), run_input={'queue': Path(sys.argv[2]).read_bytes().decode()})"
)
PATIENCE_S = 120


def doubt_the_second(messages: list[Message]) -> tuple[int, str]:
    """Take every answer for a date, and doubt the second question of every topic."""
    if "<topic>" not in messages[-1]["content"]:
        return 200, "Type: DATE"
    return 200, "\n".join(f"{n}: {'nobody could tell' if n == 2 else 'ok'}" for n in range(1, 6))


@pytest.fixture
def doubter() -> Iterator[ScriptedChat]:
    chat = ScriptedChat(doubt_the_second)
    yield chat
    chat.close()


def find_paused(api: str) -> str:
    """Wait for a paused run and return its id."""
    wanted = json.dumps({"flow_runs": {"state": {"type": {"any_": ["PAUSED"]}}}}).encode()
    headers = {"Content-Type": "application/json"}
    for _ in range(PATIENCE_S):
        request = urllib.request.Request(f"{api}/flow_runs/filter", data=wanted, headers=headers)
        with urllib.request.urlopen(request, timeout=10) as reply:
            if found := json.load(reply):
                return str(found[0]["id"])
        time.sleep(1)
    raise AssertionError("no run was paused")


def test_a_paused_run_takes_decisions_and_builds_again(
    factmill: Callable[..., Any], prefect_api: str, session_home: Path, doubter: ScriptedChat, tmp_path: Path
) -> None:
    world, queue = write_chat_world(tmp_path, doubter.url, ["judge"]), tmp_path / "queue.csv"
    warehouse = tmp_path / "w.duckdb"
    arguments = ["build", "slaq", "--world", world, "--category", "Astronomy", "--review", "ask", "--json"]
    environment = {
        **os.environ,
        "FACTMILL_HOME": str(session_home),
        "PYTHONPATH": str(ROOT),
        "PREFECT_API_URL": prefect_api,
        "TEST_KEY": "secret-key-1",
    }
    command = [sys.executable, "-c", "from flows.cli import main; main()", *map(str, arguments)]
    process = subprocess.Popen(
        [*command, "--warehouse", str(warehouse)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        run_id = find_paused(prefect_api)
        exported = factmill("review", "export", "latest:slaq", "--to", queue, "--warehouse", warehouse, "--json")
        assert exported.json["open"] > 0, exported.err
        with queue.open(encoding="utf-8", newline="") as file:
            items = list(csv.DictReader(file))
        with queue.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, items[0].keys())
            writer.writeheader()
            writer.writerows({**item, "decision": "keep", "reviewer": "Ann"} for item in items)
        resumed = subprocess.run(
            [sys.executable, "-c", RESUME, run_id, str(queue)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert resumed.returncode == 0, resumed.stderr
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "flagged rows wait for a decision" in " ".join(err.split())
    report = json.loads(out.splitlines()[-1])
    assert report["rows"] > 0
    assert report["facts"]["review"] == {"keep": len(items)}
