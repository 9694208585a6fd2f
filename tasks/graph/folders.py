"""The folders of graphs: what they say of themselves, whether their files are those that were loaded, and who may build one.

<folder>/<name>/manifest.json     this file's GraphManifest
<folder>/<name>/graph.duckdb      the tables (tasks/graph/loading/tables.py)
<folder>/<name>/*.npy             the arrays (tasks/graph/arrays.py)
<folder>/<name>/checked.json      which files were digested when (`check_graph`)
<folder>/.<name>.loading/         a load under way, or one that was broken off

Digesting a large graph takes longer than what it is opened for, so a file that was digested once is trusted while its
size, time of change and inode stay what they were; they are noted in `checked.json` beside the files. A file that was
edited, copied or fetched has other ones and is digested once again. The note is a convenience: where it cannot be
written, as on a read-only disk, files are digested each time.

A graph is built in `.<name>.loading`, held by a lock that ends with the process, and gets its name in one rename:
whatever stops a load leaves no graph, and an old graph of that name stays until the new one is whole. A load that was
stopped leaves its staging database behind if rows were committed to it, beside a note of what was asked for; without
that note the folder is worth nothing and goes.
"""

import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

from pydantic import TypeAdapter, ValidationError

from factmill.tasks.core.rows import StrictModel
from factmill.tasks.errors import GraphError, UsageError
from factmill.tasks.graph.loading.sources.streams import Form, tell_form

FORMAT_VERSION = 3
MANIFEST, CHECKED, DATABASE = "manifest.json", "checked.json", "graph.duckdb"

GRAPH = "graph"
"""Folder in the loading folder in which the files of the graph are written."""
REQUEST = "request.json"

State = Literal["whole", "damaged", "loading", "half loaded"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LOADING = re.compile(rf"\.({_NAME.pattern})\.loading")
_CHUNK_BYTES = 1 << 20
_THREADS = 4


class GraphFile(StrictModel):
    """What a file of a graph holds."""

    size_bytes: int
    sha256: str


class _Checked(StrictModel):
    size_bytes: int
    mtime_ns: int
    inode: int
    sha256: str


_Notes = dict[str, _Checked]
_NOTES = TypeAdapter(_Notes)


def measure_files(path: Path) -> dict[str, GraphFile]:
    """Return size and digest of all files in a folder by name, having brought them to disk, and note them as checked."""
    names = sorted(each.name for each in path.iterdir())
    digests = _digest_files([path / name for name in names], to_disk=True)
    notes = {name: _state_file(path / name, digest) for name, digest in zip(names, digests, strict=True)}
    _write_notes(path, notes)
    return {name: GraphFile(size_bytes=note.size_bytes, sha256=note.sha256) for name, note in notes.items()}


def find_wrong_sizes(path: Path, files: Mapping[str, GraphFile]) -> dict[str, str]:
    """Return what is wrong with each file that is missing or has another size, by name."""
    wrong = {}
    for name, file in files.items():
        size_bytes = (path / name).stat().st_size if (path / name).is_file() else None
        if size_bytes != file.size_bytes:
            state = "is missing" if size_bytes is None else f"has {size_bytes:,} bytes"
            wrong[name] = f"{state}, expected {file.size_bytes:,} bytes"
    return wrong


def find_damage(
    path: Path,
    files: Mapping[str, GraphFile],
    *,
    anew: bool = False,
    on_read: Callable[[int], None] | None = None,
) -> dict[str, str]:
    """Return what is wrong with each file that is not what it was, by name.

    Only files that changed since they were last digested are digested, with `anew` all. `on_read` is told how many
    bytes were read each time, by several threads.
    """
    wrong = find_wrong_sizes(path, files)
    known = {} if anew else _read_notes(path)
    # as they are before they are digested: a file that changes meanwhile is digested again next time
    states = {name: _state_file(path / name, file.sha256) for name, file in files.items() if name not in wrong}
    doubtful = [name for name, state in states.items() if known.get(name) != state]
    digests = _digest_files([path / name for name in doubtful], on_read)
    for name, digest in zip(doubtful, digests, strict=True):
        if digest != files[name].sha256:
            wrong[name] = f"has SHA-256 {digest[:16]}…, expected {files[name].sha256[:16]}…"
    if doubtful:
        _write_notes(path, {name: state for name, state in states.items() if name not in wrong})
    return wrong


def _digest_files(
    paths: Iterable[Path], on_read: Callable[[int], None] | None = None, *, to_disk: bool = False
) -> list[str]:
    def digest_file(path: Path) -> str:
        digest, work = hashlib.sha256(), memoryview(bytearray(_CHUNK_BYTES))
        with path.open("rb", buffering=0) as file:
            if to_disk:
                os.fsync(file.fileno())
            while got := file.readinto(work):
                digest.update(work[:got])
                if on_read:
                    on_read(got)
        return digest.hexdigest()

    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(digest_file, paths))


