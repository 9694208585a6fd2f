"""Stages of an evaluation on BioKaLMA: retrieve and show graphs, let a model answer, rate its texts (paper §3, §4).

The graphs always come from the world's Wikidata, through the call cache: what a model is shown is part of the
measurement.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
from prefect import task

from factmill.tasks.assets import load_list_entries
from factmill.tasks.biokalma.core.evaluation.rows import (
    RATING_REPLY_FORM,
    BiokalmaPrediction,
    BiokalmaQuestion,
    RatedBiokalmaPrediction,
    read_rating,
)
from factmill.tasks.biokalma.core.evaluation.shown_graphs import (
    RETRIEVED_SETTING,
    ItemGraph,
    NameInQuestionWithItems,
    attach_graphs_and_removed_pieces,
    choose_item_by_named_neighbours,
    choose_longest_names,
    list_name_spans,
)
from factmill.tasks.biokalma.evaluation.definition import (
    BIOKALMA_EVALUATION,
    JUDGE_PROMPTS,
    RATED_SETTINGS,
    BiokalmaEvaluationInputs,
    add_empty_ratings,
    fill_judge_prompt,
    list_biokalma_questions,
)
from factmill.tasks.biokalma.pair_preparation import load_pids_excluded_from_pools, make_knowledge_pool
from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.calls.wikidata import HUMAN_QID, ItemMatchedByName
from factmill.tasks.core.evaluation.answers import ModelPrediction
from factmill.tasks.core.rows import Reject, make_arrow_table
from factmill.tasks.engine.batches import BatchInProgress, make_batch_cache_key, open_batch
from factmill.tasks.evaluation.answering_and_judging import (
    AnswerJudgment,
    JudgingSpec,
    get_answerer_name,
    judge_predictions,
    make_predictions,
)
from factmill.tasks.evaluation.definition import get_evaluation_params
from factmill.tasks.evaluation.steps import make_question_listing_step, make_scoring_step
from factmill.tasks.lookups.classes import look_up_class_membership_by_qid
from factmill.tasks.lookups.facts import look_up_item_facts_by_qid
from factmill.tasks.lookups.labels import look_up_item_candidates_by_name

MAX_BEARERS_PER_NAME = 40
"""Maximum items considered per name: by label first, then by number; only common names have more."""


def attach_retrieved_graphs(
    work: BatchInProgress, rows: Sequence[BiokalmaQuestion], class_qid: str
) -> list[BiokalmaQuestion]:
    """Return the questions with the graphs of the items of a class that they name.

    A question whose names cannot be looked up gets no graphs, and the reason in `lookup_failure`.
    """
    named, failed = _find_question_names(work, rows, class_qid)
    asked = ((row_id, item.qid) for row_id, names in named.items() for name in names for item in name.candidates)
    facts, failed_facts = look_up_item_facts_by_qid(work, dict.fromkeys(asked))
    failed |= failed_facts
    left_out = load_pids_excluded_from_pools(class_qid)
    shown = []
    for row in rows:
        if failure := failed.get(row.id):
            work.retryable_rows += failure.retryable
            shown.append(row.replace(lookup_failure=f"{failure.reason}: {failure.detail}"))
        else:
            # each item meant once; an item without known pieces has no graph
            graphs: dict[str, ItemGraph] = {}
            for name in named[row.id]:
                qid = choose_item_by_named_neighbours(row.question, name, facts)
                if pool := make_knowledge_pool(qid, facts[qid], left_out):
                    graphs.setdefault(qid, ItemGraph(qid, name.text, tuple(pool)))
            shown.append(attach_graphs_and_removed_pieces(row, list(graphs.values())))
    return shown


def _find_question_names(
    work: BatchInProgress, rows: Sequence[BiokalmaQuestion], class_qid: str
) -> tuple[dict[str, list[NameInQuestionWithItems]], dict[str, Reject]]:
    """Return question → the names in it, and question → why the look-up failed."""
    function_words = frozenset(load_list_entries("function_words"))
    # a person is named in full, as in the questions (Appendix A.1)
    shortest = 2 if class_qid == HUMAN_QID else 1
    spans = {row.id: list_name_spans(row.question, shortest, function_words) for row in rows}
    spelled = [(row_id, each) for row_id, row_spans in spans.items() for span in row_spans for each in span.spellings]
    found, failed = look_up_item_candidates_by_name(work, spelled)
    asked = [(row_id, item.qid) for row_id, each in spelled for item in found.get(each, [])[:MAX_BEARERS_PER_NAME]]
    is_instance, failed_class = look_up_class_membership_by_qid(work, asked, class_qid)
    bearers: dict[str, list[ItemMatchedByName]] = {
        each: [item for item in items[:MAX_BEARERS_PER_NAME] if is_instance.get(item.qid)]
        for each, items in found.items()
    }
    names = {row_id: choose_longest_names(row_spans, bearers) for row_id, row_spans in spans.items()}
    return names, failed | failed_class


list_biokalma_questions_step = make_question_listing_step(
    replace(BIOKALMA_EVALUATION, make_questions=list_biokalma_questions)
)


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def retrieve_knowledge(batch: StageBatch) -> BatchReceipt:
    """Look up the items named by questions of the setting `retrieved` (§3.1, §3.2); the others have their graphs."""
    work = open_batch(batch)
    rows = work.rows(BiokalmaQuestion)
    wanted = [row for row in rows if row.setting == RETRIEVED_SETTING]
    found = attach_retrieved_graphs(work, wanted, work.inputs(BiokalmaEvaluationInputs).class_qid) if wanted else []
    shown = {row.id: row for row in found}
    return work.finish((shown.get(row.id, row) for row in rows), BiokalmaQuestion)


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def answer_biokalma_questions(batch: StageBatch) -> BatchReceipt:
    """Ask the model each question once, with the knowledge of its setting (§3.3)."""
    work = open_batch(batch)
    rows, name = work.rows(BiokalmaQuestion), get_answerer_name(work)
    failed = ((row, ModelPrediction(unscored="lookup_failed", detail=row.lookup_failure)) for row in rows)
    lacking = (why.make_prediction(row, BiokalmaPrediction, name) for row, why in failed if row.lookup_failure)
    asked = make_arrow_table(BiokalmaQuestion, (row for row in rows if not row.lookup_failure))
    answered = make_predictions(work, BIOKALMA_EVALUATION, asked)
    return work.finish_table(
        pa.concat_tables([answered, make_arrow_table(BiokalmaPrediction, lacking)]), BiokalmaPrediction
    )


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def rate_biokalma_answers(batch: StageBatch) -> BatchReceipt:
    """Rate texts by the four criteria, one judge call each (§4.1, Tables 14 to 17); without a judge none is rated."""
    work = open_batch(batch)
    rated = [add_empty_ratings(row) for row in work.rows(BiokalmaPrediction)]
    for criterion in JUDGE_PROMPTS if get_evaluation_params(work)["judge"] else ():
        judging: JudgingSpec[RatedBiokalmaPrediction, int, RatedBiokalmaPrediction] = JudgingSpec(
            make_prompt=partial(fill_judge_prompt, criterion=criterion),
            completion_format=RATING_REPLY_FORM,
            parse_verdict=lambda _, texts: read_rating(texts[0]),
            judge_exactly=_refuse_to_rate,
            row_model=RatedBiokalmaPrediction,
            make_judged_row=partial(_add_rating, criterion),
            needs_verdict=lambda row: row.setting in RATED_SETTINGS and not row.unscored,
        )
        rated = list(judge_predictions(work, rated, judging))
    return work.finish(rated, RatedBiokalmaPrediction)


def _refuse_to_rate(row: BiokalmaPrediction) -> int:
    raise TypeError(f"{row.id}: the program judge cannot rate texts")


def _add_rating(
    criterion: str, row: RatedBiokalmaPrediction, judged: AnswerJudgment[int] | None, judge: str
) -> RatedBiokalmaPrediction:
    if judged is None:
        return row
    why = [f"{criterion}: {judged.unscored}: {judged.detail}"] if judged.unscored else []
    fields = {criterion: judged.verdict, "unrated": row.unrated + why, "judge_calls": [*row.judge_calls, judged.call]}
    return row.replace(judge=judge, **fields)


score_biokalma_answers = make_scoring_step(replace(BIOKALMA_EVALUATION, prediction_model=RatedBiokalmaPrediction))
