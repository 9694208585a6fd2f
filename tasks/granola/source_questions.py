"""First stages of GRANOLA-EQ: questions from EntityQuestions files or Wikidata facts (paper §3.2, Appendix B)."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from prefect import Task, task

from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.digests import canonical_json
from factmill.tasks.core.question_relations import extract_subject_name
from factmill.tasks.core.rows import WIKIDATA_LICENCE, Reject, RowOutcome
from factmill.tasks.core.table_columns import UserSourceSettings
from factmill.tasks.engine.batches import make_batch_cache_key, open_batch
from factmill.tasks.granola.core.rows import QuestionWithExtractedEntityName, SourceQuestion
from factmill.tasks.granola.params import GranolaInputs
from factmill.tasks.granola.sources.entity_questions import find_relation_pid_of_file, load_entity_questions
from factmill.tasks.granola.sources.user_questions import (
    QUESTION_FORM,
    find_relation,
    format_unknown_relation,
)
from factmill.tasks.granola.sources.user_relations import RELATION_FILE, load_packaged_and_user_relations
from factmill.tasks.lookups.facts import (
    QuestionBeforeMergingEqual,
    load_named_facts_as_input_rows,
    make_fact_questions,
    merge_equal_or_reject_conflicting,
)
from factmill.tasks.storage.source_files import MALFORMED_ROW, SourceFile, dump_row
from factmill.tasks.storage.user_tables import iterate_user_table
from factmill.tasks.text.text_normalization import normalize_answer

_POSSESSIVE = re.compile(r"['’]s?(?=\s)")


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def read_entity_questions(batch: StageBatch) -> BatchReceipt:
    """Read one relation's questions from its files (§3.2); keep those with exactly one gold answer."""
    work = open_batch(batch)
    read: list[QuestionBeforeMergingEqual | Reject] = []
    inputs = work.inputs(GranolaInputs)
    left = inputs.limits[batch.unit]
    licences: dict[str, str] = {}
    for file in work.source_files(batch.unit):
        licences[file.name] = _get_source_licence(inputs, file)
        for raw in load_entity_questions(file):
            if left == 0:
                break
            if left is not None and not raw.problem:  # a row that cannot be read is none of the limit
                left -= 1
            row_id = f"{file.name}:{raw.row}"
            work.add_input_row(row_id, canonical_json({"question": raw.question, "answers": raw.answers}))
            if raw.problem:
                read.append(Reject(row_id, "malformed_row", raw.problem))
            elif len(set(raw.answers)) != 1:
                reason = "several_gold_answers" if raw.answers else "no_gold_answer"
                read.append(Reject(row_id, reason, f"{raw.question} {list(raw.answers)}"))
            else:
                read.append(
                    QuestionBeforeMergingEqual(row_id, batch.unit, raw.question, raw.answers[0], file.name, raw.row)
                )
    make = partial(_make_source_question, licences.__getitem__)
    return work.finish(merge_equal_or_reject_conflicting(read, make), SourceQuestion)


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def read_user_questions(batch: StageBatch) -> BatchReceipt:
    """Read the questions of the user's own tables; keep those with exactly one gold answer and a known relation (§3.2)."""
    work = open_batch(batch)
    inputs = work.inputs(GranolaInputs)
    own, relations = (
        inputs.own_source or UserSourceSettings(),
        load_packaged_and_user_relations(work.source_files(RELATION_FILE)),
    )
    left = {**inputs.limits}
    read: list[QuestionBeforeMergingEqual | Reject] = []
    subjects: dict[str, str | None] = {}
    licences: dict[str, str] = {}
    for file in work.source_files(batch.unit):
        licences[file.name] = _get_source_licence(inputs, file)
        for row in iterate_user_table(file, own, QUESTION_FORM):
            fields, row_id = row.fields, f"{file.name}:{row.number}"
            stated = "" if isinstance(fields, str) else fields["relation"] or find_relation_pid_of_file(Path(file.name))
            relation = find_relation(stated, relations) if stated else None
            if relation is not None:
                if relation not in left or left[relation] == 0:
                    continue  # not asked for, or the limit is reached
                left[relation] = None if (most := left[relation]) is None else most - 1
            work.add_input_row(row_id, dump_row(row.raw))
            if isinstance(fields, str):
                read.append(Reject(row_id, MALFORMED_ROW, fields))
                continue
            question, answers = fields["question"], fields["answers"]
            if relation is None:
                read.append(Reject(row_id, "unknown_relation", format_unknown_relation(stated, relations)))
            elif len(answers) != 1:
                read.append(Reject(row_id, "several_gold_answers", f"{question} {list(answers)}"))
            else:
                subjects[row_id] = fields["subject"]
                read.append(QuestionBeforeMergingEqual(row_id, relation, question, answers[0], file.name, row.number))
    return work.finish(
        merge_equal_or_reject_conflicting(
            read,
            lambda each, row_id: _make_source_question(licences.__getitem__, each, row_id).replace(
                stated_subject=subjects[each.id]
            ),
        ),
        SourceQuestion,
    )


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def make_questions_from_facts(batch: StageBatch) -> BatchReceipt:
    """Make one relation's questions from facts of the world's Wikidata, with the relation's template (§3.2).

    A row is a fact. A subject with several values would give several gold answers and is rejected.
    """
    work = open_batch(batch)
    facts = load_named_facts_as_input_rows(
        work, batch.unit, work.inputs(GranolaInputs).limits[batch.unit], multiple_values="reject"
    )
    wikidata = work.run.services.wikidata.identity
    made = make_fact_questions(
        facts,
        {
            pid: each.template
            for pid, each in load_packaged_and_user_relations(work.source_files(RELATION_FILE)).items()
        },
        wikidata,
    )
    make = partial(_make_source_question, lambda _: WIKIDATA_LICENCE)
    return work.finish(merge_equal_or_reject_conflicting(made, make), SourceQuestion)