def _state_file(path: Path, sha256: str) -> _Checked:
    found = path.stat()
    return _Checked(size_bytes=found.st_size, mtime_ns=found.st_mtime_ns, inode=found.st_ino, sha256=sha256)


def _read_notes(path: Path) -> _Notes:
    try:
        return _NOTES.validate_json((path / CHECKED).read_bytes())
    except (OSError, ValidationError):
        # no note, or none that can be read: everything is digested
        return {}


def _write_notes(path: Path, notes: _Notes) -> None:
    """Note files that are what they should be; without effect where nothing can be written."""
    beside = path / f".{CHECKED}.{os.getpid()}"
    with suppress(OSError):
        try:
            beside.write_bytes(_NOTES.dump_json(notes, indent=2))
            beside.replace(path / CHECKED)
        finally:
            beside.unlink(missing_ok=True)


class SourceFile(StrictModel):
    """A file that was loaded."""

    path: str
    """As given; `-` is standard input."""
    size_bytes: int
    sha256: str
    """Of the bytes as they lie on disk, packed or not."""
    lines: int
    """Of Turtle, triples."""


class GraphManifest(StrictModel):
    """What a graph holds and where it comes from. lines = blank + malformed + not_kept + read; read >= stored."""

    name: str
    format_version: int
    digest: str
    """SHA-256 over the stored rows in their order, languages and dump date: the same triples give the same digest."""
    languages: tuple[str, ...]
    dump_date: str | None
    """As given to the loader, else as the dump says of itself, else the latest change of an item (ISO 8601)."""
    sources: tuple[SourceFile, ...]
    lines: int
    blank: int
    """Blank lines and comments."""
    malformed: int
    """Lines that are no triple; they are in the table `malformed`."""
    not_kept: dict[str, int]
    """Well-formed triples that the graph has no use for, by kind (tasks/graph/loading/shapes.py, `name_unkept`)."""
    read: dict[str, int]
    """Kept triples as they were read, by kind."""
    stored: dict[str, int]
    """Rows by table: a repeated triple is stored once, and one label, description and title an item and language."""
    left_out: dict[str, int]
    """Dates and numbers that were read and are in no literal, by reason (tasks/graph/loading/tables.py)."""
    files: dict[str, GraphFile]
    """The files of the graph but this one."""
    created_at: str


