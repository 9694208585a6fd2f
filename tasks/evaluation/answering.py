"""How a model under test is asked: once. What it says is kept as it is; what cannot be read is unscored, with its reason."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from tasks.core.calls.call import Reply
from tasks.core.calls.chat import call_chat, read_chat
from tasks.core.evaluation.answers_file import EXPECTED, AnswersFile, read_answers
from tasks.core.evaluation.rows import Answer, Asked, Unscored
from tasks.core.prompts import Ask
from tasks.core.receipts import Receipt
from tasks.core.replies import CUT, TEXT, Form, Unreadable, read_said
from tasks.core.rows import arrow_table
from tasks.engine.batches import Work
from tasks.evaluation.record import ANSWERS, BUILT_IN, read_params
from tasks.storage.source_files import SourceFile, iterate_json

A = TypeVar("A", bound=Asked)
B = TypeVar("B", bound=Answer)

_REASONS: dict[str, Unscored] = {"refused": "refused", "cut_off": "cut_off", "empty_reply": "no_answer"}
"""How a reply that says nothing ends → why it is unscored."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a model said to one question: one text a sample."""

    texts: tuple[str, ...] = ()
    """As given."""
    read: tuple[str, ...] = ()
    """Each without what was put around it; empty where it says nothing, refuses or was cut off."""
    finish: str = ""
    unscored: Unscored = ""
    """Why no sample can be read; empty where one can."""
    detail: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    call: str = ""

    def extend(self, asked: Asked, model: type[B], name: str, /, **more: object) -> B:
        """Return the row of an answer; `more` adds the model's own columns, and replaces what is made of the samples."""
        told = {
            "answer": self.texts[0] if self.texts else "",
            "answer_read": self.read[0] if self.read else "",
            "samples": list(self.texts) if len(self.texts) > 1 else [],
            **{
                column: getattr(self, column)
                for column in ("finish", "unscored", "detail", "tokens_in", "tokens_out", "call")
            },
            "model": name,
        }
        return asked.extend(model, **(told | more))


def answer_questions(
    work: Work,
    asked: Iterable[A],
    fill: Callable[[A], Ask],
    oracle: Callable[[A], str],
    guess: Callable[[A], str],
    form: Form = TEXT,
) -> Iterator[tuple[A, Given]]:
    """Put every question to the evaluation's model, once; yield (question, what it said) in the order given.

    `fill`: a question as its setting's prompt; `oracle`, `guess`: what the built-in models say, for which, as for a file
    of answers, nothing is sent.
    """
    rows = list(asked)
    answerer: str = read_params(work)["model"]
    if files := work.files(ANSWERS):
        found = load_answers(files[0])
        yield from ((row, _take(found.find(row.setting, row.question_id))) for row in rows)
    elif answerer in BUILT_IN:
        said = {"oracle": oracle, "guesser": guess, "silent": lambda _: ""}[answerer]
        yield from ((row, _take(said(row))) for row in rows)
    else:
        yield from _ask_model(work, answerer, [(row, fill(row)) for row in rows], form)


def name_answerer(work: Work) -> str:
    """Return what the model under test is called."""
    return str(work.run.lock["author"])


@lru_cache(maxsize=4)
def load_answers(file: SourceFile) -> AnswersFile:
    """Read a file of answers, once a process; SourceError says what is wrong with it."""
    return read_answers(iterate_json(file, EXPECTED), Path(file.path).name)


def _take(text: str | None) -> Given:
    if text is None:
        return Given(unscored="missing", detail="the file of answers has none to this question")
    if not text.strip():
        return Given((text,), ("",), unscored="no_answer", detail="the answer is empty")
    return Given((text,), (text.strip(),))


def _ask_model(work: Work, role: str, asks: Sequence[tuple[A, Ask]], form: Form) -> Iterator[tuple[A, Given]]:
    service, model = work.run.services.model(role)
    calls = [call_chat(service.identity, model.name, ask, model.profile(), once=True) for _, ask in asks]
    records = work.call(service, ((row.id, call) for (row, _), call in zip(asks, calls, strict=True)))
    for (row, _), call in zip(asks, calls, strict=True):
        reply = records[call.key].reply()
        work.unsettled += reply.transient
        yield row, _read_reply(reply, call.key, form)


def _read_reply(reply: Reply, key: str, form: Form) -> Given:
    if reply.status != "ok":
        error = reply.error or "no reason given"
        return Given(unscored=_REASONS.get(error.partition(":")[0], "model_failed"), detail=error, call=key)
    chat = read_chat(reply.body)
    each = [read_said(text, finish, form) for text, finish in zip(chat.texts, chat.finish, strict=True)]
    cut = [finish in CUT for finish in chat.finish]
    read = tuple(
        "" if isinstance(one, Unreadable) or is_cut else one.text for one, is_cut in zip(each, cut, strict=True)
    )
    unscored: Unscored = ""
    detail = ""
    if not any(read):
        first = each[0]
        unscored = _REASONS.get(first.kind, "no_answer") if isinstance(first, Unreadable) else "cut_off"
        detail = (
            first.reason if isinstance(first, Unreadable) else "the token limit ended the answer before it was whole"
        )
    finish = ", ".join(dict.fromkeys(chat.finish))
    return Given(chat.texts, read, finish, unscored, detail, reply.tokens_in, reply.tokens_out, key)


def finish_asked(work: Work, asked: Sequence[A], model: type[A]) -> Receipt:
    """Finish the first step of an evaluation: every question that is asked is a row that came in."""
    work.rows_in = len(asked)
    return work.finish_table(arrow_table(model, asked), model)
