"""Test which build an evaluation uses by default: one of the named world and prompts."""

from pathlib import Path

import pytest
from support.builds.small_builds import SmallBuilds
from support.commands.command import Factmill
from support.models.scripted_chat import write_chat_world
from support.worlds.replies import replying

from factmill.tasks.assets import asset_path

LEVELS, ANSWER = "granola/granular_answers", "granola/answer"
QUIZ = "question,answer,relation\nWhere was Carl Sagan born?,Brooklyn,P19\nWho owns Instagram?,Meta Platforms,P127\n"


@pytest.fixture
def warehouse(small_builds: SmallBuilds, tmp_path: Path) -> Path:
    small_builds.copy("granola", tmp_path / "w.duckdb")
    return tmp_path / "w.duckdb"


def test_user_world_measures_by_default_only_builds_of_that_world(
    factmill: Factmill, warehouse: Path, tmp_path: Path
) -> None:
    world = write_chat_world(tmp_path, "http://127.0.0.1:9/v1", [], world="mine")
    (tmp_path / "quiz.csv").write_text(QUIZ, "utf-8")
    place = ("--world", world, "--warehouse", warehouse)
    evaluate = ("evaluate", "granola", "--model", "oracle", "--setting", "greedy", "--reports", tmp_path)
    refused = factmill(*evaluate, *place)
    assert refused.code == 2 and "no build of granola was made in the world mine" in refused.err
    assert f"factmill build granola --world {world}`, or name the build to measure on: --build granola-" in refused.err
    named = factmill(*evaluate, *place, "--build", "latest:granola", "--json")
    assert named.code == 0, named.err
    with replying():
        built = factmill("build", "granola", "--source", tmp_path / "quiz.csv", *place, "--json")
    assert built.code == 0, built.err
    own = factmill(*evaluate, *place, "--json")
    assert own.json["build_id"] == built.json["build_id"] != named.json["build_id"]
    first, second, *_ = own.err.splitlines()
    assert first.startswith(f"note: measured is {own.json['build_id']} (2 rows, world mine, source ")
    assert "it is the newest build of the world mine; others: granola-" in second
    asked = factmill("evaluate", "granola", *place, "--questions", tmp_path / "q.jsonl", "--setting", "greedy")
    assert len((tmp_path / "q.jsonl").read_text("utf-8").splitlines()) == 2, asked.err


def test_own_prompts_measure_by_default_only_builds_made_with_them(
    factmill: Factmill, warehouse: Path, tmp_path: Path
) -> None:
    edited = _edit_prompt(tmp_path / "mine", LEVELS)
    options = ("--model", "oracle", "--prompts", tmp_path / "mine", "--warehouse", warehouse, "--reports", tmp_path)
    refused = factmill("evaluate", "granola", *options)
    assert refused.code == 2 and f"in the world embedded with the prompts of {tmp_path / 'mine'}" in refused.err
    edited.unlink()
    _edit_prompt(tmp_path / "mine", ANSWER)
    ran = factmill("evaluate", "granola", *options, "--setting", "greedy")
    assert ran.code == 0, f"no prompt of builds is replaced: {ran.err}"


def _edit_prompt(folder: Path, prompt_id: str) -> Path:
    path = folder / f"{prompt_id}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{asset_path('prompts', f'{prompt_id}.md').read_text('utf-8')}\nMind every word.\n", "utf-8")
    return path
