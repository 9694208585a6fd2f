"""Test builds and evaluations by batch jobs or request files: their rows equal those of single calls."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.batches.run_batch import run_batch
from support.batches.server import BatchServer
from support.commands.command import Factmill, Ran
from support.habits.runs import AUTHORS
from support.habits.server import HabitsServer, write_model_world

HABIT = "reasoning model"
"""A model that wraps its completions, accepts corrections, and rejects parameters and roles."""

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


def test_batch_job_build_has_rows_of_single_call_build(
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
    assert max(asked.values()) == 1, "no request is paid for twice"
    # a batch of four rows sends at most 4 requests in the first stage with a model, and 16 in the second
    sizes = [len(server.read_input(job)) for job in server.jobs]
    assert sizes[0] > 4 or max(sizes) > 16, "one job holds the requests of several batches"
    assert "job batch_0001: submitted " in ran.err and " within 24h" in ran.err
    rows = read_rows(tmp_path / f"{world.stem}.duckdb", ran.json)
    assert rows == read_rows(tmp_path / "embedded.duckdb", embedded.json)
    assert ran.json["cost_usd"] > 0
    world.write_text(world.read_text("utf-8").replace(BATCH, SINGLE), "utf-8")
    assert build(world).json["build_id"] == ran.json["build_id"], "the sending mode is not part of a manifest"
    assert server.web.seen[-1].path != "/v1/chat/completions"
    server.close()


FEW = {
    "granola": ("--limit", "6", "--samples", "2", "--batch-size", "4"),
    "slaq": ("--per-half", "1", "--batch-size", "2"),
}


def read_tables(warehouse: Path, report: Any) -> dict[str, list[tuple[Any, ...]]]:
    with duckdb.connect(str(warehouse), read_only=True) as db:
        return {
            table: db.execute(
                f'SELECT * EXCLUDE (build_id) FROM "{table}" WHERE build_id = ? ORDER BY ALL', [report["build_id"]]
            ).fetchall()
            for table in report["tables"]
        }


class ByFiles:
    """A build by files in a folder, round by round."""

    def __init__(self, factmill: Factmill, server: HabitsServer, folder: Path, benchmark: str) -> None:
        self._factmill, self._server = factmill, server
        self._world = write_model_world(folder, server.url(HABIT), HABIT, settings=SINGLE)
        self._build = ("build", benchmark, "--world", self._world, *FEW[benchmark], "--json")
        self.requests, self.replies = folder / "requests.jsonl", folder / "replies.jsonl"
        self.warehouse = folder / "files.duckdb"

    def directly(self, warehouse: Path, *more: str | Path) -> Ran:
        return self._factmill(*self._build, "--warehouse", warehouse, *more)

    def go_on(self, *more: str | Path) -> Ran:
        return self._factmill(*self._build, "--warehouse", self.warehouse, "--requests", self.requests, *more)

    def answer(self) -> int:
        return run_batch(self.requests, self.replies, self._server.url(HABIT))


@pytest.mark.parametrize("benchmark", list(FEW))
def test_batch_file_build_has_tables_of_server_build(
    factmill: Factmill, habits: HabitsServer, tmp_path: Path, benchmark: str
) -> None:
    build = ByFiles(factmill, habits, tmp_path, benchmark)
    direct = build.directly(tmp_path / "direct.duckdb")
    assert direct.code == 0, direct.err
    asked = habits.answered[HABIT], habits.refused[HABIT]
    ran, rounds = build.go_on(), []
    while ran.code == 4:
        assert (habits.answered[HABIT], habits.refused[HABIT]) == asked, "a build by files sends nothing"
        rounds.append(build.answer())
        assert f"{rounds[-1]} request" in ran.err and "--replies" in ran.err
        asked = habits.answered[HABIT], habits.refused[HABIT]
        ran = build.go_on("--replies", build.replies)
    assert ran.code == 0, ran.err
    assert len(rounds) > 3
    assert read_tables(build.warehouse, ran.json) == read_tables(tmp_path / "direct.duckdb", direct.json)
    assert ran.json["tables"] == direct.json["tables"]
    assert ran.json["cost_usd"] == pytest.approx(direct.json["cost_usd"] / 2), "at batch_price"
    assert not list(tmp_path.glob("*.part"))


def test_missing_and_damaged_replies_are_requested_again_and_repeats_harmless(
    factmill: Factmill, habits: HabitsServer, tmp_path: Path
) -> None:
    build = ByFiles(factmill, habits, tmp_path, "granola")
    direct = build.directly(tmp_path / "direct.duckdb")
    ran, rounds, before = build.go_on(), 0, b""
    while ran.code == 4:
        rounds += 1
        build.answer()
        lines = build.replies.read_bytes().splitlines(keepends=True)
        kept = [line for at, line in enumerate(lines) if at % 4 != rounds % 3 or len(lines) == 1]
        build.replies.write_bytes(
            before + b"".join(kept) + b'{"cus\n{"custom_id": "elsewhere-0-x", "error": {"code": "x"}}\n'
        )
        ran = build.go_on("--replies", build.replies)
        assert "1 are unreadable, 1 belong to no known request" in ran.err
        before = b"".join(kept)
    assert ran.code == 0, ran.err
    assert read_tables(build.warehouse, ran.json) == read_tables(tmp_path / "direct.duckdb", direct.json)


def test_foreign_replies_are_rejected_and_rest_can_be_requested_from_server(
    factmill: Factmill, habits: HabitsServer, tmp_path: Path
) -> None:
    for name in FEW:
        (tmp_path / name).mkdir()
    slaq, granola = (ByFiles(factmill, habits, tmp_path / name, name) for name in ("slaq", "granola"))
    assert slaq.go_on().code == granola.go_on().code == 4
    slaq.answer()
    refused = granola.go_on("--replies", slaq.replies)
    assert refused.code == 2
    assert "no reply to a request of granola-" in refused.err and "answer requests of another build" in refused.err
    missing = granola.go_on("--replies", granola.replies)
    assert (missing.code, "--replies: cannot read" in missing.err) == (2, True)
    granola.answer()
    asked = habits.answered[HABIT]
    ran = granola.directly(granola.warehouse, "--replies", granola.replies)
    assert ran.code == 0, ran.err
    assert habits.answered[HABIT] > asked
    everything = factmill("build", "all", "--requests", granola.requests)
    assert (everything.code, "factmill build granola --requests FILE" in everything.err) == (2, True)
