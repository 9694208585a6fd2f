"""How a model is measured on MultiHal."""

from prefect import flow

from flows.watching.artifacts import leave_evaluation
from tasks.engine.building import open_build
from tasks.evaluation.publishing import name_metrics, publish_evaluation
from tasks.multihal.core.evaluation.answers import ScoredMultiHal
from tasks.multihal.evaluation.answer import answer_multihal_questions, ask_multihal_questions, score_multihal_answers
from tasks.multihal.evaluation.ask import MultiHalEvaluationParams, tell_skipped
from tasks.multihal.evaluation.record import MULTIHAL_EVALUATION, lock_inputs
from tasks.options import BuildReport, RunOptions


@flow(name="multihal_evaluation", validate_parameters=True, persist_result=False)
def evaluate_multihal(
    params: MultiHalEvaluationParams = MultiHalEvaluationParams(),  # noqa: B008 - frozen
    run: RunOptions = RunOptions(),  # noqa: B008 - frozen
) -> BuildReport:
    """MultiHal: questions alone and with paths, in every language (paper §3)."""
    locked = lock_inputs(params, run)
    with open_build(MULTIHAL_EVALUATION, locked, run) as build:
        asked = build.load(ask_multihal_questions, locked.inputs.settings)
        answered = build.stage(answer_multihal_questions, asked)  # §3.1
        scored = build.stage(score_multihal_answers, answered)  # §3.1, semantic similarity
        answers = scored.table(ScoredMultiHal)
        scores, metrics = MULTIHAL_EVALUATION.measure(answers, locked.inputs)  # Tables 3, 4 and 8
        report = publish_evaluation(build, MULTIHAL_EVALUATION, answers, scores, metrics, tell_skipped(params))
        leave_evaluation(report, MULTIHAL_EVALUATION, answers, name_metrics(build, MULTIHAL_EVALUATION, metrics))
    return report
