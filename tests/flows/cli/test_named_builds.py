"""Test builds named in commands, and the builds and prompts that `explain` reports for a row."""

import hashlib
from pathlib import Path

import pytest
from support.builds.small_builds import SmallBuilds
from support.commands.command import Factmill
from support.worlds.replies import replying

import factmill as api
from factmill.flows.commands.provenance import format_trace
from factmill.tasks.assets import asset_path
from factmill.tasks.granola.benchmark import GRANOLA

LEVELS = "granola/granular_answers"


@pytest.fixture(scope="module")
def builds(small_builds: SmallBuilds, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str, Path]:
    """A warehouse with a small build and its repetition with an own prompt, their ids, and the prompt's file."""
    folder = tmp_path_factory.mktemp("named")
    warehouse, prompt = folder / "w.duckdb", folder / "mine" / f"{LEVELS}.md"
    plain = small_builds.copy("granola", warehouse)
    prompt.parent.mkdir(parents=True)
    prompt.write_text(f"{asset_path('prompts', f'{LEVELS}.md').read_text('utf-8')}\nMind every word.\n", "utf-8")
    options = ("--relations", "P19", "--limit", "12", "--prompts", folder / "mine", "--warehouse", warehouse, "--json")
    with replying():
        ran = small_builds.factmill("build", "granola", *options)
    assert ran.code == 0, ran.err
    return warehouse, plain, ran.json["build_id"], prompt


def test_latest_build_has_same_name_in_every_command(factmill: Factmill, builds: tuple[Path, str, str, Path]) -> None:
    warehouse, plain, newest, _ = builds
    place = ("--warehouse", warehouse, "--json")
    for named in (
        ("latest:granola",),
        ("granola", "--build", "latest"),
        ("latest:granola", "--build", "latest:granola"),
    ):
        assert factmill("show", *named, *place).json["build_id"] == newest
    row = factmill("show", "granola", *place).json["rows"][0]["id"]
    for words in (("latest:granola", row), (row, "latest:granola"), ("granola", row)):
        assert factmill("explain", *words, *place).json["build"] == newest
    assert factmill("explain", "latest:granola", *place).json["build_id"] == newest
    assert newest in factmill("audit", "latest:granola", "--to", warehouse.parent / "audit.csv", *place).out
    refused = factmill("show", "latest:granola", "--build", plain, *place)
    assert refused.code == 2 and "both name a build" in refused.err


def test_note_on_choice_of_latest_is_last_line(
    factmill: Factmill, builds: tuple[Path, str, str, Path], tmp_path: Path
) -> None:
    warehouse, _, newest, _ = builds
    for command in (
        ("show", "granola"),
        ("show", "granola", "--json"),
        ("export", "latest:granola", "--to", tmp_path / "out"),
        ("report", "latest:granola", "--to", tmp_path / "page.html"),
    ):
        ran = factmill(*command, "--warehouse", warehouse)
        assert ran.err.splitlines()[-1].startswith(f"note: latest:granola is {newest}, made with "), command
        assert ran.err.count("note: latest:granola") == 1


def test_row_of_several_builds_lists_them_in_command_and_python(
    factmill: Factmill, builds: tuple[Path, str, str, Path]
) -> None:
    warehouse, plain, newest, _ = builds
    row = factmill("show", "granola", "--warehouse", warehouse, "--json").json["rows"][0]["id"]
    result = api.explain(row, source=warehouse)
    assert (result.build, result.trace["other_builds"]) == (newest, [plain])
    assert f"  also in     {plain}: name a build to see its row" in result.lines
    assert f"also in     {plain}" in factmill("explain", "granola", row, "--warehouse", warehouse).out
    for count, said in ((5, "a, b, c, d, e: name"), (7, "a, b, c, d, e and 2 more: name")):
        lines = format_trace(GRANOLA, {**result.trace, "other_builds": list("abcdefg"[:count])})
        assert f"  also in     {said} a build to see its row" in lines
    assert api.explain(row, build=plain, source=warehouse).trace["other_builds"] == [newest]


def test_calls_with_own_prompt_name_its_file_and_digest(
    factmill: Factmill, builds: tuple[Path, str, str, Path]
) -> None:
    warehouse, plain, newest, prompt = builds
    row = factmill("show", "granola", "--warehouse", warehouse, "--json").json["rows"][0]["id"]
    digest = hashlib.sha256(prompt.read_bytes()).hexdigest()
    line = f"      with    own prompt {prompt}, SHA-256 {digest}"
    assert factmill("explain", "granola", row, "--warehouse", warehouse).out.splitlines().count(line) == 1
    assert "own prompt" not in factmill("explain", "granola", row, "--build", plain, "--warehouse", warehouse).out
    assert "identical" in factmill("verify", newest, "--warehouse", warehouse).out
