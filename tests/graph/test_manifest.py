"""Test the manifest of a graph folder, and which graphs are refused."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grimp
import pytest
from support.graphs.rdf_lines import spell_out

from factmill.tasks.errors import LocalGraphError
from factmill.tasks.graph import folders as checking
from factmill.tasks.graph import load as load_module
from factmill.tasks.graph.folders import (
    GraphManifest,
    digest_graph_files_and_find_damaged,
    list_graph_statuses,
    load_manifest_and_check_files,
)
from factmill.tasks.graph.load import load_graph
from factmill.tasks.graph.lookup import open_graph

LINES = """
    wd:Q1 wdt:P31 wd:Q5
    wd:Q1 wdt:P19 wd:Q64
    wd:Q1 rdfs:label "Ada"@en
    wd:Q1 wdt:P569 "1815-12-10T00:00:00Z"^^xsd:dateTime
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Load a graph named `small` and return its parent folder."""
    folder = tmp_path_factory.mktemp("loaded")
    (folder / "a.nt").write_text(spell_out(LINES), "utf-8")
    load_graph([folder / "a.nt"], "small", folder / "graphs")
    return folder / "graphs"


@pytest.fixture
def graphs(loaded: Path, tmp_path: Path) -> Path:
    """Return a copy of the folder, each file checked once."""
    shutil.copytree(loaded, tmp_path / "graphs")
    load_manifest_and_check_files("small", tmp_path / "graphs")
    return tmp_path / "graphs"


@pytest.fixture
def digested(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the files that are digested."""
    names: list[str] = []
    real = checking._digest_files

    def note(paths: list[Path], *rest: Any, **options: bool) -> list[str]:
        names.extend(path.name for path in paths)
        return real(paths, *rest, **options)

    monkeypatch.setattr(checking, "_digest_files", note)
    return names


