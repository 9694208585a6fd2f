"""From names to items (GRANOLA-EQ, paper §3.1 and Appendix B): QIDs with all candidates, descriptions, popularity."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

from prefect import task

from tasks.core.calls.call import Reply
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

T = TypeVar("T")
Role = Literal["question", "answer"]


@task(cache_key_fn=batch_key, persist_result=True)
def find_qids(batch: Batch) -> Receipt:
    """Look up the QIDs of both entities by exact label, then alias; keep all candidates, choose one (Appendix B)."""
    work = work_on(batch)
    rows = work.rows(EntityQuestion)
    wikidata = work.run.services.wikidata
    asked = [
        (row.id, call_find_items(wikidata.identity, name)) for row in rows for name in (row.question_entity, row.answer)
    ]
    records = work.call(wikidata, asked)
    found: dict[str, list[Candidate] | Reject] = {}
    for _, call in asked:
        found[str(call.parts["name"])] = _read(records[call.key].reply(), read_candidates, "wikidata_failed")
    linked = _linked_pairs(work, rows, found)
    candidates: list[CandidateRow] = []
    policy = work.inputs(GranolaInputs).params.policy
    outcomes = [_link(row, found, linked.get(row.id), policy, candidates) for row in rows]
    work.extras = arrow_table(CandidateRow, candidates)
    return work.finish(outcomes, LinkedQuestion)


@task(cache_key_fn=batch_key, persist_result=True)
def describe_entities(batch: Batch) -> Receipt:
    """Fetch the English descriptions of both entities (§3.1, Appendix B)."""
    work = work_on(batch)
    rows = work.rows(LinkedQuestion)
    described = describe(
        work, ((row.id, qid) for row in rows for qid in (row.question_entity_qid, row.answer_entity_qid))
    )
    outcomes: list[Outcome] = []
    for row in rows:
        question, answer = described[row.question_entity_qid], described[row.answer_entity_qid]
        if isinstance(question, Reject):
            outcomes.append(replace(question, row_id=row.id))
        elif isinstance(answer, Reject):
            outcomes.append(replace(answer, row_id=row.id))
        elif not question.description:
            outcomes.append(
                Reject(row.id, "question_entity_not_described", f"{row.question_entity_qid} has no English description")
            )
        elif not answer.description:
            outcomes.append(
                Reject(row.id, "answer_entity_not_described", f"{row.answer_entity_qid} has no English description")
            )
        else:
            outcomes.append(
                row.extend(
                    DescribedQuestion,
                    question_entity_description=question.description,
                    answer_entity_description=answer.description,
                    question_entity_title=question.title,
                    answer_entity_title=answer.title,
                    question_entity_modified=question.modified,
                    answer_entity_modified=answer.modified,
                )
            )
    return work.finish(outcomes, DescribedQuestion)


@task(cache_key_fn=batch_key, persist_result=True)
def measure_popularity(batch: Batch) -> Receipt:
    """Sum the page views of both entities' English articles over the last 12 full months before the epoch."""
    work = work_on(batch)
    rows = work.rows(DescribedQuestion)
    service = work.run.services.pageviews
    inputs = work.inputs(GranolaInputs)
    titles = [
        (row.id, title) for row in rows for title in (row.question_entity_title, row.answer_entity_title) if title
    ]
    calls = {title: call_pageviews(service.identity, title, inputs.views_from, inputs.views_to) for _, title in titles}
    records = work.call(service, ((row_id, calls[title]) for row_id, title in titles))
    views = {title: _read(records[call.key].reply(), _read_views, "pageviews_failed") for title, call in calls.items()}
    outcomes: list[Outcome] = []
    for row in rows:
        of_question, of_answer = views.get(row.question_entity_title or ""), views.get(row.answer_entity_title or "")
        if isinstance(of_question, Reject):
            outcomes.append(replace(of_question, row_id=row.id))
        elif isinstance(of_answer, Reject):
            outcomes.append(replace(of_answer, row_id=row.id))
        else:
            outcomes.append(
                row.extend(PopularQuestion, question_entity_popularity=of_question, answer_entity_popularity=of_answer)
            )
    return work.finish(outcomes, PopularQuestion)


def describe(work: Work, asked: Iterable[tuple[str, str]]) -> dict[str, Description | Reject]:
    """Return QID → description for every (row id, QID), or a Reject without row id when the Wikidata failed."""
    wikidata = work.run.services.wikidata
    pairs = [(row_id, qid, call_describe_item(wikidata.identity, qid)) for row_id, qid in asked]
    records = work.call(wikidata, ((row_id, call) for row_id, _, call in pairs))
    return {qid: _read(records[call.key].reply(), read_description, "wikidata_failed") for _, qid, call in pairs}


def _linked_pairs(
    work: Work, rows: Sequence[EntityQuestion], found: Mapping[str, list[Candidate] | Reject]
) -> dict[str, set[tuple[str, str]] | Reject]:
    """Return row id → (question QID, answer QID) pairs that hold the relation, for rows with an ambiguous name."""
    wikidata = work.run.services.wikidata
    bearers = {name: [] if isinstance(options, Reject) else options for name, options in found.items()}
    ambiguous = [
        row
        for row in rows
        if bearers[row.question_entity]
        and bearers[row.answer]
        and max(len(bearers[row.question_entity]), len(bearers[row.answer])) > 1
    ]
    pairs = [
        (row, candidate.qid, call_neighbours(wikidata.identity, candidate.qid, [row.relation]))
        for row in ambiguous
        for candidate in bearers[row.question_entity]
    ]
    records = work.call(wikidata, ((row.id, call) for row, _, call in pairs))
    linked: dict[str, set[tuple[str, str]]] = {row.id: set() for row in ambiguous}
    failed: dict[str, Reject] = {}
    for row, qid, call in pairs:
        values = _read(records[call.key].reply(), read_neighbours, "wikidata_failed")
        answers = {candidate.qid for candidate in bearers[row.answer]}
        if isinstance(values, Reject):
            failed[row.id] = values
        else:
            linked[row.id].update((qid, value.qid) for value in values if value.qid in answers)
    return {**linked, **failed}


def _link(
    row: EntityQuestion,
    found: Mapping[str, list[Candidate] | Reject],
    linked: set[tuple[str, str]] | Reject | None,
    policy: str,
    candidates: list[CandidateRow],
) -> Outcome:
    """Choose a QID for both names of a row, and note all candidates.

    The paper keeps the smallest numbers even where they are wrong; here a row is dropped when the Wikidata shows that
    other items of the same names hold the relation and the chosen ones do not.
    """
    if isinstance(linked, Reject):
        return replace(linked, row_id=row.id)
    names: tuple[tuple[Role, str], ...] = (("question", row.question_entity), ("answer", row.answer))
    bearers: dict[Role, list[Candidate]] = {}
    for role, name in names:
        options = found[name]
        if isinstance(options, Reject):
            return replace(options, row_id=row.id)
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


def _read(reply: Reply, read: Callable[[Any], T], failure: str) -> T | Reject:
    """Read a reply's body, or return a Reject without row id that says why there is none."""
    if reply.status != "ok":
        return Reject("", failure, reply.error or "no reason given", reply.transient)
    return read(reply.body)


def _read_views(body: Any) -> int | None:
    return None if body is None else int(body["views"])
