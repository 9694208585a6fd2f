"""Compare two builds of a benchmark: manifests, rows and recorded calls, and why each differing row differs."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from factmill.tasks.diff.core.call_differences import RecordedRowCall, find_call_differences
from factmill.tasks.diff.core.causes import RowChangeEvidence, contains_all_values, explain_row_change
from factmill.tasks.diff.core.changes import (
    BenchmarkRowLabels,
    BuildDiff,
    ChangeCause,
    ColumnValueChange,
    ComparedBuild,
    RowChange,
    RowChangeKind,
    RowDropInOneBuild,
)
from factmill.tasks.diff.core.manifest_changes import (
    ManifestComparison,
    compare_manifests,
    list_changed_review_decisions,
)
from factmill.tasks.diff.row_matching import (
    BuildIdPair,
    count_companion_table_changes,
    count_paired_rows,
    find_columns_empty_in_one_build,
    list_ids_for_tracing_row,
    load_changed_pairs_count_provenance_only,
    load_unpaired_rows,
    temporary_row_pairs_table,
)
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.errors import UsageError
from factmill.tasks.storage.builds import BuildRecord, is_scripted, load_table_digests
from factmill.tasks.storage.recording.call_records import decompress_body, parse_rejected_row
from factmill.tasks.storage.warehouse import Connection, open_warehouse, parse_json_column

_ROW_CALLS_TABLE = "diff_seen"
CallLookupIds = Iterable[tuple[int, str, str]]
"""(row number, before or after, an id under which the row's calls are filed)."""
BeforeAfterCalls = tuple[list[RecordedRowCall], list[RecordedRowCall]]


def number_stages_of_both_builds(db: Connection, sides: BuildIdPair) -> dict[str, int]:
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


def load_differing_calls_by_row_number(
    db: Connection, sides: BuildIdPair, lookup_ids: CallLookupIds, stage_numbers: Mapping[str, int]
) -> dict[int, BeforeAfterCalls]:
    """Return row number → the calls of each build that the other lacks with the same request and reply."""
    numbers, names, ids = zip(*lookup_ids, strict=True) if (lookup_ids := list(lookup_ids)) else ((), (), ())
    db.register("diff_wanted", pa.table({"number": numbers, "side": names, "id": pa.array(ids, pa.string())}))
    try:
        db.execute(
            f"CREATE OR REPLACE TEMP TABLE {_ROW_CALLS_TABLE} AS SELECT DISTINCT w.number, w.side, u.stage, c.operation, c.service, "
            "c.parts, c.key, c.status, c.record_id, md5(c.status || coalesce(c.error, '') || c.body) AS reply_digest "
            "FROM diff_wanted w JOIN build_calls u ON u.id = w.id AND u.build_id = CASE w.side WHEN 'before' THEN ? ELSE ? END "
            "JOIN calls c USING (record_id)",
            [sides.before, sides.after],
        )
        rows = db.sql(
            f"SELECT s.* EXCLUDE (reply_digest), c.error, c.body, CAST(c.asked_at AS DATE) AS day FROM {_ROW_CALLS_TABLE} s "
            f"JOIN calls c USING (record_id) WHERE NOT EXISTS (SELECT 1 FROM {_ROW_CALLS_TABLE} o WHERE o.number = s.number "
            "AND o.side <> s.side AND o.stage = s.stage AND o.operation = s.operation AND o.parts = s.parts "
            "AND o.reply_digest = s.reply_digest) ORDER BY s.number, s.record_id"
        ).to_arrow_table()
    finally:
        db.unregister("diff_wanted")
        db.execute(f"DROP TABLE IF EXISTS {_ROW_CALLS_TABLE}")
    found: dict[int, BeforeAfterCalls] = defaultdict(lambda: ([], []))
    for row in _iterate_table_rows(rows):
        found[row["number"]][row["side"] == "after"].append(_parse_recorded_call_of_db_row(row, stage_numbers))
    return found


def load_row_drops_and_rejected_rows(
    db: Connection, build_id: str, side: Literal["before", "after"], lookup_ids: Sequence[tuple[int, str]]
) -> dict[int, tuple[RowDropInOneBuild, Any]]:
    """Return row number → (what happened to the row in a build that does not publish it, the row as its stage got it).

    The row was rejected or merged into another; a merged row has None as its second entry.

    `lookup_ids`: (row number, an id that the row may have had); rows missing in the result were never read.
    """
    numbers, ids = zip(*lookup_ids, strict=True) if lookup_ids else ((), ())
    db.register("diff_wanted", pa.table({"number": numbers, "id": pa.array(ids, pa.string())}))
    try:
        rows = db.execute(
            "SELECT w.number, r.stage, r.reason, r.detail, r.row FROM diff_wanted w JOIN rejects r ON r.id = w.id AND r.build_id = ? "
            "UNION ALL SELECT w.number, m.stage, 'merged', 'merged into ' || m.into_id, NULL FROM diff_wanted w "
            "JOIN merged_rows m ON m.id = w.id AND m.build_id = ? ORDER BY 1, 2",
            [build_id, build_id],
        ).fetchall()
    finally:
        db.unregister("diff_wanted")
    return {
        number: (RowDropInOneBuild(side, stage, reason, detail), None if row is None else parse_rejected_row(row))
        for number, stage, reason, detail, row in rows
    }


def _parse_recorded_call_of_db_row(row: Mapping[str, Any], stages: Mapping[str, int]) -> RecordedRowCall:
    return RecordedRowCall(
        stage_position=stages.get(row["stage"], 0),
        stage=row["stage"],
        operation=row["operation"],
        service=row["service"],
        parts=parse_json_column(row["parts"], f"calls.parts of {row['record_id']}", dict),
        key=row["key"],
        status=row["status"],
        reply=row["error"]
        if row["status"] != "ok"
        else parse_json_column(decompress_body(row["body"]), f"calls.body of {row['record_id']}"),
        asked_at=row["day"].isoformat(),
    )


def _iterate_table_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches(max_chunksize=1000):
        yield from batch.to_pylist()


_ROWS_PER_BATCH = 2000
"""Rows whose calls are loaded at once; limits memory."""


@dataclass(frozen=True, slots=True)
class _RowChangeWithoutCauses:
    """A differing row whose causes are not known yet."""

    kind: RowChangeKind
    row: Mapping[str, Any]
    """From the later build; for a removed row from the earlier one."""
    id_before: str
    call_ids_before: Sequence[str]
    """Ids under which the earlier build filed the row's calls."""
    call_ids_after: Sequence[str]
    columns: tuple[ColumnValueChange, ...] = ()
    fate: RowDropInOneBuild | None = None
    rejected_row: Any = None
    """The rejected row as its stage received it."""


def check_same_benchmark(before: BuildRecord, after: BuildRecord) -> None:
    """Raise UsageError unless both builds are of one benchmark."""
    if before.benchmark != after.benchmark:
        raise UsageError(
            f"{before.build_id} and {after.build_id} are of different benchmarks ({before.benchmark}, {after.benchmark}); choose two "
            "builds of one benchmark (`factmill show` lists them)"
        )


LeftOutReasonFinder = Callable[[RowChangeKind, Mapping[str, Any]], str]
"""A row that only one of two releases has → why the other was made without such rows; empty: it was not."""


def compare_builds(
    warehouse: Path,
    benchmark: Benchmark,
    before: BuildRecord,
    after: BuildRecord,
    with_answers: bool = False,
    find_left_out_reason: LeftOutReasonFinder | None = None,
) -> BuildDiff:
    """Return what changed between two builds of one benchmark, each row with its causes.

    `with_answers`: include held-out tables. `find_left_out_reason`: given for releases only, which have no calls.
    """
    check_same_benchmark(before, after)
    sides = BuildIdPair(before.build_id, after.build_id)
    locks = compare_manifests(before.lock, after.lock)
    with open_warehouse(warehouse) as db, temporary_row_pairs_table(db, benchmark, sides):
        new = find_columns_empty_in_one_build(db, benchmark, sides)
        changed, remade = _find_differing_and_provenance_only_rows(db, benchmark, sides, new, with_answers)
        changed.sort(key=lambda each: (("added", "removed", "changed").index(each.kind), each.row["id"]))
        rows = list(_explain_differing_rows(db, benchmark, sides, locks, changed, find_left_out_reason))
        pairs = count_paired_rows(db)
        counted = load_table_digests(db, after.build_id).keys() & load_table_digests(db, before.build_id).keys()
        tables = {
            name: counts
            for name in sorted(counted - {benchmark.main_table, *benchmark.matching.wide_tables})
            if name in benchmark.tables and (counts := count_companion_table_changes(db, benchmark, name, sides))
        }
    return BuildDiff(
        benchmark=benchmark.name,
        title=benchmark.title,
        before=_summarize_build(before),
        after=_summarize_build(after),
        inputs=locks.changes,
        same=pairs - sum(each.kind == "changed" for each in changed),
        remade=remade,
        rows=rows,
        tables=tables,
        new_columns=new,
        display=BenchmarkRowLabels(
            benchmark.display_columns,
            benchmark.ordered_list_columns,
            benchmark.value_labels().get(benchmark.group_column, {}),
        ),
    )


def _summarize_build(build: BuildRecord) -> ComparedBuild:
    day = build.published_at.date().isoformat()
    return ComparedBuild(build.build_id, int(build.report["rows"]), day, build.caution, is_scripted(build.lock))


def _find_differing_and_provenance_only_rows(
    db: Connection, benchmark: Benchmark, sides: BuildIdPair, new_columns: Sequence[str], with_answers: bool
) -> tuple[list[_RowChangeWithoutCauses], int]:
    """Return the differing rows, without causes, and how many rows differ in provenance columns alone."""
    matching = benchmark.matching
    pairs, remade = load_changed_pairs_count_provenance_only(db, benchmark, sides, new_columns)
    gone, come = load_unpaired_rows(db, benchmark, sides)
    found: list[_RowChangeWithoutCauses] = []
    rows = _load_identifying_columns_of_row_pairs(
        db, benchmark, sides, [(each.id_before, each.id_after) for each in pairs]
    )
    for pair in pairs:
        old, row = rows[pair.id_before, pair.id_after]
        columns = tuple(
            ColumnValueChange(name, None, None, table, withheld=True)
            if table in benchmark.held_out_tables and not with_answers
            else ColumnValueChange(name, before, after, "" if table == benchmark.main_table else table)
            for table, name, before, after in pair.changed_columns
        )
        content = tuple(each for each in columns if each.table or each.name not in matching.provenance_columns)
        ids = (
            list_ids_for_tracing_row(matching, benchmark.trace_id_columns, old),
            list_ids_for_tracing_row(matching, benchmark.trace_id_columns, row),
        )
        found.append(_RowChangeWithoutCauses("changed", row, pair.id_before, *ids, content))
    lost: tuple[tuple[RowChangeKind, Any, str], ...] = (("removed", gone, sides.after), ("added", come, sides.before))
    for kind, table, build_id in lost:
        listed = table.to_pylist()
        filed = [list_ids_for_tracing_row(matching, benchmark.trace_id_columns, row) for row in listed]
        wanted = [(number, each) for number, ids in enumerate(filed) for each in ids]
        fates = load_row_drops_and_rejected_rows(db, build_id, "after" if kind == "removed" else "before", wanted)
        for number, row in enumerate(listed):
            fate, received = fates.get(number, (None, None))
            known = [*filed[number], *([] if fate else [matching.get_draw_unit(row)])]
            id_before = row["id"] if kind == "removed" else ""
            found.append(_RowChangeWithoutCauses(kind, row, id_before, known, known, (), fate, received))
    return found, remade


def _load_identifying_columns_of_row_pairs(
    db: Connection, benchmark: Benchmark, sides: BuildIdPair, pairs: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], tuple[dict[str, Any], dict[str, Any]]]:
    """Return id pair → both rows, reduced to the columns that identify them and locate their calls."""
    matching = benchmark.matching
    named = [
        *benchmark.display_columns,
        *benchmark.trace_id_columns,
        *matching.provenance_columns,
        *(name for key in matching.keys for name in key),
    ]
    # provenance columns of other tables are not in the main one
    there = [
        name
        for name in dict.fromkeys(["id", *named, benchmark.group_column])
        if name in benchmark.main_row_model.model_fields
    ]
    columns = ", ".join(f'"{name}"' for name in there)
    found: list[dict[str, dict[str, Any]]] = []
    for build_id, ids in zip((sides.before, sides.after), zip(*pairs, strict=True) if pairs else ((), ()), strict=True):
        table = db.sql(
            f"SELECT {columns} FROM {benchmark.main_table} WHERE build_id = ? AND id IN (SELECT unnest(?))",
            params=[build_id, list(ids)],
        ).to_arrow_table()
        found.append({row["id"]: row for row in table.to_pylist()})
    return {(old, new): (found[0][old], found[1][new]) for old, new in pairs}


