"""Test folders of own prompts: which packaged prompts they replace, and what is refused."""

import threading
from contextvars import copy_context
from pathlib import Path

import pytest

from factmill.tasks import own_prompts
from factmill.tasks.assets import (
    ASSETS_ROOT,
    list_packaged_prompts,
    load_packaged_prompt,
    load_prompt,
    use_own_prompts,
    using_own_prompts,
)
from factmill.tasks.errors import FactmillError, PromptError, SettingsError
from factmill.tasks.own_prompts import load_own_prompts, parse_own_prompts

ANSWER = "granola/answer"
HEAD = '+++\nrole = "judge"\ninputs = ["question", "answer"]\nmax_tokens = 16\n+++\n'
BODY = "# user\n<question>$question</question>\n<answer>$answer</answer>\n"


def put(folder: Path, prompt_id: str, content: bytes) -> Path:
    path = folder / f"{prompt_id}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def read_packaged(prompt_id: str) -> bytes:
    return (ASSETS_ROOT / "prompts" / f"{prompt_id}.md").read_bytes()


def test_prompt_of_folder_replaces_packaged_one(tmp_path: Path) -> None:
    put(tmp_path, "slaq/fact_type", (HEAD + BODY).encode())
    put(tmp_path, ANSWER, read_packaged(ANSWER))
    found = load_own_prompts(tmp_path)
    assert list(found) == [ANSWER, "slaq/fact_type"]
    assert [each.is_packaged_text for each in found.values()] == [True, False]
    own = found["slaq/fact_type"]
    with using_own_prompts({"slaq/fact_type": own.template}):
        assert load_prompt("slaq/fact_type") is own.template
        assert load_prompt(ANSWER) is load_packaged_prompt(ANSWER)
    assert load_prompt("slaq/fact_type") is load_packaged_prompt("slaq/fact_type")
    assert parse_own_prompts({"slaq/fact_type": own.text}) == {"slaq/fact_type": own.template}


@pytest.mark.parametrize("saved", ["BOM", "CRLF", "both"])
def test_copy_with_bom_or_crlf_equals_packaged_prompt(tmp_path: Path, saved: str) -> None:
    content = read_packaged("slaq/generate")
    content = content if saved == "BOM" else content.replace(b"\n", b"\r\n")
    put(tmp_path, "slaq/generate", content if saved == "CRLF" else b"\xef\xbb\xbf" + content)
    (own,) = load_own_prompts(tmp_path).values()
    assert own.is_packaged_text and own.text.encode() == read_packaged("slaq/generate")


@pytest.mark.parametrize("prompt_id", list_packaged_prompts())
def test_every_packaged_prompt_can_be_copied_and_edited(tmp_path: Path, prompt_id: str) -> None:
    put(tmp_path, prompt_id, read_packaged(prompt_id).replace(b"# user\n", b"# user\nMind every word.\n", 1))
    (own,) = load_own_prompts(tmp_path).values()
    assert not own.is_packaged_text and own.template.inputs == load_packaged_prompt(prompt_id).inputs


