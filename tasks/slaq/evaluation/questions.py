"""Questions and prompts of an evaluation on SLAQ: each short question alone, the long question with the same five, and
the judge's prompts (paper §4.1, Appendix A.4)."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Annotated, Literal

import pyarrow as pa

from factmill.tasks.assets import load_list_entries, load_prompt
from factmill.tasks.core.evaluation.answer_frame import frame_answer, make_answer_boundary
from factmill.tasks.core.evaluation.rows import REASONS_COUNTED_WRONG
from factmill.tasks.core.prompts import FilledPrompt, fill_prompt_template
from factmill.tasks.core.rows import rows_from_arrow
from factmill.tasks.evaluation.answering_and_judging import AnswerJudgment, JudgingSpec
from factmill.tasks.evaluation.definition import EvaluationInputs, JudgedEvaluationParams, sample_question_clusters
from factmill.tasks.options import CliOption
from factmill.tasks.slaq.core.article_matching import CheckWordLists, make_check_word_lists
from factmill.tasks.slaq.core.evaluation.answers import (
    LONG_SETTING,
    ScoredSlaqPrediction,
    SlaqPrediction,
    SlaqQuestion,
    guess_commonest_answers,
    list_topic_questions,
    make_fact_type_answer_guesser,
)
from factmill.tasks.slaq.core.evaluation.exact_judge import judge_answer_exactly
from factmill.tasks.slaq.core.evaluation.verdicts import SLAQ_VERDICT_FORM, Verdicts, read_verdicts
from factmill.tasks.slaq.core.rows import SlaqRow

ANSWER_SHORT_PROMPT, ANSWER_LONG_PROMPT = "slaq/answer_short", "slaq/answer_long"
JUDGE_SHORT_PROMPT, JUDGE_LONG_PROMPT = "slaq/judge_short", "slaq/judge_long"


class SlaqEvaluationParams(JudgedEvaluationParams):
    """Parameters of an evaluation on SLAQ."""

    setting: Annotated[tuple[Literal["short", "long"], ...], CliOption(metavar="NAME")] = ()
    """Only this setting (repeatable). Default: both, which the metric alignment needs."""


class SlaqEvaluationInputs(EvaluationInputs):
    """Resolved inputs of the steps of SLAQ's evaluation."""

    params: SlaqEvaluationParams


def list_slaq_questions(rows: pa.Table, inputs: SlaqEvaluationInputs) -> Iterator[SlaqQuestion]:
    """Yield every question in every setting; a limit selects whole topics."""
    topics = rows_from_arrow(SlaqRow, rows)
    drawn = sample_question_clusters([row.id for row in topics], inputs.params)
    for setting in inputs.settings:
        for row in topics:
            if row.id in drawn:
                yield from list_topic_questions(row, setting)


def fill_slaq_answer_prompt(asked: SlaqQuestion, _: object = None) -> FilledPrompt:
    """Fill the prompt of a question's setting."""
    if asked.setting == LONG_SETTING:
        return fill_prompt_template(load_prompt(ANSWER_LONG_PROMPT), question=asked.question)
    return fill_prompt_template(load_prompt(ANSWER_SHORT_PROMPT), topic=asked.topic, question=asked.question)


def make_slaq_guesser(rows: pa.Table) -> Callable[[SlaqQuestion], str]:
    """Make the built-in guesser: question → commonest gold answers; `rows`: of the measured build."""
    golds = make_fact_type_answer_guesser(rows_from_arrow(SlaqRow, rows))
    return lambda asked: guess_commonest_answers(asked, golds)


def fill_slaq_judge_prompt(row: SlaqPrediction) -> FilledPrompt:
    """Fill the judge's prompt with an answer inside its frame (Table A.4)."""
    boundary, framed = make_answer_boundary(row.id, row.answer_read), frame_answer(row.id, row.answer_read)
    if row.setting == LONG_SETTING:
        pairs = enumerate(zip(row.questions, row.golds, strict=True), 1)
        facts = "\n".join(f"{number}. {question} — {gold}" for number, (question, gold) in pairs)
        return fill_prompt_template(load_prompt(JUDGE_LONG_PROMPT), facts=facts, boundary=boundary, answer=framed)
    return fill_prompt_template(
        load_prompt(JUDGE_SHORT_PROMPT), question=row.question, gold=row.gold, boundary=boundary, answer=framed
    )


@cache
def _load_function_word_check_lists() -> CheckWordLists:
    return make_check_word_lists((), (), load_list_entries("function_words"))


def make_scored_slaq_prediction(
    row: SlaqPrediction, judged: AnswerJudgment[Verdicts] | None, judge: str
) -> ScoredSlaqPrediction:
    """Return an answer with its verdicts: one for a short answer, five for a long one."""
    if judged is None:
        wrong = [0] * len(row.golds) if row.unscored in REASONS_COUNTED_WRONG else []
        return row.extend_to(ScoredSlaqPrediction, verdicts=wrong, judge=judge, judge_call="")
    return row.narrow_to(
        ScoredSlaqPrediction,
        verdicts=list(judged.verdict or ()),
        unscored=judged.unscored,
        detail=judged.detail,
        judge=judge,
        judge_call=judged.call,
    )


SLAQ_JUDGING: JudgingSpec[SlaqPrediction, Verdicts, ScoredSlaqPrediction] = JudgingSpec(
    make_prompt=fill_slaq_judge_prompt,
    completion_format=SLAQ_VERDICT_FORM,
    parse_verdict=lambda row, texts: read_verdicts(texts[0], len(row.golds)),
    judge_exactly=lambda row: judge_answer_exactly(row, _load_function_word_check_lists()),
    row_model=ScoredSlaqPrediction,
    make_judged_row=make_scored_slaq_prediction,
)
"""How answers are judged (Table A.4)."""
