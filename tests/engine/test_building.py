"""Datasets: which shards a range of rows lies in."""

import pytest

from tasks.core.receipts import Receipt
from tasks.engine.datasets import Dataset


def dataset(*rows: int) -> Dataset:
    return Dataset(
        tuple(
            Receipt(stage="s", index=i, key="k", shard=f"s{i}", rows_in=n, rows=n, rejects=0, merged=0, digest="d")
            for i, n in enumerate(rows)
        )
    )


@pytest.mark.parametrize(
    ("start", "stop", "shards", "skipped"),
    [
        (0, 3, ("s0",), 0),
        (2, 4, ("s0", "s2"), 0),
        (3, 7, ("s2",), 3),
        (4, 9, ("s2", "s3"), 3),
        (7, 9, ("s3",), 7),
        (0, 9, ("s0", "s2", "s3"), 0),
    ],
)
def test_a_range_names_only_the_shards_it_touches(start: int, stop: int, shards: tuple[str, ...], skipped: int) -> None:
    assert dataset(3, 0, 4, 2).shards_of(start, stop) == (shards, skipped)


def test_an_empty_dataset_still_has_a_shard_to_read_the_columns_from() -> None:
    assert dataset(0, 0).shards_of(0, 0) == (("s0",), 0)


def test_a_range_names_the_units_its_rows_come_from() -> None:
    units = (("P19",), ("P26",), ("P50",), ("P50", "P57"))
    rows = Dataset(dataset(3, 0, 4, 2).receipts, units)
    assert [rows.units_of(*each) for each in ((0, 3), (2, 4), (7, 9), (0, 9))] == [
        ("P19",),
        ("P19", "P50"),
        ("P50", "P57"),
        ("P19", "P50", "P57"),
    ]
