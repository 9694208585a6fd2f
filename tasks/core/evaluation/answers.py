"""Answers of a model under test: their samples, answers files, reading of short answers, and comparison with gold answers.

Missing, extra and repeated answers of a file are reported; of two answers to one question the first counts.

A model is asked for its answer only. Other text is ignored if it is certainly not the answer: the answer is the last line
labelled as such, else the first line. Nothing is repaired.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from factmill.tasks.core.calls.chat import ToolCall
from factmill.tasks.core.evaluation.rows import EvaluationPrediction, EvaluationQuestion, UnscoredReason
from factmill.tasks.errors import SourceError
from factmill.tasks.text.sanitize import replace_lone_surrogates_by_question_mark
from factmill.tasks.text.text_normalization import (
    contains_whole_words,
    fold_case_accents_and_punctuation,
    normalize_answer,
)

B = TypeVar("B", bound=EvaluationPrediction)


@dataclass(frozen=True, slots=True)
class ModelPrediction:
    """A model's output for one question: one text per sample."""

    texts: tuple[str, ...] = ()
    """Texts as given; the first is the answer."""
    read_texts: tuple[str, ...] = ()
    """The same texts without wrappers; empty where a text is empty, refuses or was cut off."""
    finish: str = ""
    unscored: UnscoredReason = ""
    """Why no sample can be read; empty if one can."""
    detail: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    """Recorded time of the model's response."""
    call: str = ""
    drawn_texts: tuple[str, ...] = ()
    """Intermediate samples, if they are not `texts`."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Tool calls; a text next to them is no answer."""

    def make_prediction(self, asked: EvaluationQuestion, model: type[B], name: str, /, **more: object) -> B:
        """Return the answer's row; `name`: the model under test; `more` adds columns of the row model or replaces columns."""
        fields = {
            "answer": self.texts[0] if self.texts else "",
            "answer_read": self.read_texts[0] if self.read_texts else "",
            "samples": list(self.drawn_texts or (self.texts[1:] and self.texts)),
            "model": name,
        }
        for column in ("finish", "unscored", "detail", "tokens_in", "tokens_out", "call"):
            fields[column] = getattr(self, column)
        return asked.extend_to(model, **(fields | more))


K = TypeVar("K", bound=Hashable)

_LABELLED_ANSWER = re.compile(
    r"[\s*_`#>-]*(?:(?:the|my|final|correct|aggregated|short) )*(?:answer|response)[\s*_`]*[:：][\s*_`]*(?P<answer>\S.*)",
    re.IGNORECASE,
)


def read_short_answer(text: str) -> str:
    """Return the one-line answer in a completion without wrappers (core/completions.py); empty if it is empty."""
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    labelled = [found["answer"].strip() for found in map(_LABELLED_ANSWER.fullmatch, lines) if found]
    return (labelled[-1:] or lines[:1] or [""])[0]


def contains_accepted_answer(answer: str, accepted: Iterable[str]) -> bool:
    """Return whether an answer contains an accepted one as whole words, ignoring case and accents."""
    folded = fold_case_accents_and_punctuation(answer)
    return any(
        contains_whole_words(folded, fold_case_accents_and_punctuation(each).strip())
        for each in accepted
        if each.strip()
    )


def matches_accepted_answer(answer: str, accepted: Iterable[str]) -> bool:
    """Return whether an answer equals an accepted one in normal form, or, if that is empty (The The), ignoring case."""
    return any(
        normalize_answer(answer) == form if (form := normalize_answer(each)) else answer.casefold() == each.casefold()
        for each in accepted
    )


