"""Find and label the paths between linked items (MultiHal, paper §2.2, "Knowledge Graph Querying")."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from prefect import task

from factmill.tasks.assets import load_properties
from factmill.tasks.core.calls.call import Call, Reply
from factmill.tasks.core.paths import PathOptions, list_path_ids
from factmill.tasks.core.receipts import Batch, Receipt
from factmill.tasks.core.rows import Outcome, Reject, arrow_table
from factmill.tasks.engine.batches import Work, batch_key, work_on
from factmill.tasks.lookups.labels import look_up_labels
from factmill.tasks.multihal.core.linking import Pair, Target, pair_up
from factmill.tasks.multihal.core.path_choice import find_wordless, list_ids, list_labels
from factmill.tasks.multihal.core.rows import Drop, DroppedPath, LinkedQuestion, MinedQuestion, Path
from factmill.tasks.multihal.params import MultiHalInputs
from factmill.tasks.text.values.literals import Date, Number

PROPERTY_LISTS = {"date": "time_properties", "numerical": "number_properties", "rank": "rank_properties"}
"""Answer type → name of the list of properties whose values count (Appendix D)."""


@dataclass(slots=True)
class Failed:
    """Pairs whose search failed."""

    pairs: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Row id, subject, object, cause."""
    in_passing: set[str] = field(default_factory=set)
    """Rows with a transient failure."""


@task(cache_key_fn=batch_key, persist_result=True)
def mine_paths(batch: Batch) -> Receipt:
    """Find paths of one or two hops, in both directions, between a question's items and its answer's (§2.2)."""
    work = work_on(batch)
    rows = work.rows(LinkedQuestion)
    found: dict[str, list[Path]] = defaultdict(list)
    failed = Failed()
    totals: dict[str, int] = defaultdict(int)
    counts: dict[str, int] = {}
    for kind in ("other", *PROPERTY_LISTS):
        pairs = [pair for row in rows if row.answer_type == kind for pair in pair_up(row)]
        counts |= {row.id: sum(pair[0] == row.id for pair in pairs) for row in rows if row.answer_type == kind}
        if pairs:
            _mine_kind(work, kind, pairs, found, totals, failed)
    outcomes = [_outcome(row, counts[row.id], found[row.id], totals[row.id], failed) for row in rows]
    # failed pairs of rows that continue with paths of other pairs
    going_on = {row.id for row in outcomes if isinstance(row, MinedQuestion)}
    dropped = (
        _drop(row_id, f"pair/{number}", [subject, target], "pair_failed", problem)
        for number, (row_id, subject, target, problem) in enumerate(failed.pairs)
        if row_id in going_on
    )
    work.extras = arrow_table(DroppedPath, dropped)
    return work.finish(outcomes, MinedQuestion)


