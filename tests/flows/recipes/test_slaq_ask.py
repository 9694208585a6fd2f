"""SLAQ with the policy `ask`: the run pauses in Prefect, takes decisions, and builds again with them."""

import csv
import json
import time
from pathlib import Path
from uuid import UUID

from prefect.flow_runs import resume_flow_run
from prefect.settings import PREFECT_API_URL, temporary_settings
from support.commands.command import Factmill, Process
from support.models.scripted_chat import ScriptedChat, write_chat_world
from support.processes.standing_prefect import ask_server


def find_paused(api: str, process: Process) -> UUID:
    """Wait until the run of a process is paused and return its id."""
    wanted = {"flow_runs": {"state": {"type": {"any_": ["PAUSED"]}}}}
    while not (found := ask_server().post(f"{api}/flow_runs/filter", json=wanted, timeout=60).json()):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.1)
    return UUID(found[0]["id"])


def test_a_paused_run_takes_decisions_and_builds_again(
    factmill: Factmill, doubter: ScriptedChat, tmp_path: Path
) -> None:
    world = write_chat_world(tmp_path, doubter.url, ["judge"])
    queue, imported = tmp_path / "queue.csv", tmp_path / "imported.csv"
    warehouse = tmp_path / "w.duckdb"
    arguments = ("build", "slaq", "--world", world, "--category", "Astronomy", "--review", "ask", "--json")
    process = factmill.start(*arguments, "--warehouse", warehouse, TEST_KEY="secret-key-1")
    try:
        run_id = find_paused(factmill.prefect_api, process)
        exported = factmill("review", "export", "latest:slaq", "--to", queue, "--warehouse", warehouse, "--json")
        assert exported.json["open"] > 0, exported.err
        with queue.open(encoding="utf-8", newline="") as file:
            items = list(csv.DictReader(file))
        for part, decided in ((items[:1], imported), (items[1:], queue)):
            with decided.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, items[0].keys())
                writer.writeheader()
                writer.writerows({**item, "decision": "keep", "reviewer": "Ann"} for item in part)
        chosen = {"artifacts": {"flow_run_id": {"any_": [str(run_id)]}, "key": {"any_": ["slaq-review"]}}}
        (listed,) = ask_server().post(f"{factmill.prefect_api}/artifacts/filter", json=chosen, timeout=60).json()
        assert [each["id"] for each in json.loads(listed["data"])] == [item["id"] for item in items]
        assert factmill("review", "import", imported, "--warehouse", warehouse).code == 0
        with temporary_settings({PREFECT_API_URL: factmill.prefect_api}):
            resume_flow_run(run_id, run_input={"queue": queue.read_bytes().decode()})
        out, err = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 0, err
    told = " ".join(err.split())
    assert "flagged rows wait for a decision" in told
    assert f"{len(items)} of {len(items)} rows are decided on; they are built in now" in told
    report = json.loads(out.splitlines()[-1])
    assert report["rows"] > 0
    assert report["facts"]["review"] == {"keep": len(items)}