def flip(path: Path, place: int) -> None:
    """Change one bit of a file in place."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    with path.open("r+b") as file:
        file.write(content)


def test_manifest_lists_every_file_with_size_and_digest(loaded: Path) -> None:
    made = load_manifest_and_check_files("small", loaded)
    there = {path.name for path in (loaded / "small").iterdir()}
    assert made.files.keys() == there - {"manifest.json", "checked.json"}
    assert {"graph.duckdb", "items.npy", "out_offsets.npy"} <= made.files.keys()
    for name, file in made.files.items():
        content = (loaded / "small" / name).read_bytes()
        assert (file.size_bytes, file.sha256) == (len(content), hashlib.sha256(content).hexdigest())


def test_locally_loaded_graph_opens_without_reading_its_files(loaded: Path, digested: list[str]) -> None:
    open_graph("small", loaded).close()
    open_graph("small", loaded).close()
    assert digested == []


def test_copied_graph_is_digested_once(loaded: Path, tmp_path: Path, digested: list[str]) -> None:
    shutil.copytree(loaded, tmp_path / "graphs")
    files = load_manifest_and_check_files("small", tmp_path / "graphs").files
    assert sorted(digested) == sorted(files)
    load_manifest_and_check_files("small", tmp_path / "graphs")
    assert len(digested) == len(files)


def test_only_touched_file_is_digested_again(graphs: Path, digested: list[str]) -> None:
    os.utime(graphs / "small" / "items.npy", (1, 1))
    load_manifest_and_check_files("small", graphs)
    assert digested == ["items.npy"]


def test_graph_on_read_only_disk_is_digested_each_time(
    graphs: Path, digested: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (graphs / "small" / "checked.json").unlink()

    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "write_bytes", refuse)
    for times in (1, 2):
        load_manifest_and_check_files("small", graphs)
        assert digested.count("graph.duckdb") == times
    assert not (graphs / "small" / "checked.json").exists()


@pytest.mark.parametrize("note", ["", "{", "[]", '{"graph.duckdb": 1}'])
def test_unreadable_check_record_is_ignored(graphs: Path, digested: list[str], note: str) -> None:
    (graphs / "small" / "checked.json").write_text(note)
    files = load_manifest_and_check_files("small", graphs).files
    assert sorted(digested) == sorted(files)


@pytest.mark.slow
def test_flipped_bit_in_any_file_is_rejected_by_name(graphs: Path) -> None:
    names = list(load_manifest_and_check_files("small", graphs).files)
    for name in names:
        path = graphs / "small" / name
        for place in (0, path.stat().st_size // 2, -1):
            flip(path, place)
            with pytest.raises(
                LocalGraphError, match=rf"{name}: has SHA-256 \w+…, expected .*damaged; load it again"
            ) as error:
                open_graph("small", graphs)
            assert "--name small --replace" in str(error.value)
            flip(path, place)
            open_graph("small", graphs).close()


def test_full_check_reads_even_files_that_look_untouched(graphs: Path) -> None:
    path = graphs / "small" / "graph.duckdb"
    times = path.stat()
    flip(path, -1)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    load_manifest_and_check_files("small", graphs)
    lines: list[tuple[int, int]] = []
    made, damage = digest_graph_files_and_find_damaged("small", graphs, lambda read, total: lines.append((read, total)))
    assert damage.keys() == {"graph.duckdb"}
    total = sum(file.size_bytes for file in made.files.values())
    assert lines[-1] == (total, total)
    # later opens know the damage
    with pytest.raises(LocalGraphError, match=r"graph\.duckdb: has SHA-256"):
        load_manifest_and_check_files("small", graphs)
    flip(path, -1)
    assert digest_graph_files_and_find_damaged("small", graphs)[1] == {}


def change_manifest(**changes: object) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        content = json.loads((path / "manifest.json").read_text("utf-8"))
        (path / "manifest.json").write_text(json.dumps({**content, **changes}), "utf-8")

    return change


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda path: (path / "manifest.json").unlink(), r"no manifest\.json"),
        (lambda path: (path / "manifest.json").write_text("{"), r"manifest\.json: damaged"),
        (lambda path: (path / "manifest.json").write_text("[]"), r"manifest\.json: damaged"),
        (lambda path: (path / "manifest.json").write_bytes(b"\xff"), r"manifest\.json: damaged"),
        (change_manifest(lines="many"), r"manifest\.json: damaged \(lines: "),
        (lambda path: (path / "graph.duckdb").unlink(), r"graph\.duckdb: is missing"),
        (lambda path: (path / "in_items.npy").unlink(), r"in_items\.npy: is missing"),
        (lambda path: os.truncate(path / "graph.duckdb", 5000), r"graph\.duckdb: has 5,000 bytes, expected"),
        (change_manifest(format_version=99), r"written by a newer version of factmill \(format 99, expected 3\)"),
        (
            change_manifest(format_version=1, files={"graph.duckdb": 3}),
            r"written by an older version of factmill \(format 1, expected 3\)",
        ),
    ],
    ids=["none", "cut", "list", "not text", "wrong type", "no database", "no array", "cut database", "newer", "older"],
)
def test_damaged_graph_error_explains_how_to_reload(graphs: Path, damage: Callable[[Path], None], what: str) -> None:
    damage(graphs / "small")
    with pytest.raises(LocalGraphError, match=what) as raised:
        open_graph("small", graphs)
    assert "factmill graph load FILE... --name small --replace" in str(raised.value)
    (found,) = list_graph_statuses(graphs)
    assert (found.state, found.manifest) == ("damaged", None)
    assert found.advice == str(raised.value)


def test_database_damage_behind_forged_manifest_raises_named_error(graphs: Path) -> None:
    path = graphs / "small" / "graph.duckdb"
    content = path.read_bytes()
    path.write_bytes(content[:12_288] + b"\x5a" * (len(content) - 12_288))
    manifest = GraphManifest.model_validate_json((graphs / "small" / "manifest.json").read_bytes())
    forged = checking.GraphFileDigest(size_bytes=len(content), sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    files = {**manifest.files, "graph.duckdb": forged}
    (graphs / "small" / "manifest.json").write_text(manifest.model_copy(update={"files": files}).model_dump_json())
    with pytest.raises(LocalGraphError, match=r"graph\.duckdb: cannot be (opened|read)"):
        open_graph("small", graphs).find_labels(["Q1"])


def test_one_damaged_graph_does_not_hide_others(graphs: Path) -> None:
    shutil.copytree(graphs / "small", graphs / "other")
    (graphs / "other" / "manifest.json").unlink()
    (graphs / "words.txt").write_text("no graph")
    assert [(each.name, each.state) for each in list_graph_statuses(graphs)] == [
        ("other", "damaged"),
        ("small", "whole"),
    ]
    assert list_graph_statuses(graphs / "nowhere") == []


def test_reading_modules_list_every_module_that_affects_rows() -> None:
    modules = grimp.build_graph("factmill", cache_dir=None).find_upstream_modules(
        "factmill.tasks.graph.loading.line_patterns"
    )
    of_room = {
        name.removeprefix("factmill.tasks.graph.loading.").replace(".", "/") for name in modules if ".graph." in name
    }
    assert set(load_module.READING_MODULES) == of_room | {"line_patterns"}
