"""Steps that check and clean by program (GRANOLA-EQ, paper Appendix B, "Data cleaning", and §3.3)."""

from prefect import task

from tasks.assets import load_list, load_relations
from tasks.core.authoring.granularity import clean_levels, read_trivial_answers
from tasks.core.receipts import Batch, Receipt
from tasks.core.rows import Outcome, Reject
from tasks.engine.batches import batch_key, work_on
from tasks.granola.core.grounding import OUTWARDS, TOLD, TOLD_ALONE, gather_evidence, ground_levels
from tasks.granola.core.rows import GranolaRow, ScoredQuestion
from tasks.granola.lexicon import load_lexicon
from tasks.granola.params import TRIVIAL_LIST, GranolaInputs
from tasks.lookups.classes import look_up_claims
from tasks.lookups.facts import look_up_around

_HOPS = 5
"""So many steps outwards are taken from an answer's claims."""


@task(cache_key_fn=batch_key, persist_result=True)
def remove_trivial_answers(batch: Batch) -> Receipt:
    """Remove answers that are trivial, repeated or rest on nothing; drop rows with too few left (Appendix B, §3.3)."""
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
