"""Find and label the paths between linked items (MultiHal, paper §2.2, "Knowledge Graph Querying")."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from prefect import task

from factmill.tasks.assets import load_property_numbers
from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.calls.call import Call, CallResponse
from factmill.tasks.core.rows import Reject, RowOutcome, make_arrow_table
from factmill.tasks.core.wikidata_paths import PathSearchOptions, make_start_to_end_id_lists
from factmill.tasks.engine.batches import BatchInProgress, make_batch_cache_key, open_batch
from factmill.tasks.lookups.labels import look_up_labels_by_entity_id
from factmill.tasks.multihal.core.linking import PathTarget, SubjectTargetPair, make_subject_target_pairs
from factmill.tasks.multihal.core.path_selection import (
    iterate_ids_to_label,
    list_path_labels,
    list_path_parts_not_words_number_or_date,
)
from factmill.tasks.multihal.core.rows import (
    DroppedPath,
    EntityLinkedQuestion,
    PathDropReason,
    QuestionWithPaths,
    WikidataPath,
    make_dropped_path,
)
from factmill.tasks.multihal.params import MultiHalInputs
from factmill.tasks.text.values.wikidata_literals import PartialDate, WantedNumberWithUnit

ANSWER_TYPE_PROPERTY_LISTS = {"date": "time_properties", "numerical": "number_properties", "rank": "rank_properties"}
"""Answer type → name of the list of properties whose values count (Appendix D)."""


@dataclass(slots=True)
class FailedPairs:
    """Pairs whose search failed."""

    pairs: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Row id, subject, object, cause."""
    transient_rows: set[str] = field(default_factory=set)
    """Rows with a transient failure."""


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def mine_paths(batch: StageBatch) -> BatchReceipt:
    """Find paths of one or two hops, in both directions, between a question's items and its answer's (§2.2)."""
    work = open_batch(batch)
    rows = work.rows(EntityLinkedQuestion)
    found: dict[str, list[WikidataPath]] = defaultdict(list)
    failed = FailedPairs()
    totals: dict[str, int] = defaultdict(int)
    counts: dict[str, int] = {}
    for kind in ("other", *ANSWER_TYPE_PROPERTY_LISTS):
        pairs = [pair for row in rows if row.answer_type == kind for pair in make_subject_target_pairs(row)]
        counts |= {row.id: sum(pair[0] == row.id for pair in pairs) for row in rows if row.answer_type == kind}
        if pairs:
            _mine_paths_of_answer_type(work, kind, pairs, found, totals, failed)
    outcomes = [_make_mining_outcome(row, counts[row.id], found[row.id], totals[row.id], failed) for row in rows]
    # failed pairs of rows that continue with paths of other pairs
    going_on = {row.id for row in outcomes if isinstance(row, QuestionWithPaths)}
    dropped = (
        make_dropped_path(row_id, f"pair/{number}", [subject, target], "pair_failed", problem)
        for number, (row_id, subject, target, problem) in enumerate(failed.pairs)
        if row_id in going_on
    )
    work.extras = make_arrow_table(DroppedPath, dropped)
    return work.finish(outcomes, QuestionWithPaths)


def _mine_paths_of_answer_type(
    work: BatchInProgress,
    answer_type: str,
    pairs: Sequence[SubjectTargetPair],
    found: dict[str, list[WikidataPath]],
    totals: dict[str, int],
    failed: FailedPairs,
) -> None:
    params = work.inputs(MultiHalInputs).params
    options = PathSearchOptions(params.all_hops, load_property_numbers("ignored_properties"), params.most_paths)
    subjects = np.array([subject for _, subject, _ in pairs], np.int64)
    finder = work.run.services.make_path_finder(_make_call_sender(work, pairs, failed))
    if answer_type == "other":
        objects = np.array([target for _, _, target in pairs], np.int64)
        result = finder.find_item_paths(subjects, objects, options)
        id_lists = make_start_to_end_id_lists(result.paths, subjects, objects)
    else:
        # all answers of one type are values of one type
        values = cast(list[PartialDate] | list[WantedNumberWithUnit], [target for _, _, target in pairs])
        properties = load_property_numbers(ANSWER_TYPE_PROPERTY_LISTS[answer_type])
        result = finder.find_literal_paths(subjects, values, properties, options)
        id_lists = make_start_to_end_id_lists(result.paths, subjects)
    for line, ids in zip(result.paths.to_pylist(), id_lists.to_pylist(), strict=True):
        row_id, subject, target = pairs[line["pair"]]
        found[row_id].append(
            WikidataPath(
                subject=f"Q{subject}",
                object=_format_path_object(target),
                hops=line["hops"],
                backward=bool(line.get("backward")),
                ids=ids,
                labels=[],
                statement=line.get("statement"),
                precision=line.get("precision"),
                unit=None if line.get("unit") is None else f"Q{line['unit']}",
            )
        )
    for line in result.pairs.to_pylist():
        totals[pairs[line["pair"]][0]] += line["total"]
    for pair, problem in result.failures.items():
        row_id, subject, target = pairs[pair]
        failed.pairs.append((row_id, f"Q{subject}", _format_path_object(target), problem))


