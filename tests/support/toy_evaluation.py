"""How models would be measured on the sixth benchmark (toy_benchmark.py): is the number right, as a program sees it, and as a judge does?"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Literal

import pyarrow as pa
from toy_benchmark import COUNTRIES, CountryQuestion

from factmill.tasks.core.evaluation.frame import frame, make_boundary
from factmill.tasks.core.evaluation.rows import Answer, Asked, EvaluationMetric, Score
from factmill.tasks.core.measures.figures import Figure
from factmill.tasks.core.measures.metrics import Metric, Scores, measure
from factmill.tasks.core.prompts import Ask, fill_in, read_prompt
from factmill.tasks.core.replies import Form, Unreadable
from factmill.tasks.core.rows import arrow_table, rows_from_arrow
from factmill.tasks.engine.benchmark import Locked
from factmill.tasks.evaluation.answering import Judged, Judging
from factmill.tasks.evaluation.record import (
    Evaluation,
    EvaluationInputs,
    Item,
    JudgedParams,
    draw_clusters,
    lock_evaluation,
)
from factmill.tasks.options import Option, RunOptions

ANSWER = read_prompt(
    "toy/answer", b'+++\nrole = "answerer"\ninputs = ["question"]\nmax_tokens = 50\n+++\n# user\n$question\n'
)
JUDGE = read_prompt(
    "toy/judge",
    b'+++\nrole = "judge"\ninputs = ["gold", "framed", "boundary"]\n+++\n# user\nGold: $gold\nBetween the lines of $boundary:\n$framed\nVerdict: right or wrong\n',
)
VERDICT = Form("lines", head="verdict", reach="line")
Setting = Literal["ask", "ask_again"]


class CountryAsked(Asked):
    gold: str


class CountryAnswer(CountryAsked, Answer):
    pass


class JudgedCountry(CountryAnswer):
    is_right: bool | None
    judge: str
    why_not: str


class CountryEvaluationParams(JudgedParams):
    setting: Annotated[tuple[Setting, ...], Option("--setting", "NAME")] = ()
    """Only this setting (repeatable)."""


class CountryEvaluationInputs(EvaluationInputs):
    params: CountryEvaluationParams


def lock_inputs(params: CountryEvaluationParams, run: RunOptions) -> Locked[CountryEvaluationInputs]:
    return lock_evaluation(COUNTRIES_EVALUATION, params, run, CountryEvaluationInputs)


def list_questions(rows: pa.Table, inputs: CountryEvaluationInputs) -> Iterator[CountryAsked]:
    """Every country in every setting."""
    read = rows_from_arrow(CountryQuestion, rows)
    drawn = draw_clusters([row.letter for row in read], inputs.params)
    for setting in inputs.settings:
        for row in read:
            if row.letter in drawn:
                told = {"question_id": row.id, "item": row.id, "cluster": row.letter, "setting": setting}
                yield CountryAsked(id=f"{setting}/{row.id}", question=row.question, gold=row.qid, **told)


def fill_prompt(asked: Asked, _: object = None) -> Ask:
    return fill_in(ANSWER, question=f"{asked.question} ({asked.setting})")


def guess_commonest(rows: pa.Table) -> Callable[[CountryAsked], str]:
    golds = rows["qid"].to_pylist()
    commonest = max(sorted(golds), key=golds.count)
    return lambda _: commonest


def read_verdict(text: str) -> bool | Unreadable:
    """Return the last verdict of a judge's reply."""
    verdicts = [line.split(":")[1].strip().lower() for line in text.splitlines() if line.lower().startswith("verdict:")]
    if not verdicts or verdicts[-1] not in ("right", "wrong"):
        return Unreadable("no line `Verdict: right` or `Verdict: wrong`")
    return verdicts[-1] == "right"


def mark(row: CountryAnswer, judged: Judged[bool] | None, judge: str) -> JudgedCountry:
    right, why = (None, row.unscored) if judged is None else (judged.verdict, judged.unscored)
    return row.extend(JudgedCountry, is_right=right, judge=judge, why_not=why)


JUDGING: Judging[CountryAnswer, bool, JudgedCountry] = Judging(
    fill=lambda row: fill_in(
        JUDGE,
        gold=row.gold,
        framed=frame(row.id, row.answer_read),
        boundary=make_boundary(row.id, row.answer_read),
    ),
    form=VERDICT,
    read=lambda _, texts: read_verdict(texts[0]),
    compare=lambda row: row.answer_read == row.gold,
    row=JudgedCountry,
    mark=mark,
)


def measure_countries(judged: pa.Table, inputs: CountryEvaluationInputs) -> tuple[pa.Table, list[Metric]]:
    scores = list(score(rows_from_arrow(JudgedCountry, judged)))
    metrics = measure(
        [
            Scores(
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
    return arrow_table(Score, scores), metrics


def score(rows: Iterable[JudgedCountry]) -> Iterator[Score]:
    for row in rows:
        kept = {name: getattr(row, name) for name in ("question_id", "item", "cluster", "setting", "detail")}
        value = None if row.is_right is None else float(row.is_right)
        yield Score(id=f"accuracy:{row.id}", metric="accuracy", value=value, unscored=row.why_not, **kept)


def list_items(_: pa.Table) -> list[Item]:
    return []


def list_figures(_: Sequence[EvaluationMetric]) -> list[Figure]:
    return []


COUNTRIES_EVALUATION = Evaluation(
    name="countries_evaluation",
    title="Measure a model on countries' numbers",
    examples=("factmill evaluate countries --model oracle",),
    params=CountryEvaluationParams,
    lock_inputs=lock_inputs,
    recipe="toy_evaluation:COUNTRIES_EVALUATION",
    tables={"countries_answers": JudgedCountry, "countries_scores": Score, "evaluation_metrics": EvaluationMetric},
    main_table="countries_answers",
    part="setting",
    shown={"id": "id", "question": "question", "answer": "answer", "is_right": "right"},
    explain=lambda row: [f"  answer      {row.answer}", f"  right       {row.is_right}"],
    of=COUNTRIES,
    settings={"ask": "the question alone", "ask_again": "the same"},
    usual=("ask",),
    plain=("ask",),
    headline=("accuracy",),
    main="accuracy",
    meaning="The share of countries whose number the model knows.",
    questions=list_questions,
    fill=fill_prompt,
    inputs=CountryEvaluationInputs,
    asked=CountryAsked,
    answers=CountryAnswer,
    oracle=lambda _: lambda asked: asked.gold,
    guess=guess_commonest,
    judging=JUDGING,
    measure=measure_countries,
    figures=list_figures,
    items=list_items,
)
