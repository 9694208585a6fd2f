"""From names to items (GRANOLA-EQ, paper §3.1 and Appendix B): QIDs with all candidates, descriptions, popularity."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from prefect import task

from tasks.core.calls.knowledge import (
    Candidate,
    Description,
    call_describe_item,
    call_find_items,
    call_neighbours,
    call_pageviews,
    choose_candidate,
    read_candidates,
    read_description,
    read_neighbours,
)
from tasks.core.receipts import Batch, Receipt
from tasks.core.rows import Outcome, Reject, arrow_table
from tasks.engine.batches import Work, batch_key, work_on
from tasks.granola.core.rows import CandidateRow, DescribedQuestion, EntityQuestion, LinkedQuestion, PopularQuestion
from tasks.granola.params import GranolaInputs
from tasks.text.ids import id_number

Role = Literal["question", "answer"]


@task(cache_key_fn=batch_key, persist_result=True)
def find_qids(batch: Batch) -> Receipt:
    """Look up the QIDs of both entities by exact label, then alias; keep all candidates, choose one (Appendix B)."""
    work = work_on(batch)
    rows = work.rows(EntityQuestion)
    wikidata = work.run.services.wikidata
    names = (
        (row.id, name, call_find_items(wikidata.identity, name))
        for row in rows
        for name in (row.question_entity, row.answer)
    )
    found, failed = work.look_up(wikidata, names, read_candidates)
    linked, unlinked = _linked_pairs(work, rows, found)
    failed |= unlinked
    candidates: list[CandidateRow] = []
    policy = work.inputs(GranolaInputs).params.policy
    outcomes = [failed.get(row.id) or _link(row, found, linked.get(row.id), policy, candidates) for row in rows]
    work.extras = arrow_table(CandidateRow, candidates)
    return work.finish(outcomes, LinkedQuestion)


@task(cache_key_fn=batch_key, persist_result=True)
def describe_entities(batch: Batch) -> Receipt:
    """Fetch the English descriptions of both entities (§3.1, Appendix B)."""
    work = work_on(batch)
    rows = work.rows(LinkedQuestion)
    described, failed = describe(
        work, ((row.id, qid) for row in rows for qid in (row.question_entity_qid, row.answer_entity_qid))
    )
    outcomes = [failed.get(row.id) or _describe_row(row, described) for row in rows]
    return work.finish(outcomes, DescribedQuestion)


@task(cache_key_fn=batch_key, persist_result=True)
def measure_popularity(batch: Batch) -> Receipt:
    """Sum the page views of both entities' English articles over the last 12 full months before the epoch."""
    work = work_on(batch)
    rows = work.rows(DescribedQuestion)
    service = work.run.services.pageviews
    inputs = work.inputs(GranolaInputs)
    calls = (
        (row.id, title, call_pageviews(service.identity, title, inputs.views_from, inputs.views_to))
        for row in rows
        for title in (row.question_entity_title, row.answer_entity_title)
        if title
    )
    views, failed = work.look_up(service, calls, _read_views, "pageviews_failed")
    outcomes = [
        failed.get(row.id)
        or row.extend(
            PopularQuestion,
            question_entity_popularity=views.get(row.question_entity_title or ""),
            answer_entity_popularity=views.get(row.answer_entity_title or ""),
        )
        for row in rows
    ]
    return work.finish(outcomes, PopularQuestion)


def describe(work: Work, asked: Iterable[tuple[str, str]]) -> tuple[dict[str, Description], dict[str, Reject]]:
    """Return QID → description for every (row id, QID), and row id → Reject where the Wikidata failed."""
    wikidata = work.run.services.wikidata
    calls = ((row_id, qid, call_describe_item(wikidata.identity, qid)) for row_id, qid in asked)
    return work.look_up(wikidata, calls, read_description)


