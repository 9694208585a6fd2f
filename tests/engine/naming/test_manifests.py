"""Test build manifests: each input changes the manifest's digest, and nothing else does."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from support.builds.changes import LOCK
from support.worlds.other_assets import assets_at, forget_assets

from factmill.tasks.biokalma.benchmark import BIOKALMA
from factmill.tasks.core.digests import digest_bytes, digest_json
from factmill.tasks.diff.core.manifest_changes import compare_manifests
from factmill.tasks.engine.benchmark import Benchmark, BenchmarkAssetNames, BuildInputs, BuildInputsAndSourceFiles
from factmill.tasks.engine.naming import code_versions
from factmill.tasks.engine.naming.code_versions import collect_import_closure, load_source_code, make_code_manifest
from factmill.tasks.engine.naming.manifests import make_build_manifest
from factmill.tasks.errors import BuildError
from factmill.tasks.granola.benchmark import GRANOLA
from factmill.tasks.options import BenchmarkParams, RunOptions
from factmill.tasks.slaq.evaluation.definition import SLAQ_EVALUATION
from factmill.tasks.storage.source_files import SourceFile

RECIPES = ["granola", "multihal", "biokalma", "slaq", "fanoutqa"]
WORLD = """
name = "mine"
user_agent = "me"
epoch = 2024-01-01
wikidata = { url = "http://a/sparql" }
wikipedia = { url = "http://b" }
pageviews = { url = "http://c" }
falcon = { url = "http://d" }
[models.author]
kind = "openai"
name = "m"
url = "http://e/v1"
"""
PROMPT = '+++\nrole = "author"\ninputs = ["name"]\n+++\n# user\n$name\n'


class ToyParams(BenchmarkParams):
    limit: int | None = 3
    relations: tuple[str, ...] = ("P19", "P20")
    path: str = "/here"


class ToyInputs(BuildInputs):
    resolved: ClassVar = frozenset({"path"})
    params: ToyParams
    first: str = "20230101"


def source(name: str, letter: str = "a", folder: str = "/here") -> SourceFile:
    return SourceFile(path=Path(folder) / name, name=name, sha256=letter * 64)


FILES = {"P19": [source("P19.json")], "P20": [source("P20.json", "b")]}
ASSETS = BenchmarkAssetNames(prompts=("toy/ask",), lists=("words.txt",), queries=("toy/find",))
INPUTS: BuildInputsAndSourceFiles[BuildInputs] = BuildInputsAndSourceFiles(ToyInputs(params=ToyParams()), FILES)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """Return a folder with the test's own prompt, list, query and world file in place of the project's."""
    root = tmp_path / "root"
    for name, text in {
        "prompts/toy/ask.md": PROMPT,
        "prompts/toy/tell.md": PROMPT,
        "data/lists/words.txt": "one\n",
        "data/lists/more.txt": "one\n",
        "sparql/toy/find.rq": "ASK {}",
        "sparql/toy/list.rq": "ASK {}",
        "world.toml": WORLD,
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    with assets_at(root):
        yield root


def lock_of(
    root: Path,
    inputs: BuildInputsAndSourceFiles[BuildInputs] = INPUTS,
    used: BenchmarkAssetNames = ASSETS,
    benchmark: Benchmark = GRANOLA,
) -> dict[str, Any]:
    forget_assets()
    return make_build_manifest(replace(benchmark, assets=used), inputs, RunOptions(world=str(root / "world.toml")))


def test_manifest_identifies_each_input_by_its_content(root: Path) -> None:
    lock = lock_of(root)
    assert {
        name: lock[name] for name in ("params", "sources", "prompts", "lists", "queries", "models", "scripted")
    } == {
        "params": {"params": {"limit": 3, "relations": ["P19", "P20"]}, "first": "20230101"},
        "sources": {"files": {"P19": [["P19.json", "a" * 64]], "P20": [["P20.json", "b" * 64]]}, "wikidata": None},
        "prompts": {"toy/ask": digest_bytes(PROMPT.encode())},
        "lists": {"words.txt": digest_bytes(b"one\n")},
        "queries": {"toy/find": digest_bytes(b"ASK {}")},
        "models": {"author": "m"},
        "scripted": None,
    }
    named = (lock["benchmark"], lock["code"], lock["world"]["epoch"])
    assert named == ("granola", make_code_manifest(GRANOLA.recipe), "2024-01-01")
    assert lock["services"]["wikidata"] == "http://a/sparql"


PLAIN = ToyInputs(params=ToyParams())


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": BuildInputsAndSourceFiles(ToyInputs(params=ToyParams(limit=4)), FILES)},
        {"inputs": BuildInputsAndSourceFiles(ToyInputs(params=ToyParams(limit=None)), FILES)},
        {"inputs": BuildInputsAndSourceFiles(ToyInputs(params=ToyParams(relations=("P20", "P19"))), FILES)},
        {"inputs": BuildInputsAndSourceFiles(ToyInputs(params=ToyParams(), first="20230102"), FILES)},
        {"inputs": BuildInputsAndSourceFiles(PLAIN, {**FILES, "P20": [source("P20.json", "c")]})},
        {"inputs": BuildInputsAndSourceFiles(PLAIN, {"P19": FILES["P19"]})},
        {"inputs": BuildInputsAndSourceFiles(PLAIN, FILES, wikidata_identity="a graph")},
        {"used": replace(ASSETS, prompts=("toy/ask", "toy/tell"))},
        {"used": replace(ASSETS, prompts=("toy/tell",))},
        {"used": replace(ASSETS, lists=())},
        {"used": replace(ASSETS, lists=("more.txt",))},
        {"used": replace(ASSETS, queries=())},
        {"used": replace(ASSETS, queries=("toy/list",))},
        {"benchmark": BIOKALMA},
    ],
    ids=range(14),
)
def test_changed_input_prompt_list_query_or_benchmark_changes_manifest(root: Path, change: dict[str, Any]) -> None:
    assert lock_of(root, **change) != lock_of(root)


USED = ("prompts/toy/ask.md", "data/lists/words.txt", "sparql/toy/find.rq")


@pytest.mark.parametrize("name", [*USED, "prompts/toy/tell.md", "data/lists/more.txt", "sparql/toy/list.rq"])
def test_changed_file_changes_manifest_only_if_build_uses_it(root: Path, name: str) -> None:
    before = lock_of(root)
    (root / name).write_text((root / name).read_text() + "more\n")
    assert (lock_of(root) != before) == (name in USED)


def test_unit_order_and_file_location_do_not_change_manifest(root: Path) -> None:
    moved = {unit: [source(f"{unit}.json", letter, "/elsewhere")] for unit, letter in (("P20", "b"), ("P19", "a"))}
    turned: BuildInputsAndSourceFiles[BuildInputs] = BuildInputsAndSourceFiles(
        ToyInputs(params=ToyParams(path="/elsewhere")), moved
    )
    assert digest_json(lock_of(root, turned)) == digest_json(lock_of(root))


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        ("epoch = 2024-01-01", "epoch = 2024-01-02", True),
        ("http://a/sparql", "http://z/sparql", True),
        ('name = "m"', 'name = "other"', True),
        ('kind = "openai"\nname = "m"', 'kind = "scripted"', True),
        ('"me"', '"someone else"', False),
        ('"http://b"', '"http://b", limits = { parallel = 1 }', False),
    ],
)
def test_changed_world_changes_manifest_except_user_agent_and_rate_limits(
    root: Path, old: str, new: str, counts: bool
) -> None:
    before = lock_of(root)
    (root / "world.toml").write_text(WORLD.replace(old, new))
    assert (lock_of(root) != before) == counts


def describe_changed(monkeypatch: pytest.MonkeyPatch, module: str, old: str, new: str) -> dict[str, Any]:
    """Return the code section of GRANOLA-EQ's manifest after the text of a module changes."""
    code = {**load_source_code()}
    assert code[module].count(old) == 1
    code[module] = code[module].replace(old, new)
    monkeypatch.setattr(code_versions, "load_source_code", lambda _packages=(): code)
    code_versions.collect_recipe_code.cache_clear()
    try:
        return make_code_manifest(GRANOLA.recipe)
    finally:
        code_versions.collect_recipe_code.cache_clear()


