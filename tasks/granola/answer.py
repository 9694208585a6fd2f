"""Steps of an evaluation on GRANOLA-EQ: the questions in each setting, a model's answers, what they are worth (paper §2.2, §4, §5.1)."""

from collections.abc import Callable, Sequence

import pyarrow as pa
from prefect import task

from tasks.assets import load_prompt
from tasks.core.evaluation.given import Given
from tasks.core.prompts import Ask
from tasks.core.receipts import Batch, Receipt
from tasks.core.rows import rows_from_arrow
from tasks.engine.batches import Work, batch_key, work_on
from tasks.evaluation.answering import (
    answer_at_once,
    ask_model,
    finish_asked,
    name_answerer,
    sends_nothing,
)
from tasks.evaluation.record import read_measured
from tasks.granola.core.answers import choose_majority, read_answer
from tasks.granola.core.evaluation_rows import GranolaAnswer, GranolaAsked, GranolaGiven
from tasks.granola.core.rows import GranolaRow
from tasks.granola.core.scoring import find_commonest, find_cosines, score_answers
from tasks.granola.core.settings import AGGREGATE, ask_aggregate
from tasks.granola.evaluation import GranolaEvaluationInputs, ask_all, fill_prompt
from tasks.models.embed import Embedder

TABLE = "granola_eq"


@task(cache_key_fn=batch_key, persist_result=True)
def ask_granola_questions(batch: Batch) -> Receipt:
    """List what is asked in one setting."""
    work = work_on(batch)
    rows = read_measured(work, TABLE, GranolaRow)
    return finish_asked(work, ask_all(rows, work.inputs(GranolaEvaluationInputs), batch.unit), GranolaAsked)


@task(cache_key_fn=batch_key, persist_result=True)
def answer_granola_questions(batch: Batch) -> Receipt:
    """Ask the model as each setting has it (§5.1); in drag it then puts its own answers together (§4)."""
    work = work_on(batch)
    asked = work.table(GranolaAsked)
    if sends_nothing(work):
        answered = answer_at_once(
            work, asked, lambda: _list_golds(asked), lambda: _list_guesses(work, asked), read_answer
        )
        return work.finish_table(answered, GranolaGiven)
    rows, prompt = rows_from_arrow(GranolaAsked, asked), load_prompt(AGGREGATE)
    params = work.inputs(GranolaEvaluationInputs).params
    first = _ask(work, rows, lambda row: fill_prompt(row, params))
    drawn = {row_id: [read_answer(text) for text in given.read] for row_id, given in first.items()}
    several = [row for row in rows if row.setting == "drag" and len(drawn[row.id]) > 1 and any(drawn[row.id])]
    last = _ask(work, several, lambda row: ask_aggregate(prompt, row.question, drawn[row.id]))
    name = name_answerer(work)
    return work.finish(
        (_settle(row, first[row.id], drawn[row.id], last.get(row.id), name) for row in rows), GranolaGiven
    )


@task(cache_key_fn=batch_key, persist_result=True)
def score_granola_answers(batch: Batch) -> Receipt:
    """Find the level that each answer matches (Definition 1), and how near it is to the gold answer (§5.4)."""
    work = work_on(batch)
    params = work.inputs(GranolaEvaluationInputs).params
    answers = score_answers(work.table(GranolaGiven), params.tau)
    similarity, encoder = pa.nulls(answers.num_rows, pa.float64()), ""
    if params.similarity:
        embedder = work.run.services.embedder()
        similarity, encoder = _compare(answers, embedder), embedder.name
    answers = answers.append_column("semantic_similarity", similarity)
    return work.finish_table(answers.append_column("encoder", pa.repeat(encoder, answers.num_rows)), GranolaAnswer)


def _ask(work: Work, rows: Sequence[GranolaAsked], fill: Callable[[GranolaAsked], Ask]) -> dict[str, Given]:
    return {row.id: given for row, given in ask_model(work, rows, fill)}


def _list_golds(asked: pa.Table) -> list[str]:
    return [levels[0] for levels in asked["granola_answers"].to_pylist()]


def _list_guesses(work: Work, asked: pa.Table) -> list[str]:
    rows = read_measured(work, TABLE, GranolaRow)
    commonest = find_commonest(rows["relation"].to_pylist(), rows["granola_answers"].to_pylist())
    return [commonest[relation] for relation in asked["relation"].to_pylist()]


def _settle(row: GranolaAsked, first: Given, drawn: Sequence[str], last: Given | None, name: str) -> GranolaGiven:
    """Return the row of an answer; `last`: what the model made of those drawn, where it was asked to."""
    if last is not None:
        return last.extend(
            row,
            GranolaGiven,
            name,
            answer_read=read_answer(last.read[0]) if last.read else "",
            samples=list(first.texts),
            tokens_in=first.tokens_in + last.tokens_in,
            tokens_out=first.tokens_out + last.tokens_out,
        )
    chosen = choose_majority(drawn)
    answer = first.texts[drawn.index(chosen)] if chosen else "".join(first.texts[:1])
    return first.extend(row, GranolaGiven, name, answer=answer, answer_read=chosen)


def _compare(answers: pa.Table, embedder: Embedder) -> pa.Array:
    """Return the cosine of each answer that is compared and says something with its gold answer; null for the others."""
    columns = (answers[name].to_pylist() for name in ("answer_read", "granola_answers", "is_compared", "is_idk"))
    pairs = [
        (text, levels[0]) if text and is_compared and not is_idk else None
        for text, levels, is_compared, is_idk in zip(*columns, strict=True)
    ]
    texts = sorted({text for pair in pairs if pair for text in pair})
    return pa.array(find_cosines(pairs, texts, embedder.encode(texts)), from_pandas=True)
