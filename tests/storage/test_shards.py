"""Test shards: complete or absent, and the same bytes for the same rows."""

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from support.damage import damage
from support.steps.receipts import make_receipt

from factmill.tasks.core.batch_receipts import BatchReceipt
from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.errors import ShardError
from factmill.tasks.storage.shards import (
    REJECTS_SCHEMA,
    SHARD_KINDS,
    digest_table_as_parquet,
    find_reusable_receipt,
    load_shard_row_range,
    make_table,
    parquet_bytes,
    write_receipt,
    write_shard_and_digest_rows_file,
)


def numbers(first: int, count: int) -> pa.Table:
    return pa.table({"id": [f"r{n}" for n in range(first, first + count)], "n": list(range(first, first + count))})


def test_row_range_spans_shards(tmp_path: Path) -> None:
    files = []
    for index, (first, count) in enumerate([(0, 3), (3, 0), (3, 4), (7, 2)]):
        write_shard_and_digest_rows_file(tmp_path / str(index), {"rows": numbers(first, count)})
        files.append(str(tmp_path / str(index)))
    for start, stop in [(0, 9), (2, 4), (3, 7), (8, 9), (4, 4), (0, 0)]:
        assert load_shard_row_range(files, start, stop)["n"].to_pylist() == list(range(start, stop))


def write_finished(shard: Path, kinds: Iterable[str] = ("rows",), **receipt: Any) -> BatchReceipt:
    digest = write_shard_and_digest_rows_file(shard, {kind: numbers(0, 100) for kind in kinds})
    assert find_reusable_receipt(shard) is None
    made = make_receipt(shard, digest=digest, **receipt)
    write_receipt(made)
    return made


def test_shard_is_reused_with_its_receipt_unless_transient_failures_lost_rows(tmp_path: Path) -> None:
    made = write_finished(tmp_path / "0")
    assert find_reusable_receipt(tmp_path / "0") == made
    write_finished(tmp_path / "1", unsettled=1)
    assert find_reusable_receipt(tmp_path / "1") is None
    # a receipt of another folder is not valid
    moved = tmp_path.rename(tmp_path.with_name(f"{tmp_path.name}-moved"))
    assert find_reusable_receipt(moved / "0") is None


@pytest.mark.parametrize("how", ["bit", "cut", "zeros", "more", "twice", "nothing"])
@pytest.mark.parametrize("file", ["receipt.json", *(f"{kind}.parquet" for kind in SHARD_KINDS)])
def test_shard_with_damaged_or_missing_file_is_not_reused(tmp_path: Path, file: str, how: str) -> None:
    shard, draw, path = tmp_path / "0", random.Random(f"{file} {how}"), tmp_path / f"0.{file}"
    made = write_finished(shard, SHARD_KINDS)
    whole = path.read_bytes()
    for _ in range(20):
        path.write_bytes(damage(whole, how, draw))
        assert find_reusable_receipt(shard) is None
    path.write_bytes(whole)
    assert find_reusable_receipt(shard) == made
    path.unlink()
    assert find_reusable_receipt(shard) is None


def test_full_disk_is_reported_and_leaves_no_draft_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("factmill.tasks.storage.shards.os.fsync", full)
    with pytest.raises(ShardError, match=r"cannot write .*rows\.parquet: .*No space left on device; free some space"):
        write_shard_and_digest_rows_file(tmp_path / "0", {"rows": numbers(0, 1)})
    assert list(tmp_path.iterdir()) == []


def test_damaged_shard_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "0.rows.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(ShardError, match=r"0\.rows\.parquet"):
        load_shard_row_range([str(tmp_path / "0")], 0, 1)


def test_parquet_bytes_are_unchanged_by_duckdb_round_trip() -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            ("tags", pa.list_(pa.string())),
            ("n", pa.int64()),
            ("x", pa.float64()),
        ]
    )
    table = pa.Table.from_pylist(
        [{"id": "a", "tags": ["p", "q"], "n": None, "x": 0.5}, {"id": "b", "tags": [], "n": 2, "x": None}], schema
    )
    db = duckdb.connect()
    db.register("t", table)
    db.execute("CREATE TABLE kept AS SELECT * FROM t")
    assert parquet_bytes(db.sql("SELECT * FROM kept ORDER BY id").to_arrow_table()) == parquet_bytes(table)
    db.close()


@pytest.mark.parametrize("count", [0, 3, 70_000])
def test_table_digest_equals_digest_of_parquet_bytes(count: int) -> None:
    table = numbers(0, count)
    assert digest_table_as_parquet(table) == digest_bytes(parquet_bytes(table))


def test_table_is_made_from_rows_of_values() -> None:
    table = make_table(REJECTS_SCHEMA, [("a", "odd", "", None), ("b", "even", "very", "{}")])
    assert table.schema == REJECTS_SCHEMA
    assert table.to_pylist()[1] == {"id": "b", "reason": "even", "detail": "very", "row": "{}"}
    assert make_table(REJECTS_SCHEMA, []) == REJECTS_SCHEMA.empty_table()
