"""How a model under test is asked, once, and how a judge is asked about its answers. What cannot be read is unscored, with its reason.

A dialogue is a generator that does nothing itself: it yields what it wants next, a prompt or something to be looked up, is
sent what came of it, and returns the answer. So a whole batch of them is held side by side here, a round at a time, and
another harness can hold one with a model of its own. Each turn is a recorded call of its own: a run that was killed is
led through the turns that were answered, and goes on behind them.
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
"""How a reply that says nothing ends → why it is unscored."""


def answer_at_once(work: Work, evaluation: Evaluation, asked: pa.Table) -> pa.Table:
    """Return questions (rows of `asked`) as rows of `answers`, where nothing is sent."""
    name = name_answerer(work)
    if files := work.files(ANSWERS):
        return take_answers(evaluation, asked, load_answers(files[0]), name)
    return answer_built_in(evaluation, asked, gather_measured(work, evaluation), read_params(work)["model"], name)


def take_answers(evaluation: Evaluation, asked: pa.Table, answers: AnswersFile, name: str) -> pa.Table:
    """Return questions (rows of `asked`) with the answers that another program made; `name`: what it is called."""
    return _fill_columns(evaluation, asked, [answers.find(*key) for key in list_keys(asked)], name, evaluation.form)


def answer_built_in(evaluation: Evaluation, asked: pa.Table, rows: pa.Table, model: str, name: str) -> pa.Table:
    """Return questions (rows of `asked`) with the answers of a built-in model; `rows`: of the measured build."""
    say = {"oracle": evaluation.oracle, "guesser": evaluation.guess}.get(model)
    said = [""] * asked.num_rows if say is None else map(say(rows), rows_from_arrow(evaluation.asked, asked))
    return _fill_columns(evaluation, asked, list(said), name, None)


def _fill_columns(
    evaluation: Evaluation, asked: pa.Table, said: Sequence[str | None], name: str, form: Form | None
) -> pa.Table:
    """Return questions with the columns of `Answer`, whole columns at once; `form`: as `_take` has it."""
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
            # what only a dialogue has: its searches and the like
            empty: Any = [] if pa.types.is_list(field.type) else "" if pa.types.is_string(field.type) else 0
            columns[field.name] = pa.array([empty] * len(said), field.type)
    for column, values in columns.items():
        asked = asked.append_column(column, pa.array(values) if isinstance(values, list) else values)
    return asked.select(schema.names).cast(schema)


def sends_nothing(work: Work) -> bool:
    """True where the answers are those of a file or of a built-in model."""
    return bool(work.files(ANSWERS)) or read_params(work)["model"] in BUILT_IN


def name_answerer(work: Work) -> str:
    """Return what the model under test is called."""
    return str(work.run.lock["author"])


def _take(text: str | None, form: Form | None) -> Given:
    """Return what an answer comes to; `form`: it is read as a server's; None: it is a built-in model's, and bare."""
    if text is None:
        return Given(unscored="missing", detail="the file of answers has none to this question")
    if not text.strip():
        return Given((text,), ("",), unscored="no_answer", detail="the answer is empty")
    said = None if form is None else read_said(text, "stop", form)
    if isinstance(said, Unreadable):
        return Given((text,), ("",), unscored=_REASONS.get(said.kind, "no_answer"), detail=said.reason)
    return Given((text,), (said.text if said else text.strip(),))


def ask_model(work: Work, asked: Sequence[A], fill: Callable[[A], Ask], form: Form = TEXT) -> Iterator[tuple[A, Given]]:
    """Put every question to the model of the world that the evaluation measures, once."""
    service, model = work.run.services.model(read_params(work)["model"])
    calls = [call_chat(service.identity, model.name, fill(row), model.profile(), once=True) for row in asked]
    records = work.call(service, ((row.id, call) for row, call in zip(asked, calls, strict=True)))
    for row, call in zip(asked, calls, strict=True):
        reply = records[call.key].reply()
        work.unsettled += reply.transient
        yield row, read_reply(reply, call.key, form)


def read_reply(reply: Reply, key: str, form: Form = TEXT) -> Given:
    """Return what a model said in a reply, read in a form."""
    if reply.status != "ok":
        error = reply.error or "no reason given"
        unscored = _REASONS.get(error.partition(":")[0], "model_failed")
        given = Given(unscored=unscored, detail=error, call=key)
        # a refusal is an outcome of the model, which has its tokens; the others say nothing of it
        return _count(given, reply) if unscored == "refused" else given
    chat = read_chat(reply.body)
    given = read_given(chat.texts, chat.finish, form)
    calls = chat.calls[0] if chat.calls else ()
    return replace(_count(given, reply), call=key, calls=calls)


def _count(given: Given, reply: Reply) -> Given:
    return replace(given, tokens_in=reply.tokens_in, tokens_out=reply.tokens_out, seconds=reply.latency_s)


def read_given(texts: Sequence[str], finishes: Sequence[str], form: Form) -> Given:
    """Return what the samples of a reply say, one text and finish reason each."""
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
    """Put every question to the evaluation's model, all side by side, a turn at a time; yield (question, answer) in order."""
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
        # all look-ups before the next prompts, so that these are sent together
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
    """What a judge said of an answer."""

    verdict: V | None
    """None where there is none."""
    unscored: Unscored = ""
    detail: str = ""
    call: str = ""
    """Key of the recorded call; empty for the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging(Generic[B, V, R]):
    """How a benchmark's answers are judged."""

    fill: Callable[[B], Ask]
    """An answer, inside its frame (core/evaluation/frame.py), as the judge's prompt."""
    form: Form
    read: Callable[[B, list[str]], V | Unreadable]
    """A reply's last verdict."""
    compare: Callable[[B], V]
    """The verdict of the program that stands in where the judge is `exact`."""
    row: type[R]
    """Row model of judged answers."""
    mark: Callable[[B, Judged[V] | None, str], R]
    """An answer, what was said of it and by whom → the judged row; None: nothing was asked about it."""
    wants: Callable[[B], bool] = lambda row: not row.unscored
    """Whether a judge is asked about an answer."""


def judge_rows(work: Work, rows: Sequence[B], judging: Judging[B, V, R]) -> Iterator[R]:
    """Have every answer judged that can be; yield the judged rows in the order given."""
    said = dict(_judge(work, [row for row in rows if judging.wants(row)], judging))
    name = name_judge(work.run.lock)
    return (judging.mark(row, said.get(row.id), name) for row in rows)


def _judge(work: Work, rows: Sequence[B], judging: Judging[B, V, R]) -> Iterator[tuple[str, Judged[V]]]:
    """Yield (answer's id, what the judge said of it)."""
    judge: str = read_params(work)["judge"]
    if judge == EXACT:
        yield from ((row.id, Judged(judging.compare(row))) for row in rows)
        return
    asked = [(row.id, row, judging.fill(row)) for row in rows]
    for row, answer in work.ask(judge, asked, judging.form, judging.read):
        if isinstance(answer.read, Reject):
            # a judge's own refusal or cut reply is no verdict about the answer
            reason: Unscored = "judge_unreadable" if answer.read.reason in UNREADABLE_KINDS else "judge_failed"
            work.unsettled += answer.read.retryable
            yield row.id, Judged(None, reason, answer.read.detail, answer.key)
        else:
            yield row.id, Judged(answer.read, call=answer.key)
