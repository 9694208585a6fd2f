"""MultiHal's judge stages: a model selects and scores paths (paper §2.3)."""

from collections.abc import Sequence

from prefect import task

from factmill.tasks.assets import load_prompt
from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.completions import UNREADABLE_COMPLETION_KINDS
from factmill.tasks.core.rows import Reject, RowOutcome, make_arrow_table
from factmill.tasks.engine.batches import BatchInProgress, ParsedCompletion, make_batch_cache_key, open_batch
from factmill.tasks.multihal.core.path_selection import (
    SCORE_REPLY_FORM,
    SELECTION_REPLY_FORM,
    PathSelectionState,
    format_path,
    make_score_prompt,
    make_selection_prompt,
    read_path_score,
    read_selected_paths,
    start_path_selection,
)
from factmill.tasks.multihal.core.rows import (
    DroppedPath,
    PathDropReason,
    PathSelectedForScoring,
    QuestionWithPaths,
    QuestionWithSelectedPaths,
    ScoredPath,
    make_dropped_path,
)
from factmill.tasks.multihal.params import MultiHalInputs

SELECTION_PROMPT = "multihal/select_paths"
SCORE_PROMPT = "multihal/score_path"


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def select_paths(batch: StageBatch) -> BatchReceipt:
    """Select up to ten paths per question: three rounds of two shuffled passes, then random draws (§2.3)."""
    work = open_batch(batch)
    rows = work.rows(QuestionWithPaths)
    choices = {row.id: start_path_selection(row.id, [format_path(path.labels) for path in row.paths]) for row in rows}
    failed: dict[str, Reject] = {}
    while open_now := [row for row in rows if choices[row.id].needs_another_round and row.id not in failed]:
        _run_selection_round(work, open_now, choices, failed)
    dropped: list[DroppedPath] = []
    outcomes: list[RowOutcome] = [
        failed.get(row.id) or _finish_selection_and_add_dropped(row, choices[row.id], dropped) for row in rows
    ]
    work.extras = make_arrow_table(DroppedPath, dropped)
    return work.finish(outcomes, QuestionWithSelectedPaths)


def _run_selection_round(
    work: BatchInProgress,
    rows: Sequence[QuestionWithPaths],
    choices: dict[str, PathSelectionState],
    failed: dict[str, Reject],
) -> None:
    prompt = load_prompt(SELECTION_PROMPT)
    asked = []
    for row in rows:
        for turn in (1, 2):
            shown = choices[row.id].shuffle_candidates(turn)
            asked.append((row.id, row, make_selection_prompt(prompt, row.input, list_right_answers(row), shown)))
    picks: dict[str, list[list[str]]] = {row.id: [] for row in rows}
    for row, answer in work.prompt_model(
        "judge", asked, SELECTION_REPLY_FORM, lambda _, texts: read_selected_paths(texts[0])
    ):
        lost = answer.parsed if isinstance(answer.parsed, Reject) else None
        if lost and (lost.retryable or lost.reason not in UNREADABLE_COMPLETION_KINDS):
            failed.setdefault(row.id, lost)
        # an unreadable reply counts as a pass without picks
        picks[row.id].append([] if isinstance(answer.parsed, Reject) else answer.parsed)
    for row_id, (first, second) in picks.items():
        if row_id not in failed:
            choices[row_id].add_round(first, second)


def _finish_selection_and_add_dropped(
    row: QuestionWithPaths, choice: PathSelectionState, dropped: list[DroppedPath]
) -> QuestionWithSelectedPaths:
    chosen = choice.list_selected()
    kept: dict[str, PathSelectedForScoring] = {}
    for number, path in enumerate(row.paths):
        words = format_path(path.labels)
        if words in chosen and words not in kept:
            kept[words] = PathSelectedForScoring(**path.model_dump(), chosen_by=chosen[words])
        else:
            reason: PathDropReason = "same_words" if words in kept else "not_selected"
            dropped.append(make_dropped_path(row.id, f"select/{number}", path.ids, reason, words))
    return row.narrow_to(QuestionWithSelectedPaths, paths=list(kept.values()))


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def score_paths(batch: StageBatch) -> BatchReceipt:
    """Score each path from 1 to 5; reject low scores (`low_score`) and unreadable replies (`unscored`) (§2.3)."""
    work = open_batch(batch)
    prompt = load_prompt(SCORE_PROMPT)
    asked = []
    for row in work.rows_to_expand(QuestionWithSelectedPaths):
        for number, path in enumerate(row.paths):
            # from here on, each path is its own row
            path_id = f"{row.id}_{number}"
            work.add_input_row(path_id, path.model_dump_json())
            ask = make_score_prompt(prompt, row.input, list_right_answers(row), format_path(path.labels))
            asked.append((path_id, (path_id, row, path), ask))
    lowest = work.inputs(MultiHalInputs).params.min_score
    outcomes: list[RowOutcome] = []
    for (path_id, row, path), answer in work.prompt_model(
        "judge", asked, SCORE_REPLY_FORM, lambda _, texts: read_path_score(texts[0])
    ):
        if isinstance(answer.parsed, Reject):
            unscored = answer.parsed.reason == "reply_not_in_format"
            outcomes.append(Reject(path_id, "unscored", answer.parsed.detail) if unscored else answer.parsed)
        elif answer.parsed < lowest:
            outcomes.append(Reject(path_id, "low_score", f"score {answer.parsed}: {format_path(path.labels)}"))
        else:
            outcomes.append(_make_scored_path(path_id, row, path, answer.parsed, answer))
    return work.finish(outcomes, ScoredPath)


def _make_scored_path(
    path_id: str,
    row: QuestionWithSelectedPaths,
    path: PathSelectedForScoring,
    score: int,
    answer: ParsedCompletion[int],
) -> ScoredPath:
    statement = [path.statement] if path.statement else []
    return row.narrow_to(
        ScoredPath,
        id=path_id,
        question_id=row.id,
        subjects=list(dict.fromkeys(link.qid for link in row.subject_links)),
        objects=list(dict.fromkeys(link.qid for link in row.object_links)) or [path.object],
        responses=[*path.ids[:-1], *statement, path.ids[-1]],
        responses_formatted=path.ids,
        path_statement=path.statement,
        path_labels=path.labels,
        chosen_by=path.chosen_by,
        judged_by=answer.model,
        judged_score=score,
        judge_call=answer.key,
    )


def list_right_answers(row: QuestionWithPaths | QuestionWithSelectedPaths) -> list[str]:
    """Return the right answers shown to the judge: the expected one first, then the optional ones."""
    return list(dict.fromkeys([row.output, *row.optional_output]))
