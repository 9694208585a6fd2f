"""Wire format between driver and workers: encoded requests, requirements on workers, grouping, and set-up of Dask.

Exact batches hold texts of one length (models/exact_batches.py), so a group takes texts of similar lengths: its batches
then fill up nearly as well as with all texts. The longest texts are sent first, so that at the end workers wait only for
short ones. Groups are small, so that a dying worker loses little and every worker gets some.
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
    """Encode calls to one service, each as [operation, parts]."""
    return [[call.operation, dict(call.parts)] for call in calls]


def read_calls(service: str, written: Sequence[Any]) -> list[Call]:
    """Decode calls to a service."""
    return [Call(service, operation, parts) for operation, parts in written]


def write_reply(reply: Reply) -> list[Any]:
    """Encode a reply as a list of its fields in order."""
    return list(astuple(reply))


def read_reply(written: Sequence[Any]) -> Reply:
    """Decode a reply."""
    return Reply(*written)


def write_array(array: npt.NDArray[Any]) -> list[Any]:
    """Encode an array as [type, shape, bytes]."""
    return [array.dtype.str, list(array.shape), array.tobytes()]


def read_array(written: Sequence[Any]) -> npt.NDArray[Any]:
    """Decode an array."""
    kind, shape, content = written
    return np.frombuffer(content, np.dtype(kind)).reshape(shape)


def write_options(options: PathOptions) -> list[Any]:
    """Encode the options of a path search."""
    return [options.all_hops, sorted(options.ignored), options.most_paths]


def read_options(written: Sequence[Any]) -> PathOptions:
    """Decode the options of a path search."""
    all_hops, ignored, most_paths = written
    return PathOptions(all_hops, frozenset(ignored), most_paths)


def write_literals(objects: Sequence[Date] | Sequence[Number]) -> list[Any]:
    """Encode dates or numbers, all of one kind, as [kind, values]."""
    is_date = bool(objects) and isinstance(objects[0], Date)
    return ["date" if is_date else "number", [list(astuple(each)) for each in objects]]


def read_literals(written: Sequence[Any]) -> list[Date] | list[Number]:
    """Decode dates or numbers."""
    kind, values = written
    return [Date(*each) for each in values] if kind == "date" else [Number(*each) for each in values]


def write_found(found: FoundPaths) -> list[Any]:
    """Encode found paths as the bytes of two Arrow tables and a list of [pair, problem]."""
    return [_write_table(found.paths), _write_table(found.pairs), [[pair, why] for pair, why in found.problems.items()]]


def read_found(written: Sequence[Any]) -> FoundPaths:
    """Decode found paths."""
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
    """Return the library `distributed` with its logs off, since our errors report them; SettingsError if not installed."""
    try:
        library = importlib.import_module("distributed")
    except ImportError as error:
        raise SettingsError(
            f"a cluster needs {error.name or 'distributed'}, which is not installed: pip install 'factmill[dask]'"
        ) from error
    # some of its loggers have levels of their own, which the parent's does not override
    for name in ["distributed", *(each for each in logging.root.manager.loggerDict if each.startswith("distributed."))]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return library


def make_security(ca_file: str, cert_file: str, key_file: str, role: str) -> Any:
    """Return Dask's security settings for a tls:// connection, or None for a plain one; `role`: client or worker."""
    if not ca_file:
        return None
    return import_distributed().Security(
        require_encryption=True,
        tls_ca_file=ca_file,
        **{f"tls_{role}_cert": cert_file, f"tls_{role}_key": key_file},
    )


def secure(compute: Compute) -> Any:
    """Return the driver's security settings; SettingsError if a certificate file is missing."""
    require_files((compute.ca_file, compute.cert_file, compute.key_file))
    return make_security(compute.ca_file, compute.cert_file, compute.key_file, "client")


Kind = Literal["translator", "perplexity", "embedder", "cross-encoder", "graph"]

ANSWERING = "factmill.tasks.engine.cluster.answering"
"""Module that workers run."""
_LIBRARIES = ("ctranslate2", "numpy", "sentencepiece", "tokenizers")
"""Libraries whose version may change bits of a model's output."""
_MARK = "factmill"


@dataclass(frozen=True, order=True, slots=True)
class Wanted:
    """Requirement on a worker: a model or graph, by identity."""

    kind: Kind
    identity: str
    """Name, digest and compute type of a translator or language model; the digest otherwise."""

    def __str__(self) -> str:
        return f"{self.kind} {self.identity}"


@dataclass(frozen=True, order=True, slots=True)
class Held:
    """Capability of a worker: a model or graph, with the code that it runs."""

    wanted: Wanted
    code: str
    """Version of the worker's code and libraries (`name_code`)."""


def name_resource(held: Held) -> str:
    """Return the name of a capability as a resource of Dask's scheduler."""
    return json.dumps([_MARK, held.wanted.kind, held.wanted.identity, held.code])


def read_resource(name: str) -> Held | None:
    """Parse a resource name; None if it is not factmill's."""
    try:
        mark, kind, identity, code = json.loads(name)
    except (ValueError, TypeError):
        return None
    return Held(Wanted(kind, identity), code) if mark == _MARK else None


@cache
def name_code() -> str:
    """Return, as text, the digest of the worker's code and the versions of libraries that affect its answers."""
    versions = " ".join(f"{each} {importlib.metadata.version(each)}" for each in _LIBRARIES)
    return f"factmill {digest_closure([ANSWERING], read_code())[:12]} {versions}"


def list_wanted(world: World, home: Path) -> list[Wanted]:
    """Return the models and the graph of a world that a cluster computes; UsageError if one is damaged."""
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
    """Return all places in groups, the heaviest first; `weights`: one per place, such as a text's characters.

    A group's weight is chosen to give each worker several groups, but at least `least` and at most `most`; a single place
    may exceed it.
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
    """Return `count` places as ranges of equal size, chosen as in `cut_groups`; the last may be shorter."""
    size = min(max(count // (max(workers, 1) * _GROUPS_A_WORKER), least), most)
    return [range(start, min(start + size, count)) for start in range(0, count, size)]
