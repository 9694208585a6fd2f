"""What becomes of a half load: when it is dropped, kept, replaced or removed."""

import gzip
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support.graphs.half_loads import LINES, MORE, Loads, contents, names_in

from tasks.errors import GraphError, SourceError
from tasks.graph.folders import list_graphs, remove_graph
from tasks.graph.load import load_graph
from tasks.graph.load_progress import LoadProgress
from tasks.graph.loading import reading
from tasks.graph.manifest import loading_path


def test_nothing_is_left_when_nothing_was_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "COMMIT_TEXT_BYTES", 1 << 30)
    path = tmp_path / "a.nt.gz"
    path.write_bytes(gzip.compress("".join(LINES).encode())[:-9])
    with pytest.raises(SourceError, match=r"fetch it again$"):
        load_graph([path], "small", tmp_path / "graphs")
    assert names_in(tmp_path / "graphs") == []


def change_first(files: Sequence[Path]) -> None:
    files[0].write_text("".join(LINES).replace("item 3", "item 03"), "utf-8")


def change_second(files: Sequence[Path]) -> None:
    files[1].write_bytes(gzip.compress("".join(MORE).replace("item 151", "item 0151").encode()))


@pytest.mark.parametrize("change", [change_first, change_second], ids=["finished", "half read"])
def test_a_changed_file_is_told_and_all_is_read_anew(loads: Loads, change: Callable[[Sequence[Path]], None]) -> None:
    def stop_in_second(news: LoadProgress) -> None:
        if news.lines > len(LINES) + len(MORE) // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_graph(loads.files, "small", loads.folder, progress=stop_in_second)
    change(loads.files)
    made = loads.run()
    assert "going on behind line" in loads.notices[0]
    assert "does not hold what was read from it before; the half load is dropped" in loads.notices[1]
    assert contents(made) == contents(loads.run("straight"))


@pytest.mark.parametrize("other", ["languages", "files", "form"])
def test_a_half_load_of_another_request_is_dropped(loads: Loads, other: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        loads.run(stop_after=60)
    options: dict[str, object] = {"languages": {"languages": ["en", "de"]}, "form": {"form": "turtle"}}.get(other, {})
    if other == "files":
        loads.files = loads.files[:1]
    made = loads.run(**options)
    assert loads.notices == ["graph small: a half load of other files or options, or by another version, is dropped"]
    assert contents(made) == contents(loads.run("straight", **options))


def test_a_half_load_by_other_code_is_dropped(loads: Loads) -> None:
    with pytest.raises(KeyboardInterrupt):
        loads.run(stop_after=60)
    path = loading_path("small", loads.folder) / "request.json"
    path.write_text(path.read_text().replace('"code": "', '"code": "0'))
    loads.run()
    assert "is dropped" in loads.notices[0]


def test_a_staging_database_that_cannot_be_used_is_named_and_not_dropped(loads: Loads) -> None:
    with pytest.raises(KeyboardInterrupt):
        loads.run(stop_after=60)
    path = loading_path("small", loads.folder) / "staging.duckdb"
    path.write_bytes(b"\x5a" * path.stat().st_size)
    with pytest.raises(GraphError, match=r"staging\.duckdb: the half load cannot be gone on.*graph remove small"):
        loads.run()
    assert path.exists()
    assert remove_graph("small", loads.folder) == "half load"
    assert names_in(loads.folder) == []
    loads.run()


def test_a_replacement_is_gone_on_with_beside_the_old_graph(loads: Loads) -> None:
    old = loads.run()
    with pytest.raises(KeyboardInterrupt):
        loads.run(stop_after=60, replace=True)
    assert [(each.name, each.state) for each in list_graphs(loads.folder)] == [
        ("small", "whole"),
        ("small", "half loaded"),
    ]
    assert str(list_graphs(loads.folder)[1].advice).startswith(f"to go on: factmill graph load {loads.files[0]} ")
    assert " --name=small --replace;" in str(list_graphs(loads.folder)[1].advice)
    assert contents(loads.run(replace=True)) == contents(old)
    assert "going on behind line" in loads.notices[0]
    assert [each.state for each in list_graphs(loads.folder)] == ["whole"]


def test_a_half_load_is_removed_before_the_graph(loads: Loads) -> None:
    loads.run()
    with pytest.raises(KeyboardInterrupt):
        loads.run(stop_after=60, replace=True)
    assert remove_graph("small", loads.folder) == "half load"
    assert names_in(loads.folder) == ["small"]
    assert remove_graph("small", loads.folder) == "graph"
    assert names_in(loads.folder) == []
    with pytest.raises(GraphError, match="no graph small"):
        remove_graph("small", loads.folder)


def test_what_is_being_loaded_is_neither_loaded_nor_removed(loads: Loads) -> None:
    refused: list[str] = []

    def meddle(news: LoadProgress) -> None:
        for act in (
            lambda: load_graph(loads.files, "small", loads.folder),
            lambda: remove_graph("small", loads.folder),
        ):
            with pytest.raises(GraphError, match=r"graph small is being loaded into .* by another process") as raised:
                act()
            refused.append(str(raised.value))
        assert [each.state for each in list_graphs(loads.folder)] == ["loading"]

    load_graph(loads.files, "small", loads.folder, progress=meddle)
    assert refused
    assert names_in(loads.folder) == ["small"]


def test_what_a_crash_left_of_a_removed_graph_goes_with_the_next_load(loads: Loads) -> None:
    loads.run()
    shutil.copytree(loads.folder / "small", loads.folder / ".small.old")
    loads.run(replace=True)
    assert names_in(loads.folder) == ["small"]
