"""A half load after a day: the machine was started anew, files were touched, renamed, moved or changed."""

import os
import signal
from pathlib import Path

import pytest
from support.graphs.half_loads import LINES, Loads, contents, names_in, run_in_small_steps

from tasks.errors import GraphError
from tasks.graph.folders import list_graphs, read_request
from tasks.graph.load_progress import LoadProgress
from tasks.graph.manifest import loading_path

KILLED = (
    "news = []\n"
    "def hear(told):\n"
    "    news.append(told)\n"
    "    if len(news) == 40: os.kill(os.getpid(), signal.SIGKILL)\n"
    "load.load_graph(files, 'small', folder, progress=hear)"
)


def rename_and_touch(loads: Loads) -> None:
    moved = loads.folder.parent / "moved"
    moved.mkdir()
    loads.files = [file.rename(moved / f"new-{file.name}") for file in loads.files]
    for file in loads.files:
        os.utime(file, (1, 1))


def test_a_half_load_of_files_that_were_renamed_and_touched_is_gone_on_with(
    loads: Loads, straight: dict[str, object]
) -> None:
    old = [str(file) for file in loads.files]
    with pytest.raises(KeyboardInterrupt):
        loads.run(stop_after=60)
    rename_and_touch(loads)
    with pytest.raises(KeyboardInterrupt):
        loads.run(stop_after=5)
    assert loads.notices[0].endswith(f"the half load of {', '.join(old)}, since the files have the same sizes")
    assert "going on behind line" in loads.notices[1]
    (found,) = list_graphs(loads.folder)
    assert f"to go on: factmill graph load {loads.files[0]} " in str(found.advice)
    made = loads.run()
    assert ["going on behind line" in notice for notice in loads.notices] == [True]
    assert [source.path for source in made.sources] == [str(file) for file in loads.files]
    told = contents(made)
    sources = [{**source, "path": source["path"].removeprefix("new-")} for source in told["sources"]]  # type: ignore[attr-defined]
    assert {**told, "sources": tuple(sources)} == straight


def test_other_files_of_the_same_sizes_are_told_and_read_anew(loads: Loads) -> None:
    with pytest.raises(KeyboardInterrupt):
        loads.run(stop_after=60)
    rename_and_touch(loads)
    Path(loads.files[0]).write_text("".join(LINES).replace("item 3", "item 4"), "utf-8")
    made = loads.run()
    assert "does not hold what was read from it before; the half load is dropped" in loads.notices[2]
    assert contents(made) == contents(loads.run("straight"))


@pytest.mark.parametrize("longer", [0, 1], ids=["same size", "other size"])
def test_a_file_that_was_changed_when_all_was_read_is_told_and_read_anew(loads: Loads, longer: int) -> None:
    def stop(news: LoadProgress) -> None:
        if news.phase == "sorting":
            raise OSError(28, "No space left on device")

    with pytest.raises(GraphError, match="No space left"):
        loads.run(progress=stop)
    loads.files[0].write_text("".join(LINES).replace("item 3", "item 4" + longer * "4"), "utf-8")
    made = loads.run()
    assert "all files are read already" in loads.notices[0]
    assert "does not hold what was read from it before; the half load is dropped" in loads.notices[1]
    assert contents(made) == contents(loads.run("straight"))


@pytest.mark.parametrize("lost", [1, 5000])
def test_rows_that_a_loss_of_power_cut_are_read_again(loads: Loads, straight: dict[str, object], lost: int) -> None:
    assert run_in_small_steps(KILLED, loads.folder, loads.files).code == -signal.SIGKILL
    written = loading_path("small", loads.folder) / "staging.duckdb.wal"
    whole = written.stat().st_size
    os.truncate(written, whole - lost)
    assert contents(loads.run()) == straight
    assert "going on behind line" in loads.notices[0]


def test_a_half_load_whose_rows_are_gone_is_told_and_read_anew(loads: Loads, straight: dict[str, object]) -> None:
    with pytest.raises(KeyboardInterrupt):
        loads.run(stop_after=60)
    beside = loading_path("small", loads.folder)
    for name in names_in(beside):
        if name.startswith("staging"):
            (beside / name).unlink()
    assert contents(loads.run()) == straight
    assert loads.notices == ["graph small: the rows of the half load are gone; all is read anew"]


def test_a_note_that_was_cut_is_told_and_all_is_read_anew(loads: Loads, straight: dict[str, object]) -> None:
    with pytest.raises(KeyboardInterrupt):
        loads.run(stop_after=60)
    beside = loading_path("small", loads.folder)
    os.truncate(beside / "request.json", 0)
    assert read_request(beside) is None
    assert contents(loads.run()) == straight
    assert "is dropped" in loads.notices[0]
