"""Compare two builds of a benchmark: manifests, rows and recorded calls, and why each differing row differs."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from factmill.tasks.diff.core.calls import SeenCall, find_divergences
from factmill.tasks.diff.core.causes import RowFacts, explain_row, holds
from factmill.tasks.diff.core.changes import Cause, ColumnChange, Compared, Diff, Fate, Kind, RowChange
from factmill.tasks.diff.core.locks import Locks, compare_locks, list_decisions
from factmill.tasks.diff.matching import (
    Sides,
    count_pairs,
    count_table,
    find_changed,
    find_new_columns,
    find_unpaired,
    list_ids,
    matching_rows,
)
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.errors import UsageError
from factmill.tasks.storage.builds import BuildRecord, published_names
from factmill.tasks.storage.recording.records import read_rejected, unpack_body
from factmill.tasks.storage.warehouse import Connection, open_warehouse, read_json

_SEEN = "diff_seen"
Wanted = Iterable[tuple[int, str, str]]
"""(row number, before or after, an id under which the row's calls are filed)."""
CallsOfRow = tuple[list[SeenCall], list[SeenCall]]


def order_stages(db: Connection, sides: Sides) -> dict[str, int]:
    """Return stage → position, from 1, over both builds; a stage of the earlier build alone follows its predecessor."""
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
    """Return row number → the calls of each build that the other lacks with the same request and reply."""
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
    """Return row number → (what happened to the row in a build that does not publish it, the row as its stage got it).

    The row was rejected or merged into another; a merged row has None as its second entry.

    `wanted`: (row number, an id that the row may have had); rows missing in the result were never read.
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


_AT_ONCE = 2000
"""Rows whose calls are loaded at once; limits memory."""


@dataclass(frozen=True, slots=True)
class _Changed:
    """A differing row whose causes are not known yet."""

    kind: Kind
    row: Mapping[str, Any]
    """From the later build; for a removed row from the earlier one."""
    id_before: str
    ids_before: Sequence[str]
    """Ids under which the earlier build filed the row's calls."""
    ids_after: Sequence[str]
    columns: tuple[ColumnChange, ...] = ()
    fate: Fate | None = None
    received: Any = None
    """The rejected row as its stage received it."""


def require_comparable(before: BuildRecord, after: BuildRecord) -> None:
    """Raise UsageError unless both builds are of one benchmark."""
    if before.benchmark != after.benchmark:
        raise UsageError(
            f"{before.build_id} and {after.build_id} are of different benchmarks; two builds of one are compared "
            "(see `factmill builds`)"
        )


LeftOut = Callable[[Kind, Mapping[str, Any]], str]
"""A row that only one of two releases has → why the other was made without such rows; empty: it was not."""


def compare_builds(
    warehouse: Path,
    benchmark: Benchmark,
    before: BuildRecord,
    after: BuildRecord,
    with_answers: bool = False,
    left_out: LeftOut | None = None,
) -> Diff:
    """Return what changed between two builds of one benchmark, each row with its causes.

    `with_answers`: include held-out tables. `left_out`: given for releases only, which have no calls.
    """
    require_comparable(before, after)
    sides = Sides(before.build_id, after.build_id)
    locks = compare_locks(before.lock, after.lock)
    with open_warehouse(warehouse) as db, matching_rows(db, benchmark, sides):
        new = find_new_columns(db, benchmark, sides)
        changed, remade = _find_rows(db, benchmark, sides, new, with_answers)
        changed.sort(key=lambda each: (("added", "removed", "changed").index(each.kind), each.row["id"]))
        rows = list(_explain(db, benchmark, sides, locks, changed, left_out))
        pairs = count_pairs(db)
        counted = published_names(db, after.build_id).keys() & published_names(db, before.build_id).keys()
        tables = {
            name: counts
            for name in sorted(counted - {benchmark.main_table, *benchmark.matching.whole})
            if name in benchmark.tables and (counts := count_table(db, benchmark, name, sides))
        }
    return Diff(
        benchmark=benchmark.name,
        title=benchmark.title,
        before=_describe(before),
        after=_describe(after),
        inputs=locks.changes,
        same=pairs - sum(each.kind == "changed" for each in changed),
        remade=remade,
        rows=rows,
        tables=tables,
        new_columns=new,
    )


def _describe(build: BuildRecord) -> Compared:
    day = build.published_at.date().isoformat()
    return Compared(build.build_id, int(build.report["rows"]), day, build.caution)


def _find_rows(
    db: Connection, benchmark: Benchmark, sides: Sides, new: Sequence[str], with_answers: bool
) -> tuple[list[_Changed], int]:
    """Return the differing rows, without causes, and how many rows differ in provenance columns alone."""
    matching = benchmark.matching
    pairs, remade = find_changed(db, benchmark, sides, new)
    gone, come = find_unpaired(db, benchmark, sides)
    found: list[_Changed] = []
    rows = _read_rows(db, benchmark, sides, [(each.id_before, each.id_after) for each in pairs])
    for pair in pairs:
        old, row = rows[pair.id_before, pair.id_after]
        columns = tuple(
            ColumnChange(name, None, None, table, withheld=True)
            if table in benchmark.held_out and not with_answers
            else ColumnChange(name, before, after, "" if table == benchmark.main_table else table)
            for table, name, before, after in pair.columns
        )
        content = tuple(each for each in columns if each.table or each.name not in matching.marks)
        ids = (list_ids(matching, benchmark.trace, old), list_ids(matching, benchmark.trace, row))
        found.append(_Changed("changed", row, pair.id_before, *ids, content))
    lost: tuple[tuple[Kind, Any, str], ...] = (("removed", gone, sides.after), ("added", come, sides.before))
    for kind, table, build_id in lost:
        listed = table.to_pylist()
        filed = [list_ids(matching, benchmark.trace, row) for row in listed]
        wanted = [(number, each) for number, ids in enumerate(filed) for each in ids]
        fates = find_fates(db, build_id, "after" if kind == "removed" else "before", wanted)
        for number, row in enumerate(listed):
            fate, received = fates.get(number, (None, None))
            known = [*filed[number], *([] if fate else [matching.unit(row)])]
            id_before = row["id"] if kind == "removed" else ""
            found.append(_Changed(kind, row, id_before, known, known, (), fate, received))
    return found, remade


def _read_rows(
    db: Connection, benchmark: Benchmark, sides: Sides, pairs: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], tuple[dict[str, Any], dict[str, Any]]]:
    """Return id pair → both rows, reduced to the columns that identify them and locate their calls."""
    matching = benchmark.matching
    named = [*benchmark.shown, *benchmark.trace, *matching.marks, *(name for key in matching.keys for name in key)]
    # provenance columns of other tables are not in the main one
    there = [name for name in dict.fromkeys(["id", *named, benchmark.part]) if name in benchmark.row.model_fields]
    columns = ", ".join(f'"{name}"' for name in there)
    found: list[dict[str, dict[str, Any]]] = []
    for build_id, ids in zip((sides.before, sides.after), zip(*pairs, strict=True) if pairs else ((), ()), strict=True):
        table = db.sql(
            f"SELECT {columns} FROM {benchmark.main_table} WHERE build_id = ? AND id IN (SELECT unnest(?))",
            params=[build_id, list(ids)],
        ).to_arrow_table()
        found.append({row["id"]: row for row in table.to_pylist()})
    return {(old, new): (found[0][old], found[1][new]) for old, new in pairs}


