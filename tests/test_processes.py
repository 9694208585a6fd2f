"""Processes that end with the one that started them, and one at a time."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue

import pytest

from tasks import processes

_HOLD = """
import sys
from pathlib import Path
from tasks.processes import one_at_a_time
with one_at_a_time(Path(sys.argv[1]), print):
    print("held", flush=True)
    sys.stdin.read()
"""

_SHORT = """
import logging, os, sys, threading, time
from tasks import processes

def end(why):
    print(why, flush=True)
    os._exit(5)

def lose():
    {lost}

processes.own_process(end, 0.0)
threading.Thread(target=lose).start()
threading.Event().wait()
"""


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        ("raise MemoryError", "no more memory (MemoryError)"),
        ('raise RuntimeError("can\'t start new thread")', "no more threads and processes (RuntimeError: can't start"),
        ("logging.getLogger('asyncio').error('lost', exc_info=MemoryError())", "no more memory (MemoryError)"),
        ("processes.end_soon()", ""),
    ],
    ids=["memory", "threads", "asyncio", "stop"],
)
def test_a_process_ends_when_a_thread_dies_of_a_shortage(lost: str, told: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _SHORT.format(lost=lost)], check=False, capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stderr) == (5, "")
    assert told in ran.stdout


def test_a_thread_that_could_not_start_is_known_where_a_library_raises_something_else() -> None:
    program = """
import threading
from tasks import processes
processes.own_process(lambda why: None)
print(repr(processes.find_noted_shortage()))
def refuse(*_, **__): raise RuntimeError("can't start new thread")
threading._start_new_thread = threading._start_joinable_thread = refuse
try:
    threading.Thread(target=print).start()
except RuntimeError:
    print(processes.find_noted_shortage())
"""
    ran = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60)
    lines = ran.stdout.splitlines()
    assert (lines[0], ran.stderr) == ("''", "")
    assert "no more threads and processes (RuntimeError: can't start new thread)" in lines[1]


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells of a parent's death on Linux alone")
@pytest.mark.parametrize(("parent", "end"), [(os.getpid(), 0), (2**22 + 1, -signal.SIGTERM)], ids=["there", "gone"])
def test_a_process_whose_parent_is_gone_before_it_looked_ends(parent: int, end: int) -> None:
    code = f"from tasks.processes import die_with_parent; die_with_parent({parent})"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == end


def test_who_waits_for_a_stopped_process_says_for_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "SAY_AFTER_S", 0.0)
    told: SimpleQueue[str] = SimpleQueue()
    lock, entered = tmp_path / "lock", threading.Event()

    def enter() -> None:
        with processes.one_at_a_time(lock, told.put):
            entered.set()

    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as held:
        assert held.stdout
        held.stdout.readline()
        held.send_signal(signal.SIGSTOP)
        thread = threading.Thread(target=enter)
        thread.start()
        assert f"waiting for process {held.pid}, which holds {lock}" in told.get()
        assert not entered.is_set()
        held.kill()
    thread.join()
    assert entered.is_set()


def test_who_only_looks_at_a_lock_keeps_nobody_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "lock").open("w") as looks, (tmp_path / "lock").open("w") as wants:
        fcntl.flock(looks, fcntl.LOCK_SH)
        assert not processes.lock_now(wants.fileno())
        monkeypatch.setattr(time, "sleep", lambda _: fcntl.flock(looks, fcntl.LOCK_UN))
        assert processes.lock_now(wants.fileno())


def test_a_child_that_cannot_be_started_is_missed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(MemoryError):
        processes.start_child(["true"], tmp_path / "log")
