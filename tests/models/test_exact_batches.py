"""Which texts share a batch."""

import random
from collections.abc import Callable

from tasks.models.exact_batches import batch_by_length, fill_size, list_odd_rows, run_batches


def test_a_batch_is_of_one_shape_and_no_larger_than_it_may_be() -> None:
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


def test_few_rows_only_fill_the_batches_of_some_hundred_questions_up() -> None:
    chance = random.Random(5)
    lengths = [round(chance.triangular(6, 40, 14)) for _ in range(500)]
    batches = list(batch_by_length(lengths))
    assert sorted(place for places in batches for place in places) == list(range(500))
    assert all(len({lengths[place] for place in places}) == 1 for places in batches)
    assert all(len(places) <= fill_size(lengths[places[0]]) for places in batches)
    assert sum(fill_size(lengths[places[0]]) for places in batches) < 1.2 * len(lengths)


def test_no_row_of_a_filled_batch_is_added_up_otherwise() -> None:
    for length in range(1, 600):
        assert fill_size(length) == 1 or not list_odd_rows(fill_size(length) * length), length
        assert fill_size(length) == 1 or 48 < fill_size(length) * length < 192, length
