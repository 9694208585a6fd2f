"""Test path search over the arrays against a search through all edges and literals."""

import importlib
import os
import random
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.caching import CacheImpl
from support.graphs.small_arrays import Edge, Literal, SmallGraph, rows_of, search_items, search_literals

from factmill.tasks.core.wikidata_paths import (
    ITEM_PATHS_SCHEMA,
    LITERAL_PATHS_SCHEMA,
    PAIR_STATUS_SCHEMA,
    PathFinder,
    PathSearchOptions,
)
from factmill.tasks.graph import arrays as arrays_module
from factmill.tasks.graph import paths as graph_paths
from factmill.tasks.graph.arrays import open_mapped_graph_arrays
from factmill.tasks.graph.loading import compiling
from factmill.tasks.graph.loading.compiling import compile_kernel
from factmill.tasks.graph.lookup import WikidataGraph
from factmill.tasks.graph.paths import find_item_paths
from factmill.tasks.text.values.wikidata_literals import PartialDate, WantedNumberWithUnit, hash_canonical_number

Make = Callable[..., WikidataGraph]

HUGE = 10**17
ALL = PathSearchOptions(always_two_hops=True, max_paths=None)

ITEMS = st.sampled_from([1, 2, 63, 64, 65, 1000, HUGE])
PROPERTIES = st.sampled_from([17, 31, 2**31 - 1])
EDGES = st.sets(st.tuples(ITEMS, PROPERTIES, ITEMS), max_size=40)
PAIRS_ASKED = st.lists(st.tuples(ITEMS | st.sampled_from([7, 2**62]), ITEMS | st.just(8)), max_size=12)
OPTIONS = st.builds(
    PathSearchOptions,
    always_two_hops=st.booleans(),
    ignored_properties=st.frozensets(PROPERTIES | st.just(999), max_size=2),
    max_paths=st.sampled_from([None, 1, 2, 5, 1000]),
)
SEVERAL_OPTIONS = st.lists(OPTIONS, min_size=1, max_size=4)


def make_star(hub: int, first: int, count: int, *, into: bool) -> set[Edge]:
    """Return an edge between a hub and each of many items."""
    leaves = range(first, first + count)
    return {(leaf, 17, hub) if into else (hub, 17, leaf) for leaf in leaves}


