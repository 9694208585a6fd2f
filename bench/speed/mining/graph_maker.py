"""Generate random graphs shaped like Wikidata from a seed: their edges, and pairs to search paths between.

The graphs copy the properties of Wikidata that decide the cost of path search. Item numbers are scattered over 1 to 130
million. One item, Q5, is the object of a fifth of all edges (through P31). Other objects follow a power law, so a few
more items have in-degrees of a hundred thousand and up. Items have some edges of their own, well-known items up to
hundreds. There are a thousand properties, a few of which make up most edges, and most edges into an item share a
property. An item's number is independent of how well known it is, which is the worse case for locality.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

HUB_QID, HUB_PID = 5, 31
HIGHEST_QID, HIGHEST_PID = 130_000_000, 13_000
PROPERTIES = 1_000
EDGES_AN_ITEM = 3
"""Low, so that an in-degree of millions fits into ten million edges. Pairs are drawn from a higher degree: an edge's
subject has about twenty edges, as in Wikidata, where items have 13 edges to other items."""
HIGHEST_DEGREE = 1_000
HUB_SHARE = 0.2
CLASSES = 1_000
_ZIPF_START = 2

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Edges:
    """A graph without duplicate edges, sorted by subject, property and object; edges refer to items by position."""

    items: Ints
    """QID numbers, ascending; a few have no edge and therefore appear in no file."""
    properties: npt.NDArray[np.int32]
    """PID numbers, ascending."""
    subjects: npt.NDArray[np.uint32]
    labels: npt.NDArray[np.uint16]
    """Positions in `properties`."""
    objects: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.subjects)

    @property
    def offsets(self) -> Ints:
        """Position of each item's first edge, followed by the number of edges."""
        return np.searchsorted(self.subjects, np.arange(len(self.items) + 1, dtype=np.uint32)).astype(np.int64)

    def count_in_degrees(self) -> Ints:
        """Return the number of edges that point at each item."""
        return np.bincount(self.objects, minlength=len(self.items))