def graph_path(name: str, folder: Path) -> Path:
    """Return the folder of a graph; UsageError when the name cannot be a folder's."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"no graph can be called {name!r}: use letters, digits, `.`, `_`, `-`, a letter or digit first"
        )
    return Path(folder) / name


def loading_path(name: str, folder: Path) -> Path:
    """Return the folder in which a graph is built before it is given its name."""
    return Path(folder) / f".{graph_path(name, folder).name}.loading"


def write_manifest(manifest: GraphManifest, path: Path) -> None:
    """Write the manifest into a graph's folder, and all of it to disk."""
    with (path / MANIFEST).open("w", encoding="utf-8") as file:
        file.write(manifest.model_dump_json(indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_manifest(name: str, folder: Path) -> GraphManifest:
    """Read a graph's manifest and check its files against it; GraphError says what is wrong and what to do.

    Takes milliseconds unless a file changed since it was last checked: then its digest is compared.
    """
    manifest = read_unchecked(name, folder)
    refuse_damage(name, folder, find_damage(graph_path(name, folder), manifest.files))
    return manifest


def check_graph(
    name: str, folder: Path, on_read: Callable[[int, int], None] | None = None
) -> tuple[GraphManifest, dict[str, str]]:
    """Read all files of a graph; return its manifest and what is wrong with each damaged file, by name.

    `on_read` is told how many bytes were read and how many there are.
    """
    manifest = read_unchecked(name, folder)
    total, read, one_at_a_time = sum(file.size_bytes for file in manifest.files.values()), 0, threading.Lock()

    def count(size_bytes: int) -> None:
        nonlocal read
        with one_at_a_time:
            read += size_bytes
            if on_read:
                on_read(read, total)

    return manifest, find_damage(graph_path(name, folder), manifest.files, anew=True, on_read=count)


def list_names(folder: Path) -> list[str]:
    """Return the names of all graphs and half loads in a folder, sorted."""
    if not Path(folder).is_dir():
        return []
    names = {path.name for path in Path(folder).iterdir() if path.is_dir() and _NAME.fullmatch(path.name)}
    loads = {found[1] for path in Path(folder).iterdir() if path.is_dir() and (found := _LOADING.fullmatch(path.name))}
    return sorted(names | loads)


def format_load_advice(name: str) -> str:
    """Return what to do about a graph that cannot be used."""
    return f"load it again: factmill graph load FILE... --name {name} --replace"


def read_unchecked(name: str, folder: Path) -> GraphManifest:
    """Read a graph's manifest alone; GraphError as `read_manifest`."""
    path, again = graph_path(name, folder), format_load_advice(name)
    if not path.is_dir():
        refuse_missing(name, folder)
    if not (path / MANIFEST).is_file():
        raise GraphError(f"{path}: no {MANIFEST}: it was never finished; {again}")
    try:
        content = (path / MANIFEST).read_bytes()
        told = json.loads(content)
        found = told.get("format_version") if isinstance(told, dict) else None
        if isinstance(found, int) and found != FORMAT_VERSION:
            age = "a newer" if found > FORMAT_VERSION else "an older"
            raise GraphError(f"{path}: written by {age} factmill (format {found}, here {FORMAT_VERSION}); {again}")
        return GraphManifest.model_validate_json(content)
    except ValueError as error:
        detail = str(error)
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            detail = f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")
        raise GraphError(f"{path / MANIFEST}: damaged ({detail}); {again}") from error
    except OSError as error:
        raise GraphError(f"{path / MANIFEST}: cannot be read: {error.strerror}") from error


def refuse_missing(name: str, folder: Path) -> NoReturn:
    """Raise GraphError for a graph that is not there, with what to do."""
    if loading_path(name, folder).exists():
        raise GraphError(
            f"graph {name} in {folder}: half loaded; wait for its load, or give its factmill graph load FILE..."
            f" --name {name} again, which goes on from there"
        )
    known = ", ".join(each for each in list_names(folder) if graph_path(each, folder).is_dir()) or "none"
    raise GraphError(f"no graph {name} in {folder} (there: {known}): factmill graph load FILE... --name {name}")


def refuse_damage(name: str, folder: Path, damage: dict[str, str]) -> None:
    """Raise GraphError when any file of a graph is damaged; `damage` says what is wrong with it, by name."""
    if damage:
        path = graph_path(name, folder)
        told = "; ".join(f"{path / file}: {flaw}" for file, flaw in sorted(damage.items()))
        raise GraphError(f"{told}: damaged; {format_load_advice(name)}")


class Request(StrictModel):
    """What decides which rows a load reads: one that asks for the same goes on with a half load."""

    files: tuple[str, ...]
    languages: tuple[str, ...]
    form: Form | None
    code: str
    """Digest of the modules that decide which rows are read."""
    sizes: tuple[int | None, ...] = ()
    """Bytes of the files as they lay on disk; None for a pipe."""

    def is_same(self, other: "Request") -> bool:
        """True when both name the same files, whatever these hold now, or files that may have been renamed or moved."""
        if (self.languages, self.form, self.code) != (other.languages, other.form, other.code):
            return False
        forms, others = ([tell_form(path, each.form) for path in each.files] for each in (self, other))
        return self.files == other.files or (self.sizes, forms) == (other.sizes, others)

    def format_command(self, name: str) -> str:
        """Return the command that asks for this."""
        languages = [] if self.languages == ("en",) else [f"--language={language}" for language in self.languages]
        form = [f"--format={self.form}"] if self.form else []
        return shlex.join(["factmill", "graph", "load", *self.files, f"--name={name}", *languages, *form])


@dataclass(frozen=True, slots=True)
class FoundGraph:
    """What a folder holds under a name."""

    name: str
    state: State
    manifest: GraphManifest | None
    """Of a whole graph."""
    advice: str | None
    """What is wrong with any other, or what to do."""


@contextmanager
def claim_folder(name: str, folder: Path) -> Iterator[Path]:
    """Yield the folder to build a graph in, which no other process has meanwhile; GraphError when one has.

    At the end only a half load with its request is left in it, or nothing.
    """
    beside = loading_path(name, folder)
    beside.mkdir(parents=True, exist_ok=True)
    with _lock(beside) as is_ours:
        if not is_ours:
            raise GraphError(f"graph {name} is being loaded into {folder} by another process: wait until it is done")
        # what a process that was killed could not remove
        remove(_old_path(name, folder))
        remove(beside / GRAPH)
        try:
            yield beside
        finally:
            remove(beside / GRAPH if (beside / REQUEST).exists() else beside)


def read_request(beside: Path) -> Request | None:
    """Return what the half load in a folder was asked for; None when there is none."""
    try:
        return Request.model_validate_json((beside / REQUEST).read_bytes())
    except (FileNotFoundError, ValidationError):
        # a request that cannot be read is that of another version
        return None


def keep_half_load(beside: Path, request: Request) -> None:
    """Note what the half load in a folder was asked for: from now on it is worth keeping."""
    if read_request(beside) != request:
        partly = beside / f"{REQUEST}.partly"
        with partly.open("w", encoding="utf-8") as file:
            file.write(request.model_dump_json(indent=2))
            file.flush()
            # a machine that loses its power would leave an empty note, and hours of reading worth nothing
            os.fsync(file.fileno())
        partly.rename(beside / REQUEST)


def empty_folder(path: Path) -> None:
    """Remove what is in a folder."""
    # the request first: without it the rest is worth nothing
    for left in sorted(path.iterdir(), key=lambda each: each.name != REQUEST):
        remove(left)


def put_in_place(name: str, folder: Path, *, replace: bool) -> None:
    """Give a graph that was built its name; one of that name goes, if it may be replaced."""
    built, target, old = loading_path(name, folder) / GRAPH, graph_path(name, folder), _old_path(name, folder)
    if target.exists():
        if not replace:
            raise GraphError(f"graph {name} was put into {folder} by another process in the meantime")
        target.rename(old)
    built.rename(target)
    (loading_path(name, folder) / REQUEST).unlink()
    remove(old)


def remove_graph(name: str, folder: Path) -> Literal["graph", "half load"]:
    """Remove the half load of a name, else the graph; return which. GraphError when there is none or it is loading."""
    path, beside = graph_path(name, folder), loading_path(name, folder)
    if not beside.exists() and not path.exists():
        refuse_missing(name, folder)
    is_half_load = beside.exists()
    with claim_folder(name, folder):
        if is_half_load:
            empty_folder(beside)
        else:
            # at once for who opens it next; removing takes a while
            path.rename(_old_path(name, folder))
            remove(_old_path(name, folder))
    return "half load" if is_half_load else "graph"


def list_graphs(folder: Path) -> list[FoundGraph]:
    """Return all graphs and half loads in a folder by name; of their files only the sizes are compared."""
    found = []
    for name in list_names(folder):
        path, beside = graph_path(name, folder), loading_path(name, folder)
        if path.exists():
            try:
                manifest = read_unchecked(name, folder)
                refuse_damage(name, folder, find_wrong_sizes(path, manifest.files))
                found.append(FoundGraph(name, "whole", manifest, None))
            except GraphError as error:
                found.append(FoundGraph(name, "damaged", None, str(error)))
        if beside.exists():
            with _lock(beside) as is_ours:
                if not is_ours:
                    found.append(FoundGraph(name, "loading", None, "another process is loading it"))
                    continue
                request = read_request(beside)
            replace = " --replace" if path.exists() else ""
            go_on = f"to go on: {request.format_command(name)}{replace}; " if request else ""
            advice = f"{go_on}to drop it: factmill graph remove {name}"
            found.append(FoundGraph(name, "half loaded", None, advice))
    return found


def remove(path: Path) -> None:
    """Remove a file or folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """Yield whether a folder is this process's, until the end."""
    handle = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # between opening and locking the holder may have removed this very folder
            is_ours = path.exists() and os.path.samestat(path.stat(), os.fstat(handle))
        except BlockingIOError:
            is_ours = False
        yield is_ours
    finally:
        os.close(handle)


def _old_path(name: str, folder: Path) -> Path:
    """Return where a graph is put that is to be removed."""
    return Path(folder) / f".{name}.old"
