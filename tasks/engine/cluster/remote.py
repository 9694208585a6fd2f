"""Models and graphs on a cluster's workers, with the same interfaces as local ones."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from factmill.tasks.core.calls.call import Call, Deliver
from factmill.tasks.core.fingerprints import canonical_json
from factmill.tasks.core.paths import ITEM_PATHS, LITERAL_PATHS, PAIRS, FoundPaths, PathOptions
from factmill.tasks.engine.cluster.asking import Cluster, Group, WrongAnswer, check_count
from factmill.tasks.engine.cluster.wire import (
    Wanted,
    cut_groups,
    cut_ranges,
    read_array,
    read_found,
    read_reply,
    write_array,
    write_calls,
    write_literals,
    write_options,
)
from factmill.tasks.models.cross_encoder import CrossEncoderSettings
from factmill.tasks.models.embed import EncoderSettings
from factmill.tasks.models.model_folder import read_model, read_settings
from factmill.tasks.text.values.literals import Date, Number

Ints = npt.NDArray[np.int64]

_LEAST_LETTERS, _MOST_LETTERS = 2_048, 32_768
"""Characters per group of texts: a few dozen texts fill batches, a few hundred take any worker seconds."""
_LEAST_PAIRS, _MOST_PAIRS = 1_000, 50_000
"""Pairs per group for path search, which takes some microseconds per pair."""


class RemoteModel:
    """A translator or language model on a cluster, as a service."""

    is_outside = True

    def __init__(self, cluster: Cluster, wanted: Wanted) -> None:
        self.identity = wanted.identity
        self._cluster, self._wanted = cluster, wanted

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        """Answer every call (see core.calls.call.Service)."""

        def take(places: Sequence[int], replies: Any) -> None:
            check_count(len(replies), len(places))
            for place, reply in zip(places, replies, strict=True):
                deliver(calls[place], read_reply(reply))

        weights = [len(canonical_json(dict(call.parts))) for call in calls]
        _ask_by_weight(
            self._cluster,
            self._wanted,
            weights,
            lambda places: ("calls", write_calls([calls[place] for place in places])),
            take,
        )


@dataclass(slots=True)
class RemoteEmbedder:
    """A sentence encoder on a cluster (models.embed.Embedder)."""

    name: str
    digest: str
    dimensions: int
    _cluster: Cluster

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return vectors of length 1 (len(texts) × dimensions)."""
        different = sorted(set(texts))
        vectors = np.zeros((len(different), self.dimensions), np.float32)
        _ask_by_weight(
            self._cluster,
            Wanted("embedder", self.digest),
            [len(text) for text in different],
            lambda places: ("vectors", [different[place] for place in places]),
            lambda places, found: _put_rows(vectors, places, found),
        )
        rows = {text: row for row, text in enumerate(different)}
        return vectors[[rows[text] for text in texts]] if len(texts) else vectors


@dataclass(frozen=True, slots=True)
class RemoteCrossEncoder:
    """A cross-encoder on a cluster (models.cross_encoder.PairScorer)."""

    name: str
    digest: str
    _settings: CrossEncoderSettings
    _cluster: Cluster

    def score(
        self, pairs: Sequence[tuple[str, str]], wanted: Sequence[Collection[str]] | None = None
    ) -> npt.NDArray[np.float64]:
        """Return the scores of pairs (models.cross_encoder.CrossEncoder.score)."""
        columns = slice(None) if wanted is None else self._settings.find_columns(wanted, self.name)
        different = sorted(set(pairs))
        scores = np.zeros((len(different), len(self._settings.labels)))
        _ask_by_weight(
            self._cluster,
            Wanted("cross-encoder", self.digest),
            [len(first) + len(second) for first, second in different],
            lambda places: ("scores", [list(different[place]) for place in places]),
            lambda places, found: _put_rows(scores, places, found),
        )
        rows = {pair: row for row, pair in enumerate(different)}
        return scores[[rows[pair] for pair in pairs]][:, columns]