def make_edges(count: int, seed: int) -> Edges:
    """Return a graph of `count` edges; the same seed gives the same graph."""
    random = np.random.default_rng([seed, count])
    items = _draw_items(max(count // EDGES_AN_ITEM, 10), random)
    properties = np.sort(random.choice(np.setdiff1d(np.arange(1, HIGHEST_PID), [HUB_PID]), PROPERTIES - 1, False))
    properties = np.sort(np.append(properties, HUB_PID)).astype(np.int32)
    ranked = random.permutation(len(items))
    hub = int(np.flatnonzero(items == HUB_QID)[0])
    other = int(np.flatnonzero(ranked == hub)[0])
    ranked[0], ranked[other] = hub, ranked[0]
    subjects = _draw_subjects(count + count // 20 + 100, ranked, random)
    objects, labels = _draw_objects(subjects, ranked, int(np.searchsorted(properties, HUB_PID)), random)
    keys = np.sort((subjects * PROPERTIES + labels) * len(items) + objects)
    keys = keys[np.append(True, keys[1:] != keys[:-1])]
    if len(keys) < count:
        raise AssertionError(f"only {len(keys):,} of {count:,} drawn edges differ")
    keys = np.delete(keys, random.choice(len(keys), len(keys) - count, replace=False))
    rest, objects = np.divmod(keys, len(items))
    subjects, labels = np.divmod(rest, PROPERTIES)
    return Edges(items, properties, subjects.astype(np.uint32), labels.astype(np.uint16), objects.astype(np.uint32))


def _draw_items(count: int, random: np.random.Generator) -> Ints:
    steps = np.cumsum(random.standard_exponential(count + 1))
    items = (steps[:-1] / steps[-1] * (HIGHEST_QID - count)).astype(np.int64) + np.arange(1, count + 1)
    items[min(np.searchsorted(items, HUB_QID), count - 1)] = HUB_QID
    return items


def _draw_subjects(count: int, ranked: Ints, random: np.random.Generator) -> Ints:
    """Return each edge's subject, ascending; degrees are log-normal, at least 1, higher for well-known items."""
    weights = np.empty(len(ranked))
    weights[ranked] = np.arange(1, len(ranked) + 1) ** -0.25
    weights *= np.exp(1.6 * random.standard_normal(len(ranked)))
    spread = weights * ((count - len(ranked)) / weights.sum())
    degrees = 1 + np.floor(np.minimum(spread, HIGHEST_DEGREE) + random.random(len(ranked))).astype(np.int64)
    return np.repeat(np.arange(len(ranked)), degrees)


def _draw_objects(subjects: Ints, ranked: Ints, hub_property: int, random: np.random.Generator) -> tuple[Ints, Ints]:
    """Return the object and property of each edge."""
    count, items = len(subjects), len(ranked)
    ranks = _draw_ranks(count, items, random)
    labels = _draw_properties(count, random)
    usual = _draw_properties(items, random)
    like_others = random.random(count) < 0.7
    labels[like_others] = usual[ranks[like_others]]
    first = np.flatnonzero(np.append(True, subjects[1:] != subjects[:-1]))
    is_hub = random.random(len(first)) < HUB_SHARE * count / len(first)
    ranks[first] = np.where(is_hub, 0, (min(CLASSES, items) * random.random(len(first)) ** 2).astype(np.int64))
    labels[first] = hub_property
    again = np.flatnonzero(random.random(count - 1) < 0.03) + 1  # a second property between the same two items
    again = np.setdiff1d(again, first)
    ranks[again] = ranks[again - 1]
    objects = ranked[ranks]
    own = random.integers(0, count, count // 10_000)
    objects[own] = subjects[own]
    return objects, labels


def _draw_ranks(count: int, items: int, random: np.random.Generator) -> Ints:
    """Return each object's rank by fame (0 is the best known): half by Zipf's law, half more widely spread."""
    draws = random.random(count)
    ranks = np.where(
        random.random(count) < 0.5, _ZIPF_START * (items / _ZIPF_START + 1) ** draws - _ZIPF_START, items * draws**3
    )
    return np.minimum(ranks.astype(np.int64), items - 1)


def _draw_properties(count: int, random: np.random.Generator) -> Ints:
    return (PROPERTIES * random.random(count) ** 3).astype(np.int64)


def draw_pairs(edges: Edges, count: int, seed: int) -> tuple[Ints, Ints]:
    """Return QID numbers of subjects and objects to search paths between: `count` distinct pairs of two items.

    About a third of the pairs have paths: 30 of 100 are the ends of a walk of one or two edges, in either direction.
    The others are two random items: one is drawn by its outgoing edges, and the other, half of the time, by its
    incoming edges. 1 of 20 pairs has one of the twenty hubs at one end, and 1 of 100 an item without edges.
    """
    random = np.random.default_rng([seed, len(edges), count])
    draws, offsets = count + count // 10 + 100, edges.offsets
    kinds = random.choice(5, draws, p=[0.15, 0.15, 0.33, 0.32, 0.05])
    starts, ends = (random.integers(0, len(edges), draws) for _ in range(2))
    subjects, steps = edges.subjects[starts].astype(np.int64), edges.objects[starts].astype(np.int64)
    targets = np.where(kinds == 0, steps, edges.subjects[ends])
    degrees = offsets[steps + 1] - offsets[steps]
    onward = offsets[steps] + (random.random(draws) * degrees).astype(np.int64)
    walks = (kinds == 1) & (degrees > 0)
    targets[walks] = edges.objects[onward[walks]]
    objects = edges.objects[ends]
    is_named = (kinds == 3) & (edges.labels[ends] != np.searchsorted(edges.properties, HUB_PID))
    targets[is_named] = objects[is_named]
    hubs = np.argsort(edges.count_in_degrees(), kind="stable")[-20:]
    targets[kinds == 4] = random.choice(hubs, int((kinds == 4).sum()))
    turned = random.random(draws) < 0.5
    subjects, targets = np.where(turned, targets, subjects), np.where(turned, subjects, targets)
    pairs = np.stack([edges.items[subjects], edges.items[targets]])
    unknown = np.flatnonzero(random.random(draws) < 0.01)
    pairs[random.integers(0, 2, len(unknown)), unknown] = HIGHEST_QID + unknown
    pairs = pairs[:, pairs[0] != pairs[1]]
    _, first = np.unique(pairs, axis=1, return_index=True)
    pairs = pairs[:, np.sort(first)[:count]]
    if pairs.shape[1] < count:
        raise AssertionError(f"only {pairs.shape[1]:,} of {count:,} drawn pairs differ")
    return pairs[0], pairs[1]


def save_edges(edges: Edges, folder: Path) -> None:
    """Write a graph's arrays to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in Edges.__slots__:
        np.save(folder / f"{name}.npy", getattr(edges, name))


def read_edges(folder: Path) -> Edges:
    """Map a graph's arrays from a folder."""
    return Edges(**{name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in Edges.__slots__})
