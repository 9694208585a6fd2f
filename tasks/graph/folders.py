"""Folders of graphs: their manifests, integrity checks, and locks against concurrent loads.

<folder>/<name>/manifest.json     this module's GraphManifest
<folder>/<name>/graph.duckdb      the tables (tasks/graph/loading/tables.py)
<folder>/<name>/*.npy             the arrays (tasks/graph/arrays.py)
<folder>/<name>/checked.json      state of each file when it was last digested (`digest_graph_files_and_find_damaged`)
<folder>/.<name>.loading/         a load in progress or interrupted

Digesting a large graph takes longer than using it. So a file digested once is trusted while its size, modification time
and inode stay the same; `checked.json` records them. A file that was edited, copied or downloaded has other values and
is digested again. The record is optional: if it cannot be written, as on a read-only disk, files are digested each
time.

A graph is built in `.<name>.loading`, under a lock that ends with the process, and one rename gives it its name. So an
interrupted load leaves no graph, and an old graph of that name stays until the new one is complete. An interrupted load
leaves its staging database if rows were committed to it, and a file with its request; without that file the folder is
useless and removed.
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
from factmill.tasks.errors import LocalGraphError, UsageError
from factmill.tasks.graph.loading.sources.streams import RdfSyntax, find_rdf_syntax

FORMAT_VERSION = 3
GRAPH_MANIFEST_FILE, CHECKED_FILES_NOTE, GRAPH_DATABASE_FILE = "manifest.json", "checked.json", "graph.duckdb"

BUILT_GRAPH_FOLDER = "graph"
"""Subfolder of the loading folder that receives the graph's files."""
LOAD_REQUEST_FILE = "request.json"

GraphState = Literal["whole", "damaged", "loading", "half loaded"]

_GRAPH_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LOADING_FOLDER_NAME = re.compile(rf"\.({_GRAPH_NAME.pattern})\.loading")
_CHUNK_BYTES = 1 << 20
_THREADS = 4


class GraphFileDigest(StrictModel):
    """Size and digest of one file of a graph."""

    size_bytes: int
    sha256: str


class _CheckedFileState(StrictModel):
    size_bytes: int
    mtime_ns: int
    inode: int
    sha256: str


_CheckedFiles = dict[str, _CheckedFileState]
_CHECKED_FILES_ADAPTER = TypeAdapter(_CheckedFiles)


def flush_digest_and_record_graph_files(path: Path) -> dict[str, GraphFileDigest]:
    """Flush all files in a folder to disk; return their size and digest by name, and record them as checked."""
    names = sorted(each.name for each in path.iterdir())
    digests = _digest_files([path / name for name in names], flush_to_disk=True)
    notes = {name: _make_checked_file_state(path / name, digest) for name, digest in zip(names, digests, strict=True)}
    _write_checked_files(path, notes)
    return {name: GraphFileDigest(size_bytes=note.size_bytes, sha256=note.sha256) for name, note in notes.items()}


def find_file_size_problems(path: Path, files: Mapping[str, GraphFileDigest]) -> dict[str, str]:
    """Return file name → problem, for each file that is missing or has another size."""
    wrong = {}
    for name, file in files.items():
        size_bytes = (path / name).stat().st_size if (path / name).is_file() else None
        if size_bytes != file.size_bytes:
            state = "is missing" if size_bytes is None else f"has {size_bytes:,} bytes"
            wrong[name] = f"{state}, expected {file.size_bytes:,} bytes"
    return wrong


