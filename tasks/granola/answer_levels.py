"""Stages that write, score and clean an answer's levels (paper §3.1, §3.3, Table 8; Appendix B, "Data cleaning")."""

from collections.abc import Sequence
from functools import cache

from prefect import task

from factmill.tasks.assets import load_list_entries, load_prompt
from factmill.tasks.core.authoring.granular_answers import (
    CONSISTENCY_FORMAT,
    LEVELS_FORMAT,
    make_answer_levels_prompt,
    make_description_consistency_prompt,
    parse_trivial_answers,
    read_answer_levels,
    read_description_fit_verdict,
    remove_uninformative_answer_levels,
    score_description_error,
)
from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.completions import UnreadableCompletion
from factmill.tasks.core.rows import Reject, RowOutcome
from factmill.tasks.engine.batches import make_batch_cache_key, open_batch
from factmill.tasks.granola.core.grounding import (
    BROADER_PIDS,
    EXPANDED_EVIDENCE_PIDS,
    LEAF_EVIDENCE_PIDS,
    drop_unsupported_or_redundant_levels,
    gather_evidence,
)
from factmill.tasks.granola.core.rows import (
    GranolaRow,
    QuestionWithDescriptionScores,
    QuestionWithLevels,
    QuestionWithPopularity,
)
from factmill.tasks.granola.description_parsing import load_lexicon
from factmill.tasks.granola.params import CONSISTENCY_PROMPT, LEVELS_PROMPT, TRIVIAL_LIST, GranolaInputs
from factmill.tasks.granola.sources.user_relations import RELATION_FILE, load_packaged_and_user_relations
from factmill.tasks.lookups.classes import look_up_claims_by_qid
from factmill.tasks.lookups.facts import look_up_claims_within_hops_by_qid


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def generate_granular_answers(batch: StageBatch) -> BatchReceipt:
    """Ask the author model for answers from fine to coarse, one call per row (§3.1, Table 8)."""
    work = open_batch(batch)
    prompt = load_prompt(LEVELS_PROMPT)
    asked = [
        (
            row.id,
            row,
            make_answer_levels_prompt(
                prompt, row.question, row.answer, row.question_entity_description, row.answer_entity_description
            ),
        )
        for row in work.rows(QuestionWithPopularity)
    ]
    answers = work.prompt_model(
        "author", asked, LEVELS_FORMAT, lambda row, texts: read_answer_levels(texts[0], row.answer)
    )
    return work.finish(
        (
            answer.parsed
            if isinstance(answer.parsed, Reject)
            else row.extend_to(
                QuestionWithLevels, levels=list(answer.parsed), author=answer.model, author_call=answer.key
            )
            for row, answer in answers
        ),
        QuestionWithLevels,
    )


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def score_description_consistency(batch: StageBatch) -> BatchReceipt:
    """Score both descriptions by the share of samples that call them inconsistent with the question (Appendix B).

    Each takes one call with n samples at temperature 1. Rows with a score above the limit are rejected; scores are
    published. The limit also applies to Wikidata facts: their items are right, but the question may not fit them.
    """
    work = open_batch(batch)
    prompt = load_prompt(CONSISTENCY_PROMPT)
    params = work.inputs(GranolaInputs).params
    rows = work.rows(QuestionWithLevels)
    asked = [
        (
            row.id,
            row,
            make_description_consistency_prompt(prompt, row.question, row.answer, *described, params.samples),
        )
        for row in rows
        for described in _get_name_and_description_by_role(row).values()
    ]
    answers = [
        answer for _, answer in work.prompt_model("judge", asked, CONSISTENCY_FORMAT, _read_share_of_no_verdicts)
    ]
    outcomes: list[RowOutcome] = []
    for row, question, answer in zip(rows, answers[0::2], answers[1::2], strict=True):
        if isinstance(question.parsed, Reject):
            outcomes.append(question.parsed)
        elif isinstance(answer.parsed, Reject):
            outcomes.append(answer.parsed)
        elif max(question.parsed, answer.parsed) > params.max_error_score:
            above = "question" if question.parsed > params.max_error_score else "answer"
            name, description = _get_name_and_description_by_role(row)[above]
            scores = f"question entity {question.parsed:.3f}, answer {answer.parsed:.3f}; the maximum is {params.max_error_score}"
            detail = f"{row.question} {row.answer}; {name}: {description}; scores: {scores}"
            outcomes.append(Reject(row.id, f"{above}_description_inconsistent", detail))
        else:
            outcomes.append(
                row.extend_to(
                    QuestionWithDescriptionScores,
                    question_description_score=question.parsed,
                    answer_description_score=answer.parsed,
                    judge=question.model,
                )
            )
    return work.finish(outcomes, QuestionWithDescriptionScores)


