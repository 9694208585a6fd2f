"""Processes: file locks between them, child processes that end with this one, and the folder for temporary files.

The children are the Oxigraph and Prefect servers that a run starts for itself.

On Linux the kernel kills the child when its parent dies (PR_SET_PDEATHSIG), so that a killed run leaves no server
behind; elsewhere children stop at a normal exit only. The signal is tied to the thread that started the child, so each
child has its own thread, which lives as long as the child.
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
from factmill.tasks.memory import find_resource_shortage

LOOPBACK_HOST = "127.0.0.1"
_STOP_TIMEOUT_S = 5.0
# Requests the signal from the kernel, checks that the parent still runs, and becomes the program.
_DIE_WITH_PARENT_SCRIPT = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); "
    "os.getppid() == int(sys.argv[1]) or sys.exit(1); os.execv(sys.argv[2], sys.argv[2:])"
)

_LOCK_RETRY_PAUSES_S = (0.005, 0.02, 0.0)
"""Pauses between attempts to lock a file."""
LOCK_WAIT_NOTICE_AFTER_S = 15.0
"""Seconds of waiting for another process after which a message is reported."""
COMPUTE_STOP_GRACE_S = 4.0
"""Seconds to wait for computing threads when a process is stopped."""

_child_processes: list["subprocess.Popen[bytes]"] = []
_exit_handlers: list[tuple[Callable[[str], NoReturn], float]] = []
"""Function that ends this process at once, and the grace period in seconds; empty where the process must not be ended: a
test, a notebook."""
_exit_requests: SimpleQueue[str] = SimpleQueue()
_thread_start_failures: list[str] = []
"""Resource shortages that kept threads from starting."""


def start_exit_request_thread(exit_now: Callable[[str], NoReturn], grace_s: float = COMPUTE_STOP_GRACE_S) -> None:
    """Allow `request_process_exit` to end this process, which only runs the command or a flow.

    `exit_now` ends it at once; its argument is the resource shortage, or an empty text for a stop. A thread that dies of such a
    shortage, or an asyncio callback lost to one, also ends the process: others would wait for it forever.
    """
    start = threading.Thread.start

    def start_noting(thread: threading.Thread) -> None:
        try:
            start(thread)
        except (RuntimeError, MemoryError) as error:
            _thread_start_failures.append(find_resource_shortage(error))
            raise

    if not _exit_handlers:
        # start the thread now: a lack of threads is one of the reasons to end
        threading.Thread(target=_await_exit_request_and_exit, name="factmill-ending", daemon=True).start()
        threading.excepthook = _exit_if_shortage_ended_thread
        setattr(threading.Thread, "start", start_noting)  # noqa: B010 - no type has a name for it
        for name in ("asyncio", "concurrent.futures"):
            logging.getLogger(name).addFilter(_filter_log_or_exit_on_lost_callback)
    _exit_handlers[:] = [(exit_now, grace_s)]


def find_recorded_thread_start_shortage() -> str:
    """Return the resource shortage that kept a thread from starting; empty where all threads started.

    Prefect raises some errors without their cause; this is then the cause.
    """
    return next(filter(None, _thread_start_failures), "")


def _await_exit_request_and_exit() -> NoReturn:
    why = _exit_requests.get()
    end, grace_s = _exit_handlers[0]
    time.sleep(grace_s)
    end(why)


def _exit_if_shortage_ended_thread(died: threading.ExceptHookArgs) -> None:
    if died.exc_value and (short := find_resource_shortage(died.exc_value)):
        request_process_exit(short)
    else:
        threading.__excepthook__(died)


def _filter_log_or_exit_on_lost_callback(record: logging.LogRecord) -> bool:
    """Return whether to log a library's message; end the process instead if it reports a callback lost to a shortage."""
    error = record.exc_info[1] if record.exc_info else None
    short = find_resource_shortage(error) if error else ""
    if short:
        request_process_exit(short)
    return not short


def get_temporary_folder() -> Path:
    """Return the folder for temporary files; SettingsError when none is writable."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise SettingsError(f"{error.strerror}: set TMPDIR to a writable folder for temporary files") from None


def terminate_with_parent(parent_pid: int | None = None) -> None:
    """Have this process receive SIGTERM when its parent ends, on Linux.

    `parent_pid`: process id of the parent, if known, since it may have ended already.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    if parent_pid is not None and os.getppid() != parent_pid:
        os.kill(os.getpid(), signal.SIGTERM)


def request_process_exit(shortage: str = "") -> None:
    """End this process after the grace period, even if threads still compute, if `start_exit_request_thread` allowed it.

    `shortage`: the resource shortage; empty for a stop. Responses and finished batches are stored as they come, so ending at
    any moment loses nothing.
    """
    if _exit_handlers:
        _exit_requests.put(shortage)


def reraise_swallowed_stop() -> NoReturn:
    """Raise the stop of this process again (SIGTERM or KeyboardInterrupt) where a library replaced it by its own error."""
    if callable(signal.getsignal(signal.SIGTERM)):
        signal.raise_signal(signal.SIGTERM)
    raise KeyboardInterrupt


def try_lock_file(fd: int) -> bool:
    """Lock a file and return True, or False if another process holds it. Retries briefly, since `is_file_locked` of another process
    takes the lock for microseconds."""
    for pause_s in _LOCK_RETRY_PAUSES_S:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(pause_s)
        else:
            return True
    return False


def is_file_locked(path: Path) -> bool:
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
def exclusive_file_lock(lock: Path, report: Callable[[str], object]) -> Iterator[None]:
    """Hold an exclusive lock on a file, created if missing; other processes wait.

    After a long wait, `report` reports which process holds the lock: a suspended process keeps it.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)

    def report_awaited() -> None:
        holder = lock.read_text("ascii").strip() or "another process"
        report(
            f"note: waiting for process {holder}, which holds {lock}; if it hangs or is suspended, end it to continue"
        )

    with lock.open("a") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            teller = threading.Timer(LOCK_WAIT_NOTICE_AFTER_S, report_awaited)
            teller.daemon = True
            teller.start()
            try:
                fcntl.flock(held, fcntl.LOCK_EX)
            finally:
                teller.cancel()
        with suppress(OSError):  # a full disk: the holder's id stays unknown
            held.truncate(0)
            held.write(str(os.getpid()))
            held.flush()
        yield


def start_child_process(
    command: list[str], log: Path, env: Mapping[str, str] | None = None, umask: int = -1
) -> "subprocess.Popen[bytes]":
    """Start a program that ends with this process; its output goes to `log`. Raises OSError when it cannot start.

    Only this user can read the log. The program gets its own session, so that Ctrl-C reaches only this process, which
    stops the program at its end. `umask`: the program's; -1 for that of this process.
    """
    if sys.platform == "linux":
        command = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT_SCRIPT, str(os.getpid()), *command]
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
    _child_processes.append(process)
    return process


def stop_child_process(process: "subprocess.Popen[bytes]") -> None:
    """Stop a child process: terminate it, and kill it after a time-out; does nothing if it has ended."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@atexit.register
def stop_child_processes() -> None:
    """Stop every running child process, at exit."""
    for process in _child_processes:
        stop_child_process(process)


def find_free_port() -> int:
    """Return a loopback port that is currently free."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK_HOST, 0))
        return int(probe.getsockname()[1])


def load_log_tail(log: Path, characters: int = 2000) -> str:
    """Return the end of a log, for error messages."""
    return log.read_text("utf-8", "replace")[-characters:].strip() if log.is_file() else ""
