"""The `Evaluation` record of SLAQ, which commands read."""

from collections.abc import Iterator

from factmill.tasks.core.evaluation.labels import LabelScheme
from factmill.tasks.core.evaluation.rows import EvaluationMetric, Score
from factmill.tasks.core.evaluation.scoring import LOWER_BOUND
from factmill.tasks.engine.benchmark import Assets, Locked
from factmill.tasks.evaluation.record import EXACT, Evaluation, lock_evaluation, tell_answer
from factmill.tasks.options import RunOptions
from factmill.tasks.slaq.benchmark import SLAQ
from factmill.tasks.slaq.core.evaluation.answers import LONG, SHORT, JudgedSlaq, SlaqAnswer, SlaqAsked
from factmill.tasks.slaq.core.evaluation.verdicts import MEANINGS, list_parts, pose_answer
from factmill.tasks.slaq.evaluation.ask import (
    ANSWER_LONG,
    ANSWER_SHORT,
    JUDGE_LONG,
    JUDGE_SHORT,
    JUDGING,
    SlaqEvaluationInputs,
    SlaqEvaluationParams,
    fill_prompt,
    guess_answers,
    list_questions,
)
from factmill.tasks.slaq.evaluation.measure import (
    ACCURACY,
    ALIGNMENT,
    GAP,
    PAPER,
    SIGNED,
    describe_verdicts,
    draw_figures,
    list_items,
    measure_slaq,
)


def lock_inputs(params: SlaqEvaluationParams, run: RunOptions) -> Locked[SlaqEvaluationInputs]:
    """Resolve the inputs of an evaluation; raise UsageError for an invalid parameter."""
    return lock_evaluation(SLAQ_EVALUATION, params, run, SlaqEvaluationInputs)


def explain_answer(row: JudgedSlaq) -> Iterator[str]:
    """Yield the lines that `factmill explain` prints for an answer."""
    yield f"  question    {row.question}   ({row.setting}, {row.topic}; factmill explain slaq {row.item})"
    yield f"  gold        {row.gold}"
    yield tell_answer(row.answer, row)
    yield f"  verdict     {describe_verdicts(row.verdicts, row.unscored)}   (by {row.judge}{f', {LOWER_BOUND}' if row.judge == EXACT else ''})"
    yield from [f"  because     {row.detail}"] if row.detail else []


SLAQ_EVALUATION: Evaluation = Evaluation(
    name="slaq_evaluation",
    title="Measure a model on SLAQ: the same facts asked short and long, and whether the answers agree",
    examples=(
        "factmill evaluate slaq --model oracle",
        "factmill evaluate slaq --world my-world.toml --model mine --judge judge --limit 50",
        "factmill evaluate slaq --answers answers.jsonl",
    ),
    params=SlaqEvaluationParams,
    lock_inputs=lock_inputs,
    recipe="factmill.tasks.slaq.evaluation.record:SLAQ_EVALUATION",
    tables={"slaq_answers": JudgedSlaq, "slaq_scores": Score, "evaluation_metrics": EvaluationMetric},
    main_table="slaq_answers",
    part="setting",
    shown={"id": "id", "question": "question", "gold": "gold", "answer": "answer", "verdicts": "verdicts"},
    explain=explain_answer,
    assets=Assets(
        prompts=(ANSWER_SHORT, ANSWER_LONG, JUDGE_SHORT, JUDGE_LONG),
        lists=("function_words.txt",),
    ),
    of=SLAQ,
    settings={SHORT: "each short question alone", LONG: "the long question, which asks for the same five facts"},
    usual=(SHORT, LONG),
    plain=(SHORT, LONG),
    headline=(ACCURACY, GAP, ALIGNMENT, SIGNED),
    main=ACCURACY,
    meaning="The share of facts that the model gets right when each is asked for alone (short) and when one question asks "
    "for five of them (long): what it loses between the two it knew.",
    questions=list_questions,
    fill=fill_prompt,
    inputs=SlaqEvaluationInputs,
    asked=SlaqAsked,
    answers=SlaqAnswer,
    oracle=lambda _: lambda asked: asked.gold,
    guess=guess_answers,
    judging=JUDGING,
    measure=lambda answers, inputs: measure_slaq(answers, inputs.params.seed),
    figures=draw_figures,
    items=list_items,
    paper=PAPER,
    labels=LabelScheme(
        asks="Does the answer have it right?",
        classes=MEANINGS,
        right=frozenset("1"),
        metric=ACCURACY,
        of=list_parts,
        prompts=(JUDGE_SHORT, JUDGE_LONG),
        pose=pose_answer,
    ),
)
