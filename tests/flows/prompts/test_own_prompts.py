"""Test builds and evaluations with own prompts: a new text makes a new build, a copy does not, and replays work."""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.builds.small_builds import SMALL, SmallBuilds
from support.commands.command import Factmill
from support.models.scripted_chat import Message, ScriptedChat, write_chat_world
from support.rows.csv_files import read_csv, write_csv

from factmill.flows.serve_options import ServeOptions
from factmill.tasks.assets import ASSETS_ROOT

LEVELS, ANSWER, JUDGE = "granola/granular_answers", "granola/answer", "slaq/judge_short"
BUILD = ("build", "granola", *SMALL["granola"], "--json")
KEY = {"TEST_KEY": "k"}


def copy_prompt(folder: Path, prompt_id: str, added: str = "") -> Path:
    """Copy a packaged prompt into a folder of own prompts, add a sentence to its last part, and return the folder."""
    path = folder / f"{prompt_id}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    before, user, last = (ASSETS_ROOT / "prompts" / f"{prompt_id}.md").read_text("utf-8").rpartition("# user\n")
    path.write_text(f"{before}{user}{added and f'{added}{chr(10)}'}{last}", "utf-8")
    return folder


@pytest.fixture
def warehouse(small_builds: SmallBuilds, tmp_path: Path) -> Path:
    """A warehouse with the small GRANOLA-EQ build."""
    small_builds.copy("granola", tmp_path / "w.duckdb")
    return tmp_path / "w.duckdb"


def make(factmill: Factmill, warehouse: Path, *options: str | Path, **environment: str) -> Any:
    ran = factmill(*BUILD, "--warehouse", warehouse, *options, **environment)
    assert ran.code == 0, ran.err
    return ran.json


def test_copied_prompt_yields_same_build_and_edited_prompt_new_build(
    factmill: Factmill, warehouse: Path, tmp_path: Path
) -> None:
    plain = make(factmill, warehouse)
    assert plain["up_to_date"]
    mine = copy_prompt(tmp_path / "mine", LEVELS)
    ran = factmill(*BUILD, "--warehouse", warehouse, "--prompts", mine)
    assert (ran.json["build_id"], ran.json["up_to_date"]) == (plain["build_id"], True)
    assert f"no prompt in {mine} changes granola" in ran.err

    copy_prompt(mine, LEVELS, "Mind every word.")
    edited = make(factmill, warehouse, "--prompts", mine)
    assert edited["build_id"] != plain["build_id"]
    assert list(edited["own_prompts"]) == [LEVELS]
    # a reworded prompt keeps its scripted replies, but is sent again
    assert edited["calls_sent"] == 12 and edited["rows"] == plain["rows"]
    again = make(factmill, warehouse, "--prompts", mine)
    assert (again["build_id"], again["up_to_date"]) == (edited["build_id"], True)

    result = factmill("diff", plain["build_id"], edited["build_id"], "--warehouse", warehouse).out
    assert f"prompt: {LEVELS}: edited" in result
    digest = edited["own_prompts"][LEVELS]
    assert (
        f"{digest} (own)" in factmill("explain", "granola", "--build", edited["build_id"], "--warehouse", warehouse).out
    )
    for name in ("page.md", "page.html"):
        factmill("report", edited["build_id"], "--to", tmp_path / name, "--warehouse", warehouse)
        page = (tmp_path / name).read_text("utf-8")
        assert f"{LEVELS} (SHA-256 {digest[:12]})" in page and "--prompts mine/" in page and str(tmp_path) not in page
    card = tmp_path / "released" / "README.md"
    ran = factmill("release", edited["build_id"], "--to", card.parent, "--warehouse", warehouse)
    assert ran.code == 0, ran.err
    text = card.read_text("utf-8")
    assert f"in place of factmill's: {LEVELS} (SHA-256 {digest[:12]})" in text and "Mind every word." in text
    assert "--prompts mine/" in text and f"`mine/` holds the own prompts above, such as `mine/{LEVELS}.md`" in text
    assert str(tmp_path) not in text

    # the recorded texts suffice, whatever happens to the folder
    for change in (lambda: copy_prompt(mine, LEVELS, "Something else."), lambda: shutil.rmtree(mine)):
        change()
        ran = factmill("verify", edited["build_id"], "--warehouse", warehouse, "--json")
        assert ran.code == 0 and ran.json["agrees"], ran.err
    ran = factmill("verify", plain["build_id"], "--warehouse", warehouse, "--json")
    assert ran.json["agrees"]


