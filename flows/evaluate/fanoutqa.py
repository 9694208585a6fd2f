"""How a model is measured on FanOutQA."""

from prefect import flow

from flows.watching.artifacts import leave_evaluation
from tasks.engine.building import open_build
from tasks.evaluation.publishing import name_metrics, publish_evaluation
from tasks.fanoutqa.core.evaluation.rows import ScoredFanOut
from tasks.fanoutqa.evaluation.answer import (
    answer_fanoutqa_questions,
    ask_fanoutqa_questions,
    judge_fanoutqa_answers,
    score_fanoutqa_answers,
)
from tasks.fanoutqa.evaluation.ask import FanOutEvaluationParams
from tasks.fanoutqa.evaluation.record import FANOUTQA_EVALUATION, lock_inputs, tell_notes
from tasks.options import BuildReport, RunOptions

SIDE_BY_SIDE = 100
"""Dialogues that are held together, each with what its model can be shown at once."""


@flow(name="fanoutqa_evaluation", validate_parameters=True, persist_result=False)
def evaluate_fanoutqa(
    params: FanOutEvaluationParams = FanOutEvaluationParams(),  # noqa: B008 - frozen
    run: RunOptions = RunOptions(),  # noqa: B008 - frozen
) -> BuildReport:
    """FanOutQA: closed book, open book, evidence provided (paper §3.2, §4)."""
    locked = lock_inputs(params, run)
    with open_build(FANOUTQA_EVALUATION, locked, run) as build:
        asked = build.load(ask_fanoutqa_questions, locked.inputs.settings)
        answered = build.stage(answer_fanoutqa_questions, asked, most_rows=SIDE_BY_SIDE)  # §3.2, §4.3, §4.4
        judged = build.stage(judge_fanoutqa_answers, answered)  # Appendix F.3
        scored = build.stage(score_fanoutqa_answers, judged)  # §4.1
        answers = scored.table(ScoredFanOut)
        scores, metrics = FANOUTQA_EVALUATION.measure(answers, locked.inputs)
        notes = tell_notes(locked.inputs)
        report = publish_evaluation(build, FANOUTQA_EVALUATION, answers, scores, metrics, notes)
        leave_evaluation(report, FANOUTQA_EVALUATION, answers, name_metrics(build, FANOUTQA_EVALUATION, metrics))
    return report