@dataclass(frozen=True, slots=True)
class RemotePaths:
    """Path finder in a local graph on a cluster (core.paths.PathFinder)."""

    digest: str
    """Digest of the graph."""
    _cluster: Cluster

    def find_item_paths(self, subjects: Ints, objects: Ints, options: PathOptions) -> FoundPaths:
        """Find the paths between items."""

        def write(places: range) -> Group:
            return "item_paths", [
                write_array(subjects[places.start : places.stop]),
                write_array(objects[places.start : places.stop]),
                [],
                write_options(options),
            ]

        return self._find(len(subjects), write, ITEM_PATHS)

    def find_literal_paths(
        self,
        subjects: Ints,
        objects: Sequence[Date] | Sequence[Number],
        properties: frozenset[int],
        options: PathOptions,
    ) -> FoundPaths:
        """Find the paths from items to dates or numbers."""

        def write(places: range) -> Group:
            return "literal_paths", [
                write_array(subjects[places.start : places.stop]),
                write_literals(objects[places.start : places.stop]),
                sorted(properties),
                write_options(options),
            ]

        return self._find(len(subjects), write, LITERAL_PATHS)

    def _find(self, count: int, write: Callable[[range], Group], schema: pa.Schema) -> FoundPaths:
        wanted = Wanted("graph", self.digest)
        if not count:
            return FoundPaths(schema.empty_table(), PAIRS.empty_table())
        ranges = cut_ranges(count, len(self._cluster.list_holders(wanted)), _LEAST_PAIRS, _MOST_PAIRS)
        found: dict[int, FoundPaths] = {}

        def take(number: int, answer: Any) -> None:
            found[number] = read_found(answer)
            check_count(found[number].pairs.num_rows, len(ranges[number]))

        self._cluster.ask(wanted, [write(places) for places in ranges], take)
        parts = [_shift(found[number], places.start) for number, places in enumerate(ranges)]
        problems = {pair: why for part in parts for pair, why in part.problems.items()}
        return FoundPaths(
            pa.concat_tables(part.paths for part in parts), pa.concat_tables(part.pairs for part in parts), problems
        )


def open_remote_embedder(path: Path, cluster: Cluster) -> RemoteEmbedder:
    """Return a remote sentence encoder; only manifest and settings of its model folder are read here."""
    manifest = read_model(path, "embedder")
    settings = read_settings(path, manifest, EncoderSettings)
    return RemoteEmbedder(manifest.name, manifest.digest, settings.dimensions, cluster)


def open_remote_cross_encoder(path: Path, cluster: Cluster) -> RemoteCrossEncoder:
    """Return a remote cross-encoder; only manifest and settings of its model folder are read here."""
    manifest = read_model(path, "cross-encoder")
    settings = read_settings(path, manifest, CrossEncoderSettings)
    return RemoteCrossEncoder(manifest.name, manifest.digest, settings, cluster)


def _ask_by_weight(
    cluster: Cluster,
    wanted: Wanted,
    weights: Sequence[int],
    write: Callable[[Sequence[int]], Group],
    take: Callable[[Sequence[int], Any], None],
) -> None:
    """Send all places to the cluster, in groups of similar weight."""
    if not weights:
        return
    groups = cut_groups(weights, len(cluster.list_holders(wanted)), _LEAST_LETTERS, _MOST_LETTERS)
    cluster.ask(wanted, [write(places) for places in groups], lambda number, answer: take(groups[number], answer))


def _put_rows(table: npt.NDArray[Any], places: Sequence[int], written: Any) -> None:
    """Copy the rows of a worker's encoded array into the table at these places; WrongAnswer if the shape differs."""
    rows = read_array(written)
    check_count(len(rows), len(places))
    if rows.shape[1:] != table.shape[1:]:
        raise WrongAnswer(f"rows of {rows.shape[1:]} numbers, expected {table.shape[1:]}")
    table[list(places)] = rows


def _shift(found: FoundPaths, start: int) -> FoundPaths:
    """Return the found paths of a range of pairs, with pair numbers offset by `start`."""
    return FoundPaths(
        _shift_pairs(found.paths, start),
        _shift_pairs(found.pairs, start),
        {pair + start: why for pair, why in found.problems.items()},
    )


def _shift_pairs(table: pa.Table, start: int) -> pa.Table:
    places = pa.array(table["pair"].to_numpy() + start, pa.int32())
    return table.set_column(table.schema.get_field_index("pair"), table.schema.field("pair"), places)