@pytest.mark.parametrize(
    ("prompt_id", "content", "messages"),
    [
        (
            "slaq/fact_typ",
            HEAD + BODY,
            ["no prompt slaq/fact_typ.md", "did you mean slaq/fact_type?", "`factmill prompts` lists"],
        ),
        ("fact_type", HEAD + BODY, ["no prompt fact_type.md", "BENCHMARK/NAME.md"]),
        (
            "slaq/fact_type",
            HEAD + BODY + "$evidence",
            ["slaq/fact_type.md: the text uses the variable $evidence", "allowed: $question, $answer. Remove it"],
        ),
        ("slaq/fact_type", HEAD + BODY + "It costs $100.", ["variable $100", "write it without the dollar sign"]),
        (
            "slaq/fact_type",
            HEAD + BODY.replace("$answer", "the answer"),
            ["does not use the variable $answer", "Add $answer where its text should stand"],
        ),
        (
            "slaq/fact_type",
            HEAD.replace(', "answer"', "") + BODY,
            ["inputs in the header is ['question']; expected ['question', 'answer']"],
        ),
        ("slaq/fact_type", HEAD.replace("judge", "author") + BODY, ["asked of 'judge'", 'write role = "judge"']),
        ("slaq/fact_type", HEAD.replace("max_tokens", "max_token") + BODY, ["unknown key max_token", "max_tokens"]),
        ("slaq/fact_type", HEAD.replace("16", "0") + BODY, ["max_tokens in the header is 0", "whole number above 0"]),
        ("slaq/fact_type", HEAD.replace("16", "true") + BODY, ["max_tokens in the header is True"]),
        ("slaq/fact_type", HEAD.replace('role = "judge"\n', "") + BODY, ["role in the header is None"]),
        ("slaq/fact_type", HEAD.replace("max_tokens = 16", 'temperature = "hot"') + BODY, ["a number from 0 to 2"]),
        ("slaq/fact_type", HEAD.replace("max_tokens = 16", "temperature = nan") + BODY, ["temperature", "nan"]),
        ("slaq/fact_type", HEAD.replace("+++\n", "", 1) + BODY, ["expected a TOML header"]),
        ("slaq/fact_type", HEAD + BODY + "# user\nagain", ["in turns"]),
        ("slaq/fact_type", "", ["expected a TOML header"]),
        ("slaq/fact_type", HEAD + "# user\n$question $answer\xe9", ["byte", "not UTF-8"]),
        (
            "slaq/fact_type",
            HEAD.replace("max_tokens = 16", '[schema]\ntype = "object"') + BODY,
            ["schema", "`factmill prompts slaq"],
        ),
        ("slaq/fact_type", "x" * 1_000_001, ["larger than 1 MB"]),
    ],
)
def test_unusable_prompt_file_is_rejected(tmp_path: Path, prompt_id: str, content: str, messages: list[str]) -> None:
    path = put(tmp_path, prompt_id, content.encode("latin-1"))
    with pytest.raises(PromptError) as refused:
        load_own_prompts(tmp_path)
    assert str(path) in str(refused.value)
    assert not [each for each in messages if each not in str(refused.value)], refused.value


def test_file_of_other_kind_is_rejected_but_notes_and_hidden_files_are_not(tmp_path: Path) -> None:
    put(tmp_path, ANSWER, read_packaged(ANSWER))
    (tmp_path / "README.md").write_text("ours", "utf-8")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("x", "utf-8")
    (tmp_path / "granola" / ".answer.md.swp").write_text("x", "utf-8")
    assert list(load_own_prompts(tmp_path)) == [ANSWER]
    (tmp_path / "granola" / "answer.txt").write_text("x", "utf-8")
    with pytest.raises(PromptError, match=r"answer\.txt: factmill has no prompt granola/answer\.txt"):
        load_own_prompts(tmp_path)


def test_folder_without_prompts_is_rejected(tmp_path: Path) -> None:
    for folder, result in ((tmp_path, "holds no prompt"), (tmp_path / "no", "does not exist")):
        with pytest.raises(SettingsError, match=f"{result}.*factmill prompts granola/answer --copy-to"):
            load_own_prompts(folder)
    (tmp_path / "file").write_text("x", "utf-8")
    with pytest.raises(FactmillError, match="is no folder"):
        load_own_prompts(tmp_path / "file")


def test_linked_folders_are_read_and_too_many_files_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "shelf", ANSWER, read_packaged(ANSWER))
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "granola").symlink_to(tmp_path / "shelf" / "granola")
    (tmp_path / "shelf" / "granola" / "again").symlink_to(mine)
    assert list(load_own_prompts(mine)) == [ANSWER]
    monkeypatch.setattr(own_prompts, "_MAX_FILES", 0)
    with pytest.raises(SettingsError, match="more than 0 files"):
        load_own_prompts(mine)


def test_concurrent_runs_keep_their_own_prompts(tmp_path: Path) -> None:
    put(tmp_path, "slaq/fact_type", (HEAD + BODY).encode())
    own = load_own_prompts(tmp_path)["slaq/fact_type"].template
    found = {}

    def read(name: str) -> None:
        found[name] = load_prompt("slaq/fact_type").digest

    def run_with_own() -> None:
        use_own_prompts({"slaq/fact_type": own})
        read("own")
        below = threading.Thread(target=copy_context().run, args=(read, "below"))
        below.start()
        below.join()

    for task in (run_with_own, lambda: read("other")):
        thread = threading.Thread(target=task)
        thread.start()
        thread.join()
    packaged = load_packaged_prompt("slaq/fact_type").digest
    assert found == {"own": own.digest, "below": own.digest, "other": packaged}
    assert load_prompt("slaq/fact_type").digest == packaged
