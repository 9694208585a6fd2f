"""The `Evaluation` record of SLAQ, which commands read."""

from collections.abc import Iterator

from factmill.tasks.core.evaluation.human_labels import LabelScheme
from factmill.tasks.core.evaluation.rows import EvaluationMetric, EvaluationScore
from factmill.tasks.core.evaluation.scoring import PROGRAM_JUDGE_NOTE
from factmill.tasks.engine.benchmark import BenchmarkAssets, ResolvedInputs
from factmill.tasks.evaluation.definition import EXACT_JUDGE, Evaluation, format_answer_line, resolve_evaluation_inputs
from factmill.tasks.options import RunOptions
from factmill.tasks.slaq.benchmark import SLAQ
from factmill.tasks.slaq.core.evaluation.answers import (
    LONG_SETTING,
    SHORT_SETTING,
    ScoredSlaqPrediction,
    SlaqPrediction,
    SlaqQuestion,
)
from factmill.tasks.slaq.core.evaluation.verdicts import (
    SLAQ_VERDICT_MEANINGS,
    list_slaq_judged_parts,
    make_judgeable_slaq_answer,
)
from factmill.tasks.slaq.evaluation.measure import (
    ACCURACY,
    ACCURACY_GAP,
    ALIGNMENT,
    SIGNED_ALIGNMENT,
    SLAQ_PAPER_RESULTS,
    draw_slaq_evaluation_figures,
    format_verdicts,
    list_slaq_report_items,
    measure_slaq,
)
from factmill.tasks.slaq.evaluation.questions import (
    ANSWER_LONG_PROMPT,
    ANSWER_SHORT_PROMPT,
    JUDGE_LONG_PROMPT,
    JUDGE_SHORT_PROMPT,
    SLAQ_JUDGING,
    SlaqEvaluationInputs,
    SlaqEvaluationParams,
    fill_slaq_answer_prompt,
    list_slaq_questions,
    make_slaq_guesser,
)


def resolve_slaq_evaluation_inputs(
    params: SlaqEvaluationParams, run: RunOptions
) -> ResolvedInputs[SlaqEvaluationInputs]:
    """Resolve the inputs of an evaluation; raise UsageError for an invalid parameter."""
    return resolve_evaluation_inputs(SLAQ_EVALUATION, params, run, SlaqEvaluationInputs)


def explain_slaq_prediction(row: ScoredSlaqPrediction) -> Iterator[str]:
    """Yield the lines that `factmill explain` prints for an answer."""
    yield f"  question    {row.question}   ({row.setting}, {row.topic}; factmill explain slaq {row.item})"
    yield f"  gold        {row.gold}"
    yield format_answer_line(row.answer, row)
    yield f"  verdict     {format_verdicts(row.verdicts, row.unscored)}   (by {row.judge}{f', {PROGRAM_JUDGE_NOTE}' if row.judge == EXACT_JUDGE else ''})"
    yield from [f"  because     {row.detail}"] if row.detail else []


SLAQ_EVALUATION: Evaluation = Evaluation(
    name="slaq_evaluation",
    title="Measure a model on SLAQ: the same facts in short and long questions, and whether the answers agree",
    examples=(
        "factmill evaluate slaq --model oracle",
        "factmill evaluate slaq --world my-world.toml --model mine --judge judge --limit 50",
        "factmill evaluate slaq --answers answers.jsonl",
    ),
    params=SlaqEvaluationParams,
    resolve_inputs=resolve_slaq_evaluation_inputs,
    recipe="factmill.tasks.slaq.evaluation.definition:SLAQ_EVALUATION",
    tables={
        "slaq_answers": ScoredSlaqPrediction,
        "slaq_scores": EvaluationScore,
        "evaluation_metrics": EvaluationMetric,
    },
    main_table="slaq_answers",
    group_column="setting",
    display_columns={"id": "id", "question": "question", "gold": "gold", "answer": "answer", "verdicts": "verdicts"},
    explain=explain_slaq_prediction,
    assets=BenchmarkAssets(
        prompts=(ANSWER_SHORT_PROMPT, ANSWER_LONG_PROMPT, JUDGE_SHORT_PROMPT, JUDGE_LONG_PROMPT),
        lists=("function_words.txt",),
    ),
    benchmark=SLAQ,
    settings={
        SHORT_SETTING: "each short question alone",
        LONG_SETTING: "the long question, which asks for the same five facts",
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
    label_scheme=LabelScheme(
        instruction="Is the answer right?",
        classes=SLAQ_VERDICT_MEANINGS,
        right_labels=frozenset("1"),
        metric=ACCURACY,
        list_judged_parts=list_slaq_judged_parts,
        prompts=(JUDGE_SHORT_PROMPT, JUDGE_LONG_PROMPT),
        make_answer_row=make_judgeable_slaq_answer,
    ),
)
