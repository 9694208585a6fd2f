"""What services, and the rules author, are known by."""

import subprocess
import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import pytest
from support.graphs.rdf_lines import spell_out

from tasks.assets import ROOT
from tasks.core.service_settings import Endpoint, Model, Wikidata
from tasks.engine.naming.identities import (
    RULES,
    check_graph_languages,
    digest_rules,
    has_translator,
    identify_service,
    rules_identity,
    service_identities,
    service_urls,
    wikidata_identity,
    world_identity,
)
from tasks.engine.naming.own_code import read_code
from tasks.errors import UsageError
from tasks.graph.load import load_graph
from tasks.graph.lookup import open_graph
from tasks.settings import World, graphs_folder
from tasks.world.data import digest_world

LISTS = {
    path.name: path.read_bytes() for folder in ("lists", "world/replies") for path in (ROOT / "data" / folder).iterdir()
}
RULES_MODEL = Model(kind="rules", name="rules-1")


def make_world(wikidata: Wikidata) -> World:
    return World(
        name="mine",
        user_agent="me",
        epoch=date(2024, 1, 1),
        wikidata=wikidata,
        wikipedia=Endpoint(url="https://wikipedia.example/w"),
        pageviews=Endpoint(url="embedded"),
        falcon=Endpoint(url="https://falcon.example"),
        dbpedia=Endpoint(url="https://dbpedia.example"),
        models={"author": RULES_MODEL},
    )


EMBEDDED = make_world(Wikidata(url="embedded"))
WEB = make_world(Wikidata(url="https://wikidata.example/sparql"))
GRAPH = make_world(Wikidata(engine="graph", graph="small"))


@pytest.fixture
def graph(own_home: Path, tmp_path: Path) -> str:
    """Load a small graph in English and return its identity."""
    source = tmp_path / "small.nt"
    source.write_text(spell_out('wd:Q1 wdt:P31 wd:Q2\nwd:Q1 rdfs:label "one"@en'))
    load_graph([source], "small", graphs_folder(own_home))
    with open_graph("small", graphs_folder(own_home)) as opened:
        return opened.identity


def test_the_embedded_world_is_named_by_its_files() -> None:
    assert world_identity() == f"embedded-{digest_world()[:16]}"


def test_a_wikidata_is_named_by_the_world_its_address_or_its_triples(own_home: Path, graph: str) -> None:
    assert wikidata_identity(EMBEDDED, own_home) == f"{world_identity()}/wikidata"
    assert wikidata_identity(WEB, own_home) == "https://wikidata.example/sparql"
    assert wikidata_identity(GRAPH, own_home) == graph


def test_a_service_is_named_by_its_address_or_by_the_embedded_world() -> None:
    assert identify_service("falcon", "https://falcon.example") == "https://falcon.example"
    assert identify_service("falcon", "embedded") == f"{world_identity()}/falcon"


def test_every_service_of_a_world_has_an_address_and_an_identity(own_home: Path, graph: str) -> None:
    assert service_urls(WEB) == {
        "wikidata": "https://wikidata.example/sparql",
        "wikipedia": "https://wikipedia.example/w",
        "pageviews": "embedded",
        "falcon": "https://falcon.example",
        "dbpedia": "https://dbpedia.example",
    }
    of_web = {**service_urls(WEB), "pageviews": f"{world_identity()}/pageviews"}
    assert service_identities(WEB, own_home) == of_web
    assert service_identities(GRAPH, own_home) == {**of_web, "wikidata": graph}


def test_a_graph_without_labels_in_a_language_is_told_before_the_build(own_home: Path, graph: str) -> None:
    check_graph_languages(GRAPH, own_home, ["en"])
    check_graph_languages(WEB, own_home, ["en", "de"])
    with pytest.raises(UsageError, match="not in de: load it again with --language en --language de"):
        check_graph_languages(GRAPH, own_home, ["en", "de"])


def test_a_world_has_a_translator_when_it_names_one() -> None:
    translator = Model(kind="local", name="small")
    assert not has_translator(WEB)
    assert has_translator(WEB.model_copy(update={"models": {"author": RULES_MODEL, "translator": translator}}))


def test_the_rules_author_is_named_by_its_code_and_the_graph_it_reads(own_home: Path, graph: str) -> None:
    code = digest_rules(read_code(), LISTS)[:8]
    assert rules_identity(EMBEDDED, own_home) == f"rules-1.{code}@{world_identity()}/wikidata"
    assert rules_identity(GRAPH, own_home) == f"rules-1.{code}@{graph}"


def changes_rules(code: Mapping[str, str] | None = None, lists: Mapping[str, bytes] | None = None) -> bool:
    """True when the author is another one with these modules and lists in place of ours."""
    before = digest_rules(read_code(), LISTS)
    return digest_rules({**read_code(), **(code or {})}, {**LISTS, **(lists or {})}) != before


@pytest.mark.parametrize(
    "module",
    [
        RULES,
        "tasks.core.authoring.fanout_wording",
        "tasks.text.sentences",
        "tasks.rules.levels.answers",
        "tasks.assets",
    ],
)
def test_a_changed_module_that_the_rules_rest_on_makes_another_author(module: str) -> None:
    assert changes_rules({module: read_code()[module] + "\nLATER = True\n"})


@pytest.mark.parametrize(
    "module", ["flows.cli.main", "flows.granola", "tasks.engine.building", "tasks.slaq.questions", "tasks.clients.chat"]
)
def test_a_changed_module_that_they_do_not_rest_on_does_not(module: str) -> None:
    assert not changes_rules({module: read_code()[module] + "\nLATER = True\n"})


def test_a_module_that_the_rules_come_to_import_counts_from_then_on() -> None:
    rules = read_code()[RULES] + "\n\ndef later():\n    from tasks.multihal.core.refusals import read_refusals\n"
    refusals = read_code()["tasks.multihal.core.refusals"]
    one, other = (
        digest_rules({**read_code(), RULES: rules, "tasks.multihal.core.refusals": text}, LISTS)
        for text in (refusals, refusals + "\n")
    )
    assert one != other


@pytest.mark.parametrize("name", ["kinds.csv", "units.csv", "granola_relations.csv", "function_words.txt", "slaq.toml"])
def test_a_changed_list_that_the_rules_name_makes_another_author(name: str) -> None:
    assert changes_rules(lists={name: LISTS[name] + b"\n"})


def test_a_list_that_they_do_not_name_does_not_count() -> None:
    assert not changes_rules(lists={"slaq_categories.txt": b"", "new.csv": b""})


READ_ALL = f"""
import inspect, sys
opened = set()
sys.addaudithook(lambda event, args: opened.add(str(args[0])) if event == "open" else None)
import {RULES}
for module in [module for name, module in sys.modules.items() if name.startswith("tasks.")]:
    for load in vars(module).values():
        if hasattr(load, "cache_info") and not inspect.signature(load).parameters:
            load()
print(*(path.rpartition("/")[2] for path in opened if "/data/lists/" in path or "/data/world/replies/" in path))
"""


def test_every_list_that_the_rules_open_is_part_of_their_identity() -> None:
    done = subprocess.run([sys.executable, "-c", READ_ALL], capture_output=True, text=True, check=True)
    opened = done.stdout.split()
    assert {"kinds.csv", "units.csv", "slaq.toml"} <= set(opened)
    for name in opened:
        assert changes_rules(lists={name: LISTS[name] + b"\n"}), name
