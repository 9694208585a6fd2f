"""Adapter to Inspect AI: factmill's questions, dialogues, parsing, judging and metrics, with Inspect's models.

A sample is a question in a setting. Its score stores the whole row of the answer, and metrics are computed from these
rows by the functions of `factmill evaluate`, so the same answers give identical figures. A sample that ends with an
error is unscored, and counts as such.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    Model,
    ModelOutput,
    get_model,
    messages_from_openai,
)
from inspect_ai.scorer import SampleScore, Score
from inspect_ai.solver import TaskState
from inspect_ai.tool import ToolInfo, ToolParams
from inspect_ai.util import collect

from factmill.tasks.core.calls.chat import ToolCall
from factmill.tasks.core.completions import UnreadableCompletion, strip_samples_and_parse_together
from factmill.tasks.core.evaluation.answers import ModelPrediction
from factmill.tasks.core.evaluation.rows import EvaluationPrediction, EvaluationQuestion
from factmill.tasks.core.prompts import FilledPrompt
from factmill.tasks.core.rows import make_arrow_table, rows_from_arrow
from factmill.tasks.evaluation.answering_and_judging import AnswerJudgment, JudgingSpec, parse_prediction_samples
from factmill.tasks.evaluation.scoring_session import EvaluationSession

PREDICTION_STORE_KEY = "factmill_answer"
"""Key of the answer's row in a sample's store."""
_FINISH_REASONS = {"max_tokens": "length", "model_length": "length"}
"""Inspect's stop reason → factmill's finish reason."""
_MESSAGE_TYPES = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}


def make_inspect_samples(session: EvaluationSession) -> list[Sample]:
    """Return the questions of a session as samples; the target is the gold answer."""
    say_gold = session.evaluation.make_oracle(session.rows)
    asked = rows_from_arrow(session.evaluation.question_model, session.list_questions())
    return [
        Sample(
            input=_make_messages(session.evaluation.make_prompt(row, session.inputs.params)),
            target=say_gold(row),
            id=row.id,
            metadata=row.model_dump(),
        )
        for row in asked
    ]


async def run_sample_dialogue(session: EvaluationSession, state: TaskState, max_tokens: int | None) -> TaskState:
    """Run the dialogue of a sample's question with Inspect's model, and store the answer.

    `max_tokens`: limit per completion; None: the prompt's own.
    """
    asked = _get_question(session, state)
    dialogue = session.evaluation.start_dialogue(asked, session.inputs.params)
    came: Any = None
    while True:
        try:
            wanted = dialogue.send(came)
        except StopIteration as ended:
            state.store.set(PREDICTION_STORE_KEY, _make_prediction_row(session, state, asked, ended.value).model_dump())
            return state
        if isinstance(wanted, FilledPrompt):
            came = await _send_prompt_to_inspect_model(session, state, wanted, max_tokens)
        else:
            came = session.look_up(asked.id, wanted)


async def score_sample(session: EvaluationSession, state: TaskState, grader: Model | None) -> Score:
    """Score a sample's answer; `grader`: the judge model; None: the program `exact`."""
    answer = _make_prediction_from_store_or_output(session, state)
    judging = session.evaluation.judging_spec
    if judging is None or grader is None:
        judged = session.judge_exactly(make_arrow_table(type(answer), [answer]))
    else:
        judgment = await _ask_judge_model(grader, answer, judging) if judging.needs_verdict(answer) else None
        judged = make_arrow_table(judging.row_model, [judging.make_judged_row(answer, judgment, grader.name)])
    scored = session.score_predictions(judged)
    (row,) = scored.to_pylist()
    (item,) = session.evaluation.list_report_items(scored)
    return Score(
        # not a bare NaN, which Inspect would drop from metrics that count unscored samples
        value={"score": math.nan if item.score is None else float(item.score)},
        answer=answer.answer_read,
        explanation="; ".join(filter(None, (item.verdict, row["detail"]))),
        reason=row["unscored"] or None,
        metadata={"row": row},
    )


def compute_sample_metrics(
    session: EvaluationSession, scores: Sequence[SampleScore], group_by: Sequence[str]
) -> dict[str, float]:
    """Compute the metrics of samples, overall and by group: each value with n, number of unscored and interval.

    A name is `metric` or `metric/group_by/group`, prefixed with the setting if there are several.
    """
    rows = [score.score.metadata["row"] for score in scores if score.score.metadata]
    if not rows:
        return {}
    evaluation = session.evaluation
    table = make_arrow_table(evaluation.main_row_model, [evaluation.main_row_model.model_validate(row) for row in rows])
    _, metrics = evaluation.compute_metrics(table, session.inputs)
    several = len({row["setting"] for row in rows}) > 1
    values: dict[str, float | None] = {}
    for metric in metrics:
        if metric.metric in evaluation.headline_metrics and metric.group_by in ("", *group_by):
            place = (metric.setting if several else "", metric.metric, metric.group_by, metric.group)
            name = "/".join(filter(None, place))
            values[name] = metric.value if metric.value is not None else math.nan
            details = {"n": metric.n, "unscored": metric.n_unscored, "ci_low": metric.ci_low, "ci_high": metric.ci_high}
            values |= {f"{name}_{ending}": value for ending, value in details.items()}
    return {name: float(value) for name, value in values.items() if value is not None}