def _explain_differing_rows(
    db: Connection,
    benchmark: Benchmark,
    sides: BuildIdPair,
    manifests: ManifestComparison,
    changed: Sequence[_RowChangeWithoutCauses],
    find_left_out_reason: LeftOutReasonFinder | None,
) -> Iterator[RowChange]:
    stages = number_stages_of_both_builds(db, sides)
    others = bool(benchmark.matching.cross_row_stages) and len(changed) > 1
    for start in range(0, len(changed), _ROWS_PER_BATCH):
        some = changed[start : start + _ROWS_PER_BATCH]
        wanted = [
            (number, side, each)
            for number, row in enumerate(some)
            for side, ids in (("before", row.call_ids_before), ("after", row.call_ids_after))
            for each in ids
        ]
        calls = load_differing_calls_by_row_number(db, sides, wanted, stages)
        for number, row in enumerate(some):
            facts = _gather_row_evidence(benchmark, manifests, row, calls.get(number, ([], [])), stages)
            why = find_left_out_reason(row.kind, row.row) if find_left_out_reason and row.kind != "changed" else ""
            evidence = replace(
                facts, other_rows_changed=others, has_calls=find_left_out_reason is None, left_out_reason=why
            )
            causes = explain_row_change(evidence, manifests)
            shown = {name: row.row[name] for name in benchmark.display_columns}
            yield RowChange(row.kind, row.row["id"], row.id_before, causes, row.columns, shown, row.fate)


