"""Test that commands, options and files in the documents exist."""

import ast
import json
import re
import tomllib
from fnmatch import fnmatchcase
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from mkdocs.commands.build import build
from mkdocs.config import load_config
from support.docs.documents import DOCUMENTS, OWN, list_blocks, list_examples
from support.docs.driven_chromium import DrivenChromium

from factmill.flows.benchmarks import BENCHMARKS
from factmill.flows.cli.main import app
from factmill.flows.evaluate.evaluations import list_evaluations_and_analyses
from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.engine.benchmark import load_named_object
from factmill.tasks.engine.failures import FAILURE_CAUSES
from factmill.tasks.errors import FactmillError
from factmill.tasks.evaluation.definition import Evaluation
from factmill.tasks.settings import load_world

ALL = (*DOCUMENTS, "CONTRIBUTING.md", "data/world/README.md")
OTHERS = ("factmill", ".", "cp", "dask", "export", "git", "prefect", "python", "inspect", "litellm", "lm_eval", "vllm")

SEARCHED = {
    "back up": "help/backup.html",
    "upgrade": "help/backup.html",
    "delete old builds": "help/backup.html",
    "upgrade to a new version": "help/backup.html",
    "new version": "help/backup.html",
    "proxy": "help/faq.html",
    "behind a firewall": "help/faq.html",
    "certificate": "help/faq.html",
    "throttling": "help/faq.html",
    "wikimedia limits": "help/faq.html",
    "wikimedia rate limit": "help/faq.html",
    "gpu": "help/faq.html",
    "own questions": "help/faq.html",
    "own judge prompt": "help/faq.html",
    "epoch": "explain/replay.html",
    "cite": "help/cite.html",
}
"""Words that a reader searches → a page with a section that has them all."""


def commands() -> dict[str, set[str]]:
    """Return command → its options; sub-commands as `graph load`, before a group that is a command too."""
    group = typer.main.get_command(app)
    found: dict[str, set[str]] = {}
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        subs = getattr(command, "commands", None)
        leaves = {f"{name} {sub}": leaf for sub, leaf in subs.items()} if subs else {}
        leaves |= {name: command} if not subs or command.invoke_without_command else {}
        for path, leaf in leaves.items():
            found[path] = {
                option for parameter in leaf.params for option in (*parameter.opts, *parameter.secondary_opts)
            }
    return found


@pytest.mark.parametrize("document", ALL)
def test_documents_name_only_existing_commands_and_options(document: str) -> None:
    known = commands()
    text = (ASSETS_ROOT / document).read_text()
    for line in re.findall(r"factmill ((?:graph |world |build |models )?[a-z]+[^`\n#&|]*)", text):
        if OWN in line.split():
            continue
        name = next((command for command in known if f"{line} ".startswith(f"{command} ")), None)
        if name is None and re.match(
            r"(graph |world |models )?(build|show|explain|verify|export|load|serve|doctor|list|check|remove|paths|add)",
            line,
        ):
            pytest.fail(f"{document} names an unknown command: factmill {line}")
        if name:
            unknown = set(re.findall(r"(?<!\S)--[a-z-]+", line)) - known[name]
            assert not unknown, f"factmill {line}"


@pytest.mark.parametrize("document", ALL)
def test_links_and_paths_in_documents_resolve(document: str) -> None:
    text = (ASSETS_ROOT / document).read_text()
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        if re.fullmatch(r"(?:\.\./)?reference/[a-z_]+\.md", target):
            continue  # the site's build makes this page, and checks links to it
        assert (ASSETS_ROOT / document).parent.joinpath(target).exists(), target


def test_site_builds_and_every_link_resolves(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    build(load_config(str(ASSETS_ROOT / "mkdocs.yml"), site_dir=str(tmp_path)))
    commands_page = (tmp_path / "reference" / "commands.html").read_text("utf-8")
    assert all(f"factmill {name}" in commands_page for name in commands())
    assert "granola_answers" in (tmp_path / "reference" / "tables.html").read_text("utf-8")
    assert "max_age" in (tmp_path / "reference" / "worlds.html").read_text("utf-8")
    index = json.loads((tmp_path / "search" / "search_index.json").read_text("utf-8"))["docs"]
    for words, page in SEARCHED.items():
        found = {
            each["location"].split("#")[0]
            for each in index
            if all(word in f"{each['title']} {each['text']}".casefold() for word in words.split())
        }
        assert page in found, (words, found)
    browser = DrivenChromium(tmp_path_factory.mktemp("browser"))
    try:
        for theme, page in (
            ("light", "index"),
            ("dark", "help/faq"),
            ("light", "measure/evaluate"),
            ("dark", "tutorial"),
            ("dark", "rebuild/granola"),
        ):
            browser.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
            browser.open(f"file://{tmp_path}/{page}.html")
            assert browser.list_axe_findings() == [], page
    finally:
        browser.kill()
    pages = [page.read_text("utf-8") for page in tmp_path.rglob("*.html")]
    assert not [
        found for page in pages for found in re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]*)', page)
    ]


