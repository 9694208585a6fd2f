"""Processes: one at a time where they would disturb each other, children that end with this one, and the folder for passing
files that both need.

The children are the Oxigraph and Prefect servers that a run starts for itself.

On Linux the kernel kills the child when its parent dies (PR_SET_PDEATHSIG), so that a killed run leaves no server
behind; elsewhere children are stopped at a normal exit only. The signal is tied to the thread that started the child,
so each child belongs to a thread that lives as long as it does.
"""

import atexit
import ctypes
import fcntl
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import NoReturn

from factmill.tasks.errors import SettingsError
from factmill.tasks.memory import find_shortage

HOST = "127.0.0.1"
_STOP_TIMEOUT_S = 5.0
# Asks the kernel for the signal, makes sure the parent is still there, and becomes the program.
_DIE_WITH_PARENT = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); "
    "os.getppid() == int(sys.argv[1]) or sys.exit(1); os.execv(sys.argv[2], sys.argv[2:])"
)

_PAUSES_S = (0.005, 0.02, 0.0)
"""Between tries to lock a file."""
SAY_AFTER_S = 15.0
"""Seconds after which who waits for another process says so."""
STOP_GRACE_S = 4.0
"""Seconds that threads which compute are waited for when a process is stopped."""

_children: list["subprocess.Popen[bytes]"] = []
_own: list[tuple[Callable[[str], NoReturn], float]] = []
"""How this process ends at once, and after how many seconds, where it is one that may be ended: not a test's, not a
notebook's."""
_asked_to_end: SimpleQueue[str] = SimpleQueue()
_shortages: list[str] = []
"""Of threads that could not start."""


def own_process(end: Callable[[str], NoReturn], grace_s: float = STOP_GRACE_S) -> None:
    """Let `end_soon` end this process, which does nothing but run the command or a flow.

    `end` ends it at once: it is given what the system has no more of, or an empty text for a stop. A thread that dies of
    such a shortage, or a callback of asyncio's that is lost to it, ends the process too: others would wait for it forever.
    """
    start = threading.Thread.start

    def start_noting(thread: threading.Thread) -> None:
        try:
            start(thread)
        except (RuntimeError, MemoryError) as error:
            _shortages.append(find_shortage(error))
            raise

    if not _own:
        # it starts now, since a system that has no more threads is one of the reasons to end
        threading.Thread(target=_await_end, name="factmill-ending", daemon=True).start()
        threading.excepthook = _end_where_thread_died
        setattr(threading.Thread, "start", start_noting)  # noqa: B010 - no type has a name for it
        for name in ("asyncio", "concurrent.futures"):
            logging.getLogger(name).addFilter(_end_where_lost)
    _own[:] = [(end, grace_s)]


def find_noted_shortage() -> str:
    """Return what a thread that could not start says that the system has no more of; empty where each did.

    Prefect raises some errors without their cause: this is the cause then.
    """
    return next(filter(None, _shortages), "")


def _await_end() -> NoReturn:
    why = _asked_to_end.get()
    end, grace_s = _own[0]
    time.sleep(grace_s)
    end(why)


def _end_where_thread_died(died: threading.ExceptHookArgs) -> None:
    if died.exc_value and (short := find_shortage(died.exc_value)):
        end_soon(short)
    else:
        threading.__excepthook__(died)


def _end_where_lost(record: logging.LogRecord) -> bool:
    """Return whether a library's message is logged: it is not where it says that a callback was lost to a shortage."""
    error = record.exc_info[1] if record.exc_info else None
    short = find_shortage(error) if error else ""
    if short:
        end_soon(short)
    return not short


def require_temporary_folder() -> Path:
    """Return the folder for passing files; SettingsError when there is none that can be written."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise SettingsError(
            f"{error.strerror}: set TMPDIR to a folder that can be written, of which nothing is kept"
        ) from None


def die_with_parent(parent: int | None = None) -> None:
    """Let this process be told to end (SIGTERM) when the one that started it is gone, on Linux.

    `parent`: its id, where that is known: it may be gone already.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def end_soon(short: str = "") -> None:
    """End this process in a few seconds, whatever its threads still compute, if it is one that may be ended.

    `short`: what the system has no more of; empty for a stop. Replies and finished batches are kept as they come, so an
    end in the middle of anything loses nothing.
    """
    if _own:
        _asked_to_end.put(short)


def stop_again() -> NoReturn:
    """Raise what stops this process, where a library has put an error of its own in place of that."""
    if callable(signal.getsignal(signal.SIGTERM)):
        signal.raise_signal(signal.SIGTERM)
    raise KeyboardInterrupt


def lock_now(fd: int) -> bool:
    """Lock a file and return True, or False where another process has; one that only looks whether somebody has lets go
    within microseconds."""
    for pause_s in _PAUSES_S:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(pause_s)
        else:
            return True
    return False


def is_held(path: Path) -> bool:
    """True when a process holds a lock on a file."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


@contextmanager
def one_at_a_time(lock: Path, tell: Callable[[str], object]) -> Iterator[None]:
    """Let one process in at a time, by a lock on a file that is made if need be; the others wait.

    Who waits for long `tell`s for whom: a process that was stopped keeps what it holds.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)

    def tell_awaited() -> None:
        holder = lock.read_text("ascii").strip() or "another process"
        tell(
            f"note: waiting for process {holder}, which holds {lock}; if it hangs or was stopped, end it, and this goes on"
        )

    with lock.open("a") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            teller = threading.Timer(SAY_AFTER_S, tell_awaited)
            teller.daemon = True
            teller.start()
            try:
                fcntl.flock(held, fcntl.LOCK_EX)
            finally:
                teller.cancel()
        with suppress(OSError):  # a full disk: nobody is told who holds it
            held.truncate(0)
            held.write(str(os.getpid()))
            held.flush()
        yield


def start_child(
    command: list[str], log: Path, env: Mapping[str, str] | None = None, umask: int = -1
) -> "subprocess.Popen[bytes]":
    """Start a program that ends with this process; its output goes to `log`. Raises OSError when it cannot start.

    The log is for this user alone. The program gets a session of its own, so that Ctrl-C reaches only this process, which
    stops it when it is done. `umask`: of the program; -1 for that of this process.
    """
    if sys.platform == "linux":
        command = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]
    started: SimpleQueue[subprocess.Popen[bytes] | Exception] = SimpleQueue()

    def keep() -> None:
        try:
            with open(log, "wb", opener=partial(os.open, mode=0o600)) as stream:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=stream,
                    start_new_session=True,
                    env=env,
                    umask=umask,
                )
        except Exception as error:  # noqa: BLE001 - raised in the thread that waits
            started.put(error)
            return
        started.put(process)
        process.wait()

    threading.Thread(target=keep, name=f"keeper of {Path(command[0]).name}", daemon=True).start()
    process = started.get()
    if isinstance(process, Exception):
        raise process
    _children.append(process)
    return process


def stop_child(process: "subprocess.Popen[bytes]") -> None:
    """Stop a child, gently first; a child that has ended is left alone."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@atexit.register
def stop_children() -> None:
    """Stop every child that is still there, at exit."""
    for process in _children:
        stop_child(process)


def free_port() -> int:
    """Return a loopback port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def read_tail(log: Path, characters: int = 2000) -> str:
    """Return the end of a log, for error messages."""
    return log.read_text("utf-8", "replace")[-characters:].strip() if log.is_file() else ""