def find_damaged_and_record_checked_files(
    path: Path,
    files: Mapping[str, GraphFileDigest],
    *,
    redigest_all: bool = False,
    on_read: Callable[[int], None] | None = None,
) -> dict[str, str]:
    """Return file name → problem, for each file that is missing or changed.

    Only files modified since they were last digested are digested; with `redigest_all`, all are. Several threads call `on_read`
    with the number of bytes just read.
    """
    wrong = find_file_size_problems(path, files)
    known = {} if redigest_all else _load_checked_files_note(path)
    # taken before digesting: a file modified meanwhile is digested again next time
    there = {name: file.sha256 for name, file in files.items() if name not in wrong}
    states = {name: _make_checked_file_state(path / name, sha256) for name, sha256 in there.items()}
    doubtful = [name for name, state in states.items() if known.get(name) != state]
    digests = _digest_files([path / name for name in doubtful], on_read)
    for name, digest in zip(doubtful, digests, strict=True):
        if digest != files[name].sha256:
            wrong[name] = f"has SHA-256 {digest[:16]}…, expected {files[name].sha256[:16]}…"
    if doubtful:
        _write_checked_files(path, {name: state for name, state in states.items() if name not in wrong})
    return wrong


def _digest_files(
    paths: Iterable[Path], on_read: Callable[[int], None] | None = None, *, flush_to_disk: bool = False
) -> list[str]:
    def digest_file(path: Path) -> str:
        digest, work = hashlib.sha256(), memoryview(bytearray(_CHUNK_BYTES))
        with path.open("rb", buffering=0) as file:
            if flush_to_disk:
                os.fsync(file.fileno())
            while got := file.readinto(work):
                digest.update(work[:got])
                if on_read:
                    on_read(got)
        return digest.hexdigest()

    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(digest_file, paths))


def _make_checked_file_state(path: Path, sha256: str) -> _CheckedFileState:
    found = path.stat()
    return _CheckedFileState(size_bytes=found.st_size, mtime_ns=found.st_mtime_ns, inode=found.st_ino, sha256=sha256)


def _load_checked_files_note(path: Path) -> _CheckedFiles:
    try:
        return _CHECKED_FILES_ADAPTER.validate_json((path / CHECKED_FILES_NOTE).read_bytes())
    except (OSError, ValidationError):
        # no record, or an unreadable one: digest everything
        return {}


def _write_checked_files(path: Path, notes: _CheckedFiles) -> None:
    """Record files as checked; do nothing if the folder is not writable."""
    draft = path / f".{CHECKED_FILES_NOTE}.{os.getpid()}"
    with suppress(OSError):
        try:
            draft.write_bytes(_CHECKED_FILES_ADAPTER.dump_json(notes, indent=2))
            draft.replace(path / CHECKED_FILES_NOTE)
        finally:
            draft.unlink(missing_ok=True)


class LoadedSourceFile(StrictModel):
    """A source file that was loaded into a graph."""

    path: str
    """As given; `-` is standard input."""
    size_bytes: int
    sha256: str
    """Digest of the bytes on disk, before decompression."""
    lines: int
    """Number of lines; of triples for Turtle."""


class GraphManifest(StrictModel):
    """Content and origin of a graph. lines = blank + malformed + not_kept + read; read >= stored."""

    name: str
    format_version: int
    digest: str
    """SHA-256 over stored rows in order, languages and dump date: the same triples give the same digest."""
    languages: tuple[str, ...]
    dump_date: str | None
    """As given to the loader, else as stated in the dump, else the latest change of an item (ISO 8601)."""
    sources: tuple[LoadedSourceFile, ...]
    lines: int
    blank: int
    """Blank lines and comments."""
    malformed: int
    """Lines that are not triples; table `malformed` holds them."""
    not_kept: dict[str, int]
    """Well-formed triples that the graph does not use, by kind (tasks/graph/loading/line_patterns.py, `classify_unkept_triple`)."""
    read: dict[str, int]
    """Kept triples as read, by kind."""
    stored: dict[str, int]
    """Rows by table: a repeated triple is stored once; an item has one label, description and title per language."""
    left_out: dict[str, int]
    """Dates and numbers that were read but are in no literal, by reason (tasks/graph/loading/tables.py)."""
    files: dict[str, GraphFileDigest]
    """The graph's files, except the manifest."""
    created_at: str


