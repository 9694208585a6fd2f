"""Stages of an evaluation on BioKaLMA: retrieve and show graphs, let a model answer, rate its texts (paper §3, §4).

The graphs always come from the world's Wikidata, through the call cache: what a model is shown is part of the
measurement.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
from prefect import task

from factmill.tasks.assets import load_list
from factmill.tasks.biokalma.core.evaluation.rows import RATING, BioAnswer, BioAsked, RatedBio, read_rating
from factmill.tasks.biokalma.core.evaluation.settings import (
    RETRIEVED,
    Graph,
    Name,
    choose_item,
    choose_names,
    list_spans,
    show_graphs,
)
from factmill.tasks.biokalma.evaluation.record import (
    BIOKALMA_EVALUATION,
    JUDGES,
    RATED_SETTINGS,
    BiokalmaEvaluationInputs,
    fill_judge_prompt,
    leave_unrated,
    list_questions,
)
from factmill.tasks.biokalma.people import load_left_out, make_pool
from factmill.tasks.core.calls.knowledge import HUMAN, Candidate
from factmill.tasks.core.evaluation.answers import Given
from factmill.tasks.core.receipts import Batch, Receipt
from factmill.tasks.core.rows import Reject, arrow_table
from factmill.tasks.engine.batches import Work, batch_key, work_on
from factmill.tasks.evaluation.answering import Judged, Judging, judge_rows, name_answerer
from factmill.tasks.evaluation.record import read_params
from factmill.tasks.evaluation.steps import answer_asked, make_asking, make_scoring
from factmill.tasks.lookups.classes import find_instances
from factmill.tasks.lookups.facts import look_up_item_facts
from factmill.tasks.lookups.labels import look_up_bearers

MOST_BEARERS = 40
"""Maximum items considered per name: by label first, then by number; only common names have more."""


def retrieve_graphs(work: Work, rows: Sequence[BioAsked], class_qid: str) -> list[BioAsked]:
    """Return the questions with the graphs of the items of a class that they name.

    A question whose names cannot be looked up gets no graphs, and the reason in `lookup_failure`.
    """
    named, failed = _find_names(work, rows, class_qid)
    asked = ((row_id, item.qid) for row_id, names in named.items() for name in names for item in name.candidates)
    facts, failed_facts = look_up_item_facts(work, dict.fromkeys(asked))
    failed |= failed_facts
    left_out = load_left_out(class_qid)
    shown = []
    for row in rows:
        if failure := failed.get(row.id):
            work.unsettled += failure.retryable
            shown.append(row.replace(lookup_failure=f"{failure.reason}: {failure.detail}"))
        else:
            # each item meant once; an item without known pieces has no graph
            graphs: dict[str, Graph] = {}
            for name in named[row.id]:
                qid = choose_item(row.question, name, facts)
                if pool := make_pool(qid, facts[qid], left_out):
                    graphs.setdefault(qid, Graph(qid, name.text, tuple(pool)))
            shown.append(show_graphs(row, list(graphs.values())))
    return shown


def _find_names(
    work: Work, rows: Sequence[BioAsked], class_qid: str
) -> tuple[dict[str, list[Name]], dict[str, Reject]]:
    """Return question → the names in it, and question → why the look-up failed."""
    function_words = frozenset(load_list("function_words"))
    # a person is named in full, as in the questions (Appendix A.1)
    shortest = 2 if class_qid == HUMAN else 1
    spans = {row.id: list_spans(row.question, shortest, function_words) for row in rows}
    spelled = [(row_id, each) for row_id, mine in spans.items() for span in mine for each in span.spellings]
    found, failed = look_up_bearers(work, spelled)
    asked = [(row_id, item.qid) for row_id, each in spelled for item in found.get(each, [])[:MOST_BEARERS]]
    is_instance, failed_class = find_instances(work, asked, class_qid)
    bearers: dict[str, list[Candidate]] = {
        each: [item for item in items[:MOST_BEARERS] if is_instance.get(item.qid)] for each, items in found.items()
    }
    return {row_id: choose_names(mine, bearers) for row_id, mine in spans.items()}, failed | failed_class


ask_biokalma_questions = make_asking(replace(BIOKALMA_EVALUATION, questions=list_questions))


@task(cache_key_fn=batch_key, persist_result=True)
def retrieve_knowledge(batch: Batch) -> Receipt:
    """Look up the items named by questions of the setting `retrieved` (§3.1, §3.2); the others have their graphs."""
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
    """Rate texts by the four criteria, one judge call each (§4.1, Tables 14 to 17); without a judge none is rated."""
    work = work_on(batch)
    rated = [leave_unrated(row) for row in work.rows(BioAnswer)]
    for criterion in JUDGES if read_params(work)["judge"] else ():
        judging: Judging[RatedBio, int, RatedBio] = Judging(
            fill=partial(fill_judge_prompt, criterion=criterion),
            form=RATING,
            read=lambda _, texts: read_rating(texts[0]),
            compare=_refuse,
            row=RatedBio,
            mark=partial(_mark, criterion),
            wants=lambda row: row.setting in RATED_SETTINGS and not row.unscored,
        )
        rated = list(judge_rows(work, rated, judging))
    return work.finish(rated, RatedBio)


def _refuse(row: BioAnswer) -> int:
    raise TypeError(f"{row.id}: a program rates no text")


def _mark(criterion: str, row: RatedBio, judged: Judged[int] | None, judge: str) -> RatedBio:
    if judged is None:
        return row
    why = [f"{criterion}: {judged.unscored}: {judged.detail}"] if judged.unscored else []
    told = {criterion: judged.verdict, "unrated": row.unrated + why, "judge_calls": [*row.judge_calls, judged.call]}
    return row.replace(judge=judge, **told)


score_biokalma_answers = make_scoring(replace(BIOKALMA_EVALUATION, answers=RatedBio))
