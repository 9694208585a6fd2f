"""Models and graphs on a cluster's workers, with the same interfaces as local ones."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from factmill.tasks.core.calls.call import Call, ResponseHandler
from factmill.tasks.core.digests import canonical_json
from factmill.tasks.core.wikidata_paths import (
    ITEM_PATHS_SCHEMA,
    LITERAL_PATHS_SCHEMA,
    PAIR_STATUS_SCHEMA,
    PathSearchOptions,
    PathsFoundForPairs,
)
from factmill.tasks.engine.cluster.driver import (
    ClusterRequestGroup,
    DaskClusterClient,
    MalformedWorkerAnswer,
    check_answer_count,
)
from factmill.tasks.engine.cluster.protocol import (
    RequiredModelOrGraph,
    group_indices_by_weight,
    split_into_ranges,
)
from factmill.tasks.models.cross_encoder import CrossEncoderSettings
from factmill.tasks.models.embedders import SentenceEncoderSettings
from factmill.tasks.models.model_folder import load_manifest_and_check_sizes, parse_settings_in_manifest
from factmill.tasks.text.values.wikidata_literals import PartialDate, WantedNumberWithUnit

IntArray = npt.NDArray[np.int64]

_MIN_GROUP_CHARS, _MAX_GROUP_CHARS = 2_048, 32_768
"""Characters per group of texts: a few dozen texts fill batches, a few hundred take any worker seconds."""
_MIN_GROUP_PAIRS, _MAX_GROUP_PAIRS = 1_000, 50_000
"""Pairs per group for path search, which takes some microseconds per pair."""


class LocalModelOnClusterService:
    """A translator or language model on a cluster, as a service."""

    is_outside = True

    def __init__(self, cluster: DaskClusterClient, wanted: RequiredModelOrGraph) -> None:
        self.identity = wanted.identity
        self._cluster, self._wanted = cluster, wanted

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        """Answer every call (see core.calls.call.Service)."""

        def take(places: Sequence[int], replies: Any) -> None:
            check_answer_count(len(replies), len(places))
            for place, reply in zip(places, replies, strict=True):
                deliver(calls[place], reply)

        weights = [len(canonical_json(dict(call.parts))) for call in calls]
        _run_weighted_groups(
            self._cluster,
            self._wanted,
            weights,
            lambda places: ("calls", [(calls[place].operation, dict(calls[place].parts)) for place in places]),
            take,
        )


@dataclass(slots=True)
class RemoteEmbedder:
    """A sentence encoder on a cluster (models.embed.Embedder)."""

    name: str
    digest: str
    dimensions: int
    _cluster: DaskClusterClient

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return vectors of length 1 (len(texts) × dimensions)."""
        different = sorted(set(texts))
        vectors = np.zeros((len(different), self.dimensions), np.float32)
        _run_weighted_groups(
            self._cluster,
            RequiredModelOrGraph("embedder", self.digest),
            [len(text) for text in different],
            lambda places: ("vectors", [different[place] for place in places]),
            lambda places, found: _copy_rows_into_table(vectors, places, found),
        )
        rows = {text: row for row, text in enumerate(different)}
        return vectors[[rows[text] for text in texts]] if len(texts) else vectors


@dataclass(frozen=True, slots=True)
class RemoteCrossEncoder:
    """A cross-encoder on a cluster (models.cross_encoder.PairScorer)."""

    name: str
    digest: str
    _settings: CrossEncoderSettings
    _cluster: DaskClusterClient

    def score(
        self, pairs: Sequence[tuple[str, str]], wanted: Sequence[Collection[str]] | None = None
    ) -> npt.NDArray[np.float64]:
        """Return the scores of pairs (models.cross_encoder.CrossEncoder.score)."""
        columns = slice(None) if wanted is None else self._settings.resolve_label_columns(wanted, self.name)
        different = sorted(set(pairs))
        scores = np.zeros((len(different), len(self._settings.labels)))
        _run_weighted_groups(
            self._cluster,
            RequiredModelOrGraph("cross-encoder", self.digest),
            [len(first) + len(second) for first, second in different],
            lambda places: ("scores", [different[place] for place in places]),
            lambda places, found: _copy_rows_into_table(scores, places, found),
        )
        rows = {pair: row for row, pair in enumerate(different)}
        return scores[[rows[pair] for pair in pairs]][:, columns]


