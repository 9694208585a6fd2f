"""Loads of small files in small blocks."""

from pathlib import Path

import pytest
from support.graphs.half_loads import Loads, contents, write_files

from tasks.graph.load import load_graph
from tasks.graph.loading import reading
from tasks.graph.loading.sources import streams, turtle


@pytest.fixture(autouse=True)
def sorted_blocks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make blocks small and commit every few; return the first lines of all that are sorted."""
    monkeypatch.setattr(streams, "BLOCK_BYTES", 4000)
    monkeypatch.setattr(turtle, "TRIPLES_AT_ONCE", 30)
    monkeypatch.setattr(reading, "COMMIT_TEXT_BYTES", 24_000)
    first_lines: list[int] = []
    real = reading.sort_block

    def note(block: streams.Block, shapes: object) -> object:
        first_lines.append(block.first_line)
        return real(block, shapes)  # type: ignore[arg-type]

    monkeypatch.setattr(reading, "sort_block", note)
    return first_lines


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return write_files(tmp_path)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Return the contents of the files' graph from a load that nothing stops, in blocks of the usual size."""
    folder = tmp_path_factory.mktemp("straight")
    return contents(load_graph(write_files(folder), "straight", folder / "graphs"))


@pytest.fixture
def loads(tmp_path: Path, files: list[Path]) -> Loads:
    return Loads(files, tmp_path / "graphs")
