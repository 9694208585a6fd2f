"""Start and stop the embedded world: a real Oxigraph server and a FastAPI app, both on loopback.

Oxigraph is a child process that ends with this one (tasks/processes.py); the app runs in a thread of this process.
Oxigraph's store is loaded once per state of the files and cached under <home>/world-cache. It is built in a temporary folder
and renamed into place, so a kill leaves either a complete store or leftovers that the next builder removes. The system releases
both locks when their holder dies: `build.lock` lets one process build at a time, and a shared lock on `<digest>.lock`
protects a store in use from removal as stale.
"""

import fcntl
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache as remember
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from factmill.tasks.core.digests import combine_digests, digest_bytes
from factmill.tasks.errors import EmbeddedWorldError
from factmill.tasks.processes import (
    LOOPBACK_HOST,
    find_free_port,
    load_log_tail,
    start_child_process,
    stop_child_process,
)
from factmill.tasks.world.data import WORLD_FOLDER, WorldData, digest_world_files
from factmill.tasks.world.files import load_world_data
from factmill.tasks.world.rdf import write_world_ntriples

_LOAD_TIMEOUT_S = 120.0
_LOCK_TIMEOUT_S = 120.0
# Modules whose code determines the content of a store.
_STORE_CODE_FILES = ("data.py", "files.py", "rdf.py")


def get_oxigraph_binary() -> Path:
    """Return the server binary of the installed oxigraph package; EmbeddedWorldError if it is missing."""
    try:
        files = distribution("oxigraph").files or []
    except PackageNotFoundError as error:
        raise EmbeddedWorldError(
            "the package oxigraph is not installed; install factmill's requirements again"
        ) from error
    for file in files:
        path = Path(str(file.locate()))
        if file.stem == "oxigraph" and file.parent.name in {"bin", "Scripts"} and path.is_file():
            return path.resolve()
    raise EmbeddedWorldError("the package oxigraph has no server binary in this Python's environment; install it again")


def digest_world_store_inputs(folder: Path) -> str:
    """Return a store's name: a digest of the world's files, the code that loads and writes them, and Oxigraph's version."""
    code = [digest_bytes((Path(__file__).parent / module).read_bytes()) for module in _STORE_CODE_FILES]
    return combine_digests([digest_world_files(folder), *code, distribution("oxigraph").version])[:32]


@contextmanager
def open_or_build_world_store(cache: Path, digest: str, load_data: Callable[[], WorldData]) -> Iterator[Path]:
    """Yield the folder of a loaded store, built if missing and protected from removal during the block.

    `load_data` is called only if the store must be built. EmbeddedWorldError if the folder cannot be written or loaded.
    """
    store = cache / digest
    with ExitStack() as held:
        try:
            cache.mkdir(parents=True, exist_ok=True)
            held.enter_context(_hold_file_lock(cache / f"{digest}.lock", fcntl.LOCK_SH))
            if not store.is_dir():
                with _hold_file_lock(cache / "build.lock", fcntl.LOCK_EX):
                    if not store.is_dir():
                        _remove_stale_stores_and_logs(cache, digest)
                        _build_store(cache, store, load_data())
        except OSError as error:
            raise EmbeddedWorldError(
                f"the embedded world's store cannot be built or opened: {error}; make {cache} writable or free some space"
            ) from error
        yield store


