"""Test builds with the policy `ask`: the run pauses in Prefect, accepts decisions, and builds again with them."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.flow_runs import resume_flow_run
from prefect.settings import PREFECT_API_URL, temporary_settings
from support.commands.command import Factmill, Process
from support.models.scripted_chat import Message, ScriptedChat, write_chat_world
from support.processes.standing_prefect import ask_server
from support.rows.csv_files import read_csv, write_csv

COUNTRIES = {"Ulm": "Germany", "Vienna": "Austria"}


def find_paused(api: str, process: Process) -> UUID:
    """Wait until a process's run is paused, and return its id."""
    wanted = {"flow_runs": {"state": {"type": {"any_": ["PAUSED"]}}}}
    while not (found := ask_server().post(f"{api}/flow_runs/filter", json=wanted, timeout=60).json()):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.1)
    return UUID(found[0]["id"])


def decide_in_a_pause(factmill: Factmill, build: tuple[str | Path, ...], folder: Path) -> tuple[dict[str, Any], int]:
    """Keep every item of a build's review queue while its run is paused; return the report and the number of items."""
    benchmark = build[0]
    queue, imported, warehouse = folder / "queue.csv", folder / "imported.csv", folder / "w.duckdb"
    process = factmill.start(
        "build", *build, "--review", "ask", "--json", "--warehouse", warehouse, TEST_KEY="secret-key-1"
    )
    try:
        run_id = find_paused(factmill.prefect_api, process)
        exported = factmill("review", f"latest:{benchmark}", "--to", queue, "--warehouse", warehouse, "--json")
        assert exported.json["open"] > 0, exported.err
        items = read_csv(queue)
        for part, decided in ((items[:1], imported), (items[1:], queue)):
            write_csv(decided, ({**item, "decision": "keep", "reviewer": "Ann"} for item in part))
        chosen = {"artifacts": {"flow_run_id": {"any_": [str(run_id)]}, "key": {"any_": [f"{benchmark}-review"]}}}
        (listed,) = ask_server().post(f"{factmill.prefect_api}/artifacts/filter", json=chosen, timeout=60).json()
        assert [each["id"] for each in json.loads(listed["data"])] == [item["id"] for item in items]
        assert factmill("review", "--from", imported, "--warehouse", warehouse).code == 0
        with temporary_settings({PREFECT_API_URL: factmill.prefect_api}):
            resume_flow_run(run_id, run_input={"queue": queue.read_bytes().decode()})
        out, err = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 0, err
    text = " ".join(err.split())
    assert "flagged rows wait for a decision" in text
    assert f"{len(items)} of {len(items)} rows are decided on; they are built in now" in text
    return json.loads(out.splitlines()[-1]), len(items)


def test_slaq_accepts_review_decisions_during_pause(factmill: Factmill, doubter: ScriptedChat, tmp_path: Path) -> None:
    world = write_chat_world(tmp_path, doubter.url, ["judge"])
    report, items = decide_in_a_pause(factmill, ("slaq", "--world", world, "--categories", "Astronomy"), tmp_path)
    assert report["rows"] > 0
    assert report["facts"]["review"] == {"keep": items}


def test_granola_accepts_review_decisions_during_pause_and_counts_graph_checks(
    factmill: Factmill, tmp_path: Path
) -> None:
    # the Wikidata has Ulm for Einstein, Warsaw for Curie, and no birthplace for Eiffel, who was French
    places = {"Albert Einstein": "Ulm", "Marie Curie": "Ulm", "Gustave Eiffel": "Vienna"}
    source = tmp_path / "P19.people.json"
    source.write_text(
        json.dumps([{"question": f"Where was {name} born?", "answers": [places[name]]} for name in places])
    )

    def answer(messages: Sequence[Message]) -> tuple[int, str]:
        said = messages[-1]["content"]
        place = "Vienna" if "Vienna" in said else "Ulm"
        return 200, "Yes" if "<description>" in said else f"1:: {place}\n2:: {COUNTRIES[place]}"

    chat = ScriptedChat(answer)
    try:
        world = write_chat_world(tmp_path, chat.url, ["author", "judge"])
        build = ("granola", "--world", world, "--source", source, "--samples", "1")
        report, items = decide_in_a_pause(factmill, build, tmp_path)
    finally:
        chat.close()
    assert (report["rows"], items) == (3, 2)
    assert report["facts"]["review"] == {"keep": 2}
    counts = {name: count for name, count in report["facts"].items() if name.startswith("rows_confirmed_by")}
    assert counts == {"rows_confirmed_by_the_graph": 1, "rows_confirmed_by_nothing": 1}
    assert report["facts"]["rows_against_the_graph"] == 1
    assert report["facts"]["questions_that_contain_their_answer"] == 0
