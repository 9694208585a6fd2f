"""A real part of Wikidata, loaded and looked up; counted anew by plain Python and asked of a SPARQL engine too."""

import gzip
import random
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyoxigraph
import pytest

from tasks.core.knowledge import Candidate
from tasks.graph.load import load_graph
from tasks.graph.lookup import Graph, open_graph

WD = "http://www.wikidata.org/entity/"
WDT = "http://www.wikidata.org/prop/direct/"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"


@dataclass
class Plain:
    """The dump as plain Python reads it."""

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
def graph(dump: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    folder = tmp_path_factory.mktemp("real")
    started = time.perf_counter()
    made = load_graph([dump], "real", folder)
    print(f"\n{made.lines:,} lines loaded in {time.perf_counter() - started:.2f} s")
    with open_graph("real", folder) as opened:
        yield opened


@pytest.fixture(scope="module")
def store(dump: Path) -> pyoxigraph.Store:
    store = pyoxigraph.Store()
    with gzip.open(dump) as lines:
        store.bulk_load(lines, pyoxigraph.RdfFormat.N_TRIPLES)
    return store


def test_every_triple_is_stored(graph: Graph, plain: Plain) -> None:
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
        "modified": 0,
    }
    assert [len(plain.edges), len(plain.texts["label"])] == [52_801, 19_031]
    assert [len(plain.texts["description"]), len(plain.texts["altLabel"])] == [13_826, 19_735]


def test_every_text_and_edge_comes_back(graph: Graph, plain: Plain) -> None:
    labels = dict(plain.texts["label"])
    described = graph.describe(each for each in labels if each.startswith("Q"))
    assert graph.labels(labels) == labels
    assert {qid: found.description for qid, found in described.items() if found.description} == dict(
        plain.texts["description"]
    )
    subjects, properties = ({edge[place] for edge in plain.edges} for place in (0, 1))
    found = graph.neighbours([f"Q{number}" for number in subjects], [f"P{number}" for number in properties])
    assert {
        (int(qid[1:]), int(edge.pid[1:]), int(edge.qid[1:])) for qid, edges in found.items() for edge in edges
    } == plain.edges
    assert sum(map(len, found.values())) == len(plain.edges)


def test_every_name_finds_its_items(graph: Graph, plain: Plain) -> None:
    vias: dict[str, dict[str, str]] = defaultdict(dict)
    for via, predicate in (("alias", "altLabel"), ("label", "label")):
        for entity, text in plain.texts[predicate]:
            if entity.startswith("Q"):
                vias[text][entity] = via
    graph.find(["warm up"])
    names = sorted(vias)[:10_000]
    started = time.perf_counter()
    found = graph.find(names)
    seconds = time.perf_counter() - started
    print(f"\n{len(names):,} names found in {seconds:.3f} s")
    assert (
        found
        == {
            name: [
                Candidate(qid, via)  # type: ignore[arg-type]
                for qid, via in sorted(vias[name].items(), key=lambda each: (each[1] == "alias", int(each[0][1:])))
            ]
            for name in names
        }
    )
    assert seconds < 2


def test_degrees_are_those_counted(graph: Graph, plain: Plain) -> None:
    into: dict[str, int] = defaultdict(int)
    for _, _, thing in plain.edges:
        into[f"Q{thing}"] += 1
    assert {qid: degree.into for qid, degree in graph.degrees(into).items()} == into


def test_neighbours_and_facts_are_those_of_a_sparql_engine(graph: Graph, store: pyoxigraph.Store, plain: Plain) -> None:
    drawn = random.Random(7).sample(sorted({subject for subject, _, _ in plain.edges}), 200)
    values = " ".join(f"wd:Q{number}" for number in drawn)
    properties = sorted({pid for _, pid, _ in plain.edges})
    rows = store.query(
        f"PREFIX wd: <{WD}> SELECT ?s ?p ?o ?l WHERE {{ VALUES ?s {{ {values} }} ?s ?p ?o"
        f' OPTIONAL {{ ?o <{LABEL}> ?l FILTER(lang(?l) = "en") }} FILTER(strstarts(str(?p), "{WDT}")) }}'
    )
    expected = sorted(
        (number(row["s"]), number(row["p"]), number(row["o"]), row["l"].value if row["l"] else None) for row in rows
    )
    found = graph.neighbours([f"Q{each}" for each in drawn], [f"P{each}" for each in properties])
    assert [
        (int(qid[1:]), int(edge.pid[1:]), int(edge.qid[1:]), edge.label)
        for qid, edges in sorted(found.items(), key=lambda each: int(each[0][1:]))
        for edge in edges
    ] == expected
    facts = store.query(f"SELECT ?s ?o WHERE {{ ?s <{WDT}P19> ?o }}")
    assert [(int(s[1:]), int(o[1:])) for s, o in graph.list_facts("P19", None, 100_000)] == sorted(
        (number(row["s"]), number(row["o"])) for row in facts
    )


def number(node: pyoxigraph.NamedNode) -> int:
    return int(re.sub(r"^.*/[QP]", "", node.value))
