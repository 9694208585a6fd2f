"""The steps of an evaluation, made of its record: Prefect tasks, one of each a benchmark."""

from collections.abc import Callable

import pyarrow as pa
from prefect import Task, task

from tasks.core.receipts import Batch, Receipt
from tasks.core.rows import arrow_table, rows_from_arrow
from tasks.engine.batches import Work, batch_key, work_on
from tasks.evaluation.answering import answer_at_once, name_answerer, sends_nothing
from tasks.evaluation.dialogues import hold_dialogues
from tasks.evaluation.judging import judge_rows
from tasks.evaluation.measured import gather_measured
from tasks.evaluation.record import Evaluation

Step = Task[[Batch], Receipt]


def _make_step(name: str, work: Callable[[Work], Receipt]) -> Step:
    def run(batch: Batch) -> Receipt:
        return work(work_on(batch))

    return task(name=name, cache_key_fn=batch_key, persist_result=True)(run)


def make_asking(evaluation: Evaluation) -> Step:
    """Return the step that lists what is asked in one setting: every question is a row that came in."""

    def ask(work: Work) -> Receipt:
        inputs = work.inputs(evaluation.inputs).model_copy(update={"settings": (work.batch.unit,)})
        asked = evaluation.list_questions(gather_measured(work, evaluation), inputs)
        work.rows_in = asked.num_rows
        return work.finish_table(asked, evaluation.asked)

    return _make_step(f"ask_{evaluation.of.name}_questions", ask)


def make_answering(evaluation: Evaluation) -> Step:
    """Return the step that puts each question to the model, once."""

    def answer(work: Work) -> Receipt:
        return work.finish_table(answer_asked(work, evaluation, work.table(evaluation.asked)), evaluation.answers)

    return _make_step(f"answer_{evaluation.of.name}_questions", answer)


def answer_asked(work: Work, evaluation: Evaluation, asked: pa.Table) -> pa.Table:
    """Return questions (rows of `asked`) with what was said to each (rows of `answers`)."""
    if sends_nothing(work):
        return answer_at_once(work, evaluation, asked)
    answered = hold_dialogues(work, evaluation, rows_from_arrow(evaluation.asked, asked))
    name = name_answerer(work)
    return arrow_table(evaluation.answers, (given.extend(row, evaluation.answers, name) for row, given in answered))


def make_judging(evaluation: Evaluation) -> Step:
    """Return the step that has answers judged; TypeError for an evaluation without a judge."""
    judging = evaluation.judging
    if judging is None:
        raise TypeError(f"{evaluation.name} has no judge")

    def judge(work: Work) -> Receipt:
        return work.finish(judge_rows(work, work.rows(evaluation.answers), judging), judging.row)

    return _make_step(f"judge_{evaluation.of.name}_answers", judge)


def make_scoring(evaluation: Evaluation) -> Step:
    """Return the step that gives each answer, judged where the evaluation has a judge, its scores."""

    def score(work: Work) -> Receipt:
        answers = work.table(evaluation.judging.row if evaluation.judging else evaluation.answers)
        return work.finish_table(
            evaluation.score(answers, work.inputs(evaluation.inputs), work.run.services), evaluation.row
        )

    return _make_step(f"score_{evaluation.of.name}_answers", score)
