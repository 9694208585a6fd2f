"""What goes to a worker of a cluster and comes back: groups of requests, what a worker has to have for them, and Dask, which carries them.

Exact batches hold texts of one length (models/exact_batches.py), so a group takes texts of lengths that lie together: its
batches then fill up nearly as those of all texts would. The longest come first, so that at the end workers wait for
short ones. Groups are small enough that a worker that dies takes little along, and that every worker has some.
"""

import importlib
import importlib.metadata
import json
import logging
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from factmill.tasks.compute import Compute, require_files
from factmill.tasks.core.calls.call import Call, Reply
from factmill.tasks.core.paths import FoundPaths, PathOptions
from factmill.tasks.engine.naming.identities import embedder_identity, perplexity_identity, translator_identity
from factmill.tasks.engine.naming.rooms import digest_closure, read_code
from factmill.tasks.errors import SettingsError
from factmill.tasks.settings import World, graphs_folder
from factmill.tasks.text.values.literals import Date, Number


def write_calls(calls: Sequence[Call]) -> list[Any]:
    """Return calls to one service: [operation, parts] each."""
    return [[call.operation, dict(call.parts)] for call in calls]


def read_calls(service: str, written: Sequence[Any]) -> list[Call]:
    """Return the calls that were written."""
    return [Call(service, operation, parts) for operation, parts in written]


def write_reply(reply: Reply) -> list[Any]:
    """Return a reply's fields in their order."""
    return list(astuple(reply))


def read_reply(written: Sequence[Any]) -> Reply:
    """Return the reply that was written."""
    return Reply(*written)


def write_array(array: npt.NDArray[Any]) -> list[Any]:
    """Return type, shape and bytes of an array."""
    return [array.dtype.str, list(array.shape), array.tobytes()]


def read_array(written: Sequence[Any]) -> npt.NDArray[Any]:
    """Return the array that was written."""
    kind, shape, content = written
    return np.frombuffer(content, np.dtype(kind)).reshape(shape)


def write_options(options: PathOptions) -> list[Any]:
    """Return which paths are wanted."""
    return [options.all_hops, sorted(options.ignored), options.most_paths]


def read_options(written: Sequence[Any]) -> PathOptions:
    """Return the options that were written."""
    all_hops, ignored, most_paths = written
    return PathOptions(all_hops, frozenset(ignored), most_paths)


def write_literals(objects: Sequence[Date] | Sequence[Number]) -> list[Any]:
    """Return dates or numbers, all of one kind, and which they are."""
    is_date = bool(objects) and isinstance(objects[0], Date)
    return ["date" if is_date else "number", [list(astuple(each)) for each in objects]]


def read_literals(written: Sequence[Any]) -> list[Date] | list[Number]:
    """Return the dates or numbers that were written."""
    kind, values = written
    return [Date(*each) for each in values] if kind == "date" else [Number(*each) for each in values]


def write_found(found: FoundPaths) -> list[Any]:
    """Return found paths as two Arrow tables in bytes, and the problems by pair."""
    return [_write_table(found.paths), _write_table(found.pairs), [[pair, why] for pair, why in found.problems.items()]]


def read_found(written: Sequence[Any]) -> FoundPaths:
    """Return the found paths that were written."""
    paths, pairs, problems = written
    return FoundPaths(_read_table(paths), _read_table(pairs), dict(problems))


def _write_table(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _read_table(packed: bytes) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(packed)) as reader:
        return reader.read_all()


def import_distributed() -> Any:
    """Return the library; SettingsError says what to install. What it logs is left out: our errors tell it."""
    try:
        library = importlib.import_module("distributed")
    except ImportError as error:
        raise SettingsError(
            f"a cluster needs {error.name or 'distributed'}, which is not installed: pip install 'factmill[dask]'"
        ) from error
    # some of its loggers have levels of their own, which that of the first does not reach
    for name in ["distributed", *(each for each in logging.root.manager.loggerDict if each.startswith("distributed."))]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return library