def _gather_row_evidence(
    benchmark: Benchmark,
    manifests: ManifestComparison,
    row: _RowChangeWithoutCauses,
    calls: BeforeAfterCalls,
    stages: Mapping[str, int],
) -> RowChangeEvidence:
    """Return what is known of a row; for a rejected row, calls of stages after the rejecting one are ignored."""
    matching = benchmark.matching
    last = stages.get(row.fate.stage, len(stages)) if row.fate else len(stages)
    before, after = ([call for call in side if call.stage_position <= last] for side in calls)
    given = [each for each in row.columns if each.name in matching.source_columns and not each.table]
    content = [each for each in row.columns if each.name != "id"]
    return RowChangeEvidence(
        call_differences=find_call_differences(before, after),
        changed_columns=content or row.columns,
        fate=row.fate,
        is_cross_row_reject=row.fate is not None and row.fate.stage in matching.cross_row_stages,
        source_cause=_find_source_cause(manifests, row, given, bool(content), matching.source_columns),
        source_changes=given,
        unrecorded_causes=[] if matching.source_columns else manifests.list_causes("source"),
        changed_decisions=list_changed_review_decisions(manifests, [*row.call_ids_before, *row.call_ids_after]),
        narrowing_parameters=benchmark.narrowing_params,
    )


