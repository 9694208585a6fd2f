"""Test starting and stopping the world."""

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import requests
from support.processes.ready import ROOT, start_ready

from factmill.tasks.errors import EmbeddedWorldError
from factmill.tasks.world import serving
from factmill.tasks.world.data import WorldData, digest_world_files
from factmill.tasks.world.files import load_world_data
from factmill.tasks.world.serving import (
    _remove_stale_stores_and_logs,
    digest_world_store_inputs,
    get_oxigraph_binary,
    open_or_build_world_store,
    running_world,
)


def answers(url: str) -> bool:
    """True if a SPARQL server answers there."""
    try:
        return requests.get(url, params={"query": "ASK {}"}, timeout=5).status_code == 200
    except requests.ConnectionError:
        return False


def test_second_start_reuses_store_and_two_worlds_run_at_once(tmp_path: Path, sample_folder: Path) -> None:
    with running_world(tmp_path, sample_folder) as first:
        built = (tmp_path / "world-cache" / digest_world_store_inputs(sample_folder)).stat().st_mtime_ns
        with running_world(tmp_path, sample_folder) as second:
            assert first.digest == second.digest == digest_world_files(sample_folder)
            assert first.endpoints != second.endpoints
            assert answers(first.endpoints["wikidata"]) and answers(second.endpoints["wikidata"])
            assert (tmp_path / "world-cache" / digest_world_store_inputs(sample_folder)).stat().st_mtime_ns == built
        assert not answers(second.endpoints["wikidata"])
        assert answers(first.endpoints["wikidata"])
    assert not answers(first.endpoints["wikidata"])


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_oxigraph_dies_with_a_killed_parent_even_when_its_thread_ended(tmp_path: Path, sample_folder: Path) -> None:
    code = (
        "import sys, threading\n"
        "from contextlib import ExitStack\n"
        "from pathlib import Path\n"
        "from factmill.tasks.world.serving import running_world\n"
        "held = ExitStack()\n"
        "worlds = []\n"
        "def start():\n"
        "    worlds.append(held.enter_context(running_world(Path(sys.argv[1]), Path(sys.argv[2]))))\n"
        "thread = threading.Thread(target=start)\n"
        "thread.start()\n"
        "thread.join()\n"
        "print(worlds[0].endpoints['wikidata'], flush=True)\n"
        "threading.Event().wait()\n"
    )
    parent = start_ready(code, [str(tmp_path), str(sample_folder)], os.environ, ROOT)
    assert parent.stdout
    url = parent.stdout.readline().strip()
    assert answers(url)
    parent.kill()
    while answers(url):  # otherwise the test times out
        time.sleep(0.02)


def test_ctrl_c_ends_serving_cleanly(tmp_path: Path, sample_folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from factmill.tasks.world.serving import serve_world_until_interrupted; "
    )
    code += "serve_world_until_interrupted(Path(sys.argv[1]), 0, Path(sys.argv[2]))"
    server = start_ready(code, [str(tmp_path), str(sample_folder)], os.environ, ROOT)
    assert server.stdout
    lines = [server.stdout.readline() for _ in range(5)]
    url = next(line.split()[1] for line in lines if line.split()[0] == "wikidata")
    assert answers(url)
    server.send_signal(signal.SIGINT)
    assert server.communicate()[0].endswith("stopped\n")
    assert server.returncode == 0
    assert not answers(url)


def test_concurrent_starts_build_one_store(tmp_path: Path, sample_folder: Path) -> None:
    reads: list[int] = []
    found: list[Path] = []

    def read_data() -> WorldData:
        reads.append(1)
        return load_world_data(sample_folder)

    def open_one() -> None:
        with open_or_build_world_store(tmp_path, "abc", read_data) as folder:
            found.append(folder)

    threads = [threading.Thread(target=open_one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(reads) == 1
    assert not list(tmp_path.glob("building-*"))


def test_half_built_and_unused_stores_are_removed_and_used_ones_kept(tmp_path: Path, sample_folder: Path) -> None:
    (tmp_path / "building-killed").mkdir()

    def read_data() -> WorldData:
        return load_world_data(sample_folder)

    def folders() -> set[str]:
        return {path.name for path in tmp_path.iterdir() if path.is_dir()}

    with open_or_build_world_store(tmp_path, "old", read_data), open_or_build_world_store(tmp_path, "new", read_data):
        assert folders() == {"old", "new"}
    with open_or_build_world_store(tmp_path, "newest", read_data):
        assert folders() == {"newest"}


def test_user_error_inside_context_passes_through(tmp_path: Path, sample_folder: Path) -> None:
    opening = open_or_build_world_store(tmp_path, "abc", lambda: load_world_data(sample_folder))
    with pytest.raises(FileNotFoundError, match="mine"), opening:
        raise FileNotFoundError("mine")


def test_store_that_does_not_open_raises_world_error_with_server_message(tmp_path: Path, sample_folder: Path) -> None:
    broken = tmp_path / "world-cache" / digest_world_store_inputs(sample_folder)
    broken.mkdir(parents=True)
    (broken / "CURRENT").write_text("nonsense")
    with (
        pytest.raises(EmbeddedWorldError, match="oxigraph did not start on port"),
        running_world(tmp_path, sample_folder),
    ):
        pass


def test_port_in_use_is_named(tmp_path: Path, sample_folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        # the next port is Oxigraph's, and may be in use too
        result = rf"\b(?:{port}|{port + 1})\b[^\n]*in use[^\n]*$"
        with pytest.raises(EmbeddedWorldError, match=result), running_world(tmp_path, sample_folder, port=port):
            pass


def test_unwritable_home_raises_world_error(tmp_path: Path, sample_folder: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbeddedWorldError, match=r"make .* writable"), running_world(tmp_path / "file", sample_folder):
        pass


def test_invalid_world_files_prevent_start(tmp_path: Path, sample_folder: Path) -> None:
    shutil.copytree(sample_folder, tmp_path / "world")
    (tmp_path / "world" / "categories.yaml").write_text("tree: {}\nredirects: {}\n")
    with pytest.raises(EmbeddedWorldError, match="is not in the tree"), running_world(tmp_path, tmp_path / "world"):
        pass


def test_oxigraph_binary_and_store_code_files_exist_in_package() -> None:
    assert subprocess.run([str(get_oxigraph_binary()), "--version"], capture_output=True, check=True).stdout.startswith(
        b"oxigraph"
    )
    assert set(serving._STORE_CODE_FILES) <= {
        p.relative_to(ROOT / "tasks/world").as_posix() for p in (ROOT / "tasks/world").rglob("*.py")
    }


def test_stores_and_logs_in_use_are_kept_and_those_of_dead_processes_removed(tmp_path: Path) -> None:
    for store in ("used", "unused"):
        (tmp_path / store).mkdir()
        (tmp_path / f"{store}-4711.log").touch()
    (tmp_path / "ours-4711.log").touch()
    (tmp_path / "building-1").mkdir()
    with (tmp_path / "used.lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        _remove_stale_stores_and_logs(tmp_path, "ours")
    assert {path.name for path in tmp_path.iterdir()} == {"used", "used-4711.log", "used.lock", "unused.lock"}
