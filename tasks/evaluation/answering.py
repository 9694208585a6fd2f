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

from factmill.tasks.core.calls.call import Reply
from factmill.tasks.core.calls.chat import call_chat, read_chat
from factmill.tasks.core.evaluation.answers import AnswersFile, Given
from factmill.tasks.core.evaluation.rows import Answer, Asked, Unscored
from factmill.tasks.core.finish_reasons import is_cut
from factmill.tasks.core.prompts import Ask
from factmill.tasks.core.replies import TEXT, UNREADABLE_KINDS, Form, Unreadable, read_said
from factmill.tasks.core.rows import Reject, arrow_schema, rows_from_arrow
from factmill.tasks.engine.batches import Work
from factmill.tasks.evaluation.measured import gather_measured, load_answers
from factmill.tasks.evaluation.record import ANSWERS, BUILT_IN, EXACT, Evaluation, list_keys, name_judge, read_params

A = TypeVar("A", bound=Asked)

_REASONS: dict[str, Unscored] = {"refused": "refused", "cut_off": "cut_off", "empty_reply": "no_answer"}
"""Kind of unreadable completion → reason why it is unscored."""


def answer_at_once(work: Work, evaluation: Evaluation, asked: pa.Table) -> pa.Table:
    """Return rows of `answers` to questions (rows of `asked`), from a file or a built-in model; sends no requests."""
    name = name_answerer(work)
    if files := work.files(ANSWERS):
        return take_answers(evaluation, asked, load_answers(files[0]), name)
    return answer_built_in(evaluation, asked, gather_measured(work, evaluation), read_params(work)["model"], name)


def take_answers(evaluation: Evaluation, asked: pa.Table, answers: AnswersFile, name: str) -> pa.Table:
    """Return questions (rows of `asked`) with the answers of a file; `name`: of the model that gave them."""
    return _fill_columns(evaluation, asked, [answers.find(*key) for key in list_keys(asked)], name, evaluation.form)


def answer_built_in(evaluation: Evaluation, asked: pa.Table, rows: pa.Table, model: str, name: str) -> pa.Table:
    """Return questions (rows of `asked`) with the answers of a built-in model; `rows`: of the measured build."""
    say = {"oracle": evaluation.oracle, "guesser": evaluation.guess}.get(model)
    said = [""] * asked.num_rows if say is None else map(say(rows), rows_from_arrow(evaluation.asked, asked))
    return _fill_columns(evaluation, asked, list(said), name, None)


def _fill_columns(
    evaluation: Evaluation, asked: pa.Table, said: Sequence[str | None], name: str, form: Form | None
) -> pa.Table:
    """Return questions with the columns of `Answer`, built column by column; `form`: as in `_take`."""
    taken = {text: _take(text, form) for text in set(said)}
    known = {text: evaluation.read(given.read[0]) if given.read else "" for text, given in taken.items()}
    none, zero = pa.repeat("", len(said)), pa.repeat(0, len(said))
    columns = {
        "answer": [text or "" for text in said],
        "answer_read": [known[text] for text in said],
        "samples": pa.array([[]] * len(said), pa.list_(pa.string())),
        "finish": none,
        "unscored": [taken[text].unscored for text in said],
        "detail": [taken[text].detail for text in said],
        "tokens_in": zero,
        "tokens_out": zero,
        "model": pa.repeat(name, len(said)),
        "call": none,
    }
    schema = arrow_schema(evaluation.answers)
    for field in schema:
        if field.name not in (*columns, *asked.column_names):
            # columns that only a dialogue fills, such as its searches
            empty: Any = [] if pa.types.is_list(field.type) else "" if pa.types.is_string(field.type) else 0
            columns[field.name] = pa.array([empty] * len(said), field.type)
    for column, values in columns.items():
        asked = asked.append_column(column, pa.array(values) if isinstance(values, list) else values)
    return asked.select(schema.names).cast(schema)


def sends_nothing(work: Work) -> bool:
    """Return whether the answers come from a file or a built-in model."""
    return bool(work.files(ANSWERS)) or read_params(work)["model"] in BUILT_IN


def name_answerer(work: Work) -> str:
    """Return the name of the model under test."""
    return str(work.run.lock["author"])


def _take(text: str | None, form: Form | None) -> Given:
    """Parse one answer text (None: the file lacks it); `form`: completion format, None for a built-in model."""
    if text is None:
        return Given(unscored="missing", detail="the file of answers has none to this question")
    if not text.strip():
        return Given((text,), ("",), unscored="no_answer", detail="the answer is empty")
    said = None if form is None else read_said(text, "stop", form)
    if isinstance(said, Unreadable):
        return Given((text,), ("",), unscored=_REASONS.get(said.kind, "no_answer"), detail=said.reason)
    return Given((text,), (said.text if said else text.strip(),))


def ask_model(work: Work, asked: Sequence[A], fill: Callable[[A], Ask], form: Form = TEXT) -> Iterator[tuple[A, Given]]:
    """Send each question's prompt to the model under test, once; yield (question, answer) in order."""
    service, model = work.run.services.model(read_params(work)["model"])
    calls = [call_chat(service.identity, model.name, fill(row), model.profile(), once=True) for row in asked]
    records = work.call(service, ((row.id, call) for row, call in zip(asked, calls, strict=True)))
    for row, call in zip(asked, calls, strict=True):
        reply = records[call.key].reply()
        work.unsettled += reply.transient
        yield row, read_reply(reply, call.key, form)


