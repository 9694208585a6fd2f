"""The arrays of a graph that would fill much of the memory are not read ahead, and say the same."""

import sys
from pathlib import Path

import pytest
from support.graphs.small_arrays import SmallGraph, rows_of, search_items

from tasks.core.paths import PathOptions
from tasks.graph import arrays as arrays_module
from tasks.graph.arrays import find_memory, open_arrays

EDGES = {(start, 17, end) for start in range(1, 40) for end in range(start, 40, start)}
PAIRS = [(2, 12), (12, 2), (3, 39), (1, 1)]


def count_advised(folder: Path) -> int:
    """Return how many mapped files of a folder this process reads here and there (`rr` of proc(5), smaps)."""
    advised, is_ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            is_ours = str(folder) in line
        elif line.startswith("VmFlags:") and is_ours:
            advised += " rr " in f"{line} "
    return advised


@pytest.mark.skipif(sys.platform != "linux", reason="what was advised is told by Linux alone")
@pytest.mark.parametrize(("memory", "advised"), [(1, True), (1 << 40, False)], ids=["little memory", "much memory"])
def test_pages_are_read_one_by_one_where_memory_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int, advised: bool
) -> None:
    graph = SmallGraph(tmp_path, EDGES)
    monkeypatch.setattr(arrays_module, "find_memory", lambda: memory)
    graph.arrays = open_arrays(tmp_path)
    assert (count_advised(tmp_path) > 8) == advised
    options = PathOptions(all_hops=True)
    assert rows_of(graph.find_items(PAIRS, options)) == search_items(graph, PAIRS, options)


def test_the_memory_of_a_container_is_what_it_may_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(arrays_module, "_LIMITS", (str(tmp_path / "none"), str(limit)))
    of_machine = find_memory()
    limit.write_text("max\n")
    assert find_memory() == of_machine
    limit.write_text("123456\n")
    assert find_memory() == 123_456
