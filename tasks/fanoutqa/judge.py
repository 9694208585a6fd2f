"""The judge step of FanOutQA: is a question objective, is it well worded? (Appendices B, F).

The judge of the wording also sees the steps to the answer: sub-questions, their answers, and the passage of the article
where the answer has a number. Its findings become flags for the review; a unit that it adds must stand in the articles.
A reply that is unreadable or empty is no finding: the question gets the flag `unscored`, with the reason. A row is
rejected only when the judge is unavailable.
"""

from collections.abc import Iterator, Mapping, Sequence

from prefect import task

from factmill.tasks.assets import load_prompt
from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.completions import UNREADABLE_COMPLETION_KINDS, UnreadableCompletion
from factmill.tasks.core.prompts import FilledPrompt, PromptTemplate, fill_prompt_template
from factmill.tasks.core.rows import Reject, RowOutcome
from factmill.tasks.engine.batches import BatchWork, ParsedCompletion, make_batch_cache_key, open_batch
from factmill.tasks.fanoutqa.core.judge_replies import (
    OBJECTIVITY_FORM,
    WORDING_FORM,
    WordingVerdict,
    format_wording_change,
    read_objectivity_reason,
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
from factmill.tasks.lookups.pinned_articles import MissingArticleReason, load_article_texts

OBJECTIVE_PROMPT, WORDING_PROMPT = "fanoutqa/objective", "fanoutqa/wording"
_NOT_GIVEN = "not given"
"""Replaces an answer or a decomposition that is held back."""
AnswerSteps = Sequence[tuple[SubQuestion, str, str]]
"""(Sub-question, title, text) each; title and text are empty for a sub-question that rests on others."""


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def judge_questions(batch: StageBatch) -> BatchReceipt:
    """Let a model flag questions that are not objective, and correct grammar and units (Appendices F.1, F.2)."""
    work = open_batch(batch)
    rows = work.rows(FlaggedQuestion)
    objective, wording = load_prompt(OBJECTIVE_PROMPT), load_prompt(WORDING_PROMPT)
    epoch = work.inputs(FanOutInputs).epoch
    to_judge = [(row.id, row, fill_prompt_template(objective, question=row.question, epoch=epoch)) for row in rows]
    steps = _load_answer_steps(work, rows)
    to_mend = [(row.id, row, _fill_judge_wording_prompt(wording, row, steps[row.id])) for row in rows]
    verdicts = [
        answer for _, answer in work.prompt_model("judge", to_judge, OBJECTIVITY_FORM, _read_objectivity_problem)
    ]
    wordings = [answer for _, answer in work.prompt_model("judge", to_mend, WORDING_FORM, _read_wording_judgement)]
    outcomes = (
        _add_judge_flags_or_reject(row, verdict, wording, steps[row.id])
        for row, verdict, wording in zip(rows, verdicts, wordings, strict=True)
    )
    return work.finish(outcomes, FlaggedQuestion)


def _load_answer_steps(work: BatchWork, rows: Sequence[FlaggedQuestion]) -> dict[str, AnswerSteps]:
    """Return row id → the steps to its answer."""
    subs = {row.id: [sub for _, sub in list_sub_questions(row.tree())] for row in rows}
    evidence = [(row_id, sub.evidence) for row_id, of in subs.items() for sub in of if sub.evidence]
    texts = load_article_texts(work, ((row_id, each.title, each.revid) for row_id, each in evidence if each.revid))
    return {row_id: [_make_answer_step(sub, texts) for sub in of] for row_id, of in subs.items()}


def _make_answer_step(
    sub: SubQuestion, texts: Mapping[int, str | MissingArticleReason]
) -> tuple[SubQuestion, str, str]:
    if sub.evidence is None:
        return sub, "", ""
    text = texts.get(sub.evidence.revid or 0)
    return sub, sub.evidence.title, text if isinstance(text, str) else ""


def _fill_judge_wording_prompt(prompt: PromptTemplate, row: FlaggedQuestion, steps: AnswerSteps) -> FilledPrompt:
    step_lines = "\n".join(_format_answer_steps(steps)) or _NOT_GIVEN
    return fill_prompt_template(prompt, question=row.question, answer=row.answer or _NOT_GIVEN, steps=step_lines)


def _format_answer_steps(steps: AnswerSteps) -> Iterator[str]:
    for sub, title, text in steps:
        passage = find_numeric_answer_passage(sub.answer, text)
        suffix = f" [{title}]" if title else ""
        yield f"{sub.question} — {dump_json(sub.answer)}{suffix}{f': {passage}' if passage else ''}"


def _read_objectivity_problem(_row: FlaggedQuestion, texts: Sequence[str]) -> str | UnreadableCompletion | None:
    """Return why a question is not objective; None if it is."""
    verdict = read_objectivity_verdict(texts[0])
    if isinstance(verdict, UnreadableCompletion):
        return verdict
    return None if verdict else read_objectivity_reason(texts[0]) or "the judge says N and gives no reason"


def _read_wording_judgement(row: FlaggedQuestion, texts: Sequence[str]) -> WordingVerdict | UnreadableCompletion:
    return read_wording_verdict(texts[0], row.question)


def _add_judge_flags_or_reject(
    row: FlaggedQuestion,
    verdict: ParsedCompletion[str | None],
    wording: ParsedCompletion[WordingVerdict],
    steps: AnswerSteps,
) -> RowOutcome:
    flags = list(row.flags)
    answers: tuple[tuple[str, ParsedCompletion[str | None] | ParsedCompletion[WordingVerdict]], ...] = (
        ("objectivity", verdict),
        ("wording", wording),
    )
    for kind, answer in answers:
        if not isinstance(answer.parsed, Reject):
            flags += _make_judge_flags(row.question, answer.parsed, steps)
        elif answer.parsed.reason in UNREADABLE_COMPLETION_KINDS:
            flags.append(QuestionFlag(code="unscored", path="", detail=f"{kind}: {answer.parsed.detail}"))
        else:
            return answer.parsed
    return row.replace(flags=flags, judge=verdict.model)


def _make_judge_flags(question: str, found: str | WordingVerdict | None, steps: AnswerSteps) -> list[QuestionFlag]:
    if isinstance(found, str):
        return [QuestionFlag(code="not_objective", path="", detail=found)]
    if found is None or found.kind == "fine":
        return []
    if found.kind == "flag":
        return [QuestionFlag(code="cannot_be_mended", path="", detail=found.text)]
    change = f"the judge {format_wording_change(question, found.text)}"
    evidence = [(title, sub.answer, text) for sub, title, text in steps if title]
    unproven = [find_unit_support_problem(unit, evidence) for unit in find_added_units(question, found.text)]
    if lacking := [each for each in unproven if each]:
        return [QuestionFlag(code="unproven_unit", path="", detail=f"{change}; {lacking[0]}", proposed=found.text)]
    return [QuestionFlag(code="wording", path="", detail=change, proposed=found.text)]