def _make_mining_outcome(
    row: EntityLinkedQuestion, pairs: int, paths: Sequence[WikidataPath], total: int, failed: FailedPairs
) -> RowOutcome:
    if paths:
        return row.extend_to(QuestionWithPaths, pairs=pairs, paths_in_all=total, paths=list(paths))
    if problem := next((problem for row_id, _, _, problem in failed.pairs if row_id == row.id), None):
        return Reject(row.id, "wikidata_failed", problem, retryable=row.id in failed.transient_rows)
    return Reject(row.id, "no_path", f"no path of one or two hops joins the items of its {pairs} pairs")


def _make_call_sender(
    work: BatchInProgress, pairs: Sequence[SubjectTargetPair], failed: FailedPairs
) -> Callable[[Sequence[Call]], Sequence[CallResponse]]:
    """Return a function that sends calls through the call cache, on behalf of the rows whose pairs they concern."""
    rows: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row_id, subject, target in pairs:
        rows[f"Q{subject}", _format_path_object(target)].append(row_id)
    service = work.run.services.wikidata

    def ask(calls: Sequence[Call]) -> list[CallResponse]:
        asked = []
        for call in calls:
            target = next(call.parts[name] for name in ("object", "date", "number") if name in call.parts)
            asked += [(row_id, call) for row_id in rows[str(call.parts["subject"]), str(target)]]
        records = work.get_call_records(service, asked)
        replies = {call.key: records[call.key].reply() for call in calls}
        failed.transient_rows.update(row_id for row_id, call in asked if replies[call.key].transient)
        return [replies[call.key] for call in calls]

    return ask


def _format_path_object(target: PathTarget) -> str:
    if isinstance(target, WantedNumberWithUnit):
        return target.number
    return f"Q{target}" if isinstance(target, int) else str(target)


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def label_paths(batch: StageBatch) -> BatchReceipt:
    """Add English labels to the parts of every path (§2.2).

    Drops a path with a part that has no label or a label without words. Also drops a path whose two ends have the same
    label, unless the build sets `keep_ends_alike`.
    """
    work = open_batch(batch)
    keeps_alike = work.inputs(MultiHalInputs).params.keep_ends_alike
    rows = work.rows(QuestionWithPaths)
    asked = ((row.id, each) for row in rows for path in row.paths for each in iterate_ids_to_label(path))
    labels, failed = look_up_labels_by_entity_id(work, asked, "en")
    outcomes: list[RowOutcome] = []
    dropped: list[DroppedPath] = []
    for row in rows:
        if row.id in failed:
            outcomes.append(failed[row.id])
            continue
        kept = []
        known = len(dropped)
        for number, path in enumerate(row.paths):
            reason: PathDropReason
            if missing := [each for each in iterate_ids_to_label(path) if each not in labels]:
                reason, detail = "part_without_label", ", ".join(missing)
            elif wordless := list_path_parts_not_words_number_or_date(path, labels):
                reason, detail = "part_in_no_words", ", ".join(wordless)
            elif (path_labels := list_path_labels(path, labels))[0] == path_labels[-1] and not keeps_alike:
                # a film and the country it is named after, or the novel it is based on
                reason, detail = "ends_alike", path_labels[0]
            else:
                kept.append(path.model_copy(update={"labels": path_labels}))
                continue
            dropped.append(make_dropped_path(row.id, f"label/{number}", path.ids, reason, detail))
        if kept:
            outcomes.append(row.replace(paths=kept))
        else:
            # `ends_alike` where at least one fully labelled path has the same label at both ends
            counts = Counter(path.reason for path in dropped[known:])
            why = "ends_alike" if "ends_alike" in counts else "no_labelled_path"
            reason_counts = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
            detail = f"all {len(row.paths)} paths were dropped ({reason_counts}; see multihal_dropped_paths)"
            outcomes.append(Reject(row.id, why, detail))
    work.extras = make_arrow_table(DroppedPath, dropped)
    return work.finish(outcomes, QuestionWithPaths)
