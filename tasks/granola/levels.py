"""Stages that write, score and clean an answer's levels (paper §3.1, §3.3, Table 8; Appendix B, "Data cleaning")."""

from collections.abc import Sequence

from prefect import task

from factmill.tasks.assets import load_list, load_prompt, load_relations
from factmill.tasks.core.authoring.granularity import (
    CONSISTENCY,
    LEVELS,
    ask_consistency,
    ask_levels,
    clean_levels,
    read_levels,
    read_trivial_answers,
    read_verdict,
    score_error,
)
from factmill.tasks.core.receipts import Batch, Receipt
from factmill.tasks.core.replies import Unreadable
from factmill.tasks.core.rows import Outcome, Reject
from factmill.tasks.engine.batches import batch_key, work_on
from factmill.tasks.granola.core.grounding import OUTWARDS, TOLD, TOLD_ALONE, gather_evidence, ground_levels
from factmill.tasks.granola.core.rows import AnsweredQuestion, GranolaRow, PopularQuestion, ScoredQuestion
from factmill.tasks.granola.params import CONSISTENCY_PROMPT, LEVELS_PROMPT, TRIVIAL_LIST, GranolaInputs
from factmill.tasks.granola.words import load_lexicon
from factmill.tasks.lookups.classes import look_up_claims
from factmill.tasks.lookups.facts import look_up_around


@task(cache_key_fn=batch_key, persist_result=True)
def generate_granular_answers(batch: Batch) -> Receipt:
    """Ask the author model for answers from fine to coarse, one call per row (§3.1, Table 8)."""
    work = work_on(batch)
    prompt = load_prompt(LEVELS_PROMPT)
    asked = [
        (
            row.id,
            row,
            ask_levels(
                prompt, row.question, row.answer, row.question_entity_description, row.answer_entity_description
            ),
        )
        for row in work.rows(PopularQuestion)
    ]
    answers = work.ask("author", asked, LEVELS, lambda row, texts: read_levels(texts[0], row.answer))
    return work.finish(
        (
            answer.read
            if isinstance(answer.read, Reject)
            else row.extend(AnsweredQuestion, levels=list(answer.read), author=answer.model, author_call=answer.key)
            for row, answer in answers
        ),
        AnsweredQuestion,
    )


@task(cache_key_fn=batch_key, persist_result=True)
def score_description_consistency(batch: Batch) -> Receipt:
    """Score both descriptions by the share of samples that call them inconsistent with the question (Appendix B).

    Each takes one call with n samples at temperature 1. Rows with a score above the limit are rejected; scores are
    published. The limit also applies to Wikidata facts: their items are right, but the question may not fit them.
    """
    work = work_on(batch)
    prompt = load_prompt(CONSISTENCY_PROMPT)
    params = work.inputs(GranolaInputs).params
    rows = work.rows(AnsweredQuestion)
    asked = []
    for row in rows:
        for entity, description in (
            (row.question_entity, row.question_entity_description),
            (row.answer, row.answer_entity_description),
        ):
            asked.append(
                (row.id, row, ask_consistency(prompt, row.question, row.answer, entity, description, params.samples))
            )
    answers = [answer for _, answer in work.ask("judge", asked, CONSISTENCY, _read_score)]
    outcomes: list[Outcome] = []
    for row, question, answer in zip(rows, answers[0::2], answers[1::2], strict=True):
        if isinstance(question.read, Reject):
            outcomes.append(question.read)
        elif isinstance(answer.read, Reject):
            outcomes.append(answer.read)
        elif max(question.read, answer.read) > params.max_error_score:
            described = {
                "question": (row.question_entity, row.question_entity_description),
                "answer": (row.answer, row.answer_entity_description),
            }
            above = "question" if question.read > params.max_error_score else "answer"
            name, description = described[above]
            scores = f"question entity {question.read:.3f}, answer {answer.read:.3f}; at most {params.max_error_score} is kept"
            detail = f"{row.question} {row.answer}; {name}: {description}; scores: {scores}"
            outcomes.append(Reject(row.id, f"{above}_description_inconsistent", detail))
        else:
            outcomes.append(
                row.extend(
                    ScoredQuestion,
                    question_description_score=question.read,
                    answer_description_score=answer.read,
                    judge=question.model,
                )
            )
    return work.finish(outcomes, ScoredQuestion)


def _read_score(_: AnsweredQuestion, texts: Sequence[str]) -> float | Unreadable:
    """Return the share of No among the readable samples; Unreadable when there are none."""
    read = {text: read_verdict(text) for text in set(texts)}
    verdicts = [read[text] for text in texts]
    score = score_error(verdicts).score
    if score is None:
        return next(verdict for verdict in verdicts if isinstance(verdict, Unreadable))
    return score


_HOPS = 5
"""Maximum steps outwards from an answer's claims."""


@task(cache_key_fn=batch_key, persist_result=True)
def remove_trivial_answers(batch: Batch) -> Receipt:
    """Remove trivial, repeated and unsupported answers; drop rows with too few left (Appendix B, §3.3)."""
    work = work_on(batch)
    trivial = read_trivial_answers(load_list(TRIVIAL_LIST))
    relations, lexicon = load_relations(), load_lexicon()
    params = work.inputs(GranolaInputs).params
    rows = work.rows(ScoredQuestion)
    told, failed = look_up_claims(work, ((row.id, row.answer_entity_qid) for row in rows), (*TOLD, *TOLD_ALONE))
    reached = ((row.id, edge.qid) for row in rows for edge in told.get(row.answer_entity_qid, ()) if edge.pid in TOLD)
    around, unknown = look_up_around(work, reached, OUTWARDS, _HOPS)
    failed |= unknown
    outcomes: list[Outcome] = []
    for row in rows:
        if row.id in failed:
            outcomes.append(failed[row.id])
            continue
        cleaned = clean_levels(row.levels, row.question, relations[row.relation], trivial)
        qid = row.answer_entity_qid
        evidence = gather_evidence(row.answer, row.answer_entity_description, {**around, qid: told[qid]}, qid, lexicon)
        levels, ungrounded = ground_levels(cleaned.levels, evidence, lexicon, params.levels == "all")
        removed = "; ".join(f"{text!r} {why}" for text, why in (*cleaned.removed, *ungrounded)) or "none"
        if not levels:
            outcomes.append(Reject(row.id, "first_answer_missing", f"{row.question} removed: {removed}"))
        elif len(levels) < params.min_levels:
            detail = f"{row.question} left: {levels}; removed: {removed}; at least {params.min_levels} are needed"
            outcomes.append(Reject(row.id, "too_few_levels", detail))
        else:
            outcomes.append(
                row.narrow(
                    GranolaRow,
                    score_for_potential_error=max(row.question_description_score, row.answer_description_score),
                    granola_answers=levels,
                    num_granola_answers=len(levels),
                )
            )
    return work.finish(outcomes, GranolaRow)
