"""Steps and flow of an evaluation, made from its definition: ask, answer, judge, score, measure, publish."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
from prefect import Flow, Task, flow, task

from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.evaluation.rows import EvaluationMetric, EvaluationPrediction
from factmill.tasks.core.finish_reasons import format_unknown_finish_reason_warning
from factmill.tasks.core.measures.metrics import MeasuredMetric
from factmill.tasks.core.rows import make_arrow_table
from factmill.tasks.engine.batches import BatchInProgress, make_batch_cache_key, open_batch
from factmill.tasks.engine.building import BuildInProgress, open_build
from factmill.tasks.evaluation.answering_and_judging import judge_predictions, make_predictions
from factmill.tasks.evaluation.definition import (
    ANSWERS_FILE_UNIT,
    EVALUATION_METRICS_TABLE,
    Evaluation,
    EvaluationParams,
    FinishedEvaluationHandler,
    get_judge_name,
    list_setting_and_question_id_pairs,
    return_answers_unscored,
)
from factmill.tasks.evaluation.measured_build import (
    format_release_omissions,
    load_answers_file,
    load_question_rows_of_measured_build,
)
from factmill.tasks.options import BuildReport, RunOptions
from factmill.tasks.storage.table_store import TableStore


def publish_evaluation(
    build: BuildInProgress,
    evaluation: Evaluation,
    answers: pa.Table,
    scores: pa.Table,
    metrics: Sequence[MeasuredMetric],
    notes: Sequence[str] = (),
) -> BuildReport:
    """Publish an evaluation and return its report.

    `answers`: rows of the evaluation's main table; `scores`: rows of `Score`; `notes`: remarks on the figures.
    NoRowsPublished if every call of the model under test failed.
    """
    lock = build.run.manifest
    if answers.num_rows and pc.all(pc.equal(answers["unscored"], "model_failed")).as_py():
        build.end_without_rows(
            f"{lock['author']} answered none of {answers.num_rows} questions; the error of the first: {answers['detail'][0].as_py()}. "
            f"What to do: check the model with `factmill doctor --world {build.options.world}`, then run the same command again"
        )
    measured = add_model_and_judge_to_metrics(build, evaluation, metrics)
    release = build.run.origin["flow"].get("release")
    tables = {
        evaluation.main_table: answers,
        f"{evaluation.benchmark.name}_scores": scores,
        EVALUATION_METRICS_TABLE: make_arrow_table(EvaluationMetric, measured),
    }
    facts = {
        "measured": build.run.origin["flow"]["build"],
        "model": lock["author"],
        "judge": get_judge_name(lock),
        "items": answers.num_rows,
        "unscored": count_answers_lacking_expected_score(answers, scores),
        "notes": [
            *notes,
            *(format_release_omissions(evaluation.benchmark, TableStore(Path(release))) if release else ()),
            *format_unknown_finish_reason_warning(lock["author"], pc.unique(answers["finish"]).to_pylist()),
        ],
    }
    if files := build.run.source_files(ANSWERS_FILE_UNIT):
        # mismatches of a file of answers: missing, extra and repeated ids
        facts |= load_answers_file(files[0]).format_mismatches(list_setting_and_question_id_pairs(answers))
    return build.publish(tables, facts)


def add_model_and_judge_to_metrics(
    build: BuildInProgress, evaluation: Evaluation, metrics: Sequence[MeasuredMetric]
) -> list[EvaluationMetric]:
    """Return metrics as rows of the published table, with benchmark, model and judge."""
    lock = build.run.manifest
    return evaluation.label_metrics(metrics, lock["author"], get_judge_name(lock))


def count_answers_lacking_expected_score(answers: pa.Table, scores: pa.Table) -> int:
    """Count the answers that lack a score that they should have.

    A score belongs to its answer's question, or to its row if one answer has several questions (SLAQ's long answers).
    """
    missing = scores.filter(pc.is_null(scores["value"]))
    scored, by_question = (
        _collect_setting_and_id_pairs(scores, "question_id"),
        _collect_setting_and_id_pairs(missing, "question_id"),
    )
    by_item = _collect_setting_and_id_pairs(missing, "item")
    asked = zip(*(answers[name].to_pylist() for name in ("setting", "question_id", "item")), strict=True)
    return sum(
        (setting, question) in by_question or ((setting, question) not in scored and (setting, item) in by_item)
        for setting, question, item in asked
    )


def _collect_setting_and_id_pairs(scores: pa.Table, id_column: str) -> set[tuple[str, str]]:
    return set(zip(scores["setting"].to_pylist(), scores[id_column].to_pylist(), strict=True))


BatchTask = Task[[StageBatch], BatchReceipt]


def _make_batch_task(name: str, work: Callable[[BatchInProgress], BatchReceipt]) -> BatchTask:
    def run(batch: StageBatch) -> BatchReceipt:
        return work(open_batch(batch))

    return task(name=name, cache_key_fn=make_batch_cache_key, persist_result=True)(run)


def make_question_listing_step(evaluation: Evaluation) -> BatchTask:
    """Return the step that lists the questions of one setting; each question counts as an input row."""

    def list_questions(work: BatchInProgress) -> BatchReceipt:
        inputs = work.inputs(evaluation.inputs_model).model_copy(update={"settings": (work.batch.unit,)})
        asked = evaluation.list_questions(load_question_rows_of_measured_build(work, evaluation), inputs)
        work.rows_in = asked.num_rows
        return work.finish_table(asked, evaluation.question_model)

    return _make_batch_task(f"list_{evaluation.benchmark.name}_questions", list_questions)


def make_prediction_step(evaluation: Evaluation) -> BatchTask:
    """Return the step that puts each question to the model once."""

    def answer(work: BatchInProgress) -> BatchReceipt:
        return work.finish_table(
            make_predictions(work, evaluation, work.table(evaluation.question_model)), evaluation.prediction_model
        )

    return _make_batch_task(f"answer_{evaluation.benchmark.name}_questions", answer)


def make_judging_step(evaluation: Evaluation) -> BatchTask:
    """Return the step that judges answers; TypeError for an evaluation without a judge."""
    judging = evaluation.judging_spec
    if judging is None:
        raise TypeError(f"{evaluation.name} has no judge")

    def judge(work: BatchInProgress) -> BatchReceipt:
        return work.finish(judge_predictions(work, work.rows(evaluation.prediction_model), judging), judging.row_model)

    return _make_batch_task(f"judge_{evaluation.benchmark.name}_answers", judge)


def make_scoring_step(evaluation: Evaluation) -> BatchTask:
    """Return the step that scores answers, which are judged if the evaluation has a judge."""

    def score(work: BatchInProgress) -> BatchReceipt:
        answers = work.table(
            evaluation.judging_spec.row_model if evaluation.judging_spec else evaluation.prediction_model
        )
        return work.finish_table(
            evaluation.score_predictions(answers, work.inputs(evaluation.inputs_model), work.run.services),
            evaluation.main_row_model,
        )

    return _make_batch_task(f"score_{evaluation.benchmark.name}_answers", score)


def make_evaluation_flow(evaluation: Evaluation, on_finished: FinishedEvaluationHandler) -> Flow[..., BuildReport]:
    """Return the flow of an evaluation, made of this module's steps; `on_finished` presents the results."""
    ask, answer = make_question_listing_step(evaluation), make_prediction_step(evaluation)
    judge = make_judging_step(evaluation) if evaluation.judging_spec else None
    score = make_scoring_step(evaluation) if evaluation.score_predictions is not return_answers_unscored else None

    def evaluate(
        params: EvaluationParams = evaluation.params(),  # noqa: B008 - frozen
        run: RunOptions = RunOptions(),  # noqa: B008 - frozen
    ) -> BuildReport:
        locked = evaluation.resolve_inputs(params, run)
        with open_build(evaluation, locked, run) as build:
            made = build.run_stage(
                answer, build.load_source(ask, locked.inputs.settings), most_rows=evaluation.max_concurrent_questions
            )
            made = build.run_stage(judge, made) if judge else made
            made = build.run_stage(score, made) if score else made
            answers = made.table(cast(type[EvaluationPrediction], evaluation.main_row_model))
            scores, metrics = evaluation.compute_metrics(answers, locked.inputs)
            report = publish_evaluation(
                build, evaluation, answers, scores, metrics, evaluation.list_notes(locked.inputs)
            )
            on_finished(report, evaluation, answers, add_model_and_judge_to_metrics(build, evaluation, metrics))
        return report

    evaluate.__annotations__["params"] = evaluation.params
    named = flow(
        name=evaluation.name, description=f"{evaluation.title}.", validate_parameters=True, persist_result=False
    )
    return named(evaluate)
