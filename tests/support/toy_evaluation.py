"""Define an evaluation of the sixth benchmark (toy_benchmark.py): a program and a judge check the number."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Literal

import pyarrow as pa
from toy_benchmark import COUNTRIES, CountryQuestion

from factmill.tasks.core.completions import CompletionFormat, UnreadableCompletion
from factmill.tasks.core.evaluation.answer_frame import enclose_answer_in_boundary_lines, make_answer_boundary
from factmill.tasks.core.evaluation.rows import (
    AnswerScore,
    EvaluationMetric,
    EvaluationPrediction,
    EvaluationQuestion,
)
from factmill.tasks.core.measures.metrics import MeasuredMetric, MetricScores, measure_mean_metrics
from factmill.tasks.core.measures.report_figures import ReportFigure
from factmill.tasks.core.prompts import FilledPrompt, fill_prompt_template, parse_prompt_file
from factmill.tasks.core.rows import make_arrow_table, rows_from_arrow
from factmill.tasks.engine.benchmark import BuildInputsAndSourceFiles
from factmill.tasks.evaluation.answering_and_judging import AnswerJudgment, JudgingSpec
from factmill.tasks.evaluation.definition import (
    AnswerShownInReport,
    Evaluation,
    EvaluationInputs,
    JudgedEvaluationParams,
    resolve_evaluation_inputs,
    sample_question_clusters,
)
from factmill.tasks.options import CliOption, RunOptions

ANSWER = parse_prompt_file(
    "toy/answer", b'+++\nrole = "answerer"\ninputs = ["question"]\nmax_tokens = 50\n+++\n# user\n$question\n'
)
JUDGE = parse_prompt_file(
    "toy/judge",
    b'+++\nrole = "judge"\ninputs = ["gold", "framed", "boundary"]\n+++\n# user\nGold: $gold\nBetween the lines of $boundary:\n$framed\nVerdict: right or wrong\n',
)
VERDICT = CompletionFormat("lines", line_head="verdict", answer_extent="line")
Setting = Literal["ask", "ask_again"]


class CountryAsked(EvaluationQuestion):
    gold: str


class CountryAnswer(CountryAsked, EvaluationPrediction):
    pass


class JudgedCountry(CountryAnswer):
    is_right: bool | None
    judge: str
    why_not: str


class CountryEvaluationParams(JudgedEvaluationParams):
    setting: Annotated[tuple[Setting, ...], CliOption("--setting", "NAME")] = ()
    """Only this setting (repeatable)."""


class CountryEvaluationInputs(EvaluationInputs):
    params: CountryEvaluationParams


def lock_inputs(params: CountryEvaluationParams, run: RunOptions) -> BuildInputsAndSourceFiles[CountryEvaluationInputs]:
    return resolve_evaluation_inputs(COUNTRIES_EVALUATION, params, run, CountryEvaluationInputs)


def list_questions(rows: pa.Table, inputs: CountryEvaluationInputs) -> Iterator[CountryAsked]:
    """Return every country in every setting."""
    read = rows_from_arrow(CountryQuestion, rows)
    drawn = sample_question_clusters([row.letter for row in read], inputs.params)
    for setting in inputs.settings:
        for row in read:
            if row.letter in drawn:
                result = {"question_id": row.id, "item": row.id, "cluster": row.letter, "setting": setting}
                yield CountryAsked(id=f"{setting}/{row.id}", question=row.question, gold=row.qid, **result)


def fill_prompt(asked: EvaluationQuestion, _: object = None) -> FilledPrompt:
    return fill_prompt_template(ANSWER, question=f"{asked.question} ({asked.setting})")


def guess_commonest(rows: pa.Table) -> Callable[[CountryAsked], str]:
    golds = rows["qid"].to_pylist()
    commonest = max(sorted(golds), key=golds.count)
    return lambda _: commonest


def read_verdict(text: str) -> bool | UnreadableCompletion:
    """Return the last verdict of a judge's reply."""
    verdicts = [line.split(":")[1].strip().lower() for line in text.splitlines() if line.lower().startswith("verdict:")]
    if not verdicts or verdicts[-1] not in ("right", "wrong"):
        return UnreadableCompletion("no line `Verdict: right` or `Verdict: wrong`")
    return verdicts[-1] == "right"


