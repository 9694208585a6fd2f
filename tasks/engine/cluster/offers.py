"""Models and graphs that a worker serves, verified by digest and opened on first use."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from factmill.tasks.core.calls.call import Call, Reply, Service
from factmill.tasks.core.service_settings import ComputeType
from factmill.tasks.engine.cluster.wire import (
    Wanted,
    read_array,
    read_calls,
    read_literals,
    read_options,
    write_array,
    write_found,
    write_reply,
)
from factmill.tasks.files import absolute_path
from factmill.tasks.graph.folders import graph_path, read_manifest
from factmill.tasks.graph.lookup import Graph
from factmill.tasks.models import perplexity, translate
from factmill.tasks.models.cross_encoder import CrossEncoder
from factmill.tasks.models.devices import Device, choose_compute_type, name_device
from factmill.tasks.models.embed import SentenceEncoder
from factmill.tasks.models.model_folder import ModelManifest, check_model, read_model
from factmill.tasks.models.services import serve_perplexity, serve_translator

Answer = Callable[[str, Any], Any]
"""(Operation, arguments) → answer, both encoded by wire.py."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A model or graph that a worker can serve."""

    wanted: Wanted
    name: str
    """Name of its folder."""
    open: Callable[[], Answer]


class Holding:
    """All models and graphs that a worker serves; each is opened once."""

    def __init__(self, offers: Sequence[Offer]) -> None:
        self._offers = {offer.wanted: offer for offer in offers}
        self._opened: dict[Wanted, Answer] = {}
        self._lock = threading.Lock()

    def __contains__(self, wanted: Wanted) -> bool:
        return wanted in self._offers

    def answer(self, wanted: Wanted, operation: str, asked: Any) -> Any:
        """Return the answer of a model or graph; one caller at a time, since each uses all available cores."""
        with self._lock:
            if wanted not in self._opened:
                self._opened[wanted] = self._offers[wanted].open()
            return self._opened[wanted](operation, asked)


def offer_model(path: Path, device: Device, threads: int | None) -> list[Offer]:
    """Return a model folder's offers, one for each compute type; UsageError if the folder is damaged."""
    manifest = check_model(path, read_model(path).kind)
    match manifest.kind:
        case "embedder":
            return [
                Offer(
                    Wanted("embedder", manifest.digest),
                    manifest.name,
                    lambda: _answer_vectors(SentenceEncoder(path, device, threads)),
                )
            ]
        case "cross-encoder":
            return [
                Offer(
                    Wanted("cross-encoder", manifest.digest),
                    manifest.name,
                    lambda: _answer_scores(CrossEncoder(path, device, threads)),
                )
            ]
    return list(_offer_numbers(path, manifest, device, threads))


def offer_graph(name: str, folder: Path) -> Offer:
    """Return the offer of a local graph; GraphError if it does not exist or is damaged."""
    manifest = read_manifest(name, folder)
    return Offer(
        Wanted("graph", manifest.digest), name, lambda: _answer_paths(Graph(graph_path(name, folder), manifest))
    )


def _offer_numbers(path: Path, manifest: ModelManifest, device: Device, threads: int | None) -> Iterator[Offer]:
    """Yield a translator or language model once for each compute type, since that is part of its identity."""
    kinds: list[ComputeType | None] = [None, "float32"]
    if name_device(device) == "cuda":
        kinds.append("float16")
    told: set[str] = set()
    for kind in kinds:
        numbers = choose_compute_type(path, kind)
        if numbers not in told:
            told.add(numbers)
            yield _offer_one(path, manifest, device, numbers, threads)


def _offer_one(path: Path, manifest: ModelManifest, device: Device, numbers: ComputeType, threads: int | None) -> Offer:
    # use the absolute path; a name would be resolved in a home
    folder, home = absolute_path(path), path
    if manifest.kind == "translator":
        identity = translate.identify_translator(folder, home, device, numbers)
        service: Service = serve_translator(identity, lambda: translate.Translator(folder, device, numbers, threads))
        return Offer(Wanted("translator", identity), manifest.name, lambda: _answer_calls(service))
    identity = perplexity.identify_perplexity(folder, home, device, numbers)
    weigher: Service = serve_perplexity(identity, lambda: perplexity.LanguageModel(folder, device, numbers, threads))
    return Offer(Wanted("perplexity", identity), manifest.name, lambda: _answer_calls(weigher))


def _answer_calls(service: Service) -> Answer:
    def answer(_operation: str, asked: Any) -> Any:
        calls = read_calls(service.identity, asked)
        places = {id(call): place for place, call in enumerate(calls)}
        replies: list[Any] = [None] * len(calls)

        def take(call: Call, reply: Reply) -> None:
            replies[places[id(call)]] = write_reply(reply)

        service.send(calls, take)
        return replies

    return answer


def _answer_vectors(encoder: SentenceEncoder) -> Answer:
    return lambda _operation, texts: write_array(encoder.encode(texts))


def _answer_scores(encoder: CrossEncoder) -> Answer:
    return lambda _operation, pairs: write_array(encoder.score([(first, second) for first, second in pairs]))


def _answer_paths(graph: Graph) -> Answer:
    def answer(operation: str, asked: Any) -> Any:
        subjects, objects, properties, options = asked
        start = read_array(subjects).astype(np.int64)
        if operation == "item_paths":
            return write_found(graph.find_item_paths(start, read_array(objects), read_options(options)))
        wanted = read_literals(objects)
        return write_found(graph.find_literal_paths(start, wanted, frozenset(properties), read_options(options)))

    return answer
