"""The rows that a stage left, as the next one and publishing read them."""

from dataclasses import dataclass

import pyarrow as pa

from tasks.core.receipts import Receipt
from tasks.core.rows import Row, arrow_schema
from tasks.storage.shards import has_kind, read_shard


@dataclass(frozen=True, slots=True)
class Dataset:
    """The rows that a stage left: shards in order."""

    receipts: tuple[Receipt, ...]
    units: tuple[tuple[str, ...], ...] = ()
    """For each receipt the units of the source that its rows may come from."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(receipt.rows for receipt in self.receipts)

    def shards_of(self, start: int, stop: int) -> tuple[tuple[str, ...], int]:
        """Return the shards that hold rows `start` to `stop` (the first one when there are none), and the rows before them."""
        kept: list[str] = []
        before = skipped = 0
        for receipt in self.receipts:
            if receipt.rows and before < stop and start < before + receipt.rows:
                skipped = skipped if kept else before
                kept.append(receipt.shard)
            before += receipt.rows
        return tuple(kept or [self.receipts[0].shard]), skipped

    def units_of(self, start: int, stop: int) -> tuple[str, ...]:
        """Return the units of the source that rows `start` to `stop` come from."""
        found: dict[str, None] = {}
        before = 0
        for receipt, units in zip(self.receipts, self.units, strict=False):
            if receipt.rows and before < stop and start < before + receipt.rows:
                found.update(dict.fromkeys(units))
            before += receipt.rows
        return tuple(found)

    def table(self, model: type[Row]) -> pa.Table:
        """Return all rows (shape: rows × columns of the model)."""
        return self._all("rows", arrow_schema(model))

    def extras(self, schema: pa.Schema) -> pa.Table:
        """Return the side table that the stage's batches left."""
        return self._all("extras", schema)

    def _all(self, kind: str, schema: pa.Schema) -> pa.Table:
        parts = [
            read_shard(receipt.shard, kind).cast(schema) for receipt in self.receipts if has_kind(receipt.shard, kind)
        ]
        return pa.concat_tables(parts) if parts else schema.empty_table()
