"""Steps and flow of an evaluation, made from its definition: ask, answer, judge, score, measure, publish."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
from prefect import Flow, Task, flow, task

from factmill.tasks.core.evaluation.rows import Answer, EvaluationMetric
from factmill.tasks.core.finish_reasons import describe_unknown
from factmill.tasks.core.measures.metrics import Metric
from factmill.tasks.core.receipts import Batch, Receipt
from factmill.tasks.core.rows import arrow_table, rows_from_arrow
from factmill.tasks.engine.batches import Work, batch_key, work_on
from factmill.tasks.engine.building import Build, open_build
from factmill.tasks.evaluation.answering import answer_at_once, hold_dialogues, judge_rows, name_answerer, sends_nothing
from factmill.tasks.evaluation.measured import gather_measured, load_answers, tell_left_out
from factmill.tasks.evaluation.record import (
    ANSWERS,
    METRICS,
    Evaluation,
    EvaluationParams,
    Leave,
    keep_answers,
    list_keys,
    name_judge,
)
from factmill.tasks.options import BuildReport, RunOptions
from factmill.tasks.storage.source_files import SourceFile
from factmill.tasks.storage.stores import Store


def publish_evaluation(
    build: Build,
    evaluation: Evaluation,
    answers: pa.Table,
    scores: pa.Table,
    metrics: Sequence[Metric],
    notes: Sequence[str] = (),
) -> BuildReport:
    """Publish an evaluation and return its report.

    `answers`: rows of the evaluation's main table; `scores`: rows of `Score`; `notes`: remarks on the figures.
    NothingPublished if every call of the model under test failed.
    """
    lock = build.run.lock
    if answers.num_rows and pc.all(pc.equal(answers["unscored"], "model_failed")).as_py():
        build.end_without_rows(
            f"{lock['author']} answered none of {answers.num_rows} questions, the first: {answers['detail'][0].as_py()}. "
            f"What to do: look at the model with `factmill doctor --world {build.options.world}`, then run the same command again"
        )
    measured = name_metrics(build, evaluation, metrics)
    release = build.run.origin["flow"].get("release")
    tables = {
        evaluation.main_table: answers,
        f"{evaluation.of.name}_scores": scores,
        METRICS: arrow_table(EvaluationMetric, measured),
    }
    facts = {
        "measured": build.run.origin["flow"]["build"],
        "model": lock["author"],
        "judge": name_judge(lock),
        "items": answers.num_rows,
        "unscored": count_unscored(answers, scores),
        "notes": [
            *notes,
            *(tell_left_out(evaluation.of, Store(Path(release))) if release else ()),
            *describe_unknown(lock["author"], pc.unique(answers["finish"]).to_pylist()),
        ],
    }
    files = [SourceFile(Path(path), name, sha) for path, name, sha, _ in build.run.origin["files"].get(ANSWERS, ())]
    if files:
        # mismatches of a file of answers: missing, extra and repeated ids
        facts |= load_answers(files[0]).describe(list_keys(answers))
    return build.publish(tables, facts)


def name_metrics(build: Build, evaluation: Evaluation, metrics: Sequence[Metric]) -> list[EvaluationMetric]:
    """Return metrics as rows of the published table, with benchmark, model and judge."""
    lock = build.run.lock
    return evaluation.label_metrics(metrics, lock["author"], name_judge(lock))


def count_unscored(answers: pa.Table, scores: pa.Table) -> int:
    """Count the answers that lack a score that they should have.

    A score belongs to its answer's question, or to its row if one answer has several questions (SLAQ's long answers).
    """
    missing = scores.filter(pc.is_null(scores["value"]))
    scored, by_question = _list_pairs(scores, "question_id"), _list_pairs(missing, "question_id")
    by_item = _list_pairs(missing, "item")
    asked = zip(*(answers[name].to_pylist() for name in ("setting", "question_id", "item")), strict=True)
    return sum(
        (setting, question) in by_question or ((setting, question) not in scored and (setting, item) in by_item)
        for setting, question, item in asked
    )


def _list_pairs(scores: pa.Table, name: str) -> set[tuple[str, str]]:
    return set(zip(scores["setting"].to_pylist(), scores[name].to_pylist(), strict=True))


Step = Task[[Batch], Receipt]


def _make_step(name: str, work: Callable[[Work], Receipt]) -> Step:
    def run(batch: Batch) -> Receipt:
        return work(work_on(batch))

    return task(name=name, cache_key_fn=batch_key, persist_result=True)(run)


def make_asking(evaluation: Evaluation) -> Step:
    """Return the step that lists the questions of one setting; each question counts as an input row."""

    def ask(work: Work) -> Receipt:
        inputs = work.inputs(evaluation.inputs).model_copy(update={"settings": (work.batch.unit,)})
        asked = evaluation.list_questions(gather_measured(work, evaluation), inputs)
        work.rows_in = asked.num_rows
        return work.finish_table(asked, evaluation.asked)

    return _make_step(f"ask_{evaluation.of.name}_questions", ask)


def make_answering(evaluation: Evaluation) -> Step:
    """Return the step that puts each question to the model once."""

    def answer(work: Work) -> Receipt:
        return work.finish_table(answer_asked(work, evaluation, work.table(evaluation.asked)), evaluation.answers)

    return _make_step(f"answer_{evaluation.of.name}_questions", answer)


def answer_asked(work: Work, evaluation: Evaluation, asked: pa.Table) -> pa.Table:
    """Return the answers (rows of `answers`) to questions (rows of `asked`)."""
    if sends_nothing(work):
        return answer_at_once(work, evaluation, asked)
    answered = hold_dialogues(work, evaluation, rows_from_arrow(evaluation.asked, asked))
    name = name_answerer(work)
    return arrow_table(evaluation.answers, (given.extend(row, evaluation.answers, name) for row, given in answered))


def make_judging(evaluation: Evaluation) -> Step:
    """Return the step that judges answers; TypeError for an evaluation without a judge."""
    judging = evaluation.judging
    if judging is None:
        raise TypeError(f"{evaluation.name} has no judge")

    def judge(work: Work) -> Receipt:
        return work.finish(judge_rows(work, work.rows(evaluation.answers), judging), judging.row)

    return _make_step(f"judge_{evaluation.of.name}_answers", judge)


def make_scoring(evaluation: Evaluation) -> Step:
    """Return the step that scores answers, which are judged if the evaluation has a judge."""

    def score(work: Work) -> Receipt:
        answers = work.table(evaluation.judging.row if evaluation.judging else evaluation.answers)
        return work.finish_table(
            evaluation.score(answers, work.inputs(evaluation.inputs), work.run.services), evaluation.row
        )

    return _make_step(f"score_{evaluation.of.name}_answers", score)


def make_flow(evaluation: Evaluation, leave: Leave) -> Flow[..., BuildReport]:
    """Return the flow of an evaluation, made of this module's steps; `leave` presents the results."""
    ask, answer = make_asking(evaluation), make_answering(evaluation)
    judge = make_judging(evaluation) if evaluation.judging else None
    score = make_scoring(evaluation) if evaluation.score is not keep_answers else None

    def evaluate(
        params: EvaluationParams = evaluation.params(),  # noqa: B008 - frozen
        run: RunOptions = RunOptions(),  # noqa: B008 - frozen
    ) -> BuildReport:
        locked = evaluation.lock_inputs(params, run)
        with open_build(evaluation, locked, run) as build:
            made = build.stage(answer, build.load(ask, locked.inputs.settings), most_rows=evaluation.most_asked)
            made = build.stage(judge, made) if judge else made
            made = build.stage(score, made) if score else made
            answers = made.table(cast(type[Answer], evaluation.row))
            scores, metrics = evaluation.measure(answers, locked.inputs)
            report = publish_evaluation(build, evaluation, answers, scores, metrics, evaluation.notes(locked.inputs))
            leave(report, evaluation, answers, name_metrics(build, evaluation, metrics))
        return report

    evaluate.__annotations__["params"] = evaluation.params
    named = flow(
        name=evaluation.name, description=f"{evaluation.title}.", validate_parameters=True, persist_result=False
    )
    return named(evaluate)
