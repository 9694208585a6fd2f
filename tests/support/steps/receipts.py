"""Make the receipt of a batch with defaults for what a test ignores."""

from typing import Any

from factmill.tasks.core.batch_receipts import BatchReceipt


def make_receipt(shard: object, **more: Any) -> BatchReceipt:
    """Return a receipt of one row in and out; `more`: other fields."""
    counted = dict.fromkeys(("calls_sent", "calls_replayed", "tokens_in", "tokens_out", "cost_usd", "seconds"), 0)
    result = {"stage": "s", "index": 0, "key": "k", "digest": "d", "rows_in": 1, "rows": 1, "rejects": 0, "merged": 0}
    return BatchReceipt.model_validate({**result, **counted, "drawn": {}, "unsettled": 0, "shard": str(shard), **more})