@pytest.mark.parametrize(
    ("module", "old", "new", "named"),
    [
        (
            "factmill.flows.granola",
            "    link_question_entities,",
            "    link_question_entities,  link_question_entities,",
            "granola",
        ),
        ("factmill.flows.granola", "locked.inputs.limits", "list(locked.inputs.limits)", "granola"),
        (
            "factmill.tasks.granola.params",
            "from_wikidata=from_wikidata",
            "from_wikidata=not from_wikidata",
            "resolve_granola_inputs",
        ),
        ("factmill.flows.recipes", "for each in steps:", "for each in steps[1:]:", "make_recipe"),
        ("factmill.flows.recipes", "most_rows: int | None = None", "most_rows: int | None = 9", "Stage"),
        ("factmill.tasks.granola.answer_levels", "_EVIDENCE_HOPS = ", "_EVIDENCE_HOPS = 1 + ", "_EVIDENCE_HOPS"),
        ("factmill.tasks.core.authoring.granular_answers", "MAX_LEVELS = ", "MAX_LEVELS = 1 + ", "MAX_LEVELS"),
        (
            "factmill.tasks.text.text_normalization",
            "def normalize_answer(text: str)",
            'def normalize_answer(text: str = "")',
            "normalize_answer",
        ),
        # the code with which the engine reads every reply
        (
            "factmill.tasks.text.reply_wrappers",
            "JSON5_MAX_CHARACTERS = ",
            "JSON5_MAX_CHARACTERS = 1 + ",
            "JSON5_MAX_CHARACTERS",
        ),
    ],
)
def test_changed_code_that_determines_rows_is_named_in_manifest(
    monkeypatch: pytest.MonkeyPatch, module: str, old: str, new: str, named: str
) -> None:
    before, after = make_code_manifest(GRANOLA.recipe), describe_changed(monkeypatch, module, old, new)
    changed = compare_manifests(*({**LOCK, "code": code} for code in (before, after))).changes
    assert [each.cause.label for each in changed] == [f"code: {module}:{named}"]


