"""What driver and workers agree on: requirements on workers, grouping, and set-up of Dask.

Exact batches hold texts of one length (models/exact_batches.py), so a group takes texts of similar lengths: its batches
then fill up nearly as well as with all texts. The longest texts are sent first, so that at the end workers wait only for
short ones. Groups are small, so that a dying worker loses little and every worker gets some.
"""

import importlib
import importlib.metadata
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from factmill.tasks.compute_settings import ComputeSettings, require_existing_tls_files
from factmill.tasks.engine.naming.code_versions import digest_import_closure, load_source_code
from factmill.tasks.engine.naming.identities import embedder_name_and_digest, perplexity_identity, translator_identity
from factmill.tasks.errors import SettingsError
from factmill.tasks.settings import World, graphs_folder


def import_dask_distributed_without_logs() -> Any:
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


def make_tls_security(ca_file: str, cert_file: str, key_file: str, role: str) -> Any:
    """Return Dask's security settings for a tls:// connection, or None for a plain one; `role`: client or worker."""
    if not ca_file:
        return None
    return import_dask_distributed_without_logs().Security(
        require_encryption=True,
        tls_ca_file=ca_file,
        **{f"tls_{role}_cert": cert_file, f"tls_{role}_key": key_file},
    )


def make_driver_tls_security(compute: ComputeSettings) -> Any:
    """Return the driver's security settings; SettingsError if a certificate file is missing."""
    require_existing_tls_files((compute.ca_file, compute.cert_file, compute.key_file))
    return make_tls_security(compute.ca_file, compute.cert_file, compute.key_file, "client")


ResourceKind = Literal["translator", "perplexity", "embedder", "cross-encoder", "graph"]

WORKER_MODULE = "factmill.tasks.engine.cluster.capabilities"
"""Module that workers run."""
_VERSIONED_LIBRARIES = ("ctranslate2", "numpy", "sentencepiece", "tokenizers")
"""Libraries whose version may change bits of a model's output."""
_RESOURCE_MARK = "factmill"


@dataclass(frozen=True, order=True, slots=True)
class RequiredModelOrGraph:
    """Requirement on a worker: a model or graph, by identity."""

    kind: ResourceKind
    identity: str
    """Name, digest and compute type of a translator or language model; the digest otherwise."""

    def __str__(self) -> str:
        return f"{self.kind} {self.identity}"


@dataclass(frozen=True, order=True, slots=True)
class WorkerCapability:
    """Capability of a worker: a model or graph, with the code that it runs."""

    requirement: RequiredModelOrGraph
    code: str
    """Version of the worker's code and libraries (`format_worker_code_version`)."""


def format_dask_resource_name(held: WorkerCapability) -> str:
    """Return the name of a capability as a resource of Dask's scheduler."""
    return json.dumps([_RESOURCE_MARK, held.requirement.kind, held.requirement.identity, held.code])


def parse_dask_resource_name(name: str) -> WorkerCapability | None:
    """Parse a resource name; None if it is not factmill's."""
    try:
        mark, kind, identity, code = json.loads(name)
    except (ValueError, TypeError):
        return None
    return WorkerCapability(RequiredModelOrGraph(kind, identity), code) if mark == _RESOURCE_MARK else None


@cache
def format_worker_code_version() -> str:
    """Return, as text, the digest of the worker's code and the versions of libraries that affect its answers."""
    versions = " ".join(f"{each} {importlib.metadata.version(each)}" for each in _VERSIONED_LIBRARIES)
    return f"factmill {digest_import_closure([WORKER_MODULE], load_source_code())[:12]} {versions}"


def list_required_cluster_resources(world: World, home: Path) -> list[RequiredModelOrGraph]:
    """Return the models and the graph of a world that a cluster computes; UsageError if one is damaged."""
    from factmill.tasks.graph.folders import load_manifest_and_check_files
    from factmill.tasks.models.embedders import CHAR_NGRAMS

    wanted = []
    embedder = embedder_name_and_digest(world, home)
    if embedder["name"] != CHAR_NGRAMS:
        wanted.append(RequiredModelOrGraph("embedder", embedder["digest"]))
    if "translator" in world.models:
        wanted.append(RequiredModelOrGraph("translator", translator_identity(world, home)))
    if "perplexity" in world.models and world.models["perplexity"].kind == "local":
        wanted.append(RequiredModelOrGraph("perplexity", perplexity_identity(world, home)))
    if world.wikidata.engine == "graph":
        wanted.append(
            RequiredModelOrGraph(
                "graph", load_manifest_and_check_files(world.wikidata.graph, graphs_folder(home)).digest
            )
        )
    return wanted


_GROUPS_PER_WORKER = 4


def group_indices_by_weight(weights: Sequence[int], workers: int, min_weight: int, max_weight: int) -> list[list[int]]:
    """Return all places in groups, the heaviest first; `weights`: one per place, such as a text's characters.

    A group's weight is chosen to give each worker several groups, but at least `min_weight` and at most `max_weight`; a
    single place may exceed it.
    """
    budget = min(max(sum(weights) // (max(workers, 1) * _GROUPS_PER_WORKER), min_weight), max_weight)
    groups: list[list[int]] = []
    weight = 0
    for place in sorted(range(len(weights)), key=lambda place: (-weights[place], place)):
        if not groups or weight + weights[place] > budget:
            groups.append([])
            weight = 0
        groups[-1].append(place)
        weight += weights[place]
    return groups


def split_into_ranges(count: int, workers: int, min_size: int, max_size: int) -> list[range]:
    """Return `count` places as ranges of equal size, chosen as in `group_indices_by_weight`; the last may be shorter."""
    size = min(max(count // (max(workers, 1) * _GROUPS_PER_WORKER), min_size), max_size)
    return [range(start, min(start + size, count)) for start in range(0, count, size)]