STARS = st.sampled_from(
    [
        set[Edge](),
        make_star(2, 2000, 200, into=True),
        make_star(1, 2000, 200, into=False),
        make_star(1, 2000, 40, into=False) | make_star(2, 2030, 200, into=True),
    ]
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(edges=EDGES, star=STARS, pairs=PAIRS_ASKED, several=SEVERAL_OPTIONS)
def test_item_paths_match_search_through_all_edges(
    tmp_path_factory: pytest.TempPathFactory,
    edges: set[Edge],
    star: set[Edge],
    pairs: list[tuple[int, int]],
    several: list[PathSearchOptions],
) -> None:
    graph = SmallGraph(tmp_path_factory.mktemp("graph"), edges | star)
    for options in several:
        found = graph.find_items(pairs, options)
        assert (found.paths.schema, found.pairs.schema, found.failures) == (ITEM_PATHS_SCHEMA, PAIR_STATUS_SCHEMA, {})
        assert rows_of(found) == search_items(graph, pairs, options)


DATES = ["1952-03-11T00:00:00Z", "1952-03-01T00:00:00Z", "1952-00-00T00:00:00Z", "-0043-03-15T00:00:00Z"]
NUMBERS = ["+1.50", "1.5", "-7", "0", "+1200"]
QUALIFIERS = st.none() | st.sampled_from([585, 17])
LITERALS = st.lists(
    st.builds(
        Literal,
        item=ITEMS,
        property=st.sampled_from([569, 1082, 17]),
        qualifier=QUALIFIERS,
        statement=st.none() | st.sampled_from(["q1-A", "q1-b"]),
        value=st.sampled_from(DATES),
        precision=st.none() | st.sampled_from([0, 7, 9, 10, 11, 14]),
        main=st.none() | st.sampled_from(["Q5", "text", ""]),
    )
    | st.builds(
        Literal,
        item=ITEMS,
        property=st.sampled_from([569, 1082, 17]),
        qualifier=QUALIFIERS,
        statement=st.none() | st.sampled_from(["q1-A", "q1-b"]),
        value=st.sampled_from(NUMBERS),
        unit=st.none() | st.sampled_from([11573, HUGE]),
        main=st.none() | st.just("1.5"),
    ),
    max_size=25,
)
WANTED_DATES = st.sampled_from(
    [
        PartialDate(1952),
        PartialDate(1952, 3),
        PartialDate(1952, 3, 11),
        PartialDate(1952, 3, 12),
        PartialDate(-43),
        PartialDate(-43, 3),
        PartialDate(0),
        PartialDate(10**30),
    ]
)
WANTED_NUMBERS = st.builds(
    WantedNumberWithUnit, st.sampled_from(["1.5", "-7", "0", "1200", "8"]), st.none() | st.sampled_from([11573, HUGE])
)
COUNTED = st.sets(st.sampled_from([569, 1082, 585, 17, 999]), max_size=4)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    edges=EDGES,
    literals=LITERALS,
    subjects=st.lists(ITEMS | st.just(7), max_size=8),
    data=st.data(),
    properties=COUNTED,
    several=SEVERAL_OPTIONS,
)
def test_literal_paths_match_search_through_all_literals(
    tmp_path_factory: pytest.TempPathFactory,
    edges: set[Edge],
    literals: list[Literal],
    subjects: list[int],
    data: st.DataObject,
    properties: set[int],
    several: list[PathSearchOptions],
) -> None:
    graph = SmallGraph(tmp_path_factory.mktemp("graph"), edges, literals)
    for wanted in (WANTED_DATES, WANTED_NUMBERS):
        pairs = [(subject, data.draw(wanted)) for subject in subjects]
        for options in several:
            found = graph.find_literals(pairs, properties, options)  # type: ignore[arg-type]
            assert (found.paths.schema, found.pairs.schema, found.failures) == (
                LITERAL_PATHS_SCHEMA,
                PAIR_STATUS_SCHEMA,
                {},
            )
            assert rows_of(found) == search_literals(graph, pairs, properties, options)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [ALL, PathSearchOptions(), PathSearchOptions(always_two_hops=True, max_paths=1)])
def test_batch_of_many_chunks_returns_each_pairs_own_paths(tmp_path: Path, options: PathSearchOptions) -> None:
    edges = {(s, 17 + (s + o) % 3, o) for s in range(1, 70) for o in range(1, 70) if (s * o) % 5 < 2}
    graph = SmallGraph(tmp_path, edges)
    pairs = [(s, o) for s in range(1, 70, 2) for o in range(70)]
    found = graph.find_items(pairs, options)
    paths, outcomes = rows_of(found)
    assert len(pairs) > 2 * 1024
    for first in (0, 1020, len(pairs) - 9):
        some = pairs[first : first + 9]
        expected, expected_outcomes = search_items(graph, some, options)
        assert [(row[0] - first, *row[1:]) for row in paths if first <= row[0] < first + 9] == expected
        assert [(row[0] - first, *row[1:]) for row in outcomes[first : first + 9]] == expected_outcomes


def test_ignored_property_excludes_statements_and_qualifiers(tmp_path: Path) -> None:
    known = [Literal(1, 39, 580, "q1-A", DATES[0]), Literal(1, 580, None, "q1-B", DATES[0])]
    graph = SmallGraph(tmp_path, {(2, 17, 1)}, known)

    def count(subject: int, *ignored: int) -> int:
        options = PathSearchOptions(ignored_properties=frozenset(ignored))
        return graph.find_literals([(subject, PartialDate(1952))], {580, 39}, options).paths.num_rows

    assert [count(1), count(1, 39), count(1, 580), count(2), count(2, 17), count(2, 39)] == [2, 1, 0, 2, 0, 1]


