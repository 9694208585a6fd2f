"""The recorded calls in which rows of two builds differ, and what became of rows that one of them does not publish."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa

from tasks.diff.core.calls import SeenCall
from tasks.diff.core.changes import Fate
from tasks.diff.matching import Sides
from tasks.storage.bodies import read_rejected, unpack_body
from tasks.storage.warehouse import Connection, read_json

_SEEN = "diff_seen"
Wanted = Iterable[tuple[int, str, str]]
"""(number of the row, before or after, an id under which its calls are filed)."""
CallsOfRow = tuple[list[SeenCall], list[SeenCall]]


def order_stages(db: Connection, sides: Sides) -> dict[str, int]:
    """Return stage → its place among those of both builds; one that only the earlier has stands behind its forerunner."""
    before, after = (
        [
            stage
            for (stage,) in db.execute(
                "SELECT stage FROM build_stages WHERE build_id = ? ORDER BY position", [each]
            ).fetchall()
        ]
        for each in (sides.before, sides.after)
    )
    stages = list(after)
    for at, stage in enumerate(before):
        if stage not in stages:
            stages.insert(stages.index(before[at - 1]) + 1 if at else 0, stage)
    return {stage: at for at, stage in enumerate(stages, 1)}


def find_differing_calls(
    db: Connection, sides: Sides, wanted: Wanted, stages: Mapping[str, int]
) -> dict[int, CallsOfRow]:
    """Return number of a row → the calls of each build that the other has not with the same question and reply."""
    numbers, names, ids = zip(*wanted, strict=True) if (wanted := list(wanted)) else ((), (), ())
    db.register("diff_wanted", pa.table({"number": numbers, "side": names, "id": pa.array(ids, pa.string())}))
    try:
        db.execute(
            f"CREATE OR REPLACE TEMP TABLE {_SEEN} AS SELECT DISTINCT w.number, w.side, u.stage, c.operation, c.service, "
            "c.parts, c.key, c.status, c.record_id, md5(c.status || coalesce(c.error, '') || c.body) AS said "
            "FROM diff_wanted w JOIN build_calls u ON u.id = w.id AND u.build_id = CASE w.side WHEN 'before' THEN ? ELSE ? END "
            "JOIN calls c USING (record_id)",
            [sides.before, sides.after],
        )
        rows = db.sql(
            f"SELECT s.* EXCLUDE (said), c.error, c.body, CAST(c.asked_at AS DATE) AS day FROM {_SEEN} s "
            f"JOIN calls c USING (record_id) WHERE NOT EXISTS (SELECT 1 FROM {_SEEN} o WHERE o.number = s.number "
            "AND o.side <> s.side AND o.stage = s.stage AND o.operation = s.operation AND o.parts = s.parts "
            "AND o.said = s.said) ORDER BY s.number, s.record_id"
        ).to_arrow_table()
    finally:
        db.unregister("diff_wanted")
        db.execute(f"DROP TABLE IF EXISTS {_SEEN}")
    found: dict[int, CallsOfRow] = defaultdict(lambda: ([], []))
    for row in _iterate(rows):
        found[row["number"]][row["side"] == "after"].append(_read_call(row, stages))
    return found


def find_fates(
    db: Connection, build_id: str, side: Literal["before", "after"], wanted: Sequence[tuple[int, str]]
) -> dict[int, tuple[Fate, Any]]:
    """Return number of a row → what became of it in a build that does not publish it: rejected, or united with another.

    Beside it stands the rejected row as its stage received it; None where it was united.

    `wanted`: (number, an id that it may have gone under); rows of which nothing is known were never read.
    """
    numbers, ids = zip(*wanted, strict=True) if wanted else ((), ())
    db.register("diff_wanted", pa.table({"number": numbers, "id": pa.array(ids, pa.string())}))
    try:
        rows = db.execute(
            "SELECT w.number, r.stage, r.reason, r.detail, r.row FROM diff_wanted w JOIN rejects r ON r.id = w.id AND r.build_id = ? "
            "UNION ALL SELECT w.number, m.stage, 'merged', 'united with ' || m.into_id, NULL FROM diff_wanted w "
            "JOIN merged_rows m ON m.id = w.id AND m.build_id = ? ORDER BY 1, 2",
            [build_id, build_id],
        ).fetchall()
    finally:
        db.unregister("diff_wanted")
    return {
        number: (Fate(side, stage, reason, detail), None if row is None else read_rejected(row))
        for number, stage, reason, detail, row in rows
    }


def _read_call(row: Mapping[str, Any], stages: Mapping[str, int]) -> SeenCall:
    return SeenCall(
        position=stages.get(row["stage"], 0),
        stage=row["stage"],
        operation=row["operation"],
        service=row["service"],
        parts=read_json(row["parts"], f"calls.parts of {row['record_id']}", dict),
        key=row["key"],
        status=row["status"],
        reply=row["error"]
        if row["status"] != "ok"
        else read_json(unpack_body(row["body"]), f"calls.body of {row['record_id']}"),
        asked_at=row["day"].isoformat(),
    )


def _iterate(table: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches(max_chunksize=1000):
        yield from batch.to_pylist()
