"""Answering and judging: put questions to the model under test, once, and have its answers judged.

An answer that cannot be parsed is unscored, with its reason.

A dialogue is a generator without side effects: it yields a prompt or a lookup request, receives the result, and returns
the answer. So this module runs a whole batch of dialogues together, one turn at a time, and another harness can run a
dialogue with a model of its own. Each turn is a recorded call: after a crash, recorded turns are replayed and the
dialogue resumes behind them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import pyarrow as pa

from factmill.tasks.core.calls.call import CallResponse
from factmill.tasks.core.calls.chat import make_chat_call, parse_chat_response
from factmill.tasks.core.completions import (
    PLAIN_TEXT_FORMAT,
    UNREADABLE_COMPLETION_KINDS,
    CompletionFormat,
    UnreadableCompletion,
    strip_completion_wrappers,
)
from factmill.tasks.core.evaluation.answers import ModelPrediction, ParsedAnswersFile, UnscorableAnswerEntry
from factmill.tasks.core.evaluation.rows import EvaluationPrediction, EvaluationQuestion, UnscoredReason
from factmill.tasks.core.finish_reasons import is_token_limit_reached
from factmill.tasks.core.prompts import FilledPrompt
from factmill.tasks.core.rows import Reject, arrow_schema, make_arrow_table, rows_from_arrow
from factmill.tasks.engine.batches import BatchInProgress
from factmill.tasks.evaluation.definition import (
    ANSWERS_FILE_UNIT,
    BUILT_IN_MODELS,
    EXACT_JUDGE,
    Evaluation,
    get_evaluation_params,
    get_judge_name,
    list_setting_and_question_id_pairs,
)
from factmill.tasks.evaluation.measured_build import load_answers_file, load_question_rows_of_measured_build

A = TypeVar("A", bound=EvaluationQuestion)

_UNSCORED_REASONS: dict[str, UnscoredReason] = {"refused": "refused", "cut_off": "cut_off", "empty_reply": "no_answer"}
"""Kind of unreadable completion → reason why it is unscored."""


def make_predictions(work: BatchInProgress, evaluation: Evaluation, questions: pa.Table) -> pa.Table:
    """Return the answers (rows of `prediction_model`) to questions (rows of `question_model`): those of a file or a built-in
    model, without any request, else of the model under test."""
    name, model = get_answerer_name(work), get_evaluation_params(work)["model"]
    if files := work.source_files(ANSWERS_FILE_UNIT):
        return make_predictions_from_file(evaluation, questions, load_answers_file(files[0]), name)
    if model in BUILT_IN_MODELS:
        return make_built_in_predictions(
            evaluation, questions, load_question_rows_of_measured_build(work, evaluation), model, name
        )
    answered = run_dialogues(work, evaluation, rows_from_arrow(evaluation.question_model, questions))
    return make_arrow_table(
        evaluation.prediction_model,
        (given.make_prediction(row, evaluation.prediction_model, name) for row, given in answered),
    )


def make_predictions_from_file(
    evaluation: Evaluation, questions: pa.Table, answers_file: ParsedAnswersFile, model_name: str
) -> pa.Table:
    """Return questions (rows of `question_model`) with the answers of a file; `model_name`: of the model that gave them."""
    return _make_prediction_table(
        evaluation,
        questions,
        [answers_file.find_answer_to(*key) for key in list_setting_and_question_id_pairs(questions)],
        model_name,
        evaluation.completion_format,
    )


def make_built_in_predictions(
    evaluation: Evaluation, questions: pa.Table, build_rows: pa.Table, model: str, model_name: str
) -> pa.Table:
    """Return questions (rows of `question_model`) with the answers of a built-in model; `build_rows`: of the measured build."""
    make_answerer = {"oracle": evaluation.make_oracle, "guesser": evaluation.make_guesser}.get(model)
    texts = (
        [""] * questions.num_rows
        if make_answerer is None
        else map(make_answerer(build_rows), rows_from_arrow(evaluation.question_model, questions))
    )
    return _make_prediction_table(evaluation, questions, list(texts), model_name, None)


def _make_prediction_table(
    evaluation: Evaluation,
    questions: pa.Table,
    texts: Sequence[str | UnscorableAnswerEntry | None],
    model_name: str,
    completion_format: CompletionFormat | None,
) -> pa.Table:
    """Return questions with the columns of `EvaluationPrediction`, built column by column; `completion_format`: as in `_parse_answer_text`."""
    taken = {given: _parse_answer_text(given, completion_format) for given in set(texts)}
    known = {
        text: evaluation.read_answer(given.read_texts[0]) if given.read_texts else "" for text, given in taken.items()
    }
    none, zero = pa.repeat("", len(texts)), pa.repeat(0, len(texts))
    columns = {
        "answer": [given.text if isinstance(given, UnscorableAnswerEntry) else given or "" for given in texts],
        "answer_read": [known[text] for text in texts],
        "samples": pa.array([[]] * len(texts), pa.list_(pa.string())),
        "finish": none,
        "unscored": [taken[text].unscored for text in texts],
        "detail": [taken[text].detail for text in texts],
        "tokens_in": zero,
        "tokens_out": zero,
        "model": pa.repeat(model_name, len(texts)),
        "call": none,
    }
    schema = arrow_schema(evaluation.prediction_model)
    for field in schema:
        if field.name not in (*columns, *questions.column_names):
            # columns that only a dialogue fills, such as its searches
            empty: Any = [] if pa.types.is_list(field.type) else "" if pa.types.is_string(field.type) else 0
            columns[field.name] = pa.array([empty] * len(texts), field.type)
    for column, values in columns.items():
        questions = questions.append_column(column, pa.array(values) if isinstance(values, list) else values)
    return questions.select(schema.names).cast(schema)


def get_answerer_name(work: BatchInProgress) -> str:
    """Return the name of the model under test."""
    return str(work.run.manifest["author"])


def _parse_answer_text(
    text: str | UnscorableAnswerEntry | None, completion_format: CompletionFormat | None
) -> ModelPrediction:
    """Parse one answer text (None: the file lacks it); `completion_format`: completion format, None for a built-in model."""
    if isinstance(text, UnscorableAnswerEntry):
        return ModelPrediction((text.text,), ("",), unscored=text.reason, detail=text.detail)
    if text is None:
        return ModelPrediction(unscored="missing", detail="the file of answers has none to this question")
    if not text.strip():
        return ModelPrediction((text,), ("",), unscored="no_answer", detail="the answer is empty")
    parsed = None if completion_format is None else strip_completion_wrappers(text, "stop", completion_format)
    if isinstance(parsed, UnreadableCompletion):
        return ModelPrediction(
            (text,), ("",), unscored=_UNSCORED_REASONS.get(parsed.kind, "no_answer"), detail=parsed.reason
        )
    return ModelPrediction((text,), (parsed.text if parsed else text.strip(),))


def ask_tested_model(
    work: BatchInProgress,
    questions: Sequence[A],
    make_prompt: Callable[[A], FilledPrompt],
    completion_format: CompletionFormat = PLAIN_TEXT_FORMAT,
) -> Iterator[tuple[A, ModelPrediction]]:
    """Send each question's prompt to the model under test, once; yield (question, answer) in order."""
    service, model = work.run.services.model(get_evaluation_params(work)["model"])
    calls = [
        make_chat_call(
            service.identity, model.name, make_prompt(row), model.request_profile(), keeps_empty_completions=True
        )
        for row in questions
    ]
    records = work.get_call_records(service, ((row.id, call) for row, call in zip(questions, calls, strict=True)))
    for row, call in zip(questions, calls, strict=True):
        reply = records[call.key].reply()
        work.retryable_rows += reply.transient
        yield row, parse_model_response(reply, call.key, completion_format)


