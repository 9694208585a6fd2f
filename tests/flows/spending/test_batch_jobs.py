"""Whole builds and evaluations whose models are asked by batch jobs: the rows are those of single calls."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.batches.server import BatchServer
from support.commands.command import Factmill, Ran
from support.habits.runs import AUTHORS
from support.habits.server import HabitsServer, write_model_world

HABIT = "reasoning model"
"""Dresses what it says, heeds corrections, refuses parameters and roles: all that single calls learn."""
BATCH = 'mode = "batch"\nusd_per_million_in = 10.0\njobs = { poll_s = 0.1, few_singly = 0 }'
SINGLE = "usd_per_million_in = 10.0"


@pytest.fixture(scope="module")
def habits(session_home: Path) -> Iterator[HabitsServer]:
    server = HabitsServer()
    yield server
    server.close()


def read_rows(warehouse: Path, report: Any) -> list[dict[str, Any]]:
    with duckdb.connect(str(warehouse), read_only=True) as db:
        found = db.execute("SELECT * FROM granola_eq WHERE build_id = ?", [report["build_id"]])
        columns = [column[0] for column in found.description]
        return [
            {name: value for name, value in zip(columns, row, strict=True) if name not in AUTHORS}
            for row in found.fetchall()
        ]


def test_a_build_by_batch_jobs_has_the_rows_of_single_calls(
    factmill: Factmill, habits: HabitsServer, tmp_path: Path
) -> None:
    asked: Counter[str] = Counter()

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        answer = habits.answer(HABIT, body)
        asked[json.dumps(body, sort_keys=True)] += answer.get("status", 200) == 200
        return answer

    server = BatchServer(
        tmp_path / "server", answer, loses_every=30, fails_every=23, restarts_at=frozenset({4, 20, 30})
    )

    def build(world: Path | str) -> Ran:
        few = ("--limit", "10", "--samples", "2", "--batch-size", "4", "--concurrency", "2")
        warehouse = tmp_path / f"{Path(world).stem}.duckdb"
        ran = factmill("build", "granola", "--world", world, "--warehouse", warehouse, *few, "--json")
        assert ran.code == 0, ran.err
        return ran

    world = write_model_world(tmp_path, server.url, HABIT, settings=BATCH)
    ran, embedded = build(world), build("embedded")
    assert server.restarts == 3 and server.lost >= 1 and server.failed >= 1
    assert max(asked.values()) == 1, "nothing is paid for twice"
    # a batch of four rows asks at most 4 requests in the first stage with a model, and 16 in the second
    sizes = [len(server.read_input(job)) for job in server.jobs]
    assert sizes[0] > 4 or max(sizes) > 16, "a job holds what several batches ask"
    assert "job batch_0001: " in ran.err and " handed in; done within 24h" in ran.err
    rows = read_rows(tmp_path / f"{world.stem}.duckdb", ran.json)
    assert rows == read_rows(tmp_path / "embedded.duckdb", embedded.json)
    assert ran.json["cost_usd"] > 0
    world.write_text(world.read_text("utf-8").replace(BATCH, SINGLE), "utf-8")
    assert build(world).json["build_id"] == ran.json["build_id"], "the way of asking is no part of a lock"
    assert server.web.seen[-1].path != "/v1/chat/completions"
    server.close()