def _find_source_cause(
    manifests: ManifestComparison,
    row: _RowChangeWithoutCauses,
    source_changes: Sequence[ColumnValueChange],
    has_content: bool,
    source_columns: Sequence[str],
) -> ChangeCause | None:
    """Return how a row's source changed; None where its file is unchanged or it has none.

    `source_columns`: columns copied from the source.
    """
    file = str(row.row.get("source_name", ""))
    if manifests.is_file_unchanged(file) is not False:
        return None
    place = f"row {row.row['source_row']}"
    if row.kind == "changed":
        description = (
            f"{place}: {', '.join(each.name for each in source_changes)} changed"
            if source_changes
            else f"{place}: moved"
        )
        return ChangeCause("source", file, description) if source_changes or not has_content else None
    if row.fate is not None:
        is_same = row.rejected_row is None or contains_all_values(
            row.rejected_row, [row.row[name] for name in source_columns if name in row.row]
        )
        return None if is_same else ChangeCause("source", file, f"{place}: content changed")
    was_read = manifests.has_file_before_and_after(file)
    if all(was_read):
        return ChangeCause("source", file, f"{place}: {'new' if row.kind == 'added' else 'removed'}")
    return ChangeCause("source", file, "the file was not read before" if was_read[1] else "the file is no longer read")