def parse_model_response(
    response: CallResponse, call_key: str, completion_format: CompletionFormat = PLAIN_TEXT_FORMAT
) -> ModelPrediction:
    """Parse a model's response by a completion format; `call_key`: of its call."""
    if response.status != "ok":
        error = response.error or "no reason given"
        unscored = _UNSCORED_REASONS.get(error.partition(":")[0], "model_failed")
        given = ModelPrediction(unscored=unscored, detail=error, call=call_key)
        # a refusal is the model's own outcome and used tokens; other errors are not the model's
        return _add_token_usage_and_latency(given, response) if unscored == "refused" else given
    chat = parse_chat_response(response.body)
    given = parse_prediction_samples(chat.texts, chat.finish, completion_format)
    calls = chat.tool_calls[0] if chat.tool_calls else ()
    return replace(_add_token_usage_and_latency(given, response), call=call_key, tool_calls=calls)


def _add_token_usage_and_latency(prediction: ModelPrediction, response: CallResponse) -> ModelPrediction:
    return replace(prediction, tokens_in=response.tokens_in, tokens_out=response.tokens_out, seconds=response.latency_s)


def parse_prediction_samples(
    texts: Sequence[str], finish_reasons: Sequence[str], completion_format: CompletionFormat
) -> ModelPrediction:
    """Parse the samples of a response, given one text and one finish reason per sample."""
    each = [
        strip_completion_wrappers(text, finish, completion_format)
        for text, finish in zip(texts, finish_reasons, strict=True)
    ]
    read = tuple(
        "" if isinstance(one, UnreadableCompletion) or is_token_limit_reached(finish) else one.text
        for one, finish in zip(each, finish_reasons, strict=True)
    )
    unscored: UnscoredReason = ""
    detail = ""
    if not any(read):
        first = each[0]
        unscored = (
            _UNSCORED_REASONS.get(first.kind, "no_answer") if isinstance(first, UnreadableCompletion) else "cut_off"
        )
        detail = (
            first.reason
            if isinstance(first, UnreadableCompletion)
            else "the token limit ended the answer before it was whole"
        )
    return ModelPrediction(tuple(texts), read, ", ".join(dict.fromkeys(finish_reasons)), unscored, detail)


