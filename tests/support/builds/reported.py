"""Make a small evaluation for reports, with answers that try to be more than text."""

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from factmill.tasks.core.evaluation.rows import AnswerScore, EvaluationMetric, EvaluationPrediction
from factmill.tasks.core.measures.metrics import MetricScores, measure_mean_metrics
from factmill.tasks.core.measures.report_figures import FigureSeries, ReportFigure
from factmill.tasks.core.rows import make_arrow_table
from factmill.tasks.evaluation.definition import AnswerShownInReport, Evaluation, PaperResult
from factmill.tasks.multihal.evaluation.definition import MULTIHAL_EVALUATION
from factmill.tasks.reports.evaluation_report import LoadedEvaluation
from factmill.tasks.storage.builds import BuildRecord

HOSTILE = (
    "<script>alert(1)</script>",
    "</style><style>@import url(http://elsewhere.example/x.css)</style>",
    '<img src="http://elsewhere.example/x.png" onerror="alert(1)"> & more',
    "\u202egnorw si siht\u202c שלום \u200f ../../etc/passwd\x00</textarea>",
    "![x](http://elsewhere.example/y.png) | cell\nline",
    "long " * 20_000,
)
"""Answers, all wrong."""
_SERVICES = {"wikidata": "embedded-1", "wikipedia": "embedded-1"}
MODEL = "weak <b>& $x$"


def list_items(answers: pa.Table) -> list[AnswerShownInReport]:
    return [
        AnswerShownInReport(
            answer_id=row["id"],
            setting=row["setting"],
            question=row["question"],
            gold="gold",
            answer=row["answer"],
            verdict=f"unscored: {row['unscored']}"
            if row["unscored"]
            else "right"
            if row["answer"] == "gold"
            else "wrong",
            score=None if row["unscored"] else float(row["answer"] == "gold"),
            row_id=row["item"],
            groups={"kind": "a" if row["id"] < "ask/q05" else "b"},
        )
        for row in answers.to_pylist()
    ]


def draw_figures(metrics: Sequence[EvaluationMetric]) -> list[ReportFigure]:
    found = [each for each in metrics if each.group_by == "kind"]
    models = list(dict.fromkeys(each.model for each in found))
    by = {model: [each for each in found if each.model == model] for model in models}
    bars = tuple(
        FigureSeries(
            model,
            tuple(each.group for each in mine),
            tuple(each.value for each in mine),
            tuple(each.ci_low for each in mine),
            tuple(each.ci_high for each in mine),
        )
        for model, mine in by.items()
    )
    lines = tuple(FigureSeries(model, (1, 2), (0.5, None)) for model in models)
    return [
        ReportFigure("by_kind", "Accuracy, by kind", "bars", "kind", "accuracy", bars),
        ReportFigure("by_place", "Accuracy, by place", "lines", "place", "accuracy", lines, y_range=(0, 1)),
        ReportFigure("two", "One by the other", "scatter", "x", "y", tuple(FigureSeries(each, (0.1,), (0.2,), (0.1,), (0.3,)) for each in models)),
        ReportFigure("levels", "Levels", "stacked", "model", "share", (FigureSeries("level 1", tuple(models), (0.5,) * len(models)),)),
    ]  # fmt: skip


EVALUATION: Evaluation = dataclasses.replace(
    MULTIHAL_EVALUATION,
    settings={"ask": "the question alone"},
    headline_metrics=("accuracy",),
    main_metric="accuracy",
    main_metric_meaning="The share of questions answered with gold.",
    draw_figures=draw_figures,
    list_report_items=list_items,
    paper_results=(PaperResult("accuracy", "ask", "GPT-9", 0.5, "Table 1", "other rows"),),
)


def make_evaluated(
    model: str, answers: Sequence[str], scripted: dict[str, str] | None = None, **facts: Any
) -> LoadedEvaluation:
    """Return an evaluation of one setting with these answers: `gold` is right, and an empty one has no score."""
    result = {"measured": "multihal-1", "model": model, "judge": "", "items": len(answers), "unscored": 0, **facts}
    params = {"params": {"seed": 0, "limit": None}, "settings": ["ask"], "source_digest": "ab" * 32}
    lock = {
        "params": params,
        "world": {"name": "embedded", "epoch": "2026-01-01"},
        "version": "1",
        "code": "c",
        "prompts": {},
    }
    rows = [_answer(number, answer, model) for number, answer in enumerate(answers)]
    values = [None if row.unscored else float(row.answer == "gold") for row in rows]
    scores = [
        AnswerScore(
            id=f"accuracy:{row.id}",
            **{
                name: getattr(row, name) for name in ("question_id", "item", "cluster", "setting", "unscored", "detail")
            },
            metric="accuracy",
            value=value,
        )
        for row, value in zip(rows, values, strict=True)
    ]
    found = measure_mean_metrics(
        [
            MetricScores(
                "ask",
                "accuracy",
                [row.item for row in rows],
                [row.cluster for row in rows],
                pa.array(values, pa.float64()).to_numpy(zero_copy_only=False),
                {"kind": ["a" if number < 5 else "b" for number in range(len(rows))]},
                unit="share",
                is_share=True,
            )
        ]
    )
    metrics = [
        EvaluationMetric(
            id=f"{each.setting}/{each.metric}/{each.group}",
            benchmark="multihal",
            model=model,
            judge="",
            **each.model_dump(),
        )
        for each in found
    ]
    return LoadedEvaluation(
        _record(f"multihal_evaluation-{len(model)}", lock, result),
        _record(
            "multihal-1",
            {"scripted": scripted, "author": "scripted replies" if scripted else "someone", "services": _SERVICES},
            {},
        ),
        metrics,
        make_arrow_table(EvaluationPrediction, rows),
        make_arrow_table(AnswerScore, scores),
    )


def _answer(number: int, answer: str, model: str) -> EvaluationPrediction:
    name = f"q{number:02}"
    return EvaluationPrediction(
        id=f"ask/{name}", question_id=name, item=name, cluster=name, setting="ask", question=f"Question {number}?",
        answer=answer, answer_read=answer, samples=[], finish="", unscored="" if answer else "no_answer", detail="",
        tokens_in=0, tokens_out=0, model=model, call="",
    )  # fmt: skip


def _record(build_id: str, lock: Mapping[str, Any], facts: Mapping[str, Any]) -> BuildRecord:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    origin = {"flow": {"build": "multihal-1"}, "files": {}}
    return BuildRecord(
        build_id, "multihal_evaluation", "", dict(lock), origin, "", {"facts": facts, "notes": []}, now, now
    )
