"""Test `factmill world replies`: find prompts of the embedded builds without a scripted reply, and add replies."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from support.commands.command import Factmill, Ran
from support.worlds.planting import edited_prompt
from support.worlds.replies import find_written

from factmill.tasks.world import scripted_replies
from factmill.tasks.world.scripted_replies import (
    ScriptedRepliesToPrompt,
    ScriptedReplyKey,
    clear_scripted_reply_caches,
    get_scripted_replies_path,
    load_scripted_replies,
    write_scripted_replies,
)

PROMPT = "slaq/fact_type"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make this process use a copy of the files."""
    copy = tmp_path / "replies"
    shutil.copytree(scripted_replies.SCRIPTED_REPLIES_FOLDER, copy)
    monkeypatch.setattr(scripted_replies, "SCRIPTED_REPLIES_FOLDER", copy)
    monkeypatch.setattr(scripted_replies, "find_scripted_reply", find_written)
    clear_scripted_reply_caches()
    yield copy
    clear_scripted_reply_caches()


class Command:
    """The command for SLAQ, in its own warehouse."""

    def __init__(self, factmill: Factmill, folder: Path) -> None:
        self._factmill, self._folder = factmill, folder

    def __call__(self, *options: str | Path) -> Ran:
        own = ("--benchmark", "slaq", "--warehouse", self._folder / "w.duckdb")
        return self._factmill("world", "replies", *options, *own)

    def fill(self, form: str) -> Path:
        path = self._folder / "form.yaml"
        path.write_text(form, "utf-8")
        return path


@pytest.fixture
def command(factmill: Factmill, tmp_path: Path) -> Command:
    return Command(factmill, tmp_path)


def take_out(prompt: str) -> ScriptedReplyKey:
    """Remove the first reply from a file and return its key."""
    file = load_scripted_replies(prompt)
    first, *rest = file.replies
    write_scripted_replies(prompt, ScriptedRepliesToPrompt(file.written_by, {key: file.replies[key] for key in rest}))
    return first


@pytest.mark.slow
def test_missing_reply_is_listed_filled_in_and_added(folder: Path, command: Command) -> None:
    whole = get_scripted_replies_path(PROMPT).read_text("utf-8")
    text = next(iter(load_scripted_replies(PROMPT).replies.values())).text
    missing = dict(take_out(PROMPT))
    ran = command("--missing", "--unused", "--json")
    assert ran.json == {"missing": {PROMPT: [missing]}, "unused": {}}, ran.err
    form = command("--missing").out
    assert yaml.safe_load(form) == {PROMPT: [{**missing, "reply": None}]}
    assert "note: no scripted reply to 1 of" in ran.err

    ran = command("--add", command.fill(form))
    assert (ran.code, ran.err.endswith(" [embedded-world]\n")) == (1, True)
    filled = form.replace("  reply:\n", f"  reply: {json.dumps(text)}\n")
    ran = command("--add", command.fill(filled.replace(missing["answer"], "another")))
    assert (ran.code, ran.err.endswith(" [embedded-world]\n")) == (1, True)
    assert get_scripted_replies_path(PROMPT).read_text("utf-8") != whole
    assert command("--add", command.fill(filled), "--json").json == {PROMPT: 1}
    assert get_scripted_replies_path(PROMPT).read_text("utf-8") == whole
    ran = command("--add", command.fill(filled))
    assert (ran.code, ran.err.endswith(" [embedded-world]\n")) == (1, True)


@pytest.mark.slow
def test_edited_prompt_keeps_replies_and_changed_variable_needs_new_reply(
    folder: Path, command: Command, tmp_path: Path
) -> None:
    with edited_prompt(tmp_path, PROMPT):
        assert command("--missing", "--json").json == {"missing": {}}
    path = get_scripted_replies_path(PROMPT)
    path.write_text(path.read_text("utf-8").replace("- question: ", "- question: Tell me, ", 1), "utf-8")
    clear_scripted_reply_caches()
    result = command("--missing", "--unused", "--json").json
    (missing,), (unused,) = result["missing"][PROMPT], result["unused"][PROMPT]
    assert unused == {**missing, "question": f"Tell me, {missing['question']}"}


def test_check_needs_no_build_and_names_file(folder: Path, factmill: Factmill) -> None:
    check = ("world", "replies", "--check")
    assert factmill(*check).code == 0
    take_out(PROMPT)
    ran = factmill(*check)
    assert ran.code == 1 and f"{PROMPT}: the replies differ" in ran.err
    path = get_scripted_replies_path("slaq/check")
    path.write_text(f"{path.read_text('utf-8')}\n", "utf-8")
    assert f"{path}: not sorted" in factmill(*check).err
    assert factmill("world", "replies", "--tidy").out == "slaq/check: reformatted\n"
    assert "not sorted" not in factmill(*check).err


def test_replies_are_counted_and_only_one_action_is_allowed(factmill: Factmill) -> None:
    result = {each["prompt"]: each for each in factmill("world", "replies", "--json").json}
    assert result[PROMPT]["replies"] == len(load_scripted_replies(PROMPT).replies)
    assert f"{PROMPT}: " in factmill("world", "replies").out
    assert factmill("world", "replies", "--tidy", "--missing").code == 2


@pytest.mark.slow
def test_user_source_without_scripted_replies_is_reported_by_build(
    folder: Path, factmill: Factmill, tmp_path: Path
) -> None:
    source = tmp_path / "P19.json"
    source.write_text('[{"question": "Where was Albert Einstein born?", "answers": ["Ulm"]}]', "utf-8")
    ran = factmill("build", "granola", "--source", source, "--warehouse", tmp_path / "own.duckdb")
    assert ran.code == 1
    first = ran.err.index("no scripted reply to 1 of 1 request with the prompt granola/granular_answers")
    assert first < ran.err.index("generate_granular_answers: 0 rows, 1 rejected")
    assert "lost 1 to no_scripted_reply" in ran.err and "name a model under [models.author]" in ran.err
