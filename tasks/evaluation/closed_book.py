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
from factmill.tasks.core.evaluation.answers import CommonestAnswers, holds_accepted, is_accepted, read_answer
from factmill.tasks.core.evaluation.rows import COUNTED_WRONG, Answer, Asked, EvaluationMetric, Score
from factmill.tasks.core.evaluation.scoring import gather_scores, score_rows, to_floats
from factmill.tasks.core.measures.figures import Figure, draw_groups
from factmill.tasks.core.measures.metrics import Metric, measure
from factmill.tasks.core.prompts import Ask, Prompt, fill_in
from factmill.tasks.core.rows import JsonText, arrow_table, rows_from_arrow
from factmill.tasks.engine.benchmark import Assets, Benchmark
from factmill.tasks.evaluation.record import (
    METRICS,
    Evaluation,
    EvaluationInputs,
    EvaluationParams,
    Item,
    Tools,
    draw_clusters,
    lock_evaluation,
    tell_answer,
)
from factmill.tasks.options import Option

CLOSED_BOOK = "closed_book"
RULES = {
    "equals": "it is one of the accepted ones, apart from case, punctuation and articles",
    "holds": "it holds one of the accepted ones as whole words",
}
"""Built-in scoring rule → when an answer is right."""


class ClosedBookParams(EvaluationParams):
    """Parameters of a closed-book evaluation."""

    setting: Annotated[tuple[Literal["closed_book"], ...], Option("--setting", "NAME")] = ()
    """The one setting that there is."""


class ClosedBookInputs(EvaluationInputs):
    """Inputs of the steps of a closed-book evaluation."""

    params: ClosedBookParams


class ClosedBookAsked(Asked):
    """A published row's question."""

    golds: list[str]
    """Accepted answers, the best first; empty where the row has none."""
    row: JsonText
    """The published row."""


class ClosedBookAnswer(ClosedBookAsked, Answer):
    """A question with the model's answer."""


class ScoredClosedBook(ClosedBookAnswer):
    """A row of the published table of answers."""

    score: float | None
    """From 0 to 1; null where there is none."""


