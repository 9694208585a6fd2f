"""Test a graph's arrays: written and read back, and refused when damaged."""

import hashlib
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs.small_arrays import Literal, SmallGraph, rows_of, search_items

from factmill.tasks.core.wikidata_paths import PathSearchOptions
from factmill.tasks.errors import LocalGraphError
from factmill.tasks.graph import arrays as arrays_module
from factmill.tasks.graph.arrays import (
    ARRAY_FILES,
    get_machine_or_container_memory_bytes,
    open_mapped_graph_arrays,
    write_graph_arrays,
)
from factmill.tasks.graph.lookup import WikidataGraph, open_graph
from factmill.tasks.text.values.wikidata_literals import (
    PartialDate,
    WantedNumberWithUnit,
    compute_xsd_datetime_day_key,
    hash_canonical_number,
)

EDGES = {(5, 31, 7), (5, 17, 7), (5, 31, 3), (900, 17, 5), (7, 17, 7), (3, 31, 7)}
LITERALS = [
    Literal(7, 569, None, None, "1952-03-11T00:00:00Z"),
    Literal(5, 1082, None, "q5-A", "+1.50", unit=11573),
    Literal(5, 1082, 585, "q5-A", "1952-00-00T00:00:00Z", precision=9, main="+1.50"),
]


