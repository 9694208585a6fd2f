"""What dates and numbers say is read by their ids as the table says it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.graphs.small_arrays import Literal, SmallGraph

from tasks.core.paths import PathOptions
from tasks.errors import GraphError
from tasks.graph.literal_texts import open_literal_texts
from tasks.graph.lookup import Graph, open_graph
from tasks.text.values.literals import Date, Number

LITERALS = [
    Literal(5, 1082, None, None, "7"),
    Literal(5, 1082, None, "q5-A", "+1.50", unit=10**17),
    Literal(5, 1082, 585, "q5-A", "1952-00-00T00:00:00Z", precision=9, main="+1.50"),
    Literal(5, 1082, 1082, "q5-A", "1952-01-01T00:00:00Z", precision=0, main=""),
    Literal(7, 569, None, "q7-ü", "-0043-03-15T00:00:00Z", precision=11, main="a\0b\0"),
]
COLUMNS = ["property", "qualifier", "statement", "value", "precision", "unit", "main", "number"]

LINES = """
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
def test_rows_are_those_of_the_table(tmp_path: Path, ids: list[int]) -> None:
    graph = SmallGraph(tmp_path, {(5, 31, 7)}, LITERALS)
    told = graph.read_literals(np.array(ids, np.int64)).select(COLUMNS).to_pylist()
    stored = graph.connection.sql(f"SELECT {', '.join(COLUMNS)} FROM literals ORDER BY id").to_arrow_table().to_pylist()
    assert told == [stored[each] for each in ids]


def test_a_graph_without_literals_has_no_texts(tmp_path: Path) -> None:
    SmallGraph(tmp_path, {(5, 31, 7)})
    found = open_literal_texts(tmp_path, 0)
    assert found is not None
    assert (found.offsets.tolist(), found.texts.tolist(), found.marks.tolist()) == ([0], [], [])


def test_texts_that_are_not_those_of_the_literals_are_refused(tmp_path: Path) -> None:
    SmallGraph(tmp_path, {(5, 31, 7)}, LITERALS)
    with pytest.raises(
        GraphError, match=r"literal_texts\.npy: does not fit the 9 literals.*damaged; .*factmill graph load"
    ):
        open_literal_texts(tmp_path, 9)


def test_a_graph_of_an_earlier_version_is_asked_by_its_table(make_graph: Callable[..., Graph], tmp_path: Path) -> None:
    graph = make_graph(LINES)
    folder = tmp_path / "graphs" / "small"
    manifest = graph.manifest
    old = manifest.model_copy(
        update={
            "files": {
                name: each
                for name, each in manifest.files.items()
                if "literal_text" not in name and "marks" not in name
            }
        }
    )
    asked = (
        np.array([5, 5, 7]),
        [Date(1952, 3), Date(1237), Date(1237)],
        frozenset({569, 571}),
        PathOptions(all_hops=True),
    )
    numbers = (np.array([5]), [Number("7.5")], frozenset({1082}), PathOptions())
    new = [graph.find_literal_paths(*asked), graph.find_literal_paths(*numbers)]
    for name in manifest.files.keys() - old.files.keys():
        (folder / name).unlink()
    (folder / "manifest.json").write_text(old.model_dump_json())
    with open_graph("small", tmp_path / "graphs") as again:
        found = [again.find_literal_paths(*asked), again.find_literal_paths(*numbers)]
    assert [each.paths.to_pylist() for each in found] == [each.paths.to_pylist() for each in new]
    assert [len(each.paths) for each in new] == [3, 1]
