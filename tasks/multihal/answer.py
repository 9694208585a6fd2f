"""Steps of an evaluation on MultiHal: the questions in every language, alone and with their paths, and a model's answers (paper §3.1)."""

import pyarrow as pa
from prefect import task

from tasks.core.receipts import Batch, Receipt
from tasks.core.rows import rows_from_arrow
from tasks.engine.batches import batch_key, work_on
from tasks.evaluation.answering import answer_questions, finish_asked, name_answerer
from tasks.evaluation.record import read_measured
from tasks.multihal.ask import MultiHalEvaluationInputs, fill_prompt, list_questions
from tasks.multihal.core.answers import ANSWER, MultiHalAnswer, MultiHalAsked, ScoredMultiHal, guess_answers
from tasks.multihal.core.rows import MultiHalRow
from tasks.multihal.core.similarity import score_answers

TABLE = "multihal"


@task(cache_key_fn=batch_key, persist_result=True)
def ask_multihal_questions(batch: Batch) -> Receipt:
    """List what is asked in one setting."""
    work = work_on(batch)
    inputs = work.inputs(MultiHalEvaluationInputs).model_copy(update={"settings": (batch.unit,)})
    rows = read_measured(work, TABLE, MultiHalRow)
    return finish_asked(work, list(list_questions(rows, inputs)), MultiHalAsked)


@task(cache_key_fn=batch_key, persist_result=True)
def answer_multihal_questions(batch: Batch) -> Receipt:
    """Ask the model each question once (§3.1)."""
    work = work_on(batch)
    guesses = guess_answers(rows_from_arrow(MultiHalRow, read_measured(work, TABLE, MultiHalRow)))
    name = name_answerer(work)
    answers = answer_questions(
        work,
        work.rows(MultiHalAsked),
        fill_prompt,
        oracle=lambda row: row.accepted[0],
        guess=lambda row: guesses[row.cluster, row.language],
        form=ANSWER,
    )
    return work.finish((given.extend(row, MultiHalAnswer, name) for row, given in answers), MultiHalAnswer)


@task(cache_key_fn=batch_key, persist_result=True)
def score_multihal_answers(batch: Batch) -> Receipt:
    """Give each answer its semantic score: the cosine with the nearest accepted answer (§3.1)."""
    work = work_on(batch)
    answers = work.table(MultiHalAnswer)
    said: list[str] = answers["answer_read"].to_pylist()
    accepted: list[list[str]] = answers["accepted"].to_pylist()
    texts = sorted({*said, *(text for each in accepted for text in each)})
    embedder = work.run.services.embedder()
    scores, nearest = score_answers(said, accepted, texts, embedder.encode(texts))
    values = pa.array(scores, from_pandas=True)
    for name, column in (("semantic_score", values), ("nearest", nearest), ("encoder", [embedder.name] * len(said))):
        answers = answers.append_column(name, pa.array(column) if isinstance(column, list) else column)
    return work.finish_table(answers, ScoredMultiHal)