def test_self_loop_may_be_one_of_two_hops(tmp_path: Path) -> None:
    graph = SmallGraph(tmp_path, {(1, 17, 1), (1, 31, 2), (2, 17, 2)})
    paths, _ = rows_of(graph.find_items([(1, 2), (1, 1)], ALL))
    assert paths == [(0, 1, False, None, 31, None), (0, 2, False, 1, 17, 31), (0, 2, False, 2, 31, 17)]


def make_ladder(rungs: int) -> set[Edge]:
    """Return edges from 1 to 2 through each of many items, and one back."""
    return {(1, 17, x) for x in range(10, 10 + rungs)} | {(x, 31, 2) for x in range(10, 10 + rungs)} | {(2, 17, 1)}


def test_hundred_thousand_paths_of_one_pair_are_counted_and_capped(tmp_path: Path) -> None:
    graph = SmallGraph(tmp_path, make_ladder(100_000))
    pairs = [(10, 11), (1, 2), (2, 1)]
    for most_paths, kept in ((None, 100_001), (100_000, 100_000), (1_000, 1_000)):
        found = graph.find_items(pairs, PathSearchOptions(always_two_hops=True, max_paths=most_paths))
        status = "found" if most_paths is None else "capped"
        assert rows_of(found)[1] == [(0, "none", 0, 0), (1, status, 100_001, kept), (2, status, 100_001, kept)]
        middles = found.paths["middle"].to_pylist()
        # forward for one pair, backward for the other
        assert middles == [None, *range(10, 9 + kept)] * 2


@pytest.mark.parametrize("rows_at_once", [1, 2, 3, 4, 5, 8])
def test_no_path_is_lost_if_paths_of_pair_barely_exceed_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_at_once: int
) -> None:
    monkeypatch.setattr(graph_paths, "_CHUNK_ROWS", rows_at_once)
    edges = {(subject, 17, 100 + at) for subject in range(1, 6) for at in range(subject)}
    edges |= {(100 + at, 31, 9) for at in range(5)}
    literals = [Literal(100 + at, 569, None, None, DATES[0]) for at in range(5)]
    graph = SmallGraph(tmp_path, edges, literals)
    for most_paths in (None, 2):
        options = PathSearchOptions(always_two_hops=True, max_paths=most_paths)
        pairs = [(subject, 9) for subject in (1, 2, 3, 4, 5, 1, 2)]
        assert rows_of(graph.find_items(pairs, options)) == search_items(graph, pairs, options)
        dates = [(subject, PartialDate(1952)) for subject, _ in pairs]
        assert rows_of(graph.find_literals(dates, {569}, options)) == search_literals(graph, dates, {569}, options)  # type: ignore[arg-type]


@pytest.mark.parametrize("into", [True, False])
def test_hub_at_either_end_is_searched_from_other_end(tmp_path: Path, into: bool) -> None:
    star = make_star(2, 10, 5_000, into=into)
    others = {(1, 31, 4_000), (1, 31, 6_000), (3_000, 31, 1)}
    graph = SmallGraph(tmp_path, star | others)
    assert rows_of(graph.find_items([(1, 2), (2, 1)], ALL)) == search_items(graph, [(1, 2), (2, 1)], ALL)
    assert len(graph.find_items([(1, 2)], ALL).paths) == 1


def test_empty_batch_and_empty_graph_yield_no_paths(tmp_path: Path) -> None:
    graph = SmallGraph(tmp_path, set(), others=[1, 2])
    for pairs in ([], [(1, 2), (1, 7), (7, 1), (2, 2)]):
        found = graph.find_items(pairs, PathSearchOptions())
        assert rows_of(found) == ([], search_items(graph, pairs, PathSearchOptions())[1])
        dates = [(subject, PartialDate(1952)) for subject, _ in pairs]
        assert rows_of(graph.find_literals(dates, {569}, ALL)) == search_literals(graph, dates, {569}, ALL)  # type: ignore[arg-type]


