"""A pilot: a build that passes on only some of its rows, to see what they ask (core/spending/forecasting.py)."""

from prefect import task

from tasks.core.receipts import DRAWING, Batch, Receipt
from tasks.core.spending.forecasting import draw_places
from tasks.engine.batches import batch_key, work_on

NOT_DRAWN = "not_in_pilot"


@task(name=DRAWING, cache_key_fn=batch_key, persist_result=True)
def draw_pilot(batch: Batch) -> Receipt:
    """Pass on so many rows that stand for all of them; the others leave the pilot as not drawn."""
    work = work_on(batch)
    table = work.any_rows()
    rows = table.to_pylist()
    by = [name for name in work.run.pilot_by if name in table.column_names]
    parts = [[str(row[name]) for name in by] for row in rows]
    sides = [str(row.get(work.run.pilot_sides, "")) for row in rows]
    sizes, ids = [work.run.pilot_size(row) for row in rows], [row["id"] for row in rows]
    drawn = draw_places(parts, sides, sizes, ids, work.run.options["pilot"])
    mean = sum(sizes) / max(1, len(sizes)) or 1.0
    return work.finish_drawn(table, {at: sizes[at] / mean for at in drawn}, NOT_DRAWN)
