"""Test `factmill paths` by SPARQL in the embedded world and by a local graph, for one pair and many."""

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.commands.command import Factmill

from factmill.tasks.world.data import WORLD_FOLDER
from factmill.tasks.world.files import load_world_data
from factmill.tasks.world.rdf import write_world_ntriples

PAIRS = [
    ("Albert Einstein", "Max Planck"),
    ("Q937", "14 March 1879"),
    ("Q64", "3,755,251"),
    ("Nobody At All", "Q5"),
    ("Q937", "Q937"),
]


@pytest.fixture(scope="module")
def world_graph(factmill: Factmill, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Load the embedded world's triples as a local graph with the command, and return its name."""
    file = tmp_path_factory.mktemp("triples") / "world.nt"
    with file.open("w", encoding="utf-8") as stream:
        write_world_ntriples(load_world_data(WORLD_FOLDER), stream)
    factmill.get_json("graph", "load", file, "--name", "world-of-paths", "--replace")
    return "world-of-paths"


def write_pairs(folder: Path) -> Path:
    file = folder / "pairs.csv"
    with file.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([("subject", "object"), *PAIRS])
    return file


def test_single_pair_output_shows_labels_and_ids(factmill: Factmill) -> None:
    ran = factmill("paths", "Albert Einstein", "Max Planck")
    assert ran.code == 0, ran.err
    assert "Albert Einstein (Q937) → Max Planck (Q9021): 1 path" in ran.out
    assert "Albert Einstein; award received; Max Planck Medal; named after; Max Planck" in ran.out
    assert "Q937 P166 Q317038 P138 Q9021" in ran.out


def test_graph_and_endpoint_find_same_paths_for_any_batch_size(
    factmill: Factmill, world_graph: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_pairs(tmp_path)
    by_sparql = factmill("paths", "--pairs", file, "--all-hops", "--json")
    monkeypatch.setattr("factmill.flows.commands.paths.PAIRS_PER_BATCH", 2)
    by_graph = factmill("paths", "--pairs", file, "--all-hops", "--json", "--graph", world_graph)
    assert by_sparql.code == by_graph.code == 0, by_sparql.err + by_graph.err
    result = [json.loads(line) for line in by_graph.out.splitlines()]
    assert result == [json.loads(line) for line in by_sparql.out.splitlines()]
    assert [pair["pair"] for pair in result] == list(range(5))
    assert [pair["status"] for pair in result] == ["found", "found", "found", "unknown_subject", "identical"]
    assert "pair" not in result[1]["paths"][0], "it stands above its paths"
    assert result[1]["paths"][0]["labels"] == ["Albert Einstein", "date of birth", "1879-03-14"]


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".csv"])
def test_many_pairs_are_written_to_files(factmill: Factmill, world_graph: str, tmp_path: Path, suffix: str) -> None:
    to = tmp_path / f"paths{suffix}"
    ran = factmill("paths", "--pairs", write_pairs(tmp_path), "--graph", world_graph, "--to", to)
    assert ran.code == 0, ran.err
    assert "of 5 pairs (3 found, 1 identical, 1 unknown subject)" in ran.out
    pairs = to.with_suffix(f".pairs{suffix}")
    rows = pq.read_table(pairs).num_rows if suffix == ".parquet" else len(pairs.read_text().splitlines())
    assert rows == len(PAIRS) + (suffix == ".csv")


@pytest.mark.parametrize(
    ("arguments", "code", "error", "named"),
    [
        (["Q937"], 2, "usage", "--pairs FILE"),
        (["Q937", "Q64", "--pairs", "x.csv"], 2, "usage", "--pairs FILE"),
        (["--pairs", "/absent.csv"], 2, "source", "/absent.csv"),
        (["Q937", "some day", "--as", "date"], 2, "usage", "'some day'"),
        (["Q937", "Q64", "--graph", "nowhere"], 1, "local-graph", "nowhere"),
        (["Q937", "Q64", "--to", "paths.doc"], 2, "usage", "paths.doc"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_invalid_usage_of_paths_is_explained(
    factmill: Factmill, arguments: list[str], code: int, error: str, named: str
) -> None:
    ran = factmill("paths", *arguments)
    assert (ran.code, ran.err.endswith(f" [{error}]\n"), named in ran.err) == (code, True, True), ran.err


def test_file_without_required_columns_is_named_with_row(factmill: Factmill, tmp_path: Path) -> None:
    file = tmp_path / "odd.csv"
    file.write_text("from,to\nQ1,Q2\n")
    ran = factmill("paths", "--pairs", file)
    assert (ran.code, f"{file}: row 1: the column subject is missing (found: from, to)" in ran.err) == (2, True), (
        ran.err
    )
