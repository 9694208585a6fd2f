"""Fixtures for small graphs from N-Triples written in the test."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.graphs.rdf_lines import spell_out

from factmill.tasks.graph.load import load_graph
from factmill.tasks.graph.lookup import WikidataGraph, open_graph

Make = Callable[..., WikidataGraph]


@pytest.fixture(scope="session")
def load_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Load lines (see `spell_out`) as a graph, once for the same lines, and return its folder."""
    loaded: dict[str, Path] = {}

    def load(text: str, name: str, **options: object) -> Path:
        asked = repr((text, name, options))
        if asked not in loaded:
            folder = tmp_path_factory.mktemp("loaded")
            (folder / f"{name}.nt").write_text(spell_out(text), "utf-8", newline="")
            load_graph([folder / f"{name}.nt"], name, folder / "graphs", **options)  # type: ignore[arg-type]
            loaded[asked] = folder / "graphs" / name
        return loaded[asked]

    return load


@pytest.fixture
def make_graph(tmp_path: Path, load_once: Callable[..., Path]) -> Iterator[Make]:
    """Load lines as a graph for this test alone, and open it."""
    opened: list[WikidataGraph] = []

    def make(text: str, name: str = "small", **options: object) -> WikidataGraph:
        shutil.copytree(load_once(text, name, **options), tmp_path / "graphs" / name)
        opened.append(open_graph(name, tmp_path / "graphs"))
        return opened[-1]

    yield make
    for graph in opened:
        graph.close()
