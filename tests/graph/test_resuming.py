"""Test that the same command resumes a stopped load and makes the same graph, or drops or names the partial load.

A load stops by Ctrl-C, a signal, a full disk or a power loss. Before it resumes, files may be touched, renamed, moved,
truncated or changed, and options and code may differ.
"""

import gzip
import os
import random
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support.graphs.half_loads import LINES, MORE, Loads, contents, names_in, run_in_small_steps, write_files

from factmill.tasks.errors import LocalGraphError, SourceError
from factmill.tasks.graph import load as load_module
from factmill.tasks.graph.folders import (
    find_load_request,
    get_loading_folder,
    list_graph_statuses,
    remove_half_load_or_graph,
)
from factmill.tasks.graph.load import load_graph
from factmill.tasks.graph.loading import staging
from factmill.tasks.graph.loading.sources import streams
from factmill.tasks.graph.loading.staging import LoadProgress
from factmill.tasks.graph.lookup import open_graph


@pytest.fixture(autouse=True)
def sorted_blocks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make blocks small and commit every few; return the first lines of all sorted blocks."""
    monkeypatch.setattr(streams, "BLOCK_BYTES", 4000)
    monkeypatch.setattr(streams, "TURTLE_BATCH_TRIPLES", 30)
    monkeypatch.setattr(staging, "COMMIT_TEXT_BYTES", 24_000)
    first_lines: list[int] = []
    real = staging.sort_block_lines_into_rows

    def note(block: streams.LineBlock, shapes: object) -> object:
        first_lines.append(block.first_line)
        return real(block, shapes)  # type: ignore[arg-type]

    monkeypatch.setattr(staging, "sort_block_lines_into_rows", note)
    return first_lines


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return write_files(tmp_path)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Return the contents of the files' graph after an uninterrupted load in blocks of the usual size."""
    folder = tmp_path_factory.mktemp("straight")
    return contents(load_graph(write_files(folder), "straight", folder / "graphs"))


@pytest.fixture
def loads(tmp_path: Path, files: list[Path]) -> Loads:
    return Loads(files, tmp_path / "graphs")


def test_load_resumes_after_repeated_stops_at_any_point(
    loads: Loads, sorted_blocks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "COMMIT_TEXT_BYTES", 1)
    straight = contents(loads.run("straight"))
    blocks, dice = sorted(sorted_blocks), random.Random(4)
    sorted_blocks.clear()
    made, stops = None, 0
    while not made:
        try:
            made = loads.run(stop_after=dice.randrange(1, 60))
        except KeyboardInterrupt:
            stops += 1
    assert stops > 3
    assert contents(made) == straight
    # a resumed load does not sort committed blocks again, only the few that were sorted ahead
    assert len(sorted_blocks) < len(blocks) + stops * staging._MAX_SORTING_BLOCKS
    assert names_in(loads.folder) == ["small", "straight"]


@pytest.mark.parametrize("phase", ["sorting", "writing", "digesting"])
def test_fully_read_load_resumes_at_table_phase(
    loads: Loads, sorted_blocks: list[int], monkeypatch: pytest.MonkeyPatch, phase: str, straight: dict[str, object]
) -> None:
    def fail(progress: LoadProgress) -> None:
        if progress.phase == phase:
            raise OSError(28, "No space left on device")

    with pytest.raises(
        LocalGraphError, match=r"No space left.*The rows read so far stay: free disk space.*the same command"
    ):
        load_graph(loads.files, "small", loads.folder, progress=fail)
    left = names_in(get_loading_folder("small", loads.folder))
    assert "graph" not in left
    assert "request.json" in left
    sorted_blocks.clear()
    made = loads.run()
    assert sorted_blocks == []
    assert "reading" not in loads.phases
    (notice,) = loads.notices
    assert notice.startswith("graph small: all files were read before")
    assert contents(made) == straight


@pytest.mark.parametrize(
    ("when", "notice"),
    [
        ("len(reports) == 3", None),  # nothing is committed yet
        ("len(reports) == 40", "resuming after line"),
        ("progress.phase == 'writing'", "all files were read before"),
        ("progress.phase == 'digesting'", "all files were read before"),
    ],
)
def test_killed_load_is_listed_and_resumed(
    loads: Loads, when: str, notice: str | None, straight: dict[str, object]
) -> None:
    program = (
        "reports = []\n"
        "def record(progress):\n"
        f"    if {when}: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    reports.append(progress)\n"
        "load.load_graph(files, 'small', folder, progress=record)"
    )
    assert run_in_small_steps(program, loads.folder, loads.files).code == -signal.SIGKILL
    (found,) = list_graph_statuses(loads.folder)
    assert (found.name, found.state) == ("small", "half loaded")
    assert "factmill graph remove small" in str(found.advice)
    with pytest.raises(LocalGraphError, match=r"graph small .*half loaded.*factmill graph load FILE... --name small"):
        open_graph("small", loads.folder)
    made = loads.run()
    assert loads.phases[0] == ("checking" if notice else "reading")
    assert len(loads.notices) == (notice is not None)
    assert notice is None or notice in loads.notices[0]
    assert contents(made) == straight
    assert [each.state for each in list_graph_statuses(loads.folder)] == ["whole"]


