"""Steps that check and clean by program (GRANOLA-EQ, paper Appendix B, "Data cleaning")."""

from prefect import task

from tasks.assets import load_list, load_relations
from tasks.core.authoring.granularity import clean_levels, read_trivial_answers
from tasks.core.receipts import Batch, Receipt
from tasks.core.rows import Outcome, Reject
from tasks.engine.batches import batch_key, work_on
from tasks.granola.core.rows import GranolaRow, ScoredQuestion
from tasks.granola.params import TRIVIAL_LIST, GranolaInputs


@task(cache_key_fn=batch_key, persist_result=True)
def remove_trivial_answers(batch: Batch) -> Receipt:
    """Remove trivial and repeated answers; drop rows with too few levels left (Appendix B)."""
    work = work_on(batch)
    trivial = read_trivial_answers(load_list(TRIVIAL_LIST))
    relations = load_relations()
    least = work.inputs(GranolaInputs).params.min_levels
    outcomes: list[Outcome] = []
    for row in work.rows(ScoredQuestion):
        cleaned = clean_levels(row.levels, row.question, relations[row.relation], trivial)
        removed = "; ".join(f"{text!r} {why}" for text, why in cleaned.removed) or "none"
        if not cleaned.levels:
            outcomes.append(Reject(row.id, "first_answer_missing", f"removed: {removed}"))
        elif len(cleaned.levels) < least:
            detail = f"left: {list(cleaned.levels)}; removed: {removed}; at least {least} are needed"
            outcomes.append(Reject(row.id, "too_few_levels", detail))
        else:
            outcomes.append(
                row.narrow(
                    GranolaRow,
                    score_for_potential_error=max(row.question_description_score, row.answer_description_score),
                    granola_answers=list(cleaned.levels),
                    num_granola_answers=len(cleaned.levels),
                )
            )
    return work.finish(outcomes, GranolaRow)
