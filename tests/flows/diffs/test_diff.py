"""One of each cause is planted between two builds, and `factmill diff` names it for each row that changed."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Factmill
from support.worlds.changing_world import PEOPLE, ChangingWorld

from tasks.core.authoring.granularity import clean_levels


@pytest.fixture(scope="module")
def world(factmill: Factmill, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChangingWorld]:
    made = ChangingWorld(tmp_path_factory.mktemp("changing"), factmill)
    yield made
    made.close()


@pytest.fixture(scope="module")
def first(world: ChangingWorld) -> tuple[str, Path]:
    """Build before anything changes, and keep a copy of the warehouse as it is then."""
    build_id = world.build()
    return build_id, Path(shutil.copy(world.warehouse, world.folder / "first.duckdb"))


@pytest.fixture
def base(world: ChangingWorld, first: tuple[str, Path]) -> str:
    """Return the first build, in a warehouse that holds nothing else."""
    build_id, kept = first
    shutil.copy(kept, world.warehouse)
    return build_id


def causes(found: dict[str, Any]) -> dict[str, list[str]]:
    """Return what row it is → its causes."""
    return {
        f"{row['kind']} {row['shown']['question']}": [f"{each['kind']}: {each['what']}" for each in row["causes"]]
        for row in found["rows"]
    }


def of_all(*told: str) -> dict[str, list[str]]:
    return {f"changed Where was {who} born?": list(told) for who in PEOPLE}


def test_source_rows_that_are_new_gone_and_otherwise(
    world: ChangingWorld, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed question is no removal and addition, and rows that only stand elsewhere in the file are the same."""
    others = {who: where for who, where in PEOPLE.items() if who not in ("Ada One", "Bo Two")}
    monkeypatch.setattr(world, "people", {"Guy Seven": "Ulm"} | others | {"Hal Eight": "Nice"})
    found = world.diff(base, world.build())
    source = ["source: P19.people.json"]
    assert causes(found) == {
        "added Where was Hal Eight born?": source,
        "removed Where was Bo Two born?": source,
        "changed Where was Guy Seven born?": source,
    }
    assert (found["same"], found["remade"]) == (4, 4)


def test_an_item_of_the_world(world: ChangingWorld, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the author makes of the item is traced back to it."""
    monkeypatch.setitem(world.describe, "Lyon", "large city in France")
    monkeypatch.setitem(world.describe, "Nice", "old city")
    found = world.diff(base, world.build("--mode", "refresh"))
    assert causes(found) == {
        "changed Where was Cy Three born?": ["world: wikidata"],
        "removed Where was Di Four born?": ["world: wikidata"],
    }
    removed = next(row for row in found["rows"] if row["kind"] == "removed")
    assert (removed["fate"]["stage"], removed["fate"]["reason"]) == ("remove_trivial_answers", "too_few_levels")
    assert "describe_items of Q" in removed["causes"][0]["told"]


def test_an_epoch(world: ChangingWorld, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "epoch", "2025-01-01")
    found = world.diff(base, world.build())
    assert causes(found) == of_all("epoch: ")
    assert found["rows"][0]["causes"][0]["told"] == "2026-01-01 → 2025-01-01"


def test_a_prompt(world: ChangingWorld, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are answered alike by the edited prompt are the same."""
    say = world.say
    monkeypatch.setattr(world, "say", lambda *of: say(*of).replace(":: France", ":: a city in France"))
    with world.edited("prompts/granola/granular_answers.md", "a known answer", "an answer"):
        found = world.diff(base, world.build())
    told = ["prompt: granola/granular_answers"]
    assert causes(found) == {f"changed Where was {who} born?": told for who in ("Cy Three", "Di Four")}


def test_a_query(world: ChangingWorld, base: str) -> None:
    """A service that is asked again may say something else by itself, so it is one of the two."""
    old = "OPTIONAL { ?item schema:dateModified ?modified }"
    with world.edited("sparql/wikidata/describe_items.rq", old, 'BIND("2025-01-01T00:00:00Z" AS ?modified)'):
        found = world.diff(base, world.build("--mode", "refresh"))
    assert causes(found) == of_all("one of: query: wikidata/describe_items, world: wikidata")


def test_a_list(world: ChangingWorld, base: str) -> None:
    with world.edited("data/lists/trivial_answers.txt", "\nP264:", "\nP19: Italy\nP264:"):
        found = world.diff(base, world.build())
    told = ["list: trivial_answers.txt"]
    assert causes(found) == {f"removed Where was {who} born?": told for who in ("Ed Five", "Fay Six")}


def test_a_model(world: ChangingWorld, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "model", "newer")
    assert causes(world.diff(base, world.build())) == of_all("model: author, judge")


def test_a_reply(world: ChangingWorld, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    say = world.say
    monkeypatch.setattr(world, "say", lambda *of: say(*of).replace(":: Italy", ":: a city in Italy"))
    found = world.diff(base, world.build("--mode", "refresh"))
    told = ["reply: granola/granular_answers"]
    assert causes(found) == {f"changed Where was {who} born?": told for who in ("Ed Five", "Fay Six")}


def test_a_parameter(world: ChangingWorld, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = world.diff(base, world.build("--limit", "4"))
    assert causes(found) == {f"removed Where was {who} born?": ["parameter: limits"] for who in ("Ed Five", "Fay Six")}


def test_code(world: ChangingWorld, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.granola.check.clean_levels", clean_too_much)
    monkeypatch.setattr("tasks.engine.naming.locks.code_digest", lambda _: "another")
    found = world.diff(base, world.build())
    told = ["code: steps"]
    assert causes(found) == {f"removed Where was {who} born?": told for who in ("Ada One", "Bo Two")}


def clean_too_much(levels: list[str], *more: Any) -> Any:
    return clean_levels([each for each in levels if each != "Germany"], *more)
