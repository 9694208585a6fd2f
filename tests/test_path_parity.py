"""Test that the local graph, SPARQL and a scan of every triple find the same paths.

An endpoint stores numbers by value and a graph as written, so numbers are compared in canonical form.
"""

import gzip
import random
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyoxigraph
import pytest
from support.graphs.plain_paths import PlainPaths

from factmill.tasks.assets import load_property_numbers
from factmill.tasks.clients.sparql import SparqlClient
from factmill.tasks.core.calls.path_calls import WikidataCallPathFinder, make_uncached_sender
from factmill.tasks.core.service_settings import ServiceLimits
from factmill.tasks.core.wikidata_paths import PathFinder, PathSearchOptions, PathsFoundForPairs
from factmill.tasks.graph.load import load_graph
from factmill.tasks.graph.lookup import open_graph
from factmill.tasks.processes import LOOPBACK_HOST, find_free_port, start_child_process, stop_child_process
from factmill.tasks.text.values.wikidata_literals import PartialDate, WantedNumberWithUnit, canonical_number
from factmill.tasks.world.data import WORLD_FOLDER
from factmill.tasks.world.files import load_world_data
from factmill.tasks.world.rdf import write_world_ntriples
from factmill.tasks.world.serving import get_oxigraph_binary

LIMITS = ServiceLimits(parallel=2, timeout_s=60, attempts=3, batch=100)
LISTS = {"date": "time_properties", "number": "number_properties", "rank": "rank_properties"}
BOTH_MODES = pytest.mark.parametrize("all_hops", [False, True], ids=["stop at the first hop count", "all hops"])


@dataclass(frozen=True)
class Engines:
    """Three finders over the same triples."""

    graph: PathFinder
    sparql: PathFinder
    plain: PlainPaths


@contextmanager
def open_engines(files: Sequence[Path], folder: Path) -> Iterator[Engines]:
    plain = PlainPaths(chain.from_iterable(pyoxigraph.parse(path=str(file)) for file in files))
    load_graph(files, "parity", folder)
    with open_graph("parity", folder) as graph, serve(files, folder) as url:
        client = SparqlClient("Wikidata", url, "sparql", LIMITS, "factmill tests")
        yield Engines(graph, WikidataCallPathFinder(make_uncached_sender(client), "sparql"), plain)


@contextmanager
def serve(files: Sequence[Path], folder: Path) -> Iterator[str]:
    """Yield the address of an Oxigraph server with some files."""
    store, log, port = folder / "store", folder / "oxigraph.log", find_free_port()
    load = [str(get_oxigraph_binary()), "load", "--location", str(store)]
    subprocess.run(
        [*load, *chain.from_iterable(("--file", str(file)) for file in files)], check=True, capture_output=True
    )
    command = [
        str(get_oxigraph_binary()),
        "serve-read-only",
        "--location",
        str(store),
        "--bind",
        f"{LOOPBACK_HOST}:{port}",
    ]
    process = start_child_process(command, log)
    try:
        while b"Listening" not in log.read_bytes():
            assert process.poll() is None, log.read_text()
            time.sleep(0.01)
        yield f"http://{LOOPBACK_HOST}:{port}/query"
    finally:
        stop_child_process(process)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    folder = tmp_path_factory.mktemp("world")
    with (folder / "world.nt").open("w", encoding="utf-8") as stream:
        write_world_ntriples(load_world_data(WORLD_FOLDER), stream)
    with open_engines([folder / "world.nt"], folder) as engines:
        yield engines