def run_dialogues(
    work: BatchInProgress, evaluation: Evaluation, questions: Sequence[A]
) -> Iterator[tuple[A, ModelPrediction]]:
    """Run the dialogues of all questions together, turn by turn; yield (question, answer) in order."""
    params = work.inputs(evaluation.inputs_model).params
    rows = {row.id: row for row in questions}
    held = {row.id: evaluation.start_dialogue(row, params) for row in questions}
    wanted: dict[str, Any] = {row_id: next(dialogue) for row_id, dialogue in held.items()}
    answers: dict[str, ModelPrediction] = {}

    def go_on(row_id: str, came: Any) -> None:
        del wanted[row_id]
        try:
            wanted[row_id] = held[row_id].send(came)
        except StopIteration as ended:
            answers[row_id] = ended.value

    while wanted:
        # all lookups come before the next prompts, so that the prompts are sent together
        if looks := [(row_id, each) for row_id, each in wanted.items() if not isinstance(each, FilledPrompt)]:
            if evaluation.look_up is None:
                raise TypeError(
                    f"{evaluation.name}: its dialogue requests the lookup {looks[0][1]!r}, but the evaluation defines no look_up"
                )
            for (row_id, _), found in zip(looks, evaluation.look_up(work, looks), strict=True):
                go_on(row_id, found)
            continue
        asks = dict(wanted)
        predictions = ask_tested_model(
            work,
            [rows[row_id] for row_id in asks],
            lambda row: asks[row.id],  # noqa: B023 - used at once
            evaluation.completion_format,
        )
        for row, given in list(predictions):
            go_on(row.id, given)
    yield from ((row, answers[row.id]) for row in questions)


B = TypeVar("B", bound=EvaluationPrediction)
V = TypeVar("V")
R = TypeVar("R", bound=EvaluationPrediction)


@dataclass(frozen=True, slots=True)
class AnswerJudgment(Generic[V]):
    """A judge's verdict on one answer."""

    verdict: V | None
    """None: no verdict could be had."""
    unscored: UnscoredReason = ""
    detail: str = ""
    call: str = ""
    """Key of the recorded call; empty for the judge `exact`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingSpec(Generic[B, V, R]):
    """How the answers of one benchmark are judged."""

    make_prompt: Callable[[B], FilledPrompt]
    """Answer → the judge's prompt, with the answer inside its frame (core/evaluation/answer_frame.py)."""
    completion_format: CompletionFormat
    parse_verdict: Callable[[B, list[str]], V | UnreadableCompletion]
    """Answer and the lines of the judge's reply → its last verdict."""
    judge_exactly: Callable[[B], V]
    """Answer → verdict of the program that judges where the judge is `exact`."""
    row_model: type[R]
    """Row model of judged answers."""
    make_judged_row: Callable[[B, AnswerJudgment[V] | None, str], R]
    """Answer, its judgment (None: it was not judged) and the judge's name → the judged row."""
    needs_verdict: Callable[[B], bool] = lambda row: not row.unscored
    """Answer → whether it is judged."""


def judge_predictions(work: BatchInProgress, rows: Sequence[B], spec: JudgingSpec[B, V, R]) -> Iterator[R]:
    """Judge all answers that can be judged; yield the judged rows in the order given."""
    judgments = dict(_iterate_judgments(work, [row for row in rows if spec.needs_verdict(row)], spec))
    name = get_judge_name(work.run.manifest)
    return (spec.make_judged_row(row, judgments.get(row.id), name) for row in rows)


def _iterate_judgments(
    work: BatchInProgress, rows: Sequence[B], spec: JudgingSpec[B, V, R]
) -> Iterator[tuple[str, AnswerJudgment[V]]]:
    """Yield (answer id, judgment) pairs."""
    judge: str = get_evaluation_params(work)["judge"]
    if judge == EXACT_JUDGE:
        yield from ((row.id, AnswerJudgment(spec.judge_exactly(row))) for row in rows)
        return
    asked = [(row.id, row, spec.make_prompt(row)) for row in rows]
    for row, answer in work.prompt_model(judge, asked, spec.completion_format, spec.parse_verdict):
        if isinstance(answer.parsed, Reject):
            # a judge's own refusal or truncated reply is no verdict on the answer
            reason: UnscoredReason = (
                "judge_unreadable" if answer.parsed.reason in UNREADABLE_COMPLETION_KINDS else "judge_failed"
            )
            work.retryable_rows += answer.parsed.retryable
            yield row.id, AnswerJudgment(None, reason, answer.parsed.detail, answer.key)
        else:
            yield row.id, AnswerJudgment(answer.parsed, call=answer.key)
