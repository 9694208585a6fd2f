"""Items with many dates and numbers are searched by key, and give the paths of a search through all literals."""

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from support.graphs.small_arrays import Literal, SmallGraph, rows_of, search_literals

from tasks.core.paths import PathOptions
from tasks.graph import arrays as arrays_module
from tasks.graph.arrays import open_arrays
from tasks.text.values.literals import Date, Number

EDGES = {(1, 17, 2), (1, 17, 3), (1, 31, 3), (4, 31, 1)}
WANTED = [
    [Date(1952), Date(1952, 3), Date(1952, 3, 11), Date(1960, 1, 1), Date(1900), Date(2100)],
    [Number("7"), Number("7", 11573), Number("-1"), Number("999")],
]
OPTIONS = [
    PathOptions(all_hops=all_hops, most_paths=most_paths) for all_hops in (True, False) for most_paths in (None, 1, 3)
]


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> SmallGraph:
    """Return a graph of items with some hundred literals, many of them in one year, on one day or of one number."""
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
    return SmallGraph(tmp_path_factory.mktemp("crowded"), EDGES, literals)


@pytest.mark.parametrize("has_order", [True, False], ids=["ordered", "loaded by an earlier version"])
def test_paths_are_those_of_a_search_through_all(crowded: SmallGraph, has_order: bool) -> None:
    order = crowded.folder / "literal_order.npy"
    hidden = order.with_suffix(".away")
    if not has_order:
        order.rename(hidden)
    try:
        crowded.arrays = open_arrays(crowded.folder)
    finally:
        if not has_order:
            hidden.rename(order)
    assert len(crowded.arrays.literals.order) == has_order * len(crowded.literals)
    for wanted in WANTED:
        pairs = [(subject, each) for subject in (1, 3, 4, 9) for each in wanted]
        for options in OPTIONS:
            found = crowded.find_literals(pairs, {569, 585}, options)  # type: ignore[arg-type]
            assert rows_of(found) == search_literals(crowded, pairs, {569, 585}, options)  # type: ignore[arg-type]
            assert len(found.paths)


def test_the_order_is_that_of_each_items_keys_however_many_are_sorted_at_once(
    crowded: SmallGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    literals = crowded.arrays.literals
    monkeypatch.setattr(arrays_module, "_ROWS_AT_ONCE", 20)
    SmallGraph(tmp_path, EDGES, crowded.literals, others=[5, 900])
    again = np.load(tmp_path / "literal_order.npy")
    bounds = literals.offsets.tolist()
    rows = [slice(begin, end) for begin, end in pairwise(bounds)]
    for row in rows:
        assert again[row].tolist() == np.argsort(literals.keys[row], kind="stable").tolist()
    assert max(row.stop - row.start for row in rows) > 100
