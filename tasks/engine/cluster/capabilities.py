"""Worker side of the cluster: models and graphs, verified by digest and opened on first use, answer groups of requests.

Requests go only to workers with exactly the required model or graph and code; both are checked here again.
"""

import pickle
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factmill.tasks.core.calls.call import Call, CallResponse, CallService
from factmill.tasks.core.service_settings import ComputeType
from factmill.tasks.core.wikidata_paths import PathsFoundForPairs
from factmill.tasks.engine.cluster.protocol import (
    RequiredModelOrGraph,
    ResourceKind,
    format_worker_code_version,
)
from factmill.tasks.errors import FactmillError
from factmill.tasks.files import resolve_absolute_path
from factmill.tasks.graph.folders import get_graph_folder, load_manifest_and_check_files
from factmill.tasks.graph.lookup import WikidataGraph
from factmill.tasks.models import perplexity, translator
from factmill.tasks.models.cross_encoder import CrossEncoder
from factmill.tasks.models.devices import Device, choose_compute_type_by_weights, resolve_identity_device
from factmill.tasks.models.embedders import SentenceEncoder
from factmill.tasks.models.model_folder import ModelManifest, load_manifest_and_check_sizes, load_verified_manifest
from factmill.tasks.models.model_services import make_language_model_service, make_translator_service
from factmill.tasks.progress import print_and_log

GroupHandler = Callable[[str, Any], Any]
"""(Operation, arguments) → answer."""


@dataclass(frozen=True, slots=True)
class ServableModelOrGraph:
    """A model or graph that a worker can serve."""

    requirement: RequiredModelOrGraph
    name: str
    """Name of its folder."""
    open: Callable[[], GroupHandler]


class ServedResources:
    """All models and graphs that a worker serves; each is opened once."""

    def __init__(self, offers: Sequence[ServableModelOrGraph]) -> None:
        self._offers = {offer.requirement: offer for offer in offers}
        self._opened: dict[RequiredModelOrGraph, GroupHandler] = {}
        self._lock = threading.Lock()

    def __contains__(self, wanted: RequiredModelOrGraph) -> bool:
        return wanted in self._offers

    def answer(self, wanted: RequiredModelOrGraph, operation: str, asked: Any) -> Any:
        """Return the answer of a model or graph; one caller at a time, since each uses all available cores."""
        with self._lock:
            if wanted not in self._opened:
                self._opened[wanted] = self._offers[wanted].open()
            return self._opened[wanted](operation, asked)


def load_servable_variants_of_model(
    model_folder: Path, device: Device, threads: int | None
) -> list[ServableModelOrGraph]:
    """Return a model folder's offers, one for each compute type; UsageError if the folder is damaged."""
    manifest = load_verified_manifest(model_folder, load_manifest_and_check_sizes(model_folder).kind)
    if manifest.kind in ("embedder", "cross-encoder"):
        is_embedder = manifest.kind == "embedder"

        def open_encoder() -> GroupHandler:
            compute: Callable[[Any], Any] = (
                SentenceEncoder(model_folder, device, threads).encode
                if is_embedder
                else CrossEncoder(model_folder, device, threads).score
            )
            return lambda _operation, asked: compute(asked)

        wanted = RequiredModelOrGraph("embedder" if is_embedder else "cross-encoder", manifest.digest)
        return [ServableModelOrGraph(wanted, manifest.name, open_encoder)]
    # a translator or language model once for each compute type, since that is part of its identity
    kinds: tuple[ComputeType | None, ...] = (None, "float32")
    if resolve_identity_device(device) == "cuda":
        kinds += ("float16",)
    variants = dict.fromkeys(choose_compute_type_by_weights(model_folder, kind) for kind in kinds)
    return [_make_servable_model(model_folder, manifest, device, variant, threads) for variant in variants]


