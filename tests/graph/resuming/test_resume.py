"""A load that is stopped, however, is gone on with by the same command, to the same graph."""

import gzip
import random
import signal
from pathlib import Path

import pytest
from support.graphs.half_loads import LINES, MORE, Loads, contents, names_in, run_in_small_steps

from tasks.errors import GraphError, SourceError
from tasks.graph import load as load_module
from tasks.graph.folders import list_graphs
from tasks.graph.load import load_graph
from tasks.graph.load_progress import LoadProgress
from tasks.graph.loading import reading
from tasks.graph.manifest import loading_path


def test_a_load_may_be_stopped_anywhere_again_and_again(
    loads: Loads, sorted_blocks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "COMMIT_TEXT_BYTES", 1)
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
    # what was committed is not sorted again; the few blocks that were sorted ahead are
    assert len(sorted_blocks) < len(blocks) + stops * reading._BLOCKS_UNDER_WAY
    assert names_in(loads.folder) == ["small", "straight"]


@pytest.mark.parametrize("phase", ["sorting", "writing", "digesting"])
def test_when_all_is_read_the_load_goes_on_with_the_tables(
    loads: Loads, sorted_blocks: list[int], monkeypatch: pytest.MonkeyPatch, phase: str, straight: dict[str, object]
) -> None:
    def fail(news: LoadProgress) -> None:
        if news.phase == phase:
            raise OSError(28, "No space left on device")

    with pytest.raises(GraphError, match=r"No space left.*what was read before is kept: make room.*the same command"):
        load_graph(loads.files, "small", loads.folder, progress=fail)
    left = names_in(loading_path("small", loads.folder))
    assert "graph" not in left
    assert "request.json" in left
    sorted_blocks.clear()
    made = loads.run()
    assert sorted_blocks == []
    assert "reading" not in loads.phases
    assert loads.notices == ["graph small: all files are read already; going on with the tables"]
    assert contents(made) == straight


@pytest.mark.parametrize(
    ("when", "notice"),
    [
        ("len(news) == 3", None),  # nothing is committed yet
        ("len(news) == 40", "going on behind line"),
        ("told.phase == 'writing'", "all files are read already"),
        ("told.phase == 'digesting'", "all files are read already"),
    ],
)
def test_a_killed_load_is_shown_and_gone_on_with(
    loads: Loads, when: str, notice: str | None, straight: dict[str, object]
) -> None:
    program = (
        "news = []\n"
        "def hear(told):\n"
        f"    if {when}: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    news.append(told)\n"
        "load.load_graph(files, 'small', folder, progress=hear)"
    )
    assert run_in_small_steps(program, loads.folder, loads.files).code == -signal.SIGKILL
    (found,) = list_graphs(loads.folder)
    assert (found.name, found.state) == ("small", "half loaded")
    assert "factmill graph remove small" in str(found.advice)
    made = loads.run()
    assert len(loads.notices) == (notice is not None)
    assert notice is None or notice in loads.notices[0]
    assert contents(made) == straight
    assert [each.state for each in list_graphs(loads.folder)] == ["whole"]


def test_a_load_killed_at_any_call_again_and_again_is_gone_on_with(loads: Loads, straight: dict[str, object]) -> None:
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


def test_ctrl_c_leaves_a_half_load(loads: Loads, straight: dict[str, object]) -> None:
    program = (
        "news = []\n"
        "def hear(told):\n"
        "    news.append(told)\n"
        "    if len(news) == 60: os.kill(os.getpid(), signal.SIGINT)\n"
        "load.load_graph(files, 'small', folder, progress=hear)"
    )
    assert "KeyboardInterrupt" in run_in_small_steps(program, loads.folder, loads.files).err
    made = loads.run()
    assert len(loads.notices) == 1
    assert "going on behind line" in loads.notices[0]
    assert loads.phases[0] == "checking"
    assert contents(made) == straight


def test_ctrl_c_in_a_query_is_ctrl_c(loads: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise RuntimeError("Query interrupted")

    monkeypatch.setattr(load_module, "store_tables", interrupt)
    with pytest.raises(KeyboardInterrupt):
        loads.run()


def test_a_cut_file_is_named_and_the_whole_one_gone_on_with(
    loads: Loads, sorted_blocks: list[int], straight: dict[str, object]
) -> None:
    whole = loads.files[1].read_bytes()
    noise = "".join(f"<a:s> <a:p> <a:{random.Random(nth).random()}> .\n" for nth in range(9000))
    packed = gzip.compress(("".join(MORE) + noise).encode())
    loads.files[1].write_bytes(packed[: len(packed) // 2])
    with pytest.raises(SourceError, match=r"b\.nt\.gz: ends in the middle.*the same command.*graph remove small"):
        loads.run()
    sorted_blocks.clear()
    # fetched again, and packed otherwise
    loads.files[1].write_bytes(gzip.compress(("".join(MORE) + noise).encode(), 1))
    made = loads.run()
    assert "going on behind line" in loads.notices[0]
    # the first file is finished, and of the second only the end is sorted
    assert 1 not in sorted_blocks[:-10]
    assert made.lines == loads.run("whole").lines
    loads.files[1].write_bytes(whole)
    assert contents(loads.run("again")) == straight


def test_standard_input_is_piped_again(loads: Loads, tmp_path: Path) -> None:
    program = (
        "news = []\n"
        "def hear(told):\n"
        "    news.append(told)\n"
        "    if STOP and told.lines > 400: raise KeyboardInterrupt\n"
        "load.load_graph(['-'], 'small', folder, progress=hear, notice=print)"
    )
    first, again = ("".join(LINES + MORE).encode(), gzip.compress("".join(LINES + MORE).encode()))
    stopped = run_in_small_steps("STOP = True\n" + program, loads.folder, [], first)
    assert "KeyboardInterrupt" in stopped.err
    other = run_in_small_steps("STOP = False\n" + program, loads.folder, [], first.replace(b"item 3", b"item 4"))
    assert "SourceError: -: does not hold what was read from it before; pipe the same bytes again" in other.err
    done = run_in_small_steps("STOP = False\n" + program, loads.folder, [], again)
    assert "going on behind line" in done.out, done.err
    (tmp_path / "all.nt").write_bytes(first)
    straight = load_graph([tmp_path / "all.nt"], "straight", loads.folder)
    (piped,) = (each.manifest for each in list_graphs(loads.folder) if each.name == "small")
    assert piped is not None
    assert (piped.digest, piped.lines, piped.read) == (straight.digest, straight.lines, straight.read)
    assert piped.sources[0].path == "-"
    assert piped.sources[0].size_bytes == len(again)


def test_a_full_disk_keeps_what_was_committed(loads: Loads, straight: dict[str, object]) -> None:
    program = "resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))\nload.load_graph(files, 'small', folder)"
    done = run_in_small_steps("LIMIT = 700_000\n" + program, loads.folder, loads.files)
    assert "GraphError: graph small cannot be written in" in done.err
    assert "what was read before is kept: make room" in done.err
    made = loads.run()
    assert "going on" in loads.notices[0]
    assert contents(made) == straight
