"""Test builds with a budget, their forecasts, and deployments that stop at a bound."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.builds.small_builds import SMALL as SMALL_BUILDS
from support.builds.small_builds import SmallBuilds
from support.commands.command import Factmill
from support.habits.server import HabitsServer, write_habit_world
from support.steps.warehouses import empty_warehouse

from factmill.flows.deployment_flows import BUDGET_REACHED_STATE, run_and_return_final_state
from factmill.flows.rebuild import _attempt_rebuild_part
from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.errors import BudgetExhausted, BuildError

HABIT = "well-formed"
SMALL = ("granola", "--limit", "16", "--samples", "2", "--json")


@pytest.fixture(scope="module")
def server(session_home: Path) -> Iterator[HabitsServer]:
    found = HabitsServer()
    yield found
    found.close()
    assert found.faults == 0


def write_world(folder: Path, server: HabitsServer, prices: str) -> Path:
    world = write_habit_world(folder, server, HABIT)
    world.write_text(world.read_text("utf-8").replace('name = "habits"', f'name = "habits"\n{prices}'), "utf-8")
    return world


PRICES = "usd_per_million_in = 10.0\nusd_per_million_out = 10.0"


def test_build_is_forecast_stopped_before_budget_and_resumed(
    factmill: Factmill, server: HabitsServer, tmp_path: Path
) -> None:
    warehouse = tmp_path / "w.duckdb"
    given = (*SMALL, "--world", write_world(tmp_path, server, PRICES), "--warehouse", warehouse)
    before = server.answered[HABIT]

    forecast = factmill("build", *given, "--forecast", "--pilot", "4")
    assert re.search(r"draw_pilot: 4 rows, \d+ not drawn\n", forecast.err)
    result: dict[str, Any] = forecast.json
    piloted = server.answered[HABIT] - before
    assert piloted >= 4 * 3
    assert result["low"]["usd"] <= result["total"]["usd"] <= result["high"]["usd"]
    assert "requests of 4 of" in result["basis"]
    assert factmill("builds", "--warehouse", warehouse).out == ""

    stopped = factmill("build", *given, "--max-cost", "0.03")
    assert stopped.code == 3
    assert "US$ 0.0300 (--max-cost)" in stopped.err
    assert "stages are done, then generate_granular_answers" in stopped.err
    assert f"US$ {result['total']['usd']:.4f} in total" in stopped.err
    assert "run the same command again to continue from here" in stopped.err
    assert "Traceback" not in stopped.err
    first = server.answered[HABIT] - before - piloted
    assert 0 < first < 48

    done = factmill("build", *given, "--max-cost", "9", "--max-hours", "1")
    assert done.code == 0, done.err
    report = json.loads(done.out.splitlines()[-1])
    actual, spent = server.answered[HABIT] - before, report["spent"]
    assert spent["bounds"] == {"cost_usd": 9.0, "hours": pytest.approx(1.0, abs=0.1)}
    assert spent["by_service"][server.url(HABIT)] == actual - piloted - first
    assert spent["paid_usd"] < report["cost_usd"]
    chats = sum(stage["calls_sent"] + stage["calls_replayed"] for stage in report["stages"] if stage["tokens_in"])
    assert actual <= 2 * chats

    assert result["total"]["model_requests"] == pytest.approx(actual, rel=0.2)
    came_to = report["forecast"]["actual"]
    assert result["total"]["usd"] == pytest.approx(came_to["usd"], rel=0.2)
    later = factmill("build", *given, "--forecast", "--from", report["build_id"][:10], "--rows", "160").json
    assert later["total"]["usd"] == pytest.approx(10 * came_to["usd"], rel=0.2)
    page = factmill("report", report["build_id"], "--warehouse", warehouse, "--to", tmp_path / "page.md")
    assert page.code == 0, page.err
    assert "| US$ | " in (tmp_path / "page.md").read_text("utf-8")


def test_cost_budget_requires_model_prices(factmill: Factmill, server: HabitsServer, tmp_path: Path) -> None:
    world = write_world(tmp_path, server, "usd_per_million_in = 0.0")
    refused = factmill("build", *SMALL, "--world", world, "--warehouse", tmp_path / "w.duckdb", "--max-cost", "1")
    assert refused.code == 2
    assert "usd_per_million_out = … to [models.author]" in refused.err


def test_resumed_run_uses_new_prices_and_mode(factmill: Factmill, server: HabitsServer, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("unpriced", "priced")]
    for folder in folders:
        folder.mkdir()
    unpriced, priced = (
        write_world(folder, server, prices) for folder, prices in zip(folders, ("", PRICES), strict=True)
    )
    build = ("build", *SMALL, "--warehouse", tmp_path / "w.duckdb")
    stopped = factmill(*build, "--world", unpriced, "--max-requests", "40")
    assert (stopped.code, "stages are done" in stopped.err) == (3, True), stopped.err
    before = server.answered[HABIT]

    replayed = factmill(*build, "--world", priced, "--mode", "replay")
    assert (replayed.code, server.answered[HABIT] - before) == (1, 0)
    assert "replay: " in replayed.err

    bound = factmill(*build, "--world", priced, "--max-cost", "0.03")
    assert bound.code == 3, bound.err
    assert "US$ 0.0300 (--max-cost)" in bound.err
    assert 0 < server.answered[HABIT] - before < 16


class UsagelessServer(HabitsServer):
    """A server that reports no usage."""

    def answer(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = super().answer(name, body)
        answer["json"].pop("usage", None)
        return answer


@pytest.mark.parametrize(("prices", "cost"), [(PRICES, "cost unknown for {n} calls"), ("", "no price set for habits")])
def test_unknown_cost_is_not_reported_as_zero(
    factmill: Factmill, session_home: Path, tmp_path: Path, prices: str, cost: str
) -> None:
    usageless = UsagelessServer()
    build = ("build", "granola", "--limit", "4", "--samples", "1", "--warehouse", tmp_path / "w.duckdb")
    world = write_world(tmp_path, usageless, prices)
    report = factmill(*build, "--world", world, "--json").json
    again = factmill(*build, "--world", world)
    usageless.close()
    answered = usageless.answered[HABIT]
    assert answered > 4
    unknown, unpriced = (answered, []) if prices else (0, ["habits"])
    assert (report["unknown_cost_calls"], report["unpriced_models"]) == (unknown, unpriced)
    assert report["cost_usd"] == 0.0
    result = cost.format(n=answered)
    assert f"; {result}; " in again.out
    page = tmp_path / "page.md"
    assert factmill("report", report["build_id"], "--warehouse", tmp_path / "w.duckdb", "--to", page).code == 0
    assert result in page.read_text("utf-8")
    assert "US$ 0.0000" not in again.out + page.read_text("utf-8")


def test_forecast_without_basis_is_rejected(factmill: Factmill, tmp_path: Path) -> None:
    nothing = factmill("build", "granola", "--forecast", "--warehouse", empty_warehouse(tmp_path / "w.duckdb"))
    assert nothing.code == 2
    assert "with --pilot 20" in nothing.err
    both = factmill(
        "build", "granola", "--forecast", "--warehouse", tmp_path / "w.duckdb", "--pilot", "1", "--rows", "7"
    )
    assert both.code == 2
    assert "--pilot cannot be combined with --from and --rows" in both.err


def test_forecast_counts_rows_of_named_source_and_warns_of_other_inputs(
    factmill: Factmill, small_builds: SmallBuilds, tmp_path: Path
) -> None:
    warehouse = tmp_path / "w.duckdb"
    small = small_builds.copy("granola", warehouse)
    table = tmp_path / "town.csv"
    table.write_text("q,gold,relation\n" + "Where was Carl Sagan born?,Brooklyn,P19\n" * 180, "utf-8")
    own = ("--source", table, "--map", "question=q,answers=gold")

    def forecast(*options: str | Path) -> Any:
        return factmill("build", "granola", "--forecast", "--warehouse", warehouse, "--json", *options).json

    same = forecast(*SMALL_BUILDS["granola"])
    named = forecast(*own)
    assert f"to 180 source rows from the requests of {small} for 12 source rows" in named["basis"]
    assert named["total"]["tokens_in"] == pytest.approx(15 * same["total"]["tokens_in"], rel=0.01)
    assert not [note for result in (same, named) for note in result["notes"] if note.startswith("warning")]
    assert "to 20 source rows" in forecast(*own, "--limit", "20")["basis"]
    assert "to 7 source rows" in forecast(*own, "--rows", "7")["basis"]
    assert "to 5 source rows" in forecast(*SMALL_BUILDS["granola"], "--limit", "5")["basis"]

    [unread] = [note for note in forecast()["notes"] if note.startswith("warning")]
    assert "no build has read this one: its 12 source rows are assumed" in unread
    assert "extrapolated to 12 source rows (assumed) from" in forecast()["basis"]
    prompt = tmp_path / "mine" / "granola" / "granular_answers.md"
    prompt.parent.mkdir(parents=True)
    packaged = (ASSETS_ROOT / "prompts" / "granola" / "granular_answers.md").read_text("utf-8")
    prompt.write_text(packaged.replace("# user\n", "# user\nMind every word.\n"), "utf-8")
    other = (*own, "--prompts", tmp_path / "mine", "--samples", "2")
    [differs] = [note for note in forecast(*other)["notes"] if note.startswith("warning")]
    assert "prompts granola/granular_answers; samples 8, now 2. Make a small build" in differs

    # an older build with the same inputs is a better basis than the newest
    newest = factmill(
        "build", "granola", *SMALL_BUILDS["granola"], "--samples", "2", "--warehouse", warehouse, "--json"
    )
    assert newest.json["build_id"] in forecast(*own, "--samples", "2")["basis"]
    assert small in forecast(*own)["basis"]
    assert newest.json["build_id"] in forecast(*own, "--from", newest.json["build_id"])["basis"]

    # so is one with the same source files
    of_table = factmill("build", "granola", *own, "--limit", "2", "--warehouse", warehouse, "--json").json["build_id"]
    assert of_table in forecast(*own)["basis"]
    assert small in forecast(*SMALL_BUILDS["granola"])["basis"]


def stop() -> str:
    raise BudgetExhausted("US$ 1.0000 (--max-cost)", "6 stages are done")


def fail() -> str:
    raise BuildError("no row")


def test_run_stopped_by_budget_ends_in_own_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factmill.flows.deployment_flows.wait_for_standing_server", lambda: None)
    state = run_and_return_final_state(stop)
    assert (state.type.value, state.name, state.message) == ("FAILED", BUDGET_REACHED_STATE, "6 stages are done")
    assert run_and_return_final_state(fail).name == "Failed"


def test_rebuild_part_stopped_by_budget_does_not_count_as_failed() -> None:
    assert [_attempt_rebuild_part("granola", each)[0].ending for each in (stop, fail, lambda: "made it")] == [
        "stopped",
        "failed",
        "made",
    ]
