"""Answers that another program made: one JSON object a line, `{"id": …, "answer": …}`, `setting` where there are several.

What a file lacks, has beside and has twice is told; of two answers to one question the first counts.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks.errors import SourceError
from tasks.text.whole import whole_text

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