def test_prompts_option_overrides_folder_of_world_file(factmill: Factmill, warehouse: Path, tmp_path: Path) -> None:
    text = (ASSETS_ROOT / "data" / "worlds" / "embedded.toml").read_text("utf-8")
    world = tmp_path / "worlds" / "mine.toml"
    world.parent.mkdir()
    world.write_text(f'prompts = "../mine"\n{text}', "utf-8")
    copy_prompt(tmp_path / "mine", LEVELS, "Mind every word.")
    by_world = make(factmill, warehouse, "--world", world)
    assert list(by_world["own_prompts"]) == [LEVELS]
    # the folder's location is no input of a build
    assert make(factmill, warehouse, "--prompts", tmp_path / "mine")["build_id"] == by_world["build_id"]
    other = copy_prompt(tmp_path / "other", LEVELS)
    assert make(factmill, warehouse, "--world", world, "--prompts", other)["own_prompts"] == {}
    listed = factmill("prompts", "--world", world, "--json").json
    assert [each["id"] for each in listed if each["is_own"]] == [LEVELS]
    found = {each["what"]: each for each in factmill("doctor", "--world", world, "--json").json["findings"]}
    assert found["own prompts"]["ok"] and LEVELS in found["own prompts"]["found"]


def test_invalid_prompt_is_rejected_before_start(factmill: Factmill, tmp_path: Path) -> None:
    mine = copy_prompt(tmp_path / "mine", LEVELS, "It is $evidence.")
    for command in ("build", "evaluate"):
        ran = factmill(command, "granola", "--prompts", mine, "--warehouse", tmp_path / "no.duckdb")
        assert ran.code != 0 and ran.out == ""
        assert command == "evaluate" or f"{mine}/{LEVELS}.md: the text uses the variable $evidence" in ran.err
        assert len(ran.err.splitlines()) == 1, ran.err
    assert not list(tmp_path.glob("no.duckdb*"))


@pytest.fixture
def chat() -> Iterator[tuple[ScriptedChat, list[str]]]:
    """A model with one fixed reply that records its prompts."""
    asked: list[str] = []

    def answer(messages: Sequence[Message]) -> tuple[int, str]:
        asked.append(json.dumps(messages))
        is_judge = "The mark is" in asked[-1]
        return 200, "Verdict: 1" if is_judge else "Vienna"

    server = ScriptedChat(answer)
    yield server, asked
    server.close()


@pytest.mark.slow
def test_prefect_batch_threads_read_own_prompt(
    factmill_on_prefect: Factmill, tmp_path: Path, chat: tuple[ScriptedChat, list[str]]
) -> None:
    """Prefect runs batches in its own threads; the model's replies are malformed, so no row is published."""
    server, asked = chat
    world = write_chat_world(tmp_path, server.url, ["author"])
    mine = copy_prompt(tmp_path / "mine", LEVELS, "Mind every word.")
    options = ("--world", world, "--prompts", mine, "--batch-size", "3")
    ran = factmill_on_prefect(*BUILD, "--warehouse", tmp_path / "w.duckdb", *options, **KEY)
    assert len(asked) >= 12 and all("Mind every word." in each for each in asked), ran.err


def test_evaluation_uses_and_names_own_prompt(
    factmill: Factmill, warehouse: Path, tmp_path: Path, chat: tuple[ScriptedChat, list[str]]
) -> None:
    server, asked = chat
    world = write_chat_world(tmp_path, server.url, ["answerer"])
    mine = copy_prompt(tmp_path / "mine", ANSWER, "Mind every word.")
    evaluate = ("evaluate", "granola", "--world", world, "--setting", "greedy", "--warehouse", warehouse)
    result = factmill.get_json(*evaluate, "--prompts", mine, "--reports", tmp_path, **KEY)
    assert asked and all("Mind every word." in each for each in asked)
    digest = result["own_prompts"][ANSWER]
    (page,) = tmp_path.glob("*.html")
    assert f"{ANSWER} (SHA-256 {digest[:12]})" in page.read_text("utf-8")
    plain = factmill(*evaluate, "--json", **KEY)
    assert plain.json["own_prompts"] == {} and plain.json["evaluation_id"] != result["evaluation_id"]
    assert "Mind every word." not in asked[-1]
    shutil.rmtree(mine)
    assert factmill("verify", result["evaluation_id"], "--warehouse", warehouse).code == 0

    copy_prompt(mine, ANSWER, "Mind every word.")
    questions = ("--questions", tmp_path / "q.jsonl", "--prompts", mine)
    assert factmill(*evaluate, *questions, **KEY).code == 0
    (first, *_) = (tmp_path / "q.jsonl").read_text("utf-8").splitlines()
    assert "Mind every word." in first


