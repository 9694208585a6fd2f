"""Start Python processes with everything imported: each is a fork of one prepared process.

Starting Python and importing Prefect and the command takes some seconds of computing, more than most commands do. A
fork is a process like any other, with its own id, environment, files and exit code. It shares the hash seed of the
prepared process, which differs from the tests' seed.
"""

import atexit
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[3]
_IMPORTED = (
    "factmill.flows.cli.main",
    "factmill.flows.deployment_flows",
    "factmill.flows.watching.flow_runs",
    *(f"factmill.flows.commands.{name}" for name in ("build", "evaluate", "report")),
    *(f"factmill.flows.{name}" for name in ("biokalma", "fanoutqa", "granola", "multihal", "slaq")),
    "factmill.flows.evaluate.biokalma",
    *(f"factmill.tasks.{name}.evaluation.definition" for name in ("fanoutqa", "granola", "multihal", "slaq")),
    "factmill.tasks.evaluation.steps",
    *(f"prefect.{name}" for name in ("artifacts", "flow_engine", "task_engine", "task_runners")),
    *(f"factmill.tasks.clients.{name}" for name in ("chat", "pageviews", "sparql", "wikipedia")),
    *(
        f"factmill.tasks.{name}"
        for name in ("graph.lookup", "models.embedders", "world.app", "world.scripted_replies", "world.serving")
    ),
    "ctranslate2",
    "openai",
    "pandas",
    "uvicorn.protocols.http.h11_impl",
)
_MOST_BYTES = 1 << 18
"""Maximum size of a request: its program, arguments and environment."""


class ReadyProcess:
    """A forked process with the parts of subprocess.Popen[str] that tests use."""

    def __init__(self, pid: int, status: int, pipes: Mapping[str, IO[str] | None]) -> None:
        self.pid = pid
        self.stdin, self.stdout, self.stderr = pipes["stdin"], pipes["stdout"], pipes["stderr"]
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; raise TimeoutExpired after `timeout` seconds."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end and return stdout and stderr; raise TimeoutExpired after `timeout` seconds."""
        said = {}
        streams = {name: stream for name, stream in (("out", self.stdout), ("err", self.stderr)) if stream}
        readers = [
            threading.Thread(target=lambda name=name, stream=stream: said.update({name: stream.read()}), daemon=True)
            for name, stream in streams.items()
        ]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
        return said.get("out", ""), said.get("err", "")

    def send_signal(self, number: int) -> None:
        """Send the process a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._status, selectors.EVENT_READ)
                if not selector.select(timeout):
                    return None
            result = os.read(self._status, 64)
            os.close(self._status)
            # no status arrives if the prepared process has died, and all its forks with it
            self.returncode = int(result) if result else -signal.SIGKILL
        return self.returncode


def start_ready(
    program: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    *,
    takes_input: bool = False,
    shows_errors: bool = False,
) -> ReadyProcess:
    """Start Python code in a folder with its own environment, as `python -c` does.

    `takes_input`: stdin is a pipe, else empty; `shows_errors`: stderr is the tests' own, else a pipe.
    """
    ours: dict[str, IO[str] | None] = {"stdin": None, "stdout": None, "stderr": None}
    theirs = []
    for name in ours:
        if name == "stdin" and not takes_input:
            theirs.append(os.open(os.devnull, os.O_RDONLY))
        elif name == "stderr" and shows_errors:
            theirs.append(os.dup(2))
        else:
            reading, writing = os.pipe()
            theirs.append(reading if name == "stdin" else writing)
            ours[name] = os.fdopen(writing, "w") if name == "stdin" else os.fdopen(reading)
    status, result = os.pipe()
    umask = os.umask(0o077)
    os.umask(umask)
    wanted = [program, list(arguments), dict(environment), str(folder), umask]
    try:
        line = _stand_ready()
        socket.send_fds(line, [json.dumps(wanted).encode()], [*theirs, result])
        pid = int(line.recv(64))
    finally:
        for each in (*theirs, result):
            os.close(each)
    return ReadyProcess(pid, status, ours)


@dataclass(frozen=True)
class Ended:
    """The exit code and output of a process."""

    code: int
    out: str
    err: str


def run_ready(program: str, *arguments: str | Path, piped: bytes | None = None, timeout: float = 120) -> Ended:
    """Run Python code to its end in the tests' environment; `piped` is its stdin."""
    process = start_ready(program, [*map(str, arguments)], os.environ, ROOT, takes_input=piped is not None)
    if process.stdin is not None:
        with suppress(BrokenPipeError), process.stdin as pipe:  # it may end before it has read all
            os.write(pipe.fileno(), piped or b"")
    out, err = process.communicate(timeout)
    return Ended(process.wait(), out, err)


