"""What a graph folder says of itself: `manifest.json`, written last, so a folder without one was never finished.

<folder>/<name>/manifest.json     this file's GraphManifest
<folder>/<name>/graph.duckdb      the tables (tasks/graph/tables.py); further files may join it later
<folder>/.<name>.loading/         a load under way, or one that was broken off
"""

import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tasks.errors import GraphError, UsageError

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
DATABASE = "graph.duckdb"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class SourceFile(_Part):
    """A file that was loaded."""

    path: str
    """As given; `-` is standard input."""
    size_bytes: int
    sha256: str
    """Of the bytes as they lie on disk, packed or not."""
    lines: int


class GraphManifest(_Part):
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
    """Well-formed triples that the graph has no use for, by kind (tasks/graph/shapes.py, `name_unkept`)."""
    read: dict[str, int]
    """Kept triples as they were read, by kind."""
    stored: dict[str, int]
    """Rows by table: a repeated triple is stored once, and one label, description and title an item and language."""
    files: dict[str, int]
    """Size in bytes of each file of the graph."""
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
    """Write the manifest into a graph's folder."""
    (path / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n", "utf-8")


def read_manifest(name: str, folder: Path) -> GraphManifest:
    """Read a graph's manifest and check its files against it; GraphError says what is wrong and what to do."""
    path = graph_path(name, folder)
    again = f"load it again: factmill graph load FILE... --name {name} --replace"
    if not path.is_dir():
        if loading_path(name, folder).exists():
            raise GraphError(f"graph {name} in {folder}: half loaded; wait for its load, or {again}")
        known = ", ".join(_graph_names(folder)) or "none"
        raise GraphError(f"no graph {name} in {folder} (there: {known}): factmill graph load FILE... --name {name}")
    if not (path / MANIFEST).is_file():
        raise GraphError(f"{path}: no {MANIFEST}: it was never finished; {again}")
    try:
        manifest = GraphManifest.model_validate_json((path / MANIFEST).read_bytes())
    except ValidationError as error:
        found = error.errors()[0]
        detail = f"{'.'.join(map(str, found['loc']))}: {found['msg']}".removeprefix(": ")
        raise GraphError(f"{path / MANIFEST}: damaged or of another version ({detail}); {again}") from error
    if manifest.format_version != FORMAT_VERSION:
        age = "a newer" if manifest.format_version > FORMAT_VERSION else "an older"
        raise GraphError(
            f"{path}: written by {age} factmill (format {manifest.format_version}, here {FORMAT_VERSION}); {again}"
        )
    _check_files(path, manifest, again)
    return manifest


def list_graphs(folder: Path) -> list[GraphManifest]:
    """Return the manifests of all graphs in a folder by name; GraphError at the first damaged one."""
    return [read_manifest(name, folder) for name in _graph_names(folder)]


def _graph_names(folder: Path) -> list[str]:
    if not Path(folder).is_dir():
        return []
    return sorted(path.name for path in Path(folder).iterdir() if path.is_dir() and _NAME.fullmatch(path.name))


def _check_files(path: Path, manifest: GraphManifest, again: str) -> None:
    for file, size_bytes in manifest.files.items():
        found = (path / file).stat().st_size if (path / file).is_file() else None
        if found != size_bytes:
            state = "is missing" if found is None else f"has {found:,} bytes"
            raise GraphError(f"{path / file}: {state}, expected {size_bytes:,} bytes: damaged; {again}")
