"""What an evaluation on SLAQ asks: each short question alone, and the long question that holds the same five (paper §4.1, Appendix A.4)."""

from collections.abc import Iterator
from typing import Annotated, Literal

import pyarrow as pa

from tasks.assets import load_prompt
from tasks.core.evaluation.frame import frame, make_boundary
from tasks.core.prompts import Ask, fill_in
from tasks.core.rows import rows_from_arrow
from tasks.evaluation.record import EvaluationInputs, JudgedParams, draw_clusters
from tasks.options import Option
from tasks.slaq.core.answers import LONG, SlaqAnswer, SlaqAsked, ask_topic
from tasks.slaq.core.rows import SlaqRow

ANSWER_SHORT, ANSWER_LONG = "slaq/answer_short", "slaq/answer_long"
JUDGE_SHORT, JUDGE_LONG = "slaq/judge_short", "slaq/judge_long"


class SlaqEvaluationParams(JudgedParams):
    """What an evaluation on SLAQ can be told."""

    setting: Annotated[tuple[Literal["short", "long"], ...], Option("--setting", "NAME")] = ()
    """Only this setting (repeatable). Default: both, without which there is no alignment."""


class SlaqEvaluationInputs(EvaluationInputs):
    """What the steps of SLAQ's evaluation read."""

    params: SlaqEvaluationParams


def list_questions(rows: pa.Table, inputs: SlaqEvaluationInputs) -> Iterator[SlaqAsked]:
    """Yield every question in every setting; a limit draws whole topics."""
    topics = rows_from_arrow(SlaqRow, rows)
    drawn = draw_clusters([row.id for row in topics], inputs.params)
    for setting in inputs.settings:
        for row in topics:
            if row.id in drawn:
                yield from ask_topic(row, setting)


def fill_prompt(asked: SlaqAsked, _: object = None) -> Ask:
    """Return a question as its setting's prompt."""
    if asked.setting == LONG:
        return fill_in(load_prompt(ANSWER_LONG), question=asked.question)
    return fill_in(load_prompt(ANSWER_SHORT), topic=asked.topic, question=asked.question)


def fill_judge_prompt(row: SlaqAnswer) -> Ask:
    """Return an answer, inside its frame, as the judge's prompt (Table A.4)."""
    boundary, framed = make_boundary(row.id, row.answer_read), frame(row.id, row.answer_read)
    if row.setting == LONG:
        pairs = enumerate(zip(row.questions, row.golds, strict=True), 1)
        facts = "\n".join(f"{number}. {question} — {gold}" for number, (question, gold) in pairs)
        return fill_in(load_prompt(JUDGE_LONG), facts=facts, boundary=boundary, answer=framed)
    return fill_in(load_prompt(JUDGE_SHORT), question=row.question, gold=row.gold, boundary=boundary, answer=framed)
