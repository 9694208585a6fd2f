"""Small graphs made from N-Triples written in the test itself."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.graphs.rdf_lines import spell_out

from tasks.graph.load import load_graph
from tasks.graph.lookup import Graph, open_graph

Make = Callable[..., Graph]


@pytest.fixture
def make_graph(tmp_path: Path) -> Iterator[Make]:
    """Load lines (see `spell_out`) as a graph and open it."""
    opened: list[Graph] = []

    def make(text: str, name: str = "small", **options: object) -> Graph:
        source = tmp_path / f"{name}.nt"
        source.write_text(spell_out(text), "utf-8", newline="")
        load_graph([source], name, tmp_path / "graphs", **options)  # type: ignore[arg-type]
        opened.append(open_graph(name, tmp_path / "graphs"))
        return opened[-1]

    yield make
    for graph in opened:
        graph.close()