def test_numbers_with_equal_keys_are_compared_before_hop_counts_as_found(tmp_path: Path) -> None:
    literals = [Literal(1, 1082, None, None, "8"), Literal(2, 1082, None, None, "7")]
    graph = SmallGraph(tmp_path, {(1, 17, 2)}, literals, keys={0: hash_canonical_number("7")})
    paths, outcomes = rows_of(graph.find_literals([(1, WantedNumberWithUnit("7"))], {1082}, PathSearchOptions()))
    assert [(row[1], row[2], row[7]) for row in paths] == [(2, 2, "7")]
    assert outcomes == [(0, "found", 1, 1)]


def test_number_in_other_unit_does_not_stop_search_at_one_hop(tmp_path: Path) -> None:
    literals = [Literal(1, 2048, None, None, "7", unit=11573), Literal(2, 2048, None, None, "+7.0", unit=174728)]
    graph = SmallGraph(tmp_path, {(1, 17, 2)}, literals)

    def hops(unit: int | None) -> list[int]:
        return (
            graph.find_literals([(1, WantedNumberWithUnit("7", unit))], {2048}, PathSearchOptions())
            .paths["hops"]
            .to_pylist()
        )

    assert (hops(None), hops(11573), hops(174728), hops(199)) == ([1], [1], [2], [])


@pytest.mark.parametrize(
    ("wanted", "precisions"),
    [
        (PartialDate(1952), [9, 10, 11, None]),
        (PartialDate(1952, 3), [10, 11, None]),
        (PartialDate(1952, 3, 11), [11, None]),
        (PartialDate(1951), []),
    ],
    ids=str,
)
def test_date_matches_values_that_are_at_least_as_precise(
    tmp_path: Path, wanted: PartialDate, precisions: list[int | None]
) -> None:
    known = [Literal(1, 569, None, "q1-A", DATES[0], precision) for precision in (None, 7, 9, 10, 11)]
    graph = SmallGraph(tmp_path, set(), known)
    found = graph.find_literals([(1, wanted)], {569}, PathSearchOptions()).paths
    assert sorted(found["precision"].to_pylist(), key=lambda each: each or 12) == precisions


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (PartialDate(1952), ["1952-00-00", "1952-03-00", "1952-04-00", "1952-12-31"]),
        (PartialDate(1952, 3), ["1952-03-00"]),
        (PartialDate(1952, 12, 31), ["1952-12-31"]),
        (PartialDate(1953), ["1953-00-00"]),
        (PartialDate(-1), ["-0001-12-31"]),
        (PartialDate(0), ["0000-00-00"]),
    ],
    ids=str,
)
def test_bare_year_or_month_does_not_match_previous_one(tmp_path: Path, wanted: PartialDate, found: list[str]) -> None:
    days = ["-0001-12-31", "0000-00-00", "1952-00-00", "1952-03-00", "1952-04-00", "1952-12-31", "1953-00-00"]
    graph = SmallGraph(tmp_path, set(), [Literal(1, 569, None, None, f"{day}T00:00:00Z") for day in days])
    paths = graph.find_literals([(1, wanted)], {569}, ALL).paths
    assert [value.removesuffix("T00:00:00Z") for value in paths["value"].to_pylist()] == found


def test_objects_of_wrong_count_or_mixed_kinds_are_rejected(tmp_path: Path) -> None:
    graph = SmallGraph(tmp_path, {(1, 17, 2)})
    with pytest.raises(ValueError, match="as many objects as subjects"):
        find_item_paths(graph.arrays, np.array([1, 2]), np.array([1]), ALL)
    with pytest.raises(ValueError, match="dates or only numbers"):
        graph.find_literals([(1, PartialDate(1952)), (1, WantedNumberWithUnit("1"))], {569}, ALL)  # type: ignore[list-item]


