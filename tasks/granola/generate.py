"""Steps in which the author model writes (GRANOLA-EQ, paper §3.1, Table 8)."""

from prefect import task

from tasks.assets import load_prompt
from tasks.core.authoring.granularity import LEVELS, ask_levels, read_levels
from tasks.core.receipts import Batch, Receipt
from tasks.core.rows import Reject
from tasks.engine.batches import batch_key, work_on
from tasks.granola.core.rows import AnsweredQuestion, PopularQuestion
from tasks.granola.params import LEVELS_PROMPT


@task(cache_key_fn=batch_key, persist_result=True)
def generate_granular_answers(batch: Batch) -> Receipt:
    """Ask the author for answers from fine to coarse, one call a row (§3.1, Table 8)."""
    work = work_on(batch)
    prompt = load_prompt(LEVELS_PROMPT)
    asked = [
        (
            row.id,
            row,
            ask_levels(
                prompt, row.question, row.answer, row.question_entity_description, row.answer_entity_description
            ),
        )
        for row in work.rows(PopularQuestion)
    ]
    answers = work.ask("author", asked, LEVELS, lambda row, texts: read_levels(texts[0], row.answer))
    return work.finish(
        (
            answer.read
            if isinstance(answer.read, Reject)
            else row.extend(AnsweredQuestion, levels=list(answer.read), author=answer.model, author_call=answer.key)
            for row, answer in answers
        ),
        AnsweredQuestion,
    )
