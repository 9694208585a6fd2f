"""Test batching of texts: which texts share a batch, and that a text gets the same bits in every batch."""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from factmill.tasks.models.devices import MatmulInstructions, find_amd_onednn_matmul_instructions
from factmill.tasks.models.exact_batches import (
    batch_by_length_with_filled_sizes,
    choose_filled_batch_size,
    count_max_texts_per_batch,
    list_avx2_row_ranges_summed_differently,
    run_batches,
)


def test_batch_has_one_shape_and_respects_maximum_size() -> None:
    begun: list[list[int]] = []

    def start(places: list[int]) -> Callable[[], list[int]]:
        begun.append(places)
        return lambda: places

    lengths = [9, 4, 9, 9, 4, 9, 9, 30]
    assert sorted(run_batches(lengths, lengths, "length", 36, start, 3)) == [(place, place) for place in range(8)]
    assert begun == [[7], [0, 2, 3], [5, 6], [1, 4]]
    begun.clear()
    list(run_batches(lengths, lengths, "length", 18, start))
    assert begun == [[7], [0, 2], [3, 5], [6], [1, 4]]
    begun.clear()
    list(run_batches(lengths, lengths, "alone", 36, start, 3))
    assert len(begun) == 8


MULTIPLIERS: list[MatmulInstructions | None] = [None, "avx2", "avx512"]


@pytest.mark.parametrize(("multiplier", "share"), [(None, 0.25), ("avx2", 0.05), ("avx512", 0.01)])
def test_few_filler_rows_complete_batches_of_five_hundred_questions(
    multiplier: MatmulInstructions | None, share: float
) -> None:
    chance = random.Random(5)
    lengths = [round(chance.triangular(6, 40, 14)) for _ in range(500)]
    batches = list(batch_by_length_with_filled_sizes(lengths, multiplier))
    assert sorted(place for places, _ in batches for place in places) == list(range(500))
    assert all(len({lengths[place] for place in places}) == 1 for places, _ in batches)
    assert all(len(places) <= size for places, size in batches)
    assert sum(size for _, size in batches) < (1 + share) * len(lengths)


@pytest.mark.parametrize("multiplier", MULTIPLIERS)
def test_filled_batch_sizes_keep_summation_order_for_any_number_of_texts(multiplier: MatmulInstructions | None) -> None:
    for length in range(1, 600):
        most = count_max_texts_per_batch(length, multiplier)
        sizes = [choose_filled_batch_size(texts, length, multiplier) for texts in range(1, most + 1)]
        if most == 1 and multiplier != "avx512":
            assert sizes == [1]
        elif multiplier == "avx512":
            assert min(sizes) * length >= 16
        elif multiplier == "avx2":
            assert max(sizes) * length <= 263
            for texts, size in enumerate(sizes, 1):
                assert all(
                    odd.start >= texts * length for odd in list_avx2_row_ranges_summed_differently(size * length)
                ), (
                    length,
                    texts,
                )
        else:
            assert set(sizes) == {most}


def test_maximum_batch_size_follows_text_length_and_instruction_set() -> None:
    assert [count_max_texts_per_batch(length, "avx512") for length in (1, 10, 200, 201, 900)] == [400, 40, 2, 1, 1]
    assert [count_max_texts_per_batch(length, "avx2") for length in (1, 10, 13, 131, 132)] == [263, 26, 20, 2, 1]


@pytest.mark.slow
@pytest.mark.skipif(
    find_amd_onednn_matmul_instructions("cpu") is None, reason="this CPU multiplies floats by other than oneDNN"
)
def test_bits_do_not_depend_on_neighbours_when_onednn_is_limited_to_avx2() -> None:
    """Runs the bit tests again with what CTranslate2 uses on AMD CPUs without AVX-512."""
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", "bits and not avx2"]
    held = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(Path(__file__).parent)],
        env=held | {"ONEDNN_MAX_CPU_ISA": "AVX2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0 and "skipped" not in ended.stdout, ended.stdout