def _mine_kind(
    work: Work,
    kind: str,
    pairs: Sequence[Pair],
    found: dict[str, list[Path]],
    totals: dict[str, int],
    failed: Failed,
) -> None:
    params = work.inputs(MultiHalInputs).params
    options = PathOptions(params.all_hops, load_properties("ignored_properties"), params.most_paths)
    subjects = np.array([subject for _, subject, _ in pairs], np.int64)
    finder = work.run.services.paths(_asker(work, pairs, failed))
    if kind == "other":
        objects = np.array([target for _, _, target in pairs], np.int64)
        result = finder.find_item_paths(subjects, objects, options)
        told = list_path_ids(result.paths, subjects, objects)
    else:
        # all answers of one type are values of one type
        values = cast(list[Date] | list[Number], [target for _, _, target in pairs])
        result = finder.find_literal_paths(subjects, values, load_properties(PROPERTY_LISTS[kind]), options)
        told = list_path_ids(result.paths, subjects)
    for line, ids in zip(result.paths.to_pylist(), told.to_pylist(), strict=True):
        row_id, subject, target = pairs[line["pair"]]
        found[row_id].append(
            Path(
                subject=f"Q{subject}",
                object=_format_target(target),
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
    for pair, problem in result.problems.items():
        row_id, subject, target = pairs[pair]
        failed.pairs.append((row_id, f"Q{subject}", _format_target(target), problem))


def _outcome(row: LinkedQuestion, pairs: int, paths: Sequence[Path], total: int, failed: Failed) -> Outcome:
    problem = next((problem for row_id, _, _, problem in failed.pairs if row_id == row.id), None)
    if not paths and problem:
        return Reject(row.id, "wikidata_failed", problem, retryable=row.id in failed.in_passing)
    if not paths:
        return Reject(row.id, "no_path", f"none of one or two hops between the items of its {pairs} pairs")
    return row.extend(MinedQuestion, pairs=pairs, paths_in_all=total, paths=list(paths))


def _asker(work: Work, pairs: Sequence[Pair], failed: Failed) -> Callable[[Sequence[Call]], Sequence[Reply]]:
    """Return a function that sends calls through the call cache, on behalf of the rows whose pairs they concern."""
    rows: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row_id, subject, target in pairs:
        rows[f"Q{subject}", _format_target(target)].append(row_id)
    service = work.run.services.wikidata

    def ask(calls: Sequence[Call]) -> list[Reply]:
        asked = []
        for call in calls:
            target = next(call.parts[name] for name in ("object", "date", "number") if name in call.parts)
            asked += [(row_id, call) for row_id in rows[str(call.parts["subject"]), str(target)]]
        records = work.call(service, asked)
        replies = {call.key: records[call.key].reply() for call in calls}
        failed.in_passing.update(row_id for row_id, call in asked if replies[call.key].transient)
        return [replies[call.key] for call in calls]

    return ask


def _format_target(target: Target) -> str:
    if isinstance(target, Number):
        return target.number
    return f"Q{target}" if isinstance(target, int) else str(target)


@task(cache_key_fn=batch_key, persist_result=True)
def label_paths(batch: Batch) -> Receipt:
    """Add English labels to the parts of every path (§2.2).

    Drops a path with a part that has no label or a label without words. Also drops a path whose two ends have the same
    label, unless the build sets `keep_ends_alike`.
    """
    work = work_on(batch)
    keeps_alike = work.inputs(MultiHalInputs).params.keep_ends_alike
    rows = work.rows(MinedQuestion)
    labels, failed = look_up_labels(
        work, ((row.id, each) for row in rows for path in row.paths for each in list_ids(path)), "en"
    )
    outcomes: list[Outcome] = []
    dropped: list[DroppedPath] = []
    for row in rows:
        if row.id in failed:
            outcomes.append(failed[row.id])
            continue
        kept = []
        known = len(dropped)
        for number, path in enumerate(row.paths):
            if missing := [each for each in list_ids(path) if each not in labels]:
                dropped.append(_drop(row.id, f"label/{number}", path.ids, "part_without_label", ", ".join(missing)))
            elif wordless := find_wordless(path, labels):
                dropped.append(_drop(row.id, f"label/{number}", path.ids, "part_in_no_words", ", ".join(wordless)))
            elif (told := list_labels(path, labels))[0] == told[-1] and not keeps_alike:
                # a film and the country it is named after, or the novel it is based on
                dropped.append(_drop(row.id, f"label/{number}", path.ids, "ends_alike", told[0]))
            else:
                kept.append(path.model_copy(update={"labels": told}))
        if kept:
            outcomes.append(row.replace(paths=kept))
        else:
            # `ends_alike` where at least one fully labelled path has the same label at both ends
            counts = Counter(path.reason for path in dropped[known:])
            why = "ends_alike" if "ends_alike" in counts else "no_labelled_path"
            told_all = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
            detail = f"all {len(row.paths)} paths are dropped ({told_all}; see multihal_dropped_paths)"
            outcomes.append(Reject(row.id, why, detail))
    work.extras = arrow_table(DroppedPath, dropped)
    return work.finish(outcomes, MinedQuestion)


def _drop(row_id: str, place: str, ids: list[str], reason: Drop, detail: str) -> DroppedPath:
    return DroppedPath(id=f"{row_id}/{place}", question_id=row_id, path_ids=ids, reason=reason, detail=detail)
