"""The judge step of FanOutQA: is a question objective, is it well worded? (Appendices B, F).

The judge of the wording also sees the steps to the answer: sub-questions, their answers, and the passage of the article
where the answer has a number. Its findings become flags for the review; a unit that it adds must stand in the articles.
A reply that is unreadable or empty is no finding: the question gets the flag `unscored`, with the reason. A row is
rejected only when the judge is unavailable.
"""

from collections.abc import Iterator, Mapping, Sequence

from prefect import task

from factmill.tasks.assets import load_prompt
from factmill.tasks.core.prompts import Ask, Prompt, fill_in
from factmill.tasks.core.receipts import Batch, Receipt
from factmill.tasks.core.replies import UNREADABLE_KINDS, Unreadable
from factmill.tasks.core.rows import Outcome, Reject
from factmill.tasks.engine.batches import Answered, Work, batch_key, work_on
from factmill.tasks.fanoutqa.core.questions import SubQuestion, dump_json, list_sub_questions
from factmill.tasks.fanoutqa.core.replies import (
    OBJECTIVITY,
    REWRITE,
    WordingReply,
    describe_change,
    read_reason,
    read_verdict,
    read_wording,
)
from factmill.tasks.fanoutqa.core.rows import Flag, FlaggedQuestion
from factmill.tasks.fanoutqa.core.wordings import find_added_units, find_passage, find_unproven
from factmill.tasks.fanoutqa.params import FanOutInputs
from factmill.tasks.lookups.evidence import Unpinned, load_article_texts

OBJECTIVE, WORDING = "fanoutqa/objective", "fanoutqa/wording"
_NO_ANSWER = "not given"
"""Replaces an answer or a decomposition that is held back."""
Steps = Sequence[tuple[SubQuestion, str, str]]
"""(Sub-question, title, text) each; title and text are empty for a sub-question that rests on others."""


@task(cache_key_fn=batch_key, persist_result=True)
def judge_questions(batch: Batch) -> Receipt:
    """Let a model flag questions that are not objective, and correct grammar and units (Appendices F.1, F.2)."""
    work = work_on(batch)
    rows = work.rows(FlaggedQuestion)
    objective, wording = load_prompt(OBJECTIVE), load_prompt(WORDING)
    epoch = work.inputs(FanOutInputs).epoch
    to_judge = [(row.id, row, fill_in(objective, question=row.question, epoch=epoch)) for row in rows]
    steps = _load_steps(work, rows)
    to_mend = [(row.id, row, _ask_for_wording(wording, row, steps[row.id])) for row in rows]
    verdicts = [answer for _, answer in work.ask("judge", to_judge, OBJECTIVITY, _read_objective)]
    wordings = [answer for _, answer in work.ask("judge", to_mend, REWRITE, _read_wording)]
    outcomes = (
        _flag(row, verdict, said, steps[row.id]) for row, verdict, said in zip(rows, verdicts, wordings, strict=True)
    )
    return work.finish(outcomes, FlaggedQuestion)


def _load_steps(work: Work, rows: Sequence[FlaggedQuestion]) -> dict[str, Steps]:
    """Return row id → the steps to its answer."""
    subs = {row.id: [sub for _, sub in list_sub_questions(row.tree())] for row in rows}
    evidence = [(row_id, sub.evidence) for row_id, of in subs.items() for sub in of if sub.evidence]
    texts = load_article_texts(work, ((row_id, each.revid) for row_id, each in evidence if each.revid))
    return {row_id: [_find_step(sub, texts) for sub in of] for row_id, of in subs.items()}


def _find_step(sub: SubQuestion, texts: Mapping[int, str | Unpinned]) -> tuple[SubQuestion, str, str]:
    if sub.evidence is None:
        return sub, "", ""
    text = texts.get(sub.evidence.revid or 0)
    return sub, sub.evidence.title, text if isinstance(text, str) else ""


def _ask_for_wording(prompt: Prompt, row: FlaggedQuestion, steps: Steps) -> Ask:
    told = "\n".join(_format_steps(steps)) or _NO_ANSWER
    return fill_in(prompt, question=row.question, answer=row.answer or _NO_ANSWER, steps=told)


def _format_steps(steps: Steps) -> Iterator[str]:
    for sub, title, text in steps:
        passage = find_passage(sub.answer, text)
        told = f" [{title}]" if title else ""
        yield f"{sub.question} — {dump_json(sub.answer)}{told}{f': {passage}' if passage else ''}"


def _read_objective(_row: FlaggedQuestion, texts: Sequence[str]) -> str | Unreadable | None:
    """Return why a question is not objective; None if it is."""
    verdict = read_verdict(texts[0])
    if isinstance(verdict, Unreadable):
        return verdict
    return None if verdict else read_reason(texts[0]) or "the judge says N and gives no reason"


def _read_wording(row: FlaggedQuestion, texts: Sequence[str]) -> WordingReply | Unreadable:
    return read_wording(texts[0], row.question)


def _flag(
    row: FlaggedQuestion, verdict: Answered[str | None], wording: Answered[WordingReply], steps: Steps
) -> Outcome:
    flags = list(row.flags)
    answers: tuple[tuple[str, Answered[str | None] | Answered[WordingReply]], ...] = (
        ("objectivity", verdict),
        ("wording", wording),
    )
    for kind, answer in answers:
        if not isinstance(answer.read, Reject):
            flags += _list_flags(row.question, answer.read, steps)
        elif answer.read.reason in UNREADABLE_KINDS:
            flags.append(Flag(code="unscored", path="", detail=f"{kind}: {answer.read.detail}"))
        else:
            return answer.read
    return row.replace(flags=flags, judge=verdict.model)


def _list_flags(question: str, found: str | WordingReply | None, steps: Steps) -> list[Flag]:
    if isinstance(found, str):
        return [Flag(code="not_objective", path="", detail=found)]
    if found is None or found.kind == "fine":
        return []
    if found.kind == "flag":
        return [Flag(code="cannot_be_mended", path="", detail=found.text)]
    told = f"the judge {describe_change(question, found.text)}"
    evidence = [(title, sub.answer, text) for sub, title, text in steps if title]
    unproven = [find_unproven(unit, evidence) for unit in find_added_units(question, found.text)]
    if lacking := [each for each in unproven if each]:
        return [Flag(code="unproven_unit", path="", detail=f"{told}; {lacking[0]}", proposed=found.text)]
    return [Flag(code="wording", path="", detail=told, proposed=found.text)]
