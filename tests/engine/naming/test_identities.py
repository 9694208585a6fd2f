"""Test the identities of services."""

from datetime import date
from pathlib import Path

import pytest
from support.graphs.rdf_lines import spell_out
from support.worlds.zim_files import ZimFile

from factmill.tasks.core.service_settings import (
    SCRIPTED_MODEL_NAME,
    ModelSettings,
    ServiceEndpoint,
    WikidataSettings,
    WikipediaSettings,
)
from factmill.tasks.engine.naming.identities import (
    check_graph_languages,
    embedded_world_identity,
    get_model_settings,
    make_service_identity,
    service_identities,
    service_urls,
    wikidata_identity,
)
from factmill.tasks.errors import SettingsError, UsageError
from factmill.tasks.graph.load import load_graph
from factmill.tasks.graph.lookup import open_graph
from factmill.tasks.settings import World, graphs_folder
from factmill.tasks.world.data import digest_world_files
from factmill.tasks.zim_archive import open_zim_archive

SCRIPTED_MODEL = ModelSettings(kind="scripted", name=SCRIPTED_MODEL_NAME)


def make_world(wikidata: WikidataSettings) -> World:
    return World(
        name="mine",
        user_agent="me",
        epoch=date(2024, 1, 1),
        wikidata=wikidata,
        wikipedia=WikipediaSettings(url="https://wikipedia.example/w"),
        pageviews=ServiceEndpoint(url="embedded"),
        falcon=ServiceEndpoint(url="https://falcon.example"),
        dbpedia=ServiceEndpoint(url="https://dbpedia.example"),
        models={"author": SCRIPTED_MODEL},
    )


EMBEDDED = make_world(WikidataSettings(url="embedded"))
WEB = make_world(WikidataSettings(url="https://wikidata.example/sparql"))
GRAPH = make_world(WikidataSettings(engine="graph", graph="small"))


@pytest.fixture
def graph(own_home: Path, tmp_path: Path) -> str:
    """Load a small graph in English and return its identity."""
    source = tmp_path / "small.nt"
    source.write_text(spell_out('wd:Q1 wdt:P31 wd:Q2\nwd:Q1 rdfs:label "one"@en'))
    load_graph([source], "small", graphs_folder(own_home))
    with open_graph("small", graphs_folder(own_home)) as opened:
        return opened.identity


def test_service_identity_comes_from_world_files_address_or_triples(own_home: Path, graph: str) -> None:
    assert embedded_world_identity() == f"embedded-{digest_world_files()[:16]}"
    assert wikidata_identity(EMBEDDED, own_home) == f"{embedded_world_identity()}/wikidata"
    assert wikidata_identity(WEB, own_home) == "https://wikidata.example/sparql"
    assert wikidata_identity(GRAPH, own_home) == graph
    assert make_service_identity("falcon", "https://falcon.example") == "https://falcon.example"
    assert make_service_identity("falcon", "embedded") == f"{embedded_world_identity()}/falcon"


def test_each_service_of_world_has_address_and_identity(own_home: Path, graph: str) -> None:
    assert service_urls(WEB) == {
        "wikidata": "https://wikidata.example/sparql",
        "wikipedia": "https://wikipedia.example/w",
        "pageviews": "embedded",
        "falcon": "https://falcon.example",
        "dbpedia": "https://dbpedia.example",
    }
    of_web = {**service_urls(WEB), "pageviews": f"{embedded_world_identity()}/pageviews"}
    assert service_identities(WEB, own_home) == of_web
    assert service_identities(GRAPH, own_home) == {**of_web, "wikidata": graph}


def test_graph_without_labels_in_language_is_reported_before_build(own_home: Path, graph: str) -> None:
    check_graph_languages(GRAPH, own_home, ["en"])
    check_graph_languages(WEB, own_home, ["en", "de"])
    with pytest.raises(UsageError, match="not in de: load it again with --language en --language de"):
        check_graph_languages(GRAPH, own_home, ["en", "de"])


def test_missing_translator_or_perplexity_model_error_says_what_to_add() -> None:
    translator = ModelSettings(kind="local", name="small")
    world = WEB.model_copy(update={"models": {"author": SCRIPTED_MODEL, "translator": translator}})
    assert get_model_settings(world, "translator") is translator
    with pytest.raises(SettingsError, match=r"has no translator; add \[models\.translator\] .* --languages eng"):
        get_model_settings(WEB, "translator")
    with pytest.raises(
        SettingsError, match=r"has no language model that computes perplexity; add \[models\.perplexity\]"
    ):
        get_model_settings(WEB, "perplexity")


def test_zim_wikipedia_has_identity_and_date_of_its_file(tmp_path: Path) -> None:
    path = ZimFile(metadata={"Date": "2025-06-07"}).write(tmp_path / "wiki.zim")
    plain = make_world(WikidataSettings(url="embedded"))
    world = plain.model_copy(update={"wikipedia": WikipediaSettings(engine="zim", path=str(path)), "epoch": None})
    assert service_identities(world, tmp_path)["wikipedia"] == open_zim_archive(path).identity
    assert world.epoch_day() == date(2025, 6, 7)
    other = world.model_copy(update={"epoch": date(2025, 6, 8)})
    with pytest.raises(SettingsError, match="epoch = 2025-06-08, but its Wikipedia is a ZIM file of 2025-06-07"):
        other.epoch_day()
