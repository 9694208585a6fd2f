"""Starting and stopping the embedded world: a real Oxigraph server and one FastAPI app, both on loopback.

Oxigraph is a process of its own that ends with this one (tasks/processes.py); the app runs in a thread of this process.
"""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache as remember
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.errors import WorldError
from tasks.processes import HOST, free_port, read_tail, start_child, stop_child
from tasks.world.data import WORLD_FOLDER, WorldData, digest_world
from tasks.world.files.reading import load_world_data
from tasks.world.store import digest_store, find_oxigraph, opened_store

if TYPE_CHECKING:
    import uvicorn

_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 5.0
_PORT_TRIES = 5


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
    try:
        with running_world(home, folder, port) as world:
            sys.stdout.write("\n".join(describe_endpoints(world)) + "\n")
            sys.stdout.flush()
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
        chosen = port or free_port()
        log = store.parent / f"{store.name}-{chosen}.log"
        command = [str(find_oxigraph()), "serve-read-only", "--location", str(store), "--bind", f"{HOST}:{chosen}"]
        try:
            process = start_child(command, log)
        except OSError as error:
            raise WorldError(f"oxigraph does not start: {error}") from error
        if _wait_until_listening(process, log):
            break
    else:
        said = read_tail(log).partition("\n\nStack backtrace")[0]
        raise WorldError(f"oxigraph did not start on port {chosen}: {said}")
    try:
        yield chosen
    finally:
        stop_child(process)
        log.unlink(missing_ok=True)


def _wait_until_listening(process: "subprocess.Popen[bytes]", log: Path) -> bool:
    """Wait until the server says that it listens; False when it ended before, or took too long and was stopped."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        if b"Listening" in log.read_bytes():
            return True
        time.sleep(0.005)
    if process.poll() is None:
        stop_child(process)
    return False


@contextmanager
def _running_app(data: WorldData, sparql_url: str, port: int) -> Iterator[int]:
    """Run the app in a thread; give its port once it listens."""
    # the web framework is imported only when something is served
    import uvicorn

    from tasks.world.app import make_app
    from tasks.world.faults import CuttableProtocol

    # asyncio sends small answers at once only over sockets that say they are TCP; others wait some 40 ms
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:
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
