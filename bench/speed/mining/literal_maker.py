"""Generate dates and numbers as direct claims of a random graph (graph_maker.py), and pairs to search paths to them."""

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from speed.mining.graph_maker import HIGHEST_PID, Edges, Ints

FIRST_PID, PROPERTIES = HIGHEST_PID, 50
"""Properties of literals, distinct from those of edges."""
DATE_SHARE = 2 / 3
_ROWS_AT_ONCE = 250_000
_XSD = "^^<http://www.w3.org/2001/XMLSchema#"


@dataclass(frozen=True, slots=True)
class DrawnLiterals:
    """Literals sorted by the position of their item."""

    owners: Ints
    pids: Ints
    is_date: npt.NDArray[np.bool_]
    days: Ints
    """Days since 1970 for dates; the value itself for numbers."""


def draw_literals(edges: Edges, count: int, seed: int, an_item: int = 0) -> DrawnLiterals:
    """Return `count` literals; the same seed gives the same ones.

    Items are drawn by their number of edges; each drawn item gets `an_item` literals, or one when it is 0."""
    random = np.random.default_rng([seed, len(edges), count])
    together = max(an_item, 1)
    drawn = edges.subjects[random.integers(0, len(edges), count // together)].astype(np.int64)
    owners = np.repeat(np.sort(drawn), together)
    count = len(owners)
    pids = FIRST_PID + random.integers(0, PROPERTIES, count)
    return DrawnLiterals(
        owners, pids, pids < FIRST_PID + PROPERTIES * DATE_SHARE, random.integers(-90_000, 20_000, count)
    )


def write_literals(edges: Edges, drawn: DrawnLiterals, out: BinaryIO) -> int:
    """Write literals as N-Triples; return the number of lines."""
    for start in range(0, len(drawn.owners), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        days = drawn.days[rows].astype("datetime64[D]")
        dates = pc.binary_join_element_wise('"', pa.array(days.astype(str)), f'T00:00:00Z"{_XSD}dateTime>', "")
        numbers = pc.binary_join_element_wise('"', pa.array(drawn.days[rows]).cast(pa.string()), f'"{_XSD}decimal>', "")
        columns = [
            "<http://www.wikidata.org/entity/Q",
            pa.array(edges.items[drawn.owners[rows]]).cast(pa.string()),
            "> <http://www.wikidata.org/prop/direct/P",
            pa.array(drawn.pids[rows]).cast(pa.string()),
            "> ",
            pc.if_else(pa.array(drawn.is_date[rows]), dates, numbers),
            " .\n",
        ]
        for text in pc.binary_join_element_wise(*columns, "").to_pylist():
            out.write(text.encode())
    return len(drawn.owners)


def draw_literal_pairs(
    edges: Edges, by_object: Ints, drawn: DrawnLiterals, count: int, seed: int, *, dates: bool
) -> tuple[Ints, Ints]:
    """Return QID numbers of subjects, and the days or numbers to search for.

    In a third of the pairs the subject itself has the value, in a third an item that the subject points at has it, and
    the others are random. `by_object` orders the edges by their objects.
    """
    random = np.random.default_rng([seed, len(edges), count, dates])
    kind = np.flatnonzero(drawn.is_date == dates)
    chosen = kind[random.integers(0, len(kind), count)]
    subjects, wanted = drawn.owners[chosen].copy(), drawn.days[chosen].copy()
    which = random.integers(0, 3, count)
    first, last = (np.searchsorted(edges.objects, subjects, side, by_object) for side in ("left", "right"))
    inward = first + (random.random(count) * (last - first)).astype(np.int64)
    is_behind = (which == 1) & (last > first)
    subjects[is_behind] = edges.subjects[by_object[inward[is_behind]]]
    is_drawn = which == 2
    wanted[is_drawn] = random.integers(-90_000, 20_000, int(is_drawn.sum()))
    return edges.items[subjects], wanted


def save_literal_pairs(edges: Edges, drawn: DrawnLiterals, pairs: int, sets: int, seed: int, out: Path) -> None:
    """Write sets of pairs of both kinds as <out>/dates-<k>.npy and <out>/numbers-<k>.npy, two rows each."""
    by_object = np.argsort(edges.objects, kind="stable")
    for number in range(sets):
        for name, dates in (("dates", True), ("numbers", False)):
            drawn_pairs = draw_literal_pairs(edges, by_object, drawn, pairs, seed + number, dates=dates)
            np.save(out / f"{name}-{number}.npy", np.stack(drawn_pairs))