PEOPLE = """
    wd:Q42 wdt:P69 wd:Q691283
    wd:Q691283 wdt:P17 wd:Q145
    wd:Q42 p:P569 wds:q42-A
    wds:q42-A ps:P569 "1952-03-11T00:00:00Z"^^xsd:dateTime
    wds:q42-A psv:P569 v:one
    v:one wikibase:timeValue "1952-03-11T00:00:00Z"^^xsd:dateTime
    v:one wikibase:timePrecision "11"^^xsd:integer
    wd:Q691283 p:P2196 wds:q691283-B
    wds:q691283-B ps:P2196 "+3500"^^xsd:decimal
    wds:q691283-B pq:P585 "1952-00-00T00:00:00Z"^^xsd:dateTime
"""


def test_loaded_graph_finds_paths_in_its_own_item_numbers(make_graph: Make) -> None:
    graph: PathFinder = make_graph(PEOPLE)
    found = graph.find_item_paths(np.array([145, 42]), np.array([42, 999]), PathSearchOptions())
    assert rows_of(found) == (
        [(0, 2, True, 691283, 69, 17)],
        [(0, "found", 1, 1), (1, "unknown_object", 0, 0)],
    )
    dates = graph.find_literal_paths(np.array([42]), [PartialDate(1952)], frozenset([569, 585]), ALL)
    assert rows_of(dates)[0] == [
        (0, 1, None, 569, None, None, "q42-A", "1952-03-11T00:00:00Z", 11, None, None),
        (0, 2, 691283, 69, 2196, 585, "q691283-B", "1952-00-00T00:00:00Z", None, None, "3500"),
    ]
    numbers = graph.find_literal_paths(
        np.array([42]), [WantedNumberWithUnit("3500")], frozenset([2196]), PathSearchOptions()
    )
    assert [row[:8] for row in rows_of(numbers)[0]] == [(0, 2, 691283, 69, 2196, None, "q691283-B", "3500")]


def test_concurrent_threads_find_same_paths(make_graph: Make) -> None:
    graph = make_graph(
        "\n".join(f"wd:Q{s} wdt:P{1 + (s * o) % 3} wd:Q{o}" for s in range(1, 30) for o in range(1, 30, 3))
    )
    subjects, objects = (np.tile(each.ravel(), 5) for each in np.meshgrid(np.arange(1, 30), np.arange(1, 30)))
    alone = graph.find_item_paths(subjects, objects, ALL)
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda _: graph.find_item_paths(subjects, objects, ALL), range(8)))
    assert len(alone.paths) > len(subjects)
    assert all(each.paths.equals(alone.paths) and each.pairs.equals(alone.pairs) for each in together)


def test_kernels_compile_without_writable_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])

    def double(number: int) -> int:
        return 2 * number

    with pytest.raises(RuntimeError, match="cannot cache"):
        numba.njit(cache=True)(double)
    assert compile_kernel(double)(21) == 42


