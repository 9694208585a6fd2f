"""How a model is measured on GRANOLA-EQ."""

from prefect import flow

from flows.watching.artifacts import leave_evaluation
from tasks.engine.building import open_build
from tasks.evaluation.publishing import name_metrics, publish_evaluation
from tasks.granola.core.evaluation.rows import GranolaAnswer
from tasks.granola.evaluation.answer import answer_granola_questions, ask_granola_questions, score_granola_answers
from tasks.granola.evaluation.ask import GranolaEvaluationParams
from tasks.granola.evaluation.record import GRANOLA_EVALUATION, lock_inputs
from tasks.options import BuildReport, RunOptions


@flow(name="granola_evaluation", validate_parameters=True, persist_result=False)
def evaluate_granola(
    params: GranolaEvaluationParams = GranolaEvaluationParams(),  # noqa: B008 - frozen
    run: RunOptions = RunOptions(),  # noqa: B008 - frozen
) -> BuildReport:
    """GRANOLA-EQ: accuracy and informativeness at all levels, in the paper's settings (paper §2.2, §5)."""
    locked = lock_inputs(params, run)
    with open_build(GRANOLA_EVALUATION, locked, run) as build:
        asked = build.load(ask_granola_questions, locked.inputs.settings)
        answered = build.stage(answer_granola_questions, asked)  # §4, §5.1
        scored = build.stage(score_granola_answers, answered)  # Definition 1
        answers = scored.table(GranolaAnswer)
        scores, metrics = GRANOLA_EVALUATION.measure(answers, locked.inputs)  # §5
        report = publish_evaluation(build, GRANOLA_EVALUATION, answers, scores, metrics)
        leave_evaluation(report, GRANOLA_EVALUATION, answers, name_metrics(build, GRANOLA_EVALUATION, metrics))
    return report
