"""How an evaluation is published: answers, scores and metrics as tables of one build."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tasks.core.evaluation.rows import EvaluationMetric
from tasks.core.finish_reasons import describe_unknown
from tasks.core.measures.metrics import Metric
from tasks.core.rows import arrow_table
from tasks.engine.building import Build
from tasks.evaluation.measured import load_answers, tell_left_out
from tasks.evaluation.record import ANSWERS, EXACT, METRICS, Evaluation, list_keys
from tasks.options import BuildReport
from tasks.storage.source_files import SourceFile
from tasks.storage.stores import Store


def publish_evaluation(
    build: Build,
    evaluation: Evaluation,
    answers: pa.Table,
    scores: pa.Table,
    metrics: Sequence[Metric],
    notes: Sequence[str] = (),
) -> BuildReport:
    """Publish an evaluation and return its report.

    `answers`: rows of the evaluation's main table; `scores`: rows of `Score`; `notes`: what is to be said beside
    the figures. NothingPublished when the model under test could not be asked at all.
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
        "judge": _name_judge(lock),
        "items": answers.num_rows,
        "unscored": count_unscored(answers, scores),
        "notes": [
            *notes,
            *(tell_left_out(evaluation.of, Store(Path(release))) if release else ()),
            *describe_unknown(lock["author"], pc.unique(answers["finish"]).to_pylist()),
        ],
    }
    return build.publish(tables, {**facts, **describe_file(build, answers)})


def name_metrics(build: Build, evaluation: Evaluation, metrics: Sequence[Metric]) -> list[EvaluationMetric]:
    """Return metrics as rows of the published table: with benchmark, model and judge."""
    lock = build.run.lock
    return evaluation.label_metrics(metrics, lock["author"], _name_judge(lock))


def _name_judge(lock: Mapping[str, Any]) -> str:
    judge: str = lock["params"]["params"].get("judge", "")
    return judge if judge in ("", EXACT) else str(lock["models"][judge])


def count_unscored(answers: pa.Table, scores: pa.Table) -> int:
    """Return how many answers lack a score that they should have.

    Scores are filed under their answer's question, or, where one answer has several (SLAQ's long ones), under its row.
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


def describe_file(build: Build, answers: pa.Table) -> Mapping[str, Any]:
    """Return what does not fit in a file of answers: missing, extra and doubled ids; nothing where there is no file."""
    files = [SourceFile(Path(path), name, sha) for path, name, sha, _ in build.run.origin["files"].get(ANSWERS, ())]
    return load_answers(files[0]).describe(list_keys(answers)) if files else {}
