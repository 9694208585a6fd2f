"""Steps in which the judge model scores (GRANOLA-EQ, paper Appendix B, "Data cleaning")."""

from collections.abc import Sequence

from prefect import task

from tasks.assets import load_prompt
from tasks.core.authoring.granularity import CONSISTENCY, ask_consistency, read_verdict, score_error
from tasks.core.receipts import Batch, Receipt
from tasks.core.replies import Unreadable
from tasks.core.rows import Outcome, Reject
from tasks.engine.batches import batch_key, work_on
from tasks.granola.core.rows import AnsweredQuestion, ScoredQuestion
from tasks.granola.params import CONSISTENCY_PROMPT, GranolaInputs


@task(cache_key_fn=batch_key, persist_result=True)
def score_description_consistency(batch: Batch) -> Receipt:
    """Score both descriptions by the share of samples that find them inconsistent with the question (Appendix B).

    Each is asked once with n samples at temperature 1; rows with a score above the limit are rejected, scores kept. The
    limit holds for facts of the Wikidata too: the items are right, but the question may make no sense of them.
    """
    work = work_on(batch)
    prompt = load_prompt(CONSISTENCY_PROMPT)
    params = work.inputs(GranolaInputs).params
    rows = work.rows(AnsweredQuestion)
    asked = []
    for row in rows:
        for entity, description in (
            (row.question_entity, row.question_entity_description),
            (row.answer, row.answer_entity_description),
        ):
            asked.append(
                (row.id, row, ask_consistency(prompt, row.question, row.answer, entity, description, params.samples))
            )
    answers = [answer for _, answer in work.ask("judge", asked, CONSISTENCY, _read_score)]
    outcomes: list[Outcome] = []
    for row, question, answer in zip(rows, answers[0::2], answers[1::2], strict=True):
        if isinstance(question.read, Reject):
            outcomes.append(question.read)
        elif isinstance(answer.read, Reject):
            outcomes.append(answer.read)
        elif max(question.read, answer.read) > params.max_error_score:
            described = {
                "question": (row.question_entity, row.question_entity_description),
                "answer": (row.answer, row.answer_entity_description),
            }
            above = "question" if question.read > params.max_error_score else "answer"
            name, description = described[above]
            scores = f"question entity {question.read:.3f}, answer {answer.read:.3f}; at most {params.max_error_score} is kept"
            detail = f"{row.question} {row.answer}; {name}: {description}; scores: {scores}"
            outcomes.append(Reject(row.id, f"{above}_description_inconsistent", detail))
        else:
            outcomes.append(
                row.extend(
                    ScoredQuestion,
                    question_description_score=question.read,
                    answer_description_score=answer.read,
                    judge=question.model,
                )
            )
    return work.finish(outcomes, ScoredQuestion)


def _read_score(_: AnsweredQuestion, texts: Sequence[str]) -> float | Unreadable:
    """Return the share of No among the samples that can be read; Unreadable when none can."""
    read = {text: read_verdict(text) for text in set(texts)}
    verdicts = [read[text] for text in texts]
    score = score_error(verdicts).score
    if score is None:
        return next(verdict for verdict in verdicts if isinstance(verdict, Unreadable))
    return score
