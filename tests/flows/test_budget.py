"""Whole builds that may spend only so much, and forecasts of them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.habits.server import HabitsServer, write_habit_world
from support.work.command import Factmill

from tasks.engine.services import embedded_graph

HABIT = "well-formed"
SMALL = ("granola", "--limit", "16", "--samples", "2", "--json")


@pytest.fixture(scope="module")
def server(session_home: Path) -> Iterator[HabitsServer]:
    with embedded_graph(session_home) as graph:
        found = HabitsServer(graph)
        yield found
        found.close()
    assert found.faults == 0


def write_world(folder: Path, server: HabitsServer, prices: str) -> Path:
    world = write_habit_world(folder, server, HABIT)
    world.write_text(world.read_text("utf-8").replace('name = "habits"', f'name = "habits"\n{prices}'), "utf-8")
    return world


PRICES = "usd_per_million_in = 10.0\nusd_per_million_out = 10.0"


def test_a_build_stops_before_its_bound_and_goes_on_until_it_is_done_asking_nothing_twice(
    factmill: Factmill, server: HabitsServer, tmp_path: Path
) -> None:
    world = write_world(tmp_path, server, PRICES)
    given = ("build", *SMALL, "--world", world, "--warehouse", tmp_path / "w.duckdb")
    before = server.answered[HABIT]

    stopped = factmill(*given, "--max-cost", "0.06")
    assert stopped.code == 3
    assert "US$ 0.0600 (--max-cost)" in stopped.err
    assert "the same command goes on from here" in stopped.err
    assert "stages are done, then generate_granular_answers" in stopped.err
    assert "Traceback" not in stopped.err
    assert 0 < server.answered[HABIT] - before < 48

    done = factmill(*given, "--max-cost", "9", "--max-hours", "1")
    assert done.code == 0, done.err
    report = done.json
    chats = sum(stage["requests"].get(f"{server.url(HABIT)}", 0) for stage in report["stages"] if "requests" in stage)
    assert chats == report["spent"]["by_service"][server.url(HABIT)] < server.answered[HABIT] - before
    asked = report["cost_usd"]
    assert report["spent"]["bounds"] == {"cost_usd": 9.0, "hours": 1.0}
    assert report["spent"]["paid_usd"] < asked

    whole = factmill("build", *SMALL, "--world", world, "--warehouse", tmp_path / "other.duckdb")
    assert whole.json["tables"] == report["tables"]
    assert whole.json["cost_usd"] == pytest.approx(asked)


def test_a_forecast_by_a_pilot_is_kept_and_held_against_what_the_build_came_to(
    factmill: Factmill, server: HabitsServer, tmp_path: Path
) -> None:
    world = write_world(tmp_path, server, PRICES)
    given = (*SMALL, "--world", world, "--warehouse", tmp_path / "w.duckdb")
    before = server.answered[HABIT]

    told: dict[str, Any] = factmill("forecast", *given, "--pilot", "4").json
    piloted = server.answered[HABIT] - before
    assert piloted >= 4 * 3
    assert told["low"]["usd"] <= told["total"]["usd"] <= told["high"]["usd"]
    assert "a pilot of 4 of" in told["basis"]
    assert factmill("builds", "--warehouse", tmp_path / "w.duckdb").out == ""

    built = factmill("build", *given)
    report = json.loads(built.out.splitlines()[-1])
    actual = server.answered[HABIT] - before
    rows = report["stages"][0]["rows_out"]
    assert actual == pytest.approx(
        5 * rows, rel=0.2
    )  # each asks an author once and a judge of two items twice, the pilot's once
    assert told["total"]["model_requests"] == pytest.approx(actual, rel=0.15)
    assert told["total"]["usd"] == pytest.approx(report["forecast"]["actual"]["usd"], rel=0.15)

    later = factmill("forecast", *given, "--from", report["build_id"][:10], "--rows", "160").json
    assert later["total"]["usd"] == pytest.approx(10 * report["forecast"]["actual"]["usd"], rel=0.2)
    page = factmill("report", report["build_id"], "--warehouse", tmp_path / "w.duckdb", "--to", tmp_path / "page.md")
    assert page.code == 0, page.err
    assert "| US$ | " in (tmp_path / "page.md").read_text("utf-8")


def test_what_a_model_costs_has_to_be_told(factmill: Factmill, server: HabitsServer, tmp_path: Path) -> None:
    world = write_world(tmp_path, server, "usd_per_million_in = 0.0")
    refused = factmill("build", *SMALL, "--world", world, "--warehouse", tmp_path / "w.duckdb", "--max-cost", "1")
    assert refused.code == 2
    assert "usd_per_million_out = … to [models.author]" in refused.err


def test_there_is_no_forecast_without_a_basis(factmill: Factmill, tmp_path: Path) -> None:
    nothing = factmill("forecast", "granola", "--warehouse", tmp_path / "w.duckdb")
    assert nothing.code == 2
    assert "--pilot 50" in nothing.err
    both = factmill("forecast", "granola", "--warehouse", tmp_path / "w.duckdb", "--pilot", "5", "--rows", "7")
    assert both.code == 2
