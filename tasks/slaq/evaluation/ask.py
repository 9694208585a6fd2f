"""Questions and prompts of an evaluation on SLAQ: each short question alone, the long question with the same five, and
the judge's prompts (paper §4.1, Appendix A.4)."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Annotated, Literal

import pyarrow as pa

from factmill.tasks.assets import load_list, load_prompt
from factmill.tasks.core.evaluation.frame import frame, make_boundary
from factmill.tasks.core.evaluation.rows import COUNTED_WRONG
from factmill.tasks.core.prompts import Ask, fill_in
from factmill.tasks.core.rows import rows_from_arrow
from factmill.tasks.evaluation.answering import Judged, Judging
from factmill.tasks.evaluation.record import EvaluationInputs, JudgedParams, draw_clusters
from factmill.tasks.options import Option
from factmill.tasks.slaq.core.evaluation.answers import (
    LONG,
    JudgedSlaq,
    SlaqAnswer,
    SlaqAsked,
    ask_topic,
    count_golds,
    guess,
)
from factmill.tasks.slaq.core.evaluation.exact import compare_answer
from factmill.tasks.slaq.core.evaluation.verdicts import VERDICT_LINE, Verdicts, read_verdicts
from factmill.tasks.slaq.core.known_text import CheckLists, read_lists
from factmill.tasks.slaq.core.rows import SlaqRow

ANSWER_SHORT, ANSWER_LONG = "slaq/answer_short", "slaq/answer_long"
JUDGE_SHORT, JUDGE_LONG = "slaq/judge_short", "slaq/judge_long"


class SlaqEvaluationParams(JudgedParams):
    """Parameters of an evaluation on SLAQ."""

    setting: Annotated[tuple[Literal["short", "long"], ...], Option("--setting", "NAME")] = ()
    """Only this setting (repeatable). Default: both, without which there is no alignment."""


class SlaqEvaluationInputs(EvaluationInputs):
    """Resolved inputs of the steps of SLAQ's evaluation."""

    params: SlaqEvaluationParams


def list_questions(rows: pa.Table, inputs: SlaqEvaluationInputs) -> Iterator[SlaqAsked]:
    """Yield every question in every setting; a limit selects whole topics."""
    topics = rows_from_arrow(SlaqRow, rows)
    drawn = draw_clusters([row.id for row in topics], inputs.params)
    for setting in inputs.settings:
        for row in topics:
            if row.id in drawn:
                yield from ask_topic(row, setting)


def fill_prompt(asked: SlaqAsked, _: object = None) -> Ask:
    """Fill the prompt of a question's setting."""
    if asked.setting == LONG:
        return fill_in(load_prompt(ANSWER_LONG), question=asked.question)
    return fill_in(load_prompt(ANSWER_SHORT), topic=asked.topic, question=asked.question)


def guess_answers(rows: pa.Table) -> Callable[[SlaqAsked], str]:
    """Make the built-in guesser: question → commonest gold answers; `rows`: of the measured build."""
    golds = count_golds(rows_from_arrow(SlaqRow, rows))
    return lambda asked: guess(asked, golds)


def fill_judge_prompt(row: SlaqAnswer) -> Ask:
    """Fill the judge's prompt with an answer inside its frame (Table A.4)."""
    boundary, framed = make_boundary(row.id, row.answer_read), frame(row.id, row.answer_read)
    if row.setting == LONG:
        pairs = enumerate(zip(row.questions, row.golds, strict=True), 1)
        facts = "\n".join(f"{number}. {question} — {gold}" for number, (question, gold) in pairs)
        return fill_in(load_prompt(JUDGE_LONG), facts=facts, boundary=boundary, answer=framed)
    return fill_in(load_prompt(JUDGE_SHORT), question=row.question, gold=row.gold, boundary=boundary, answer=framed)


@cache
def _read_lists() -> CheckLists:
    return read_lists((), (), load_list("function_words"))


def mark(row: SlaqAnswer, judged: Judged[Verdicts] | None, judge: str) -> JudgedSlaq:
    """Return an answer with its verdicts: one for a short answer, five for a long one."""
    if judged is None:
        wrong = [0] * len(row.golds) if row.unscored in COUNTED_WRONG else []
        return row.extend(JudgedSlaq, verdicts=wrong, judge=judge, judge_call="")
    return row.narrow(
        JudgedSlaq,
        verdicts=list(judged.verdict or ()),
        unscored=judged.unscored,
        detail=judged.detail,
        judge=judge,
        judge_call=judged.call,
    )


JUDGING: Judging[SlaqAnswer, Verdicts, JudgedSlaq] = Judging(
    fill=fill_judge_prompt,
    form=VERDICT_LINE,
    read=lambda row, texts: read_verdicts(texts[0], len(row.golds)),
    compare=lambda row: compare_answer(row, _read_lists()),
    row=JudgedSlaq,
    mark=mark,
)
"""How answers are judged (Table A.4)."""
