"""The folders of graphs: who may build one, what is kept of a load that was stopped, what is removed.

A graph is built in `.<name>.loading`, held by a lock that ends with the process, and gets its name in one rename:
whatever stops a load leaves no graph, and an old graph of that name stays until the new one is whole. A load that was
stopped leaves its staging database behind if rows were committed to it, beside a note of what was asked for; without
that note the folder is worth nothing and goes.
"""

import fcntl
import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from tasks.core.rows import StrictModel
from tasks.errors import GraphError
from tasks.graph.checking import find_wrong_sizes
from tasks.graph.loading.sources.streams import Form, tell_form
from tasks.graph.manifest import (
    GraphManifest,
    graph_path,
    list_names,
    loading_path,
    read_unchecked,
    refuse_damage,
    refuse_missing,
)

GRAPH = "graph"
"""Folder in the loading folder in which the files of the graph are written."""
REQUEST = "request.json"

State = Literal["whole", "damaged", "loading", "half loaded"]


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
        if graph_path(name, folder).exists():
            found.append(_look_at_graph(name, folder))
        if loading_path(name, folder).exists():
            found.append(_look_at_load(name, folder))
    return found


def remove(path: Path) -> None:
    """Remove a file or folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _look_at_graph(name: str, folder: Path) -> FoundGraph:
    try:
        manifest = read_unchecked(name, folder)
        refuse_damage(name, folder, find_wrong_sizes(graph_path(name, folder), manifest.files))
    except GraphError as error:
        return FoundGraph(name, "damaged", None, str(error))
    return FoundGraph(name, "whole", manifest, None)


def _look_at_load(name: str, folder: Path) -> FoundGraph:
    beside = loading_path(name, folder)
    with _lock(beside) as is_ours:
        if not is_ours:
            return FoundGraph(name, "loading", None, "another process is loading it")
        request = read_request(beside)
    replace = " --replace" if graph_path(name, folder).exists() else ""
    go_on = f"to go on: {request.format_command(name)}{replace}; " if request else ""
    return FoundGraph(name, "half loaded", None, f"{go_on}to drop it: factmill graph remove {name}")


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
