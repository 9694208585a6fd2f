"""Closed-book evaluations: put the question of each published row to a model once, and score its answer.

A benchmark gives its gold answers, prompt and scoring rule; this module makes the rest (rows, parameters, flow,
built-in models, metric, figure, report items) in the same way for every benchmark. A benchmark that shows the model a
context, or has answers judged, defines an `Evaluation` itself.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import BaseModel

from factmill.tasks.assets import load_prompt
from factmill.tasks.core.evaluation.answers import (
    CommonestAnswerGuesser,
    contains_accepted_answer,
    matches_accepted_answer,
    read_short_answer,
)
from factmill.tasks.core.evaluation.rows import (
    REASONS_COUNTED_WRONG,
    AnswerScore,
    EvaluationMetric,
    EvaluationPrediction,
    EvaluationQuestion,
)
from factmill.tasks.core.evaluation.scoring import column_to_floats, make_metric_scores_per_setting, make_score_rows
from factmill.tasks.core.measures.metrics import MeasuredMetric, measure_mean_metrics
from factmill.tasks.core.measures.report_figures import ReportFigure, make_group_figure
from factmill.tasks.core.prompts import FilledPrompt, PromptTemplate, fill_prompt_template
from factmill.tasks.core.rows import JsonText, make_arrow_table, rows_from_arrow
from factmill.tasks.engine.benchmark import Benchmark, BenchmarkAssetNames
from factmill.tasks.evaluation.definition import (
    EVALUATION_METRICS_TABLE,
    AnswerShownInReport,
    Evaluation,
    EvaluationInputs,
    EvaluationParams,
    LocalScoringModels,
    format_explain_answer_line,
    resolve_evaluation_inputs,
    sample_question_clusters,
)
from factmill.tasks.options import CliOption

CLOSED_BOOK_SETTING = "closed_book"
SCORING_RULES = {
    "equals": "it equals an accepted answer, ignoring case, punctuation and articles",
    "holds": "it contains an accepted answer as whole words",
}
"""Built-in scoring rule → when an answer is right."""


class ClosedBookParams(EvaluationParams):
    """Parameters of a closed-book evaluation."""

    setting: Annotated[tuple[Literal["closed_book"], ...], CliOption(metavar="NAME")] = ()
    """The only setting."""


class ClosedBookInputs(EvaluationInputs):
    """Inputs of the steps of a closed-book evaluation."""

    params: ClosedBookParams


class ClosedBookQuestion(EvaluationQuestion):
    """A published row's question."""

    golds: list[str]
    """Accepted answers, the best first; empty where the row has none."""
    row: JsonText
    """The published row."""


class ClosedBookPrediction(ClosedBookQuestion, EvaluationPrediction):
    """A question with the model's answer."""


class ScoredClosedBookPrediction(ClosedBookPrediction):
    """A model's answer to a question of the benchmark, with its score."""

    score: float | None
    """From 0 to 1; null where there is none."""