def choose_question_reader(inputs: GranolaInputs) -> Task[[StageBatch], BatchReceipt]:
    """Return the stage that reads questions from the build's source."""
    if inputs.own_source and inputs.own_source.columns:
        return read_user_questions
    return make_questions_from_facts if inputs.from_wikidata else read_entity_questions


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def extract_question_entities(batch: StageBatch) -> BatchReceipt:
    """Extract the question entity from the question with the relation's template, unless the source names it (§3.1).

    With `answer_in_question` = drop, questions that contain their answer are dropped.
    """
    work = open_batch(batch)
    drops = work.inputs(GranolaInputs).params.answer_in_question == "drop"
    relations = load_packaged_and_user_relations(work.source_files(RELATION_FILE))
    outcomes: list[RowOutcome] = []
    for row in work.rows(SourceQuestion):
        entity = row.stated_subject or extract_subject_name(row.question, relations[row.relation])
        reason = ""
        if row.stated_subject and row.stated_subject not in row.question:
            reason, detail = "subject_not_in_question", f"does not contain its subject {row.stated_subject!r}"
        elif entity is None:
            reason, detail = "no_template_match", f"does not fit the template of {row.relation}"
        elif drops and contains_answer(row.question, row.answer):
            reason, detail = "answer_in_question", f"contains {row.answer!r}"
        outcomes.append(
            Reject(row.id, reason, f"{row.question!r} {detail}")
            if reason
            else row.extend_to(QuestionWithExtractedEntityName, question_entity=entity)
        )
    return work.finish(outcomes, QuestionWithExtractedEntityName)


def contains_answer(question: str, answer: str) -> bool:
    """Return whether a question contains its answer as whole words, also as a possessive: Euclid's Elements."""
    return f" {normalize_answer(answer)} " in f" {normalize_answer(_POSSESSIVE.sub('', question))} "


def _make_source_question(
    get_licence: Callable[[str], str], read: QuestionBeforeMergingEqual, row_id: str
) -> SourceQuestion:
    return SourceQuestion(
        id=row_id,
        relation=read.relation,
        question=read.question,
        answer=read.answer,
        source_name=read.source_name,
        source_row=read.source_row,
        source_licence=get_licence(read.source_name),
        subject_qid=read.fact.subject if read.fact else None,
        value_qid=read.fact.value if read.fact else None,
    )


def _get_source_licence(inputs: GranolaInputs, file: SourceFile) -> str:
    """Return the licence of a source file: the user's statement, or that of a known file."""
    return (inputs.own_source.licence if inputs.own_source else "") or file.licence
