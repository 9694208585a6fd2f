"""Shards: the Parquet files that a batch writes. Each file is written as a draft and renamed, the receipt last, so a shard
with a receipt is complete."""

import hashlib
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from factmill.tasks.core.batch_receipts import BatchReceipt
from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.errors import ShardError
from factmill.tasks.memory import find_resource_shortage

REJECTS_SCHEMA = pa.schema(
    [("id", pa.string()), ("reason", pa.string()), ("detail", pa.string()), ("row", pa.string())]
)
MERGED_SCHEMA = pa.schema([("id", pa.string()), ("into_id", pa.string())])
CALL_USES_SCHEMA = pa.schema(
    [("id", pa.string()), ("key", pa.string()), ("record_id", pa.string()), ("taken_off", pa.string())]
)
SHARD_KINDS = ("rows", "rejects", "merged", "uses", "extras")


def write_shard_and_digest_rows_file(shard: Path, tables: dict[str, pa.Table]) -> str:
    """Write a batch's tables (kind → table) and return the SHA-256 of the rows' file; ShardError if the disk is full."""
    shard.parent.mkdir(parents=True, exist_ok=True)
    digest = ""
    for kind, table in tables.items():
        data = parquet_bytes(table)
        if kind == "rows":
            digest = digest_bytes(data)
        _write_atomically(shard.with_name(f"{shard.name}.{kind}.parquet"), data)
    return digest


def write_receipt(receipt: BatchReceipt) -> None:
    """Write the receipt, which completes the shard: a digest of the shard's files and the receipt, then the receipt."""
    content = receipt.model_dump_json().encode()
    _write_atomically(
        Path(f"{receipt.shard}.receipt.json"), b"%s %s" % (_digest_shard(Path(receipt.shard), content), content)
    )


def find_reusable_receipt(shard: Path) -> BatchReceipt | None:
    """Return a shard's receipt, or None if the shard is incomplete or damaged, or its batch must be done again."""
    try:
        digest, _, content = shard.with_name(f"{shard.name}.receipt.json").read_bytes().partition(b" ")
        if digest != _digest_shard(shard, content):
            return None
        receipt = BatchReceipt.model_validate_json(content)
    except (OSError, ValueError):
        return None  # missing, or of another factmill
    return receipt if receipt.shard == str(shard) and not receipt.unsettled else None


def _digest_shard(shard: Path, receipt: bytes) -> bytes:
    """Return the SHA-256, in hex, of a receipt and the existing files of its shard."""
    digest = hashlib.sha256(receipt)
    for kind in SHARD_KINDS:
        if has_shard_table(str(shard), kind):
            with Path(f"{shard}.{kind}.parquet").open("rb") as file:
                digest.update(kind.encode() + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest().encode()


def load_shard_row_range(files: Sequence[str], start: int, stop: int) -> pa.Table:
    """Return rows `start` to `stop` of several shards, counted over the shards in order."""
    tables, before = [], 0
    for file in files:
        table = load_shard_table(file, "rows")
        low, high = max(start - before, 0), min(stop - before, table.num_rows)
        if low < high:
            tables.append(table.slice(low, high - low))
        before += table.num_rows
    if not tables:
        return load_shard_table(files[0], "rows").slice(0, 0)
    return pa.concat_tables(tables)


def load_shard_table(shard: str, kind: str) -> pa.Table:
    """Return one table of a shard; ShardError if it is damaged."""
    try:
        # batches are read in parallel: extra threads and a data set of one file would cost as much as the reading
        with pq.ParquetFile(f"{shard}.{kind}.parquet") as file:
            return file.read(use_threads=False)
    except (OSError, pa.ArrowException) as error:
        if find_resource_shortage(error):  # the file may be intact
            raise
        raise ShardError(f"cannot read {shard}.{kind}.parquet: {error}; remove the folder and build again") from error


def has_shard_table(shard: str, kind: str) -> bool:
    """True if the shard has a table of that kind."""
    return Path(f"{shard}.{kind}.parquet").is_file()


def make_table(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Return a table of rows, each a tuple with one value per column."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def parquet_bytes(table: pa.Table, metadata: Mapping[str, str] | None = None) -> bytes:
    """Return a table as ZSTD Parquet; equal tables give equal bytes (one row group per 64k rows, single-threaded).

    `metadata`: key → value in the file's schema.
    """
    sink = pa.BufferOutputStream()
    _write_parquet(table, sink, metadata)
    return sink.getvalue().to_pybytes()


def digest_table_as_parquet(table: pa.Table) -> str:
    """Return the SHA-256 of a table's Parquet bytes (`parquet_bytes`), without holding them all in memory."""
    digest = _DigestOnlyFile()
    _write_parquet(table, digest)
    return digest.sha256.hexdigest()


def count_and_digest_tables(tables: Mapping[str, pa.Table]) -> dict[str, dict[str, Any]]:
    """Return table → number of rows and SHA-256 of its Parquet bytes, rows sorted by id."""
    return {
        name: {"rows": table.num_rows, "sha256": digest_table_as_parquet(table.sort_by("id"))}
        for name, table in sorted(tables.items())
    }


class _DigestOnlyFile(io.RawIOBase):
    """Write-only file that keeps only the digest of what is written."""

    def __init__(self) -> None:
        self.sha256 = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.sha256.update(data)
        return len(data)


def _write_parquet(table: pa.Table, sink: Any, metadata: Mapping[str, str] | None = None) -> None:
    plain = make_nullable_schema(table.schema, metadata)
    pq.write_table(table.cast(plain), sink, compression="zstd", row_group_size=65536, store_schema=False)


def make_nullable_schema(schema: pa.Schema, metadata: Mapping[str, str] | None = None) -> pa.Schema:
    """Return the schema of our Parquet files: every field nullable, list values under Arrow's default name."""
    return pa.schema([pa.field(field.name, _make_nullable_type(field.type)) for field in schema], metadata)


def _make_nullable_type(kind: pa.DataType) -> pa.DataType:
    """Return the type with every field nullable, as DuckDB returns tables, so that both sources give equal bytes."""
    if pa.types.is_list(kind):
        return pa.list_(_make_nullable_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _make_nullable_type(field.type)) for field in kind])
    return kind


def _write_atomically(path: Path, data: bytes) -> None:
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ShardError(
            f"cannot write {path}: {error}; free some space and run the same command again; it continues from here"
        ) from error
