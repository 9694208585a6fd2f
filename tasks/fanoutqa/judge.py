"""The judge step of FanOutQA: is a question objective, is it well worded? (Appendices B, F).

The judge of the wording also sees the steps to the answer: sub-questions, their answers, and the passage of the article
where the answer has a number. Its findings become flags for the review; a unit that it adds must stand in the articles.
A reply that is unreadable or empty is no finding: the question gets the flag `unscored`, with the reason. A row is
rejected only when the judge is unavailable.
"""

from collections.abc import Sequence

from prefect import task

from factmill.tasks.assets import load_prompt
from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.completions import UNREADABLE_COMPLETION_KINDS, UnreadableCompletion
from factmill.tasks.core.prompts import fill_prompt_template
from factmill.tasks.core.rows import Reject, RowOutcome
from factmill.tasks.engine.batches import BatchInProgress, ParsedCompletion, make_batch_cache_key, open_batch
from factmill.tasks.fanoutqa.core.judge_replies import (
    OBJECTIVITY_FORM,
    WORDING_FORM,
    WordingVerdict,
    describe_word_changes,
    read_last_reasoning_sentence,
    read_objectivity_verdict,
    read_wording_verdict,
)
from factmill.tasks.fanoutqa.core.questions import SubQuestion, dump_json, list_sub_questions
from factmill.tasks.fanoutqa.core.rows import FlaggedQuestion, QuestionFlag
from factmill.tasks.fanoutqa.core.wording_checks import (
    find_added_units,
    find_numeric_answer_passage,
    find_unit_support_problem,
)
from factmill.tasks.fanoutqa.params import FanOutInputs
from factmill.tasks.lookups.pinned_articles import load_article_texts

OBJECTIVE_PROMPT, WORDING_PROMPT = "fanoutqa/objective", "fanoutqa/wording"
_NOT_GIVEN = "not given"
"""Replaces an answer or a decomposition that is held back."""
AnswerSteps = Sequence[tuple[SubQuestion, str]]
"""(Sub-question, text of its article) each; the text is empty for a sub-question that rests on others."""


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def judge_questions(batch: StageBatch) -> BatchReceipt:
    """Let a model flag questions that are not objective, and correct grammar and units (Appendices F.1, F.2)."""
    work = open_batch(batch)
    rows = work.rows(FlaggedQuestion)
    objective, wording = load_prompt(OBJECTIVE_PROMPT), load_prompt(WORDING_PROMPT)
    epoch = work.inputs(FanOutInputs).epoch
    to_judge = [(row.id, row, fill_prompt_template(objective, question=row.question, epoch=epoch)) for row in rows]
    steps = _load_sub_questions_with_evidence_texts(work, rows)
    to_mend = [
        (
            row.id,
            row,
            fill_prompt_template(
                wording,
                question=row.question,
                answer=row.answer or _NOT_GIVEN,
                steps="\n".join(_format_sub_answer_with_found_passage(*each) for each in steps[row.id]) or _NOT_GIVEN,
            ),
        )
        for row in rows
    ]
    verdicts = work.prompt_model(
        "judge", to_judge, OBJECTIVITY_FORM, lambda _, texts: _read_objectivity_problem(texts[0])
    )
    wordings = work.prompt_model(
        "judge", to_mend, WORDING_FORM, lambda row, texts: read_wording_verdict(texts[0], row.question)
    )
    outcomes = (
        _add_judge_flags_or_reject(row, verdict, wording, steps[row.id])
        for (row, verdict), (_, wording) in zip(verdicts, wordings, strict=True)
    )
    return work.finish(outcomes, FlaggedQuestion)


def _load_sub_questions_with_evidence_texts(
    work: BatchInProgress, rows: Sequence[FlaggedQuestion]
) -> dict[str, AnswerSteps]:
    """Return row id → the steps to its answer."""
    subs = {row.id: [sub for _, sub in list_sub_questions(row.tree())] for row in rows}
    evidence = [(row_id, sub.evidence) for row_id, of in subs.items() for sub in of if sub.evidence]
    found = load_article_texts(work, ((row_id, each.title, each.revid) for row_id, each in evidence if each.revid))
    texts = {revid: text for revid, text in found.items() if isinstance(text, str)}
    return {
        row_id: [(sub, texts.get(sub.evidence.revid or 0, "") if sub.evidence else "") for sub in of]
        for row_id, of in subs.items()
    }


def _format_sub_answer_with_found_passage(sub: SubQuestion, text: str) -> str:
    passage = find_numeric_answer_passage(sub.answer, text)
    title = f" [{sub.evidence.title}]" if sub.evidence else ""
    return f"{sub.question} — {dump_json(sub.answer)}{title}{f': {passage}' if passage else ''}"


def _read_objectivity_problem(text: str) -> str | UnreadableCompletion | None:
    """Return why a question is not objective; None if it is."""
    verdict = read_objectivity_verdict(text)
    if isinstance(verdict, UnreadableCompletion):
        return verdict
    return None if verdict else read_last_reasoning_sentence(text) or "the judge says N and gives no reason"


def _add_judge_flags_or_reject(
    row: FlaggedQuestion,
    verdict: ParsedCompletion[str | None],
    wording: ParsedCompletion[WordingVerdict],
    steps: AnswerSteps,
) -> RowOutcome:
    flags = list(row.flags)
    for kind, found in (("objectivity", verdict.parsed), ("wording", wording.parsed)):
        if isinstance(found, Reject) and found.reason not in UNREADABLE_COMPLETION_KINDS:
            return found
        if isinstance(found, Reject):
            flags.append(QuestionFlag(code="unscored", path="", detail=f"{kind}: {found.detail}"))
        elif isinstance(found, str):
            flags.append(QuestionFlag(code="not_objective", path="", detail=found))
        elif found and found.kind != "fine":
            flags.append(_make_wording_flag(row.question, found, steps))
    return row.replace(flags=flags, judge=verdict.model)


def _make_wording_flag(question: str, found: WordingVerdict, steps: AnswerSteps) -> QuestionFlag:
    if found.kind == "flag":
        return QuestionFlag(code="cannot_be_mended", path="", detail=found.text)
    change = f"the judge {describe_word_changes(question, found.text)}"
    evidence = [(sub.evidence.title, sub.answer, text) for sub, text in steps if sub.evidence]
    unproven = [find_unit_support_problem(unit, evidence) for unit in find_added_units(question, found.text)]
    if lacking := [each for each in unproven if each]:
        return QuestionFlag(code="unproven_unit", path="", detail=f"{change}; {lacking[0]}", proposed=found.text)
    return QuestionFlag(code="wording", path="", detail=change, proposed=found.text)
