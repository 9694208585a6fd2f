"""Test child processes: they end with their parent, run one at a time and share memory; and progress reports."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue

import pyarrow as pa
import pytest
from support.processes.ready import ROOT

from factmill.tasks import processes
from factmill.tasks.errors import EmbeddedWorldError, ServiceUnreachable
from factmill.tasks.memory import find_resource_shortage
from factmill.tasks.progress import StageProgress

_HOLD = """
import sys
from pathlib import Path
from factmill.tasks.processes import exclusive_file_lock
with exclusive_file_lock(Path(sys.argv[1]), print):
    print("held", flush=True)
    sys.stdin.read()
"""

_SHORT = """
import logging, os, sys, threading, time
from factmill.tasks import processes

def end(why):
    print(why, flush=True)
    os._exit(5)

def lose():
    {lost}

processes.start_exit_request_thread(end, 0.0)
threading.Thread(target=lose).start()
threading.Event().wait()
"""


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        ("raise MemoryError", "out of memory (MemoryError)"),
        ('raise RuntimeError("can\'t start new thread")', "more threads or processes (RuntimeError: can't start"),
        ("logging.getLogger('asyncio').error('lost', exc_info=MemoryError())", "out of memory (MemoryError)"),
        ("processes.request_process_exit()", ""),
    ],
    ids=["memory", "threads", "asyncio", "stop"],
)
def test_process_exits_when_thread_dies_of_resource_shortage(lost: str, expected: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _SHORT.format(lost=lost)], check=False, capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stderr) == (5, "")
    assert expected in ran.stdout


def test_failed_thread_start_is_detected_behind_other_library_error() -> None:
    program = """
import threading
from factmill.tasks import processes
processes.start_exit_request_thread(lambda why: None)
print(repr(processes.find_recorded_thread_start_shortage()))
def refuse(*_, **__): raise RuntimeError("can't start new thread")
threading._start_new_thread = threading._start_joinable_thread = refuse
try:
    threading.Thread(target=print).start()
except RuntimeError:
    print(processes.find_recorded_thread_start_shortage())
"""
    ran = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60)
    lines = ran.stdout.splitlines()
    assert (lines[0], ran.stderr) == ("''", "")
    assert "more threads or processes (RuntimeError: can't start new thread)" in lines[1]


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells of a parent's death on Linux alone")
@pytest.mark.parametrize(("parent", "end"), [(os.getpid(), 0), (2**22 + 1, -signal.SIGTERM)], ids=["there", "gone"])
def test_process_whose_parent_exited_early_terminates(parent: int, end: int) -> None:
    code = f"from factmill.tasks.processes import terminate_with_parent; terminate_with_parent({parent})"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == end


def test_waiting_for_lock_of_stopped_process_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "LOCK_WAIT_NOTICE_AFTER_S", 0.0)
    result: SimpleQueue[str] = SimpleQueue()
    lock, entered = tmp_path / "lock", threading.Event()

    def enter() -> None:
        with processes.exclusive_file_lock(lock, result.put):
            entered.set()

    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as held:
        assert held.stdout
        held.stdout.readline()
        held.send_signal(signal.SIGSTOP)
        thread = threading.Thread(target=enter)
        thread.start()
        assert f"waiting for process {held.pid}, which holds {lock}" in result.get()
        assert not entered.is_set()
        held.kill()
    thread.join()
    assert entered.is_set()


def test_brief_shared_lock_does_not_block_exclusive_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "lock").open("w") as looks, (tmp_path / "lock").open("w") as wants:
        fcntl.flock(looks, fcntl.LOCK_SH)
        assert not processes.try_lock_file(wants.fileno())
        monkeypatch.setattr(time, "sleep", lambda _: fcntl.flock(looks, fcntl.LOCK_UN))
        assert processes.try_lock_file(wants.fileno())


def test_child_process_start_failure_is_raised_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(MemoryError):
        processes.start_child_process(["true"], tmp_path / "log")


SETTLED = """
import gc, os, sys
from factmill.tasks.memory import GC_THRESHOLDS, release_free_memory, configure_allocators_and_gc
configure_allocators_and_gc()
release_free_memory()
import pyarrow as pa
assert gc.get_threshold() == GC_THRESHOLDS
print(pa.default_memory_pool().backend_name)
"""


@pytest.mark.parametrize(
    ("messages", "backend"), [({}, "system"), ({"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}, "mimalloc")]
)
def test_arrow_uses_system_memory_pool_unless_environment_overrides(messages: dict[str, str], backend: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"} | messages
    command = [sys.executable, "-c", SETTLED]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout == f"{backend}\n"


def _behind(error: Exception) -> Exception:
    try:
        raise ValueError("no flow") from error
    except ValueError as outer:
        return outer


@pytest.mark.parametrize(
    ("error", "short"),
    [
        (MemoryError(), "memory"),
        (pa.ArrowMemoryError("malloc of size 64 failed"), "memory"),
        (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), "memory"),
        (RuntimeError("std::bad_alloc"), "memory"),
        (RuntimeError("can't start new thread"), "threads"),
        (BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)), "threads"),
        (EmbeddedWorldError("oxigraph did not start on port 1: what():  Resource temporarily unavailable"), "threads"),
        (ExceptionGroup("two", [ValueError("x"), _behind(MemoryError())]), "memory"),
        (ServiceUnreachable("author: http_500: CUDA: Cannot allocate memory"), ""),
        (RuntimeError("no running event loop"), ""),
        (FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "x"), ""),
    ],
)
def test_resource_shortage_is_found_behind_error(error: Exception, short: str) -> None:
    found = find_resource_shortage(error)
    assert short in found if short else not found


@pytest.mark.parametrize(
    ("batches", "done", "replies", "expected", "percent"),
    [
        (1, 0, 0, 0, 0),
        (1, 0, 3, 6, 50),
        (1, 0, 6, 6, 90),  # processing the replies takes time too
        (1, 1, 6, 6, 100),
        (4, 0, 10, 20, 22.5),  # batches that have not begun expect no reply yet
        (4, 2, 10, 20, 50),
        (0, 0, 0, 0, 100),
    ],
)
def test_stage_progress_counts_batches_and_replies(
    batches: int, done: int, replies: int, expected: int, percent: float
) -> None:
    bar = StageProgress("link_question_entities", batches, None)
    bar.done, bar.replies, bar.expected = done, replies, expected
    assert bar.percent_done() == percent
