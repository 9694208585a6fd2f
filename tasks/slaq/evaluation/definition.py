"""SLAQ's `Evaluation`: each short question alone, the long question with the same five, and the judge's prompts (paper
§4.1, Appendix A.4)."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Annotated, Literal

import pyarrow as pa

from factmill.tasks.assets import load_list_entries, load_prompt
from factmill.tasks.core.evaluation.answer_frame import enclose_answer_in_boundary_lines, make_answer_boundary
from factmill.tasks.core.evaluation.human_labels import JudgeVerdictLabelScheme
from factmill.tasks.core.evaluation.rows import REASONS_COUNTED_WRONG, AnswerScore, EvaluationMetric
from factmill.tasks.core.evaluation.scoring import PROGRAM_JUDGE_NOTE
from factmill.tasks.core.prompts import FilledPrompt, fill_prompt_template
from factmill.tasks.core.rows import rows_from_arrow
from factmill.tasks.engine.benchmark import BenchmarkAssetNames
from factmill.tasks.evaluation.answering_and_judging import AnswerJudgment, JudgingSpec
from factmill.tasks.evaluation.definition import (
    EXACT_JUDGE,
    Evaluation,
    EvaluationInputs,
    JudgedEvaluationParams,
    format_explain_answer_line,
    resolve_evaluation_inputs,
    sample_question_clusters,
)
from factmill.tasks.options import CliOption
from factmill.tasks.slaq.benchmark import SLAQ
from factmill.tasks.slaq.core.article_matching import QuestionCheckWordLists, make_question_check_word_lists
from factmill.tasks.slaq.core.evaluation.answers import (
    LONG_SETTING,
    SHORT_SETTING,
    ScoredSlaqPrediction,
    SlaqPrediction,
    SlaqQuestion,
    guess_commonest_answers,
    list_topic_questions,
    make_fact_type_answer_guesser,
)
from factmill.tasks.slaq.core.evaluation.exact_judge import judge_stated_facts_by_program
from factmill.tasks.slaq.core.evaluation.verdicts import (
    SLAQ_VERDICT_FORM,
    SLAQ_VERDICT_MEANINGS,
    Verdicts,
    list_slaq_judged_parts,
    make_judgeable_slaq_answer,
    read_verdicts,
)
from factmill.tasks.slaq.core.rows import SlaqTopicRow
from factmill.tasks.slaq.evaluation.measure import (
    ACCURACY,
    ACCURACY_GAP,
    ALIGNMENT,
    SIGNED_ALIGNMENT,
    SLAQ_PAPER_RESULTS,
    draw_slaq_evaluation_figures,
    format_right_wrong_verdicts,
    list_slaq_report_items,
    measure_slaq,
)

ANSWER_SHORT_PROMPT, ANSWER_LONG_PROMPT = "slaq/answer_short", "slaq/answer_long"
JUDGE_SHORT_PROMPT, JUDGE_LONG_PROMPT = "slaq/judge_short", "slaq/judge_long"


class SlaqEvaluationParams(JudgedEvaluationParams):
    """Parameters of an evaluation on SLAQ."""

    setting: Annotated[tuple[Literal["short", "long"], ...], CliOption(metavar="NAME")] = ()
    """Only this setting (repeatable). Default: both; the metric "alignment" needs both."""


class SlaqEvaluationInputs(EvaluationInputs):
    """Resolved inputs of the steps of SLAQ's evaluation."""

    params: SlaqEvaluationParams


def list_slaq_questions(rows: pa.Table, inputs: SlaqEvaluationInputs) -> Iterator[SlaqQuestion]:
    """Yield every question in every setting; a limit selects whole topics."""
    topics = rows_from_arrow(SlaqTopicRow, rows)
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
    golds = make_fact_type_answer_guesser(rows_from_arrow(SlaqTopicRow, rows))
    return lambda asked: guess_commonest_answers(asked, golds)


def fill_slaq_judge_prompt(row: SlaqPrediction) -> FilledPrompt:
    """Fill the judge's prompt with an answer inside its frame (Table A.4)."""
    boundary, framed = (
        make_answer_boundary(row.id, row.answer_read),
        enclose_answer_in_boundary_lines(row.id, row.answer_read),
    )
    if row.setting == LONG_SETTING:
        pairs = enumerate(zip(row.questions, row.golds, strict=True), 1)
        facts = "\n".join(f"{number}. {question} — {gold}" for number, (question, gold) in pairs)
        return fill_prompt_template(load_prompt(JUDGE_LONG_PROMPT), facts=facts, boundary=boundary, answer=framed)
    return fill_prompt_template(
        load_prompt(JUDGE_SHORT_PROMPT), question=row.question, gold=row.gold, boundary=boundary, answer=framed
    )


@cache
def _load_function_words_for_exact_judge() -> QuestionCheckWordLists:
    return make_question_check_word_lists((), (), load_list_entries("function_words"))