def test_a_cache_of_earlier_code_with_other_class_names_is_not_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = (
        "from typing import NamedTuple\n"
        "from factmill.tasks.graph.loading.compiling import compile_kernel\n"
        "class OldName(NamedTuple):\n    number: int\n"
        "@compile_kernel\ndef double(given):\n    return 2 * given.number\n"
        "result = double(OldName(21))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("OldName", "NewName"):
        (tmp_path / "renamed_kernel.py").write_text(source.replace("OldName", name))
        monkeypatch.setattr(compiling, "digest_graph_package_sources", lambda name=name: name)
        importlib.invalidate_caches()
        monkeypatch.delitem(sys.modules, "renamed_kernel", raising=False)
        assert importlib.import_module("renamed_kernel").result == 42
    monkeypatch.delitem(sys.modules, "renamed_kernel")
    assert len(list(tmp_path.glob("__pycache__/renamed_kernel.*.nbi"))) == 2


@pytest.mark.slow
def test_simple_lookups_do_not_import_compiler(make_graph: Make, tmp_path: Path) -> None:
    make_graph(PEOPLE)
    program = (
        "import sys; from pathlib import Path; import numpy as np\n"
        "from factmill.tasks.core.wikidata_paths import PathSearchOptions; from factmill.tasks.graph.lookup import open_graph\n"
        "graph = open_graph('small', Path(sys.argv[1]))\n"
        "graph.find_items_by_name(['Ada']), graph.list_neighbours([('Q42', ['P69'])]), graph.count_edges(['Q42'])\n"
        "graph.list_item_facts(['Q42'])\n"
        "print('numba' in sys.modules)\n"
        "graph.find_item_paths(np.array([42]), np.array([145]), PathSearchOptions())\n"
        "print('numba' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "graphs")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert (done.stdout.split(), done.returncode) == (["False", "True"], 0), done.stderr


CROWD_EDGES = {(1, 17, 2), (1, 17, 3), (1, 31, 3), (4, 31, 1)}
EACH_WANTED = [
    [
        PartialDate(1952),
        PartialDate(1952, 3),
        PartialDate(1952, 3, 11),
        PartialDate(1960, 1, 1),
        PartialDate(1900),
        PartialDate(2100),
    ],
    [
        WantedNumberWithUnit("7"),
        WantedNumberWithUnit("7", 11573),
        WantedNumberWithUnit("-1"),
        WantedNumberWithUnit("999"),
    ],
]
EACH_OPTIONS = [
    PathSearchOptions(always_two_hops=all_hops, max_paths=most_paths)
    for all_hops in (True, False)
    for most_paths in (None, 1, 3)
]


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> SmallGraph:
    """Return a graph of items with some hundred literals, many of the same year, day or number."""
    dice = random.Random(3)
    days = [*(f"19{dice.randrange(50, 60)}-0{dice.randrange(10)}-01" for _ in range(40)), *["1952-03-11"] * 9]
    literals = [
        Literal(
            item,
            dice.choice([569, 1082]),
            dice.choice([None, 585]),
            f"q{item}-{nth}",
            f"{dice.choice(days)}T00:00:00Z" if nth % 2 else f"{dice.randrange(-3, 9)}",
            precision=dice.choice([None, 9, 10, 11]) if nth % 2 else None,
            unit=None if nth % 2 else dice.choice([None, 11573]),
        )
        for item, count in ((1, 150), (2, 17), (3, 120), (4, 15))
        for nth in range(count)
    ]
    return SmallGraph(tmp_path_factory.mktemp("crowded"), CROWD_EDGES, literals)


@pytest.mark.parametrize("has_order", [True, False], ids=["ordered", "loaded by an earlier version"])
def test_literal_paths_of_crowded_graph_match_full_search(crowded: SmallGraph, has_order: bool) -> None:
    order = crowded.folder / "literal_order.npy"
    hidden = order.with_suffix(".away")
    if not has_order:
        order.rename(hidden)
    try:
        crowded.arrays = open_mapped_graph_arrays(crowded.folder)
    finally:
        if not has_order:
            hidden.rename(order)
    assert len(crowded.arrays.literals.order) == has_order * len(crowded.literals)
    for wanted in EACH_WANTED:
        pairs = [(subject, each) for subject in (1, 3, 4, 9) for each in wanted]
        for options in EACH_OPTIONS:
            found = crowded.find_literals(pairs, {569, 585}, options)  # type: ignore[arg-type]
            assert rows_of(found) == search_literals(crowded, pairs, {569, 585}, options)  # type: ignore[arg-type]
            assert len(found.paths)


def test_literal_order_sorts_each_items_keys_with_any_batch_size(
    crowded: SmallGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    literals = crowded.arrays.literals
    monkeypatch.setattr(arrays_module, "_ARRAY_BATCH_ROWS", 20)
    SmallGraph(tmp_path, CROWD_EDGES, crowded.literals, others=[5, 900])
    again = np.load(tmp_path / "literal_order.npy")
    bounds = literals.offsets.tolist()
    rows = [slice(begin, end) for begin, end in pairwise(bounds)]
    for row in rows:
        assert again[row].tolist() == np.argsort(literals.keys[row], kind="stable").tolist()
    assert max(row.stop - row.start for row in rows) > 100