def mark(row: CountryAnswer, judged: AnswerJudgment[bool] | None, judge: str) -> JudgedCountry:
    right, why = (None, row.unscored) if judged is None else (judged.verdict, judged.unscored)
    return row.extend_to(JudgedCountry, is_right=right, judge=judge, why_not=why)


JUDGING: JudgingSpec[CountryAnswer, bool, JudgedCountry] = JudgingSpec(
    make_prompt=lambda row: fill_prompt_template(
        JUDGE,
        gold=row.gold,
        framed=enclose_answer_in_boundary_lines(row.id, row.answer_read),
        boundary=make_answer_boundary(row.id, row.answer_read),
    ),
    completion_format=VERDICT,
    parse_verdict=lambda _, texts: read_verdict(texts[0]),
    judge_exactly=lambda row: row.answer_read == row.gold,
    row_model=JudgedCountry,
    make_judged_row=mark,
)


def measure_countries(judged: pa.Table, inputs: CountryEvaluationInputs) -> tuple[pa.Table, list[MeasuredMetric]]:
    scores = list(score(rows_from_arrow(JudgedCountry, judged)))
    metrics = measure_mean_metrics(
        [
            MetricScores(
                setting=setting,
                metric="accuracy",
                items=[each.item for each in mine],
                clusters=[each.cluster for each in mine],
                values=pa.array([each.value for each in mine], pa.float64()).to_numpy(zero_copy_only=False),
                unit="share",
                is_share=True,
            )
            for setting in inputs.settings
            if (mine := [each for each in scores if each.setting == setting])
        ],
        inputs.params.seed,
    )
    return make_arrow_table(AnswerScore, scores), metrics


def score(rows: Iterable[JudgedCountry]) -> Iterator[AnswerScore]:
    for row in rows:
        kept = {name: getattr(row, name) for name in ("question_id", "item", "cluster", "setting", "detail")}
        value = None if row.is_right is None else float(row.is_right)
        yield AnswerScore(id=f"accuracy:{row.id}", metric="accuracy", value=value, unscored=row.why_not, **kept)


def list_items(_: pa.Table) -> list[AnswerShownInReport]:
    return []


def list_figures(_: Sequence[EvaluationMetric]) -> list[ReportFigure]:
    return []


COUNTRIES_EVALUATION = Evaluation(
    name="countries_evaluation",
    title="Measure a model on countries' numbers",
    examples=("factmill evaluate countries --model oracle",),
    params=CountryEvaluationParams,
    resolve_inputs=lock_inputs,
    recipe="toy_evaluation:COUNTRIES_EVALUATION",
    tables={
        "countries_answers": JudgedCountry,
        "countries_scores": AnswerScore,
        "evaluation_metrics": EvaluationMetric,
    },
    main_table="countries_answers",
    group_column="setting",
    display_columns={"id": "id", "question": "question", "answer": "answer", "is_right": "right"},
    explain=lambda row: [f"  answer      {row.answer}", f"  right       {row.is_right}"],
    benchmark=COUNTRIES,
    settings={"ask": "the question alone", "ask_again": "the same"},
    default_settings=("ask",),
    offline_settings=("ask",),
    headline_metrics=("accuracy",),
    main_metric="accuracy",
    main_metric_meaning="The share of countries whose number the model knows.",
    make_questions=list_questions,
    make_prompt=fill_prompt,
    inputs_model=CountryEvaluationInputs,
    question_model=CountryAsked,
    prediction_model=CountryAnswer,
    make_oracle=lambda _: lambda asked: asked.gold,
    make_guesser=guess_commonest,
    judging_spec=JUDGING,
    compute_metrics=measure_countries,
    draw_figures=list_figures,
    list_report_items=list_items,
)
