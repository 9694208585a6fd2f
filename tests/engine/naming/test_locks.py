"""What makes two builds the same: each input changes the lock, and nothing else does."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tasks import assets
from tasks.core.fingerprints import digest_bytes, digest_json
from tasks.engine.benchmark import Assets, Benchmark, Inputs, Locked
from tasks.engine.naming.import_closure import close_over_imports, digest_closure
from tasks.engine.naming.locks import code_digest, make_lock
from tasks.engine.naming.own_code import read_code
from tasks.errors import BuildError
from tasks.granola.benchmark import GRANOLA
from tasks.options import Params, RunOptions
from tasks.slaq.benchmark import SLAQ
from tasks.storage.source_files import SourceFile

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


class ToyParams(Params):
    limit: int | None = 3
    relations: tuple[str, ...] = ("P19", "P20")
    path: str = "/here"


class ToyInputs(Inputs):
    resolved: ClassVar = frozenset({"path"})
    params: ToyParams
    first: str = "20230101"


def source(name: str, letter: str = "a", folder: str = "/here") -> SourceFile:
    return SourceFile(path=Path(folder) / name, name=name, sha256=letter * 64)


FILES = {"P19": [source("P19.json")], "P20": [source("P20.json", "b")]}
ASSETS = Assets(prompts=("toy/ask",), lists=("words.txt",), queries=("toy/find",))
INPUTS: Locked[Inputs] = Locked(ToyInputs(params=ToyParams()), FILES)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Put a prompt, a list and a query of the test's own in place of ours, and a world file beside them."""
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
    monkeypatch.setattr(assets, "ROOT", root)
    assets.load_prompt.cache_clear()
    yield root
    assets.load_prompt.cache_clear()


def lock_of(
    root: Path, inputs: Locked[Inputs] = INPUTS, used: Assets = ASSETS, benchmark: Benchmark = GRANOLA
) -> dict[str, Any]:
    assets.load_prompt.cache_clear()
    return make_lock(replace(benchmark, assets=used), inputs, RunOptions(world=str(root / "world.toml")))


def test_a_lock_names_every_input_by_its_content(root: Path) -> None:
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
    assert named == ("granola", code_digest("flows.granola"), "2024-01-01")
    assert lock["services"]["wikidata"] == "http://a/sparql"


@pytest.mark.parametrize(
    "inputs",
    [
        Locked(ToyInputs(params=ToyParams(limit=4)), FILES),
        Locked(ToyInputs(params=ToyParams(limit=None)), FILES),
        Locked(ToyInputs(params=ToyParams(relations=("P20", "P19"))), FILES),
        Locked(ToyInputs(params=ToyParams(), first="20230102"), FILES),
        Locked(ToyInputs(params=ToyParams()), {**FILES, "P20": [source("P20.json", "c")]}),
        Locked(ToyInputs(params=ToyParams()), {"P19": FILES["P19"]}),
        Locked(ToyInputs(params=ToyParams()), FILES, wikidata="a graph"),
    ],
    ids=range(7),
)
def test_another_input_makes_another_lock(root: Path, inputs: Locked[Inputs]) -> None:
    assert lock_of(root, inputs) != lock_of(root)


@pytest.mark.parametrize(
    "change",
    [
        {"prompts": ("toy/ask", "toy/tell")},
        {"prompts": ("toy/tell",)},
        {"lists": ()},
        {"lists": ("more.txt",)},
        {"queries": ()},
        {"queries": ("toy/list",)},
    ],
    ids=str,
)
def test_another_prompt_list_or_query_makes_another_lock(root: Path, change: dict[str, Any]) -> None:
    assert lock_of(root, used=replace(ASSETS, **change)) != lock_of(root)


@pytest.mark.parametrize("name", ["prompts/toy/ask.md", "data/lists/words.txt", "sparql/toy/find.rq"])
def test_a_changed_file_makes_another_lock(root: Path, name: str) -> None:
    before = lock_of(root)
    (root / name).write_text((root / name).read_text() + "more\n")
    assert lock_of(root) != before


@pytest.mark.parametrize("name", ["prompts/toy/tell.md", "data/lists/more.txt", "sparql/toy/list.rq"])
def test_a_file_that_the_build_does_not_use_does_not_count(root: Path, name: str) -> None:
    before = lock_of(root)
    (root / name).write_text((root / name).read_text() + "more\n")
    assert lock_of(root) == before


def test_neither_the_order_of_units_nor_the_place_of_files_counts(root: Path) -> None:
    moved = {unit: [source(f"{unit}.json", letter, "/elsewhere")] for unit, letter in (("P20", "b"), ("P19", "a"))}
    turned: Locked[Inputs] = Locked(ToyInputs(params=ToyParams(path="/elsewhere")), moved)
    assert digest_json(lock_of(root, turned)) == digest_json(lock_of(root))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("epoch = 2024-01-01", "epoch = 2024-01-02"),
        ("http://a/sparql", "http://z/sparql"),
        ('name = "m"', 'name = "other"'),
        ('kind = "openai"\nname = "m"', 'kind = "scripted"'),
    ],
)
def test_another_world_makes_another_lock(root: Path, old: str, new: str) -> None:
    before = lock_of(root)
    (root / "world.toml").write_text(WORLD.replace(old, new))
    assert lock_of(root) != before


def test_who_asks_and_how_fast_does_not_count(root: Path) -> None:
    before = lock_of(root)
    (root / "world.toml").write_text(
        WORLD.replace('"me"', '"someone else"').replace('"http://b"', '"http://b", limits = { parallel = 1 }')
    )
    assert lock_of(root) == before


def test_benchmarks_of_the_same_inputs_have_locks_of_their_own(root: Path) -> None:
    assert lock_of(root, benchmark=SLAQ) != lock_of(root)


def changes_granola(module: str) -> bool:
    changed = {**read_code(), module: read_code()[module] + "\nLATER = True\n"}
    return digest_closure(["flows.granola"], changed)[:16] != code_digest("flows.granola")


@pytest.mark.parametrize(
    "module",
    [
        "flows.granola",
        "tasks.granola.generate",
        "tasks.core.authoring.granularity",
        "tasks.engine.building",
        "tasks.granola.kinds",
    ],
)
def test_changed_code_that_a_recipe_rests_on_changes_its_lock(module: str) -> None:
    assert changes_granola(module)


@pytest.mark.parametrize(
    "module",
    [
        "flows.cli.main",
        "flows.cli.build",
        "flows.commands.show",
        "flows.commands.doctor",
        "flows.slaq",
        "tasks.slaq.questions",
    ],
)
def test_help_texts_and_the_steps_of_other_benchmarks_leave_its_lock_as_it_is(module: str) -> None:
    assert not changes_granola(module)


@pytest.mark.parametrize("name", RECIPES)
def test_no_recipe_rests_on_the_command_or_on_another_recipe(name: str) -> None:
    modules = close_over_imports([f"flows.{name}"], read_code())
    assert [module for module in modules if module.startswith("flows.cli.main")] == []
    assert [recipe for recipe in RECIPES if f"flows.{recipe}" in modules] == [name]


def test_a_benchmark_without_a_recipe_has_no_digest() -> None:
    with pytest.raises(BuildError, match=r"no module flows\.cake"):
        code_digest("flows.cake")