def _make_messages(ask: FilledPrompt) -> list[ChatMessage]:
    return [_MESSAGE_TYPES[each["role"]](content=each["content"]) for each in ask.build_messages()]


def _get_question(session: EvaluationSession, state: TaskState) -> EvaluationQuestion:
    asked = session.evaluation.question_model
    return asked.model_validate({name: state.metadata[name] for name in asked.model_fields})


def _make_prediction_row(
    session: EvaluationSession, state: TaskState, question: EvaluationQuestion, prediction: ModelPrediction
) -> EvaluationPrediction:
    return prediction.make_prediction(question, session.evaluation.prediction_model, str(state.model))


def _make_prediction_from_store_or_output(session: EvaluationSession, state: TaskState) -> EvaluationPrediction:
    """Return the row of a sample's answer: stored by our dialogue, or made of the last output of another solver."""
    if stored := state.store.get(PREDICTION_STORE_KEY):
        return session.evaluation.prediction_model.model_validate(stored)
    given = ModelPrediction(unscored="model_failed", detail="the sample ended before the model had answered")
    if state.output.choices:
        given = _parse_outputs(session, [state.output])
        given = replace(given, read_texts=tuple(map(session.evaluation.read_answer, given.read_texts)))
    return _make_prediction_row(session, state, _get_question(session, state), given)


async def _send_prompt_to_inspect_model(
    session: EvaluationSession, state: TaskState, ask: FilledPrompt, max_tokens: int | None
) -> ModelPrediction:
    messages: Any = await messages_from_openai(ask.build_messages()) if ask.turns else _make_messages(ask)  # type: ignore[arg-type]
    tools, config = [_make_tool_info(tool) for tool in ask.tools], _make_generate_config(ask, max_tokens)
    asked = (get_model().generate(messages, tools, config=config) for _ in range(ask.samples))
    outputs: list[ModelOutput] = await collect(*asked)
    state.messages, state.output = [*messages, outputs[0].message], outputs[0]
    called = outputs[0].message.tool_calls or ()
    calls = tuple(ToolCall(each.id, each.function, json.dumps(each.arguments)) for each in called)
    return replace(_parse_outputs(session, outputs), tool_calls=calls)


def _make_tool_info(tool: Mapping[str, Any]) -> ToolInfo:
    function = tool["function"]
    parameters = ToolParams.model_validate(function["parameters"])
    return ToolInfo(name=function["name"], description=function["description"], parameters=parameters)


def _make_generate_config(ask: FilledPrompt, max_tokens: int | None) -> GenerateConfig:
    return GenerateConfig(temperature=ask.prompt.temperature, max_tokens=max_tokens or ask.prompt.max_tokens)


def _parse_outputs(session: EvaluationSession, outputs: Sequence[ModelOutput]) -> ModelPrediction:
    finishes = [_get_finish_reason(output) for output in outputs]
    given = parse_prediction_samples(
        [output.completion for output in outputs], finishes, session.evaluation.completion_format
    )
    spent = [output.usage for output in outputs if output.usage]
    tokens = {
        name: sum(getattr(usage, f"{name[7:]}put_tokens") for usage in spent) for name in ("tokens_in", "tokens_out")
    }
    return replace(given, **tokens, seconds=max(output.time or 0.0 for output in outputs))


def _get_finish_reason(output: ModelOutput) -> str:
    return _FINISH_REASONS.get(output.stop_reason, output.stop_reason)


async def _ask_judge_model(
    grader: Model, answer: EvaluationPrediction, judging: JudgingSpec[Any, Any, Any]
) -> AnswerJudgment[Any]:
    """Ask a model for its verdict, and once more if it cannot be parsed, as `factmill evaluate` does."""
    ask = judging.make_prompt(answer)
    for _ in range(2):
        output = await grader.generate(_make_messages(ask), config=_make_generate_config(ask, None))
        parsed = strip_samples_and_parse_together(
            [output.completion],
            [_get_finish_reason(output)],
            judging.completion_format,
            partial(judging.parse_verdict, answer),
        )
        if not isinstance(parsed.result, UnreadableCompletion):
            return AnswerJudgment(parsed.result)
        if not parsed.rejected_text:
            break
        ask = ask.with_correction(parsed.rejected_text, parsed.result.format_correction())
    return AnswerJudgment(None, "judge_unreadable", parsed.result.reason)