def make_security(ca_file: str, cert_file: str, key_file: str, role: str) -> Any:
    """Return what a tls:// connection is made with, or None for a plain one; `role`: client or worker."""
    if not ca_file:
        return None
    return import_distributed().Security(
        require_encryption=True,
        tls_ca_file=ca_file,
        **{f"tls_{role}_cert": cert_file, f"tls_{role}_key": key_file},
    )


def secure(compute: Compute) -> Any:
    """Return what the driver connects with; SettingsError when a file of certificates is not there."""
    require_files((compute.ca_file, compute.cert_file, compute.key_file))
    return make_security(compute.ca_file, compute.cert_file, compute.key_file, "client")


Kind = Literal["translator", "perplexity", "embedder", "cross-encoder", "graph"]

ANSWERING = "factmill.tasks.engine.cluster.answering"
"""Module of what workers run."""
_LIBRARIES = ("ctranslate2", "numpy", "sentencepiece", "tokenizers")
"""Whose versions may turn a bit of what a model says."""
_MARK = "factmill"


@dataclass(frozen=True, order=True, slots=True)
class Wanted:
    """A model or graph."""

    kind: Kind
    identity: str
    """Of a translator or language model, name, digest and numbers it computes in; else the digest."""

    def __str__(self) -> str:
        return f"{self.kind} {self.identity}"


@dataclass(frozen=True, order=True, slots=True)
class Held:
    """A model or graph as a worker holds it."""

    wanted: Wanted
    code: str
    """What the worker answers with (`name_code`)."""


def name_resource(held: Held) -> str:
    """Return the name by which the scheduler knows what a worker holds."""
    return json.dumps([_MARK, held.wanted.kind, held.wanted.identity, held.code])


def read_resource(name: str) -> Held | None:
    """Return what a resource's name says; None for one that is not ours."""
    try:
        mark, kind, identity, code = json.loads(name)
    except (ValueError, TypeError):
        return None
    return Held(Wanted(kind, identity), code) if mark == _MARK else None


@cache
def name_code() -> str:
    """Return what replies are computed with: our version, the code that answers, and the libraries it rests on."""
    versions = " ".join(f"{each} {importlib.metadata.version(each)}" for each in _LIBRARIES)
    return f"factmill {digest_closure([ANSWERING], read_code())[:12]} {versions}"


def list_wanted(world: World, home: Path) -> list[Wanted]:
    """Return the models and the graph that a world names and a cluster answers for; UsageError for one that is damaged."""
    from factmill.tasks.graph.folders import read_manifest
    from factmill.tasks.models.embed import CHAR_NGRAMS

    wanted = []
    embedder = embedder_identity(world, home)
    if embedder["name"] != CHAR_NGRAMS:
        wanted.append(Wanted("embedder", embedder["digest"]))
    if "translator" in world.models:
        wanted.append(Wanted("translator", translator_identity(world, home)))
    if "perplexity" in world.models and world.models["perplexity"].kind == "local":
        wanted.append(Wanted("perplexity", perplexity_identity(world, home)))
    if world.wikidata.engine == "graph":
        wanted.append(Wanted("graph", read_manifest(world.wikidata.graph, graphs_folder(home)).digest))
    return wanted


_GROUPS_A_WORKER = 4


def cut_groups(weights: Sequence[int], workers: int, least: int, most: int) -> list[list[int]]:
    """Return all places in groups, the heaviest first; `weights`: one a place, such as letters of a text.

    A group weighs what gives each worker some groups, but at least `least` and at most `most`, unless one place is more.
    """
    budget = min(max(sum(weights) // (max(workers, 1) * _GROUPS_A_WORKER), least), most)
    groups: list[list[int]] = []
    weight = 0
    for place in sorted(range(len(weights)), key=lambda place: (-weights[place], place)):
        if not groups or weight + weights[place] > budget:
            groups.append([])
            weight = 0
        groups[-1].append(place)
        weight += weights[place]
    return groups


def cut_ranges(count: int, workers: int, least: int, most: int) -> list[range]:
    """Return `count` places in ranges of one size, as `cut_groups` would choose it."""
    size = min(max(count // (max(workers, 1) * _GROUPS_A_WORKER), least), most)
    return [range(start, min(start + size, count)) for start in range(0, count, size)]