def make_closed_book(
    *,
    of: Benchmark,
    recipe: str,
    prompt: str | Prompt,
    gold: Callable[[Any], Sequence[str]],
    question: str = "question",
    score: Callable[[str, Any], float | None] | Literal["equals", "holds"] = "equals",
    groups: Sequence[str] = (),
    cluster: str = "id",
    metric: str = "accuracy",
    unit: str = "share",
    **more: Any,
) -> Evaluation:
    """Return the definition of a closed-book evaluation.

    `of`: the benchmark whose main table (rows of `of.row`) gives the questions; `recipe`: `module:name` of the
    definition that is returned. `prompt`: a prompt with the input `question`, or the name of one of the prompts.
    `gold`: row → its accepted answers, best first. `score`: `equals` gives 1 if the answer is an accepted one, apart
    from case, punctuation and articles; `holds` if it contains one as whole words; or a function from the parsed answer
    and its row to a score from 0 to 1, None for no score. An empty answer and a refusal score 0. `question`, `groups`,
    `cluster`: columns of the row with the question, with the groups of metrics, and with the unit that limits and
    bootstrap intervals draw whole. `unit`: `share` if each score is 0 or 1, else the name of the score (F1, …). `more`:
    fields of `Evaluation` that replace those made here.
    """
    name = of.name
    answers_table = f"{name}_answers"

    def list_questions(rows: pa.Table, inputs: ClosedBookInputs) -> Iterator[ClosedBookAsked]:
        clusters = [str(each) for each in rows[cluster].to_pylist()]
        drawn = draw_clusters(clusters, inputs.params)
        for row, mine in zip(rows_from_arrow(of.row, rows), clusters, strict=True):
            if mine in drawn:
                row_id = _column(row, "id")
                yield ClosedBookAsked(
                    id=f"{CLOSED_BOOK}/{row_id}",
                    question_id=row_id,
                    item=row_id,
                    cluster=mine,
                    setting=CLOSED_BOOK,
                    question=_column(row, question),
                    golds=list(gold(row)),
                    row=row.model_dump_json(),
                )

    def fill_prompt(asked: ClosedBookAsked, _: object = None) -> Ask:
        return fill_in(load_prompt(prompt) if isinstance(prompt, str) else prompt, question=asked.question)

    def read_group(row: BaseModel, column: str) -> str | None:
        return None if getattr(row, column) is None else _column(row, column)

    def find_kind(row: BaseModel) -> str | None:
        return read_group(row, groups[0]) if groups else ""

    def guess_answers(rows: pa.Table) -> Callable[[ClosedBookAsked], str]:
        read = rows_from_arrow(of.row, rows)
        commonest = CommonestAnswers((find_kind(row), each) for row in read for each in dict.fromkeys(gold(row)))

        def guess(asked: ClosedBookAsked) -> str:
            return commonest.guess(find_kind(parse_row(asked.row)), *dict.fromkeys(asked.golds)) if asked.golds else ""

        return guess

    def parse_row(text: str) -> BaseModel:
        return of.row.model_validate_json(text)

    def score_answer(row: ClosedBookAnswer) -> float | None:
        if not row.golds or row.unscored not in ("", *COUNTED_WRONG):
            return None
        if row.unscored:
            return 0.0
        if callable(score):
            return score(row.answer_read, parse_row(row.row))
        is_right = is_accepted if score == "equals" else holds_accepted
        return float(is_right(row.answer_read, row.golds))

    def score_answers(answers: pa.Table, _inputs: ClosedBookInputs, _tools: Tools) -> pa.Table:
        read = rows_from_arrow(ClosedBookAnswer, answers)
        return arrow_table(ScoredClosedBook, (row.extend(ScoredClosedBook, score=score_answer(row)) for row in read))

    def measure_answers(answers: pa.Table, inputs: ClosedBookInputs) -> tuple[pa.Table, list[Metric]]:
        rows = [parse_row(text) for text in answers["row"].to_pylist()]
        grouped = {each: pa.array([read_group(row, each) for row in rows], pa.string()) for each in groups}
        by = pa.table({"setting": answers["setting"], **grouped})
        scores = score_rows(answers, metric, to_floats(answers["score"]))
        found = gather_scores(scores, by, groups, is_share=unit == "share", unit=unit)
        return scores, measure(found, inputs.params.seed)

    def draw_figures(metrics: Sequence[EvaluationMetric]) -> list[Figure]:
        return [figure for each in groups if (figure := draw_groups(metrics, metric, each)).series]

    def list_items(answers: pa.Table) -> list[Item]:
        return [
            Item(
                answer_id=row.id,
                setting=row.setting,
                question=row.question,
                gold=" | ".join(row.golds),
                answer=row.answer,
                verdict=describe_score(row),
                score=row.score,
                row_id=row.item,
                groups={each: read_group(parse_row(row.row), each) or "" for each in groups},
            )
            for row in rows_from_arrow(ScoredClosedBook, answers)
        ]

    def list_notes(_inputs: ClosedBookInputs) -> list[str]:
        rule = "" if callable(score) else RULES[score]
        return [f"An answer is right when {rule}."] if rule else []

    def describe_score(row: ScoredClosedBook) -> str:
        if row.score is None:
            return f"unscored: {row.unscored or 'no_gold'}"
        told = ("right" if row.score else "wrong") if unit == "share" else f"{metric} {row.score:.2f}"
        return f"{told} ({row.unscored})" if row.unscored else told

    def explain_answer(row: ScoredClosedBook) -> Iterator[str]:
        yield f"  question    {row.question}   (factmill explain {name} {row.item})"
        yield f"  gold        {' | '.join(row.golds) or '(none)'}"
        yield tell_answer(row.answer, row)
        yield from [f"  read as     {row.answer_read}"] if row.answer_read != row.answer else []
        yield f"  score       {describe_score(row)}{f': {row.detail}' if row.detail else ''}"

    made: dict[str, Any] = {
        "name": f"{name}_evaluation",
        "title": f"Measure a model on {of.title}",
        "examples": (f"factmill evaluate {name} --model oracle", f"factmill evaluate {name} --answers answers.jsonl"),
        "params": ClosedBookParams,
        "lock_inputs": lambda params, run: lock_evaluation(record, params, run, ClosedBookInputs),
        "recipe": recipe,
        "tables": {answers_table: ScoredClosedBook, f"{name}_scores": Score, METRICS: EvaluationMetric},
        "main_table": answers_table,
        "part": "setting",
        "shown": {"id": "id", "question": "question", "golds": "gold", "answer": "answer", "score": metric},
        "explain": explain_answer,
        "assets": Assets(prompts=(prompt,) if isinstance(prompt, str) else ()),
        "of": of,
        "settings": {CLOSED_BOOK: "the question alone"},
        "usual": (CLOSED_BOOK,),
        "plain": (CLOSED_BOOK,),
        "headline": (metric,),
        "main": metric,
        "meaning": f"{metric.replace('_', ' ').capitalize()} of the model's answers, from memory, averaged over questions.",
        "questions": list_questions,
        "fill": fill_prompt,
        "inputs": ClosedBookInputs,
        "asked": ClosedBookAsked,
        "answers": ClosedBookAnswer,
        "read": read_answer,
        "oracle": lambda _: lambda asked: asked.golds[0] if asked.golds else "",
        "guess": guess_answers,
        "score": score_answers,
        "measure": measure_answers,
        "notes": list_notes,
        "figures": draw_figures,
        "items": list_items,
    }
    record: Evaluation = Evaluation(**made | more)
    return record


def _column(row: BaseModel, column: str) -> str:
    return str(getattr(row, column))
