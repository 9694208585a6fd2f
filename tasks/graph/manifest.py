"""What a graph folder says of itself: `manifest.json`, written last, so a folder without one was never finished.

<folder>/<name>/manifest.json     this file's GraphManifest
<folder>/<name>/graph.duckdb      the tables (tasks/graph/loading/tables.py)
<folder>/<name>/*.npy             the arrays (tasks/graph/arrays.py)
<folder>/<name>/checked.json      which files were digested when (tasks/graph/checking.py)
<folder>/.<name>.loading/         a load under way, or one that was broken off (tasks/graph/folders.py)
"""

import json
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from tasks.core.rows import StrictModel
from tasks.errors import GraphError, UsageError
from tasks.graph.checking import GraphFile, find_damage

FORMAT_VERSION = 3
MANIFEST = "manifest.json"
DATABASE = "graph.duckdb"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LOADING = re.compile(rf"\.({_NAME.pattern})\.loading")


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
    """Dates and numbers that were read and are in no literal, by reason (tasks/graph/loading/literal_tables.py)."""
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
        content = json.loads((path / MANIFEST).read_bytes())
        _check_version(path, content, again)
        return GraphManifest.model_validate_json((path / MANIFEST).read_bytes())
    except ValidationError as error:
        found = error.errors()[0]
        detail = f"{'.'.join(map(str, found['loc']))}: {found['msg']}".removeprefix(": ")
        raise GraphError(f"{path / MANIFEST}: damaged ({detail}); {again}") from error
    except ValueError as error:
        raise GraphError(f"{path / MANIFEST}: damaged ({error}); {again}") from error
    except OSError as error:
        raise GraphError(f"{path / MANIFEST}: cannot be read: {error.strerror}") from error


def _check_version(path: Path, content: Any, again: str) -> None:
    found = content.get("format_version") if isinstance(content, dict) else None
    if isinstance(found, int) and found != FORMAT_VERSION:
        age = "a newer" if found > FORMAT_VERSION else "an older"
        raise GraphError(f"{path}: written by {age} factmill (format {found}, here {FORMAT_VERSION}); {again}")


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
