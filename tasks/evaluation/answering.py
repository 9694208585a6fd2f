"""How a model under test is asked: once. What it says is kept as it is; what cannot be read is unscored, with its reason."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from tasks.core.calls.call import Reply
from tasks.core.calls.chat import call_chat, read_chat
from tasks.core.evaluation.answers_file import EXPECTED, AnswersFile, read_answers
from tasks.core.evaluation.given import Given
from tasks.core.evaluation.rows import Asked, Unscored
from tasks.core.prompts import Ask
from tasks.core.receipts import Receipt
from tasks.core.replies import CUT, TEXT, Form, Unreadable, read_said
from tasks.core.rows import arrow_table
from tasks.engine.batches import Work
from tasks.evaluation.record import ANSWERS, BUILT_IN, read_params
from tasks.storage.source_files import SourceFile, iterate_json

A = TypeVar("A", bound=Asked)

_REASONS: dict[str, Unscored] = {"refused": "refused", "cut_off": "cut_off", "empty_reply": "no_answer"}
"""How a reply that says nothing ends → why it is unscored."""


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
    if sends_nothing(work):
        keys = [(row.setting, row.question_id) for row in rows]
        said = _find_ready(work, keys, lambda: map(oracle, rows), lambda: map(guess, rows))
        taken = partial(_take, form=form if work.files(ANSWERS) else None)
        yield from ((row, taken(text)) for row, text in zip(rows, said, strict=True))
    else:
        yield from ask_model(work, rows, fill, form)


def answer_at_once(
    work: Work,
    asked: pa.Table,
    oracle: Callable[[], Iterable[str]],
    guess: Callable[[], Iterable[str]],
    read: Callable[[str], str] = str.strip,
) -> pa.Table:
    """Return questions (rows of `Asked`) with the columns of `Answer`, where nothing is sent: whole columns at once.

    `oracle`, `guess`: what the built-in models say to each; `read`: an answer as it is scored.
    """
    keys = zip(asked["setting"].to_pylist(), asked["question_id"].to_pylist(), strict=True)
    said = list(_find_ready(work, list(keys), oracle, guess))
    form = TEXT if work.files(ANSWERS) else None
    taken = {text: _take(text, form) for text in set(said)}
    known = {text: read(given.read[0]) if given.read else "" for text, given in taken.items()}
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
        "model": pa.repeat(name_answerer(work), len(said)),
        "call": none,
    }
    for name, column in columns.items():
        asked = asked.append_column(name, pa.array(column) if isinstance(column, list) else column)
    return asked


def sends_nothing(work: Work) -> bool:
    """True where the answers are those of a file or of a built-in model."""
    return bool(work.files(ANSWERS)) or read_params(work)["model"] in BUILT_IN


def _find_ready(
    work: Work,
    keys: Sequence[tuple[str, str]],
    oracle: Callable[[], Iterable[str]],
    guess: Callable[[], Iterable[str]],
) -> Iterable[str | None]:
    """Return the answer of a file or of a built-in model to each (setting, question id)."""
    if files := work.files(ANSWERS):
        found = load_answers(files[0])
        return [found.find(*key) for key in keys]
    says: dict[str, Callable[[], Iterable[str]]] = {
        "oracle": oracle,
        "guesser": guess,
        "silent": lambda: [""] * len(keys),
    }
    return says[read_params(work)["model"]]()


def name_answerer(work: Work) -> str:
    """Return what the model under test is called."""
    return str(work.run.lock["author"])


@lru_cache(maxsize=4)
def load_answers(file: SourceFile) -> AnswersFile:
    """Read a file of answers, once a process; SourceError says what is wrong with it."""
    return read_answers(iterate_json(file, EXPECTED), Path(file.path).name)


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
    calls = chat.calls[0] if chat.calls else ()
    return Given(chat.texts, read, finish, unscored, detail, reply.tokens_in, reply.tokens_out, key, calls)


def finish_asked(work: Work, asked: Iterable[A] | pa.Table, model: type[A]) -> Receipt:
    """Finish the first step of an evaluation: every question that is asked is a row that came in."""
    table = asked if isinstance(asked, pa.Table) else arrow_table(model, asked)
    work.rows_in = table.num_rows
    return work.finish_table(table, model)