@pytest.fixture(scope="module")
def real(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    """Return a part of the truthy dump with the full RDF of two items."""
    folder = tmp_path_factory.mktemp("real")
    source = shared_data / "wikidata"
    with gzip.open(source / "truthy_labelled.nt.gz") as packed, (folder / "truthy.nt").open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    files = [folder / "truthy.nt", source / "rdf" / "Q42.ttl", source / "rdf" / "Q37599471.ttl"]
    with open_engines(files, folder) as engines:
        yield engines


def draw_item_pairs(plain: PlainPaths, count: int, seed: int) -> list[tuple[int, int]]:
    """Return pairs of items: one third random, one third with a claim between them, one third two claims apart."""
    draw = random.Random(seed)
    items = sorted(plain.claims)
    edges = [(start, end) for start in items for _, end in sorted(plain.claims[start])]
    pairs = []
    while len(pairs) < count:
        start, middle = draw.choice(edges)
        further = sorted(plain.claims.get(middle, []))
        far = (start, draw.choice(further)[1]) if further else (start, middle)
        pair = ((draw.choice(items), draw.choice(items)), (start, middle), far)[len(pairs) % 3]
        pairs.append(pair if draw.random() < 0.5 else pair[::-1])
    return pairs


def draw_literal_pairs(
    plain: PlainPaths, kind: str, count: int, seed: int
) -> list[tuple[int, PartialDate | WantedNumberWithUnit]]:
    """Return items with their own or a neighbour's value, some made wrong on purpose."""
    draw = random.Random(seed)
    properties = load_property_numbers(LISTS[kind])
    before: dict[int, list[int]] = {}
    for start, claims in sorted(plain.claims.items()):
        for _, end in claims:
            before.setdefault(end, []).append(start)
    values = sorted(
        ((item, *literal) for item, literals in plain.literals.items() for literal in literals),
        key=lambda value: (value[0], str(value)),
    )
    own = [value for value in values if (value[2] or value[1]) in properties and ("T" in value[4]) == (kind == "date")]
    if not own:
        return []
    pairs = []
    for _ in range(count):
        value = draw.choice(own)
        subject = draw.choice([value[0], *before.get(value[0], [])[:3]])
        pairs.append((subject, draw_date(value[4], draw) if kind == "date" else draw_number(value, draw)))
    return pairs


def draw_date(text: str, draw: random.Random) -> PartialDate:
    year, month, day = re.match(r"(-?\d+)-(\d+)-(\d+)T", text).groups()  # type: ignore[union-attr]
    parts = [int(year), max(1, int(month)), max(1, int(day))]
    return PartialDate(*parts[: draw.randint(1, 3)])


def draw_number(value: tuple[Any, ...], draw: random.Random) -> WantedNumberWithUnit:
    number, unit = str(canonical_number(value[4])), value[6]
    return WantedNumberWithUnit(draw.choice([number, number, number, "12345.678"]), draw.choice([None, unit, 11573]))


def list_found(found: PathsFoundForPairs) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Return paths and pairs as rows; an unknown item, which only a graph can report, counts as one without paths."""
    assert found.failures == {}
    pairs = [tuple(line.values()) for line in found.pairs.to_pylist()]
    known = [(pair, "none" if status.startswith("unknown") else status, *rest) for pair, status, *rest in pairs]
    return [tuple(line.values()) for line in found.paths.to_pylist()], known


def canonicalise(value: Any) -> Any:
    is_number = isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]+(?:\.[0-9]+)?", value)
    return canonical_number(value) if is_number else value


def find_plainly(found: list[list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
    return [(pair, *map(canonicalise, row)) for pair, rows in enumerate(found) for row in rows]


def check_items(engines: Engines, pairs: Sequence[tuple[int, int]], options: PathSearchOptions) -> int:
    """Compare the three engines; return the number of paths."""
    subjects, objects = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    by_graph = list_found(engines.graph.find_item_paths(subjects, objects, options))
    by_sparql = list_found(engines.sparql.find_item_paths(subjects, objects, options))
    assert by_graph == by_sparql
    expected = []
    for subject, target in pairs:
        near = engines.plain.find_item_rows(subject, target, 1) if subject != target else []
        far = engines.plain.find_item_rows(subject, target, 2) if subject != target else []
        expected.append(near + far if options.always_two_hops or not near else near)
    if not options.ignored_properties and options.max_paths is None:
        assert by_graph[0] == find_plainly(expected)
    return len(by_graph[0])


def check_literals(
    engines: Engines,
    pairs: Sequence[tuple[int, PartialDate | WantedNumberWithUnit]],
    properties: frozenset[int],
    options: PathSearchOptions,
) -> int:
    """Compare the three engines; return the number of paths."""
    subjects = np.array([subject for subject, _ in pairs], np.int64)
    wanted: list[Any] = [each for _, each in pairs]
    by_graph = list_found(engines.graph.find_literal_paths(subjects, wanted, properties, options))
    by_sparql = list_found(engines.sparql.find_literal_paths(subjects, wanted, properties, options))
    assert by_graph == by_sparql
    expected = []
    for subject, value in pairs:
        near, far = (engines.plain.find_literal_rows(subject, value, properties, hops) for hops in (1, 2))
        expected.append(near + far if options.always_two_hops or not near else near)
    if not options.ignored_properties and options.max_paths is None:
        assert by_graph[0] == find_plainly(expected)
    return len(by_graph[0])


@BOTH_MODES
def test_thousand_pairs_of_real_items_have_same_paths(real: Engines, all_hops: bool) -> None:
    pairs = draw_item_pairs(real.plain, 1000, seed=3)
    paths = check_items(real, pairs, PathSearchOptions(all_hops, max_paths=None))
    print(f"\n{len(pairs)} pairs, {paths} paths")
    assert paths > 1000


@BOTH_MODES
def test_pairs_of_embedded_world_have_same_paths(world: Engines, all_hops: bool) -> None:
    pairs = draw_item_pairs(world.plain, 1000, seed=4)
    assert check_items(world, pairs, PathSearchOptions(all_hops, max_paths=None)) > 800


@BOTH_MODES
@pytest.mark.parametrize("name", ["real", "world"])
def test_ignored_properties_and_path_limit_yield_same_paths(
    name: str, all_hops: bool, request: pytest.FixtureRequest
) -> None:
    engines = request.getfixturevalue(name)
    pairs = draw_item_pairs(engines.plain, 300, seed=5)
    ignored = frozenset({31, 106, 530})
    assert check_items(engines, pairs, PathSearchOptions(all_hops, ignored, max_paths=2)) > 100


@BOTH_MODES
@pytest.mark.parametrize("kind", LISTS)
def test_values_of_two_real_items_with_all_statements_have_same_paths(real: Engines, kind: str, all_hops: bool) -> None:
    properties = load_property_numbers(LISTS[kind])
    pairs = draw_literal_pairs(real.plain, kind, 300, seed=6)
    # neither item has a rank, so a search among ranks finds none of their numbers
    asked = pairs or [
        (42, WantedNumberWithUnit("1.96")),
        (37599471, WantedNumberWithUnit("1")),
        (999999999, WantedNumberWithUnit("1")),
    ]
    paths = check_literals(real, asked, properties, PathSearchOptions(all_hops, max_paths=None))
    print(f"\n{kind}: {len(asked)} pairs, {paths} paths")
    assert (paths > 100) == bool(pairs)


@BOTH_MODES
@pytest.mark.parametrize("kind", LISTS)
def test_values_of_embedded_world_have_same_paths(world: Engines, kind: str, all_hops: bool) -> None:
    pairs = draw_literal_pairs(world.plain, kind, 300, seed=7)
    paths = check_literals(
        world, pairs, load_property_numbers(LISTS[kind]), PathSearchOptions(all_hops, max_paths=None)
    )
    print(f"\n{kind}: {len(pairs)} pairs, {paths} paths")
    assert paths > 100


@BOTH_MODES
def test_ignored_properties_and_path_limit_of_values_yield_same_paths(world: Engines, all_hops: bool) -> None:
    pairs = draw_literal_pairs(world.plain, "date", 300, seed=8)
    options = PathSearchOptions(all_hops, frozenset({571, 580, 19}), max_paths=1)
    assert check_literals(world, pairs, load_property_numbers(LISTS["date"]), options) > 50
