"""The Prefect flow that evaluates a model on BioKaLMA."""

from prefect import flow

from factmill.flows.watching.artifacts import create_evaluation_artifacts
from factmill.tasks.biokalma.core.evaluation.rows import ScoredBiokalmaPrediction
from factmill.tasks.biokalma.evaluation.definition import (
    BIOKALMA_EVALUATION,
    BiokalmaEvaluationParams,
    resolve_biokalma_evaluation_inputs,
)
from factmill.tasks.biokalma.evaluation.steps import (
    answer_biokalma_questions,
    list_biokalma_questions_step,
    rate_biokalma_answers,
    retrieve_knowledge,
    score_biokalma_answers,
)
from factmill.tasks.engine.building import open_build
from factmill.tasks.evaluation.steps import add_model_and_judge_to_metrics, publish_evaluation
from factmill.tasks.options import BuildReport, RunOptions


@flow(name="biokalma_evaluation", validate_parameters=True, persist_result=False)
def evaluate_biokalma(
    params: BiokalmaEvaluationParams = BiokalmaEvaluationParams(),  # noqa: B008 - frozen
    run: RunOptions = RunOptions(),  # noqa: B008 - frozen
) -> BuildReport:
    """BioKaLMA: answers that cite a knowledge graph, and say what it lacks (paper §3, §4)."""
    locked = resolve_biokalma_evaluation_inputs(params, run)
    with open_build(BIOKALMA_EVALUATION, locked, run) as build:
        asked = build.load_source(list_biokalma_questions_step, locked.inputs.settings)
        shown = build.run_stage(retrieve_knowledge, asked)  # §3.1, §3.2
        answered = build.run_stage(answer_biokalma_questions, shown)  # §3.3
        rated = build.run_stage(rate_biokalma_answers, answered)  # §4.1
        scored = build.run_stage(score_biokalma_answers, rated)  # §4.2 to §4.4
        answers = scored.table(ScoredBiokalmaPrediction)
        scores, metrics = BIOKALMA_EVALUATION.compute_metrics(
            answers, locked.inputs
        )  # Tables 3, 4, 5 and 7, Figures 4 and 5
        notes = BIOKALMA_EVALUATION.list_notes(locked.inputs)
        report = publish_evaluation(build, BIOKALMA_EVALUATION, answers, scores, metrics, notes)
        create_evaluation_artifacts(
            report, BIOKALMA_EVALUATION, answers, add_model_and_judge_to_metrics(build, BIOKALMA_EVALUATION, metrics)
        )
    return report
