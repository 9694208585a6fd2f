"""The Prefect flow that evaluates a model on BioKaLMA."""

from prefect import flow

from factmill.flows.watching.artifacts import leave_evaluation
from factmill.tasks.biokalma.core.evaluation.rows import ScoredBio
from factmill.tasks.biokalma.evaluation.answer import (
    answer_biokalma_questions,
    ask_biokalma_questions,
    rate_biokalma_answers,
    retrieve_knowledge,
    score_biokalma_answers,
)
from factmill.tasks.biokalma.evaluation.record import BIOKALMA_EVALUATION, BiokalmaEvaluationParams, lock_inputs
from factmill.tasks.engine.building import open_build
from factmill.tasks.evaluation.steps import name_metrics, publish_evaluation
from factmill.tasks.options import BuildReport, RunOptions


@flow(name="biokalma_evaluation", validate_parameters=True, persist_result=False)
def evaluate_biokalma(
    params: BiokalmaEvaluationParams = BiokalmaEvaluationParams(),  # noqa: B008 - frozen
    run: RunOptions = RunOptions(),  # noqa: B008 - frozen
) -> BuildReport:
    """BioKaLMA: answers that cite a knowledge graph, and say what it lacks (paper §3, §4)."""
    locked = lock_inputs(params, run)
    with open_build(BIOKALMA_EVALUATION, locked, run) as build:
        asked = build.load(ask_biokalma_questions, locked.inputs.settings)
        shown = build.stage(retrieve_knowledge, asked)  # §3.1, §3.2
        answered = build.stage(answer_biokalma_questions, shown)  # §3.3
        rated = build.stage(rate_biokalma_answers, answered)  # §4.1
        scored = build.stage(score_biokalma_answers, rated)  # §4.2 to §4.4
        answers = scored.table(ScoredBio)
        scores, metrics = BIOKALMA_EVALUATION.measure(answers, locked.inputs)  # Tables 3, 4, 5 and 7, Figures 4 and 5
        notes = BIOKALMA_EVALUATION.notes(locked.inputs)
        report = publish_evaluation(build, BIOKALMA_EVALUATION, answers, scores, metrics, notes)
        leave_evaluation(report, BIOKALMA_EVALUATION, answers, name_metrics(build, BIOKALMA_EVALUATION, metrics))
    return report
