"""MultiHal's judge stages: a model selects and scores paths (paper §2.3)."""

from collections.abc import Sequence

from prefect import task

from factmill.tasks.assets import load_prompt
from factmill.tasks.core.receipts import Batch, Receipt
from factmill.tasks.core.replies import UNREADABLE_KINDS
from factmill.tasks.core.rows import Outcome, Reject, arrow_table
from factmill.tasks.engine.batches import Answered, Work, batch_key, work_on
from factmill.tasks.multihal.core.path_choice import (
    SCORE,
    SELECTION,
    Choice,
    ask_score,
    ask_selection,
    format_path,
    open_choice,
    read_score,
    read_selection,
)
from factmill.tasks.multihal.core.rows import ChosenPath, DroppedPath, MinedQuestion, ScoredPath, SelectedQuestion
from factmill.tasks.multihal.params import MultiHalInputs

SELECTION_PROMPT = "multihal/select_paths"
SCORE_PROMPT = "multihal/score_path"


@task(cache_key_fn=batch_key, persist_result=True)
def select_paths(batch: Batch) -> Receipt:
    """Select up to ten paths per question: three rounds of two shuffled passes, then random draws (§2.3)."""
    work = work_on(batch)
    rows = work.rows(MinedQuestion)
    choices = {row.id: open_choice(row.id, [format_path(path.labels) for path in row.paths]) for row in rows}
    by_id = {row.id: row for row in rows}
    failed: dict[str, Reject] = {}
    while open_now := [row_id for row_id, choice in choices.items() if choice.is_open and row_id not in failed]:
        _play_round(work, [by_id[row_id] for row_id in open_now], choices, failed)
    dropped: list[DroppedPath] = []
    outcomes: list[Outcome] = [failed.get(row.id) or _close_choice(row, choices[row.id], dropped) for row in rows]
    work.extras = arrow_table(DroppedPath, dropped)
    return work.finish(outcomes, SelectedQuestion)


def _play_round(
    work: Work, rows: Sequence[MinedQuestion], choices: dict[str, Choice], failed: dict[str, Reject]
) -> None:
    prompt = load_prompt(SELECTION_PROMPT)
    asked = [
        (row.id, row, ask_selection(prompt, row.input, answers_of(row), choices[row.id].order(turn)))
        for row in rows
        for turn in (1, 2)
    ]
    answers = [answer for _, answer in work.ask("judge", asked, SELECTION, lambda _, texts: read_selection(texts[0]))]
    for row, first, second in zip(rows, answers[0::2], answers[1::2], strict=True):
        if lost := _find_loss(first) or _find_loss(second):
            failed[row.id] = lost
        else:
            choices[row.id].take(_picks(first), _picks(second))


def _find_loss(answer: Answered[list[str]]) -> Reject | None:
    """Return why the judge's call failed, or None; an unreadable reply counts as a pass without picks."""
    lost = answer.read if isinstance(answer.read, Reject) else None
    return lost if lost and (lost.retryable or lost.reason not in UNREADABLE_KINDS) else None


def _picks(answer: Answered[list[str]]) -> list[str]:
    return [] if isinstance(answer.read, Reject) else answer.read


def _close_choice(row: MinedQuestion, choice: Choice, dropped: list[DroppedPath]) -> SelectedQuestion:
    chosen = choice.finish()
    kept: dict[str, ChosenPath] = {}
    for number, path in enumerate(row.paths):
        words = format_path(path.labels)
        if words in chosen and words not in kept:
            kept[words] = ChosenPath(**path.model_dump(), chosen_by=chosen[words])
        else:
            dropped.append(
                DroppedPath(
                    id=f"{row.id}/select/{number}",
                    question_id=row.id,
                    path_ids=path.ids,
                    reason="same_words" if words in kept else "not_selected",
                    detail=words,
                )
            )
    return row.narrow(SelectedQuestion, paths=list(kept.values()))


@task(cache_key_fn=batch_key, persist_result=True)
def score_paths(batch: Batch) -> Receipt:
    """Score each path from 1 to 5; reject low scores (`low_score`) and unreadable replies (`unscored`) (§2.3)."""
    work = work_on(batch)
    prompt = load_prompt(SCORE_PROMPT)
    asked = []
    for row in work.rows_to_open(SelectedQuestion):
        for number, path in enumerate(row.paths):
            # from here on, each path is its own row
            path_id = f"{row.id}_{number}"
            work.take(path_id, path.model_dump_json())
            ask = ask_score(prompt, row.input, answers_of(row), format_path(path.labels))
            asked.append((path_id, (path_id, row, path), ask))
    lowest = work.inputs(MultiHalInputs).params.min_score
    outcomes: list[Outcome] = []
    for (path_id, row, path), answer in work.ask("judge", asked, SCORE, lambda _, texts: read_score(texts[0])):
        if isinstance(answer.read, Reject):
            unscored = answer.read.reason == "reply_not_in_format"
            outcomes.append(Reject(path_id, "unscored", answer.read.detail) if unscored else answer.read)
        elif answer.read < lowest:
            outcomes.append(Reject(path_id, "low_score", f"score {answer.read}: {format_path(path.labels)}"))
        else:
            outcomes.append(_scored(path_id, row, path, answer.read, answer))
    return work.finish(outcomes, ScoredPath)


def _scored(path_id: str, row: SelectedQuestion, path: ChosenPath, score: int, answer: Answered[int]) -> ScoredPath:
    statement = [path.statement] if path.statement else []
    return row.narrow(
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


def answers_of(row: MinedQuestion | SelectedQuestion) -> list[str]:
    """Return the right answers shown to the judge: the expected one first, then the optional ones."""
    return list(dict.fromkeys([row.output, *row.optional_output]))
