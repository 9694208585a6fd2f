"""Answers of a model under test: as it gave them, as a file holds them, as short answers are read, and when one is accepted.

What a file lacks, has beside and has twice is told; of two answers to one question the first counts.

A model is asked for its answer alone. What it says beside that is passed over where it is surely none of it: the answer is
what stands on the last line that is labelled so, else the first line. Nothing is mended.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from factmill.tasks.core.calls.chat import ToolCall
from factmill.tasks.core.evaluation.rows import Answer, Asked, Unscored
from factmill.tasks.errors import SourceError
from factmill.tasks.text.matching import has_words, normalise
from factmill.tasks.text.whole import whole_text

B = TypeVar("B", bound=Answer)


@dataclass(frozen=True, slots=True)
class Given:
    """What a model said to one question: one text a sample."""

    texts: tuple[str, ...] = ()
    """As given; the first is the answer."""
    read: tuple[str, ...] = ()
    """Each without what was put around it; empty where it says nothing, refuses or was cut off."""
    finish: str = ""
    unscored: Unscored = ""
    """Why no sample can be read; empty where one can."""
    detail: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    """In which the model answered, as recorded."""
    call: str = ""
    drawn: tuple[str, ...] = ()
    """What was drawn on the way, where that is not `texts`."""
    calls: tuple[ToolCall, ...] = ()
    """Functions that it calls; what it says beside them is no answer."""

    def extend(self, asked: Asked, model: type[B], name: str, /, **more: object) -> B:
        """Return the row of an answer; `more` adds the model's own columns, and replaces what is made of the samples."""
        told = {
            "answer": self.texts[0] if self.texts else "",
            "answer_read": self.read[0] if self.read else "",
            "samples": list(self.drawn or (self.texts[1:] and self.texts)),
            **{
                column: getattr(self, column)
                for column in ("finish", "unscored", "detail", "tokens_in", "tokens_out", "call")
            },
            "model": name,
        }
        return asked.extend(model, **(told | more))


K = TypeVar("K", bound=Hashable)

_LABELLED = re.compile(
    r"[\s*_`#>-]*(?:(?:the|my|final|correct|aggregated|short) )*(?:answer|response)[\s*_`]*[:：][\s*_`]*(?P<answer>\S.*)",
    re.IGNORECASE,
)


def read_answer(text: str) -> str:
    """Return the answer that a reply, undressed (core/replies.py), holds, on one line; empty where it says nothing."""
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    labelled = [found["answer"].strip() for found in map(_LABELLED.fullmatch, lines) if found]
    return (labelled[-1:] or lines[:1] or [""])[0]


def holds_accepted(answer: str, accepted: Iterable[str]) -> bool:
    """Return whether an answer holds one of the accepted ones as whole words, in small letters without accents."""
    return any(has_words(answer, each) for each in accepted if each.strip())


def is_accepted(answer: str, accepted: Iterable[str]) -> bool:
    """Return whether an answer is one of the accepted ones in normal form (text/matching.py); one whose normal form is empty
    (The The) is compared by its letters in any case."""
    return any(
        normalise(answer) == normalise(each) if normalise(each) else answer.casefold() == each.casefold()
        for each in accepted
    )


class CommonestAnswers(Generic[K]):
    """The commonest gold answers of each kind of question: what the built-in guesser says."""

    def __init__(self, golds: Iterable[tuple[K, str]]) -> None:
        """Count (kind, gold answer) of every question."""
        self._counts: dict[K, Counter[str]] = defaultdict(Counter)
        for kind, gold in golds:
            self._counts[kind][gold] += 1
        self._ranked = {
            kind: sorted(found, key=lambda text: (-found[text], text)) for kind, found in self._counts.items()
        }

    def guess(self, kind: K, *golds: str) -> str:
        """Return the commonest answer to the other questions of a kind, ties by text; empty where there is none.

        `golds`: the question's own answers, each of which counts once less: where all answers differ a guess is wrong.
        """
        found = self._counts[kind]
        foremost = next((text for text in self._ranked[kind] if text not in golds), None)
        others = [] if foremost is None else [(-found[foremost], foremost)]
        times, text = min([*others, *((1 - found[gold], gold) for gold in golds)])
        return text if times else ""


