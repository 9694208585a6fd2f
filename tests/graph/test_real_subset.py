"""Test a real part of Wikidata, loaded and queried, against counts in plain Python and a SPARQL engine."""

import gzip
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.graphs.rdf_lines import neighbours

from factmill.tasks.core.calls.wikidata import ItemMatchedByName
from factmill.tasks.graph.load import load_graph
from factmill.tasks.graph.lookup import WikidataGraph, open_graph

WD = "http://www.wikidata.org/entity/"
WDT = "http://www.wikidata.org/prop/direct/"


@dataclass
class Plain:
    """The dump as parsed by plain Python."""

    edges: set[tuple[int, int, int]] = field(default_factory=set)
    texts: dict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    """(id, text) by end of the predicate: label, altLabel, description."""


@pytest.fixture(scope="module")
def dump(shared_data: Path) -> Path:
    return shared_data / "wikidata" / "truthy_labelled.nt.gz"


@pytest.fixture(scope="module")
def plain(dump: Path) -> Plain:
    read = Plain()
    with gzip.open(dump, "rt", encoding="utf-8") as lines:
        for line in lines:
            subject, predicate, thing = line.rstrip("\n").removesuffix(" .").split(" ", 2)
            entity, name = subject[1:-1].rsplit("/", 1)[1], re.split("[/#]", predicate[1:-1])[-1]
            if thing.startswith("<"):
                read.edges.add((int(entity[1:]), int(name[1:]), int(thing[1:-1].rsplit("/", 1)[1][1:])))
            else:
                text = thing.removeprefix('"').removesuffix('"@en')
                read.texts[name].add((entity, re.sub(r"\\(.)", r"\1", text)))
    return read


@pytest.fixture(scope="module")
def graph(dump: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WikidataGraph]:
    folder = tmp_path_factory.mktemp("real")
    started = time.perf_counter()
    made = load_graph([dump], "real", folder)
    print(f"\n{made.lines:,} lines loaded in {time.perf_counter() - started:.2f} s")
    with open_graph("real", folder) as opened:
        yield opened


def test_every_triple_of_real_dump_is_stored(graph: WikidataGraph, plain: Plain) -> None:
    loaded = graph.manifest
    items = [each for each in plain.texts["label"] if each[0].startswith("Q")]
    assert loaded.lines == 105_393 == sum(loaded.read.values())
    assert (loaded.malformed, loaded.blank, loaded.not_kept) == (0, 0, {})
    assert loaded.stored == {
        "edges": len(plain.edges),
        "labels": len(items),
        "property_labels": len(plain.texts["label"]) - len(items),
        "descriptions": len(plain.texts["description"]),
        "aliases": len(plain.texts["altLabel"]),
        "titles": 0,
        "redirects": 0,
        "modified": 0,
        "literals": 0,
        "claims": 0,
    }
    assert [len(plain.edges), len(plain.texts["label"])] == [52_801, 19_031]
    assert [len(plain.texts["description"]), len(plain.texts["altLabel"])] == [13_826, 19_735]


def test_every_text_and_edge_of_real_dump_is_found(graph: WikidataGraph, plain: Plain) -> None:
    labels = dict(plain.texts["label"])
    described = graph.load_descriptions(each for each in labels if each.startswith("Q"))
    assert graph.find_labels(labels) == labels
    assert {qid: found.description for qid, found in described.items() if found.description} == dict(
        plain.texts["description"]
    )
    subjects, properties = ({edge[place] for edge in plain.edges} for place in (0, 1))
    found = neighbours(graph, [f"Q{number}" for number in subjects], [f"P{number}" for number in properties])
    assert {
        (int(qid[1:]), int(edge.pid[1:]), int(edge.qid[1:])) for qid, edges in found.items() for edge in edges
    } == plain.edges
    assert sum(map(len, found.values())) == len(plain.edges)


def test_every_name_of_real_dump_finds_its_items(graph: WikidataGraph, plain: Plain) -> None:
    vias: dict[str, dict[str, str]] = defaultdict(dict)
    for via, predicate in (("alias", "altLabel"), ("label", "label")):
        for entity, text in plain.texts[predicate]:
            if entity.startswith("Q"):
                vias[text][entity] = via
    graph.find_items_by_name(["warm up"])
    names = sorted(vias)[:10_000]
    started = time.perf_counter()
    found = graph.find_items_by_name(names)
    seconds = time.perf_counter() - started
    print(f"\n{len(names):,} names found in {seconds:.3f} s")
    assert (
        found
        == {
            name: [
                ItemMatchedByName(qid, via)  # type: ignore[arg-type]
                for qid, via in sorted(vias[name].items(), key=lambda each: (each[1] == "alias", int(each[0][1:])))
            ]
            for name in names
        }
    )


def test_degrees_match_counted_edges(graph: WikidataGraph, plain: Plain) -> None:
    into: dict[str, int] = defaultdict(int)
    for _, _, thing in plain.edges:
        into[f"Q{thing}"] += 1
    assert {qid: degree.into for qid, degree in graph.count_edges(into).items()} == into


@pytest.fixture(scope="module")
def stated(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WikidataGraph]:
    """Return a graph of Q42 and Q37599471 with all their statements."""
    folder = tmp_path_factory.mktemp("statements")
    load_graph([shared_data / "wikidata" / "rdf" / f"{name}.ttl" for name in ("Q42", "Q37599471")], "stated", folder)
    with open_graph("stated", folder) as opened:
        yield opened


def test_load_accounts_for_every_statement_triple(stated: WikidataGraph) -> None:
    made = stated.manifest
    assert made.lines == 5_394 == sum(made.read.values()) + sum(made.not_kept.values())
    assert (made.malformed, made.blank) == (0, 0)
    read = {"statements": 417, "deprecated": 1, "statement_values": 6, "qualifier_values": 21}
    assert {name: made.read[name] for name in read} == read
    assert (made.read["item_values"], made.read["other_values"]) == (157, 254)
    assert made.not_kept["unknown_value"] == 1
    assert (made.stored["literals"], made.stored["claims"]) == (25, 157)
    assert made.left_out == {"deprecated": 2, "unlinked": 0, "direct": 4}


def test_real_dates_and_numbers_have_precision_unit_and_statement(stated: WikidataGraph) -> None:
    found = stated.query(
        "SELECT item, property, qualifier, statement, coalesce(number, value), precision, unit, main FROM graph.literals",
        {},
    )
    birth = (42, 569, None, "q42-D8404CDA-25E4-4334-AF13-A3290BCD9C0F", "1952-03-11T00:00:00Z", 11, None, None)
    married = (42, 26, 580, "q42-b88670f8-456b-3ecb-cf3d-2bca2cf7371e", "1991-11-25T00:00:00Z", 11, None, "Q14623681")
    height = (42, 2048, None, "Q42-b0bf3caf-481c-356b-03a2-e61174b8e6da", "1.96", None, 11573, None)
    assert {birth, married, height} <= set(found)
    assert len(found) == len(set(found)) == 25