def _get_name_and_description_by_role(row: QuestionWithLevels) -> dict[str, tuple[str, str]]:
    """Return role → name and description of both entities."""
    return {
        "question": (row.question_entity, row.question_entity_description),
        "answer": (row.answer, row.answer_entity_description),
    }


def _read_share_of_no_verdicts(_: QuestionWithLevels, texts: Sequence[str]) -> float | UnreadableCompletion:
    """Return the share of No among the readable samples; Unreadable when there are none."""
    verdicts = list(map(cache(read_description_fit_verdict), texts))
    score = score_description_error(verdicts)
    if score is None:
        return next(verdict for verdict in verdicts if isinstance(verdict, UnreadableCompletion))
    return score


_EVIDENCE_HOPS = 5
"""Maximum steps outwards from an answer's claims."""


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def remove_trivial_answers(batch: StageBatch) -> BatchReceipt:
    """Remove trivial, repeated and unsupported answers; drop rows with too few left (Appendix B, §3.3)."""
    work = open_batch(batch)
    trivial = parse_trivial_answers(load_list_entries(TRIVIAL_LIST))
    relations, lexicon = load_packaged_and_user_relations(work.source_files(RELATION_FILE)), load_lexicon()
    params = work.inputs(GranolaInputs).params
    rows = work.rows(QuestionWithDescriptionScores)
    claims, failed = look_up_claims_by_qid(
        work, ((row.id, row.answer_entity_qid) for row in rows), (*EXPANDED_EVIDENCE_PIDS, *LEAF_EVIDENCE_PIDS)
    )
    reached = (
        (row.id, edge.qid)
        for row in rows
        for edge in claims.get(row.answer_entity_qid, ())
        if edge.pid in EXPANDED_EVIDENCE_PIDS
    )
    around, unknown = look_up_claims_within_hops_by_qid(work, reached, BROADER_PIDS, _EVIDENCE_HOPS)
    failed |= unknown
    outcomes: list[RowOutcome] = []
    for row in rows:
        if row.id in failed:
            outcomes.append(failed[row.id])
            continue
        cleaned = remove_uninformative_answer_levels(row.levels, row.question, relations[row.relation], trivial)
        qid = row.answer_entity_qid
        evidence = gather_evidence(
            row.answer, row.answer_entity_description, {**around, qid: claims[qid]}, qid, lexicon
        )
        levels, ungrounded = drop_unsupported_or_redundant_levels(
            cleaned.levels, evidence, lexicon, params.levels == "all"
        )
        removed = "; ".join(f"{text!r} {why}" for text, why in (*cleaned.removed, *ungrounded)) or "none"
        if not levels:
            outcomes.append(Reject(row.id, "first_answer_missing", f"{row.question} removed answers: {removed}"))
        elif len(levels) < params.min_levels:
            detail = f"{row.question} answers left: {levels}; removed: {removed}; expected at least {params.min_levels}"
            outcomes.append(Reject(row.id, "too_few_levels", detail))
        else:
            outcomes.append(
                row.narrow_to(
                    GranolaRow,
                    score_for_potential_error=max(row.question_description_score, row.answer_description_score),
                    granola_answers=levels,
                    num_granola_answers=len(levels),
                )
            )
    return work.finish(outcomes, GranolaRow)
