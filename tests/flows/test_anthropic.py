"""Test builds and evaluations through `kind = "anthropic"`: their rows equal those by the OpenAI protocol."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Factmill
from support.habits.measured import Measured
from support.habits.runs import read_tables, small_arguments
from support.habits.server import HabitsServer, write_habit_world
from support.messages.server import KEY, MessagesServer, error, write_messages_world

HABIT = "well-formed"
ROLES = ("author", "judge", "answerer")
ENVIRONMENT = {"ANTHROPIC_TEST_KEY": KEY}
PRICE = "usd_per_million_in = 3.0\nusd_per_million_out = 15.0"
BATCH = f'{PRICE}\nmode = "batch"\njobs = {{ poll_s = 0.1, few_singly = 0 }}'


@pytest.fixture(scope="module")
def habits(session_home: Path) -> Iterator[HabitsServer]:
    server = HabitsServer(contents=Measured)
    yield server
    server.close()
    assert server.faults == 0


@pytest.fixture
def server(habits: HabitsServer, tmp_path: Path) -> Iterator[MessagesServer]:
    def answer(body: dict[str, Any]) -> dict[str, Any]:
        habits._received += 1
        return habits.answer(HABIT, body)

    server = MessagesServer(tmp_path / "messages", answer)
    yield server
    server.close()


class Pair:
    """The same command against both servers, each with its own warehouse."""

    def __init__(self, factmill: Factmill, folder: Path, worlds: dict[str, Path]) -> None:
        self._factmill, self._folder, self._worlds = factmill, folder, worlds

    def warehouse(self, kind: str) -> Path:
        return self._folder / f"{kind}.duckdb"

    def __call__(self, *arguments: str | Path) -> dict[str, Any]:
        """Run a command; return its output by kind."""
        ran = {
            kind: self._factmill(
                *arguments, "--world", world, "--warehouse", self.warehouse(kind), "--json", **ENVIRONMENT
            )
            for kind, world in self._worlds.items()
        }
        for kind, each in ran.items():
            assert each.code == 0, (kind, each.err)
        return {kind: each.json for kind, each in ran.items()}

    def read(self, reports: dict[str, Any]) -> list[dict[str, list[dict[str, Any]]]]:
        """Return each server's published tables."""
        return [read_tables(self.warehouse(kind), report) for kind, report in reports.items()]


@pytest.fixture
def pair(factmill: Factmill, habits: HabitsServer, server: MessagesServer, tmp_path: Path) -> Pair:
    native = tmp_path / "native"
    native.mkdir()
    worlds = {
        "openai": write_habit_world(tmp_path, habits, HABIT, ROLES),
        "anthropic": write_messages_world(native, server.url, HABIT, ROLES, PRICE),
    }
    return Pair(factmill, tmp_path, worlds)


@pytest.mark.parametrize("benchmark", ["granola", "multihal", "biokalma", "slaq", "fanoutqa"])
def test_build_has_rows_of_openai_protocol_build(
    pair: Pair, server: MessagesServer, benchmark: str, tmp_path: Path
) -> None:
    result = pair("build", benchmark, *small_arguments(benchmark, 8, tmp_path))
    plain, native = pair.read(result)
    assert native == plain
    assert result["anthropic"]["rows"] > 0
    assert server.seen
    assert not any("temperature" in request for request in server.seen)
    assert result["anthropic"]["cost_usd"] > 0
    assert any('temperature = "none"' in note for note in result["anthropic"]["notes"])


@pytest.mark.parametrize("benchmark", ["granola", "fanoutqa"])
def test_evaluation_has_scores_of_openai_protocol_evaluation(
    pair: Pair, server: MessagesServer, benchmark: str, tmp_path: Path
) -> None:
    """In FanOutQA's open book, the model calls tools."""
    pair("build", benchmark, *small_arguments(benchmark, 8, tmp_path))
    server.seen.clear()
    result = pair("evaluate", benchmark, "--model", "answerer")
    assert result["anthropic"]["metrics"] == result["openai"]["metrics"] != []
    results = [
        block
        for request in server.seen
        for turn in request["messages"]
        for block in turn["content"]
        if block["type"] == "tool_result"
    ]
    assert bool(results) == (benchmark == "fanoutqa")


def test_killed_message_batch_build_resumes_and_pays_once(
    factmill: Factmill, habits: HabitsServer, server: MessagesServer, tmp_path: Path
) -> None:
    few = ("--limit", "8", "--samples", "2", "--json")
    plain = write_habit_world(tmp_path, habits, HABIT, ROLES)
    singly = factmill("build", "granola", "--world", plain, "--warehouse", tmp_path / "openai.duckdb", *few)
    native = tmp_path / "native"
    native.mkdir()
    world = write_messages_world(native, server.url, HABIT, ROLES, BATCH)
    command = ("build", "granola", "--world", world, "--warehouse", tmp_path / "anthropic.duckdb", *few)
    server.ends[1] = "never"
    process = factmill.start(*command, **ENVIRONMENT)
    while not any(seen.path.endswith("/msgbatch_0001") for seen in server.web.seen) and process.poll() is None:
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert len(server.batches) == 1
    listed = factmill("jobs", "--warehouse", tmp_path / "anthropic.duckdb", **ENVIRONMENT)
    assert "msgbatch_0001" in listed.out
    server.ends.clear()
    ran = factmill(*command, **ENVIRONMENT)
    assert ran.code == 0, ran.err
    assert read_tables(tmp_path / "anthropic.duckdb", ran.json) == read_tables(tmp_path / "openai.duckdb", singly.json)
    assert max(server.answered.values()) == 1
    assert ran.json["cost_usd"] > 0


def test_account_without_credit_stops_run_and_later_run_retries(
    factmill: Factmill, server: MessagesServer, tmp_path: Path
) -> None:
    world = write_messages_world(tmp_path, server.url, HABIT, ROLES)
    server.errors = lambda _: error(400, "Your credit balance is too low to access the Anthropic API.")
    command = ("build", "granola", "--world", world, "--warehouse", tmp_path / "w.duckdb", "--limit", "4", "--json")
    broke = factmill(*command, **ENVIRONMENT)
    assert broke.code == 1
    assert "credit balance is too low" in broke.err
    server.errors = lambda _: None
    paid = factmill(*command, **ENVIRONMENT)
    assert paid.code == 0, paid.err
    assert paid.json["rows"] > 0


def test_refusing_model_rejects_each_row_with_reason(factmill: Factmill, habits: HabitsServer, tmp_path: Path) -> None:
    def refuse(_body: dict[str, Any]) -> dict[str, Any]:
        return {"json": {"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}]}}

    server = MessagesServer(tmp_path / "messages", refuse)
    world = write_messages_world(tmp_path, server.url, HABIT, ROLES)
    ran = factmill("build", "granola", "--world", world, "--warehouse", tmp_path / "w.duckdb", "--limit", "4", "--json", **ENVIRONMENT)  # fmt: skip
    server.close()
    assert ran.code == 1
    assert "refused" in ran.err