def test_every_world_in_documents_loads(tmp_path: Path) -> None:
    worlds = list_blocks("docs/rebuild/worlds.md", "toml")
    assert len(worlds) == 6
    (from_file,) = [world for world in worlds if 'engine = "zim"' in world]
    (tmp_path / "file.toml").write_text(from_file)
    load_world(str(tmp_path / "file.toml")).require_services("wikipedia")
    worlds.remove(from_file)
    worlds += list_blocks("docs/rebuild/providers.md", "toml")
    (shortest,) = list_blocks("README.md", "toml")
    assert len(shortest.splitlines()) == 10
    worlds.append(shortest)
    for number, world in enumerate(worlds):
        (tmp_path / f"{number}.toml").write_text(world)
        load_world(str(tmp_path / f"{number}.toml")).require_services("wikipedia", "pageviews")


def test_every_command_has_help_and_main_ones_have_example() -> None:
    group = typer.main.get_command(app)
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        assert command.help, name
    examples = {f"build {name}": leaf for name, leaf in group.commands["build"].commands.items()}  # type: ignore[attr-defined]
    examples |= {name: group.commands[name] for name in ("show", "explain", "verify", "export", "paths")}  # type: ignore[attr-defined]
    for name, command in examples.items():
        assert "Example" in command.help, name


def test_documented_commands_that_tests_do_not_run_exist() -> None:
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


def test_every_printed_or_paper_metric_has_documented_formula() -> None:
    described = tomllib.loads((ASSETS_ROOT / "docs" / "metrics.toml").read_text("utf-8"))
    for name, evaluation in list_evaluations_and_analyses().items():
        if isinstance(evaluation, Evaluation):
            formulas = described[name.removesuffix("_evaluation")]
            metrics = {*evaluation.headline_metrics, *(result.metric for result in evaluation.paper_results)}
            assert {each for each in metrics if not any(fnmatchcase(each, pattern) for pattern in formulas)} == set()


def test_every_reason_written_by_code_is_documented() -> None:
    described = tomllib.loads((ASSETS_ROOT / "docs" / "reasons.toml").read_text("utf-8"))
    reasons = set(FAILURE_CAUSES)
    for path in (ASSETS_ROOT / "tasks").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                place = {"Reject": 1, "ReasonForNoQuestion": 0, "QuestionAnswerPairProblem": 0}.get(
                    node.func.id, len(node.args)
                )
                reasons |= {each.value for each in node.args[place : place + 1] if isinstance(each, ast.Constant)}
    assert len(reasons) > 50
    assert reasons - {reason for known in described.values() for reason in known} == set()


def test_troubleshooting_page_names_only_existing_codes_and_most_of_them() -> None:
    text = (ASSETS_ROOT / "docs" / "help" / "troubleshooting.md").read_text("utf-8")
    named = set(re.findall(r"`\[([a-z-]+)\]`", text))
    pending, codes = [FactmillError], set()
    while pending:
        codes.add(pending[-1].code)
        pending += pending.pop().__subclasses__()
    assert len(named) > 15 and named <= codes, named - codes


def test_citation_names_papers_of_every_benchmark() -> None:
    citation = yaml.safe_load((ASSETS_ROOT / "CITATION.cff").read_text("utf-8"))
    page = (ASSETS_ROOT / "docs" / "help" / "cite.md").read_text("utf-8")
    project = tomllib.loads((ASSETS_ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
    papers = [load_named_object(benchmark.release).paper for benchmark in BENCHMARKS.values() if benchmark.release]
    assert len(papers) == 5
    for paper in papers:
        (entry,) = [each for each in citation["references"] if each["url"] == paper.url]
        assert (entry["title"], entry["year"]) == (paper.title, paper.year)
        assert [(each["given-names"], each["family-names"]) for each in entry["authors"]] == list(paper.authors)
        assert paper.title in page and paper.url in page


def test_pictures_match_script_output_and_are_small() -> None:
    script = load_pictures_script()
    for theme in script.COLOURS:
        assert (script.FOLDER / f"stages-{theme}.svg").read_text("utf-8") == script.draw_diagram(theme)
        narrow = (script.FOLDER / f"stages-narrow-{theme}.svg").read_text("utf-8")
        assert narrow == script.draw_narrow_diagram(theme)
    for name in ("report", "prefect-run", "prefect-runs", "prefect-table", "prefect-figures"):
        picture = (script.FOLDER / f"{name}.png").read_bytes()
        assert picture.startswith(b"\x89PNG") and 10_000 < len(picture) <= script.MAX_BYTES, name


def load_pictures_script() -> Any:
    spec = spec_from_file_location("pictures", ASSETS_ROOT / "docs" / "pictures.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
