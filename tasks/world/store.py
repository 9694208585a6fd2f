"""The world's Oxigraph store: loaded once for a state of the files, then kept under <home>/world-cache.

A store is built in a folder of its own and renamed into place, so a kill leaves either a whole store or litter that
the next builder removes. Two locks, both dropped by the system when their holder dies: `build.lock` lets one process
build at a time, and a shared lock on `<digest>.lock` keeps a store in use from being removed as stale.
"""

import fcntl
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from tasks.core.fingerprints import combine_digests, digest_bytes
from tasks.errors import WorldError
from tasks.world.data import WorldData, digest_world
from tasks.world.rdf import write_rdf

_LOAD_TIMEOUT_S = 120.0
_LOCK_TIMEOUT_S = 120.0
# Modules whose code decides what is in a store.
_MODULES = ("data.py", "rdf.py", "files/articles.py", "files/reading.py", "files/values.py")


def find_oxigraph() -> Path:
    """Return the server binary that the oxigraph package installed; WorldError when it is not there."""
    try:
        files = distribution("oxigraph").files or []
    except PackageNotFoundError as error:
        raise WorldError("the package oxigraph is not installed; install factmill's requirements again") from error
    for file in files:
        path = Path(str(file.locate()))
        if file.stem == "oxigraph" and file.parent.name in {"bin", "Scripts"} and path.is_file():
            return path.resolve()
    raise WorldError("the oxigraph package has no server binary beside this Python; install it again")


def digest_store(folder: Path) -> str:
    """Return the name of a store: a digest over the world's files, the code that reads and writes, and Oxigraph."""
    code = [digest_bytes((Path(__file__).parent / module).read_bytes()) for module in _MODULES]
    return combine_digests([digest_world(folder), *code, distribution("oxigraph").version])[:32]


@contextmanager
def opened_store(cache: Path, digest: str, read_data: Callable[[], WorldData]) -> Iterator[Path]:
    """Give the folder of a loaded store, building it when it is not there; it is not removed as stale meanwhile.

    `read_data` is called only when the store must be built. WorldError when the folder cannot be written or loaded.
    """
    store = cache / digest
    with ExitStack() as held:
        try:
            cache.mkdir(parents=True, exist_ok=True)
            held.enter_context(_locked(cache / f"{digest}.lock", fcntl.LOCK_SH))
            if not store.is_dir():
                with _locked(cache / "build.lock", fcntl.LOCK_EX):
                    if not store.is_dir():
                        _remove_litter(cache, digest)
                        _build_store(cache, store, read_data())
        except OSError as error:
            raise WorldError(
                f"the embedded world's store: {error}; make {cache} writable or free some space"
            ) from error
        yield store


def _build_store(cache: Path, store: Path, data: WorldData) -> None:
    building = Path(tempfile.mkdtemp(prefix="building-", dir=cache))
    triples = building / "world.nt"
    with triples.open("w", encoding="utf-8") as stream:
        write_rdf(data, stream)
    command = [str(find_oxigraph()), "load", "--location", str(building / "store"), "--file", str(triples)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_LOAD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise WorldError(f"oxigraph did not load the world in {_LOAD_TIMEOUT_S:.0f} s") from error
    if done.returncode:
        raise WorldError(f"oxigraph could not load {triples}: {done.stderr.decode(errors='replace')[-2000:]}")
    (building / "store").rename(store)
    shutil.rmtree(building)


def _remove_litter(cache: Path, digest: str) -> None:
    """Remove logs, half-built stores (we hold the builder's lock) and stores of other states that nobody uses."""
    for left in cache.iterdir():
        if left.name.startswith("building-"):
            shutil.rmtree(left)
        elif left.suffix == ".log" and left.name.startswith(digest):
            left.unlink()
        elif left.suffix == ".log" or (left.is_dir() and left.name != digest):
            # a log is called by its store and the port; who serves that store still reads it
            with (cache / f"{left.stem.partition('-')[0]}.lock").open("a") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                shutil.rmtree(left) if left.is_dir() else left.unlink()


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[None]:
    with path.open("a") as lock:
        deadline = time.monotonic() + _LOCK_TIMEOUT_S
        while True:
            try:
                fcntl.flock(lock, kind | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise WorldError(f"{path} is held by another process for {_LOCK_TIMEOUT_S:.0f} s") from None
                time.sleep(0.02)
        yield
