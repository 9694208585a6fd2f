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
from factmill.tasks.core.evaluation.answers import Given
from factmill.tasks.core.evaluation.rows import Answer, Asked
from factmill.tasks.core.prompts import Ask
from factmill.tasks.core.replies import Unreadable, hear
from factmill.tasks.core.rows import arrow_table, rows_from_arrow
from factmill.tasks.evaluation.answering import Judged, Judging, read_given
from factmill.tasks.evaluation.offline import Session

ANSWER = "factmill_answer"
"""Key of the answer's row in a sample's store."""
_FINISH = {"max_tokens": "length", "model_length": "length"}
"""Inspect's stop reason → factmill's finish reason."""
_MESSAGES = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}


def list_samples(session: Session) -> list[Sample]:
    """Return the questions of a session as samples; the target is the gold answer."""
    say_gold = session.evaluation.oracle(session.rows)
    asked = rows_from_arrow(session.evaluation.asked, session.list_questions())
    return [
        Sample(
            input=_list_messages(session.evaluation.fill(row, session.inputs.params)),
            target=say_gold(row),
            id=row.id,
            metadata=row.model_dump(),
        )
        for row in asked
    ]


async def hold(session: Session, state: TaskState, max_tokens: int | None) -> TaskState:
    """Run the dialogue of a sample's question with Inspect's model, and store the answer.

    `max_tokens`: limit per completion; None: the prompt's own.
    """
    asked = _read_asked(session, state)
    dialogue = session.evaluation.start(asked, session.inputs.params)
    came: Any = None
    while True:
        try:
            wanted = dialogue.send(came)
        except StopIteration as ended:
            state.store.set(ANSWER, _make_row(session, state, asked, ended.value).model_dump())
            return state
        if isinstance(wanted, Ask):
            came = await _say(session, state, wanted, max_tokens)
        else:
            came = session.look_up(asked.id, wanted)


async def score_sample(session: Session, state: TaskState, grader: Model | None) -> Score:
    """Score a sample's answer; `grader`: the judge model; None: the program `exact`."""
    answer = _read_answer(session, state)
    judging = session.evaluation.judging
    if judging is None or grader is None:
        judged = session.judge(arrow_table(type(answer), [answer]))
    else:
        said = await _ask_judge(grader, answer, judging) if judging.wants(answer) else None
        judged = arrow_table(judging.row, [judging.mark(answer, said, grader.name)])
    scored = session.score(judged)
    (row,) = scored.to_pylist()
    (item,) = session.evaluation.items(scored)
    return Score(
        # not a bare NaN, which Inspect would drop from metrics that count unscored samples
        value={"score": math.nan if item.score is None else float(item.score)},
        answer=answer.answer_read,
        explanation="; ".join(filter(None, (item.verdict, row["detail"]))),
        reason=row["unscored"] or None,
        metadata={"row": row},
    )


def list_values(session: Session, scores: Sequence[SampleScore], group_by: Sequence[str]) -> dict[str, float]:
    """Compute the metrics of samples, overall and by group: each value with n, number of unscored and interval.

    A name is `metric` or `metric/group_by/group`, prefixed with the setting if there are several.
    """
    rows = [score.score.metadata["row"] for score in scores if score.score.metadata]
    if not rows:
        return {}
    evaluation = session.evaluation
    table = arrow_table(evaluation.row, [evaluation.row.model_validate(row) for row in rows])
    _, metrics = evaluation.measure(table, session.inputs)
    several = len({row["setting"] for row in rows}) > 1
    values: dict[str, float | None] = {}
    for metric in metrics:
        if metric.metric in evaluation.headline and metric.group_by in ("", *group_by):
            place = (metric.setting if several else "", metric.metric, metric.group_by, metric.group)
            name = "/".join(filter(None, place))
            values[name] = metric.value if metric.value is not None else math.nan
            told = {"n": metric.n, "unscored": metric.n_unscored, "ci_low": metric.ci_low, "ci_high": metric.ci_high}
            values |= {f"{name}_{ending}": value for ending, value in told.items()}
    return {name: float(value) for name, value in values.items() if value is not None}


