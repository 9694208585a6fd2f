"""First stages of MultiHal: read foundations, merge duplicates, drop refusals, classify answers (paper §2, §2.1)."""

from prefect import task

from factmill.tasks.assets import load_list, load_units
from factmill.tasks.core.nearest import find_duplicates
from factmill.tasks.core.receipts import Batch, Receipt
from factmill.tasks.core.rows import Outcome, Reject
from factmill.tasks.engine.batches import batch_key, work_on
from factmill.tasks.multihal.core.rows import FoundationQuestion, TypedQuestion
from factmill.tasks.multihal.core.uniting import is_refusal, read_refusals, settle_answer_type, unite_questions
from factmill.tasks.multihal.params import MultiHalInputs
from factmill.tasks.multihal.sources.foundations import FOUNDATIONS, RANKED
from factmill.tasks.text.values.literals import Number

SAME_ABOVE = 0.99
"""Cosine above which two questions are duplicates (§2.1)."""


@task(cache_key_fn=batch_key, persist_result=True)
def read_foundation(batch: Batch) -> Receipt:
    """Read one foundation's rows from its files (§2, Table 1)."""
    work = work_on(batch)
    outcomes: list[Outcome] = []
    limit = work.inputs(MultiHalInputs).params.limit
    for read in (row for file in work.files(batch.unit) for row in FOUNDATIONS[batch.unit].read(file)):
        if limit is not None and sum(isinstance(kept, FoundationQuestion) for kept in outcomes) >= limit:
            break
        work.take(read.row_id, read.as_it_came)
        outcomes.append(read.outcome)
    return work.finish(outcomes, FoundationQuestion)


@task(cache_key_fn=batch_key, persist_result=True)
def unite_duplicates(batch: Batch) -> Receipt:
    """Merge duplicate questions: those whose sentence embeddings have a cosine above the limit (§2.1).

    Questions that differ in a number, code or name, or rest on different passages, stay separate unless `union` asks
    for the paper's rule. DefAn's questions about university rankings differ only in the year and are never merged.
    """
    work = work_on(batch)
    rows = work.rows(FoundationQuestion)
    embedder = work.run.services.embedder()
    vectors = embedder.encode([row.input for row in rows])
    exempt = [row.source_dataset == "defan" and row.domain.lower() == RANKED for row in rows]
    duplicates = find_duplicates(vectors, SAME_ABOVE, exempt)
    union = work.inputs(MultiHalInputs).params.union
    return work.finish(unite_questions(rows, duplicates, union), FoundationQuestion)


@task(cache_key_fn=batch_key, persist_result=True)
def type_answers(batch: Batch) -> Receipt:
    """Drop refusals; classify each answer and extract the value to look for (§2.1, Appendix B)."""
    work = work_on(batch)
    refusals = read_refusals(load_list("refusals"))
    return work.finish((_type_answer(row, refusals) for row in work.rows(FoundationQuestion)), TypedQuestion)


def _type_answer(row: FoundationQuestion, refusals: frozenset[str]) -> Outcome:
    if is_refusal(row.output, refusals):
        return Reject(row.id, "refusal", row.output)
    settled = settle_answer_type(row.output, row.answer_type, load_units(), row.input)
    value = settled.value
    if value is None and settled.answer_type != "other":
        return Reject(
            row.id, "unknown_unit", f"{row.output}: the unit is none of data/lists/units.csv, so no value is it"
        )
    unit = f"Q{value.unit}" if isinstance(value, Number) and value.unit else None
    looked_for = value.number if isinstance(value, Number) else value and str(value)
    # merged rows may contribute refusals
    others = [answer for answer in row.optional_output if not is_refusal(answer, refusals)]
    typed = row.replace(answer_type=settled.answer_type, optional_output=others)
    return typed.extend(TypedQuestion, looked_for=looked_for, looked_for_unit=unit)
