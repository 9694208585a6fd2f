"""Steps of an evaluation on BioKaLMA: the questions with what is shown beside them, a model's answers, and the ratings of their texts (paper §3, §4.1)."""

from collections.abc import Mapping, Sequence
from functools import partial

from prefect import task

from tasks.biokalma.core.evaluation.geval import RATING, read_rating
from tasks.biokalma.core.evaluation.rows import BioAnswer, BioAsked, RatedBio, ScoredBio
from tasks.biokalma.core.evaluation.settings import RETRIEVED
from tasks.biokalma.core.rows import BiographyRow
from tasks.biokalma.evaluation.ask import (
    JUDGES,
    RATED_SETTINGS,
    BiokalmaEvaluationInputs,
    answer_rightly,
    fill_judge_prompt,
    fill_prompt,
    guess_answers,
    list_questions,
)
from tasks.biokalma.evaluation.retrieve import retrieve_graphs
from tasks.biokalma.evaluation.score import score_answers
from tasks.core.evaluation.given import Given
from tasks.core.receipts import Batch, Receipt
from tasks.engine.batches import Work, batch_key, work_on
from tasks.evaluation.answering import answer_questions, finish_asked, name_answerer
from tasks.evaluation.judging import Judged, judge_answers, name_judge
from tasks.evaluation.record import read_measured, read_params

TABLE = "biokalma"


@task(cache_key_fn=batch_key, persist_result=True)
def ask_biokalma_questions(batch: Batch) -> Receipt:
    """List what is asked in one setting."""
    work = work_on(batch)
    inputs = work.inputs(BiokalmaEvaluationInputs).model_copy(update={"settings": (batch.unit,)})
    return finish_asked(work, list(list_questions(read_measured(work, TABLE, BiographyRow), inputs)), BioAsked)


@task(cache_key_fn=batch_key, persist_result=True)
def retrieve_knowledge(batch: Batch) -> Receipt:
    """Look up what the questions of the setting `retrieved` name (§3.1, §3.2); the others have their graphs."""
    work = work_on(batch)
    rows = work.rows(BioAsked)
    wanted = [row for row in rows if row.setting == RETRIEVED]
    found = retrieve_graphs(work, wanted, work.inputs(BiokalmaEvaluationInputs).class_qid) if wanted else []
    shown = {row.id: row for row in found}
    return work.finish((shown.get(row.id, row) for row in rows), BioAsked)


@task(cache_key_fn=batch_key, persist_result=True)
def answer_biokalma_questions(batch: Batch) -> Receipt:
    """Ask the model each question once, with the knowledge of its setting (§3.3)."""
    work = work_on(batch)
    rows = work.rows(BioAsked)
    measured = read_measured(work, TABLE, BiographyRow)
    asked = [row for row in rows if not row.lookup_failure]
    answers = answer_questions(work, asked, fill_prompt, answer_rightly(measured), guess_answers(measured))
    given = {row.id: said for row, said in answers}
    name = name_answerer(work)
    return work.finish(
        ((given.get(row.id) or _lack(row)).extend(row, BioAnswer, name) for row in rows),
        BioAnswer,
    )


def _lack(row: BioAsked) -> Given:
    return Given(unscored="lookup_failed", detail=row.lookup_failure)


@task(cache_key_fn=batch_key, persist_result=True)
def rate_biokalma_answers(batch: Batch) -> Receipt:
    """Have texts rated by the four criteria, one call each (§4.1, Tables 14 to 17); a program rates none."""
    work = work_on(batch)
    rows = work.rows(BioAnswer)
    rated = [row for row in rows if row.setting in RATED_SETTINGS and not row.unscored and read_params(work)["judge"]]
    ratings = {criterion: _rate(work, rated, criterion) if rated else {} for criterion in JUDGES}
    judge = name_judge(work)
    return work.finish(
        (_mark(row, {criterion: said.get(row.id) for criterion, said in ratings.items()}, judge) for row in rows),
        RatedBio,
    )


def _rate(work: Work, rows: Sequence[BioAnswer], criterion: str) -> dict[str, Judged[int]]:
    """Return answer → what the judge said of it by one criterion."""
    fill = partial(fill_judge_prompt, criterion=criterion)
    judged = judge_answers(work, rows, fill, RATING, lambda _, texts: read_rating(texts[0]), _refuse)
    return {row.id: said for row, said in judged}


def _refuse(row: BioAnswer) -> int:
    raise TypeError(f"{row.id}: a program rates no text")


def _mark(row: BioAnswer, said: Mapping[str, Judged[int] | None], judge: str) -> RatedBio:
    judged = {criterion: rating for criterion, rating in said.items() if rating is not None}
    return row.extend(
        RatedBio,
        **{criterion: judged[criterion].verdict if criterion in judged else None for criterion in said},
        unrated=[
            f"{criterion}: {rating.unscored}: {rating.detail}"
            for criterion, rating in judged.items()
            if rating.unscored
        ],
        judge=judge if judged else "",
        judge_calls=[rating.call for rating in judged.values()],
    )


@task(cache_key_fn=batch_key, persist_result=True)
def score_biokalma_answers(batch: Batch) -> Receipt:
    """Take the citations of answers apart, and count (§4.2 to §4.4)."""
    work = work_on(batch)
    rated = work.table(RatedBio)
    return work.finish_table(score_answers(rated, work.inputs(BiokalmaEvaluationInputs), work.run.services), ScoredBio)