def _explain(
    db: Connection,
    benchmark: Benchmark,
    sides: Sides,
    locks: Locks,
    changed: Sequence[_Changed],
    left_out: LeftOut | None,
) -> Iterator[RowChange]:
    stages = order_stages(db, sides)
    others = bool(benchmark.matching.together) and len(changed) > 1
    for start in range(0, len(changed), _AT_ONCE):
        some = changed[start : start + _AT_ONCE]
        wanted = [
            (number, side, each)
            for number, row in enumerate(some)
            for side, ids in (("before", row.ids_before), ("after", row.ids_after))
            for each in ids
        ]
        calls = find_differing_calls(db, sides, wanted, stages)
        for number, row in enumerate(some):
            facts = _gather_facts(benchmark, locks, row, calls.get(number, ([], [])), stages)
            why = left_out(row.kind, row.row) if left_out and row.kind != "changed" else ""
            told = replace(facts, others_changed=others, has_calls=left_out is None, left_out=why)
            causes = explain_row(told, locks)
            shown = {name: row.row[name] for name in benchmark.shown}
            yield RowChange(row.kind, row.row["id"], row.id_before, causes, row.columns, shown, row.fate)


def _gather_facts(
    benchmark: Benchmark, locks: Locks, row: _Changed, calls: CallsOfRow, stages: Mapping[str, int]
) -> RowFacts:
    """Return what is known of a row; for a rejected row, calls of stages after the rejecting one are ignored."""
    matching = benchmark.matching
    last = stages.get(row.fate.stage, len(stages)) if row.fate else len(stages)
    before, after = ([call for call in side if call.position <= last] for side in calls)
    given = [each for each in row.columns if each.name in matching.given and not each.table]
    content = [each for each in row.columns if each.name != "id"]
    return RowFacts(
        divergences=find_divergences(before, after),
        columns=content or row.columns,
        fate=row.fate,
        is_weighed=row.fate is not None and row.fate.stage in matching.together,
        source=_find_source(locks, row, given, bool(content), matching.given),
        given=given,
        unseen=[] if "source_name" in row.row else locks.of("source"),
        decisions=list_decisions(locks, [*row.ids_before, *row.ids_after]),
        narrowing=benchmark.narrowing,
    )


def _find_source(
    locks: Locks, row: _Changed, given: Sequence[ColumnChange], has_content: bool, names: Sequence[str]
) -> Cause | None:
    """Return how a row's source changed; None where its file is unchanged or it has none.

    `names`: columns copied from the source.
    """
    file = str(row.row.get("source_name", ""))
    if locks.is_same_file(file) is not False:
        return None
    place = f"row {row.row['source_row']}"
    if row.kind == "changed":
        told = f"{place}: {', '.join(each.name for each in given)} otherwise" if given else f"{place}: moved"
        return Cause("source", file, told) if given or not has_content else None
    if row.fate is not None:
        is_same = row.received is None or holds(row.received, [row.row[name] for name in names if name in row.row])
        return None if is_same else Cause("source", file, f"{place}: otherwise")
    was_read = locks.has_file(file)
    if all(was_read):
        return Cause("source", file, f"{place}: {'new' if row.kind == 'added' else 'gone'}")
    return Cause("source", file, "the file was not read before" if was_read[1] else "the file is not read any more")
