"""The step that words generated questions: a model makes one sentence of a question's pieces (FanOutQA, §3.1)."""

import json
from collections.abc import Mapping, Sequence

from prefect import task

from tasks.assets import load_prompt
from tasks.core.authoring.fanout_wording import WORDED, Wording, check_worded
from tasks.core.prompts import Ask, Prompt, fill_in
from tasks.core.receipts import Batch, Receipt
from tasks.core.replies import Unreadable
from tasks.core.rows import Outcome, Reject
from tasks.engine.batches import Answered, batch_key, work_on
from tasks.fanoutqa.core.rows import FanOutRow
from tasks.fanoutqa.core.wordings import find_additions

WORD = "fanoutqa/word_question"


@task(cache_key_fn=batch_key, persist_result=True)
def word_questions(batch: Batch) -> Receipt:
    """Have generated questions worded, and check that each keeps to its pieces and its answer to itself; others pass."""
    work = work_on(batch)
    rows = work.rows(FanOutRow)
    prompt = load_prompt(WORD)
    asked = [(row.id, row, _ask(prompt, Wording.load(row.wording))) for row in rows if row.wording]
    worded = {row.id: answer for row, answer in work.ask("author", asked, WORDED, _read_question)}
    return work.finish((_word(row, worded) for row in rows), FanOutRow)


def _ask(prompt: Prompt, wording: Wording) -> Ask:
    return fill_in(
        prompt,
        group=wording.group,
        names="; ".join(wording.names),
        choice=wording.format_choice(),
        asked=wording.asked,
    )


def _read_question(row: FanOutRow, texts: Sequence[str]) -> str | Unreadable:
    wording = Wording.load(row.wording or "")
    question = check_worded(texts[0], wording, json.loads(row.answer or ""))
    if isinstance(question, Unreadable):
        return question
    added = find_additions(question, wording)
    return Unreadable(f"the question {added}") if added else question


def _word(row: FanOutRow, worded: Mapping[str, Answered[str]]) -> Outcome:
    answer = worded.get(row.id)
    if answer is None:
        return row
    return answer.read if isinstance(answer.read, Reject) else row.replace(question=answer.read, author=answer.model)