def test_judge_card_applies_only_to_verdicts_of_same_prompt(
    factmill: Factmill, small_builds: SmallBuilds, tmp_path: Path, chat: tuple[ScriptedChat, list[str]]
) -> None:
    server, _ = chat
    warehouse = tmp_path / "w.duckdb"
    small_builds.copy("slaq", warehouse)
    world = write_chat_world(tmp_path, server.url, ["judge", "answerer"], "stern-1")
    mine = copy_prompt(tmp_path / "mine", JUDGE, "Mind every word.")
    evaluate = ("evaluate", "slaq", "--world", world, "--setting", "short", "--limit", "4", "--warehouse", warehouse)
    plain = factmill(*evaluate, "--json", **KEY).json
    own = factmill(*evaluate, "--prompts", mine, "--json", **KEY).json
    assert plain["evaluation_id"] != own["evaluation_id"] and list(own["own_prompts"]) == [JUDGE]
    # the tested model gets no new request
    assert own["calls_replayed"] > 0

    labels = tmp_path / "l.csv"
    assert factmill("label", own["evaluation_id"], "--to", labels, "--warehouse", warehouse).code == 0
    rows = read_csv(labels)
    write_csv(labels, (row | {"label": "1" if number % 3 else "0"} for number, row in enumerate(rows)))
    card = ("judge-card", "--judge", "stern-1", "--world", world, "--labels", labels, "--warehouse", warehouse)
    made = factmill(*card, "--prompts", mine, "--json").json["cards"][0]
    digest = own["own_prompts"][JUDGE]
    assert made["own_prompts"] == {JUDGE: digest} and made["source"] == f"those of {own['evaluation_id']}"
    assert f"own prompts of the judge: {JUDGE} (SHA-256 {digest[:12]})" in factmill(*card, "--prompts", mine).out

    result = {
        each: factmill(*evaluate, *options, "--json", **KEY).json
        for each, options in (("plain", ()), ("own", ("--prompts", mine)))
    }
    assert f"asked with own prompts: {JUDGE}" in result["own"]["judge_card"]
    assert "made with other prompts" not in result["own"]["judge_card"]
    assert "made with other prompts than this evaluation uses, so it corrects no rate" in result["plain"]["judge_card"]
    assert result["plain"]["corrected"] == []
    assert result["own"]["corrected"]

    # only verdicts by the named prompts make a card
    copy_prompt(mine, JUDGE, "A third wording.")
    ran = factmill(*card, "--prompts", mine)
    assert ran.code == 2 and f"no evaluation has verdicts of stern-1 by the prompts of {mine}" in ran.err
    assert f"--prompts {mine}" in ran.err


def test_card_of_other_prompt_does_not_check_release_evaluations(
    factmill: Factmill, small_builds: SmallBuilds, tmp_path: Path, chat: tuple[ScriptedChat, list[str]]
) -> None:
    """The judge scores people's own questions with the own prompt, the evaluation with the packaged one."""
    server, asked = chat
    warehouse = tmp_path / "w.duckdb"
    build_id = small_builds.copy("slaq", warehouse)
    world = write_chat_world(tmp_path, server.url, ["judge", "answerer"], "stern-1")
    evaluate = ("evaluate", "slaq", "--world", world, "--setting", "short", "--limit", "2", "--warehouse", warehouse)
    plain = factmill(*evaluate, "--json", **KEY).json
    labels = tmp_path / "own.csv"
    labels.write_text("question,gold,answer,label\n" + "".join(f"Who {n}?,Ada,Ada,1\n" for n in range(3)), "utf-8")
    mine = copy_prompt(tmp_path / "mine", JUDGE, "Mind every word.")
    before = len(asked)
    card = ("judge-card", "--judge", "judge", "--world", world, "--labels", labels, "--benchmark", "slaq")
    made = factmill(*card, "--prompts", mine, "--warehouse", warehouse, "--json", **KEY).json["cards"][0]
    assert list(made["own_prompts"]) == [JUDGE]
    assert len(asked) == before + 3 and all("Mind every word." in each for each in asked[before:])

    def read_card(folder: str) -> str:
        ran = factmill("release", build_id, "--to", tmp_path / folder, "--warehouse", warehouse)
        assert ran.code == 0, ran.err
        return (tmp_path / folder / "README.md").read_text("utf-8")

    assert "stern-1 agrees" not in read_card("before")
    assert "made with other prompts" in factmill(*evaluate, "--json", **KEY).json["judge_card"]
    own = factmill(*evaluate, "--prompts", mine, "--json", **KEY).json
    assert own["evaluation_id"] != plain["evaluation_id"]
    assert "stern-1 agrees" in (text := read_card("after")) and f"asked with own prompts: {JUDGE}" in text


def test_serve_passes_prompts_folder_as_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert ServeOptions(prompts=Path("mine")).make_run_options().prompts == tmp_path.resolve() / "mine"
    assert ServeOptions().make_run_options().prompts is None