@dataclass(frozen=True, slots=True)
class RemoteGraphPathFinder:
    """Path finder in a local graph on a cluster (core.paths.PathFinder)."""

    digest: str
    """Digest of the graph."""
    _cluster: DaskClusterClient

    def find_item_paths(self, subjects: IntArray, objects: IntArray, options: PathSearchOptions) -> PathsFoundForPairs:
        """Find the paths between items."""

        def write(places: range) -> ClusterRequestGroup:
            some = slice(places.start, places.stop)
            return "item_paths", (subjects[some], objects[some], options)

        return self._find(len(subjects), write, ITEM_PATHS_SCHEMA)

    def find_literal_paths(
        self,
        subjects: IntArray,
        objects: Sequence[PartialDate] | Sequence[WantedNumberWithUnit],
        properties: frozenset[int],
        options: PathSearchOptions,
    ) -> PathsFoundForPairs:
        """Find the paths from items to dates or numbers."""

        def write(places: range) -> ClusterRequestGroup:
            some = slice(places.start, places.stop)
            return "literal_paths", (subjects[some], objects[some], properties, options)

        return self._find(len(subjects), write, LITERAL_PATHS_SCHEMA)

    def _find(self, count: int, write: Callable[[range], ClusterRequestGroup], schema: pa.Schema) -> PathsFoundForPairs:
        wanted = RequiredModelOrGraph("graph", self.digest)
        if not count:
            return PathsFoundForPairs(schema.empty_table(), PAIR_STATUS_SCHEMA.empty_table())
        ranges = split_into_ranges(
            count, len(self._cluster.list_capable_workers(wanted)), _MIN_GROUP_PAIRS, _MAX_GROUP_PAIRS
        )
        found: dict[int, PathsFoundForPairs] = {}

        def take(number: int, answer: PathsFoundForPairs) -> None:
            found[number] = answer
            check_answer_count(found[number].pairs.num_rows, len(ranges[number]))

        self._cluster.run_groups(wanted, [write(places) for places in ranges], take)
        parts = [_shift_found_paths_pair_numbers(found[number], places.start) for number, places in enumerate(ranges)]
        problems = {pair: why for part in parts for pair, why in part.failures.items()}
        return PathsFoundForPairs(
            pa.concat_tables(part.paths for part in parts), pa.concat_tables(part.pairs for part in parts), problems
        )


def open_remote_embedder(path: Path, cluster: DaskClusterClient) -> RemoteEmbedder:
    """Return a remote sentence encoder; only manifest and settings of its model folder are read here."""
    manifest = load_manifest_and_check_sizes(path, "embedder")
    settings = parse_settings_in_manifest(path, manifest, SentenceEncoderSettings)
    return RemoteEmbedder(manifest.name, manifest.digest, settings.dimensions, cluster)


def open_remote_cross_encoder(path: Path, cluster: DaskClusterClient) -> RemoteCrossEncoder:
    """Return a remote cross-encoder; only manifest and settings of its model folder are read here."""
    manifest = load_manifest_and_check_sizes(path, "cross-encoder")
    settings = parse_settings_in_manifest(path, manifest, CrossEncoderSettings)
    return RemoteCrossEncoder(manifest.name, manifest.digest, settings, cluster)


def _run_weighted_groups(
    cluster: DaskClusterClient,
    wanted: RequiredModelOrGraph,
    weights: Sequence[int],
    encode_group: Callable[[Sequence[int]], ClusterRequestGroup],
    handle_answer: Callable[[Sequence[int], Any], None],
) -> None:
    """Send all places to the cluster, in groups of similar weight."""
    if not weights:
        return
    groups = group_indices_by_weight(
        weights, len(cluster.list_capable_workers(wanted)), _MIN_GROUP_CHARS, _MAX_GROUP_CHARS
    )
    cluster.run_groups(
        wanted,
        [encode_group(places) for places in groups],
        lambda number, answer: handle_answer(groups[number], answer),
    )


def _copy_rows_into_table(table: npt.NDArray[Any], places: Sequence[int], rows: npt.NDArray[Any]) -> None:
    """Copy the rows of a worker's array into the table at these places; MalformedWorkerAnswer if the shape differs."""
    check_answer_count(len(rows), len(places))
    if rows.shape[1:] != table.shape[1:]:
        raise MalformedWorkerAnswer(f"rows have the shape {rows.shape[1:]}; expected {table.shape[1:]}")
    table[list(places)] = rows


def _shift_found_paths_pair_numbers(found: PathsFoundForPairs, start: int) -> PathsFoundForPairs:
    """Return the found paths of a range of pairs, with pair numbers offset by `start`."""
    return PathsFoundForPairs(
        _shift_table_pair_numbers(found.paths, start),
        _shift_table_pair_numbers(found.pairs, start),
        {pair + start: why for pair, why in found.failures.items()},
    )


def _shift_table_pair_numbers(table: pa.Table, start: int) -> pa.Table:
    places = pa.array(table["pair"].to_numpy() + start, pa.int32())
    return table.set_column(table.schema.get_field_index("pair"), table.schema.field("pair"), places)
