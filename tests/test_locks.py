"""What makes two builds the same: each input changes the lock, and nothing else does."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tasks import assets
from tasks.core.fingerprints import digest_bytes, digest_json
from tasks.core.import_closure import close_over_imports, digest_closure
from tasks.errors import BuildError
from tasks.locks import Inputs, code_digest, make_lock
from tasks.own_code import read_code

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
INPUTS = Inputs(
    params={"limit": 3, "relations": ["P19", "P20"]},
    sources={"P19.json": "a" * 64, "P20.json": "b" * 64},
    prompts=["toy/ask"],
    lists=["words.txt"],
    queries=["toy/find"],
    origin={"files": {"P19.json": "/here"}},
)


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


def lock_of(root: Path, inputs: Inputs = INPUTS, benchmark: str = "granola") -> str:
    assets.load_prompt.cache_clear()
    return digest_json(make_lock(benchmark, str(root / "world.toml"), None, inputs))


def test_a_lock_names_every_input_by_its_content(root: Path) -> None:
    lock = make_lock("granola", str(root / "world.toml"), None, INPUTS)
    assert {name: lock[name] for name in ("params", "sources", "prompts", "lists", "queries", "models", "rules")} == {
        "params": {"limit": 3, "relations": ["P19", "P20"]},
        "sources": {"P19.json": "a" * 64, "P20.json": "b" * 64},
        "prompts": {"toy/ask": digest_bytes(PROMPT.encode())},
        "lists": {"words.txt": digest_bytes(b"one\n")},
        "queries": {"toy/find": digest_bytes(b"ASK {}")},
        "models": {"author": "m"},
        "rules": None,
    }
    assert (lock["benchmark"], lock["code"], lock["world"]["epoch"]) == (
        "granola",
        code_digest("granola"),
        "2024-01-01",
    )
    assert lock["services"]["wikidata"] == "http://a/sparql"


@pytest.mark.parametrize(
    "change",
    [
        {"params": {"limit": 4, "relations": ["P19", "P20"]}},
        {"params": {"limit": 3, "relations": ["P20", "P19"]}},
        {"params": {"limit": 3}},
        {"sources": {"P19.json": "a" * 64, "P20.json": "c" * 64}},
        {"sources": {"P19.json": "a" * 64}},
        {"prompts": ["toy/ask", "toy/tell"]},
        {"prompts": ["toy/tell"]},
        {"lists": []},
        {"lists": ["more.txt"]},
        {"queries": []},
        {"queries": ["toy/list"]},
    ],
    ids=str,
)
def test_another_input_makes_another_lock(root: Path, change: dict[str, object]) -> None:
    assert lock_of(root, replace(INPUTS, **change)) != lock_of(root)


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


def test_neither_the_order_of_names_nor_the_place_of_files_counts(root: Path) -> None:
    turned = Inputs(
        params=dict(reversed(INPUTS.params.items())),
        sources=dict(reversed(INPUTS.sources.items())),
        prompts=INPUTS.prompts,
        lists=INPUTS.lists,
        queries=INPUTS.queries,
        origin={"files": {"P19.json": "/elsewhere"}},
    )
    assert lock_of(root, turned) == lock_of(root)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("epoch = 2024-01-01", "epoch = 2024-01-02"),
        ("http://a/sparql", "http://z/sparql"),
        ('name = "m"', 'name = "other"'),
        ('kind = "openai"\nname = "m"', 'kind = "rules"\nname = "m"'),
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
    assert lock_of(root, benchmark="slaq") != lock_of(root, benchmark="granola")


def changes_granola(module: str) -> bool:
    changed = {**read_code(), module: read_code()[module] + "\nLATER = True\n"}
    return digest_closure(["flows.granola"], changed)[:16] != code_digest("granola")


@pytest.mark.parametrize(
    "module",
    ["flows.granola", "tasks.generate", "tasks.core.granularity", "tasks.building", "tasks.models.rules_levels"],
)
def test_changed_code_that_a_recipe_rests_on_changes_its_lock(module: str) -> None:
    assert changes_granola(module)


@pytest.mark.parametrize(
    "module", ["flows.cli", "flows.cli_build", "flows.showing", "flows.doctor", "flows.slaq", "tasks.questions"]
)
def test_help_texts_and_the_steps_of_other_benchmarks_leave_its_lock_as_it_is(module: str) -> None:
    assert not changes_granola(module)


@pytest.mark.parametrize("name", RECIPES)
def test_no_recipe_rests_on_the_command_or_on_another_recipe(name: str) -> None:
    modules = close_over_imports([f"flows.{name}"], read_code())
    assert [module for module in modules if module.startswith("flows.cli")] == []
    assert [recipe for recipe in RECIPES if f"flows.{recipe}" in modules] == [name]


def test_a_benchmark_without_a_recipe_has_no_digest() -> None:
    with pytest.raises(BuildError, match=r"no module flows\.cake"):
        code_digest("cake")
