"""What the documents say exists."""

import re
from pathlib import Path

import pytest
import typer

from flows.cli.main import app
from tasks.settings import load_world

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "data/world/README.md")


def commands() -> dict[str, set[str]]:
    """Return command → its options, sub-commands as `graph load`."""
    group = typer.main.get_command(app)
    found: dict[str, set[str]] = {}
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        subs = getattr(command, "commands", None)
        for path, leaf in {f"{name} {sub}": c for sub, c in subs.items()}.items() if subs else [(name, command)]:
            found[path] = {option for parameter in leaf.params for option in parameter.opts}
    return found


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_name_only_commands_and_options_that_exist(document: str) -> None:
    known = commands()
    text = (ROOT / document).read_text()
    for line in re.findall(r"factmill ((?:graph |world |build |models )?[a-z]+[^`\n#&|]*)", text):
        name = next((command for command in known if line == command or line.startswith(f"{command} ")), None)
        if name is None and re.match(
            r"(graph |world |models )?(build|show|explain|verify|export|load|serve|doctor|prepare|list|check|remove|paths|add)",
            line,
        ):
            pytest.fail(f"{document} names an unknown command: factmill {line}")
        if name:
            unknown = set(re.findall(r"(?<!\S)--[a-z-]+", line)) - known[name]
            assert not unknown, f"factmill {line}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_and_paths_in_documents_lead_somewhere(document: str) -> None:
    text = (ROOT / document).read_text()
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / document).parent.joinpath(target).exists(), target


def test_every_world_in_the_readme_loads(tmp_path: Path) -> None:
    worlds = re.findall(r"^```toml\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(worlds) == 4
    for number, world in enumerate(worlds):
        (tmp_path / f"{number}.toml").write_text(world)
        load_world(str(tmp_path / f"{number}.toml")).require("wikipedia", "pageviews")


def test_every_command_has_help_and_the_main_ones_an_example() -> None:
    group = typer.main.get_command(app)
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        assert command.help, name
    examples = {f"build {name}": leaf for name, leaf in group.commands["build"].commands.items()}  # type: ignore[attr-defined]
    examples |= {name: group.commands[name] for name in ("show", "explain", "verify", "export", "paths")}  # type: ignore[attr-defined]
    for name, command in examples.items():
        assert "Example" in command.help, name
