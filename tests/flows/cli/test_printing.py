"""Test printed output: texts of sources and models cannot control the terminal; the list of commands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands.command import ROOT
from typer.core import TyperCommand
from typer.main import get_command

from factmill.flows.cli.main import COMMAND_GROUPS, COMMANDS, app, find_commit
from factmill.flows.cli.options import print_lines_escaping_control_characters, print_result, write_text_file
from factmill.flows.commands.builds import print_terminal_table
from factmill.tasks.errors import OutputError

HOSTILE = "\x1b]0;a title\x07 \x9b2J \u202eturned"


def test_row_text_cannot_control_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_: False)  # as on a terminal
    monkeypatch.setenv("COLUMNS", "200")
    print_lines_escaping_control_characters([HOSTILE, "two\tlines"])
    print_terminal_table(HOSTILE, {"id": None, "note": "note"}, [{"id": HOSTILE, "note": [HOSTILE, {"a": HOSTILE}]}])
    printed = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(printed)
    assert printed.startswith("[U+001B]]0;a title[U+0007] [U+009B]2J [U+202E]turned\ntwo\tlines\n")
    assert printed.count("[U+001B]") == 5


def test_empty_line_iterator_prints_no_blank_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines_escaping_control_characters(iter(()))
    print_lines_escaping_control_characters([""])
    assert capsys.readouterr().out == "\n"


@pytest.mark.parametrize(
    ("as_json", "out", "err"), [(True, '{"a": "é"}\n', ""), (False, "one\ntwo\n", "note: [U+0007]\n")]
)
def test_result_prints_json_object_or_lines_and_notes_on_stderr(
    as_json: bool, out: str, err: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_result(as_json, {"a": "é"}, ["one", "two"], "", "note: \x07")
    assert capsys.readouterr() == (out, err)


def test_unwritable_file_error_names_its_option(tmp_path: Path) -> None:
    assert write_text_file("one\n", tmp_path / "made/a.txt", "--to").read_text() == "one\n"
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"file/a.txt: cannot be written: .* with --to$"):
        write_text_file("", tmp_path / "file/a.txt", "--to")
    with pytest.raises(OutputError, match=r"none/a.txt: cannot be written: No such file or directory$"):
        write_text_file("", tmp_path / "none/a.txt")


def test_help_lines_match_command_help() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert list(commands) == list(COMMANDS)
    for name, (_, line) in COMMANDS.items():
        assert TyperCommand(name, help=line).get_short_help_str(100) == commands[name].get_short_help_str(100), name


@pytest.mark.parametrize("columns", ["80", "100"])
def test_help_lists_every_command_in_groups(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    with pytest.raises(SystemExit):
        get_command(app)(["--help"])
    shown = capsys.readouterr().out.splitlines()
    for heading, group in COMMAND_GROUPS.items():
        at = shown.index(f"{heading}:")
        lines = shown[at + 1 : at + 1 + len(group)]
        for (name, (_, text)), line in zip(group.items(), lines, strict=True):
            assert line.split(maxsplit=1) == [name, text]


def test_help_imports_no_command_dependencies() -> None:
    heavy = {"factmill.flows.benchmarks", "factmill.flows.commands.build", "openai", "duckdb", "prefect"}
    program = f"import sys; from factmill.flows.cli.main import app; app(['--help'], standalone_mode=False); print({heavy} & sys.modules.keys())"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "  doctor " in ran.stdout
    assert ran.stdout.endswith("set()\n")


def test_version_line_shows_python_version_and_checkout_commit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        get_command(app)(["--version"])
    commit = ", commit [0-9a-f]{12}(-dirty)?" if (ROOT / ".git").exists() else ""
    assert re.fullmatch(rf"factmill \d+\.\d+\.\d+ \(Python 3\.\d+\.\d+{commit}\)\n", capsys.readouterr().out)
    assert find_commit(tmp_path) == ""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("factmill eva", ["evaluate"]),
        ("factmill --vers", ["--version"]),
        ("factmill build gran", ["granola"]),
        ("factmill build granola --relati", ["--relations", "--relation-file"]),
        ("factmill world rep", ["replies"]),
    ],
)
def test_completion_covers_lazily_imported_commands_and_options(
    line: str, found: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_FACTMILL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    with pytest.raises(SystemExit):
        get_command(app).main([], prog_name="factmill")
    assert capsys.readouterr().out.split() == found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_show_completion_prints_shell_script(
    shell: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: shell)
    with pytest.raises(SystemExit):
        get_command(app).main(["--show-completion"], prog_name="factmill")
    assert "_FACTMILL_COMPLETE" in capsys.readouterr().out