def test_load_resumes_after_repeated_kills_at_any_call(loads: Loads, straight: dict[str, object]) -> None:
    program = (
        "calls = 0\n"
        "def count(*_):\n"
        "    global calls\n"
        "    calls += 1\n"
        "    if calls == LAST: os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.setprofile(count)\n"
        "load.load_graph(files, NAME, folder)\n"
        "sys.setprofile(None)\n"
        "print(calls)"
    )
    whole = run_in_small_steps("LAST, NAME = 0, 'whole'\n" + program, loads.folder, loads.files)
    dice, ended = random.Random(9), [whole.code]
    for lowest in (0, 0.3, 0.6):
        last = int(int(whole.out) * dice.uniform(lowest, lowest + 0.3))
        killed = run_in_small_steps(f"LAST, NAME = {last}, 'small'\n" + program, loads.folder, loads.files)
        ended.append(killed.code)
    assert ended == [0, *[-signal.SIGKILL] * 3]
    assert contents(loads.run()) == straight
    assert names_in(loads.folder) == ["small", "whole"]


def test_ctrl_c_during_query_raises_keyboard_interrupt(loads: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise RuntimeError("Query interrupted")

    monkeypatch.setattr(load_module, "write_tables_count_rows_and_drop_reasons", interrupt)
    with pytest.raises(KeyboardInterrupt):
        loads.run()


def test_truncated_file_is_named_and_load_resumes_with_complete_file(
    loads: Loads, sorted_blocks: list[int], straight: dict[str, object]
) -> None:
    whole = loads.files[1].read_bytes()
    noise = "".join(f"<a:s> <a:p> <a:{random.Random(nth).random()}> .\n" for nth in range(9000))
    packed = gzip.compress(("".join(MORE) + noise).encode())
    loads.files[1].write_bytes(packed[: len(packed) // 2])
    with pytest.raises(SourceError, match=r"b\.nt\.gz: .*truncated.*the same command.*graph remove small"):
        loads.run()
    sorted_blocks.clear()
    # downloaded again, and compressed differently
    loads.files[1].write_bytes(gzip.compress(("".join(MORE) + noise).encode(), 1))
    made = loads.run()
    assert "resuming after line" in loads.notices[0]
    # the first file is finished, and only the end of the second is sorted
    assert 1 not in sorted_blocks[:-10]
    assert made.lines == loads.run("whole").lines
    loads.files[1].write_bytes(whole)
    assert contents(loads.run("again")) == straight


def test_standard_input_load_resumes_with_same_bytes_piped_again(loads: Loads, tmp_path: Path) -> None:
    program = (
        "reports = []\n"
        "def record(progress):\n"
        "    reports.append(progress)\n"
        "    if STOP and progress.lines > 400: raise KeyboardInterrupt\n"
        "load.load_graph(['-'], 'small', folder, progress=record, notice=print)"
    )
    first, again = ("".join(LINES + MORE).encode(), gzip.compress("".join(LINES + MORE).encode()))
    stopped = run_in_small_steps("STOP = True\n" + program, loads.folder, [], first)
    assert "KeyboardInterrupt" in stopped.err
    other = run_in_small_steps("STOP = False\n" + program, loads.folder, [], first.replace(b"item 3", b"item 4"))
    assert "SourceError: -: its content has changed since it was read before; pipe the same bytes again" in other.err
    done = run_in_small_steps("STOP = False\n" + program, loads.folder, [], again)
    assert "resuming after line" in done.out, done.err
    (tmp_path / "all.nt").write_bytes(first)
    straight = load_graph([tmp_path / "all.nt"], "straight", loads.folder)
    (piped,) = (each.manifest for each in list_graph_statuses(loads.folder) if each.name == "small")
    assert piped is not None
    assert (piped.digest, piped.lines, piped.read) == (straight.digest, straight.lines, straight.read)
    assert piped.sources[0].path == "-"
    assert piped.sources[0].size_bytes == len(again)


def test_full_disk_keeps_committed_rows(loads: Loads, straight: dict[str, object]) -> None:
    program = "resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))\nload.load_graph(files, 'small', folder)"
    done = run_in_small_steps("LIMIT = 700_000\n" + program, loads.folder, loads.files)
    assert "GraphError: cannot write graph small in" in done.err
    assert "The rows read so far stay: free disk space" in done.err
    made = loads.run()
    assert "resuming" in loads.notices[0]
    assert contents(made) == straight


def test_nothing_remains_if_nothing_was_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "COMMIT_TEXT_BYTES", 1 << 30)
    path = tmp_path / "a.nt.gz"
    path.write_bytes(gzip.compress("".join(LINES).encode())[:-9])
    with pytest.raises(SourceError, match=r"download it again$"):
        load_graph([path], "small", tmp_path / "graphs")
    assert names_in(tmp_path / "graphs") == []


def change_first(files: Sequence[Path]) -> None:
    files[0].write_text("".join(LINES).replace("item 3", "item 03"), "utf-8")


def change_second(files: Sequence[Path]) -> None:
    files[1].write_bytes(gzip.compress("".join(MORE).replace("item 151", "item 0151").encode()))


@pytest.mark.parametrize("change", [change_first, change_second], ids=["finished", "half read"])
def test_changed_file_is_reported_and_load_restarts(loads: Loads, change: Callable[[Sequence[Path]], None]) -> None:
    def stop_in_second(progress: LoadProgress) -> None:
        if progress.lines > len(LINES) + len(MORE) // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_graph(loads.files, "small", loads.folder, progress=stop_in_second)
    change(loads.files)
    made = loads.run()
    assert "resuming after line" in loads.notices[0]
    assert "has changed since it was read before; dropped the unfinished load" in loads.notices[1]
    assert contents(made) == contents(loads.run("straight"))


@pytest.mark.parametrize("other", ["languages", "files", "form"])
def test_unfinished_load_of_other_request_is_dropped(loads: Loads, other: str) -> None:
    loads.stop()
    options: dict[str, object] = {"languages": {"languages": ["en", "de"]}, "form": {"form": "turtle"}}.get(other, {})
    if other == "files":
        loads.files = loads.files[:1]
    made = loads.run(**options)
    (notice,) = loads.notices
    assert notice.startswith("graph small: dropped an unfinished load")
    assert contents(made) == contents(loads.run("straight", **options))


def test_unusable_staging_database_is_named_and_not_dropped(loads: Loads) -> None:
    loads.stop()
    path = get_loading_folder("small", loads.folder) / "staging.duckdb"
    path.write_bytes(b"\x5a" * path.stat().st_size)
    with pytest.raises(LocalGraphError, match=r"staging\.duckdb: cannot resume.*graph remove small"):
        loads.run()
    assert path.exists()
    assert remove_half_load_or_graph("small", loads.folder) == "unfinished load"
    assert names_in(loads.folder) == []
    loads.run()


def test_replacement_resumes_while_old_graph_stays(loads: Loads) -> None:
    old = loads.run()
    loads.stop(replace=True)
    assert [(each.name, each.state) for each in list_graph_statuses(loads.folder)] == [
        ("small", "whole"),
        ("small", "half loaded"),
    ]
    assert str(list_graph_statuses(loads.folder)[1].advice).startswith(
        f"to resume: `factmill graph load {loads.files[0]} "
    )
    assert " --name=small --replace`;" in str(list_graph_statuses(loads.folder)[1].advice)
    assert contents(loads.run(replace=True)) == contents(old)
    assert "resuming after line" in loads.notices[0]
    assert [each.state for each in list_graph_statuses(loads.folder)] == ["whole"]


def test_unfinished_load_is_removed_before_graph(loads: Loads) -> None:
    loads.run()
    loads.stop(replace=True)
    assert remove_half_load_or_graph("small", loads.folder) == "unfinished load"
    assert names_in(loads.folder) == ["small"]
    assert remove_half_load_or_graph("small", loads.folder) == "graph"
    assert names_in(loads.folder) == []
    with pytest.raises(LocalGraphError, match="no graph small"):
        remove_half_load_or_graph("small", loads.folder)


def test_graph_being_loaded_can_neither_be_loaded_nor_removed(loads: Loads) -> None:
    refused: list[str] = []

    def meddle(progress: LoadProgress) -> None:
        for act in (
            lambda: load_graph(loads.files, "small", loads.folder),
            lambda: remove_half_load_or_graph("small", loads.folder),
        ):
            with pytest.raises(LocalGraphError, match=r"another process is loading graph small into ") as raised:
                act()
            refused.append(str(raised.value))
        assert [each.state for each in list_graph_statuses(loads.folder)] == ["loading"]

    load_graph(loads.files, "small", loads.folder, progress=meddle)
    assert refused
    assert names_in(loads.folder) == ["small"]


def test_leftovers_of_crashed_removal_are_deleted_by_next_load(loads: Loads) -> None:
    loads.run()
    shutil.copytree(loads.folder / "small", loads.folder / ".small.old")
    loads.run(replace=True)
    assert names_in(loads.folder) == ["small"]


KILLED = (
    "reports = []\n"
    "def record(progress):\n"
    "    reports.append(progress)\n"
    "    if len(reports) == 40: os.kill(os.getpid(), signal.SIGKILL)\n"
    "load.load_graph(files, 'small', folder, progress=record)"
)


def rename_and_touch(loads: Loads) -> None:
    moved = loads.folder.parent / "moved"
    moved.mkdir()
    loads.files = [file.rename(moved / f"new-{file.name}") for file in loads.files]
    for file in loads.files:
        os.utime(file, (1, 1))


def test_unfinished_load_of_renamed_and_touched_files_is_resumed(loads: Loads, straight: dict[str, object]) -> None:
    old = [str(file) for file in loads.files]
    loads.stop()
    rename_and_touch(loads)
    loads.stop(5)
    assert loads.notices[0].endswith(f"the unfinished load of {', '.join(old)}, since the files have the same sizes")
    assert "resuming after line" in loads.notices[1]
    (found,) = list_graph_statuses(loads.folder)
    assert f"to resume: `factmill graph load {loads.files[0]} " in str(found.advice)
    made = loads.run()
    assert ["resuming after line" in notice for notice in loads.notices] == [True]
    assert [source.path for source in made.sources] == [str(file) for file in loads.files]
    result = contents(made)
    sources = [{**source, "path": source["path"].removeprefix("new-")} for source in result["sources"]]  # type: ignore[attr-defined]
    assert {**result, "sources": tuple(sources)} == straight


def test_other_files_of_same_sizes_are_reported_and_load_restarts(loads: Loads) -> None:
    loads.stop()
    rename_and_touch(loads)
    Path(loads.files[0]).write_text("".join(LINES).replace("item 3", "item 4"), "utf-8")
    made = loads.run()
    assert "has changed since it was read before; dropped the unfinished load" in loads.notices[2]
    assert contents(made) == contents(loads.run("straight"))


@pytest.mark.parametrize("longer", [0, 1], ids=["same size", "other size"])
def test_file_changed_after_reading_is_reported_and_load_restarts(loads: Loads, longer: int) -> None:
    def stop(progress: LoadProgress) -> None:
        if progress.phase == "sorting":
            raise OSError(28, "No space left on device")

    with pytest.raises(LocalGraphError, match="No space left"):
        loads.run(progress=stop)
    loads.files[0].write_text("".join(LINES).replace("item 3", "item 4" + longer * "4"), "utf-8")
    made = loads.run()
    assert "all files were read before" in loads.notices[0]
    assert "has changed since it was read before; dropped the unfinished load" in loads.notices[1]
    assert contents(made) == contents(loads.run("straight"))


@pytest.mark.parametrize("lost", [1, 5000])
def test_rows_lost_by_power_failure_are_read_again(loads: Loads, straight: dict[str, object], lost: int) -> None:
    assert run_in_small_steps(KILLED, loads.folder, loads.files).code == -signal.SIGKILL
    written = get_loading_folder("small", loads.folder) / "staging.duckdb.wal"
    whole = written.stat().st_size
    os.truncate(written, whole - lost)
    assert contents(loads.run()) == straight
    assert "resuming after line" in loads.notices[0]


def test_unfinished_load_with_missing_rows_is_reported_and_restarted(loads: Loads, straight: dict[str, object]) -> None:
    loads.stop()
    result = get_loading_folder("small", loads.folder)
    for name in names_in(result):
        if name.startswith("staging"):
            (result / name).unlink()
    assert contents(loads.run()) == straight
    (notice,) = loads.notices
    assert notice.startswith("graph small: the rows of the unfinished load are missing")


@pytest.mark.parametrize(
    "note",
    [lambda text: "", lambda text: text.replace('"code": "', '"code": "0')],
    ids=["truncated", "written by other code"],
)
def test_unfinished_load_with_empty_or_other_code_record_is_dropped(
    loads: Loads, straight: dict[str, object], note: Callable[[str], str]
) -> None:
    loads.stop()
    path = get_loading_folder("small", loads.folder) / "request.json"
    path.write_text(note(path.read_text("utf-8")), "utf-8")
    assert (find_load_request(path.parent) is None) == (not path.stat().st_size)
    assert contents(loads.run()) == straight
    assert "dropped" in loads.notices[0]