def digest_files(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def test_each_edge_is_in_rows_of_both_its_items(tmp_path: Path) -> None:
    found = SmallGraph(tmp_path, EDGES, LITERALS, others=[4]).arrays
    assert found.items.numbers.tolist() == [3, 4, 5, 7, 900]
    assert found.properties.tolist() == [17, 31, 569, 585, 1082]
    assert found.out.offsets.tolist() == [0, 1, 1, 4, 5, 6]
    assert found.out.items.tolist() == [3, 0, 3, 3, 3, 2]
    assert found.out.properties.tolist() == [1, 1, 0, 1, 0, 0]
    assert found.into.offsets.tolist() == [0, 1, 1, 2, 6, 6]
    assert found.into.items.tolist() == [2, 4, 0, 2, 2, 3]
    assert found.into.properties.tolist() == [1, 0, 1, 0, 1, 0]


def test_literals_are_grouped_by_item_with_property_key_and_precision(tmp_path: Path) -> None:
    found = SmallGraph(tmp_path, EDGES, LITERALS, others=[4]).arrays.literals
    assert found.offsets.tolist() == [0, 0, 0, 2, 3, 3]
    assert found.properties.tolist() == [4, 3, 2]
    assert found.claims.tolist() == [4, 4, 2]
    assert found.keys.tolist() == [
        hash_canonical_number("1.5"),
        compute_xsd_datetime_day_key("1952-00-00T00:00:00Z"),
        19520311,
    ]
    assert found.precisions.tolist() == [0, 9, 11]


def test_graph_without_edges_or_literals_has_empty_rows(tmp_path: Path) -> None:
    found = SmallGraph(tmp_path, set(), others=[2]).arrays
    assert (found.out.offsets.tolist(), found.into.items.tolist(), found.literals.keys.tolist()) == ([0, 0], [], [])
    (tmp_path / "none").mkdir()
    assert SmallGraph(tmp_path / "none", set()).arrays.items.find_places(np.array([0, 5])).tolist() == [-1, -1]


def test_row_order_and_block_size_do_not_change_array_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edges = [(s, 17 + s % 3, o) for s in range(1, 400, 7) for o in range(1, 200, 13)]
    digests = []
    for name, rows_at_once in (("a", 1 << 20), ("b", 8)):
        monkeypatch.setattr(arrays_module, "_ARRAY_BATCH_ROWS", rows_at_once)
        monkeypatch.setattr(arrays_module, "_BITMAP_BATCH_WORDS", 1 + rows_at_once // 5)
        (tmp_path / name).mkdir()
        SmallGraph(tmp_path / name, edges, LITERALS, others=range(5000, 6000))
        digests.append(digest_files(tmp_path / name))
        edges.reverse()
    assert digests[0].keys() >= set(ARRAY_FILES)
    assert digests[0] == digests[1]


NUMBERS = st.integers(1, 300) | st.integers(1, 10**6) | st.integers(10**17, 10**17 + 70)


@settings(max_examples=30, deadline=None)
@given(items=st.sets(NUMBERS, max_size=60), others=st.lists(NUMBERS | st.integers(-(2**63), 2**63 - 1), max_size=30))
def test_index_of_item_is_its_rank_and_unknown_items_have_none(
    tmp_path_factory: pytest.TempPathFactory, items: set[int], others: list[int]
) -> None:
    index = SmallGraph(tmp_path_factory.mktemp("items"), set(), others=items).arrays.items
    asked = [*sorted(items), *others]
    ranks = {item: place for place, item in enumerate(sorted(items))}
    assert index.find_places(np.array(asked, np.int64)).tolist() == [ranks.get(each, -1) for each in asked]


def test_too_many_properties_are_rejected_with_count(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE edges AS SELECT 1 AS subject, range::INTEGER AS property, 2 AS object FROM range(65536)"
        )
        connection.execute("CREATE TABLE literals (property INTEGER, qualifier INTEGER)")
        connection.execute("CREATE TABLE items AS SELECT unnest([1, 2])::BIGINT AS item")
        with pytest.raises(LocalGraphError, match=r"use 65,536 properties; .* 65,535"):
            write_graph_arrays(connection, tmp_path)


def test_inconsistent_tables_are_rejected(tmp_path: Path) -> None:
    graph = SmallGraph(tmp_path, EDGES, LITERALS)
    graph.connection.execute("DELETE FROM items WHERE item = 900")
    with pytest.raises(LocalGraphError, match="Q900 is in table edges, but not in table items"):
        write_graph_arrays(graph.connection, tmp_path)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def garble(file: Path) -> None:
    file.write_bytes(b"no array" * 20)


def retype(file: Path) -> None:
    np.save(file, np.load(file).astype(np.float64))


def lengthen(file: Path) -> None:
    array = np.load(file)
    np.save(file, np.concatenate([array, array[-1:] if len(array) else array]))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    SmallGraph(folder, EDGES, LITERALS)
    return folder


# A graph without the order or the texts is of an earlier version; the error also names a file that the manifest lists
# and that is missing.
DAMAGES = [
    pytest.param(name, damage, id=f"{name}-{damage.__name__}")
    for name in ARRAY_FILES
    for damage in (Path.unlink, cut, garble, retype)
    if damage is not Path.unlink or name not in ("literal_order.npy", "literal_texts.npy")
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "damage"), DAMAGES)
def test_damaged_array_is_rejected_by_name(
    written: Path, tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    damage(tmp_path / name)
    with pytest.raises(LocalGraphError, match=name) as raised:
        open_mapped_graph_arrays(tmp_path)
    assert "load it again" in str(raised.value)


@pytest.mark.parametrize("name", [name for name in ARRAY_FILES if name != "properties.npy"])
def test_arrays_of_inconsistent_lengths_are_rejected_by_name(written: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    lengthen(tmp_path / name)
    with pytest.raises(LocalGraphError, match=r"\.npy: has \d+ entries, expected \d+"):
        open_mapped_graph_arrays(tmp_path)


TOLD = [
    Literal(5, 1082, None, None, "7"),
    Literal(5, 1082, None, "q5-A", "+1.50", unit=10**17),
    Literal(5, 1082, 585, "q5-A", "1952-00-00T00:00:00Z", precision=9, main="+1.50"),
    Literal(5, 1082, 1082, "q5-A", "1952-01-01T00:00:00Z", precision=0, main=""),
    Literal(7, 569, None, "q7-ü", "-0043-03-15T00:00:00Z", precision=11, main="a\0b\0"),
]
COLUMNS = ["property", "qualifier", "statement", "value", "precision", "unit", "main", "number"]

LOADED = """
    wd:Q5 wdt:P569 "1952-03-11T00:00:00Z"^^xsd:dateTime
    wd:Q5 wdt:P1082 "+07.50"^^xsd:decimal
    wd:Q7 p:P571 wds:q7-c
    wds:q7-c ps:P571 "1237-01-01T00:00:00Z"^^xsd:dateTime
    wds:q7-c psv:P571 v:one
    v:one wikibase:timeValue "1237-01-01T00:00:00Z"^^xsd:dateTime
    v:one wikibase:timePrecision "9"^^xsd:integer
    wd:Q5 wdt:P31 wd:Q7
"""


@pytest.mark.parametrize("ids", [[0, 1, 2, 3, 4], [3], [0, 4], []])
def test_literal_rows_match_database_table(tmp_path: Path, ids: list[int]) -> None:
    graph = SmallGraph(tmp_path, {(5, 31, 7)}, TOLD)
    result = graph.read_literals(np.array(ids, np.int64)).select(COLUMNS).to_pylist()
    stored = graph.connection.sql(f"SELECT {', '.join(COLUMNS)} FROM literals ORDER BY id").to_arrow_table().to_pylist()
    assert result == [stored[each] for each in ids]


def test_graph_without_literals_has_empty_texts(tmp_path: Path) -> None:
    found = SmallGraph(tmp_path, {(5, 31, 7)}).arrays.texts
    assert found is not None
    assert [each.tolist() for each in found] == [[0], [], []]


def test_graph_of_older_version_is_queried_through_its_table(
    make_graph: Callable[..., WikidataGraph], tmp_path: Path
) -> None:
    graph = make_graph(LOADED)
    folder = tmp_path / "graphs" / "small"
    manifest = graph.manifest
    files = {name: each for name, each in manifest.files.items() if not re.search("literal_(text|marks)", name)}
    old = manifest.model_copy(update={"files": files})
    dates = [PartialDate(1952, 3), PartialDate(1237), PartialDate(1237)]
    asked = (np.array([5, 5, 7]), dates, frozenset({569, 571}), PathSearchOptions(always_two_hops=True))
    numbers = (np.array([5]), [WantedNumberWithUnit("7.5")], frozenset({1082}), PathSearchOptions())
    new = [graph.find_literal_paths(*asked), graph.find_literal_paths(*numbers)]
    for name in manifest.files.keys() - old.files.keys():
        (folder / name).unlink()
    (folder / "manifest.json").write_text(old.model_dump_json())
    with open_graph("small", tmp_path / "graphs") as again:
        found = [again.find_literal_paths(*asked), again.find_literal_paths(*numbers)]
    assert [each.paths.to_pylist() for each in found] == [each.paths.to_pylist() for each in new]
    assert [len(each.paths) for each in new] == [3, 1]


MANY_EDGES = {(start, 17, end) for start in range(1, 40) for end in range(start, 40, start)}
SOME_PAIRS = [(2, 12), (12, 2), (3, 39), (1, 1)]


def count_advised(folder: Path) -> int:
    """Return how many mapped files of a folder this process reads at random (`rr` of proc(5), smaps)."""
    advised, is_ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            is_ours = str(folder) in line
        elif line.startswith("VmFlags:") and is_ours:
            advised += " rr " in f"{line} "
    return advised


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the advice given for a mapping")
@pytest.mark.parametrize(("memory", "advised"), [(1, True), (1 << 40, False)], ids=["little memory", "much memory"])
def test_random_access_is_advised_only_if_memory_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int, advised: bool
) -> None:
    graph = SmallGraph(tmp_path, MANY_EDGES)
    monkeypatch.setattr(arrays_module, "get_machine_or_container_memory_bytes", lambda: memory)
    graph.arrays = open_mapped_graph_arrays(tmp_path)
    assert (count_advised(tmp_path) > 8) == advised
    options = PathSearchOptions(always_two_hops=True)
    assert rows_of(graph.find_items(SOME_PAIRS, options)) == search_items(graph, SOME_PAIRS, options)


def test_memory_limit_of_container_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(arrays_module, "_CGROUP_LIMIT_FILES", (str(tmp_path / "none"), str(limit)))
    of_machine = get_machine_or_container_memory_bytes()
    limit.write_text("max\n")
    assert get_machine_or_container_memory_bytes() == of_machine
    limit.write_text("123456\n")
    assert get_machine_or_container_memory_bytes() == 123_456