class CommonestAnswerGuesser(Generic[K]):
    """Built-in guesser that gives the commonest gold answer of each kind of question."""

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

        `golds`: the question's own answers, each counted once less, so that a guess is wrong if all answers differ.
        """
        found = self._counts[kind]
        foremost = next((text for text in self._ranked[kind] if text not in golds), None)
        others = [] if foremost is None else [(-found[foremost], foremost)]
        times, text = min([*others, *((1 - found[gold], gold) for gold in golds)])
        return text if times else ""


DELIVERY_REASONS: tuple[UnscoredReason, ...] = ("model_failed", "lookup_failed", "refused", "cut_off", "no_answer")
"""Reasons that an answers file may give for an answer that cannot be scored."""


@dataclass(frozen=True, slots=True)
class UnscorableAnswerEntry:
    """An entry of an answers file that says why there is no answer to score, such as a model that could not be reached."""

    reason: UnscoredReason
    detail: str = ""
    text: str = ""
    """What was answered, if anything was."""


EXPECTED_ANSWER_OBJECT = 'objects like {"id": "…", "answer": "…"}, plus "setting" if there are several, and the "build" of the questions file'
_MAX_NAMED_IDS = 3
"""Maximum number of ids named per kind of mismatch."""


@dataclass(frozen=True, slots=True)
class ParsedAnswersFile:
    """Parsed answers file."""

    answers: Mapping[tuple[str, str], str | UnscorableAnswerEntry]
    """(setting, question id) → answer; the setting is empty if the file names none."""
    repeated_questions: tuple[str, ...]
    """Ids of questions that the file answers more than once in one setting."""
    build: str = ""
    """Build whose questions it answers; empty if it names none."""

    def find_answer_to(self, setting: str, question_id: str) -> str | UnscorableAnswerEntry | None:
        """Return the answer to a question in a setting, None if missing; an answer without a setting applies to all."""
        return self.answers.get((setting, question_id), self.answers.get(("", question_id)))

    def format_mismatches(self, asked_questions: Collection[tuple[str, str]]) -> dict[str, str]:
        """Return mismatches with `asked_questions` (setting, question id), kind → `N: first ids`; empty if none."""
        wanted = set(asked_questions)
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
        found = {"missing": missing, "extra": extra, "doubled": list(self.repeated_questions)}
        return {f"answers {kind}": _format_count_and_first_ids(ids) for kind, ids in found.items() if ids}

    def require_any_match(self, asked: Collection[tuple[str, str]], where: str) -> None:
        """Raise SourceError if no answer matches a question `asked` (setting, question id); `where`: source of the answers."""
        if self.answers and all(self.find_answer_to(*each) is None for each in asked):
            given, known = (
                _format_count_and_first_ids([" ".join(filter(None, each)) for each in ids])
                for ids in (self.answers, sorted(asked))
            )
            raise SourceError(
                f"{where}: no answer matches a question of this evaluation. Answers, by setting and id: {given}. Questions: {known}. Name the "
                "build whose questions were answered (--build BUILD, in Python source=) and its settings"
            )


def parse_answers_file(lines: Iterable[tuple[int, Any]], file: str) -> ParsedAnswersFile:
    """Parse the numbered objects of an answers file; SourceError names file, row and what was expected."""
    answers: dict[tuple[str, str], str | UnscorableAnswerEntry] = {}
    doubled: list[str] = []
    build = ""
    for number, read in lines:
        key, answer, of = _parse_keyed_answer_and_build(read, f"{file}, row {number}")
        if of and build and of != build:
            raise SourceError(
                f"{file}, row {number}: this answer is for build {of}, earlier ones are for build {build}; expected answers for "
                "a single build in one file"
            )
        build = build or of
        if key in answers:
            doubled.append(key[1])
        answers.setdefault(key, answer)
    return ParsedAnswersFile(answers, tuple(dict.fromkeys(doubled)), build)


def _parse_keyed_answer_and_build(read: Any, where: str) -> tuple[tuple[str, str], str | UnscorableAnswerEntry, str]:
    if not isinstance(read, dict):
        raise SourceError(f"{where}: found {type(read).__name__}; expected {EXPECTED_ANSWER_OBJECT}")
    given = {name: "" if read.get(name) is None else read[name] for name in ("id", "setting", "answer", "build")}
    wrong = [name for name, value in given.items() if not isinstance(value, str)]
    wrong += [name for name in ("id", "answer") if name not in read]
    if wrong or not given["id"]:
        raise SourceError(
            f"{where}: {wrong[0] if wrong else 'id'} is missing or not text; expected {EXPECTED_ANSWER_OBJECT}"
        )
    text = replace_lone_surrogates_by_question_mark(given["answer"])
    answer: str | UnscorableAnswerEntry = text
    if reason := read.get("unscored"):
        detail = read.get("detail") or ""
        if reason not in DELIVERY_REASONS or not isinstance(detail, str):
            raise SourceError(
                f"{where}: unscored is {reason!r}, detail {detail!r}; expected one of {', '.join(DELIVERY_REASONS)}, and a sentence"
            )
        answer = UnscorableAnswerEntry(reason, replace_lone_surrogates_by_question_mark(detail), text)
    return (given["setting"], given["id"]), answer, given["build"]


def _format_count_and_first_ids(ids: list[str]) -> str:
    named = ", ".join(ids[:_MAX_NAMED_IDS])
    return f"{len(ids)}: {named}{' …' if len(ids) > _MAX_NAMED_IDS else ''}"