def _describe_row(row: LinkedQuestion, described: Mapping[str, Description]) -> Outcome:
    question, answer = described[row.question_entity_qid], described[row.answer_entity_qid]
    if not question.description:
        told = f"{row.question_entity_qid} has no English description"
        return Reject(row.id, "question_entity_not_described", told)
    if not answer.description:
        return Reject(row.id, "answer_entity_not_described", f"{row.answer_entity_qid} has no English description")
    return row.extend(
        DescribedQuestion,
        question_entity_description=question.description,
        answer_entity_description=answer.description,
        question_entity_title=question.title,
        answer_entity_title=answer.title,
        question_entity_modified=question.modified,
        answer_entity_modified=answer.modified,
    )


def _linked_pairs(
    work: Work, rows: Sequence[EntityQuestion], found: Mapping[str, Sequence[Candidate]]
) -> tuple[dict[str, set[tuple[str, str]]], dict[str, Reject]]:
    """Return row id → (question QID, answer QID) pairs that hold the relation, for rows with an ambiguous name.

    Also row id → Reject where the Wikidata failed.
    """
    wikidata = work.run.services.wikidata
    bearers = {row.id: (found.get(row.question_entity, ()), found.get(row.answer, ())) for row in rows}
    ambiguous = [row for row in rows if all(bearers[row.id]) and max(map(len, bearers[row.id])) > 1]
    calls = (
        (row.id, (row.id, candidate.qid), call_neighbours(wikidata.identity, candidate.qid, [row.relation]))
        for row in ambiguous
        for candidate in bearers[row.id][0]
    )
    claims, failed = work.look_up(wikidata, calls, read_neighbours)
    linked: dict[str, set[tuple[str, str]]] = {row.id: set() for row in ambiguous}
    for (row_id, qid), values in claims.items():
        answers = {candidate.qid for candidate in bearers[row_id][1]}
        linked[row_id].update((qid, value.qid) for value in values if value.qid in answers)
    return linked, failed


def _link(
    row: EntityQuestion,
    found: Mapping[str, Sequence[Candidate]],
    linked: set[tuple[str, str]] | None,
    policy: str,
    candidates: list[CandidateRow],
) -> Outcome:
    """Choose a QID for both names of a row, and note all candidates.

    The paper keeps the smallest numbers even where they are wrong; here a row is dropped when the Wikidata shows that
    other items of the same names hold the relation and the chosen ones do not.
    """
    names: tuple[tuple[Role, str], ...] = (("question", row.question_entity), ("answer", row.answer))
    bearers: dict[Role, Sequence[Candidate]] = {}
    for role, name in names:
        options = found[name]
        if not options:
            return Reject(row.id, f"{role}_entity_not_found", f"no item has the label or alias {name!r}")
        bearers[role] = options
    chosen = {role: choose_candidate(options) for role, options in bearers.items()}
    if policy == "linked" and linked:
        by_number = sorted(linked, key=lambda pair: (id_number(pair[0]), id_number(pair[1])))[0]
        chosen = {
            role: next(option for option in bearers[role] if option.qid == qid)
            for (role, _), qid in zip(names, by_number, strict=True)
        }
    for side, (role, name) in enumerate(names):
        candidates.extend(
            CandidateRow(
                id=f"{row.id}-{role}-{option.qid}",
                row_id=row.id,
                role=role,
                name=name,
                qid=option.qid,
                via=option.via,
                chosen=option.qid == chosen[role].qid,
                linked=None if linked is None else any(pair[side] == option.qid for pair in linked),
            )
            for option in bearers[role]
        )
    pair = (chosen["question"].qid, chosen["answer"].qid)
    if linked and pair not in linked:
        others = ", ".join(" and ".join(found_pair) for found_pair in sorted(linked))
        detail = f"the smallest numbers are {' and '.join(pair)}, but {row.relation} holds between {others}; --policy linked takes those"
        return Reject(row.id, "other_items_hold_the_relation", detail)
    return row.extend(
        LinkedQuestion,
        question_entity_qid=chosen["question"].qid,
        answer_entity_qid=chosen["answer"].qid,
        question_entity_candidates=len(bearers["question"]),
        answer_entity_candidates=len(bearers["answer"]),
    )


def _read_views(body: Any) -> int | None:
    return None if body is None else int(body["views"])
