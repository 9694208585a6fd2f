"""First stages of MultiHal: read foundations, merge duplicates, drop refusals, classify answers (paper §2, §2.1)."""

from itertools import chain

from prefect import task

from factmill.tasks.assets import load_list_entries, load_unit_qid_numbers_by_name
from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.embedding_similarity import find_duplicate_pairs
from factmill.tasks.core.rows import Reject, RowOutcome
from factmill.tasks.core.table_columns import UserSourceSettings
from factmill.tasks.engine.batches import make_batch_cache_key, open_batch
from factmill.tasks.multihal.core.preprocessing import (
    classify_answer,
    is_refusal,
    merge_duplicate_questions,
    normalise_refusals,
)
from factmill.tasks.multihal.core.rows import AnswerTypedQuestion, FoundationQuestion
from factmill.tasks.multihal.params import MultiHalInputs
from factmill.tasks.multihal.sources.foundations import DEFAN_RANK_DOMAIN, FOUNDATIONS
from factmill.tasks.multihal.sources.user_questions import read_user_questions
from factmill.tasks.storage.user_tables import USER_TABLE_UNIT
from factmill.tasks.text.values.wikidata_literals import WantedNumberWithUnit

DUPLICATE_COSINE = 0.99
"""Cosine above which two questions are duplicates (§2.1)."""


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def read_foundation(batch: StageBatch) -> BatchReceipt:
    """Read one foundation's rows from its files (§2, Table 1), or those of the user's own tables."""
    work = open_batch(batch)
    outcomes: list[RowOutcome] = []
    inputs = work.inputs(MultiHalInputs)
    limit, own = inputs.params.limit, inputs.own_source or UserSourceSettings()
    is_own = batch.unit == USER_TABLE_UNIT
    files = work.source_files(batch.unit)
    rows = (read_user_questions(file, own) if is_own else FOUNDATIONS[batch.unit].read(file) for file in files)
    for read in chain.from_iterable(rows):
        if limit is not None and sum(isinstance(kept, FoundationQuestion) for kept in outcomes) >= limit:
            break
        work.add_input_row(read.row_id, read.raw_json)
        outcomes.append(read.outcome)
    return work.finish(outcomes, FoundationQuestion)


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def deduplicate_foundation_questions(batch: StageBatch) -> BatchReceipt:
    """Merge duplicate questions: those whose sentence embeddings have a cosine above the limit (§2.1).

    Questions that differ in a number, code or name, or rest on different passages, stay separate unless `union` asks
    for the paper's rule. DefAn's questions about university rankings differ only in the year and are never merged.
    """
    work = open_batch(batch)
    rows = work.rows(FoundationQuestion)
    embedder = work.run.services.embedder()
    vectors = embedder.encode([row.input for row in rows])
    exempt = [row.source_dataset == "defan" and row.domain.lower() == DEFAN_RANK_DOMAIN for row in rows]
    duplicates = find_duplicate_pairs(vectors, DUPLICATE_COSINE, exempt)
    union = work.inputs(MultiHalInputs).params.union
    return work.finish(merge_duplicate_questions(rows, duplicates, union), FoundationQuestion)


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def classify_answer_types(batch: StageBatch) -> BatchReceipt:
    """Drop refusals; classify each answer and extract the value to look for (§2.1, Appendix B)."""
    work = open_batch(batch)
    refusals = normalise_refusals(load_list_entries("refusals"))
    return work.finish(
        (_make_typed_question(row, refusals) for row in work.rows(FoundationQuestion)), AnswerTypedQuestion
    )


def _make_typed_question(row: FoundationQuestion, refusals: frozenset[str]) -> RowOutcome:
    if is_refusal(row.output, refusals):
        return Reject(row.id, "refusal", row.output)
    settled = classify_answer(row.output, row.answer_type, load_unit_qid_numbers_by_name(), row.input)
    value = settled.value
    if value is None and settled.answer_type != "other":
        return Reject(row.id, "unknown_unit", f"{row.output}: the unit is not in data/lists/units.csv")
    unit = f"Q{value.unit}" if isinstance(value, WantedNumberWithUnit) and value.unit else None
    looked_for = value.number if isinstance(value, WantedNumberWithUnit) else value and str(value)
    # merged rows may contribute refusals
    others = [answer for answer in row.optional_output if not is_refusal(answer, refusals)]
    typed = row.replace(answer_type=settled.answer_type, optional_output=others)
    return typed.extend_to(AnswerTypedQuestion, looked_for=looked_for, looked_for_unit=unit)
