"""First stages of GRANOLA-EQ: questions from EntityQuestions files or Wikidata facts (paper §3.2, Appendix B)."""

import re

from prefect import Task, task

from factmill.tasks.assets import load_relations
from factmill.tasks.core.fingerprints import canonical_json
from factmill.tasks.core.receipts import Batch, Receipt
from factmill.tasks.core.relations import cut_entity
from factmill.tasks.core.rows import Outcome, Reject
from factmill.tasks.engine.batches import batch_key, work_on
from factmill.tasks.granola.core.rows import EntityQuestion, SourceQuestion
from factmill.tasks.granola.params import GranolaInputs
from factmill.tasks.granola.sources.entity_questions import read_questions
from factmill.tasks.lookups.facts import take_facts
from factmill.tasks.lookups.questions import ReadQuestion, make_fact_questions, unite_questions
from factmill.tasks.text.matching import normalise

_POSSESSIVE = re.compile(r"['’]s?(?=\s)")


@task(cache_key_fn=batch_key, persist_result=True)
def read_entity_questions(batch: Batch) -> Receipt:
    """Read one relation's questions from its files (§3.2); keep those with exactly one gold answer."""
    work = work_on(batch)
    read: list[ReadQuestion | Reject] = []
    limit = work.inputs(GranolaInputs).limits[batch.unit]
    for file in work.files(batch.unit):
        left = None if limit is None else max(limit - work.rows_in, 0)
        for raw in read_questions(file)[:left]:
            row_id = f"{file.name}:{raw.row}"
            work.take(row_id, canonical_json({"question": raw.question, "answers": raw.answers}))
            if raw.problem:
                read.append(Reject(row_id, "malformed_row", raw.problem))
            elif len(set(raw.answers)) != 1:
                reason = "several_gold_answers" if raw.answers else "no_gold_answer"
                read.append(Reject(row_id, reason, f"{raw.question} {list(raw.answers)}"))
            else:
                read.append(ReadQuestion(row_id, batch.unit, raw.question, raw.answers[0], file.name, raw.row))
    return work.finish(unite_questions(read, _keep), SourceQuestion)


@task(cache_key_fn=batch_key, persist_result=True)
def draw_questions(batch: Batch) -> Receipt:
    """Make one relation's questions from facts of the world's Wikidata, with the relation's template (§3.2).

    A row is a fact. A subject with several values would give several gold answers and is rejected.
    """
    work = work_on(batch)
    facts = take_facts(work, batch.unit, work.inputs(GranolaInputs).limits[batch.unit], several="reject")
    made = make_fact_questions(
        facts, {pid: each.template for pid, each in load_relations().items()}, work.run.services.wikidata.identity
    )
    return work.finish(unite_questions(made, _keep), SourceQuestion)


def choose_reading(inputs: GranolaInputs) -> Task[[Batch], Receipt]:
    """Return the stage that reads questions from the build's source."""
    return draw_questions if inputs.from_wikidata else read_entity_questions


@task(cache_key_fn=batch_key, persist_result=True)
def cut_question_entities(batch: Batch) -> Receipt:
    """Extract the question entity from the question with the relation's template (§3.1).

    With `answer_in_question` = drop, questions that contain their answer are dropped.
    """
    work = work_on(batch)
    drops = work.inputs(GranolaInputs).params.answer_in_question == "drop"
    outcomes: list[Outcome] = []
    for row in work.rows(SourceQuestion):
        entity = cut_entity(row.question, load_relations()[row.relation])
        if entity is None:
            outcomes.append(
                Reject(row.id, "no_template_match", f"{row.question!r} does not fit the template of {row.relation}")
            )
        elif drops and contains_answer(row.question, row.answer):
            outcomes.append(Reject(row.id, "answer_in_question", f"{row.question!r} contains {row.answer!r}"))
        else:
            outcomes.append(row.extend(EntityQuestion, question_entity=entity))
    return work.finish(outcomes, EntityQuestion)


def contains_answer(question: str, answer: str) -> bool:
    """Return whether a question contains its answer as whole words, also as a possessive: Euclid's Elements."""
    return f" {normalise(answer)} " in f" {normalise(_POSSESSIVE.sub('', question))} "


def _keep(read: ReadQuestion, row_id: str) -> SourceQuestion:
    return SourceQuestion(
        id=row_id,
        relation=read.relation,
        question=read.question,
        answer=read.answer,
        source_name=read.source_name,
        source_row=read.source_row,
        subject_qid=read.fact.subject if read.fact else None,
        value_qid=read.fact.value if read.fact else None,
    )
