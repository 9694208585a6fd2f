"""Steps of an evaluation on SLAQ: the questions short and long, a model's answers, and their verdicts (paper §4.1, Appendix A.2)."""

from functools import partial

from prefect import task

from tasks.assets import load_list
from tasks.core.receipts import Batch, Receipt
from tasks.core.rows import rows_from_arrow
from tasks.engine.batches import batch_key, work_on
from tasks.evaluation.answering import answer_questions, finish_asked, name_answerer
from tasks.evaluation.judging import Judged, judge_answers, name_judge
from tasks.evaluation.record import read_measured
from tasks.slaq.ask import SlaqEvaluationInputs, fill_judge_prompt, fill_prompt, list_questions
from tasks.slaq.core.answers import COUNTED_WRONG, JudgedSlaq, SlaqAnswer, SlaqAsked, guess, rank_golds
from tasks.slaq.core.exact import compare_answer
from tasks.slaq.core.known_text import read_lists
from tasks.slaq.core.rows import SlaqRow
from tasks.slaq.core.verdicts import VERDICT_LINE, Verdicts, read_verdicts

TABLE = "slaq"


@task(cache_key_fn=batch_key, persist_result=True)
def ask_slaq_questions(batch: Batch) -> Receipt:
    """List what is asked in one setting."""
    work = work_on(batch)
    inputs = work.inputs(SlaqEvaluationInputs).model_copy(update={"settings": (batch.unit,)})
    rows = read_measured(work, TABLE, SlaqRow)
    return finish_asked(work, list(list_questions(rows, inputs)), SlaqAsked)


@task(cache_key_fn=batch_key, persist_result=True)
def answer_slaq_questions(batch: Batch) -> Receipt:
    """Ask the model each question once, greedily (§4.1)."""
    work = work_on(batch)
    ranked = rank_golds(rows_from_arrow(SlaqRow, read_measured(work, TABLE, SlaqRow)))
    name = name_answerer(work)
    answers = answer_questions(
        work,
        work.rows(SlaqAsked),
        fill_prompt,
        oracle=lambda row: row.gold,
        guess=lambda row: guess(row, ranked),
    )
    return work.finish((given.extend(row, SlaqAnswer, name) for row, given in answers), SlaqAnswer)


@task(cache_key_fn=batch_key, persist_result=True)
def judge_slaq_answers(batch: Batch) -> Receipt:
    """Have short answers marked with one verdict and long ones with five (Table A.4)."""
    work = work_on(batch)
    rows = work.rows(SlaqAnswer)
    lists = read_lists((), (), load_list("function_words"))
    judged = judge_answers(
        work,
        [row for row in rows if not row.unscored],
        fill_judge_prompt,
        VERDICT_LINE,
        lambda row, texts: read_verdicts(texts[0], len(row.golds)),
        partial(compare_answer, lists=lists),
    )
    said = {row.id: verdict for row, verdict in judged}
    judge = name_judge(work)
    return work.finish((_mark(row, said.get(row.id), judge) for row in rows), JudgedSlaq)


def _mark(row: SlaqAnswer, judged: Judged[Verdicts] | None, judge: str) -> JudgedSlaq:
    if judged is None:
        wrong = [0] * len(row.golds) if row.unscored in COUNTED_WRONG else []
        return row.extend(JudgedSlaq, verdicts=wrong, judge=judge, judge_call="")
    return row.narrow(
        JudgedSlaq,
        verdicts=list(judged.verdict or ()),
        unscored=judged.unscored,
        detail=judged.detail,
        judge=judge,
        judge_call=judged.call,
    )