def _build_store(cache: Path, store: Path, data: WorldData) -> None:
    building = Path(tempfile.mkdtemp(prefix="building-", dir=cache))
    triples = building / "world.nt"
    with triples.open("w", encoding="utf-8") as stream:
        write_world_ntriples(data, stream)
    command = [str(get_oxigraph_binary()), "load", "--location", str(building / "store"), "--file", str(triples)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_LOAD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise EmbeddedWorldError(f"oxigraph did not load the world in {_LOAD_TIMEOUT_S:.0f} s") from error
    if done.returncode:
        raise EmbeddedWorldError(f"oxigraph could not load {triples}: {done.stderr.decode(errors='replace')[-2000:]}")
    (building / "store").rename(store)
    shutil.rmtree(building)


def _remove_stale_stores_and_logs(cache: Path, digest: str) -> None:
    """Remove logs, half-built stores (we hold the build lock) and unused stores of other states."""
    for left in cache.iterdir():
        if left.name.startswith("building-"):
            shutil.rmtree(left)
        elif left.suffix == ".log" and left.name.startswith(digest):
            left.unlink()
        elif left.suffix == ".log" or (left.is_dir() and left.name != digest):
            # a log is named by store and port; the process that serves the store still reads it
            with (cache / f"{left.stem.partition('-')[0]}.lock").open("a") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                shutil.rmtree(left) if left.is_dir() else left.unlink()


@contextmanager
def _hold_file_lock(path: Path, lock_mode: int) -> Iterator[None]:
    with path.open("a") as lock:
        deadline = time.monotonic() + _LOCK_TIMEOUT_S
        while True:
            try:
                fcntl.flock(lock, lock_mode | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise EmbeddedWorldError(
                        f"{path}: another process has held this lock for {_LOCK_TIMEOUT_S:.0f} s; wait until it ends, or stop it"
                    ) from None
                time.sleep(0.02)
        yield


_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 5.0
_PORT_TRIES = 5


@dataclass(frozen=True, slots=True)
class RunningWorld:
    """A running world."""

    digest: str
    """Digest of the world's files (`digest_world_files`)."""
    endpoints: Mapping[str, str]
    """wikidata: SPARQL URL; wikipedia, pageviews, falcon: base URLs, as in world files."""
    app_url: str
    """Base URL of the app; /faults is below it."""

    @property
    def sparql_proxy(self) -> str:
        """SPARQL URL through the app, so that faults apply to it."""
        return f"{self.app_url}/sparql"


@contextmanager
def running_world(home: Path, folder: Path = WORLD_FOLDER, port: int = 0) -> Iterator[RunningWorld]:
    """Run the world during the block and yield its addresses; EmbeddedWorldError if it does not start.

    The loaded store is cached in `home`/world-cache, so only the first start of a state of the files loads it.
    The app listens on `port` and Oxigraph on `port` + 1; 0 takes any free ports.
    """
    read_data = remember(lambda: load_world_data(folder))
    digest = digest_world_store_inputs(folder)
    with (
        open_or_build_world_store(home / "world-cache", digest, read_data) as store,
        _running_oxigraph(store, port + 1 if port else 0) as sparql_port,
        _running_app(read_data(), f"http://{LOOPBACK_HOST}:{sparql_port}/query", port) as app_port,
    ):
        app_url = f"http://{LOOPBACK_HOST}:{app_port}"
        endpoints = {
            "wikidata": f"http://{LOOPBACK_HOST}:{sparql_port}/query",
            "wikipedia": app_url,
            "pageviews": f"{app_url}/api/rest_v1",
            "falcon": f"{app_url}/falcon2",
        }
        yield RunningWorld(digest_world_files(folder), endpoints, app_url)


def serve_world_until_interrupted(home: Path, port: int, folder: Path = WORLD_FOLDER) -> None:
    """Serve the world until Ctrl-C and print its addresses: `factmill world`."""
    try:
        with running_world(home, folder, port) as world:
            sys.stdout.write("\n".join(format_world_endpoints(world)) + "\n")
            sys.stdout.flush()
            threading.Event().wait()
    except KeyboardInterrupt:
        sys.stdout.write("stopped\n")


def format_world_endpoints(world: RunningWorld) -> list[str]:
    """Return lines with the addresses of a running world and example requests."""
    return [
        f"The embedded world {world.digest[:12]} is up; page views, page ids and revision ids in it are made up.",
        *(f"  {name:10} {url}" for name, url in world.endpoints.items()),
        f"  {'faults':10} {world.app_url}/faults",
        "Try:",
        f"  curl '{world.endpoints['wikidata']}' --data-urlencode 'query=SELECT * {{ ?s ?p ?o }} LIMIT 3'",
        f"  curl '{world.endpoints['wikipedia']}/w/api.php?action=parse&page=Berlin&format=json'",
        "Ctrl-C stops it.",
    ]


@contextmanager
def _running_oxigraph(store: Path, port: int) -> Iterator[int]:
    """Run the SPARQL server and yield its port once it listens; retry if another process took a free port."""
    for _ in range(1 if port else _PORT_TRIES):
        chosen = port or find_free_port()
        log = store.parent / f"{store.name}-{chosen}.log"
        place = ["--location", str(store), "--bind", f"{LOOPBACK_HOST}:{chosen}"]
        try:
            process = start_child_process([str(get_oxigraph_binary()), "serve-read-only", *place], log)
        except OSError as error:
            raise EmbeddedWorldError(f"oxigraph does not start: {error}") from error
        deadline = time.monotonic() + _START_TIMEOUT_S
        while (
            not (is_up := b"Listening" in log.read_bytes()) and time.monotonic() < deadline and process.poll() is None
        ):
            time.sleep(0.005)
        if is_up:
            break
        stop_child_process(process)
    else:
        log_text = load_log_tail(log).partition("\n\nStack backtrace")[0]
        raise EmbeddedWorldError(f"oxigraph did not start on port {chosen}: {log_text}")
    try:
        yield chosen
    finally:
        stop_child_process(process)
        log.unlink(missing_ok=True)


@contextmanager
def _running_app(data: WorldData, sparql_url: str, port: int) -> Iterator[int]:
    """Run the app in a thread; yield its port once it listens."""
    # import the web framework only to serve
    import uvicorn

    from factmill.tasks.world.app import make_world_app
    from factmill.tasks.world.faults import AbortableHttpProtocol

    # asyncio sends small responses at once only on sockets declared as TCP; others wait some 40 ms
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK_HOST, port))
        except OSError as error:
            raise EmbeddedWorldError(
                f"port {port} on {LOOPBACK_HOST} cannot be used: {error}; choose another with --port"
            ) from error
        config = uvicorn.Config(
            make_world_app(data, sparql_url),
            http=AbortableHttpProtocol,
            log_config=None,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), name="embedded-world", daemon=True)
        thread.start()
        deadline = time.monotonic() + _START_TIMEOUT_S
        try:
            while not server.started:
                if not thread.is_alive() or time.monotonic() > deadline:
                    raise EmbeddedWorldError(
                        "the embedded world's app did not start; see the lines above on standard error"
                    )
                time.sleep(0.005)
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(_STOP_TIMEOUT_S)