def load_servable_graph(name: str, folder: Path) -> ServableModelOrGraph:
    """Return the offer of a local graph; LocalGraphError if it does not exist or is damaged."""
    manifest = load_manifest_and_check_files(name, folder)
    return ServableModelOrGraph(
        RequiredModelOrGraph("graph", manifest.digest),
        name,
        lambda: _make_path_handler(WikidataGraph(get_graph_folder(name, folder), manifest)),
    )


def _make_servable_model(
    path: Path, manifest: ModelManifest, device: Device, compute_type: ComputeType, threads: int | None
) -> ServableModelOrGraph:
    # use the absolute path; a name would be resolved in a home
    folder, home = resolve_absolute_path(path), path
    service: CallService
    if manifest.kind == "translator":
        identity = translator.get_translator_identity(folder, home, device, compute_type)
        service = make_translator_service(
            identity, lambda: translator.Translator(folder, device, compute_type, threads)
        )
    else:
        identity = perplexity.get_language_model_identity(folder, home, device, compute_type)
        service = make_language_model_service(
            identity, lambda: perplexity.LanguageModel(folder, device, compute_type, threads)
        )
    requirement = RequiredModelOrGraph("translator" if manifest.kind == "translator" else "perplexity", identity)
    return ServableModelOrGraph(requirement, manifest.name, lambda: _make_call_handler(service))


def _make_call_handler(service: CallService) -> GroupHandler:
    def answer(_operation: str, asked: Any) -> Any:
        calls = [Call(service.identity, operation, parts) for operation, parts in asked]
        places = {id(call): place for place, call in enumerate(calls)}
        replies: list[Any] = [None] * len(calls)

        def take(call: Call, reply: CallResponse) -> None:
            replies[places[id(call)]] = reply

        service.send(calls, take)
        return replies

    return answer


def _make_path_handler(graph: WikidataGraph) -> GroupHandler:
    finders: dict[str, Callable[..., PathsFoundForPairs]] = {
        "item_paths": graph.find_item_paths,
        "literal_paths": graph.find_literal_paths,
    }
    return lambda operation, asked: finders[operation](*asked)


_served_resources: list[ServedResources] = []
"""What this worker process serves; empty if the process is not a worker."""


def set_resources_of_this_worker(resources: ServedResources) -> None:
    """Serve requests with this from now on."""
    _served_resources[:] = [resources]


class RequestGroupAnsweredByUnpickling:
    """A group of requests that unpickles to its answer.

    The submitted task is `pickle.loads` of the pickled group, so the scheduler, which unpickles tasks too, does not need
    factmill, and Dask does not search the group for tasks.
    """

    def __init__(self, kind: ResourceKind, identity: str, code: str, operation: str, asked: Any) -> None:
        # arguments are unpickled by a worker whose code was checked, not before
        self._arguments = kind, identity, code, operation, pickle.dumps(asked)

    def __reduce__(self) -> tuple[Any, ...]:
        return answer_or_refuse_driver_request, self._arguments


def answer_or_refuse_driver_request(
    kind: ResourceKind, identity: str, code: str, operation: str, asked: bytes
) -> list[Any]:
    """Return ["answered", answer] or ["refused", reason]; raise errors that another worker may avoid, such as MemoryError."""
    wanted = RequiredModelOrGraph(kind, identity)
    if code != format_worker_code_version():
        return ["refused", f"this worker runs {format_worker_code_version()}; the request needs {code}"]
    if not _served_resources or wanted not in _served_resources[0]:
        return ["refused", f"this worker does not hold the {wanted}"]
    try:
        return ["answered", _served_resources[0].answer(wanted, operation, pickle.loads(asked))]
    except FactmillError as error:
        print_and_log(f"note: the {wanted} refused {operation}: {error}")
        return ["refused", str(error)]
    except Exception as error:  # re-raise: Dask retries on another worker, and its own log is off
        print_and_log(f"note: the {wanted} failed at {operation}: {type(error).__name__}: {error}")
        raise
