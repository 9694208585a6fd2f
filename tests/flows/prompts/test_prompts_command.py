"""Test `factmill prompts`: list, print and copy."""

from pathlib import Path

from support.commands.command import Factmill

from factmill.flows.commands.prompts import _load_prompt_purposes
from factmill.tasks.assets import ASSETS_ROOT, list_packaged_prompts, load_packaged_prompt

ANSWER = "granola/answer"


def test_every_prompt_is_listed_with_user_purpose_and_variables(factmill: Factmill) -> None:
    listed = {each["id"]: each for each in factmill("prompts", "--json").json}
    assert [*listed] == list_packaged_prompts() and [*_load_prompt_purposes()] == [*listed]
    assert not [each for each in listed.values() if not each["benchmarks"] or each["is_own"]]
    assert listed["slaq/judge_short"]["variables"] == ["question", "gold", "boundary", "answer"]
    assert listed["slaq/answer_short"]["benchmarks"] == ["slaq_evaluation", "slaq_mechanism"]
    out = factmill("prompts").out
    assert "granola/answer " in out and "answer a question from memory: $question" in out


def test_prompts_of_folder_are_listed_with_files(factmill: Factmill, tmp_path: Path) -> None:
    assert factmill("prompts", ANSWER, "slaq/pair", "--copy-to", tmp_path).code == 0
    path = tmp_path / f"{ANSWER}.md"
    path.write_text(path.read_text("utf-8").replace("from memory", "from what you know"), "utf-8")
    out = factmill("prompts", "--prompts", tmp_path).out
    assert f"own prompt: {path}" in out
    assert f"same text as the packaged prompt: {tmp_path}/slaq/pair.md" in out
    assert f"1 of {len(list_packaged_prompts())} prompts are own ones, of {tmp_path}: {ANSWER}; the others" in out
    shown = {each["id"]: each["is_own"] for each in factmill("prompts", "--prompts", tmp_path, "--json").json}
    assert [name for name, is_own in shown.items() if is_own] == [ANSWER]
    several = factmill("prompts", ANSWER, "slaq/pair", "--prompts", tmp_path).out
    assert f"=== {ANSWER} (own prompt: {path}) ===" in several and "=== slaq/pair ===" in several
    assert f"{ANSWER} is an own prompt: {path}" in factmill("prompts", ANSWER, "--prompts", tmp_path).err
    assert "from what you know" in factmill("prompts", ANSWER, "--prompts", tmp_path).out
    assert "from memory" in factmill("prompts", ANSWER).out
    [result] = factmill("prompts", ANSWER, "--json").json
    assert (result["text"].encode(), result["digest"]) == (
        (ASSETS_ROOT / "prompts" / f"{ANSWER}.md").read_bytes(),
        load_packaged_prompt(ANSWER).digest,
    )


def test_copy_overwrites_only_on_request_and_reports_it(factmill: Factmill, tmp_path: Path) -> None:
    copy = ("prompts", "granola", "slaq/pair", "--copy-to", tmp_path)
    assert factmill(*copy).out.count("copied: ") == 8
    assert factmill(*copy).out.count("there already: ") == 8
    path = tmp_path / f"{ANSWER}.md"
    path.write_text("mine", "utf-8")
    (tmp_path / "slaq" / "pair.md").unlink()
    ran = factmill(*copy)
    assert ran.code == 1 and f"{path}: there already, with another text, and nothing was copied" in ran.err
    assert path.read_text("utf-8") == "mine" and not (tmp_path / "slaq" / "pair.md").exists()
    result = {each["id"]: each["done"] for each in factmill(*copy, "--overwrite", "--json").json}
    assert (result[ANSWER], result["slaq/pair"], result["granola/answer_idk"]) == (
        "overwritten",
        "copied",
        "there already",
    )
    assert path.read_bytes() == (ASSETS_ROOT / "prompts" / f"{ANSWER}.md").read_bytes()


def test_unknown_prompt_suggests_similar_name(factmill: Factmill, tmp_path: Path) -> None:
    for command in (("granola/anser",), ("granola/anser", "--copy-to", tmp_path)):
        ran = factmill("prompts", *command)
        assert ran.code == 2 and "did you mean granola/answer?" in ran.err
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("x", "utf-8")
    ran = factmill("prompts", ANSWER, "--copy-to", tmp_path / "file")
    assert ran.code == 1 and "cannot be" in ran.err