def _list_messages(ask: Ask) -> list[ChatMessage]:
    return [_MESSAGES[each["role"]](content=each["content"]) for each in ask.messages()]


def _read_asked(session: Session, state: TaskState) -> Asked:
    asked = session.evaluation.asked
    return asked.model_validate({name: state.metadata[name] for name in asked.model_fields})


def _make_row(session: Session, state: TaskState, asked: Asked, given: Given) -> Answer:
    return given.extend(asked, session.evaluation.answers, str(state.model))


def _read_answer(session: Session, state: TaskState) -> Answer:
    """Return the row of a sample's answer: stored by our dialogue, or made of the last output of another solver."""
    if told := state.store.get(ANSWER):
        return session.evaluation.answers.model_validate(told)
    given = Given(unscored="model_failed", detail="the sample ended before the model had answered")
    if state.output.choices:
        given = _read_outputs(session, [state.output])
        given = replace(given, read=tuple(map(session.evaluation.read, given.read)))
    return _make_row(session, state, _read_asked(session, state), given)


async def _say(session: Session, state: TaskState, ask: Ask, max_tokens: int | None) -> Given:
    messages: Any = await messages_from_openai(ask.messages()) if ask.turns else _list_messages(ask)  # type: ignore[arg-type]
    tools, config = [_describe_tool(tool) for tool in ask.tools], _configure(ask, max_tokens)
    asked = (get_model().generate(messages, tools, config=config) for _ in range(ask.samples))
    outputs: list[ModelOutput] = await collect(*asked)
    state.messages, state.output = [*messages, outputs[0].message], outputs[0]
    called = outputs[0].message.tool_calls or ()
    calls = tuple(ToolCall(each.id, each.function, json.dumps(each.arguments)) for each in called)
    return replace(_read_outputs(session, outputs), calls=calls)


def _describe_tool(tool: Mapping[str, Any]) -> ToolInfo:
    told = tool["function"]
    parameters = ToolParams.model_validate(told["parameters"])
    return ToolInfo(name=told["name"], description=told["description"], parameters=parameters)


def _configure(ask: Ask, max_tokens: int | None) -> GenerateConfig:
    return GenerateConfig(temperature=ask.prompt.temperature, max_tokens=max_tokens or ask.prompt.max_tokens)


def _read_outputs(session: Session, outputs: Sequence[ModelOutput]) -> Given:
    finishes = [_read_finish(output) for output in outputs]
    given = read_given([output.completion for output in outputs], finishes, session.evaluation.form)
    spent = [output.usage for output in outputs if output.usage]
    tokens = {
        name: sum(getattr(usage, f"{name[7:]}put_tokens") for usage in spent) for name in ("tokens_in", "tokens_out")
    }
    return replace(given, **tokens, seconds=max(output.time or 0.0 for output in outputs))


def _read_finish(output: ModelOutput) -> str:
    return _FINISH.get(output.stop_reason, output.stop_reason)


async def _ask_judge(grader: Model, answer: Answer, judging: Judging[Any, Any, Any]) -> Judged[Any]:
    """Ask a model for its verdict, and once more if it cannot be parsed, as `factmill evaluate` does."""
    ask = judging.fill(answer)
    for _ in range(2):
        output = await grader.generate(_list_messages(ask), config=_configure(ask, None))
        heard = hear([output.completion], [_read_finish(output)], judging.form, partial(judging.read, answer))
        if not isinstance(heard.read, Unreadable):
            return Judged(heard.read)
        if not heard.rejected:
            break
        ask = ask.correct(heard.rejected, heard.read.correction())
    return Judged(None, "judge_unreadable", heard.read.reason)