@cache
def _stand_ready() -> socket.socket:
    """Start the prepared process, once per process, and return the connection to it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for line in (ours, theirs):
        line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_BYTES)
    path = os.pathsep.join(map(str, (ROOT, ROOT / "tests")))
    program = f"from support.processes.ready import fork_for; fork_for({theirs.fileno()})"
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": path, "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        cwd=ROOT,
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


# ── The prepared process ──


def fork_for(descriptor: int) -> None:
    """Import everything, then fork a process for each request until the connection closes."""
    from factmill.tasks.memory import GC_THRESHOLDS

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the test run
    gc.set_threshold(*GC_THRESHOLDS)
    for module in _IMPORTED:
        import_module(module)
    _read_ahead()
    gc.collect()
    gc.freeze()
    ended, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    line = socket.socket(fileno=descriptor)
    statuses: dict[int, int] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(line, selectors.EVENT_READ)
        selector.register(ended, selectors.EVENT_READ)
        while True:
            found = {key.fileobj for key, _ in selector.select()}
            if ended in found:
                os.read(ended, 4096)
                _tell_ended(statuses)
            if line in found:
                result, descriptors, *_ = socket.recv_fds(line, _MOST_BYTES, 4)
                if not result:
                    return
                if not (pid := os.fork()):
                    break
                statuses[pid] = descriptors.pop()
                for each in descriptors:
                    os.close(each)
                line.send(str(pid).encode())
    for each in (ended, woken, *statuses.values()):
        os.close(each)
    line.close()
    _become(json.loads(result), descriptors)


def _read_ahead() -> None:
    """Read what every building process reads once and caches: the embedded world, its reply digests, our own code."""
    from factmill.flows.benchmarks import BENCHMARKS
    from factmill.tasks.core.calls.freshness import make_embedded_world_digests_call
    from factmill.tasks.engine.naming.code_versions import collect_recipe_code
    from factmill.tasks.world.content_digests import WorldContentDigestsService

    WorldContentDigestsService("").send([make_embedded_world_digests_call("")], lambda *_: None)
    for benchmark in BENCHMARKS.values():
        collect_recipe_code(benchmark.recipe)


def _tell_ended(statuses: dict[int, int]) -> None:
    """Send the exit status of each ended process."""
    while statuses:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        descriptor = statuses.pop(pid)
        with suppress(BrokenPipeError):  # nobody waits for it
            os.write(descriptor, str(os.waitstatus_to_exitcode(status)).encode())
        os.close(descriptor)


def _become(expected: list[Any], descriptors: Sequence[int]) -> None:
    """Become the requested process and run its program; an exception ends it like any program."""
    program, arguments, environment, folder, umask = expected
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, stream)
    for descriptor in descriptors:
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.umask(umask)
    os.chdir(folder)
    sys.argv = ["-c", *arguments]
    sys.path[:0] = [each for each in environment.get("PYTHONPATH", "").split(os.pathsep) if each]
    _settle_prefect()
    exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})


def _settle_prefect() -> None:
    """Make Prefect read the environment's settings again."""
    from prefect.context import SettingsContext, get_settings_context
    from prefect.settings import PREFECT_API_URL, PREFECT_HOME, PREFECT_LOCAL_STORAGE_PATH

    from factmill.flows.prefect_server import make_prefect_environment
    from factmill.tasks.settings import factmill_home

    wanted = {**os.environ, **make_prefect_environment(factmill_home())}
    known = (PREFECT_API_URL, PREFECT_HOME, PREFECT_LOCAL_STORAGE_PATH)
    result = {each: wanted[each.name] for each in known if each.name in wanted}  # no address without a server
    now = get_settings_context()
    SettingsContext(profile=now.profile, settings=now.settings.copy_with_update(result)).__enter__()
