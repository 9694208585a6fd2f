"""The judge's look at fan-out questions: can one be answered objectively, is it well worded? (FanOutQA, Appendices B, F).

What the judge finds becomes flags, for the review. A reply that cannot be read, or says nothing, is no finding: the
question is flagged as unscored, with the reason. Only a judge that cannot be had costs the row.
"""

from collections.abc import Sequence

from prefect import task

from tasks.assets import load_prompt
from tasks.core.prompts import fill_in
from tasks.core.receipts import Batch, Receipt
from tasks.core.replies import UNREADABLE_KINDS, Unreadable
from tasks.core.rows import Outcome, Reject
from tasks.engine.batches import Answered, batch_key, work_on
from tasks.fanoutqa.core.replies import (
    OBJECTIVITY,
    REWRITE,
    WordingReply,
    describe_change,
    read_reason,
    read_verdict,
    read_wording,
)
from tasks.fanoutqa.core.rows import Flag, FlaggedQuestion
from tasks.fanoutqa.params import FanOutInputs

OBJECTIVE, WORDING = "fanoutqa/objective", "fanoutqa/wording"
_NO_ANSWER = "not given"
"""Stands in the place of an answer that is held back."""


@task(cache_key_fn=batch_key, persist_result=True)
def judge_questions(batch: Batch) -> Receipt:
    """Have a model flag questions that are not objective, and mend grammar and units (Appendices F.1, F.2)."""
    work = work_on(batch)
    rows = work.rows(FlaggedQuestion)
    objective, wording = load_prompt(OBJECTIVE), load_prompt(WORDING)
    epoch = work.inputs(FanOutInputs).epoch
    to_judge = [(row.id, row, fill_in(objective, question=row.question, epoch=epoch)) for row in rows]
    to_mend = [(row.id, row, fill_in(wording, question=row.question, answer=row.answer or _NO_ANSWER)) for row in rows]
    verdicts = [answer for _, answer in work.ask("judge", to_judge, OBJECTIVITY, _read_objective)]
    wordings = [answer for _, answer in work.ask("judge", to_mend, REWRITE, _read_wording)]
    return work.finish(map(_flag, rows, verdicts, wordings), FlaggedQuestion)


def _read_objective(_row: FlaggedQuestion, texts: Sequence[str]) -> str | Unreadable | None:
    """Return why a question is not objective, None where it is."""
    verdict = read_verdict(texts[0])
    if isinstance(verdict, Unreadable):
        return verdict
    return None if verdict else read_reason(texts[0]) or "the judge says N and gives no reason"


def _read_wording(row: FlaggedQuestion, texts: Sequence[str]) -> WordingReply | Unreadable:
    return read_wording(texts[0], row.question)


def _flag(row: FlaggedQuestion, verdict: Answered[str | None], wording: Answered[WordingReply]) -> Outcome:
    flags = list(row.flags)
    answers: tuple[tuple[str, Answered[str | None] | Answered[WordingReply]], ...] = (
        ("objectivity", verdict),
        ("wording", wording),
    )
    for kind, answer in answers:
        if not isinstance(answer.read, Reject):
            flags += _list_flags(row.question, answer.read)
        elif answer.read.reason in UNREADABLE_KINDS:
            flags.append(Flag(code="unscored", path="", detail=f"{kind}: {answer.read.detail}"))
        else:
            return answer.read
    return row.replace(flags=flags, judge=verdict.model)


def _list_flags(question: str, found: str | WordingReply | None) -> list[Flag]:
    if isinstance(found, str):
        return [Flag(code="not_objective", path="", detail=found)]
    if found is None or found.kind == "fine":
        return []
    if found.kind == "flag":
        return [Flag(code="cannot_be_mended", path="", detail=found.text)]
    told = f"the judge {describe_change(question, found.text)}"
    return [Flag(code="wording", path="", detail=told, proposed=found.text)]