def make_closed_book_evaluation(
    *,
    benchmark: Benchmark,
    recipe: str,
    prompt: str | PromptTemplate,
    list_gold_answers: Callable[[Any], Sequence[str]],
    question_column: str = "question",
    score: Callable[[str, Any], float | None] | Literal["equals", "holds"] = "equals",
    group_columns: Sequence[str] = (),
    cluster_column: str = "id",
    metric_name: str = "accuracy",
    unit: str = "share",
    **more: Any,
) -> Evaluation:
    """Return the definition of a closed-book evaluation.

    `benchmark`: the benchmark whose main table (rows of `main_row_model`) gives the questions; `recipe`: `module:name` of the
    definition that is returned. `prompt`: a prompt with the input `question`, or the name of one of the prompts.
    `list_gold_answers`: row → its accepted answers, best first. `score`: `equals` gives 1 if the answer is an accepted one, apart
    from case, punctuation and articles; `holds` if it contains one as whole words; or a function from the parsed answer
    and its row to a score from 0 to 1, None for no score. An empty answer and a refusal score 0. `question_column`, `group_columns`,
    `cluster_column`: columns of the row with the question, with the groups of metrics, and with the unit that limits and
    bootstrap intervals draw whole. `unit`: `share` if each score is 0 or 1, else the name of the score (F1, …). `more`:
    fields of `Evaluation` that replace those made here.
    """
    name = benchmark.name
    answers_table = f"{name}_answers"

    def list_questions(rows: pa.Table, inputs: ClosedBookInputs) -> Iterator[ClosedBookQuestion]:
        clusters = [str(each) for each in rows[cluster_column].to_pylist()]
        drawn = sample_question_clusters(clusters, inputs.params)
        for row, cluster in zip(rows_from_arrow(benchmark.main_row_model, rows), clusters, strict=True):
            if cluster in drawn:
                row_id = _get_column_text(row, "id")
                yield ClosedBookQuestion(
                    id=f"{CLOSED_BOOK_SETTING}/{row_id}",
                    question_id=row_id,
                    item=row_id,
                    cluster=cluster,
                    setting=CLOSED_BOOK_SETTING,
                    question=_get_column_text(row, question_column),
                    golds=list(list_gold_answers(row)),
                    row=row.model_dump_json(),
                )

    def fill_prompt(asked: ClosedBookQuestion, _: object = None) -> FilledPrompt:
        return fill_prompt_template(load_prompt(prompt) if isinstance(prompt, str) else prompt, question=asked.question)

    def read_group(row: BaseModel, column: str) -> str | None:
        return None if getattr(row, column) is None else _get_column_text(row, column)

    def find_kind(row: BaseModel) -> str | None:
        return read_group(row, group_columns[0]) if group_columns else ""

    def guess_answers(rows: pa.Table) -> Callable[[ClosedBookQuestion], str]:
        read = rows_from_arrow(benchmark.main_row_model, rows)
        commonest = CommonestAnswerGuesser(
            (find_kind(row), each) for row in read for each in dict.fromkeys(list_gold_answers(row))
        )

        def guess(asked: ClosedBookQuestion) -> str:
            return commonest.guess(find_kind(parse_row(asked.row)), *dict.fromkeys(asked.golds)) if asked.golds else ""

        return guess

    def parse_row(text: str) -> BaseModel:
        return benchmark.main_row_model.model_validate_json(text)

    def score_answer(row: ClosedBookPrediction) -> float | None:
        if not row.golds or row.unscored not in ("", *REASONS_COUNTED_WRONG):
            return None
        if row.unscored:
            return 0.0
        if callable(score):
            return score(row.answer_read, parse_row(row.row))
        is_right = matches_accepted_answer if score == "equals" else contains_accepted_answer
        return float(is_right(row.answer_read, row.golds))

    def score_answers(answers: pa.Table, _inputs: ClosedBookInputs, _tools: LocalScoringModels) -> pa.Table:
        read = rows_from_arrow(ClosedBookPrediction, answers)
        return make_arrow_table(
            ScoredClosedBookPrediction,
            (row.extend_to(ScoredClosedBookPrediction, score=score_answer(row)) for row in read),
        )

    def measure_answers(answers: pa.Table, inputs: ClosedBookInputs) -> tuple[pa.Table, list[MeasuredMetric]]:
        rows = [parse_row(text) for text in answers["row"].to_pylist()]
        grouped = {each: pa.array([read_group(row, each) for row in rows], pa.string()) for each in group_columns}
        by = pa.table({"setting": answers["setting"], **grouped})
        scores = make_score_rows(answers, metric_name, column_to_floats(answers["score"]))
        found = make_metric_scores_per_setting(scores, by, group_columns, is_share=unit == "share", unit=unit)
        return scores, measure_mean_metrics(found, inputs.params.seed)

    def draw_figures(metrics: Sequence[EvaluationMetric]) -> list[ReportFigure]:
        return [figure for each in group_columns if (figure := make_group_figure(metrics, metric_name, each)).series]

    def list_items(answers: pa.Table) -> list[AnswerShownInReport]:
        return [
            AnswerShownInReport(
                answer_id=row.id,
                setting=row.setting,
                question=row.question,
                gold=" | ".join(row.golds),
                answer=row.answer,
                verdict=describe_score(row),
                score=row.score,
                row_id=row.item,
                groups={each: read_group(parse_row(row.row), each) or "" for each in group_columns},
            )
            for row in rows_from_arrow(ScoredClosedBookPrediction, answers)
        ]

    def list_notes(_inputs: ClosedBookInputs) -> list[str]:
        rule = "" if callable(score) else SCORING_RULES[score]
        return [f"An answer is right when {rule}."] if rule else []

    def describe_score(row: ScoredClosedBookPrediction) -> str:
        if row.score is None:
            return f"unscored: {row.unscored or 'no_gold'}"
        verdict = ("right" if row.score else "wrong") if unit == "share" else f"{metric_name} {row.score:.2f}"
        return f"{verdict} ({row.unscored})" if row.unscored else verdict

    def explain_answer(row: ScoredClosedBookPrediction) -> Iterator[str]:
        yield f"  question    {row.question}   (factmill explain {name} {row.item})"
        yield f"  gold        {' | '.join(row.golds) or '(none)'}"
        yield format_explain_answer_line(row.answer, row)
        yield from [f"  read as     {row.answer_read}"] if row.answer_read != row.answer else []
        yield f"  score       {describe_score(row)}{f': {row.detail}' if row.detail else ''}"

    made: dict[str, Any] = {
        "name": f"{name}_evaluation",
        "title": f"Measure a model on {benchmark.title}",
        "examples": (f"factmill evaluate {name} --model oracle", f"factmill evaluate {name} --answers answers.jsonl"),
        "params": ClosedBookParams,
        "resolve_inputs": lambda params, run: resolve_evaluation_inputs(record, params, run, ClosedBookInputs),
        "recipe": recipe,
        "tables": {
            answers_table: ScoredClosedBookPrediction,
            f"{name}_scores": AnswerScore,
            EVALUATION_METRICS_TABLE: EvaluationMetric,
        },
        "main_table": answers_table,
        "group_column": "setting",
        "display_columns": {
            "id": "id",
            "question": "question",
            "golds": "gold",
            "answer": "answer",
            "score": metric_name,
        },
        "explain": explain_answer,
        "assets": BenchmarkAssetNames(prompts=(prompt,) if isinstance(prompt, str) else ()),
        "benchmark": benchmark,
        "settings": {CLOSED_BOOK_SETTING: "the question alone"},
        "default_settings": (CLOSED_BOOK_SETTING,),
        "offline_settings": (CLOSED_BOOK_SETTING,),
        "headline_metrics": (metric_name,),
        "main_metric": metric_name,
        "main_metric_meaning": f"{metric_name.replace('_', ' ').capitalize()} of the model's answers, from memory, averaged over questions.",
        "make_questions": list_questions,
        "make_prompt": fill_prompt,
        "inputs_model": ClosedBookInputs,
        "question_model": ClosedBookQuestion,
        "prediction_model": ClosedBookPrediction,
        "read_answer": read_short_answer,
        "make_oracle": lambda _: lambda asked: asked.golds[0] if asked.golds else "",
        "make_guesser": guess_answers,
        "score_predictions": score_answers,
        "compute_metrics": measure_answers,
        "list_notes": list_notes,
        "draw_figures": draw_figures,
        "list_report_items": list_items,
    }
    record: Evaluation = Evaluation(**made | more)
    return record


def _get_column_text(row: BaseModel, column: str) -> str:
    return str(getattr(row, column))
