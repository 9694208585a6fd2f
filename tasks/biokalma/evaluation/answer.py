"""Steps of an evaluation on BioKaLMA: the questions with what is shown beside them, a model's answers, and the ratings of their texts (paper §3, §4.1)."""

from dataclasses import replace
from functools import partial

import pyarrow as pa
from prefect import task

from tasks.biokalma.core.evaluation.geval import RATING, read_rating
from tasks.biokalma.core.evaluation.rows import BioAnswer, BioAsked, RatedBio
from tasks.biokalma.core.evaluation.settings import RETRIEVED
from tasks.biokalma.evaluation.ask import (
    JUDGES,
    RATED_SETTINGS,
    BiokalmaEvaluationInputs,
    fill_judge_prompt,
    list_questions,
)
from tasks.biokalma.evaluation.record import BIOKALMA_EVALUATION
from tasks.biokalma.evaluation.retrieve import retrieve_graphs
from tasks.biokalma.evaluation.score import leave_unrated
from tasks.core.evaluation.given import Given
from tasks.core.receipts import Batch, Receipt
from tasks.core.rows import arrow_table
from tasks.engine.batches import batch_key, work_on
from tasks.evaluation.answering import name_answerer
from tasks.evaluation.judging import Judged, Judging, judge_rows
from tasks.evaluation.record import read_params
from tasks.evaluation.steps import answer_asked, make_asking, make_scoring

ask_biokalma_questions = make_asking(replace(BIOKALMA_EVALUATION, questions=list_questions))


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
    rows, name = work.rows(BioAsked), name_answerer(work)
    lacking = (
        Given(unscored="lookup_failed", detail=row.lookup_failure).extend(row, BioAnswer, name)
        for row in rows
        if row.lookup_failure
    )
    asked = arrow_table(BioAsked, (row for row in rows if not row.lookup_failure))
    answered = answer_asked(work, BIOKALMA_EVALUATION, asked)
    return work.finish_table(pa.concat_tables([answered, arrow_table(BioAnswer, lacking)]), BioAnswer)


@task(cache_key_fn=batch_key, persist_result=True)
def rate_biokalma_answers(batch: Batch) -> Receipt:
    """Have texts rated by the four criteria, one call each (§4.1, Tables 14 to 17); a program rates none."""
    work = work_on(batch)
    rated = [leave_unrated(row) for row in work.rows(BioAnswer)]
    for criterion in JUDGES if read_params(work)["judge"] else ():
        rated = list(judge_rows(work, rated, _make_judging(criterion)))
    return work.finish(rated, RatedBio)


def _make_judging(criterion: str) -> Judging[RatedBio, int, RatedBio]:
    return Judging(
        fill=partial(fill_judge_prompt, criterion=criterion),
        form=RATING,
        read=lambda _, texts: read_rating(texts[0]),
        compare=_refuse,
        row=RatedBio,
        mark=partial(_mark, criterion),
        wants=lambda row: row.setting in RATED_SETTINGS and not row.unscored,
    )


def _refuse(row: BioAnswer) -> int:
    raise TypeError(f"{row.id}: a program rates no text")


def _mark(criterion: str, row: RatedBio, judged: Judged[int] | None, judge: str) -> RatedBio:
    if judged is None:
        return row
    why = [f"{criterion}: {judged.unscored}: {judged.detail}"] if judged.unscored else []
    told = {criterion: judged.verdict, "unrated": row.unrated + why, "judge_calls": [*row.judge_calls, judged.call]}
    return row.replace(judge=judge, **told)


score_biokalma_answers = make_scoring(replace(BIOKALMA_EVALUATION, answers=RatedBio))