def read_reply(reply: Reply, key: str, form: Form = TEXT) -> Given:
    """Parse a model's response by a completion format; `key`: of its call."""
    if reply.status != "ok":
        error = reply.error or "no reason given"
        unscored = _REASONS.get(error.partition(":")[0], "model_failed")
        given = Given(unscored=unscored, detail=error, call=key)
        # a refusal is the model's own outcome and used tokens; other errors are not the model's
        return _count(given, reply) if unscored == "refused" else given
    chat = read_chat(reply.body)
    given = read_given(chat.texts, chat.finish, form)
    calls = chat.calls[0] if chat.calls else ()
    return replace(_count(given, reply), call=key, calls=calls)


def _count(given: Given, reply: Reply) -> Given:
    return replace(given, tokens_in=reply.tokens_in, tokens_out=reply.tokens_out, seconds=reply.latency_s)


def read_given(texts: Sequence[str], finishes: Sequence[str], form: Form) -> Given:
    """Parse the samples of a response, given one text and one finish reason per sample."""
    each = [read_said(text, finish, form) for text, finish in zip(texts, finishes, strict=True)]
    read = tuple(
        "" if isinstance(one, Unreadable) or is_cut(finish) else one.text
        for one, finish in zip(each, finishes, strict=True)
    )
    unscored: Unscored = ""
    detail = ""
    if not any(read):
        first = each[0]
        unscored = _REASONS.get(first.kind, "no_answer") if isinstance(first, Unreadable) else "cut_off"
        detail = (
            first.reason if isinstance(first, Unreadable) else "the token limit ended the answer before it was whole"
        )
    return Given(tuple(texts), read, ", ".join(dict.fromkeys(finishes)), unscored, detail)


def hold_dialogues(work: Work, evaluation: Evaluation, asked: Sequence[A]) -> Iterator[tuple[A, Given]]:
    """Run the dialogues of all questions together, turn by turn; yield (question, answer) in order."""
    params = work.inputs(evaluation.inputs).params
    rows = {row.id: row for row in asked}
    held = {row.id: evaluation.start(row, params) for row in asked}
    wanted: dict[str, Any] = {row_id: next(dialogue) for row_id, dialogue in held.items()}
    answers: dict[str, Given] = {}

    def go_on(row_id: str, came: Any) -> None:
        del wanted[row_id]
        try:
            wanted[row_id] = held[row_id].send(came)
        except StopIteration as ended:
            answers[row_id] = ended.value

    while wanted:
        # all lookups come before the next prompts, so that the prompts are sent together
        if looks := [(row_id, each) for row_id, each in wanted.items() if not isinstance(each, Ask)]:
            if evaluation.look is None:
                raise TypeError(f"{evaluation.name} looks up {looks[0][1]!r}, and has nothing that does")
            for (row_id, _), found in zip(looks, evaluation.look(work, looks), strict=True):
                go_on(row_id, found)
            continue
        asks = dict(wanted)
        said = ask_model(work, [rows[row_id] for row_id in asks], lambda row: asks[row.id], evaluation.form)  # noqa: B023 - used at once
        for row, given in list(said):
            go_on(row.id, given)
    yield from ((row, answers[row.id]) for row in asked)


B = TypeVar("B", bound=Answer)
V = TypeVar("V")
R = TypeVar("R", bound=Answer)


@dataclass(frozen=True, slots=True)
class Judged(Generic[V]):
    """A judge's verdict on one answer."""

    verdict: V | None
    """None: no verdict could be had."""
    unscored: Unscored = ""
    detail: str = ""
    call: str = ""
    """Key of the recorded call; empty for the judge `exact`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging(Generic[B, V, R]):
    """How the answers of one benchmark are judged."""

    fill: Callable[[B], Ask]
    """Answer → the judge's prompt, with the answer inside its frame (core/evaluation/frame.py)."""
    form: Form
    read: Callable[[B, list[str]], V | Unreadable]
    """Answer and the lines of the judge's reply → its last verdict."""
    compare: Callable[[B], V]
    """Answer → verdict of the program that judges where the judge is `exact`."""
    row: type[R]
    """Row model of judged answers."""
    mark: Callable[[B, Judged[V] | None, str], R]
    """Answer, its judgment (None: it was not judged) and the judge's name → the judged row."""
    wants: Callable[[B], bool] = lambda row: not row.unscored
    """Answer → whether it is judged."""


def judge_rows(work: Work, rows: Sequence[B], judging: Judging[B, V, R]) -> Iterator[R]:
    """Judge all answers that can be judged; yield the judged rows in the order given."""
    said = dict(_judge(work, [row for row in rows if judging.wants(row)], judging))
    name = name_judge(work.run.lock)
    return (judging.mark(row, said.get(row.id), name) for row in rows)


def _judge(work: Work, rows: Sequence[B], judging: Judging[B, V, R]) -> Iterator[tuple[str, Judged[V]]]:
    """Yield (answer id, judgment) pairs."""
    judge: str = read_params(work)["judge"]
    if judge == EXACT:
        yield from ((row.id, Judged(judging.compare(row))) for row in rows)
        return
    asked = [(row.id, row, judging.fill(row)) for row in rows]
    for row, answer in work.ask(judge, asked, judging.form, judging.read):
        if isinstance(answer.read, Reject):
            # a judge's own refusal or truncated reply is no verdict on the answer
            reason: Unscored = "judge_unreadable" if answer.read.reason in UNREADABLE_KINDS else "judge_failed"
            work.unsettled += answer.read.retryable
            yield row.id, Judged(None, reason, answer.read.detail, answer.key)
        else:
            yield row.id, Judged(answer.read, call=answer.key)
