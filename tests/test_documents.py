"""What the documents say exists."""

import re
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
import typer
import yaml
from mkdocs.commands.build import build
from mkdocs.config import load_config
from support.docs.documents import DOCUMENTS, OWN, list_blocks, list_examples

from factmill.flows.cli.main import app
from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.settings import load_world

ALL = (*DOCUMENTS, "CONTRIBUTING.md", "data/world/README.md")
OTHERS = ("factmill", ".", "cp", "dask", "export", "prefect", "python", "inspect", "litellm", "lm_eval", "vllm")


def commands() -> dict[str, set[str]]:
    """Return command → its options, sub-commands as `graph load`."""
    group = typer.main.get_command(app)
    found: dict[str, set[str]] = {}
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        subs = getattr(command, "commands", None)
        for path, leaf in {f"{name} {sub}": c for sub, c in subs.items()}.items() if subs else [(name, command)]:
            found[path] = {
                option for parameter in leaf.params for option in (*parameter.opts, *parameter.secondary_opts)
            }
    return found


@pytest.mark.parametrize("document", ALL)
def test_documents_name_only_commands_and_options_that_exist(document: str) -> None:
    known = commands()
    text = (ASSETS_ROOT / document).read_text()
    for line in re.findall(r"factmill ((?:graph |world |build |models )?[a-z]+[^`\n#&|]*)", text):
        if OWN in line.split():
            continue
        name = next((command for command in known if line == command or line.startswith(f"{command} ")), None)
        if name is None and re.match(
            r"(graph |world |models )?(build|show|explain|verify|export|load|serve|doctor|prepare|list|check|remove|paths|add)",
            line,
        ):
            pytest.fail(f"{document} names an unknown command: factmill {line}")
        if name:
            unknown = set(re.findall(r"(?<!\S)--[a-z-]+", line)) - known[name]
            assert not unknown, f"factmill {line}"


@pytest.mark.parametrize("document", ALL)
def test_links_and_paths_in_documents_lead_somewhere(document: str) -> None:
    text = (ASSETS_ROOT / document).read_text()
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        if re.fullmatch(r"\.\./reference/[a-z_]+\.md", target):
            continue  # made when the site is, which checks links to it
        assert (ASSETS_ROOT / document).parent.joinpath(target).exists(), target


def test_the_site_is_built_and_every_link_of_it_leads_somewhere(tmp_path: Path) -> None:
    build(load_config(str(ASSETS_ROOT / "mkdocs.yml"), site_dir=str(tmp_path)))
    commands_page = (tmp_path / "reference" / "commands.html").read_text("utf-8")
    assert all(f"factmill {name}" in commands_page for name in commands())
    assert "granola_answers" in (tmp_path / "reference" / "tables.html").read_text("utf-8")
    assert "max_age" in (tmp_path / "reference" / "worlds.html").read_text("utf-8")
    pages = [page.read_text("utf-8") for page in tmp_path.rglob("*.html")]
    assert not [
        found for page in pages for found in re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]*)', page)
    ]


def test_every_world_of_the_documents_loads(tmp_path: Path) -> None:
    worlds = list_blocks("docs/rebuild/worlds.md", "toml")
    assert len(worlds) == 6
    (from_file,) = [world for world in worlds if 'engine = "zim"' in world]
    (tmp_path / "file.toml").write_text(from_file)
    load_world(str(tmp_path / "file.toml")).require_services("wikipedia")
    worlds.remove(from_file)
    worlds += list_blocks("docs/rebuild/providers.md", "toml")
    for number, world in enumerate(worlds):
        (tmp_path / f"{number}.toml").write_text(world)
        load_world(str(tmp_path / f"{number}.toml")).require_services("wikipedia", "pageviews")


def test_every_command_has_help_and_the_main_ones_an_example() -> None:
    group = typer.main.get_command(app)
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        assert command.help, name
    examples = {f"build {name}": leaf for name, leaf in group.commands["build"].commands.items()}  # type: ignore[attr-defined]
    examples |= {name: group.commands[name] for name in ("show", "explain", "verify", "export", "paths")}  # type: ignore[attr-defined]
    for name, command in examples.items():
        assert "Example" in command.help, name


def test_what_is_not_run_is_there() -> None:
    targets = re.findall(r"^([a-z-]+):", (ASSETS_ROOT / "Makefile").read_text(), re.MULTILINE)
    project = tomllib.loads((ASSETS_ROOT / "pyproject.toml").read_text())["project"]
    compose = yaml.safe_load((ASSETS_ROOT / "docker-compose.yml").read_text())["services"]
    profiles = {profile for service in compose.values() for profile in service.get("profiles", ())}
    for document in DOCUMENTS:
        for words in (example.words for example in list_examples(document)):
            if words[0] == "make":
                assert set(words[1:]) <= set(targets), words
            elif words[:2] == ["docker", "compose"]:
                assert {after for before, after in pairwise(words) if before == "--profile"} <= profiles, words
            elif OWN in words:
                assert words[0] in ("factmill", "pip", "pytest"), words
            elif words[:2] == ["pip", "install"]:
                extra = re.fullmatch(r"factmill\[(\w+)\]", words[2])
                assert extra and extra[1] in project["optional-dependencies"], words
            else:
                assert words[0] in OTHERS, words