@pytest.mark.parametrize(
    "module",
    [
        "factmill.flows.cli.main",
        "factmill.flows.commands.builds",
        "factmill.flows.slaq",
        "factmill.tasks.slaq.questions",
        "factmill.tasks.granola.benchmark",
        "factmill.tasks.granola.release",
        "factmill.tasks.engine.building",
        "factmill.tasks.storage.builds",
        "factmill.tasks.core.service_settings",
        "factmill.tasks.granola.answer_levels",
    ],
)
def test_docstrings_and_comments_do_not_change_manifest(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    first = load_source_code()[module].partition("\n")[0]
    described = describe_changed(monkeypatch, module, first, f'"""Other words. {first.removeprefix(chr(34) * 3)}')
    assert described == make_code_manifest(GRANOLA.recipe)
    after = describe_changed(monkeypatch, module, first, f"# a comment\n\n{first}")
    assert after == make_code_manifest(GRANOLA.recipe)


def test_raised_package_version_is_named_in_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    before = make_code_manifest(GRANOLA.recipe)
    monkeypatch.setitem(
        code_versions.PACKAGE_VERSIONS,
        "engine",
        code_versions.PackageBehaviourVersion(before["rooms"]["engine"] + 1, "rows are sorted otherwise"),
    )
    after = make_code_manifest(GRANOLA.recipe)
    (change,) = compare_manifests(*({**LOCK, "code": code} for code in (before, after))).changes
    assert (change.cause.label, change.cause.change_description) == ("code: engine", "1 → 2")


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_depends_on_neither_command_line_nor_another_recipe(name: str) -> None:
    modules = collect_import_closure([f"factmill.flows.{name}"], load_source_code())
    assert [module for module in modules if module.startswith("factmill.flows.cli.main")] == []
    assert [recipe for recipe in RECIPES if f"factmill.flows.{recipe}" in modules] == [name]


def test_evaluation_code_manifest_covers_shared_flow_and_own_definitions() -> None:
    definitions = make_code_manifest(SLAQ_EVALUATION.recipe)["definitions"]
    assert {"make_evaluation_flow", "make_judging_step"} <= definitions["factmill.tasks.evaluation.steps"].keys()
    assert "ask_tested_model" in definitions["factmill.tasks.evaluation.answering_and_judging"]
    assert "make_scored_slaq_prediction" in definitions["factmill.tasks.slaq.evaluation.definition"]


def test_benchmark_without_recipe_has_no_code_manifest() -> None:
    with pytest.raises(BuildError, match=r"no .*factmill\.flows\.cake:cake"):
        make_code_manifest("factmill.flows.cake:cake")
