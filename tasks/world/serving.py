"""Starting and stopping the embedded world: a real Oxigraph server and one FastAPI app, both on loopback.

Oxigraph is a process of its own that the kernel kills when this one dies (PR_SET_PDEATHSIG, Linux); elsewhere it is
stopped at a normal exit only. That signal is tied to the thread that started the child, so the child belongs to a
thread that lives as long as it does. The app runs in a thread of this process.
"""

import atexit
import os
import platform
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache as remember
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from tasks.errors import WorldError
from tasks.world.data import WORLD_FOLDER, WorldData, digest_world
from tasks.world.files.reading import load_world_data
from tasks.world.store import digest_store, find_oxigraph, opened_store

if TYPE_CHECKING:
    import uvicorn

HOST = "127.0.0.1"
_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 5.0
_PORT_TRIES = 5
# Asks the kernel for the signal, makes sure the parent is still there, and becomes the server.
_DIE_WITH_PARENT = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); "
    "os.getppid() == int(sys.argv[1]) or sys.exit(1); os.execv(sys.argv[2], sys.argv[2:])"
)


@dataclass(frozen=True, slots=True)
class RunningWorld:
    """A world that answers."""

    digest: str
    """Identity of the world's files (`digest_world`)."""
    endpoints: Mapping[str, str]
    """wikidata: SPARQL address; wikipedia, pageviews, falcon: base addresses, as world files give them."""
    app_url: str
    """Base address of the app, with /faults below it."""

    @property
    def sparql_proxy(self) -> str:
        """SPARQL address that goes through the app, so that faults can be put on it."""
        return f"{self.app_url}/sparql"


@contextmanager
def running_world(home: Path, folder: Path = WORLD_FOLDER, port: int = 0) -> Iterator[RunningWorld]:
    """Start the world, give its addresses, stop it; WorldError when it does not come up.

    The loaded store is kept in `home`/world-cache, so only the first start of a state of the files loads it.
    The app listens on `port` and Oxigraph on the one after it; 0 takes any free ports.
    """
    read_data = remember(lambda: load_world_data(folder))
    digest = digest_store(folder)
    with (
        opened_store(home / "world-cache", digest, read_data) as store,
        _running_oxigraph(store, port + 1 if port else 0) as sparql_port,
        _running_app(read_data(), f"http://{HOST}:{sparql_port}/query", port) as app_port,
    ):
        yield _describe_world(digest_world(folder), f"http://{HOST}:{sparql_port}/query", f"http://{HOST}:{app_port}")


def serve_forever(home: Path, port: int, folder: Path = WORLD_FOLDER) -> None:
    """Serve the world until Ctrl-C, saying where it is: `factmill world serve`."""
    with running_world(home, folder, port) as world:
        sys.stdout.write("\n".join(describe_endpoints(world)) + "\n")
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            sys.stdout.write("stopped\n")


def describe_endpoints(world: RunningWorld) -> list[str]:
    """Return lines that name the addresses of a running world and show how to ask them."""
    return [
        f"The embedded world {world.digest[:12]} is up; page views, page ids and revision ids in it are made up.",
        *(f"  {name:10} {url}" for name, url in world.endpoints.items()),
        f"  {'faults':10} {world.app_url}/faults",
        "Try:",
        f"  curl '{world.endpoints['wikidata']}' --data-urlencode 'query=SELECT * {{ ?s ?p ?o }} LIMIT 3'",
        f"  curl '{world.endpoints['wikipedia']}/w/api.php?action=parse&page=Berlin&format=json'",
        "Ctrl-C stops it.",
    ]


def _describe_world(digest: str, sparql_url: str, app_url: str) -> RunningWorld:
    return RunningWorld(
        digest=digest,
        endpoints={
            "wikidata": sparql_url,
            "wikipedia": app_url,
            "pageviews": f"{app_url}/api/rest_v1",
            "falcon": f"{app_url}/falcon2",
        },
        app_url=app_url,
    )


@contextmanager
def _running_oxigraph(store: Path, port: int) -> Iterator[int]:
    """Run the SPARQL server; give its port once it listens, trying other free ports when one was taken meanwhile."""
    for _ in range(1 if port else _PORT_TRIES):
        chosen = port or _free_port()
        log = store.parent / f"{store.name}-{chosen}.log"
        process = _start_process(_oxigraph_command(store, chosen), log)
        if _wait_until_listening(process, log):
            break
    else:
        raise WorldError(f"oxigraph did not start on port {chosen}: {_tail(log)}")
    stop = partial(_stop_process, process)
    atexit.register(stop)
    try:
        yield chosen
    finally:
        atexit.unregister(stop)
        stop()
        log.unlink(missing_ok=True)


def _oxigraph_command(store: Path, port: int) -> list[str]:
    binary = str(find_oxigraph())
    command = [binary, "serve-read-only", "--location", str(store), "--bind", f"{HOST}:{port}"]
    if platform.system() == "Linux":
        return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]
    return command


def _start_process(command: list[str], log: Path) -> "subprocess.Popen[bytes]":
    """Start a child from a thread that waits for it, so that the thread outlives the child."""
    started: SimpleQueue[subprocess.Popen[bytes] | OSError] = SimpleQueue()

    def keep() -> None:
        try:
            with log.open("wb") as stream:
                # a session of its own: Ctrl-C is ours to handle, the server must answer until we are done
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True
                )
        except OSError as error:
            started.put(error)
            return
        started.put(process)
        process.wait()

    threading.Thread(target=keep, name="oxigraph-keeper", daemon=True).start()
    process = started.get()
    if isinstance(process, OSError):
        raise WorldError(f"oxigraph does not start: {process}") from process
    return process


def _stop_process(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_until_listening(process: "subprocess.Popen[bytes]", log: Path) -> bool:
    """Wait until the server says that it listens; False when it ended before, or took too long and was stopped."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        if b"Listening" in log.read_bytes():
            return True
        time.sleep(0.005)
    if process.poll() is None:
        _stop_process(process)
    return False


@contextmanager
def _running_app(data: WorldData, sparql_url: str, port: int) -> Iterator[int]:
    """Run the app in a thread; give its port once it listens."""
    # the web framework is imported only when something is served
    import uvicorn

    from tasks.world.app import make_app
    from tasks.world.faults import CuttableProtocol

    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as error:
            raise WorldError(f"port {port} on {HOST} cannot be used: {error}; give another one") from error
        config = uvicorn.Config(
            make_app(data, sparql_url),
            http=CuttableProtocol,
            log_config=None,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), name="embedded-world", daemon=True)
        thread.start()
        try:
            _wait_until_started(server, thread)
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(_STOP_TIMEOUT_S)


def _wait_until_started(server: "uvicorn.Server", thread: threading.Thread) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise WorldError("the embedded world's app did not start; the lines above on standard error say why")
        time.sleep(0.005)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _tail(log: Path) -> str:
    return log.read_text("utf-8", errors="replace")[-2000:].strip() or "it said nothing"