def make_scored_slaq_prediction(
    row: SlaqPrediction, judged: AnswerJudgment[Verdicts] | None, judge: str
) -> ScoredSlaqPrediction:
    """Return an answer with its verdicts: one for a short answer, five for a long one."""
    if judged is None:
        wrong = [0] * len(row.golds) if row.unscored in REASONS_COUNTED_WRONG else []
        return row.extend_to(ScoredSlaqPrediction, verdicts=wrong, judge=judge, judge_call="")
    why = {"unscored": judged.unscored, "detail": judged.detail}
    verdicts = list(judged.verdict or ())
    return row.narrow_to(ScoredSlaqPrediction, verdicts=verdicts, judge=judge, judge_call=judged.call, **why)


SLAQ_JUDGING: JudgingSpec[SlaqPrediction, Verdicts, ScoredSlaqPrediction] = JudgingSpec(
    make_prompt=fill_slaq_judge_prompt,
    completion_format=SLAQ_VERDICT_FORM,
    parse_verdict=lambda row, texts: read_verdicts(texts[0], len(row.golds)),
    judge_exactly=lambda row: judge_stated_facts_by_program(row, _load_function_words_for_exact_judge()),
    row_model=ScoredSlaqPrediction,
    make_judged_row=make_scored_slaq_prediction,
)
"""How answers are judged (Table A.4)."""


def explain_slaq_prediction(row: ScoredSlaqPrediction) -> Iterator[str]:
    """Yield the lines that `factmill explain` prints for an answer."""
    yield f"  question    {row.question}   ({row.setting}, {row.topic}; factmill explain slaq {row.item})"
    yield f"  gold        {row.gold}"
    yield format_explain_answer_line(row.answer, row)
    yield f"  verdict     {format_right_wrong_verdicts(row.verdicts, row.unscored)}   (by {row.judge}{f', {PROGRAM_JUDGE_NOTE}' if row.judge == EXACT_JUDGE else ''})"
    yield from [f"  because     {row.detail}"] if row.detail else []


SLAQ_EVALUATION: Evaluation = Evaluation(
    name="slaq_evaluation",
    title="Measure a model on SLAQ, which asks for the same facts in short and long questions and compares the answers",
    examples=(
        "factmill evaluate slaq --model oracle",
        "factmill evaluate slaq --world my-world.toml --model mine --judge judge --limit 50",
        "factmill evaluate slaq --answers answers.jsonl",
    ),
    params=SlaqEvaluationParams,
    resolve_inputs=lambda params, run: resolve_evaluation_inputs(SLAQ_EVALUATION, params, run, SlaqEvaluationInputs),
    recipe="factmill.tasks.slaq.evaluation.definition:SLAQ_EVALUATION",
    tables={
        "slaq_answers": ScoredSlaqPrediction,
        "slaq_scores": AnswerScore,
        "evaluation_metrics": EvaluationMetric,
    },
    main_table="slaq_answers",
    group_column="setting",
    display_columns={"id": "id", "question": "question", "gold": "gold", "answer": "answer", "verdicts": "verdicts"},
    explain=explain_slaq_prediction,
    assets=BenchmarkAssetNames(
        prompts=(ANSWER_SHORT_PROMPT, ANSWER_LONG_PROMPT, JUDGE_SHORT_PROMPT, JUDGE_LONG_PROMPT),
        lists=("function_words.txt",),
    ),
    benchmark=SLAQ,
    settings={
        SHORT_SETTING: "each short question alone",
        LONG_SETTING: "one long question, which asks for the facts of five short questions",
    },
    default_settings=(SHORT_SETTING, LONG_SETTING),
    offline_settings=(SHORT_SETTING, LONG_SETTING),
    headline_metrics=(ACCURACY, ACCURACY_GAP, ALIGNMENT, SIGNED_ALIGNMENT),
    main_metric=ACCURACY,
    main_metric_meaning="The share of facts that the model gets right when a question asks for one fact (short) and when one question asks "
    "for five (long): the model knew what it loses between the two.",
    make_questions=list_slaq_questions,
    make_prompt=fill_slaq_answer_prompt,
    inputs_model=SlaqEvaluationInputs,
    question_model=SlaqQuestion,
    prediction_model=SlaqPrediction,
    make_oracle=lambda _: lambda asked: asked.gold,
    make_guesser=make_slaq_guesser,
    judging_spec=SLAQ_JUDGING,
    compute_metrics=lambda answers, inputs: measure_slaq(answers, inputs.params.seed),
    draw_figures=draw_slaq_evaluation_figures,
    list_report_items=list_slaq_report_items,
    paper_results=SLAQ_PAPER_RESULTS,
    label_scheme=JudgeVerdictLabelScheme(
        instruction="Is the answer right?",
        classes=SLAQ_VERDICT_MEANINGS,
        right_labels=frozenset("1"),
        metric=ACCURACY,
        list_judged_parts=list_slaq_judged_parts,
        prompts=(JUDGE_SHORT_PROMPT, JUDGE_LONG_PROMPT),
        make_answer_row=make_judgeable_slaq_answer,
    ),
)
