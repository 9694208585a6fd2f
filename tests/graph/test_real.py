"""A real part of Wikidata, loaded and looked up; counted anew by plain Python and asked of a SPARQL engine too."""

import gzip
import random
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyoxigraph
import pytest

from tasks.core.calls.knowledge import Candidate
from tasks.graph.load import load_graph
from tasks.graph.lookup import Graph, open_graph
from tasks.text.values.literals import canonical_number

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
        "redirects": 0,
        "modified": 0,
        "literals": 0,
        "claims": 0,
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


@pytest.fixture(scope="module")
def statements(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Q42 and Q37599471 with all that is said of them, as N-Triples."""
    path = tmp_path_factory.mktemp("statements") / "statements.nt"
    with path.open("wb") as file:
        for name in ("Q42", "Q37599471"):
            triples = pyoxigraph.parse(
                path=shared_data / "wikidata" / "rdf" / f"{name}.ttl", format=pyoxigraph.RdfFormat.TURTLE
            )
            pyoxigraph.serialize(triples, file, format=pyoxigraph.RdfFormat.N_TRIPLES)
    return path


@pytest.fixture(scope="module")
def stated(statements: Path) -> Iterator[Graph]:
    load_graph([statements], "stated", statements.parent)
    with open_graph("stated", statements.parent) as opened:
        yield opened


def test_every_triple_about_statements_is_accounted_for(stated: Graph) -> None:
    made = stated.manifest
    assert made.lines == 5_394 == sum(made.read.values()) + sum(made.not_kept.values())
    assert (made.malformed, made.blank) == (0, 0)
    read = {"statements": 417, "deprecated": 1, "statement_values": 6, "qualifier_values": 21}
    assert {name: made.read[name] for name in read} == read
    assert (made.read["item_values"], made.read["other_values"]) == (157, 254)
    assert made.not_kept["unknown_value"] == 1
    assert (made.stored["literals"], made.stored["claims"]) == (25, 157)
    assert made.left_out == {"deprecated": 2, "unlinked": 0, "direct": 4}


_LITERALS = """
    PREFIX wikibase: <http://wikiba.se/ontology#>
    PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
    SELECT ?item ?claim ?statement ?predicate ?value ?precision ?unit ?main WHERE {
        ?item ?claim ?statement . ?statement ?predicate ?value
        MINUS { ?statement wikibase:rank wikibase:DeprecatedRank }
        FILTER(regex(str(?claim), "/prop/P[0-9]+$") && regex(str(?predicate), "/prop/(statement|qualifier)/P[0-9]+$"))
        FILTER(datatype(?value) IN (xsd:dateTime, xsd:decimal))
        OPTIONAL {
            ?statement ?to_node ?node . ?node wikibase:timeValue|wikibase:quantityAmount ?value
            FILTER(str(?to_node) = replace(str(?predicate), "/P", "/value/P"))
            OPTIONAL { ?node wikibase:timePrecision ?precision }
            OPTIONAL { ?node wikibase:quantityUnit ?unit FILTER(!strends(str(?unit), "/Q199")) }
        }
        OPTIONAL {
            ?statement ?own ?main
            FILTER(str(?own) = replace(str(?claim), "/P", "/statement/P") && contains(str(?predicate), "qualifier"))
        }
    }
"""


def test_literals_are_those_of_a_sparql_engine(stated: Graph, statements: Path) -> None:
    store = pyoxigraph.Store()
    store.bulk_load(path=statements, format=pyoxigraph.RdfFormat.N_TRIPLES)
    expected = set()
    for row in store.query(_LITERALS):
        value, main = row["value"].value, row["main"].value.removeprefix(WD) if row["main"] else None
        expected.add(
            (
                number(row["item"]),
                number(row["claim"]),
                number(row["predicate"]) if "qualifier" in row["predicate"].value else None,
                row["statement"].value.removeprefix(f"{WD}statement/"),
                canonical_number(value) or value,
                int(row["precision"].value) if row["precision"] else None,
                number(row["unit"]) if row["unit"] else None,
                main,
            )
        )
    with duckdb.connect(str(stated.path / "graph.duckdb"), read_only=True) as connection:
        found = connection.execute(
            "SELECT item, property, qualifier, statement, coalesce(number, value), precision, unit, main FROM literals"
        ).fetchall()
    assert len(found) == 25
    assert set(found) == expected
    birth = (42, 569, None, "q42-D8404CDA-25E4-4334-AF13-A3290BCD9C0F", "1952-03-11T00:00:00Z", 11, None, None)
    married = (42, 26, 580, "q42-b88670f8-456b-3ecb-cf3d-2bca2cf7371e", "1991-11-25T00:00:00Z", 11, None, "Q14623681")
    height = (42, 2048, None, "Q42-b0bf3caf-481c-356b-03a2-e61174b8e6da", "1.96", None, 11573, None)
    assert {birth, married, height} <= set(found)