EXPECTED = 'objects like {"id": "…", "answer": "…"}, with "setting" where there are several, and the "build" of a questions file'
_MOST_NAMED = 3
"""Ids named of each kind of trouble."""


@dataclass(frozen=True, slots=True)
class AnswersFile:
    """The answers of a file."""

    answers: Mapping[tuple[str, str], str]
    """(setting, question id) → answer; the setting is empty where the file names none."""
    doubled: tuple[str, ...]
    """Questions that the file answers more than once, in one setting."""
    build: str = ""
    """The build whose questions it answers; empty where it names none."""

    def find(self, setting: str, question_id: str) -> str | None:
        """Return the answer to a question in a setting; one that names no setting holds for each."""
        return self.answers.get((setting, question_id), self.answers.get(("", question_id)))

    def describe(self, asked: Collection[tuple[str, str]]) -> dict[str, str]:
        """Return what does not fit the (setting, question id) asked, as `N: first ids`; nothing where all fits."""
        wanted = set(asked)
        questions = {question_id for _, question_id in wanted}
        missing = [
            question_id
            for setting, question_id in sorted(wanted)
            if (setting, question_id) not in self.answers and ("", question_id) not in self.answers
        ]
        extra = [
            question_id
            for setting, question_id in self.answers
            if (setting, question_id) not in wanted and (setting or question_id not in questions)
        ]
        found = {"missing": missing, "extra": extra, "doubled": list(self.doubled)}
        return {f"answers {kind}": _name_first(ids) for kind, ids in found.items() if ids}

    def require_known(self, asked: Collection[tuple[str, str]], where: str) -> None:
        """SourceError where none of the answers is to one of the (setting, question id) asked; `where`: whose answers they are."""
        if self.answers and all(self.find(*each) is None for each in asked):
            given, known = (
                _name_first([" ".join(filter(None, each)) for each in ids]) for ids in (self.answers, sorted(asked))
            )
            raise SourceError(
                f"{where}: no answer is to a question that is asked. Answered, by setting and id: {given}. Asked: {known}. Name the "
                "build whose questions were answered (--build BUILD, in Python source=), and its settings"
            )


def read_answers(lines: Iterable[tuple[int, Any]], file: str) -> AnswersFile:
    """Read the objects of a file, each with its number; SourceError names file, row and what was expected."""
    answers: dict[tuple[str, str], str] = {}
    doubled: list[str] = []
    build = ""
    for number, read in lines:
        key, answer, of = _read_object(read, f"{file}, row {number}")
        if of and build and of != build:
            raise SourceError(
                f"{file}, row {number}: an answer to a question of {of}, after answers to questions of {build}; expected the answers "
                "to one build's questions in a file"
            )
        build = build or of
        if key in answers:
            doubled.append(key[1])
        answers.setdefault(key, answer)
    return AnswersFile(answers, tuple(dict.fromkeys(doubled)), build)


def _read_object(read: Any, where: str) -> tuple[tuple[str, str], str, str]:
    if not isinstance(read, dict):
        raise SourceError(f"{where}: {type(read).__name__} found; expected {EXPECTED}")
    given = {name: "" if read.get(name) is None else read[name] for name in ("id", "setting", "answer", "build")}
    wrong = [name for name, value in given.items() if not isinstance(value, str)]
    wrong += [name for name in ("id", "answer") if name not in read]
    if wrong or not given["id"]:
        raise SourceError(f"{where}: {wrong[0] if wrong else 'id'} is missing or no text; expected {EXPECTED}")
    return (given["setting"], given["id"]), whole_text(given["answer"]), given["build"]


def _name_first(ids: list[str]) -> str:
    named = ", ".join(ids[:_MOST_NAMED])
    return f"{len(ids)}: {named}{' …' if len(ids) > _MOST_NAMED else ''}"
