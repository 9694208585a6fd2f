"""The first steps of GRANOLA-EQ: questions from EntityQuestions files or from facts (paper §3.2, Appendix B)."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from prefect import task

from tasks.assets import load_relations
from tasks.core.fingerprints import canonical_json, digest_json
from tasks.core.receipts import Batch, Receipt
from tasks.core.relations import cut_entity, make_question
from tasks.core.rows import Merged, Outcome, Reject
from tasks.engine.batches import batch_key, work_on
from tasks.granola.core.rows import EntityQuestion, SourceQuestion
from tasks.granola.disambiguate import name_items
from tasks.granola.params import GranolaInputs
from tasks.granola.sources.entity_questions import read_questions
from tasks.lookups.facts import list_facts
from tasks.text.matching import normalise

_POSSESSIVE = re.compile(r"['’]s?(?=\s)")


@dataclass(frozen=True, slots=True)
class Read:
    """What a SourceQuestion is made of: all of a relation are held until it is known which say the same."""

    id: str
    question: str
    answer: str
    source_name: str
    source_row: int
    subject_qid: str | None = None
    value_qid: str | None = None


@task(cache_key_fn=batch_key, persist_result=True)
def read_entity_questions(batch: Batch) -> Receipt:
    """Read one relation's questions from its files (§3.2); keep those with exactly one gold answer."""
    work = work_on(batch)
    read: list[Read] = []
    outcomes: list[Outcome] = []
    limit = work.inputs(GranolaInputs).limits[batch.unit]
    for file in work.files(batch.unit):
        left = None if limit is None else max(limit - work.rows_in, 0)
        for raw in read_questions(file)[:left]:
            row_id = f"{file.name}:{raw.row}"
            work.take(row_id, canonical_json({"question": raw.question, "answers": raw.answers}))
            if raw.problem:
                outcomes.append(Reject(row_id, "malformed_row", raw.problem))
            elif len(set(raw.answers)) != 1:
                reason = "several_gold_answers" if raw.answers else "no_gold_answer"
                outcomes.append(Reject(row_id, reason, f"{raw.question} {list(raw.answers)}"))
            else:
                read.append(Read(row_id, raw.question, raw.answers[0], file.name, raw.row))
    return work.finish(chain(outcomes, unite_questions(batch.unit, read)), SourceQuestion)


@task(cache_key_fn=batch_key, persist_result=True)
def draw_questions(batch: Batch) -> Receipt:
    """Make one relation's questions from the facts of the world's Wikidata, by the relation's template (§3.2).

    A row is a fact; a subject with several values gives a question with several gold answers, which is not kept.
    """
    work = work_on(batch)
    facts = list_facts(work, batch.unit, work.inputs(GranolaInputs).limits[batch.unit])
    wikidata, relation = work.run.services.wikidata.identity, load_relations()[batch.unit]
    names, failed = name_items(work, ((f"{batch.unit}-{'-'.join(fact)}", qid) for fact in facts for qid in fact))
    values = Counter(subject for subject, _ in {*facts})
    read: list[Read] = []
    outcomes: list[Outcome] = []
    for number, (subject, value) in enumerate(facts, start=1):
        fact_id = f"{batch.unit}-{subject}-{value}"
        work.take(fact_id, canonical_json({"subject": subject, "relation": batch.unit, "value": value}))
        if fact_id in failed:
            outcomes.append(failed[fact_id])
        elif not (name := names[subject]) or not (answer := names[value]):
            missing = value if names[subject] else subject
            outcomes.append(Reject(fact_id, "item_without_label", f"{missing} has no English label"))
        elif values[subject] > 1:
            outcomes.append(
                Reject(fact_id, "several_gold_answers", f"{subject} has {values[subject]} values of {batch.unit}")
            )
        else:
            source = f"{wikidata} {subject} {batch.unit} {value}"
            read.append(Read(fact_id, make_question(relation, name), answer, source, number, subject, value))
    return work.finish(chain(outcomes, unite_questions(batch.unit, read)), SourceQuestion)


@task(cache_key_fn=batch_key, persist_result=True)
def cut_question_entities(batch: Batch) -> Receipt:
    """Cut the question entity out of the question by the relation's template (§3.1).

    A question that contains its answer is dropped where the parameters say so.
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


def question_id(relation: str, question: str, answers: Sequence[str]) -> str:
    """Return a row's id: its relation and a digest of its content, so that ids stay when rows are added."""
    return f"{relation}-{digest_json([question, sorted(answers)])[:12]}"


def contains_answer(question: str, answer: str) -> bool:
    """Return whether a question contains its answer, word by word, also as a possessive: Euclid's Elements by Euclid."""
    return f" {normalise(answer)} " in f" {normalise(_POSSESSIVE.sub('', question))} "


def unite_questions(relation: str, read: Sequence[Read]) -> Iterator[Outcome]:
    """Unite rows that say the same, and reject a question that different rows answer differently.

    A question is kept once, under its content's id; the first row that asks it stands for it.
    """
    first: dict[str, str] = {}
    several: dict[str, set[str]] = {}
    for each in read:
        if (answer := first.setdefault(each.question, each.answer)) != each.answer:
            several.setdefault(each.question, {answer}).add(each.answer)
    kept: set[str] = set()
    for each in read:
        row_id = question_id(relation, each.question, [each.answer])
        if answers := several.get(each.question):
            yield Reject(each.id, "several_gold_answers", f"{each.question} {sorted(answers)}")
        elif row_id in kept:
            yield Merged(each.id, row_id)
        else:
            kept.add(row_id)
            yield SourceQuestion(
                id=row_id,
                relation=relation,
                question=each.question,
                answer=each.answer,
                source_name=each.source_name,
                source_row=each.source_row,
                subject_qid=each.subject_qid,
                value_qid=each.value_qid,
            )