def get_graph_folder(name: str, folder: Path) -> Path:
    """Return a graph's folder; UsageError if the name is not a valid graph name."""
    if not _GRAPH_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid name of a graph: use letters, digits, `.`, `_` and `-`, starting with a letter or digit"
        )
    return Path(folder) / name


def get_loading_folder(name: str, folder: Path) -> Path:
    """Return the folder in which a graph is built before it gets its name."""
    return Path(folder) / f".{get_graph_folder(name, folder).name}.loading"


def write_graph_manifest(manifest: GraphManifest, folder: Path) -> None:
    """Write the manifest into a graph's folder and flush it to disk."""
    with (folder / GRAPH_MANIFEST_FILE).open("w", encoding="utf-8") as file:
        file.write(manifest.model_dump_json(indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())


def load_manifest_and_check_files(name: str, folder: Path) -> GraphManifest:
    """Load a graph's manifest and check its files against it; LocalGraphError states the problem and the remedy.

    Takes milliseconds, unless a file was modified since its last check: then its digest is compared.
    """
    manifest = load_unchecked_manifest(name, folder)
    damage = find_damaged_and_record_checked_files(get_graph_folder(name, folder), manifest.files)
    raise_if_damaged(name, folder, damage)
    return manifest


def digest_graph_files_and_find_damaged(
    name: str, folder: Path, on_read: Callable[[int, int], None] | None = None
) -> tuple[GraphManifest, dict[str, str]]:
    """Digest all files of a graph; return its manifest, and damaged file name → problem.

    `on_read` gets the number of bytes read so far and the total.
    """
    manifest = load_unchecked_manifest(name, folder)
    total, read, one_at_a_time = sum(file.size_bytes for file in manifest.files.values()), 0, threading.Lock()

    def count(size_bytes: int) -> None:
        nonlocal read
        with one_at_a_time:
            read += size_bytes
            if on_read:
                on_read(read, total)

    return manifest, find_damaged_and_record_checked_files(
        get_graph_folder(name, folder), manifest.files, redigest_all=True, on_read=count
    )


def list_graph_and_half_load_names(folder: Path) -> list[str]:
    """Return the sorted names of all graphs and half loads in a folder."""
    if not Path(folder).is_dir():
        return []
    names = [path.name for path in Path(folder).iterdir() if path.is_dir()]
    loads = [found[1] for found in map(_LOADING_FOLDER_NAME.fullmatch, names) if found]
    return sorted({*filter(_GRAPH_NAME.fullmatch, names), *loads})


def format_reload_advice(name: str) -> str:
    """Return the advice to load an unusable graph again."""
    return f"load it again: `factmill graph load FILE... --name {name} --replace`"


def load_unchecked_manifest(name: str, folder: Path) -> GraphManifest:
    """Load a graph's manifest without checking its files; raises LocalGraphError as `load_manifest_and_check_files`."""
    path, again = get_graph_folder(name, folder), format_reload_advice(name)
    if not path.is_dir():
        raise_missing_graph(name, folder)
    if not (path / GRAPH_MANIFEST_FILE).is_file():
        raise LocalGraphError(f"{path}: no {GRAPH_MANIFEST_FILE}, so the graph is unfinished; {again}")
    try:
        content = (path / GRAPH_MANIFEST_FILE).read_bytes()
        fields = json.loads(content)
        found = fields.get("format_version") if isinstance(fields, dict) else None
        if isinstance(found, int) and found != FORMAT_VERSION:
            age = "a newer" if found > FORMAT_VERSION else "an older"
            raise LocalGraphError(
                f"{path}: written by {age} version of factmill (format {found}, expected {FORMAT_VERSION}); {again}"
            )
        return GraphManifest.model_validate_json(content)
    except ValueError as error:
        detail = str(error)
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            detail = f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")
        raise LocalGraphError(f"{path / GRAPH_MANIFEST_FILE}: damaged ({detail}); {again}") from error
    except OSError as error:
        raise LocalGraphError(f"{path / GRAPH_MANIFEST_FILE}: cannot be read: {error.strerror}") from error


def raise_missing_graph(name: str, folder: Path) -> NoReturn:
    """Raise LocalGraphError for a missing or half-loaded graph, with advice."""
    if get_loading_folder(name, folder).exists():
        raise LocalGraphError(
            f"graph {name} in {folder}: half loaded; wait until its load ends, or resume it with the same factmill graph load"
            f" FILE... --name {name}"
        )
    names = list_graph_and_half_load_names(folder)
    known = ", ".join(each for each in names if get_graph_folder(each, folder).is_dir()) or "none"
    raise LocalGraphError(
        f"no graph {name} in {folder} (there: {known}); to load it: `factmill graph load FILE... --name {name}`"
    )


def raise_if_damaged(name: str, folder: Path, damage: dict[str, str]) -> None:
    """Raise LocalGraphError if any file of a graph is damaged; `damage`: file name → problem."""
    if damage:
        path = get_graph_folder(name, folder)
        problems = "; ".join(f"{path / file}: {flaw}" for file, flaw in sorted(damage.items()))
        raise LocalGraphError(f"{problems}: damaged; {format_reload_advice(name)}")


class LoadRequest(StrictModel):
    """Everything that decides which rows a load reads; a load with the same request resumes a half load."""

    files: tuple[str, ...]
    languages: tuple[str, ...]
    form: RdfSyntax | None
    code: str
    """Digest of the modules that decide which rows are read."""
    sizes: tuple[int | None, ...] = ()
    """Size of each file on disk, in bytes; None for a pipe."""

    def loads_same_rows(self, other: "LoadRequest") -> bool:
        """True if both name the same files, whatever their content, or (renamed) files of the same sizes and forms."""
        if (self.languages, self.form, self.code) != (other.languages, other.form, other.code):
            return False
        forms, others = ([find_rdf_syntax(path, each.form) for path in each.files] for each in (self, other))
        return self.files == other.files or (self.sizes, forms) == (other.sizes, others)

    def format_command(self, name: str) -> str:
        """Return the command that makes this request."""
        languages = [] if self.languages == ("en",) else [f"--language={language}" for language in self.languages]
        form = [f"--format={self.form}"] if self.form else []
        return shlex.join(["factmill", "graph", "load", *self.files, f"--name={name}", *languages, *form])


@dataclass(frozen=True, slots=True)
class GraphStatus:
    """State of the graph or half load with a name in a folder."""

    name: str
    state: GraphState
    manifest: GraphManifest | None
    """Manifest of a whole graph."""
    advice: str | None
    """Problem or remedy for any other."""


@contextmanager
def lock_temporary_loading_folder(name: str, folder: Path) -> Iterator[Path]:
    """Lock and yield the folder to build a graph in; LocalGraphError if another process holds it.

    On exit, a half load with its request stays; anything else is removed.
    """
    loading_folder = get_loading_folder(name, folder)
    loading_folder.mkdir(parents=True, exist_ok=True)
    with _try_lock_folder(loading_folder) as is_ours:
        if not is_ours:
            raise LocalGraphError(f"another process is loading graph {name} into {folder}: wait until it ends")
        # left by a killed process
        remove_path(_get_discarded_graph_path(name, folder))
        remove_path(loading_folder / BUILT_GRAPH_FOLDER)
        try:
            yield loading_folder
        finally:
            is_resumable = (loading_folder / LOAD_REQUEST_FILE).exists()
            remove_path(loading_folder / BUILT_GRAPH_FOLDER if is_resumable else loading_folder)


def find_load_request(loading_folder: Path) -> LoadRequest | None:
    """Return the request of the half load in a folder; None if there is none."""
    try:
        return LoadRequest.model_validate_json((loading_folder / LOAD_REQUEST_FILE).read_bytes())
    except (FileNotFoundError, ValidationError):
        # an unreadable request comes from another version
        return None


def write_load_request(loading_folder: Path, request: LoadRequest) -> None:
    """Write the request of the half load in a folder, which makes the half load worth keeping."""
    if find_load_request(loading_folder) != request:
        partly = loading_folder / f"{LOAD_REQUEST_FILE}.partly"
        with partly.open("w", encoding="utf-8") as file:
            file.write(request.model_dump_json(indent=2))
            file.flush()
            # a power loss would leave an empty request and waste hours of reading
            os.fsync(file.fileno())
        partly.rename(loading_folder / LOAD_REQUEST_FILE)


def remove_folder_contents(path: Path) -> None:
    """Remove everything in a folder."""
    # the request first: without it the rest is useless
    for left in sorted(path.iterdir(), key=lambda each: each.name != LOAD_REQUEST_FILE):
        remove_path(left)


def install_built_graph(name: str, folder: Path, *, replace: bool) -> None:
    """Rename a built graph to its name, replacing an old graph if `replace`; else LocalGraphError if one exists."""
    built, target = get_loading_folder(name, folder) / BUILT_GRAPH_FOLDER, get_graph_folder(name, folder)
    old = _get_discarded_graph_path(name, folder)
    if target.exists():
        if not replace:
            raise LocalGraphError(f"another process has meanwhile created graph {name} in {folder}")
        target.rename(old)
    built.rename(target)
    (get_loading_folder(name, folder) / LOAD_REQUEST_FILE).unlink()
    remove_path(old)


def remove_half_load_or_graph(name: str, folder: Path) -> Literal["graph", "unfinished load"]:
    """Remove a name's half load, else its graph; return which. LocalGraphError if neither exists or a load is running."""
    path, loading_folder = get_graph_folder(name, folder), get_loading_folder(name, folder)
    if not loading_folder.exists() and not path.exists():
        raise_missing_graph(name, folder)
    is_half_load = loading_folder.exists()
    with lock_temporary_loading_folder(name, folder):
        if is_half_load:
            remove_folder_contents(loading_folder)
        else:
            # renaming hides it at once; removing takes a while
            path.rename(_get_discarded_graph_path(name, folder))
            remove_path(_get_discarded_graph_path(name, folder))
    return "unfinished load" if is_half_load else "graph"


def list_graph_statuses(folder: Path) -> list[GraphStatus]:
    """Return the graphs and half loads in a folder, sorted by name; only the sizes of their files are checked."""
    found = []
    for name in list_graph_and_half_load_names(folder):
        path, loading_folder = get_graph_folder(name, folder), get_loading_folder(name, folder)
        if path.exists():
            try:
                manifest = load_unchecked_manifest(name, folder)
                raise_if_damaged(name, folder, find_file_size_problems(path, manifest.files))
                found.append(GraphStatus(name, "whole", manifest, None))
            except LocalGraphError as error:
                found.append(GraphStatus(name, "damaged", None, str(error)))
        if loading_folder.exists():
            with _try_lock_folder(loading_folder) as is_ours:
                if not is_ours:
                    found.append(GraphStatus(name, "loading", None, "another process is loading it"))
                    continue
                request = find_load_request(loading_folder)
            replace = " --replace" if path.exists() else ""
            go_on = f"to resume: `{request.format_command(name)}{replace}`; " if request else ""
            advice = f"{go_on}to remove it: `factmill graph remove {name}`"
            found.append(GraphStatus(name, "half loaded", None, advice))
    return found


def remove_path(path: Path) -> None:
    """Remove a file or folder if it exists."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _try_lock_folder(path: Path) -> Iterator[bool]:
    """Try to lock a folder until exit; yield whether this process holds the lock."""
    handle = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # the holder may have removed this folder between opening and locking
            is_ours = path.exists() and os.path.samestat(path.stat(), os.fstat(handle))
        except BlockingIOError:
            is_ours = False
        yield is_ours
    finally:
        os.close(handle)


def _get_discarded_graph_path(name: str, folder: Path) -> Path:
    """Return the path to which a graph is renamed before it is removed."""
    return Path(folder) / f".{name}.old"
