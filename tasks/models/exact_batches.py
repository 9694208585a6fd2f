"""Bit-exact batches: a text gets the same bits whatever texts share its batch.

Builds must be identical byte for byte. Three effects prevent it: padding; the summation order of float products, which
depends on the number of rows; and in beam search, rows that drop out of a batch as their texts end. So:

- int8 on the CPU: texts of one shape (their numbers of tokens) share a batch without padding. Integer products are
  exact in any order and everything else works row by row, so every bit is the same (tests compare bit for bit).
- float32, float16, and any GPU: one text a batch, several batches in parallel; float32 translations, where the CPU
  allows it, together with texts that last to the end (translate.py). `batching = "length"` shares batches there too,
  for users who accept that the last bits of a result depend on its neighbours.
- Encoders in float32 (`run_equal_length_filled_batches`): texts of one length share batches, filled up with a repeated text. Where
  rows get the same bits in products of certain sizes (`devices.find_amd_onednn_matmul_instructions`), up to the next such size. Elsewhere
  up to one fixed size for each length: matrix libraries choose the summation order by the shape of the matrices, which
  then depends on the text alone.
"""

import math
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from factmill.tasks.core.service_settings import ComputeType
from factmill.tasks.models.devices import MatmulInstructions

Batching = Literal["auto", "length", "alone"]
T = TypeVar("T")
F = TypeVar("F", bound=np.floating[Any])

_MAX_STARTED_BATCHES = 256
"""Batches started ahead of the one whose results are awaited: enough for every core, while replies still come early."""
MIN_EXACT_ROWS_AVX512 = 16
"""Least rows of an AVX-512 product in which each row gets the same bits."""
MAX_EXACT_ROWS_AVX2 = 263
"""Most rows of an AVX2 product in which all but the odd rows (`list_avx2_row_ranges_summed_differently`) get the same bits."""
_MAX_ENCODER_BATCH_TOKENS: dict[MatmulInstructions | None, int] = {
    None: 120,
    "avx2": MAX_EXACT_ROWS_AVX2,
    "avx512": 400,
}
"""Most tokens of an encoder's batch, unless a single text has more. Up to some 400 a core gets faster with more tokens,
but fixed sizes then also need more filling rows (bench/speed/models/embed.py)."""
_AVX2_BLOCK_ROWS = 96
"""Rows of a block that oneDNN multiplies at once by AVX2."""


def choose_batching(batching: Batching, device: str, compute_type: ComputeType) -> Literal["length", "alone"]:
    """Resolve `auto` to the fastest exact way to batch texts: by length for int8 on the CPU, else alone."""
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
    """Run texts in batches; yield each place with its result, batches of the longest texts first.

    For each place, `shapes` has what texts of one batch must share and `lengths` the tokens. `batch_tokens` and
    `batch_texts`: most tokens and texts of a batch, unless a single text has more tokens. `start` begins the batch of
    some places and returns a function that waits for its results.
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
            if len(under_way) > _MAX_STARTED_BATCHES:
                oldest, wait = under_way.popleft()
                yield from zip(oldest, wait(), strict=True)
    while under_way:
        oldest, wait = under_way.popleft()
        yield from zip(oldest, wait(), strict=True)


def run_equal_length_filled_batches(
    lengths: Sequence[int],
    workers: int,
    matmul_instructions: MatmulInstructions | None,
    work: Callable[[list[int]], npt.NDArray[F]],
) -> Iterator[tuple[list[int], npt.NDArray[F]]]:
    """Yield places of texts of one length with their results, a row each; `workers` batches run in parallel.

    `work` gets the places of a batch, filled up at its end by repeating the first, and returns a row for each.
    """
    batches = list(batch_by_length_with_filled_sizes(lengths, matmul_instructions))
    with ThreadPoolExecutor(workers) as pool:
        filled = [rows + rows[:1] * (size - len(rows)) for rows, size in batches]
        for (rows, _), found in zip(batches, pool.map(work, filled), strict=True):
            yield rows, found[: len(rows)]


def batch_by_length_with_filled_sizes(
    lengths: Sequence[int], matmul_instructions: MatmulInstructions | None
) -> Iterator[tuple[list[int], int]]:
    """Yield batches of places of one length, longest first, with the number of texts to fill each up to."""
    by_length: dict[int, list[int]] = {}
    for place, length in enumerate(lengths):
        by_length.setdefault(length, []).append(place)
    for length in sorted(by_length, reverse=True):
        places, most = by_length[length], count_max_texts_per_batch(length, matmul_instructions)
        for start in range(0, len(places), most):
            batch = places[start : start + most]
            yield batch, choose_filled_batch_size(len(batch), length, matmul_instructions)


def count_max_texts_per_batch(length: int, matmul_instructions: MatmulInstructions | None) -> int:
    """Return how many texts of `length` tokens an encoder's batch has, at most."""
    most = max(1, _MAX_ENCODER_BATCH_TOKENS[matmul_instructions] // length)
    if matmul_instructions == "avx512":
        return most
    return next(
        texts
        for texts in range(most, 0, -1)
        if texts == 1 or not list_avx2_row_ranges_summed_differently(texts * length)
    )


def choose_filled_batch_size(text_count: int, length: int, matmul_instructions: MatmulInstructions | None) -> int:
    """Return the number of texts to fill a batch of texts of one length up to, so that each gets its usual bits."""
    if matmul_instructions == "avx512":
        return max(text_count, math.ceil(MIN_EXACT_ROWS_AVX512 / length))
    most = count_max_texts_per_batch(length, matmul_instructions)
    if matmul_instructions is None:
        return most
    sizes = range(text_count, most)
    return next(
        (
            size
            for size in sizes
            if all(odd.start >= text_count * length for odd in list_avx2_row_ranges_summed_differently(size * length))
        ),
        most,
    )


def list_avx2_row_ranges_summed_differently(rows: int) -> list[range]:
    """Return the rows of an AVX2 product that oneDNN sums in another order than the rest.

    It takes blocks of some 96 rows, in groups of six, and sums the one to three rows left over in another order.
    """
    odd, start = [], 0
    while start < rows:
        left = rows - start
        end = start + _AVX2_BLOCK_ROWS
        if left < 2 * _AVX2_BLOCK_ROWS:
            end = rows if 2 * left <= 3 * _AVX2_BLOCK_ROWS else start + (left + 1) // 2
        if (end - start) % 6 in (1, 2, 3):
            odd.append(range(end - (end - start) % 6, end))
        start = end
    return odd
