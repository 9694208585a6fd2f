"""Batches that change nothing: a text gets the same bits whatever it is computed with.

Builds must come out the same byte for byte. Two things stand against it: padding, and that products of floats are added
up in an order that depends on how many rows are multiplied at once; and where words are searched for, rows drop out of a
batch as their texts end. So:

- int8 on the CPU: texts of one shape (their numbers of tokens) share a batch, without padding. Products of integers are
  exact in any order and all else is done row by row, so every bit is the same (tests compare bit for bit).
- float32, float16, and any GPU: one text a batch, several batches at once; translations in float32, where the CPU lets
  them, in company that lasts (translate.py). `batching = "length"` shares batches there
  too, for those who can bear that a result turns with its neighbours in the last bits.
- Encoders, in float32 (`run_filled_batches`): texts of one length share batches, which a text that is repeated fills up.
  Where rows keep their bits in products of a kind (`devices.find_multiplier`), it does so to the next size of that kind.
  Elsewhere to one fixed size for that length: matrix libraries choose their way of adding by the shape of the matrices,
  which is thus a matter of the text alone.
"""

import math
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from factmill.tasks.core.service_settings import ComputeType
from factmill.tasks.models.devices import Multiplier

Batching = Literal["auto", "length", "alone"]
T = TypeVar("T")
F = TypeVar("F", bound=np.floating[Any])

_UNDER_WAY = 256
"""Batches started ahead of the one whose results are awaited: enough for every core, and replies still come early."""
LEAST_ROWS = 16
"""Rows of a product by AVX-512, at least, for each to keep its bits."""
MOST_ROWS = 263
"""Rows of a product by AVX2, at most, for all but the odd ones (`list_odd_rows`) to keep their bits."""
_TOKENS_AT_ONCE: dict[Multiplier | None, int] = {None: 120, "avx2": MOST_ROWS, "avx512": 400}
"""Tokens of an encoder's batch, at most, unless a single text has more: the more there are, up to some 400, the quicker a core
is, but where sizes are fixed also the more rows that only fill up (bench/speed/models/embed.py)."""
_BLOCK = 96
"""Rows that oneDNN multiplies at once, by AVX2."""


def choose_batching(batching: Batching, device: str, compute_type: ComputeType) -> Literal["length", "alone"]:
    """Return how texts are batched; `auto` is the fastest way that is exact."""
    if batching != "auto":
        return batching
    return "length" if device == "cpu" and compute_type == "int8" else "alone"


def run_batches(
    shapes: Sequence[Hashable],
    lengths: Sequence[int],
    batching: Literal["length", "alone"],
    batch_tokens: int,
    start: Callable[[list[int]], Callable[[], Sequence[T]]],
    batch_texts: int | None = None,
) -> Iterator[tuple[int, T]]:
    """Yield each place with its result, in the order of the batches: those of the longest texts first.

    `shapes`: what texts of one batch have in common, one a place; `lengths`: their tokens; `batch_tokens`: tokens of a
    batch, at most, unless a single text has more, and `batch_texts` its texts; `start`: begins the batch of some places and
    returns what waits for its results.
    """
    by_shape: dict[Hashable, list[int]] = {}
    for place, shape in enumerate(shapes):
        by_shape.setdefault(shape, []).append(place)
    under_way: deque[tuple[list[int], Callable[[], Sequence[T]]]] = deque()
    for alike in sorted(by_shape.values(), key=lambda places: -lengths[places[0]]):
        most = max(1, min(batch_texts or len(shapes), batch_tokens // lengths[alike[0]])) if batching != "alone" else 1
        for first in range(0, len(alike), most):
            places = alike[first : first + most]
            under_way.append((places, start(places)))
            if len(under_way) > _UNDER_WAY:
                oldest, wait = under_way.popleft()
                yield from zip(oldest, wait(), strict=True)
    while under_way:
        oldest, wait = under_way.popleft()
        yield from zip(oldest, wait(), strict=True)


def run_filled_batches(
    lengths: Sequence[int],
    workers: int,
    multiplier: Multiplier | None,
    work: Callable[[list[int]], npt.NDArray[F]],
) -> Iterator[tuple[list[int], npt.NDArray[F]]]:
    """Yield places of texts of one length with their results, a row each; `workers` batches run at once.

    `work`: gets the places of a batch, the first one repeated at its end to fill it up, and returns a row for each.
    """
    batches = list(batch_by_length(lengths, multiplier))
    with ThreadPoolExecutor(workers) as pool:
        filled = [rows + rows[:1] * (size - len(rows)) for rows, size in batches]
        for (rows, _), found in zip(batches, pool.map(work, filled), strict=True):
            yield rows, found[: len(rows)]


def batch_by_length(lengths: Sequence[int], multiplier: Multiplier | None) -> Iterator[tuple[list[int], int]]:
    """Yield places in batches with how many texts fill each: of one length, the longest first."""
    by_length: dict[int, list[int]] = {}
    for place, length in enumerate(lengths):
        by_length.setdefault(length, []).append(place)
    for length in sorted(by_length, reverse=True):
        places, most = by_length[length], count_texts(length, multiplier)
        for start in range(0, len(places), most):
            batch = places[start : start + most]
            yield batch, fill_size(len(batch), length, multiplier)


def count_texts(length: int, multiplier: Multiplier | None) -> int:
    """Return how many texts of so many tokens an encoder's batch has, at most."""
    most = max(1, _TOKENS_AT_ONCE[multiplier] // length)
    if multiplier == "avx512":
        return most
    return next(texts for texts in range(most, 0, -1) if texts == 1 or not list_odd_rows(texts * length))


def fill_size(texts: int, length: int, multiplier: Multiplier | None) -> int:
    """Return how many texts fill a batch of some of one length, so that each of those gets the bits that it always gets."""
    if multiplier == "avx512":
        return max(texts, math.ceil(LEAST_ROWS / length))
    most = count_texts(length, multiplier)
    if multiplier is None:
        return most
    sizes = range(texts, most)
    return next(
        (size for size in sizes if all(odd.start >= texts * length for odd in list_odd_rows(size * length))), most
    )


def list_odd_rows(rows: int) -> list[range]:
    """Return the rows of a product that oneDNN adds up another way than the rest where it multiplies by AVX2.

    It takes some 96 rows at once, of those six by six, and one to three that are left over another way.
    """
    odd, start = [], 0
    while start < rows:
        left = rows - start
        end = start + (_BLOCK if left >= 2 * _BLOCK else left if 2 * left <= 3 * _BLOCK else (left + 1) // 2)
        if (end - start) % 6 in (1, 2, 3):
            odd.append(range(end - (end - start) % 6, end))
        start = end
    return odd
