"""How a model is measured on SLAQ."""

from prefect import flow

from flows.watching.artifacts import leave_evaluation
from tasks.engine.building import open_build
from tasks.evaluation.publishing import name_metrics, publish_evaluation
from tasks.options import BuildReport, RunOptions
from tasks.slaq.core.evaluation.answers import JudgedSlaq
from tasks.slaq.evaluation.answer import answer_slaq_questions, ask_slaq_questions, judge_slaq_answers
from tasks.slaq.evaluation.ask import SlaqEvaluationParams
from tasks.slaq.evaluation.record import SLAQ_EVALUATION, lock_inputs


@flow(name="slaq_evaluation", validate_parameters=True, persist_result=False)
def evaluate_slaq(
    params: SlaqEvaluationParams = SlaqEvaluationParams(),  # noqa: B008 - frozen
    run: RunOptions = RunOptions(),  # noqa: B008 - frozen
) -> BuildReport:
    """SLAQ: the same facts asked short and long (paper §4)."""
    locked = lock_inputs(params, run)
    with open_build(SLAQ_EVALUATION, locked, run) as build:
        asked = build.load(ask_slaq_questions, locked.inputs.settings)
        answered = build.stage(answer_slaq_questions, asked)  # §4.1
        judged = build.stage(judge_slaq_answers, answered)  # Appendix A.2, Table A.4
        answers = judged.table(JudgedSlaq)
        scores, metrics = SLAQ_EVALUATION.measure(answers, locked.inputs)  # equations 1 to 4, Figures 2 and 3
        report = publish_evaluation(build, SLAQ_EVALUATION, answers, scores, metrics)
        leave_evaluation(report, SLAQ_EVALUATION, answers, name_metrics(build, SLAQ_EVALUATION, metrics))
    return report
